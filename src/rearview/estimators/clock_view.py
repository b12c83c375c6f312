"""Rows by the clock on the wall and back: a forecaster goes by its steps, and answers for the stamps that follow.

Of an hour that clocks repeat both passes have one forecast, and an hour that they skip has none. The horizon then ends
some steps later by the clock than a forecaster reaches: those few are forecast from its own first ones.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rearview.data.panel import Panel
from rearview.data.wall_clock import clock_times, lay_out, on_clock
from rearview.data.windows import Windows, final_windows
from rearview.estimators.forecast.predictor import Array, Forecasts, Predictor

Predict = Callable[[Panel, Windows, Array | None], Forecasts]
"""Forecasts what follows some series of a panel; the last argument is the future of known inputs."""


@dataclass(frozen=True, slots=True)
class ClockView:
    """The rows of a panel by its clock, and which of the steps that follow each stamp ahead is."""

    panel: Panel
    steps: NDArray[np.int64]
    """[series, step]: the step by the clock of each step ahead, counted from 0."""

    @classmethod
    def of(cls, panel: Panel, horizon: int) -> "ClockView":
        """The view of a panel; where it has no clock, or one that its step has no place on, of the rows as they are."""
        ahead = panel.ahead(panel.offsets[1:] - 1, horizon)
        rows = on_clock(panel, ahead)
        if rows is panel or panel.clock is None:
            return cls(panel, np.broadcast_to(np.arange(horizon), ahead.shape))
        last = rows.stamps[rows.offsets[1:] - 1]
        return cls(rows, rows.step.distance(last[:, None], clock_times(ahead, panel.clock)) - 1)

    def inputs(self, known: Array, series: NDArray[np.int64]) -> Array:
        """Known inputs [window, column, step] at the steps of the clock; at one that it skips, those of the last."""
        count = max(known.shape[-1], int(self.steps.max()) + 1)
        source = np.full((len(known), count), -1)
        np.put_along_axis(source, self.steps[series], np.arange(known.shape[-1])[None], axis=1)
        source = np.maximum(np.maximum.accumulate(source, axis=1), 0)
        return np.take_along_axis(known, source[:, None], axis=-1)

    def forecast(self, predict: Predict, which: Windows, horizon: int, known: Array | None = None) -> Forecasts:
        """Forecasts for the stamps ahead, after the last rows of the series of some windows."""
        series, panel = which.series, self.panel
        steps, inputs = self.steps[series], None if known is None else self.inputs(known, series)
        count = int(steps.max()) + 1
        made = predict(panel, final_windows(panel).take(series), None if inputs is None else inputs[..., :horizon])
        while (reached := made.mean.shape[-1]) < count:
            begun = min(count - horizon, reached)
            longer = _go_on(panel, series, made.mean[..., :begun], inputs)
            then = None if inputs is None else inputs[..., begun : begun + horizon]
            further = predict(longer, final_windows(longer).take(series), then)
            made = _join(made, further, begun + horizon - reached)
        return _choose(made, steps)


def predict_on_clock(
    fitted: Predictor, panel: Panel, which: Windows, levels: tuple[float, ...], known: Array | None = None
) -> Forecasts:
    """What a forecaster says of the steps after the last rows of some series, which it reads by the panel's clock."""
    if panel.clock is None:
        return fitted.predict(panel, which, levels, known)
    horizon = fitted.spec.horizon

    def predict(rows: Panel, windows: Windows, inputs: Array | None) -> Forecasts:
        return fitted.predict(rows, windows, levels, inputs)

    return ClockView.of(panel, horizon).forecast(predict, which, horizon, known)


def _go_on(panel: Panel, series: NDArray[np.int64], targets: Array, inputs: Array | None) -> Panel:
    """The panel with rows [series, target, step] after those of some series, as though they had been observed."""
    begun = targets.shape[-1]
    added = np.zeros(panel.series, dtype=np.int64)
    added[series] = begun
    offsets = panel.offsets + np.concatenate([[0], np.cumsum(added)])
    source, stamps = np.full(offsets[-1], -1), np.empty(offsets[-1], dtype=panel.stamps.dtype)
    kept = np.arange(len(panel.stamps)) + np.repeat(offsets[:-1] - panel.offsets[:-1], panel.lengths)
    new = offsets[series + 1][:, None] - begun + np.arange(begun)
    source[kept], stamps[kept] = np.arange(len(panel.stamps)), panel.stamps
    stamps[new] = panel.ahead(panel.offsets[series + 1] - 1, begun)
    longer = lay_out(panel, source, offsets, stamps)
    assert longer.observed is not None
    cut = len(panel.columns) - panel.known
    parts = [(slice(0, panel.targets), targets)]
    parts += [] if inputs is None else [(slice(cut, None), inputs[..., :begun])]
    for columns, cells in parts:
        rows, there = cells.transpose(0, 2, 1) - panel.centre[series, None, columns], np.isfinite(cells)
        longer.values[new, columns] = np.where(there.transpose(0, 2, 1), rows, longer.values[new, columns])
        longer.observed[new, columns] = there.transpose(0, 2, 1)
    return longer


def _join(made: Forecasts, further: Forecasts, steps: int) -> Forecasts:
    """Forecasts with so many steps more, the last ones of others."""

    def join(own: Array, others: Array) -> Array:
        return np.concatenate([own, others[..., -steps:]], axis=-1)

    return replace(
        made,
        mean=join(made.mean, further.mean),
        intervals={
            level: (join(low, further.intervals[level][0]), join(high, further.intervals[level][1]))
            for level, (low, high) in made.intervals.items()
        },
        members={name: join(mean, further.members[name]) for name, mean in made.members.items()},
    )


def _choose(made: Forecasts, steps: NDArray[np.int64]) -> Forecasts:
    """Forecasts at some steps [window, step]."""

    def choose(cells: Array) -> Array:
        return np.take_along_axis(cells, steps[:, None], axis=-1)

    return replace(
        made,
        mean=choose(made.mean),
        intervals={level: (choose(low), choose(high)) for level, (low, high) in made.intervals.items()},
        members={name: choose(mean) for name, mean in made.members.items()},
    )
