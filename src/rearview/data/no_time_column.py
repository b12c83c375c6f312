"""Panels of numbers alone, without a time column: Solar's text, PEMS's arrays, and what is generated.

Their stamps are made up from the start and the step that the literature reports; a finding says so, and the field's
own code feeds no calendar features for these sets.
"""

import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.panel import Finding, Layout, Panel
from rearview.data.step import Step


def text(path: Path, step: Step, *, start: str) -> Panel:
    """A panel of comma-separated numbers, one row a step, no header; gzip is read too."""
    try:
        cells = np.loadtxt(path, delimiter=",", dtype=np.float64, ndmin=2)
    except (ValueError, OSError, EOFError) as problem:
        raise InputError(f"{path} can't be read as comma-separated numbers: {problem}") from problem
    return _panel(path, cells, step, start)


def array(path: Path, step: Step, *, start: str, key: str = "data", feature: int = 0) -> Panel:
    """A panel of one feature of an .npz file that holds an array [time, sensor, feature] under `key`."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            held = list(archive.files)
            stored = archive[key] if key in held else None
    except (ValueError, OSError, EOFError, AttributeError, zipfile.BadZipFile) as problem:
        raise InputError(f"{path} can't be read as an .npz archive of numbers: {problem}") from problem
    if stored is None:
        raise InputError(f"{path} has no array {key!r}; it holds {', '.join(held) or 'nothing'}")
    if stored.ndim != 3 or stored.shape[2] <= feature:
        raise InputError(
            f"array {key!r} of {path} has the shape {stored.shape}, but [time, sensor, feature] was expected "
            f"with at least {feature + 1} features"
        )
    return _panel(path, stored[:, :, feature].astype(np.float64), step, start)


def _panel(path: Path, cells: NDArray[np.float64], step: Step, start: str) -> Panel:
    if not cells.size:
        raise InputError(f"{path} is empty; get the file again")
    infinite = np.argwhere(np.isinf(cells))
    if len(infinite):
        row, column = infinite[0]
        raise InputError(f"{path} holds an infinite value in row {row + 1}, column {column + 1}; get the file again")
    said = Finding(
        "inferred",
        "stamps",
        0,
        f"{path.name} has no dates; stamps were made up, one a step ({step.words()}) from {start} on, the start "
        "reported for this data set.",
    )
    return panel(cells, step, start, source=str(path), said=said)


def panel(cells: NDArray[np.float64], step: Step, start: str, *, source: str, said: Finding) -> Panel:
    """A panel of one series of cells [row, channel], NaN where one is missing, its stamps made up from `start` on.

    `said` is what its findings say of that.
    """
    rows, columns = cells.shape
    observed = ~np.isnan(cells)
    centre = np.where(observed, cells, 0.0).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
    values = (cells - centre).astype(np.float32)
    missing = int(observed.size - observed.sum())
    findings = [said]
    if missing:
        values = filled(values, observed)
        findings.append(
            Finding("repaired", "missing", missing, f"{missing:,} missing cells were filled with the last value seen.")
        )
    return Panel(
        values=values,
        centre=centre[None],
        observed=observed if missing else None,
        offsets=np.array([0, rows], np.int64),
        first=np.where(observed.any(axis=0), observed.argmax(axis=0), rows).astype(np.int64)[None],
        stamps=step.grid(np.datetime64(start, "us"), rows),
        ids=("series",),
        columns=tuple(str(column) for column in range(columns)),
        targets=columns,
        known=0,
        step=step,
        layout=Layout("wide", time_col="date", source=source),
        findings=tuple(findings),
    )


def filled(values: NDArray[np.float32], observed: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Missing cells take the last value before them; those before the first value take 0, the centre."""
    last_seen = np.maximum.accumulate(np.where(observed, np.arange(len(values))[:, None], -1), axis=0)
    filled = np.take_along_axis(values, np.maximum(last_seen, 0), axis=0)
    filled[last_seen < 0] = 0.0
    return filled
