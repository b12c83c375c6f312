"""Forecasts and backtests as columns, in the layout that the data came in or always long.

Long: `unique_id, ds, [cutoff, y,] model, model-lo-95, model-hi-95`, variable by variable. Wide: `time, [cutoff,]
column, column-lo-95, column-hi-95, [column-y]`. Members of a portfolio, where asked for: `member` and `column-member`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rearview.data.infer.timestamps import localise
from rearview.data.panel import Layout, Panel
from rearview.estimators.forecast.backtest import Backtest
from rearview.estimators.forecast.prediction import variables
from rearview.estimators.forecast.predictor import Array, Bounds, Forecasts
from rearview.estimators.frames import Columns

Stamps = NDArray[np.generic]


def forecast_frame(
    panel: Panel,
    forecasts: Forecasts,
    stamps: Stamps,
    model: str,
    *,
    layout: Layout | None = None,
    whole_ids: bool = False,
    members: bool = False,
) -> Columns:
    """Forecasts after the last rows of a panel, in the layout of the data unless another is named.

    With `whole_ids` the ids of series are integers again; with `members` a portfolio's stand beside it, without bounds.
    """
    member_means = {name: mean for name, mean in forecasts.members.items() if members and name != model}
    layout, names = panel.layout if layout is None else layout, variables(panel)
    if layout.form == "wide":
        columns: Columns = {layout.time_col: localise(stamps[0], layout)}
        for c, name in enumerate(names):
            columns |= _with_bounds(name, forecasts.mean, forecasts.intervals, np.s_[:, c])
            columns |= {f"{name}-{member}": mean[:, c].ravel() for member, mean in member_means.items()}
        return columns
    each = np.repeat(stamps, panel.targets, axis=0)
    columns = _long_columns(layout, names, each, whole_ids)
    columns |= _with_bounds(model, forecasts.mean, forecasts.intervals, np.s_[:])
    return columns | {member: mean.ravel() for member, mean in member_means.items()}


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Forecasts with known inputs as planned and as changed."""

    planned: Forecasts
    changed: Forecasts
    stamps: Stamps
    """[series, step]."""
    inputs: Array
    """[series, column, step]: the known inputs as planned."""
    changed_inputs: Array


def what_if_frame(panel: Panel, effect: WhatIf, *, layout: Layout | None = None, whole_ids: bool = False) -> Columns:
    """Both forecasts and their difference, in the layout of the data unless another is named."""
    layout = panel.layout if layout is None else layout
    planned, changed = effect.planned.mean, effect.changed.mean
    if layout.form == "wide":
        columns: Columns = {layout.time_col: localise(effect.stamps[0], layout)}
        for c, name in enumerate(variables(panel)):
            columns |= {name: planned[0, c], f"{name}-changed": changed[0, c]}
            columns[f"{name}-difference"] = changed[0, c] - planned[0, c]
        return columns
    columns = _long_columns(layout, variables(panel), np.repeat(effect.stamps, panel.targets, axis=0), whole_ids)
    parts = {"planned": planned, "changed": changed, "difference": changed - planned}
    return columns | {name: cells.ravel() for name, cells in parts.items()}


def backtest_frame(result: Backtest, layout: Layout, model: str, *, whole_ids: bool = False) -> Columns:
    """A backtest; windows in which a variable has no forecast are left out of long ones."""
    if layout.form == "wide":
        columns: Columns = {
            layout.time_col: localise(result.stamps[:, 0].ravel(), layout),
            "cutoff": localise(np.repeat(result.cutoffs[:, 0], result.stamps.shape[-1]), layout),
        }
        for c, name in enumerate(result.names):
            columns |= _with_bounds(name, result.mean, result.intervals, np.s_[:, c])
            columns[f"{name}-y"] = result.y[:, c].ravel()
        return columns
    windows, _, steps = result.mean.shape
    there = np.asarray(~np.isnan(result.mean).all(axis=-1))
    names = [name for name, kept in zip(result.names * windows, there.ravel(), strict=True) if kept]
    columns = _long_columns(layout, names, result.stamps[there], whole_ids)
    columns["cutoff"] = localise(np.repeat(result.cutoffs[there], steps), layout)
    columns["y" if layout.target_col is None else layout.target_col] = result.y[there].ravel()
    return columns | _with_bounds(model, result.mean, result.intervals, there)


def _long_columns(layout: Layout, names: tuple[str, ...] | list[str], stamps: Stamps, whole_ids: bool) -> Columns:
    """The ids of variables and their stamps [variable, step]."""
    ids = np.repeat(np.array(names, dtype=np.int64 if whole_ids else np.str_), stamps.shape[1])
    return {
        layout.id_col or "unique_id": ids if whole_ids else ids.tolist(),
        layout.time_col if layout.form == "long" else "ds": localise(stamps.ravel(), layout),
    }


def _with_bounds(
    name: str, mean: Array, intervals: Bounds, part: slice | tuple[slice, int] | NDArray[np.bool_]
) -> Columns:
    """The part of forecasts [window, variable, step] in a column, and its bounds."""
    columns = {name: mean[part].ravel()}
    for level in sorted(intervals):
        low, high = intervals[level]
        columns |= {f"{name}-lo-{level:g}": low[part].ravel(), f"{name}-hi-{level:g}": high[part].ravel()}
    return columns
