"""Forecasts and backtests as columns, in the layout that the data came in or always long."""

import numpy as np
from numpy.typing import NDArray

from rearview.data.infer.timestamps import localise
from rearview.data.panel import Layout, Panel
from rearview.estimators.forecast.backtest import Backtest
from rearview.estimators.forecast.prediction import Array, Bounds, Forecasts, variables
from rearview.estimators.frames import Columns


def long_columns(
    layout: Layout,
    names: tuple[str, ...],
    stamps: NDArray[np.generic],
    mean: Array,
    intervals: Bounds,
    model: str,
    *,
    y: Array | None = None,
    cutoffs: NDArray[np.generic] | None = None,
    whole_ids: bool = False,
) -> Columns:
    """Columns `unique_id, ds, [cutoff, y,] model, model-lo-95, model-hi-95`, variable by variable.

    Shapes: stamps [variable, step], mean and bounds the same, y too, cutoffs [variable]. With `whole_ids` the ids are
    integers again.
    """
    steps = stamps.shape[1]
    ids = np.repeat(np.array(names, dtype=np.int64 if whole_ids else np.str_), steps)
    columns: Columns = {
        layout.id_col or "unique_id": ids if whole_ids else ids.tolist(),
        layout.time_col if layout.form == "long" else "ds": localise(stamps.ravel(), layout),
    }
    if cutoffs is not None:
        columns["cutoff"] = localise(np.repeat(cutoffs, steps), layout)
    if y is not None:
        columns["y" if layout.target_col is None else layout.target_col] = y.ravel()
    return columns | _forecast_columns(model, mean, intervals)


def wide_columns(
    layout: Layout,
    names: tuple[str, ...],
    stamps: NDArray[np.generic],
    mean: Array,
    intervals: Bounds,
    *,
    y: Array | None = None,
    cutoffs: NDArray[np.generic] | None = None,
) -> Columns:
    """Columns `time, [cutoff,] column, column-lo-95, column-hi-95, [column-y]`, for every target column.

    Shapes: stamps [window, step], mean, bounds and y [window, column, step], cutoffs [window].
    """
    columns: Columns = {layout.time_col: localise(stamps.ravel(), layout)}
    if cutoffs is not None:
        columns["cutoff"] = localise(np.repeat(cutoffs, stamps.shape[1]), layout)
    for c, name in enumerate(names):
        columns |= _forecast_columns(
            name, mean[:, c], {level: (low[:, c], high[:, c]) for level, (low, high) in intervals.items()}
        )
        if y is not None:
            columns[f"{name}-y"] = y[:, c].ravel()
    return columns


def _forecast_columns(name: str, mean: Array, intervals: Bounds) -> Columns:
    columns = {name: mean.ravel()}
    for level in sorted(intervals):
        low, high = intervals[level]
        columns[f"{name}-lo-{level:g}"] = low.ravel()
        columns[f"{name}-hi-{level:g}"] = high.ravel()
    return columns


def forecast_frame(
    panel: Panel,
    forecasts: Forecasts,
    stamps: NDArray[np.generic],
    model: str,
    *,
    layout: Layout | None = None,
    whole_ids: bool = False,
) -> Columns:
    """Forecasts after the last rows of a panel as columns, in the layout of the data unless another is named."""
    layout = panel.layout if layout is None else layout
    names, steps = variables(panel), stamps.shape[1]
    if layout.form == "wide":
        return wide_columns(layout, names, stamps[:1], forecasts.mean, forecasts.intervals)
    bounds = {
        level: (low.reshape(-1, steps), high.reshape(-1, steps)) for level, (low, high) in forecasts.intervals.items()
    }
    each = np.repeat(stamps, panel.targets, axis=0)
    return long_columns(layout, names, each, forecasts.mean.reshape(-1, steps), bounds, model, whole_ids=whole_ids)


def backtest_frame(result: Backtest, layout: Layout, model: str, *, whole_ids: bool = False) -> Columns:
    """A backtest as columns; windows in which a variable has no forecast are left out of long ones."""
    if layout.form == "wide":
        return wide_columns(
            layout, result.names, result.stamps, result.mean, result.intervals, y=result.y, cutoffs=result.cutoffs
        )
    windows, count = len(result.cutoffs), len(result.names)
    there = ~np.isnan(result.mean).all(axis=-1).ravel()

    def rows(cells: Array) -> Array:
        return cells.reshape(windows * count, -1)[there]

    return long_columns(
        layout,
        tuple(name for name, kept in zip(result.names * windows, there, strict=True) if kept),
        np.repeat(result.stamps, count, axis=0)[there],
        rows(result.mean),
        {level: (rows(low), rows(high)) for level, (low, high) in result.intervals.items()},
        model,
        y=rows(result.y),
        cutoffs=np.repeat(result.cutoffs, count)[there],
        whole_ids=whole_ids,
    )
