"""Zero-shot and naive forecasts on 29 GIFT-Eval tasks, or on development tasks, beside published numbers.

    python benchmarks/gift.py --data-dir DATA                              seasonal naive, the reference
    python benchmarks/gift.py --data-dir DATA --weights RUN --device cuda  a glance network, by its training folder
    python benchmarks/gift.py --data-dir DATA --weights RUN --tasks development
    python benchmarks/gift.py --data-dir DATA --weights shipped            the one that comes with the package
    python benchmarks/gift.py --data-dir DATA --weights shipped --tasks development --more 4
    python benchmarks/gift.py --data-dir DATA --auto 120 --device cuda --out results/gift.csv --resume
                                       the portfolio, fitted within 120 s before the first window of each task

With `--resume`, tasks that `--out` holds of this model are not made again, and count in the means. Scores are relative
to seasonal naive: geometric means over tasks. With `--clock processor` seconds are those of the processor, the
portfolio's limit included (one thread: OMP_NUM_THREADS=1). Everything is decided on the development tasks; the tests
are for finished candidates, and `--out` keeps a row of every look at them, task by task.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

import tasks as practical
from _rows import read
from _task_files import KINDS
from _tasks import QUANTILES, Floats, Scores, Task, score, seasonal_naive
from rearview.bench.runs.provenance import commit
from rearview.models.patch_hosts.glance import Network
from rearview.pretrained import weights
from rearview.pretrained.training import read_network
from task_table import geometric, ratio

PUBLISHED = Path(__file__).resolve().parent.parent / "results" / "gift_published.csv"
CELLS = 1 << 21
"""Steps of the past that are read at once."""
Forecaster = Callable[[Task], Floats]


def glance(network: Network, device: str) -> Forecaster:
    """Forecasts of a network, windows of equal length together."""

    def forecast(task: Task) -> Floats:
        longest = network.room
        wanted = [network.settings.quantiles.index(round(float(q), 1)) for q in QUANTILES]
        result = np.empty(task.shape)
        cases = [(which, window, past[-longest:]) for which, window, past, _ in task.cases()]
        for group in group_by_length(cases):
            past = torch.tensor(np.stack([values for *_, values in group]), device=device)
            observed = past.isfinite()
            with torch.inference_mode(), torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                quantiles = network.forecast(past.nan_to_num()[:, None], observed[:, None], task.horizon)
            for (which, window, _), values in zip(
                group, quantiles[:, 0, :, wanted].double().cpu().numpy(), strict=True
            ):
                result[which, window] = values
        return result

    return forecast


def group_by_length(cases: list[tuple[int, int, Floats]]) -> Iterator[list[tuple[int, int, Floats]]]:
    """Cases whose pasts are equally long, so many at a time that memory is bounded."""
    by_length: dict[int, list[tuple[int, int, Floats]]] = {}
    for case in cases:
        by_length.setdefault(len(case[2]), []).append(case)
    for length, group in by_length.items():
        size = max(1, CELLS // length)
        yield from (group[start : start + size] for start in range(0, len(group), size))


def add_windows(task: Task, times: int) -> Task:
    """The task with so many times its windows, of series with two seasons and 16 rows before; as it is without any."""
    needed = times * task.windows * task.horizon + max(2 * task.season, 16)
    series = tuple(values for values in task.series if len(values) >= needed)
    return replace(task, windows=times * task.windows, series=series) if times > 1 and series else task


def score_forecaster(task: Task, forecaster: Forecaster) -> tuple[Scores, Scores, float]:
    """Scores of a forecaster and of the reference on a task, and the seconds that its forecasts took."""
    started = time.perf_counter()
    forecast = forecaster(task)
    seconds = time.perf_counter() - started
    return score(task, forecast), score(task, seasonal_naive(task)), seconds


def show_published(mase: float, crps: float) -> None:
    """Our line among the published ones, the best CRPS first."""
    rows = [
        (row["model"], row["parameters_millions"], float(row["mase"]), float(row["crps"])) for row in read(PUBLISHED)
    ]
    rows.append(("ours", "", mase, crps))
    for name, parameters, one, other in sorted(rows, key=lambda row: row[3]):
        print(f"{name:32s} {parameters:>8s}  MASE {one:.3f}  CRPS {other:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--weights", type=Path, help="a training folder, or `shipped`; without it, seasonal naive")
    parser.add_argument("--auto", type=float, metavar="SECONDS", help="the portfolio, fitted within so many seconds")
    parser.add_argument("--tasks", choices=tuple(KINDS), default="test")
    parser.add_argument("--more", type=int, default=1, help="so many times the windows of development tasks")
    parser.add_argument("--only", default="", help="names of tasks, by commas")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall", help="what a second is of")
    parser.add_argument("--name", default="", help="what the rows call the model")
    parser.add_argument("--out", type=Path, help="CSV to add rows to")
    parser.add_argument("--resume", action="store_true", help="leave out tasks that the CSV holds of this model")
    options = parser.parse_args()
    if options.more > 1 and options.tasks != "development":
        parser.error("--more goes with --tasks development: windows of the tests are not to be chosen")
    if options.clock == "processor":
        time.monotonic = time.perf_counter = practical.processor_seconds
    name, forecaster = options.name or "seasonal_naive", seasonal_naive
    if options.auto is not None:
        name = options.name or "auto"
        forecaster = practical.fit_arm("auto", False, options.auto, options.device)
    elif options.weights is not None:
        name = options.name or options.weights.name
        shipped = str(options.weights) == "shipped"
        network = weights.load(weights.read_card()) if shipped else read_network(options.weights)[0]
        forecaster = glance(network.to(options.device), options.device)
    rows: dict[str, dict[str, object]] = {}
    if options.resume and options.out is not None and options.out.exists():
        alike = [row for row in read(options.out) if (row["model"], row["tasks"]) == (name, options.tasks)]
        rows = {row["task"]: dict(row) for row in alike}
    wanted = set(filter(None, options.only.split(",")))
    for task in KINDS[options.tasks](options.data_dir):
        if task.name in rows or (wanted and task.name not in wanted):
            continue
        task = add_windows(task, options.more)
        own, naive, seconds = score_forecaster(task, forecaster)
        print(
            f"{task.name:24s} MASE {own.mase:7.3f} ({own.mase / naive.mase:.3f})  CRPS {own.crps:.4f} "
            f"({own.crps / naive.crps:.3f})  80 % cover {own.coverage:.2f}  {seconds:.2f} s",
            flush=True,
        )
        rows[task.name] = {
            "model": name,
            "tasks": options.tasks,
            "task": task.name,
            **asdict(own),
            "naive_mase": naive.mase,
            "naive_crps": naive.crps,
            "seconds": round(seconds, 3),
            "commit": commit(),
            "device": options.device,
            "clock": options.clock,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        if options.out is not None:
            practical.add_row(options.out, rows[task.name])
    mase, crps = (geometric([ratio(row, measure) for row in rows.values()]) for measure in ("mase", "crps"))
    print(f"{len(rows)} tasks: relative MASE {mase:.4f}, relative CRPS {crps:.4f}")
    if options.tasks == "test" and PUBLISHED.exists():
        show_published(mase, crps)


if __name__ == "__main__":
    main()
