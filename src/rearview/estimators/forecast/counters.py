"""Targets that only ever rise, such as meter readings: which they are, and what they add at each step."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from rearview.data.panel import Panel
from rearview.data.windows import Windows
from rearview.estimators.forecast.predictor import Array
from rearview.models.patch_hosts._counters import find_counters


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
