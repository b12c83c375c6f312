"""Many runs: cells times seeds, skipping what is there, going on after a failure, in as many processes as wanted.

Every run is appended to the results file as it ends, under a lock, so a sweep that is killed loses at most the runs in
flight, and the next one goes on where it stopped. A run that fails is a row too; it is tried again by the next sweep.
"""

import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rearview.bench.analysis.candidates import in_short, particulars
from rearview.bench.papers.catalogue import Cell
from rearview.bench.rows import result_file as files
from rearview.bench.rows.identity import same
from rearview.bench.rows.row import Row
from rearview.bench.runs.pool import KILLED, Done, done, in_time, not_begun, retold, through
from rearview.bench.runs.run_lock import claimed
from rearview.core.errors import RearviewWarning, SettingsError

if TYPE_CHECKING:
    from rearview.train import Progress

Say = Callable[[str], None]
Over = Literal["here", "ray"]
Run = Mapping[str, Any]
"""What `rearview.bench.run`, or what makes a run of another task, is given."""
There = Callable[[Run], Sequence[Row]]
"""From a run to the rows of it that are there already."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How every cell of a sweep is run."""

    results: Path
    seeds: tuple[int, ...] = (0,)
    protocol: str = "clean"
    presets: str | None = None
    """Whose published settings, whatever a cell says; None: those of the cell, or else of the protocol."""
    data_dir: Path | None = None
    device: str = "auto"
    settings: Mapping[str, Any] | None = None
    training: Mapping[str, Any] | None = None
    again: bool = False
    """Make runs again that the results hold already."""

    def arguments(self, cell: Cell, seed: int) -> dict[str, Any]:
        """What `rearview.bench.run` takes for a cell and a seed."""
        return {
            **cell.arguments(),
            "seed": seed,
            "protocol": self.protocol,
            "presets": self.presets or cell.presets,
            "data_dir": self.data_dir,
            "device": self.device,
            "settings": {**(self.settings or {}), **cell.settings} or None,
            "training": {**(self.training or {}), **cell.training} or None,
            "results": self.results,
            "checkpoint": self.results.with_suffix(".checkpoints"),
            "resume": not self.again,
        }


def sweep(
    cells: Iterable[Cell],
    plan: Plan,
    *,
    workers: int = 1,
    seconds: float | None = None,
    over: Over = "here",
    say: Say | None = None,
    progress: "Progress | None" = None,
) -> list[Row]:
    """The rows of all cells and seeds, those that failed included; no run begins after `seconds`.

    `workers` processes share the device; a run whose process is killed is a failed row. With over="ray" every run is a
    task of the Ray cluster at hand, as many at once as it has room for, and this process alone appends the rows.

    `say` hears how each run ended, how many there was no time for, and, where one worker makes them, as each begins;
    there `progress` follows the one in hand.
    """
    from rearview.train import parallel

    if workers < 1:
        raise SettingsError(f"workers is {workers}; it must be at least 1.")
    first = first_process(plan.device)
    if workers > 1 and parallel.size() > 1:
        raise SettingsError("torchrun shares each run among its processes; leave out workers, or start without it.")
    there = partial(_there, rows=files.kept(plan.results))
    watched = progress if first and workers == 1 and over == "here" else None
    asked = [(cell, seed) for seed, cell in product(plan.seeds, cells)]
    runs: list[Run] = [{**plan.arguments(cell, seed), "progress": watched} for cell, seed in asked]
    until = None if seconds is None else time.monotonic() + seconds
    tell = say if say is not None and first else lambda sentence: None
    if over == "ray":
        rows = _on_ray(runs, there, until, tell)
    else:
        names = [f"{cell.title}, seed {seed}" for cell, seed in asked]
        found = through(attempt, runs, names, workers=workers, until=until, there=there, tell=tell)
        rows = [_told(_lost(run, KILLED) if row is None else row, tell) for run, row in found]
    if len(rows) < len(runs):
        tell(not_begun(len(runs) - len(rows), len(runs)))
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


def attempt(run: Run) -> Row:
    """One run; what goes wrong with it, the keyboard aside, becomes a row that says so."""
    from rearview.bench.rows.failed_row import failed_row
    from rearview.bench.runs.forecasting import run as make
    from rearview.train import parallel

    with own_warnings_only():
        try:
            with _checkpoint(run) as folder:
                return make(**{**run, "checkpoint": folder})
        except files.RowNotAdded:
            raise  # the run came to its end: a row that says otherwise would bury its own
        except Exception as problem:
            row = failed_row(run, problem)
    if run.get("results") is not None and not parallel.rank():
        files.append(Path(run["results"]), row)
    return row


@contextmanager
def own_warnings_only() -> Iterator[None]:
    """Warnings of rearview's own alone: what other packages say of a run would bury the lines of many."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", RearviewWarning)
        yield


@contextmanager
def _checkpoint(run: Run) -> Iterator[Path | None]:
    """The folder for a run's checkpoint; none while another command has the same run in hand, whose it then is."""
    from rearview.bench.rows.failed_row import settled
    from rearview.bench.runs.run_spec import digest
    from rearview.train import parallel

    folder = run["checkpoint"]
    if folder is None or parallel.size() > 1:
        yield folder
        return
    with claimed(folder, digest(settled(run))) as ours:
        yield folder if ours else None


def _lost(run: Run, reason: str) -> Row:
    """The row of a run whose process is gone, added to the results."""
    from rearview.bench.rows.failed_row import failed_row

    return files.append(run["results"], failed_row(run, RuntimeError(reason)))


def _told(row: Row, tell: Say) -> Row:
    more = f" with {words}," if (words := particulars(row)) else ""
    what = f"{row.dataset} {row.lookback}-{row.horizon} {row.model} {in_short(row) or '-'}{more} seed {row.seed}"
    outcome = f"failed: {row.problem}" if row.status == "failed" else f"mse {row.mse:.4f}, mae {row.mae:.4f}"
    remark = f"; {row.problem}" if row.problem and row.status != "failed" else ""
    tell(f"{what}: {outcome} ({row.total_seconds:.0f} s){remark}")
    return row


def _on_ray(runs: Sequence[Run], there: There, until: float | None, tell: Say) -> list[Row]:
    try:
        import ray
    except ImportError:
        raise SettingsError(
            "Sweeps over many machines need Ray: install rearview[ray], or leave out --ray to run here."
        ) from None
    if ray.is_initialized():
        return _spread_on(ray, runs, there, until, tell)
    ray.init(log_to_driver=False)
    try:
        return _spread_on(ray, runs, there, until, tell)
    finally:
        ray.shutdown()


def _spread_on(ray: Any, runs: Sequence[Run], there: There, until: float | None, tell: Say) -> list[Row]:
    """Every run as a task of the cluster that `ray` speaks to."""
    resources = ray.cluster_resources()
    on_gpu = any(run["device"] in ("auto", "cuda") for run in runs) and resources.get("GPU", 0) >= 1
    work = attempt

    def elsewhere(run: Run) -> Done:
        return done(work, run)

    task = ray.remote(num_gpus=1 if on_gpu else 0)(elsewhere)
    at_once = max(1, int(resources.get("GPU" if on_gpu else "CPU", 1)))
    rows: list[Row] = []
    waiting: deque[Run] = deque()
    for run in runs:
        found = there(run)
        rows += [_told(row, tell) for row in found[-1:]]
        waiting.extend([] if found else [run])
    running: dict[Any, Run] = {}
    said = set[str]()
    while True:
        while waiting and len(running) < at_once and in_time(until):
            run = waiting.popleft()
            # Workers have no share in our files: they hand rows back, and this process alone appends.
            running[task.remote({**run, "results": None, "checkpoint": None, "resume": False})] = run
        if not running:
            return rows
        [ended], _ = ray.wait(list(running), num_returns=1)
        run = running.pop(ended)
        try:
            row = _added(run, retold(ray.get(ended), said))
        except ray.exceptions.RayError as problem:
            row = _lost(run, f"Ray lost this run: {problem}")
        rows.append(_told(row, tell))


def _added(run: Run, row: Row) -> Row:
    """A row that another machine made, unless the results have got one of this run in the meantime."""
    again = row.status == "failed" or not run["resume"]
    return files.append(run["results"], row, unless=None if again else lambda rows: made(run, rows))


def _there(run: Run, rows: Sequence[Row]) -> list[Row]:
    """Those of the rows that make a run needless; one that can't be settled has none, and fails when it is made."""
    try:
        return made(run, rows) if run["resume"] else []
    except Exception:
        return []


def made(run: Run, rows: Sequence[Row]) -> list[Row]:
    """The rows of a run that are there already, told without reading its data."""
    from rearview.bench.rows.failed_row import settled

    asked = settled(run)
    asked.pop("values_sha256")
    return same(rows, asked)
