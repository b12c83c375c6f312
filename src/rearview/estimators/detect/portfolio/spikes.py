"""Single cells of short series to learn from that stand out among their neighbours: nothing is learned from them.

A member that remembers a spike finds it ordinary ever after, and a threshold that is drawn with it is above it. A cell
is a spike if it lies beyond all of its four neighbours, by

    d >= DEVIATIONS x 1.4826 median(distance of cells from the median of their neighbours)    and
    d >= FARTHER x the largest d of cells that are none,

and at most one cell in a hundred is (in short series, one). So a series whose noise has long tails, or whose spikes
come time and again, keeps them: there the largest are not far from the next. A shift or a longer anomaly has no spike,
and the first and the last row, which have neighbours on one side, are none.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rearview.data.infer.timestamps import show
from rearview.data.panel import Finding, Panel

DEVIATIONS = 4.0
FARTHER = 1.75
MOST = 0.01
"""Share of the rows of a series that are spikes, at most."""
LEAST_ROWS, MOST_ROWS = 20, 500
"""Rows of a series whose spikes are left out. Fewer do not show how far cells usually are from their neighbours; in
longer ones of servers (ASD, 660 rows) what stands out is usual often enough that the benchmark loses by it."""

Cells = NDArray[np.float32]
"""[row, channel]."""


def leave_out(panel: Panel) -> tuple[Panel, tuple[Finding, ...]]:
    """The panel with spikes as missing cells, filled with the median of their neighbours, and a warning of them."""
    short = [(a, b) for a, b in panel.bounds() if LEAST_ROWS <= b - a < MOST_ROWS]
    if not short:
        return panel, ()
    values, far = panel.values.copy(), np.zeros(panel.values.shape, dtype=bool)
    for a, b in short:
        middle, far[a:b] = find(panel.values[a:b], None if panel.observed is None else panel.observed[a:b])
        values[a:b][far[a:b]] = middle[far[a:b]]
    if not far.any():
        return panel, ()
    row, column = np.argwhere(far)[0].tolist()
    count = int(far.sum())
    message = (
        f"Channel {panel.columns[column]!r} at {show(panel.stamps[row])}{f', and {count - 1} more' * (count > 1)}: "
        "far from the rows beside it, farther than any other; left out of what is learned as ordinary."
    )
    observed = ~far if panel.observed is None else panel.observed & ~far
    return replace(panel, values=values, observed=observed), (Finding("warning", "spikes", count, message),)


def find(cells: Cells, observed: NDArray[np.bool_] | None) -> tuple[Cells, NDArray[np.bool_]]:
    """(the median of the four neighbours of each cell, whether it is a spike)."""
    rows = len(cells)
    around = np.pad(cells, ((2, 2), (0, 0)), mode="edge")
    beside = np.sort(np.stack([around[at : at + rows] for at in (0, 1, 3, 4)]), axis=0)
    middle = (beside[1] + beside[2]) / 2
    usual = 1.4826 * np.median(np.abs(cells - middle), axis=0)
    beyond = np.maximum(np.maximum(beside[0] - cells, cells - beside[3]), 0)
    standing = beyond if observed is None else np.where(observed, beyond, 0)
    most = max(1, int(MOST * rows))
    farthest = -np.sort(-np.partition(standing, rows - most - 1, axis=0)[-most - 1 :], axis=0)
    alone = (farthest[:-1] >= FARTHER * farthest[1:]) & (farthest[:-1] >= DEVIATIONS * usual) & (usual > 0)
    # The last of the gaps counts: two spikes alike are both far from the rest.
    least = np.where(alone, farthest[:-1], np.inf).min(axis=0)
    return middle, standing >= least
