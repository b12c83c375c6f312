"""Where training ends, early stopping looks, and intervals are calibrated: three stretches in time, cut by date.

    |------------- train -------------|--- validation ---|--- calibration ---|
                                  first border       second border         last stamp

Borders are dates, the same for every series, placed so that a share of all rows lies after them; a series that ended
before a border simply has no windows there. Windows never share target rows across a border.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rearview.data.panel import Panel
from rearview.data.window import Windows, windows

SHARE = 0.1
WINDOWS = 40
"""Windows of one series that a held-out stretch should hold where there is room: enough for a 95 % interval."""


@dataclass(frozen=True, slots=True)
class Split:
    """The windows of each stretch and the training rows of each series."""

    train: Windows
    validation: Windows
    calibration: Windows
    rows: NDArray[np.int64]
    """[series]: rows of each series that belong to training; the scaler sees no others."""
    note: str
    """How it was cut, for a person."""


def split(panel: Panel, lookback: int, horizon: int, *, share: float = SHARE, calibrate: bool = True) -> Split:
    """Cut a panel; where it is too short for three stretches, validation goes first, then calibration."""
    lengths = panel.lengths
    spare = int(lengths.max()) - lookback - horizon
    stretch = max(horizon + WINDOWS - 1, round(share * int(lengths.max())))
    parts = 2 if calibrate else 1
    while parts and spare < parts * horizon:
        parts -= 1
    if not parts:
        train = windows(panel, lookback, horizon)
        empty = train.take(slice(0, 0))
        return Split(train, empty, empty, lengths, "too short to set rows aside: every row trains, nothing is held out")
    stretch = max(horizon, min(stretch, spare // (parts + 2)))
    borders = [_border(panel, stretch * k) for k in range(parts, 0, -1)]
    train = windows(panel, lookback, horizon, None, borders[0])
    held = [windows(panel, lookback, horizon, a, b) for a, b in zip(borders, [*borders[1:], lengths], strict=True)]
    if calibrate and parts == 1:
        return Split(
            train,
            train.take(slice(0, 0)),
            held[0],
            borders[0],
            f"the last {stretch} steps calibrate the intervals; too short to hold out rows for early stopping as well",
        )
    empty = train.take(slice(0, 0))
    calibration = held[1] if parts == 2 else empty
    note = f"the last {stretch} steps calibrate the intervals, the {stretch} before them stop the training"
    if not calibrate:
        note = f"the last {stretch} steps stop the training"
    return Split(train, held[0], calibration, borders[0], note)


def _border(panel: Panel, steps: int) -> NDArray[np.int64]:
    """[series]: rows before the date at which the last `steps` of the longest series' length begin.

    With many series the date is the one after which the same share of all rows lies, so that series which begin and
    end at different times share the held-out rows fairly; where that leaves the longest series too little, its own
    last `steps` rows decide.
    """
    longest = int(np.argmax(panel.lengths))
    begin, end = panel.bounds()[longest]
    own = panel.stamps[end - steps]
    if panel.series == 1:
        return panel.lengths - steps
    stamps = np.sort(panel.stamps)
    date = stamps[min(round((1 - steps / (end - begin)) * len(stamps)), len(stamps) - 1)]
    date = min(date, own)
    return np.array([np.searchsorted(panel.stamps[a:b], date) for a, b in panel.bounds()], dtype=np.int64)
