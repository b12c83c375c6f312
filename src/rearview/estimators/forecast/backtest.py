"""Backtest: forecast from past cutoffs with rows before them only, and compare with what happened.

Cutoffs are dates: the last stamp a model had seen. The network is trained once on rows up to the first cutoff, or
afresh at every cutoff (`refit`).
"""

import io
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.core.files import write_atomically
from rearview.core.wording import listing
from rearview.data.infer.timestamps import show
from rearview.data.panel import Panel
from rearview.data.panel_checks import TooShort, check_length
from rearview.data.windows import Windows, final_windows
from rearview.estimators.clock_view import predict_on_clock
from rearview.estimators.forecast.prediction import variables
from rearview.estimators.forecast.predictor import Array, Bounds, Predictor
from rearview.estimators.options import check_whole
from rearview.tasks import metrics

MOST_BEHIND = 0.2
"""Share of the series that may end a horizon before the others and still be cut at the others' dates."""
ROUNDING = 2.0**-19
"""The rounding of float32 that is tolerated, as a share of the mean deviation: 16 of its steps."""


_KEPT = ("cutoffs", "stamps", "y", "mean", "absolute", "squared", "rounding")


class PanelHistory(Protocol):
    """A panel as it was known at any date (see `AsOf`)."""

    def __call__(self, date: np.generic) -> Panel:
        """The panel as it was known at a date."""

    def original(self, rows: slice, series: int) -> Array:
        """The targets of some rows as they came, [row, target], before anything was rounded; NaN where missing."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Errors of a backtest in original units, pooled over windows, series and steps."""

    mse: float
    mae: float
    mase: float
    smape: float
    rmsse: float
    pinball: float
    coverage: dict[float, float]


@dataclass(frozen=True, slots=True)
class Backtest:
    """Forecasts from past cutoffs beside what happened; a variable is a series or a column."""

    names: tuple[str, ...]
    """[variable]."""
    cutoffs: NDArray[np.generic]
    """[window, variable]: the last stamp that was known."""
    stamps: NDArray[np.generic]
    """[window, variable, step]."""
    y: Array
    """[window, variable, step], NaN where nothing was observed."""
    mean: Array
    """[window, variable, step], NaN where a series had not begun or had ended."""
    intervals: Bounds
    absolute: Array
    """[variable]: the seasonal naive forecast's mean absolute error before the first cutoff."""
    squared: Array
    """[variable]: its mean squared error."""
    rounding: Array
    """[variable]: how far a value may lie outside an interval by rounding alone."""
    fitted: Predictor
    """The network of the last fit."""
    notes: tuple[str, ...]

    def scores(self) -> Scores:
        """All metrics at once."""
        quantiles: dict[float, Array] = {}
        for level, (low, high) in self.intervals.items():
            tail = (1 - level / 100) / 2
            quantiles |= {tail: low, 1 - tail: high}
        if quantiles:
            quantiles[0.5] = self.mean
        return Scores(
            mse=metrics.mse(self.y, self.mean),
            mae=metrics.mae(self.y, self.mean),
            mase=metrics.mase(self.y, self.mean, self.absolute),
            smape=metrics.smape(self.y, self.mean),
            rmsse=metrics.rmsse(self.y, self.mean, self.squared),
            pinball=metrics.pinball(self.y, quantiles),
            coverage={
                level: metrics.coverage(self.y, *bounds, self.rounding[:, None])
                for level, bounds in self.intervals.items()
            },
        )

    def by_variable(self) -> tuple[Array, Array, Array]:
        """[variable]: MAE, MASE, and the share of actual values inside the widest interval; NaN where there is none."""
        error = np.abs(self.y - self.mean)
        seen = ~np.isnan(error)
        count = seen.sum(axis=(0, 2))
        mae = np.where(count > 0, np.where(seen, error, 0).sum(axis=(0, 2)) / np.maximum(count, 1), np.nan)
        inside = np.full(len(self.names), np.nan)
        if self.intervals:
            low, high = self.intervals[max(self.intervals)]
            for one in range(len(self.names)):
                bounds = (self.y[:, one], low[:, one], high[:, one])
                inside[one] = metrics.coverage(*bounds, float(self.rounding[one]))
        return mae, mae / self.absolute, inside

    def by_step(self, *, scaled: bool = False) -> tuple[Array, Array]:
        """MAE and MSE at each step ahead; `scaled`: over the naive error of each variable, whatever its unit."""
        error = self.y - self.mean
        if scaled:
            error = error / self.absolute[:, None]
        count = np.maximum((~np.isnan(error)).sum(axis=(0, 1)), 1)
        return np.nansum(np.abs(error), axis=(0, 1)) / count, np.nansum(np.square(error), axis=(0, 1)) / count


def cutoffs(
    panel: Panel, horizon: int, n_windows: int, step_size: int
) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """[window] and [window, step]: the dates from which to forecast, oldest first, and the stamps that follow each.

    The newest date is one horizon before the last stamp.
    """
    check_whole("n_windows", n_windows, "the number of backtest windows")
    check_whole("step_size", step_size, "the number of steps from one backtest window to the next")
    longest = int(np.argmax(panel.lengths))
    first = panel.offsets[longest : longest + 1]
    count = int(panel.step.distance(panel.stamps[first[0]], panel.stamps.max()))
    grid = np.concatenate([panel.stamps[first], panel.ahead(first, count)[0]])
    back = horizon + step_size * np.arange(n_windows)[::-1]
    if back[0] > count:
        raise InputError(
            f"{n_windows} backtest windows of {horizon} steps, {step_size} apart, need {back[0] + 1} rows, "
            f"but the data has {count + 1}; ask for fewer windows."
        )
    at = count - back
    return grid[at], grid[at[:, None] + np.arange(1, horizon + 1)]


def backtest(
    panel: Panel,
    fit: Callable[[Panel, int], Predictor],
    horizon: int,
    *,
    n_windows: int = 5,
    step_size: int | None = None,
    refit: bool = False,
    levels: tuple[float, ...] = (),
    lookback: int | None = None,
    known_at: PanelHistory | None = None,
    own_ends: bool = False,
) -> Backtest:
    """Run a backtest; `fit(rows up to the cutoff, window)` trains a network.

    `known_at(date)` gives the panel as it was known at a date (default: the panel cut off there, its values rounded).
    With `own_ends` the windows of each series are counted back from its own last row, not from a date they share.
    """
    original = panel.original if known_at is None else known_at.original
    cuts = _own_cuts if own_ends else _date_cuts
    step_size = horizon if step_size is None else step_size
    views, starts, dates, stamps = cuts(panel, horizon, n_windows, step_size, known_at)
    first = rows = views(0)
    try:
        if lookback is not None:
            check_length(first, lookback, horizon)
        fitted = fit(first, 0)
    except TooShort as problem:
        aside = "1 window was" if n_windows == 1 else f"{n_windows} windows were"
        raise TooShort(
            f"{problem} These are the rows left after {aside} set aside of {horizon} steps each; lower n_windows "
            "(--windows) to keep more."
        ) from problem
    names = variables(panel)
    shape = (n_windows, len(names), horizon)
    y, mean = np.full(shape, np.nan), np.full(shape, np.nan)
    intervals = {level: (np.full(shape, np.nan), np.full(shape, np.nan)) for level in levels}
    notes: dict[str, None] = {}
    for w in range(n_windows):
        rows = views(w) if w else first
        if refit and w and not fitted.interrupted:
            fitted = fit(rows, w)
        running = np.flatnonzero(starts[w] >= 0)
        which = Windows(starts[w][running], running)
        place_of = {name: s for s, name in enumerate(rows.ids)}
        last = final_windows(rows).take(np.array([place_of[panel.ids[s]] for s in which.series]))
        ahead = _known_ahead(panel, which, horizon) if fitted.known else None
        forecasts = predict_on_clock(fitted, select_columns(rows, fitted), last, levels, ahead)
        notes |= dict.fromkeys(forecasts.notes)
        place = which.series[:, None] * panel.targets + np.arange(panel.targets)
        mean[w, place] = forecasts.mean
        for level, bounds in forecasts.intervals.items():
            for whole, part in zip(intervals[level], bounds, strict=True):
                whole[w, place] = part
        y[w, place] = _actual(panel, original, which, horizon)
    season = fitted.period
    return Backtest(
        names=names,
        cutoffs=np.repeat(dates, panel.targets, axis=1),
        stamps=np.repeat(stamps, panel.targets, axis=1),
        y=y,
        mean=mean,
        intervals=intervals,
        absolute=_of_history(first, panel.ids, lambda history: metrics.naive_scale(history, season)),
        squared=_of_history(first, panel.ids, lambda history: metrics.naive_scale(history, season, square=True)),
        rounding=np.nan_to_num(ROUNDING * _of_history(first, panel.ids, metrics.deviation)),
        fitted=fitted,
        notes=tuple(notes),
    )


def write_backtest(path: Path, test: Backtest) -> None:
    """Keep a backtest, but for its model, in a file."""
    arrays: dict[str, Any] = {name: getattr(test, name) for name in _KEPT}
    arrays |= {f"{side}-{level}": part for level, pair in test.intervals.items() for side, part in enumerate(pair)}
    content = io.BytesIO()
    np.savez_compressed(content, names=np.array(test.names), notes=np.array(test.notes, dtype=str), **arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content.getvalue())


def read_backtest(path: Path, fitted: Predictor) -> Backtest | None:
    """The backtest that `write_backtest` kept, of a model that was fitted again; None: the file is damaged."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as kept:
            levels = [float(name.removeprefix("0-")) for name in kept.files if name.startswith("0-")]
            return Backtest(
                **{name: kept[name] for name in _KEPT},
                names=tuple(kept["names"].tolist()),
                notes=tuple(kept["notes"].tolist()),
                intervals={level: (kept[f"0-{level}"], kept[f"1-{level}"]) for level in levels},
                fitted=fitted,
            )
    except (OSError, EOFError, LookupError, TypeError, ValueError, zipfile.BadZipFile, zlib.error):
        return None


def select_columns(panel: Panel, fitted: Predictor) -> Panel:
    """The columns of a panel that a network reads, in its order; a missing one is refused by name."""
    if panel.columns == fitted.columns:
        return panel
    missing = [name for name in fitted.columns if name not in panel.columns]
    if missing:
        raise InputError(
            f"{panel.layout.source} has no column {', '.join(map(repr, missing))}, which the model was trained on; "
            f"it has {', '.join(panel.columns)}."
        )
    chosen = panel.select([panel.columns.index(name) for name in fitted.columns])
    return replace(chosen, targets=fitted.targets, known=fitted.known)


_Cuts = tuple[Callable[[int], Panel], NDArray[np.int64], NDArray[np.generic], NDArray[np.generic]]
"""(the panel as it was known at a window, rows [window, series] at which futures start, -1 where a series did not run,
cutoffs [window, series], stamps [window, series, step])."""


def _date_cuts(panel: Panel, horizon: int, n_windows: int, step_size: int, known_at: PanelHistory | None) -> _Cuts:
    """Windows that begin after dates which all series share."""
    dates, stamps = cutoffs(panel, horizon, n_windows, step_size)
    before = panel.until(dates[0])
    if not (before.first[:, : panel.targets] < before.offsets[1:, None]).any():
        raise InputError(
            f"{panel.layout.source}: no value of {listing(panel.target_names)} was observed up to {show(dates[0])}, "
            "the first cutoff of the backtest; ask for fewer windows (--windows), or bring more history."
        )
    starts = np.full((n_windows, panel.series), -1, dtype=np.int64)
    for w, date in enumerate(dates):
        for s, (a, b) in enumerate(panel.bounds()):
            start = a + int(np.searchsorted(panel.stamps[a:b], date, side="right"))
            starts[w, s] = start if a < start < b else -1
    until = panel.until if known_at is None else known_at
    every = (n_windows, panel.series, horizon)
    shared = np.broadcast_to(dates[:, None], every[:2]), np.broadcast_to(stamps[:, None], every)
    return lambda window: until(dates[window]), starts, *shared


def _own_cuts(panel: Panel, horizon: int, n_windows: int, step_size: int, known_at: PanelHistory | None) -> _Cuts:
    """Windows counted back from the last row of each series."""
    back = horizon + step_size * np.arange(n_windows)[::-1]
    ends = panel.offsets[1:] - back[:, None]
    first = panel.first[:, : panel.targets].min(axis=1)
    starts = np.where(ends > first, ends, -1)
    if (starts[0] < 0).all():
        raise InputError(
            f"{n_windows} backtest windows of {horizon} steps, {step_size} apart, need {back[0] + 1} rows of some "
            "series, but none has as many; ask for fewer windows."
        )
    before = np.maximum(starts - 1, panel.offsets[:-1])
    stamps = np.stack([panel.ahead(rows, horizon) for rows in before])
    stops = np.maximum(starts, panel.offsets[:-1])
    return lambda window: panel.between(panel.offsets[:-1], stops[window]), starts, panel.stamps[before], stamps


def ends_apart(panel: Panel, horizon: int) -> bool:
    """Whether many series end a horizon or more before the last one, so that shared dates would leave them out."""
    last = panel.stamps[panel.offsets[1:] - 1]
    late = last.max()
    behind = [panel.step.distance(one, late) >= horizon for one in last]
    return float(np.mean(behind)) > MOST_BEHIND


def _actual(panel: Panel, original: Callable[[slice, int], Array], which: Windows, horizon: int) -> Array:
    out = np.full((len(which), panel.targets, horizon), np.nan)
    for w, (start, s) in enumerate(zip(which.starts.tolist(), which.series.tolist(), strict=True)):
        stop = min(start + horizon, int(panel.offsets[s + 1]))
        out[w, :, : stop - start] = original(slice(start, stop), s)[:, : panel.targets].T
    return out


def _known_ahead(panel: Panel, which: Windows, horizon: int) -> Array:
    out = np.zeros((len(which), panel.known, horizon))
    for w, (start, s) in enumerate(zip(which.starts.tolist(), which.series.tolist(), strict=True)):
        rows = np.minimum(np.arange(start, start + horizon), panel.offsets[s + 1] - 1)
        out[w] = (panel.values[rows, -panel.known :] + panel.centre[s, -panel.known :]).T
    return out


def _of_history(before: Panel, ids: tuple[str, ...], measure: Callable[[Array], Array]) -> Array:
    """[variable]: a measure of the rows before the first cutoff, [target, row]; NaN for series that had not begun."""
    place = {name: s for s, name in enumerate(before.ids)}
    bounds = before.bounds()
    parts = []
    for name in ids:
        measured = np.full(before.targets, np.nan)
        if name in place:
            measured = measure(before.original(slice(*bounds[place[name]]), place[name])[:, : before.targets].T)
        parts.append(measured)
    return np.concatenate(parts)
