"""Many runs of classification or detection: cells times seeds, skipping what is there, going on after a failure.

Every run is appended to the results file as it ends, under a lock, so a sweep that is killed loses at most the runs in
flight, and the next one goes on where it stopped. A run that fails is a row too; it is tried again by the next sweep.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rearview.bench.papers.catalogue import LabelledCell
from rearview.bench.rows import result_file as files
from rearview.bench.rows import tasks
from rearview.bench.rows.identity import same
from rearview.bench.runs.pool import KILLED, not_begun, through
from rearview.bench.runs.sweep import Plan, Run, Say, own_warnings_only
from rearview.core.errors import SettingsError

if TYPE_CHECKING:
    from rearview.train import Progress


def sweep(
    task: str,
    cells: Iterable[LabelledCell],
    plan: Plan,
    *,
    workers: int = 1,
    seconds: float | None = None,
    say: Say | None = None,
    progress: "Progress | None" = None,
) -> list[Any]:
    """The rows of all cells and seeds of a task, those that failed included; no run begins after `seconds`.

    A run whose process is killed is a failed row. `say` hears how each run ended, how many there was no time for, and,
    where one worker makes them, as each begins; there `progress` follows the one in hand.
    """
    if workers < 1:
        raise SettingsError(f"workers is {workers}; it must be at least 1.")
    if reason := hindrance(task, plan.protocol):
        raise SettingsError(f"{reason[0].upper()}{reason[1:]}.")
    known = _kept(task, plan)
    # Set by set, as a set is read once for the runs that follow one another on it.
    cells = tuple(cells)
    ordered = [cell for name in dict.fromkeys(cell.dataset for cell in cells) for cell in cells if cell.dataset == name]
    watched = progress if workers == 1 else None
    runs = [_run(task, cell, plan, seed, _threads(workers), watched) for seed in plan.seeds for cell in ordered]
    until = None if seconds is None else time.monotonic() + seconds
    tell = say or (lambda sentence: None)
    names = [_words(run) for run in runs]
    found = through(attempt, runs, names, workers=workers, until=until, there=partial(_there, rows=known), tell=tell)
    rows = [_told(run, _failed(run, RuntimeError(KILLED)) if row is None else row, tell) for run, row in found]
    if len(rows) < len(runs):
        tell(not_begun(len(runs) - len(rows), len(runs)))
    return rows


def hindrance(task: str, protocol: str) -> str:
    """Why no run of a task can be made here under a protocol; empty: some can."""
    from rearview.bench.runs import classification, detection
    from rearview.train import parallel

    known = (classification if task == tasks.CLASSIFICATION.name else detection).PROTOCOLS
    if protocol not in known:
        return f"runs of {task} are not made under {protocol!r}, but under {' or '.join(known)}"
    if parallel.size() > 1:
        return f"torchrun shares a run of forecasting, but a run of {task} has one process: use --workers instead"
    return ""


def _kept(task: str, plan: Plan) -> list[Any]:
    """The rows that are there; what no run could begin with is refused, a training setting that is none or a file of
    other rows."""
    from rearview import train
    from rearview.core.settings import settings_from

    settings_from(train.Settings, "training", dict(plan.training or {}))
    found = tasks.get(task)
    tasks.rows_of(found, plan.results)
    return files.kept(plan.results, found.kind)


def _there(run: Run, rows: Sequence[Any]) -> list[Any]:
    """Those of the rows that make a run needless, told without reading its data; none of one that can't be settled."""
    from rearview.bench.rows.labelled_failed import settled

    try:
        asked = settled(tasks.get(run["task"]), run["asked"]) if run["asked"]["resume"] else {}
    except Exception:
        asked = {}
    return same(rows, {name: value for name, value in asked.items() if not name.endswith("_sha256")}) if asked else []


def attempt(run: Run) -> Any:
    """One run; what goes wrong with it, the keyboard aside, becomes a row that says so."""
    import torch

    from rearview import bench

    if run["threads"]:
        torch.set_num_threads(run["threads"])
    make: Callable[..., Any] = bench.classify if run["task"] == tasks.CLASSIFICATION.name else bench.detect
    with own_warnings_only():
        try:
            return make(**run["asked"])
        except files.RowNotAdded:
            raise  # the run came to its end: a row that says otherwise would bury its own
        except Exception as problem:
            return _failed(run, problem)


def _failed(run: Run, problem: Exception) -> Any:
    """The row of a run that broke off, added to the results."""
    from rearview.bench.rows.labelled_failed import failed_row

    return files.append(run["asked"]["results"], failed_row(tasks.get(run["task"]), run["asked"], problem))


def _threads(workers: int) -> int | None:
    """Threads of each of several processes, since more of them than cores make all slower; None: as many as ever."""
    import torch

    return max(1, torch.get_num_threads() // workers) if workers > 1 else None


def _run(task: str, cell: LabelledCell, plan: Plan, seed: int, threads: int | None, progress: "Progress | None") -> Run:
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
        "progress": progress,
        **cell.options,
    }
    return {"task": task, "label": cell.label, "threads": threads, "asked": asked}


def _words(run: Run) -> str:
    asked = run["asked"]
    return f"{asked['dataset']} {run['label']} {asked['protocol']} seed {asked['seed']}"


def _told(run: Run, row: Any, tell: Say) -> Any:
    what = _words(run)
    if row.status == "failed":
        tell(f"{what}: failed: {row.problem}")
        return row
    columns = [column for column in tasks.get(run["task"]).metrics if getattr(row, column) is not None]
    measures = ", ".join(f"{column} {getattr(row, column):.4f}" for column in columns)
    tell(f"{what}: {measures} ({row.total_seconds:.0f} s)")
    return row
