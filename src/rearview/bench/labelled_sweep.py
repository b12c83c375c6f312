"""Many runs of classification or detection: cells times seeds, skipping what is there, going on after a failure.

Every run is appended to the results file as it ends, under a lock, so a sweep that is killed loses at most the runs in
flight, and the next one goes on where it stopped. A run that fails is a row too; it is tried again by the next sweep.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rearview.bench import kinds
from rearview.bench import results as files
from rearview.bench.experiments import LabelledCell
from rearview.bench.pool import KILLED, in_time, spread
from rearview.bench.sweep import Plan, Say, own_warnings_only
from rearview.errors import SettingsError


def sweep(
    task: str,
    cells: Iterable[LabelledCell],
    plan: Plan,
    *,
    workers: int = 1,
    seconds: float | None = None,
    say: Say | None = None,
) -> list[Any]:
    """The rows of all cells and seeds of a task, those that failed included; no run begins after `seconds`.

    A run whose process is killed is a failed row.
    """
    if workers < 1:
        raise SettingsError(f"workers is {workers}; it must be at least 1.")
    if reason := hindrance(task, plan.protocol):
        raise SettingsError(f"{reason[0].upper()}{reason[1:]}.")
    _check(task, plan)
    # Set by set, as a set is read once for the runs that follow one another on it.
    cells = tuple(cells)
    ordered = [cell for name in dict.fromkeys(cell.dataset for cell in cells) for cell in cells if cell.dataset == name]
    runs = [_run(task, cell, plan, seed, _threads(workers)) for seed in plan.seeds for cell in ordered]
    until = None if seconds is None else time.monotonic() + seconds
    tell = say or (lambda sentence: None)
    if workers == 1:
        return [_told(run, attempt(run), tell) for run in runs if in_time(until)]
    found = spread(attempt, runs, workers, until)
    return [_told(run, _failed(run, RuntimeError(KILLED)) if row is None else row, tell) for run, row in found]


def hindrance(task: str, protocol: str) -> str:
    """Why no run of a task can be made here under a protocol; empty: some can."""
    from rearview.bench import classification, detection
    from rearview.train import parallel

    known = (classification if task == kinds.CLASSIFICATION.name else detection).PROTOCOLS
    if protocol not in known:
        return f"runs of {task} are not made under {protocol!r}, but under {' or '.join(known)}"
    if parallel.size() > 1:
        return f"torchrun shares a run of forecasting, but a run of {task} has one process: use --workers instead"
    return ""


def _check(task: str, plan: Plan) -> None:
    """Refuse what no run could begin with: a training setting that is none, a file of other rows."""
    from rearview import train
    from rearview.shelf import settings_from

    settings_from(train.Settings, "training", dict(plan.training or {}))
    found = kinds.get(task)
    kinds.rows_of(found, plan.results)
    files.kept(plan.results, found.kind)


def attempt(run: Mapping[str, Any]) -> Any:
    """One run; what goes wrong with it, the keyboard aside, becomes a row that says so."""
    import torch

    from rearview import bench

    if run["threads"]:
        torch.set_num_threads(run["threads"])
    make: Callable[..., Any] = bench.classify if run["task"] == kinds.CLASSIFICATION.name else bench.detect
    with own_warnings_only():
        try:
            return make(**run["asked"])
        except files.RowNotAdded:
            raise  # the run came to its end: a row that says otherwise would bury its own
        except Exception as problem:
            return _failed(run, problem)


def _failed(run: Mapping[str, Any], problem: Exception) -> Any:
    """The row of a run that broke off, added to the results."""
    from rearview.bench.labelled_failed import failed_row

    return files.append(run["asked"]["results"], failed_row(kinds.get(run["task"]), run["asked"], problem))


def _threads(workers: int) -> int | None:
    """Threads of each of several processes, since more of them than cores make all slower; None: as many as ever."""
    import torch

    return max(1, torch.get_num_threads() // workers) if workers > 1 else None


def _run(task: str, cell: LabelledCell, plan: Plan, seed: int, threads: int | None) -> dict[str, Any]:
    """A run in words that another process understands."""
    asked = {
        "dataset": cell.dataset,
        "model": cell.model,
        "attention": None if cell.attention is None else dict(cell.attention),
        "seed": seed,
        "protocol": plan.protocol,
        "data_dir": plan.data_dir,
        "device": plan.device,
        "training": plan.training,
        "results": plan.results,
        "resume": not plan.again,
        **cell.options,
    }
    return {"task": task, "label": cell.label, "threads": threads, "asked": asked}


def _told(run: Mapping[str, Any], row: Any, tell: Say) -> Any:
    asked = run["asked"]
    what = f"{asked['dataset']} {run['label']} {asked['protocol']} seed {asked['seed']}"
    if row.status == "failed":
        tell(f"{what}: failed: {row.problem}")
        return row
    columns = [column for column in kinds.get(run["task"]).metrics if getattr(row, column) is not None]
    measures = ", ".join(f"{column} {getattr(row, column):.4f}" for column in columns)
    tell(f"{what}: {measures} ({row.total_seconds:.0f} s)")
    return row
