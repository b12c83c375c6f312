"""Where training ends, early stopping looks, and intervals are calibrated: three stretches in time, cut by date.

    |------------- train -------------|--- validation ---|--- calibration ---|
                                  first border       second border         last stamp

Borders are dates, the same for every series, placed so that a share of all rows lies after them; a series that ended
before a border simply has no windows there. Where series begin and end so far apart that many would not be trained on,
each is cut by its own end. Windows never share target rows across a border.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rearview.core.wording import listing, plural
from rearview.data.panel import Finding, Panel
from rearview.data.windows import Windows, list_windows

SHARE = 0.1
MOST_IDLE = 0.2
"""Share of the series that dates which all share may leave without training windows; beyond it each has its own."""
WINDOWS = 40
"""Windows of one series that a held-out stretch should hold where there is room: enough for a 95 % interval."""

_NONE = Windows(np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True)
class Split:
    """The windows of each stretch and the training rows of each series."""

    train: Windows
    validation: Windows
    calibration: Windows
    rows: NDArray[np.int64]
    """[series]: rows of each series that belong to training; the scaler sees no others."""
    note: str
    """A description of the cut, for a person."""


def split(panel: Panel, lookback: int, horizon: int, *, share: float = SHARE, calibrate: bool = True) -> Split:
    """Cut a panel; where it is too short for three stretches, validation goes first, then calibration."""
    lengths = panel.lengths

    def observed(first: NDArray[np.int64] | None, last: NDArray[np.int64] | None) -> Windows:
        return drop_unobserved(panel, list_windows(panel, lookback, horizon, first, last), horizon)

    spare = int(lengths.max()) - lookback - horizon
    parts = 2 if calibrate else 1
    while parts and spare < parts * horizon:
        parts -= 1
    if not parts:
        note = "too short to set rows aside: every row trains, nothing is held out"
        return Split(observed(None, None), _NONE, _NONE, lengths, note)
    stretch = max(horizon + WINDOWS - 1, round(share * int(lengths.max())))
    stretch = max(horizon, min(stretch, spare // (parts + 2)))
    for date in (_shared_date, _own_date):
        dates = [date(panel, stretch * k) for k in range(parts, 0, -1)]
        borders = [np.array([np.searchsorted(panel.stamps[a:b], one) for a, b in panel.bounds()]) for one in dates]
        train = observed(None, borders[0])
        if len(train):
            break
    if len(np.unique(train.series)) < (1 - MOST_IDLE) * panel.series:
        borders = _own_borders(panel, lookback, horizon, stretch, parts)
        train = observed(None, borders[0])
    held_out = [observed(a, b) for a, b in zip(borders, [*borders[1:], lengths], strict=True)]
    if not calibrate:
        return Split(train, held_out[0], _NONE, borders[0], f"the last {stretch} steps stop the training")
    note = f"the last {stretch} steps calibrate the intervals"
    if parts == 1:
        note = f"{note}; too short to hold out rows for early stopping as well"
        return Split(train, _NONE, held_out[0], borders[0], note)
    return Split(train, held_out[0], held_out[1], borders[0], f"{note}, the {stretch} before them stop the training")


def find_short_series(panel: Panel, cut: Split, lookback: int, horizon: int) -> tuple[Finding, ...]:
    """Findings on series that are padded, and on those that a split leaves nothing of to train on."""
    findings = []
    short = [panel.ids[s] for s in np.flatnonzero(panel.lengths < lookback + horizon).tolist()]
    if short:
        message = (
            f"{len(short)} of {panel.series} series {plural(len(short), 'is', 'are')} shorter than lookback + horizon "
            f"= {lookback + horizon} rows ({listing(short)}): windows are padded at the front, and the padding masked."
        )
        findings.append(Finding("repaired", "short_series", len(short), message))
    idle = [panel.ids[s] for s in np.setdiff1d(np.arange(panel.series), cut.train.series).tolist()]
    if idle:
        message = (
            f"{len(idle)} of {panel.series} series {plural(len(idle), 'has', 'have')} too few rows before those held "
            f"out to be trained on ({listing(idle)}): forecast all the same, from what the others taught."
        )
        findings.append(Finding("warning", "untrained_series", len(idle), message))
    return tuple(findings)


def drop_unobserved(panel: Panel, which: Windows, horizon: int) -> Windows:
    """The windows whose future holds at least one observed target: nothing can be learned from the others."""
    if panel.observed is None:
        return which
    some = np.concatenate([[0], np.cumsum(panel.observed[:, : panel.targets].any(axis=1))])
    return which.take(np.flatnonzero(some[which.starts + horizon] > some[which.starts]))


def _shared_date(panel: Panel, steps: int) -> np.generic:
    """The date after which as large a share of all rows lies as `steps` are of the longest series.

    Series that begin and end at different times share the held-out rows fairly so; never later than `_own_date`.
    """
    stamps = np.sort(panel.stamps)
    place = round((1 - steps / int(panel.lengths.max())) * len(stamps))
    return min(stamps[min(place, len(stamps) - 1)], _own_date(panel, steps))


def _own_date(panel: Panel, steps: int) -> np.generic:
    """The date at which the last `steps` rows of the longest series begin."""
    longest = int(np.argmax(panel.lengths))
    return panel.stamps[panel.offsets[longest + 1] - steps]


def _own_borders(panel: Panel, lookback: int, horizon: int, stretch: int, parts: int) -> list[NDArray[np.int64]]:
    """[series] each: rows before each stretch, counted from the series' own end; short ones have shorter stretches."""
    own = np.minimum(stretch, np.maximum(panel.lengths - lookback - horizon, 0) // (parts + 2))
    own = np.where(own < horizon, 0, own)
    return [panel.lengths - k * own for k in range(parts, 0, -1)]
