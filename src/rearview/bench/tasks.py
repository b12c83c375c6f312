"""The three tasks: what their rows are, how they are judged, and where their runs are made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rearview.bench import protocols
from rearview.bench.rows import result_file
from rearview.bench.rows.row import ClassificationRow, DetectionRow, Facts, Row, RunRow
from rearview.core.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import torch

    from rearview.bench.runs.request import Request
    from rearview.bench.runs.run_spec import Data, Fit, RunSpec
    from rearview.estimators.base import Session

METRICS = {
    "mse": "MSE", "mae": "MAE", "accuracy": "Accuracy", "macro_f1": "Macro F1", "f1": "F1",
    "adjusted_f1": "Adjusted F1", "auc_pr": "AUC-PR", "vus_pr": "VUS-PR", "range_f1": "Range F1",
    "event_f1": "Event F1", "adjusted_f1_by_chance": "Adjusted F1 by chance",
}  # fmt: skip
"""Column -> the measure's name."""


class Runner(Protocol):
    """The steps of a run of a task; `rearview.bench.runs.runner` calls these in turn and writes the row."""

    def resolve(self, request: "Request", /) -> "RunSpec":
        """Complete a request before any data is read."""

    def check(self, spec: "RunSpec", data_dir: Path | str | None, /) -> None:
        """Refuse a run that could not be made, in the sentence that its failed row would state, before it begins."""

    def read(self, spec: "RunSpec", data_dir: Path | str | None, /) -> "Data":
        """Find the data and take their checksums."""

    def fit(self, spec: "RunSpec", data: "Data", device: "torch.device", session: "Session", /) -> "Fit[Any]":
        """Train the network."""

    def measure(self, fit: "Fit[Any]", data: "Data", /) -> Facts:
        """Test the network once: the columns that only this task has."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One task with its rows, its measures and its runs."""

    name: str
    metrics: tuple[str, ...]
    """Columns, the deciding one first where `deciding` names no other."""
    lower_is_better: bool
    row: type[RunRow]
    protocols: tuple[str, ...] = ()
    """Those under which runs can be made; empty: all."""
    printed: Mapping[str, str] = field(default_factory=dict)
    """The papers' name of a measure -> our column, where they differ or few are compared."""
    chance: Mapping[str, str] = field(default_factory=dict)
    """A measure -> the column of what guessing scores by it, where that is more than nothing."""
    deciding: Mapping[str, str] = field(default_factory=dict)
    """A protocol -> the measure that candidates are ranked by under it, where that is another."""
    validation: str = "validation_loss"
    """The column of what was least on validation where the weights were picked."""

    @property
    def runner(self) -> Runner:
        """The module that makes its runs; importing that needs torch."""
        runner: Runner = import_module(f"rearview.bench.runs.{self.name}")
        return runner

    def measures(self, protocol: str) -> tuple[str, ...]:
        """The columns, the one that decides under a protocol first."""
        first = self.deciding.get(protocol, self.metrics[0])
        return first, *(metric for metric in self.metrics if metric != first)

    def deciding_measure(self, protocol: str) -> str:
        """The measure that candidates are ranked by under a protocol."""
        return self.measures(protocol)[0]

    def describe_measure(self, protocol: str) -> str:
        """The same in words, with its units where those are the data's own."""
        name = METRICS[self.deciding_measure(protocol)]
        return f"{name} in original units" if self.in_original_units(protocol) else name

    def in_original_units(self, protocol: str) -> bool:
        """Whether a protocol reports the errors of forecasts in the units of the data."""
        known = self is FORECASTING and protocol in protocols.names()
        return known and protocols.get(protocol).scale == "original"

    def column(self, printed: str) -> str:
        """Our column of a measure that papers print."""
        return self.printed.get(printed, printed)

    def obstacle(self, protocol: str) -> str:
        """Why no run can be made here under a protocol; empty: some can."""
        from rearview.train import parallel

        if self.protocols and protocol not in self.protocols:
            return f"runs of {self.name} are not made under {protocol!r}, but under {' or '.join(self.protocols)}"
        if self is not FORECASTING and parallel.size() > 1:
            return f"torchrun shares a run of forecasting, but a run of {self.name} has one process: use --workers"
        return ""


FORECASTING = Task(
    protocols.FORECASTING,
    ("mse", "mae"),
    lower_is_better=True,
    row=Row,
    deciding={"published:mica": "mae"},
)
CLASSIFICATION = Task(
    protocols.CLASSIFICATION,
    ("accuracy", "macro_f1"),
    lower_is_better=False,
    row=ClassificationRow,
    protocols=("clean", "published:tslib"),
    printed={"accuracy": "accuracy"},
    validation="validation_criterion",
)
DETECTION = Task(
    protocols.DETECTION,
    ("auc_pr", "vus_pr", "f1", "adjusted_f1", "range_f1", "event_f1"),  # first what needs no threshold
    lower_is_better=False,
    row=DetectionRow,
    protocols=("clean", "published:tslib", "published:tsb-ad"),
    printed={"f1": "adjusted_f1"},  # the field's F1 of detection is the point-adjusted one
    chance={"adjusted_f1": "adjusted_f1_by_chance"},
    deciding={"published:tslib": "adjusted_f1", "published:tsb-ad": "vus_pr"},
)
TASKS = (FORECASTING, CLASSIFICATION, DETECTION)


class StrangeFileError(InputError):
    """A file that holds no result rows."""


def get(name: str) -> Task:
    """The task of that name."""
    return next(task for task in TASKS if task.name == name)


def task_of(row: RunRow) -> Task:
    """The task that a row is of."""
    return next(task for task in TASKS if isinstance(row, task.row))


def read(path: Path) -> tuple[Task, list[RunRow]]:
    """(the task, every whole row) of a results file, whatever its task."""
    header = result_file.read_header(path)
    for task in TASKS:
        if header in result_file.headers(task.row):
            return task, result_file.read(path, task.row)
    for task in TASKS:
        result_file.refuse_newer(path, path.read_bytes(), task.row)
    raise _refusal(path, header)


def read_rows(task: Task, path: Path) -> list[RunRow]:
    """The rows of one task's file, none where there is no file yet; a file of another task is refused."""
    if not path.exists():
        return []
    refuse_other(task, path)
    return result_file.read(path, task.row)


def refuse_other(task: Task, path: Path) -> None:
    """Refuse a file that holds rows of another task."""
    header = result_file.read_header(path) if path.is_file() and path.stat().st_size else ()
    other = next((one for one in TASKS if header in result_file.headers(one.row)), task)
    if other is not task:
        raise InputError(
            f"{path} holds rows of {other.name}, and those of {task.name} need a file of their own; name another with "
            "--results."
        )


def _refusal(path: Path, header: tuple[str, ...]) -> InputError:
    if {"study", "arm"} <= set(header):
        return StrangeFileError(
            f"{path} holds rows of a synthetic study, which `rearview reproduce` makes a page of; give a CSV file of "
            "forecasting, classification or detection."
        )
    nearest = max((task.row.columns() for task in TASKS), key=lambda columns: len(set(columns) & set(header)))
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
