"""The first row of a series that says something: before it one value stood, as zeros do before a product is sold.

Exports have a row for every day of every product, those before its launch too. Read as values they are most of what a
forecaster sees: they set the scale, and hide the season of what came after.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rearview.data.panel import Panel
from rearview.data.windows import Windows, final_windows

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

SHORTEST = 8
"""Equal values in front below which all rows are read."""
OUTLASTS = 3
"""Times that they must be more than the equal values in a row that come later: nights of solar power come again."""
RETURNS = 0.02
"""Of the later values, those that may be that value again: demand that ends up at zero has risen from there before."""
UNLIKELY = 1e-3
"""The chance of so late a first change, had the series always been what it was later, below which it is a launch."""


def count_idle(values: Array | NDArray[np.float32]) -> int:
    """The equal values in front that stood before a series was launched; 0 where it was always what it is."""
    if len(values) <= SHORTEST or (values[:SHORTEST] != values[0]).any():
        return 0
    idle = int(np.argmax(values != values[0]))
    later = values[idle:]
    if idle < SHORTEST:  # all are equal, or change too early
        return 0
    changes = np.flatnonzero(np.diff(later, prepend=np.nan, append=np.nan) != 0)
    longest = int(np.diff(changes).max())
    others = int((later != values[0]).sum())
    chance = others * math.log(len(later) / len(values))
    rare = len(later) - others <= RETURNS * len(later)
    return idle if rare and idle > OUTLASTS * longest and chance < math.log(UNLIKELY) else 0


def find_begins(panel: Panel, which: Windows, targets: int) -> Rows:
    """[window, target]: the row from which the past of a window is read, its first observed one or that of a launch."""
    begins = panel.first[which.series, :targets].copy()
    for window, (start, series) in enumerate(zip(which.starts.tolist(), which.series.tolist(), strict=True)):
        for target in range(targets):
            first = int(panel.first[series, target])
            seen = np.arange(start - first)
            if panel.observed is not None:  # what fills a gap is no value that stood
                seen = np.flatnonzero(panel.observed[first:start, target])
            if idle := count_idle(panel.values[first:start, target][seen]):
                begins[window, target] += seen[idle]
    return begins


def cut_idle(panel: Panel, least: int) -> Panel:
    """The panel since its launches; all of it where no series would keep `least` rows, or none was launched.

    Rows before the first launch of a series are cut off, and a column that was launched later is missing until then.
    """
    first = panel.first.copy()
    first[:, : panel.targets] = find_begins(panel, final_windows(panel), panel.targets)
    launched = (first > panel.first).any(axis=1)
    begins = np.where(launched, first[:, : panel.targets].min(axis=1), panel.offsets[:-1])
    if not launched.any() or int((panel.offsets[1:] - begins).max()) < least:
        return panel
    later = first > np.maximum(panel.first, begins[:, None])
    if later.any():
        values = panel.values.copy()
        observed = np.ones(values.shape, dtype=np.bool_) if panel.observed is None else panel.observed.copy()
        for series, column in np.argwhere(later).tolist():
            rows = slice(int(panel.offsets[series]), int(first[series, column]))
            values[rows, column], observed[rows, column] = 0, False
        panel = replace(panel, values=values, observed=observed)
    return replace(panel, first=first).between(begins, panel.offsets[1:])
