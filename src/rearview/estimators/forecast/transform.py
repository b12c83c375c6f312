"""Targets as models read them: transforms, applied to the whole panel before scaling and undone on forecasts and
bounds, and what counters, such as meter readings, add at each step.
"""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer.timestamps import show
from rearview.data.panel import Panel
from rearview.data.windows import Windows
from rearview.estimators.forecast.predictor import Array
from rearview.estimators.forecast.spec import ForecastSpec
from rearview.models.patch_hosts._counters import find_counters


def transform_panel(panel: Panel, spec: ForecastSpec) -> Panel:
    """The panel with its targets on the scale the model works on."""
    if spec.transform == "none":
        return panel
    values, centre = panel.values.copy(), panel.centre.copy()
    for s, (a, b) in enumerate(panel.bounds()):
        for column in range(panel.targets):
            # Before the first observed cell there is nothing to transform: 0, the centre, stands there.
            first = int(panel.first[s, column])
            cells = values[first:b, column].astype(np.float64) + panel.centre[s, column]
            _check_domain(cells, panel, s, column)
            moved = np.log1p(cells)
            centre[s, column] = moved.mean() if len(moved) else 0.0
            values[first:b, column] = moved - centre[s, column]
            values[a:first, column] = 0
    return replace(panel, values=values, centre=centre)


def undo_transform(values: NDArray[np.float64], spec: ForecastSpec) -> NDArray[np.float64]:
    """Forecasts or bounds back in original units."""
    if spec.transform == "log1p":
        # The logarithm's way back explodes before float64 does; a forecast that large says so as infinity.
        with np.errstate(over="ignore"):
            values = np.expm1(values)
    return np.maximum(values, 0) if spec.nonnegative else values


def list_counters(panel: Panel) -> NDArray[np.bool_]:
    """[series, target]: whether it never fell over all its rows."""
    found = np.zeros((panel.series, panel.targets), dtype=np.bool_)
    for series, (a, b) in enumerate(panel.bounds()):
        for target in range(panel.targets):
            seen = np.arange(a, b) >= panel.first[series, target]
            if panel.observed is not None:
                seen &= panel.observed[a:b, target]
            past = torch.from_numpy(panel.values[a:b, target])[None, None]
            found[series, target] = find_counters(past, torch.from_numpy(seen)[None, None]).item()
    return found


def take_additions(panel: Panel) -> Panel:
    """The panel with what is added at each step in place of its targets; missing where that is not known."""
    values, first, centre = panel.values.copy(), panel.first.copy(), panel.centre.copy()
    observed = np.ones(values.shape, dtype=np.bool_) if panel.observed is None else panel.observed.copy()
    for series, (a, b) in enumerate(panel.bounds()):
        for target in range(panel.targets):
            there = observed[a:b, target] & (np.arange(a, b) >= panel.first[series, target])
            known = np.concatenate([[False], there[1:] & there[:-1]])
            additions = np.diff(panel.values[a:b, target].astype(np.float64), prepend=0.0)
            mean = float(additions[known].mean()) if known.any() else 0.0
            values[a:b, target] = np.where(known, additions - mean, 0)
            observed[a:b, target], centre[series, target] = known, mean
            first[series, target] = a + int(np.argmax(known)) if known.any() else b
    return replace(panel, values=values, observed=observed, centre=centre, first=first)


def read_newest(panel: Panel, which: Windows, targets: int) -> Array:
    """[window, target, 1]: the newest readings before windows."""
    rows = np.maximum(which.starts - 1, panel.offsets[which.series])
    return (panel.values[rows, :targets].astype(np.float64) + panel.centre[which.series, :targets])[..., None]


def hide_counters(panel: Panel) -> Panel:
    """The panel with its counters as missing; the same where it has none."""
    counters = list_counters(panel)
    if not counters.any():
        return panel
    values, first = panel.values.copy(), panel.first.copy()
    observed = np.ones(values.shape, dtype=np.bool_) if panel.observed is None else panel.observed.copy()
    for series, target in np.argwhere(counters).tolist():
        rows = slice(*panel.span(series))
        values[rows, target], observed[rows, target], first[series, target] = 0, False, rows.stop
    return replace(panel, values=values, observed=observed, first=first)


def _check_domain(cells: NDArray[np.float64], panel: Panel, series: int, column: int) -> None:
    bad = np.flatnonzero(cells <= -1)
    if len(bad):
        stamp = panel.stamps[int(panel.first[series, column]) + int(bad[0])]
        of_series = f" of series {panel.ids[series]!r}" if panel.layout.named_series else ""
        raise InputError(
            f"transform='log1p' needs values above -1, but column {panel.columns[column]!r}{of_series} is "
            f"{cells[bad[0]]:g} at {show(stamp)}; use transform='none'."
        )
