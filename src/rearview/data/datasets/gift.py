"""Readers of the GIFT-Eval sets that MICA is judged on: files as they stand, or gathered to hours, days and weeks.

ETT is summed over quarter hours, the others are averaged over hours, whole stretches from the first row on; GIFT-Eval's
own files may have been made in another way, and a finding says so.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from rearview.data.no_time_column import filled
from rearview.data.panel import Finding, Panel
from rearview.data.step import Step


def reader(file: str, hours: int) -> Callable[[Path, Step], Panel]:
    """How a file becomes rows of `hours` hours."""
    if file.startswith("ETTm"):
        return partial(summed, quarters=4 * hours)
    return hourly if hours == 1 or file == "covid_deaths.csv" else partial(averaged, hours=hours)


def hourly(path: Path, step: Step) -> Panel:
    """A CSV file put on its regular grid."""
    from rearview.data.panel_reader import load

    return load(path, freq=step)


def averaged(path: Path, step: Step, *, hours: int) -> Panel:
    """Means over `hours` rows at a time of an hourly CSV file; a last, incomplete stretch is left out."""
    return _gathered(hourly(path, Step(1, "h")), path, step, hours, "averaged")


def summed(path: Path, step: Step, *, quarters: int) -> Panel:
    """Sums over `quarters` rows at a time of a CSV file of quarter hours; a last, incomplete stretch is left out.

    The errors that MICA prints on the ETT sets are those of sums: a seasonal naive forecast has 5.98 on sums of four
    rows of ETTm1, where they print 5.3 to 6.3, and 1.60 on ETTh1.
    """
    return _gathered(hourly(path, Step(15, "min")), path, step, quarters, "summed")


def _gathered(panel: Panel, path: Path, step: Step, rows: int, how: Literal["averaged", "summed"]) -> Panel:
    count = len(panel.values) // rows
    cells = panel.values[: count * rows].reshape(count, rows, -1).astype(np.float64)
    seen = np.ones_like(cells, dtype=bool)
    if panel.observed is not None:
        seen = panel.observed[: count * rows].reshape(cells.shape)
    number = seen.sum(axis=1)
    observed = number > 0
    # A sum with gaps is that of as many rows of its mean: it must not be small because rows are missing.
    times = rows if how == "summed" else 1
    values = np.where(seen, cells, 0).sum(axis=1) / np.maximum(number, 1) * times
    message = f"{path.name} was {how} over {rows} rows at a time; GIFT-Eval's own file may differ."
    return replace(
        panel,
        values=filled(values.astype(np.float32), observed),
        centre=panel.centre * times,
        observed=None if observed.all() else observed,
        offsets=np.array([0, count], np.int64),
        first=np.where(observed.any(axis=0), observed.argmax(axis=0), count).astype(np.int64)[None],
        stamps=panel.stamps[: count * rows : rows],
        step=step,
        findings=(*panel.findings, Finding("inferred", how, 0, message)),
    )
