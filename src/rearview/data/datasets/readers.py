"""Readers of published files: CSV as it stands or repaired, numbers alone, and rows gathered as by GIFT-Eval.

Solar's text and PEMS's arrays have no time column. Their stamps are made up from the start and the step that the
literature reports; a finding says so, and the field's own code feeds no calendar features for these sets.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.io.arrays import read_npz, read_number_text
from rearview.data.panel import Finding, Layout, Panel
from rearview.data.panel_array import fill_forward, panel_of_cells
from rearview.data.panel_reader import load
from rearview.data.step import MICROSECONDS, Step

Reader = Callable[[Path, Step], Panel]


def read_as_published(path: Path, step: Step) -> Panel:
    """Every row of a CSV file as it stands: nothing sorted, dropped, filled or taken for a sentinel."""
    return load(path, freq=step, row_by_row=True)


def read_repaired(path: Path, step: Step) -> Panel:
    """A CSV file put on a regular grid: sentinels are missing, repeated rows dropped, gaps filled."""
    return load(path, freq=step)


def read_undated_text(path: Path, step: Step, *, start: str) -> Panel:
    """Comma-separated numbers, one row a step, no header; gzip is read too."""
    return _with_made_up_stamps(path, read_number_text(path), step, start)


def read_undated_npz(path: Path, step: Step, *, start: str, key: str = "data", feature: int = 0) -> Panel:
    """One feature of an .npz file that holds an array [time, sensor, feature] under `key`."""
    arrays = read_npz(path)
    if key not in arrays:
        raise InputError(f"{path} has no array {key!r}; it holds {', '.join(arrays) or 'nothing'}")
    array = arrays[key]
    if array.ndim != 3 or array.shape[2] <= feature:
        raise InputError(
            f"array {key!r} of {path} has the shape {array.shape}, but [time, sensor, feature] was expected "
            f"with at least {feature + 1} features"
        )
    return _with_made_up_stamps(path, array[:, :, feature].astype(np.float64), step, start)


def _with_made_up_stamps(path: Path, cells: NDArray[np.float64], step: Step, start: str) -> Panel:
    if not cells.size:
        raise InputError(f"{path} is empty; get the file again")
    infinite = np.argwhere(np.isinf(cells))
    if len(infinite):
        row, column = infinite[0]
        raise InputError(f"{path} holds an infinite value in row {row + 1}, column {column + 1}; get the file again")
    message = (
        f"{path.name} has no dates; stamps were made up, one a step ({step.words()}) from {start} on, the start "
        "reported for this data set."
    )
    findings = [Finding("inferred", "stamps", 0, message)]
    missing = int(np.isnan(cells).sum())
    if missing:
        message = f"{missing:,} missing cells were filled with the last value seen."
        findings.append(Finding("repaired", "missing", missing, message))
    stamps = step.grid(np.datetime64(start, "us"), len(cells))
    return panel_of_cells(cells, stamps, step, Layout("wide", "date", source=str(path)), findings=tuple(findings))


def gift_reader(file: str, step: Step) -> Reader:
    """The reader of a GIFT-Eval set that MICA is judged on: the file as it stands, or rows gathered to a longer step.

    ETT is summed over quarter hours and Solar over its ten minutes, the others are averaged, whole stretches from the
    first row on; GIFT-Eval's own files may have been made in another way, and a finding says so. The errors that MICA
    prints on the ETT sets are those of sums: a seasonal naive forecast has 5.98 on sums of four rows of ETTm1, where
    they print 5.3 to 6.3, and 1.60 on ETTh1. On weeks of Solar they print about 1,000, and no ten minutes exceed 100.
    """
    if file.startswith("ETTm"):
        return partial(_gather_repaired, of=Step(15, "min"), how="summed")
    if file.startswith("solar_AL"):
        return _sum_solar
    if file == "covid_deaths.csv" or (step == Step(1, "h") and not file.startswith("loop")):
        return read_repaired
    return read_gathered if file.startswith("loop") else partial(_gather_repaired, of=Step(1, "h"))


How = Literal["averaged", "summed"]


def read_gathered(path: Path, step: Step) -> Panel:
    """Means over the rows of a CSV file that make up a step, whatever step the file has; one of that step as it is."""
    panel = load(path)
    return panel if panel.step == step else _gather(panel, path.name, step, "averaged")


def _gather_repaired(path: Path, step: Step, *, of: Step, how: How = "averaged") -> Panel:
    return _gather(read_repaired(path, of), path.name, step, how)


def _sum_solar(path: Path, step: Step) -> Panel:
    return _gather(read_undated_text(path, Step(10, "min"), start="2006-01-01"), path.name, step, "summed")


def _gather(panel: Panel, name: str, step: Step, how: How) -> Panel:
    """Means or sums over the rows of each longer step; a last, incomplete stretch is left out."""
    long, short = (each.count * MICROSECONDS.get(each.unit, 0) for each in (step, panel.step))
    if not long or not short or long % short:
        raise InputError(
            f"{name} has rows {panel.step.words()}, which do not make up rows {step.words()}; bring rows "
            f"{step.words()}, or a whole number of them in that time."
        )
    rows = long // short
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
    message = f"{name} was {how} over {rows} rows at a time; the published set may have been made in another way."
    return replace(
        panel,
        values=fill_forward(values.astype(np.float32), observed),
        centre=panel.centre * times,
        observed=None if observed.all() else observed,
        offsets=np.array([0, count], np.int64),
        first=np.where(observed.any(axis=0), observed.argmax(axis=0), count).astype(np.int64)[None],
        stamps=panel.stamps[: count * rows : rows],
        step=step,
        findings=(*panel.findings, Finding("inferred", how, 0, message)),
    )


READERS: dict[str, Callable[..., Panel]] = {
    "repaired": read_repaired,
    "gathered": read_gathered,
    "undated_text": read_undated_text,
    "undated_npz": read_undated_npz,
}
"""The readers that the catalogue names; those of files without dates need the start."""


def describe(reader: Reader) -> str:
    """What a reader of this module does to the rows of a file; empty where it takes them as they stand."""
    function, given = (reader.func, reader.keywords) if isinstance(reader, partial) else (reader, {})
    if function is _gather_repaired:
        how = given.get("how", "averaged")
        return f"rows {given['of'].words()} are put on a regular grid and {how} to longer steps"
    if function is _sum_solar:
        return "rows every 10 minutes are summed to longer steps"
    if function is read_gathered:
        return "rows at shorter steps are averaged"
    if function is read_repaired:
        return "rows are put on a regular grid: sentinels count as missing, repeated rows are dropped, gaps filled"
    if function in (read_undated_text, read_undated_npz):
        part = ", the first feature of each sensor alone" if function is read_undated_npz else ""
        return f"the file has no dates: rows count from {given['start']}{part}"
    return ""
