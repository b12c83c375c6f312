"""Many runs: cells times seeds, skipping those already made, in as many processes as wanted.

Every run is appended to the results file as it ends, under a lock, so a sweep that is killed loses at most the runs in
flight, and the next one continues where it stopped. A run that fails is a row too; the next sweep tries it again.
"""

import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rearview.bench import tasks
from rearview.bench.analysis.candidates import spell_particulars
from rearview.bench.papers.catalogue import Cell
from rearview.bench.rows import result_file
from rearview.bench.rows.identity import find_same
from rearview.bench.rows.row import Facts, Row, RunRow
from rearview.bench.runs import pool
from rearview.bench.runs.pool import KILLED, has_time
from rearview.core.errors import RearviewWarning, SettingsError
from rearview.core.installation import install_command
from rearview.core.wording import quantity

if TYPE_CHECKING:
    from rearview.bench.runs.run_spec import Execution, RunSpec
    from rearview.train import Progress

Say = Callable[[str], None]
Over = Literal["here", "ray"]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a sweep: a cell with a seed, and its spec."""

    cell: Cell
    spec: "RunSpec | None"
    """None: it could not be resolved."""
    problem: Exception | None = field(default=None, compare=False)
    """Why not."""

    @property
    def title(self) -> str:
        return f"{self.cell.title}, seed {self.cell.seed}"

    def find_finished(self, rows: Sequence[RunRow]) -> list[RunRow]:
        """The rows of this run that are there already, found without reading its data."""
        return [] if self.spec is None else find_same(rows, self.spec.columns())


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """Settings that every cell of a sweep is run with."""

    results: Path
    seeds: tuple[int, ...] = (0,)
    protocol: str = "clean"
    presets: str | None = None
    """Whose published settings, whatever a cell says; None: those of the cell, or else of the protocol."""
    data_dir: Path | None = None
    device: str = "auto"
    settings: Facts | None = None
    training: Facts | None = None
    again: bool = False
    """Make runs again that the results hold already."""

    def request(self, cell: Cell, seed: int) -> Cell:
        """A cell with a seed and what all cells of the sweep have."""
        return replace(
            cell,
            seed=seed,
            protocol=self.protocol,
            presets=self.presets or cell.presets,
            settings={**(self.settings or {}), **cell.settings},
            training={**(self.training or {}), **cell.training},
            numbers=(),
            among=(),
        )

    def run(self, cell: Cell, seed: int) -> Run:
        """Resolve the run of a cell and a seed; one that can't be resolved says why."""
        from rearview.bench.runs.run_spec import resolve

        request = self.request(cell, seed)
        try:
            return Run(request, resolve(request))
        except Exception as problem:
            return Run(request, None, problem)

    def runs(self, cells: Iterable[Cell]) -> list[Run]:
        """The runs of all cells, seed by seed; those of classification and detection set by set, as a set is read once
        for runs that follow one another."""
        cells = list(cells)
        if cells and cells[0].task != tasks.FORECASTING.name:
            order = list(dict.fromkeys(cell.dataset for cell in cells))
            cells.sort(key=lambda cell: order.index(cell.dataset))
        return [self.run(cell, seed) for seed in self.seeds for cell in cells]


def sweep(
    cells: Iterable[Cell | Run],
    plan: SweepPlan,
    *,
    workers: int = 1,
    seconds: float | None = None,
    over: Over = "here",
    say: Say | None = None,
    progress: "Progress | None" = None,
) -> list[RunRow]:
    """The rows of cells with all seeds of a plan, or of runs that it made of them, all of one task, those of failed
    runs included; no run begins after `seconds`.

    `workers` processes share the device; a run whose process is killed is a failed row. With over="ray" every run is a
    task of the Ray cluster at hand, as many at once as it has room for, and this process alone appends the rows.

    `say` gets a sentence as each run ends, one on runs without time left, and, of one worker, as each run begins;
    there `progress` follows the current one.
    """
    import torch

    from rearview.bench.runs.provenance import describe_upgrade
    from rearview.bench.runs.run_spec import Execution
    from rearview.train import parallel

    first, listed = first_process(plan.device), list(cells)
    runs = [run for run in listed if isinstance(run, Run)]
    runs += plan.runs(cell for cell in listed if isinstance(cell, Cell))
    if not runs:
        return []
    task = tasks.get(runs[0].cell.task)
    if reason := task.obstacle(plan.protocol):
        raise SettingsError(f"{reason[0].upper()}{reason[1:]}.")
    if workers < 1:
        raise SettingsError(f"workers is {workers}; it must be at least 1.")
    if workers > 1 and parallel.size() > 1:
        raise SettingsError("torchrun shares each run among its processes; leave out workers, or start without it.")
    forecasts = task is tasks.FORECASTING
    execution = Execution(
        data_dir=plan.data_dir,
        device=plan.device,
        results=plan.results,
        checkpoint=plan.results.with_suffix(".checkpoints") if forecasts else None,
        resume=not plan.again,
        # More threads than cores would make all processes slower.
        threads=None if forecasts or workers == 1 else max(1, torch.get_num_threads() // workers),
        progress=progress if first and workers == 1 and over == "here" else None,
    )
    known = result_file.known_rows(plan.results, task.row)
    until = None if seconds is None else time.monotonic() + seconds
    heard = say is not None and first
    tell = say if say is not None and first else lambda sentence: None
    make = _make_on_ray if over == "ray" else partial(_make_here, workers=workers)
    rows, earlier = [], {row.created for row in known}
    try:
        for run, row in make(runs, execution, known, until=until, tell=tell):
            rows.append(row)
            if heard:
                # Code that has changed since makes no other run: whoever works on a mechanism must see that.
                was_there = row.created in earlier
                kept = f"; a row of {row.created}{describe_upgrade(row)}, --again makes it anew" if was_there else ""
                tell(f"{run.title}: {_describe_outcome(task, row)}{kept}")
    except KeyboardInterrupt:
        further = "" if plan.again else "; the same command goes on from here"
        tell(f"stopped after {len(rows)} of {quantity(len(runs), 'run')}{further}")
        raise
    if len(rows) < len(runs):
        tell(describe_unbegun(len(runs) - len(rows), len(runs)))
    return rows


def first_process(device: str) -> bool:
    """Whether this process is the one that speaks and writes: alone, or the first of those that torchrun started."""
    import torch

    from rearview.estimators.base import resolve_device
    from rearview.train import parallel

    if "WORLD_SIZE" in os.environ:
        # Joined before the first run: one that fails before it trains must be told once, too.
        parallel.begin(torch.device(resolve_device(device)))
    return parallel.rank() == 0


def attempt(run: Run, execution: "Execution") -> RunRow:
    """Make one run; whatever goes wrong with it, the keyboard aside, becomes a row that says so."""
    from rearview.bench.runs import runner

    with own_warnings_only():
        try:
            if run.spec is None:
                raise run.problem or RuntimeError("It was not resolved.")
            with _checkpoint_folder(run.spec, execution.checkpoint) as folder:
                return runner.make(run.spec, replace(execution, checkpoint=folder))
        except result_file.RowNotAdded:
            raise  # the run came to its end: a row that says otherwise would bury its own
        except Exception as problem:
            return _fail(run, execution, problem)


@contextmanager
def own_warnings_only() -> Iterator[None]:
    """Warnings of rearview alone: what other packages say of a run would bury the lines of many."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", RearviewWarning)
        yield


@contextmanager
def _checkpoint_folder(spec: "RunSpec", folder: Path | None) -> Iterator[Path | None]:
    """The folder for a run's checkpoint; None while another command makes the same run, whose it then is."""
    from rearview.train import parallel

    if folder is None or parallel.size() > 1:
        yield folder
        return
    with pool.hold_run(folder, spec.digest({"values_sha256": ""})) as ours:
        yield folder if ours else None


def _fail(run: Run, execution: "Execution", problem: Exception) -> RunRow:
    """The row of a run that broke off, added to the results by the process that writes."""
    from rearview.bench.runs.runner import failed_row
    from rearview.train import parallel

    row = failed_row(run.spec or run.cell, execution.device, problem)
    if execution.results is not None and not parallel.rank():
        result_file.append(execution.results, row)
    return row


def _describe_outcome(task: tasks.Task, row: RunRow) -> str:
    if row.status == "failed":
        return f"failed: {row.problem}"
    measures = [f"{name} {value:.4f}" for name in task.metrics if (value := getattr(row, name)) is not None]
    settings = spell_particulars(row) if isinstance(row, Row) else ""
    remarks = [f"; {remark}" for remark in (settings, row.problem) if remark]
    return f"{', '.join(measures)} ({row.total_seconds:.0f} s){''.join(remarks)}"


def describe_unbegun(count: int, of: int) -> str:
    """A sentence on runs that there was no time for."""
    were = "run was" if of == 1 else "runs were"
    return (
        f"time was up: {count} of {of} {were} not begun; the same command goes on with {'it' if count == 1 else 'them'}"
    )


def _make_here(
    runs: Sequence[Run],
    execution: "Execution",
    known: Sequence[RunRow],
    *,
    workers: int,
    until: float | None,
    tell: Say,
) -> Iterator[tuple[Run, RunRow]]:
    """Each run with its row; then those that there was no time for and that were made before."""
    there = {id(run): run.find_finished(known)[-1:] if execution.resume else [] for run in runs}
    work = partial(attempt, execution=execution)
    begun = set[int]()
    if workers == 1:
        for place, run in enumerate(runs, start=1):
            if not has_time(until):
                break
            if not there[id(run)]:
                tell(f"run {place} of {len(runs)}: {run.title}")
            begun.add(id(run))
            yield run, work(run)
    else:
        for run in (run for run in runs if run.spec is None and has_time(until)):
            begun.add(id(run))
            yield run, work(run)
        for run, row in pool.spread(work, [run for run in runs if run.spec is not None], workers, until):
            begun.add(id(run))
            yield run, _fail(run, execution, RuntimeError(KILLED)) if row is None else row
    yield from ((run, row) for run in runs if id(run) not in begun for row in there[id(run)])


def _make_on_ray(
    runs: Sequence[Run], execution: "Execution", known: Sequence[RunRow], *, until: float | None, tell: Say
) -> Iterator[tuple[Run, RunRow]]:
    """Every run that was not made before as a task of the cluster at hand."""
    try:
        import ray
    except ImportError:
        raise SettingsError(
            f"Sweeps over many machines need Ray: {install_command('ray')}, or leave out --ray to run here."
        ) from None
    ours = not ray.is_initialized()
    if ours:
        ray.init(log_to_driver=False)
    try:
        yield from _spread_on_ray(ray, runs, execution, known, until)
    finally:
        if ours:
            ray.shutdown()


def _spread_on_ray(
    ray: Any, runs: Sequence[Run], execution: "Execution", known: Sequence[RunRow], until: float | None
) -> Iterator[tuple[Run, RunRow]]:
    resources = ray.cluster_resources()
    on_gpu = execution.device in ("auto", "cuda") and resources.get("GPU", 0) >= 1
    # Workers have no share in our files: they hand rows back, and this process alone appends.
    work = partial(attempt, execution=replace(execution, results=None, checkpoint=None, resume=False))

    def make_elsewhere(run: Run) -> pool.Reply[RunRow]:
        return pool.reply(work, run)

    task = ray.remote(num_gpus=1 if on_gpu else 0)(make_elsewhere)
    at_once = max(1, int(resources.get("GPU" if on_gpu else "CPU", 1)))
    waiting: deque[Run] = deque()
    for run in runs:
        if run.spec is None:
            yield run, attempt(run, execution)
        elif execution.resume and (made := run.find_finished(known)):
            yield run, made[-1]
        else:
            waiting.append(run)
    running: dict[Any, Run] = {}
    said = set[str]()
    while True:
        while waiting and len(running) < at_once and has_time(until):
            run = waiting.popleft()
            running[task.remote(run)] = run
        if not running:
            return
        [ended], _ = ray.wait(list(running), num_returns=1)
        run = running.pop(ended)
        try:
            row = ray.get(ended).repeat_warnings(said)
        except ray.exceptions.RayError as problem:
            yield run, _fail(run, execution, RuntimeError(f"Ray lost this run: {problem}"))
            continue
        assert execution.results is not None
        # Unless the results have got a row of this run in the meantime.
        again = row.status == "failed" or not execution.resume
        yield run, result_file.append(execution.results, row, unless=None if again else run.find_finished)
