"""Many runs: cells times seeds, skipping what is there, going on after a failure, in as many processes as wanted.

Every run is appended to the results file as it ends, under a lock, so a sweep that is killed loses at most the runs in
flight, and the next one goes on where it stopped. A run that fails is a row too; it is tried again by the next sweep.
"""

import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rearview.bench.experiments import Cell
from rearview.bench.presets import OFFICIAL
from rearview.bench.row import Row
from rearview.errors import RearviewError, SettingsError

Say = Callable[[str], None]
Over = Literal["here", "ray"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How every cell of a sweep is run."""

    results: Path
    seeds: tuple[int, ...] = (0,)
    protocol: str = "clean"
    presets: str = OFFICIAL
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
            "presets": self.presets,
            "data_dir": self.data_dir,
            "device": self.device,
            "settings": self.settings,
            "training": self.training,
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
) -> list[Row]:
    """The rows of all cells and seeds, those that failed included; no run begins after `seconds`.

    `workers` processes share the device. With over="ray" every run is a task of the Ray cluster at hand, and this
    process alone appends the rows.
    """
    if workers < 1:
        raise SettingsError(f"workers is {workers}; it must be at least 1.")
    runs = [plan.arguments(cell, seed) for seed in plan.seeds for cell in cells]
    until = None if seconds is None else time.monotonic() + seconds
    tell = say or (lambda sentence: None)
    if over == "ray":
        return _on_ray(runs, until, tell)
    if workers == 1:
        return [_told(attempt(run), tell) for run in runs if until is None or time.monotonic() < until]
    return _in_processes(runs, workers, until, tell)


def attempt(run: Mapping[str, Any]) -> Row:
    """One run; what goes wrong with it, the keyboard aside, becomes a row that says so."""
    from rearview.bench import results as files
    from rearview.bench.failed import failed_row
    from rearview.bench.runner import run as make

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return make(**run)
        except (RearviewError, RuntimeError, ValueError, MemoryError, OSError, NotImplementedError) as problem:
            row = failed_row(run, problem)
    if run.get("results") is not None:
        files.append(Path(run["results"]), row)
    return row


def _told(row: Row, tell: Say) -> Row:
    what = f"{row.dataset} {row.lookback}-{row.horizon} {row.model} {row.attention or '-'} seed {row.seed}"
    outcome = f"failed: {row.problem}" if row.status == "failed" else f"mse {row.mse:.4f}, mae {row.mae:.4f}"
    tell(f"{what}: {outcome} ({row.total_seconds:.0f} s)")
    return row


def _in_processes(runs: Sequence[Mapping[str, Any]], workers: int, until: float | None, tell: Say) -> list[Row]:
    rows: list[Row] = []
    waiting = list(reversed(runs))
    # Spawned, not forked: a forked child can't use CUDA.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        running: set[Future[Row]] = set()
        while waiting or running:
            while waiting and len(running) < workers and (until is None or time.monotonic() < until):
                running.add(pool.submit(attempt, waiting.pop()))
            if not running:
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            rows += [_told(future.result(), tell) for future in done]
    return rows


def _on_ray(runs: Sequence[Mapping[str, Any]], until: float | None, tell: Say) -> list[Row]:
    try:
        import ray
    except ImportError:
        raise SettingsError(
            "Sweeps over many machines need Ray: install rearview[ray], or leave out --ray to run here."
        ) from None
    from rearview.bench import results as files

    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    on_gpu = any(run["device"] in ("auto", "cuda") for run in runs) and ray.cluster_resources().get("GPU")
    task = ray.remote(num_gpus=1 if on_gpu else 0)(attempt)
    pending = {}
    for run in runs:
        if not (run["resume"] and made(run, files.kept(run["results"]))):
            # Workers have no share in our files: they hand rows back, and this process alone appends.
            pending[task.remote({**run, "results": None, "checkpoint": None, "resume": False})] = run["results"]
    rows: list[Row] = []
    while pending:
        left = None if until is None else max(0.0, until - time.monotonic())
        done, _ = ray.wait(list(pending), num_returns=1, timeout=left)
        if not done:
            for reference in pending:
                ray.cancel(reference)
            break
        row = ray.get(done[0])
        files.append(pending.pop(done[0]), row)
        rows.append(_told(row, tell))
    return rows


def made(run: Mapping[str, Any], rows: Sequence[Row]) -> list[Row]:
    """The rows of a run that are there already, told without reading its data."""
    from rearview.bench import results as files
    from rearview.bench import search
    from rearview.bench.failed import settled

    asked = search.known(settled(run), run["candidates"])
    asked.pop("values_sha256")
    return files.find(rows, **asked, status="done")
