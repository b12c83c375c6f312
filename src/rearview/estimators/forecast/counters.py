"""Targets that only ever rise, such as meter readings."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from rearview.data.panel import Panel
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
