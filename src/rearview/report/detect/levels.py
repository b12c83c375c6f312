"""Alarms, rows and marked anomalies at other thresholds, for the slider of the page."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rearview.tasks.alarms import count_inside, find_runs

if TYPE_CHECKING:
    from rearview.report.detect.page import EntityView

BELOW, ABOVE = 16, 24
"""Thresholds below that of the run, down to an eighth of it, and above it, beyond the highest score."""
DAY = np.timedelta64(1, "D")


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Thresholds in their order, each with what lies above it; the run's own is among them."""

    thresholds: NDArray[np.float64]
    alarms: NDArray[np.int64]
    """Segments, joined as those of the run are."""
    rows: NDArray[np.int64]
    found: NDArray[np.int64]
    """Marked anomalies that a row above touches."""


def try_levels(view: "EntityView") -> Levels | None:
    """Count at every level of a series; None where its threshold is 0, so that there is no scale."""
    known = np.nan_to_num(view.score, nan=-np.inf)
    if view.threshold <= 0:
        return None
    highest = max(2 * view.threshold, 1.05 * float(known.max(initial=0)))
    below = np.geomspace(view.threshold / 8, view.threshold, BELOW, endpoint=False)
    levels = np.concatenate([below, np.geomspace(view.threshold, highest, ABOVE + 1)])
    events = np.array([(first, last + 1) for first, last in view.labels], dtype=np.int64).reshape(-1, 2)
    counts = []
    for level in levels.tolist():
        flags = known > level
        runs = find_runs(flags)
        joined = int((runs[1:, 0] - runs[:-1, 1] < view.join).sum())
        counts.append((len(runs) - joined, int(flags.sum()), int((count_inside(flags, events) > 0).sum())))
    return Levels(levels, *np.array(counts, dtype=np.int64).T)


def count_days(view: "EntityView") -> float | None:
    """How many days a series covers; None where its rows are counted, not dated."""
    if view.stamps.dtype.kind != "M" or len(view.stamps) < 2:
        return None
    span = view.stamps[-1] - view.stamps[0]
    return float((span + span / (len(view.stamps) - 1)) / DAY)
