"""Readers of the GIFT-Eval sets that MICA is judged on: hourly files as they stand, or averaged to days and weeks.

Days and weeks are averages over whole days and weeks from the first row on; GIFT-Eval's own files may have been made in
another way, and a finding says so.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from rearview.data.panel import Finding, Panel
from rearview.data.step import Step
from rearview.data.undated import filled


def hourly(path: Path, step: Step) -> Panel:
    """A CSV file put on its regular grid."""
    from rearview.data.loading import load

    return load(path, freq=step)


def averaged(path: Path, step: Step, *, hours: int) -> Panel:
    """Means over `hours` rows at a time of an hourly CSV file; a last, incomplete stretch is left out."""
    panel = hourly(path, Step(1, "h"))
    count = len(panel.values) // hours
    cells = panel.values[: count * hours].reshape(count, hours, -1).astype(np.float64)
    seen = np.ones_like(cells, dtype=bool)
    if panel.observed is not None:
        seen = panel.observed[: count * hours].reshape(cells.shape)
    number = seen.sum(axis=1)
    observed = number > 0
    means = np.where(seen, cells, 0).sum(axis=1) / np.maximum(number, 1)
    message = f"{path.name} was averaged over {hours} rows at a time; GIFT-Eval's own file may differ."
    return replace(
        panel,
        values=filled(means.astype(np.float32), observed),
        observed=None if observed.all() else observed,
        offsets=np.array([0, count], np.int64),
        first=np.where(observed.any(axis=0), observed.argmax(axis=0), count).astype(np.int64)[None],
        stamps=panel.stamps[: count * hours : hours],
        step=step,
        findings=(*panel.findings, Finding("inferred", "averaged", 0, message)),
    )
