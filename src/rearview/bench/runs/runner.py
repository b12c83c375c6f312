"""Make one run of any task: look for its row, read, fit, measure, and keep the new row."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime

import torch

from rearview import __version__
from rearview.bench import tasks
from rearview.bench.rows import result_file
from rearview.bench.rows.identity import find_same
from rearview.bench.rows.row import RunRow
from rearview.bench.runs import measure, provenance
from rearview.bench.runs.run_spec import Execution, ForecastingSpec, RunSpec
from rearview.estimators.base import resolve_device
from rearview.train import parallel


def make(spec: RunSpec, execution: Execution) -> RunRow:
    """Train a network, test it once, and return the row, which the results file keeps; Ctrl-C leaves no row."""
    started = time.perf_counter()
    code = provenance.commit()
    if execution.threads is not None:
        torch.set_num_threads(execution.threads)
    task, results = tasks.get(spec.task), execution.results
    known = [] if results is None else result_file.known_rows(results, task.row)
    device = torch.device(resolve_device(execution.device))
    if isinstance(spec, ForecastingSpec):
        parallel.begin(device)
    memory = measure.PeakMemory(device)
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
    fit = task.runner.fit(spec, data, device, execution, saved)
    measured = task.runner.measure(fit, data)
    row = task.row.build(
        {
            **fit.spec.columns(),
            **data.columns,
            "habits": fit.spec.habits(),
            "version": __version__,
            "commit": code,
            "device": provenance.device_words(device),
            "torch": str(torch.__version__),
            "threads": torch.get_num_threads(),
            "parameters": sum(weight.numel() for weight in fit.network.parameters() if weight.requires_grad),
            **measure.training_facts(fit.history),
            **measured,
            "peak_memory_bytes": memory.read(),
            "total_seconds": time.perf_counter() - started + fit.earlier_seconds,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }
    )
    if results is not None and not parallel.rank():
        row = result_file.append(results, row, unless=find_finished if execution.resume else None)
        if saved is not None:
            saved.unlink(missing_ok=True)
    return row
