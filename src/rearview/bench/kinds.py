"""Results files of every kind: which rows a file holds, told by its first line, and how they are judged."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rearview.bench import results
from rearview.bench.classification_row import ClassificationRow
from rearview.bench.detection_row import DetectionRow
from rearview.bench.row import Line, Row
from rearview.errors import InputError, did_you_mean


@dataclass(frozen=True, slots=True)
class Task:
    """What the rows of a file are about, and the measures they are compared by."""

    name: str
    metrics: tuple[str, ...]
    """Columns, the one that decides first."""
    lower_is_better: bool


FORECASTING = Task("forecasting", ("mse", "mae"), True)
CLASSIFICATION = Task("classification", ("accuracy", "macro_f1"), False)
DETECTION = Task("detection", ("f1", "adjusted_f1", "auc_pr", "vus_pr", "range_f1", "event_f1"), False)

_KINDS: tuple[tuple[Task, type[Line]], ...] = (
    (FORECASTING, Row),
    (CLASSIFICATION, ClassificationRow),
    (DETECTION, DetectionRow),
)


class StrangeFileError(InputError):
    """A file of something else than result rows."""


def read(path: Path) -> tuple[Task, list[Any]]:
    """(what the rows are about, every whole row of the file)."""
    header = _header(path)
    for task, kind in _KINDS:
        counts = (len(kind.columns()), *kind.EARLIER.values())
        if header in [list(kind.columns()[:count]) for count in counts]:
            return task, results.read(path, kind)
    raise _refusal(path, header)


def _header(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            line = file.readline()
    except OSError as problem:
        raise InputError(f"The results file {path} can't be read ({problem.strerror}); check its name.") from problem
    if not line.strip():
        raise InputError(f"{path} is empty and holds no rows; `rearview bench --results {path}` fills it.")
    if not line.endswith("\n"):
        raise InputError(f"{path} ends within its first line, the list of columns; it holds no rows.")
    return next(csv.reader([line]), [])


def _refusal(path: Path, header: Sequence[str]) -> InputError:
    if {"study", "arm"} <= set(header):
        return StrangeFileError(
            f"{path} holds rows of a synthetic study, which `rearview reproduce` makes a page of; give a CSV file of "
            "forecasting, classification or detection."
        )
    nearest = max((kind.columns() for _, kind in _KINDS), key=lambda columns: len(set(columns) & set(header)))
    strange = [name for name in header if name not in nearest]
    if "schema" not in header or len(strange) > len(header) / 2:
        return StrangeFileError(
            f"{path} holds no rows of forecasting, classification or detection: its first line is not their list of "
            "columns; give a CSV file that `rearview bench` or `rearview reproduce` kept its rows in."
        )
    if strange:
        hint = did_you_mean(strange[0], nearest)
        return InputError(
            f"{path} has columns that result rows don't: {', '.join(strange)}.{hint} Take out what was added."
        )
    absent = [name for name in nearest if name not in header]
    if absent:
        return InputError(f"{path} lacks columns of result rows: {', '.join(absent)}; put them back as they were.")
    return InputError(f"{path} has the columns of result rows in another order; put them back as they were.")
