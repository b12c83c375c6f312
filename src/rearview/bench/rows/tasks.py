"""Results files of every kind: which rows a file holds, told by its first line, and how they are judged."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rearview.bench import protocols
from rearview.bench.rows import result_file
from rearview.bench.rows.classification_row import ClassificationRow
from rearview.bench.rows.detection_row import DetectionRow
from rearview.bench.rows.row import Line, Row
from rearview.core.errors import InputError, did_you_mean

METRICS = {
    "mse": "MSE", "mae": "MAE", "accuracy": "Accuracy", "macro_f1": "Macro F1", "f1": "F1",
    "adjusted_f1": "Adjusted F1", "auc_pr": "AUC-PR", "vus_pr": "VUS-PR", "range_f1": "Range F1",
    "event_f1": "Event F1", "adjusted_f1_by_chance": "Adjusted F1 by chance",
}  # fmt: skip
"""Column -> the measure's name."""


@dataclass(frozen=True, slots=True)
class Task:
    """What the rows of a file are about, and the measures they are compared by."""

    name: str
    metrics: tuple[str, ...]
    """Columns, the one that decides first where `deciding` names no other."""
    lower_is_better: bool
    kind: type[Line]
    printed: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The papers' name of a measure -> our column, where they differ or few are compared."""
    chance: Mapping[str, str] = field(default_factory=dict, compare=False)
    """A measure -> the column of what guessing gets by it, where that is more than nothing."""
    deciding: Mapping[str, str] = field(default_factory=dict, compare=False)
    """A protocol -> the measure that candidates are ranked by under it, where that is another."""

    def measures(self, protocol: str) -> tuple[str, ...]:
        """The columns, the one that decides under a protocol first."""
        first = self.deciding.get(protocol, self.metrics[0])
        return first, *(metric for metric in self.metrics if metric != first)

    def decides(self, protocol: str) -> str:
        """The measure that candidates are ranked by under a protocol."""
        return self.measures(protocol)[0]

    def measure(self, protocol: str) -> str:
        """The same in words, with its units where those are the data's own."""
        name = METRICS[self.decides(protocol)]
        return f"{name} in original units" if self.in_original_units(protocol) else name

    def in_original_units(self, protocol: str) -> bool:
        """Whether a protocol reports the errors of forecasts in the units of the data."""
        known = self.name == protocols.FORECASTING and protocol in protocols.names()
        return known and protocols.get(protocol).scale == "original"

    def column(self, printed: str) -> str:
        """Our column of a measure that papers print."""
        return self.printed.get(printed, printed)


FORECASTING = Task(protocols.FORECASTING, ("mse", "mae"), True, Row, deciding={"published:mica": "mae"})
CLASSIFICATION = Task(
    protocols.CLASSIFICATION, ("accuracy", "macro_f1"), False, ClassificationRow, printed={"accuracy": "accuracy"}
)
DETECTION = Task(
    protocols.DETECTION,
    ("auc_pr", "f1", "adjusted_f1", "vus_pr", "range_f1", "event_f1"),  # first what needs no threshold
    False,
    DetectionRow,
    printed={"f1": "adjusted_f1"},  # the field's F1 of detection is the point-adjusted one
    chance={"adjusted_f1": "adjusted_f1_by_chance"},
    deciding={"published:tslib": "adjusted_f1"},
)
TASKS = (FORECASTING, CLASSIFICATION, DETECTION)


class StrangeFileError(InputError):
    """A file of something else than result rows."""


def read(path: Path) -> tuple[Task, list[Any]]:
    """(what the rows are about, every whole row of the file)."""
    header = _header(path)
    for task in TASKS:
        if header in _headers(task.kind):
            return task, result_file.read(path, task.kind)
    for task in TASKS:
        result_file.refuse_newer(path, path.read_bytes(), task.kind)
    raise _refusal(path, header)


def get(name: str) -> Task:
    """The task of that name."""
    return next(task for task in TASKS if task.name == name)


def rows_of(task: Task, path: Path) -> list[Any]:
    """The rows of a file that is for one task; none where there is no file yet, and one of another task is refused."""
    if not path.exists():
        return []
    other = next((one for one in TASKS if path.stat().st_size and _header(path) in _headers(one.kind)), task)
    if other is not task:
        raise InputError(
            f"{path} holds rows of {other.name}, and those of {task.name} need a file of their own; name another with "
            "--results."
        )
    return result_file.read(path, task.kind)


def _headers(kind: type[Line]) -> list[list[str]]:
    """The first line of a file of such rows, as it is now and as it was in the versions before."""
    return [list(kind.columns()[:count]) for count in (len(kind.columns()), *kind.EARLIER.values())]


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
    nearest = max((task.kind.columns() for task in TASKS), key=lambda columns: len(set(columns) & set(header)))
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
