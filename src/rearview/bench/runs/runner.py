"""Make one run of any task: look for its row, read, fit, measure, and keep the new row, or that of a failure."""

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import TypeVar

import torch

from rearview.bench import tasks
from rearview.bench.rows import result_file
from rearview.bench.rows.identity import find_same
from rearview.bench.rows.row import RunRow
from rearview.bench.runs import measurement, provenance
from rearview.bench.runs.request import Request
from rearview.bench.runs.run_spec import Execution, ForecastingSpec, RunSpec, resolve
from rearview.core.errors import RearviewWarning
from rearview.estimators.base import Session, resolve_device
from rearview.train import parallel

AnyRunRow = TypeVar("AnyRunRow", bound=RunRow)


def make(spec: RunSpec, execution: Execution) -> RunRow:
    """Train a network, test it once, and return the row, which the results file keeps; Ctrl-C leaves no row."""
    started = time.perf_counter()
    # As the checkout and the plug-ins stand now, however they move on during the run.
    code = {"version": provenance.version(spec.columns()), "commit": provenance.commit()}
    if execution.threads is not None:
        torch.set_num_threads(execution.threads)
    task, results = tasks.get(spec.task), execution.results
    known = [] if results is None else result_file.known_rows(results, task.row)
    device = torch.device(resolve_device(execution.device))
    if isinstance(spec, ForecastingSpec):
        parallel.begin(device)
    memory = measurement.PeakMemory(device)
    data = task.runner.read(spec, execution.data_dir)
    configuration = {**spec.columns(), **data.columns}

    def find_finished(rows: Sequence[RunRow]) -> list[RunRow]:
        return find_same(rows, configuration)

    folder = execution.checkpoint
    saved = None if folder is None else folder / f"{spec.digest(data.columns)}.safetensors"
    if execution.resume and (made := find_finished(known)):
        if saved is not None:
            saved.unlink(missing_ok=True)  # left behind by a run that was killed just after its row was written
        return made[-1]
    session = Session(saved, execution.resume and saved is not None, execution.progress)
    fit = task.runner.fit(spec, data, device, session)
    measured = task.runner.measure(fit, data)
    row = task.row.build(
        {
            **fit.spec.columns(),
            **data.columns,
            "habits": fit.spec.habits(),
            **provenance.columns(device),
            **code,
            "parameters": provenance.count_parameters(fit.network),
            **measurement.training_facts(fit.history),
            **measured,
            "peak_memory_bytes": memory.read(),
            "total_seconds": time.perf_counter() - started + fit.earlier_seconds,
        }
    )
    if results is not None and not parallel.rank():
        row = result_file.append(results, row, unless=find_finished if execution.resume else None)
        if saved is not None:
            saved.unlink(missing_ok=True)
    return row


def make_one(request: Request, execution: Execution, kind: type[AnyRunRow]) -> AnyRunRow:
    """Resolve a request, make its run and return the row, which is of the kind that its task has."""
    row = make(resolve(request), execution)
    assert isinstance(row, kind)
    if made_by := provenance.describe_upgrade(row):
        message = f"The row of {row.created} was made{made_by}; resume=False makes the run anew."
        warnings.warn(message, RearviewWarning, stacklevel=3)
    return row


def failed_row(run: RunSpec | Request, device: str, problem: Exception) -> RunRow:
    """The row of a run that broke off; a request that could not even be resolved is stated as it was given."""
    kind = tasks.get(run.task).row
    given = {name: value for name, value in run.columns().items() if name in kind.CONFIGURATION}
    why = " ".join(f"{type(problem).__name__}: {problem}".split())
    nothing = {field.name: _empty_value(field.name, field.type) for field in fields(kind) if field.default is MISSING}
    code = {**provenance.columns(device), "version": provenance.version(given)}
    return kind.build({**nothing, **given, **code, "status": "failed", "problem": why})


def _empty_value(column: str, kind: object) -> object:
    """The value of a column in the row of a run that failed."""
    if column == "borders":
        return "{}"
    if kind is float:
        return 0.0 if column.endswith("_seconds") else math.nan
    return {str: "", int: 0}.get(kind)  # type: ignore[call-overload]  # None for a column that may be empty
