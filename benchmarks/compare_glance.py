"""Which attention makes the best zero-shot forecaster? glance with each, at equal updates and at equal time.

    python benchmarks/compare_glance.py --data-dir DATA --attentions "softmax; rbca:learnable=True; caps"
        --out results/glance_attention.csv [--seconds 240] [--at 5000,20000] [--seed 0] [--workers 3]
        [--uncompiled "caps; prime"] [--distinct 100] [--start shipped]

An arm trains at a constant rate. At each number of updates, and when its time is up, a copy is annealed by a quarter as
many updates and scored: by the loss on synthetic series of a seed of their own, and on the development tasks. Rows of
equal updates compare what is learned from the same series, rows of equal time what is learned by the same hardware.
An update runs as whichever is fastest for the arm: compiled (which takes minutes for some), as it is with our kernels,
or for rbca compiled with our kernels for long axes; all in a CUDA graph. What limits a network: more of `--at` is time,
`--set` capacity, and `--distinct` data, of which an arm then sees so many pools again and again. `softmax@1` is an arm
with a seed of its own. Of several workers one trains at a time, so that seconds are those of a device of its own, while
the others compile or are scored. Arms that the file holds are skipped.
"""

import argparse
import math
import multiprocessing
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from _rows import Row, append, read
from _task_files import development_tasks
from _tasks import relative
from gift import glance, score_forecaster
from rearview.bench.runs.provenance import commit, device_words
from rearview.pretrained.training import TWO_GRAINS, Plan, Trainer
from train_glance import parse_attention, parse_pairs

TIMED = 96
"""Updates by which the two ways to run one are timed."""
PATIENCE = 4.0
"""An arm that needs more than so many times its seconds is not taken to the numbers of updates that are left."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What every arm gets."""

    data: Path
    seconds: float
    marks: tuple[int, ...]
    settings: dict[str, object]
    seed: int
    device: str
    share: float
    uncompiled: frozenset[str]
    """Arms that are run as they are."""
    loop: str
    """How an update runs; empty: whichever is fastest."""
    distinct: int
    start: str
    tokens: int
    out: Path


def list_rows(
    arm: str, comparison: Comparison, alone: AbstractContextManager[object], writing: AbstractContextManager[object]
) -> None:
    """Train and score one arm, and add its rows to the file; a failure is printed and is no row."""
    try:
        for row in measure(arm, comparison, alone):
            with writing:
                append(comparison.out, [row])
            print(row, flush=True)
    except Exception:
        print(f"{arm} failed:\n{traceback.format_exc()}", flush=True)


def measure(arm: str, comparison: Comparison, alone: AbstractContextManager[object]) -> Iterator[Row]:
    """A row at each number of updates, and one where time is up, in the order in which they come."""
    trainer, loop = choose_loop(arm, comparison, alone)
    left: list[int | None] = [*sorted(comparison.marks), *([None] if comparison.seconds else [])]
    while left:
        late = 0 < comparison.seconds <= trainer.seconds
        mark = next(one for one in left if one is None) if late and None in left else left[0]
        if late and mark is not None and trainer.seconds > PATIENCE * comparison.seconds:
            return
        room = comparison.seconds if None in left else PATIENCE * comparison.seconds or math.inf
        with alone:
            trainer.run(room - trainer.seconds, most=mark)
            if mark is not None and trainer.step_count < mark:
                continue
            network = trainer.anneal(max(1, round(comparison.share * trainer.step_count)))
        left.remove(mark)
        forecaster = glance(network, comparison.device)
        scores = {task.name: score_forecaster(task, forecaster) for task in development_tasks(comparison.data)}
        own, naive = ({name: pair[place] for name, pair in scores.items()} for place in (0, 1))
        mase, crps = relative(own, naive)
        yield {
            "attention": arm,
            "seed": comparison.seed,
            "kind": "time" if mark is None else "updates",
            "updates": trainer.step_count,
            "seconds": round(trainer.seconds, 1),
            "ms_per_update": round(1000 * trainer.seconds / trainer.step_count, 3),
            "loop": loop,
            "synthetic_loss": round(trainer.validate(network), 5),
            "development_mase": round(mase, 4),
            "development_crps": round(crps, 4),
            "parameters": sum(weight.numel() for weight in network.parameters()),
            "settings": describe(comparison),
            "device": device_words(torch.device(comparison.device)),
            "commit": commit(),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }


def describe(comparison: Comparison) -> str:
    """Settings of the network, and what else is not as usual."""
    unusual = {name: value for name in ("distinct", "start") if (value := getattr(comparison, name))}
    return " ".join(f"{name}={value}" for name, value in {**comparison.settings, **unusual}.items()).replace(",", ";")


def choose_loop(arm: str, comparison: Comparison, alone: AbstractContextManager[object]) -> tuple[Trainer, str]:
    """A trainer of the arm with the faster of the two updates, after those that were timed; on a CPU the plain one."""
    plan = Plan(
        updates=10**9,
        seed=comparison.seed,
        attention=parse_attention(arm),
        settings=comparison.settings,
        tokens=comparison.tokens,
        distinct=comparison.distinct,
        start=comparison.start,
        device=comparison.device,
        compile=False,
    )
    if comparison.device == "cpu":
        return Trainer(plan), "plain"
    times: dict[str, float] = {}
    trainers: dict[str, Trainer] = {}
    loops = ["kernels"] if arm in comparison.uncompiled else ["compiled", "kernels"]
    if comparison.loop:
        loops = [comparison.loop]
    elif arm.startswith("rbca") and "bias=causal" not in arm and arm not in comparison.uncompiled:
        loops = ["compiled", "both"]
    for loop in loops:
        try:
            trainers[loop] = trainer = Trainer(replace(plan, compile=loop != "kernels", long_kernels=loop == "both"))
            trainer.set_up()
            with alone:
                trainer.run(most=TIMED // 2)
                before = trainer.seconds
                trainer.run(most=TIMED + TIMED // 2)
                times[loop] = trainer.seconds - before
        except Exception as problem:
            print(f"{arm}, {loop}: {str(problem).splitlines()[0]}", flush=True)
    print(f"{arm}: ms an update { ({loop: round(1000 * t / TIMED, 2) for loop, t in times.items()}) }", flush=True)
    best = min(times, key=lambda loop: times[loop])
    return trainers[best], best


def find_finished(path: Path, comparison: Comparison) -> set[tuple[str, int]]:
    """Arms and seeds whose last row the file holds, with these settings."""
    if not path.exists():
        return set()
    kind, settings = "time" if comparison.seconds else "updates", describe(comparison)
    rows = [row for row in read(path) if row["kind"] == kind and row["settings"] == settings]
    if not comparison.seconds:
        rows = [row for row in rows if int(row["updates"]) >= max(comparison.marks)]
    return {(row["attention"], int(row["seed"])) for row in rows}


def parse_arms(text: str, seed: int) -> list[tuple[str, int]]:
    """Arms and their seeds: `softmax; rbca:learnable=True@1`."""
    pairs = [arm.strip().partition("@") for arm in text.split(";") if arm.strip()]
    return [(name, int(own) if own else seed) for name, _, own in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--attentions", required=True, help="names, with settings as name:a=1,b=2, apart by semicolons")
    parser.add_argument(
        "--seconds", type=float, default=240, help="of an arm, setting up and annealing aside; 0: no such row"
    )
    parser.add_argument("--at", default="5000,20000", help="numbers of updates to compare at")
    parser.add_argument("--share", type=float, default=0.25, help="updates of an annealing, of those before it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--uncompiled", default="", help="attentions that are not compiled, apart by semicolons")
    parser.add_argument("--set", default="", dest="settings")
    parser.add_argument("--loop", default="", choices=("", "compiled", "kernels", "both"), help="without a trial")
    parser.add_argument("--distinct", type=int, default=0, help="pools of series that differ; 0: all")
    parser.add_argument("--start", default="", help="weights to start from: a training folder, or `shipped`")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tokens", type=int, default=1 << 15, help="of a batch, about")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    comparison = Comparison(
        data=options.data_dir,
        seconds=options.seconds,
        marks=tuple(int(mark) for mark in options.at.split(",") if mark),
        settings={**TWO_GRAINS, **parse_pairs(options.settings)},
        seed=options.seed,
        device=options.device,
        share=options.share,
        uncompiled=frozenset(name for name, _ in parse_arms(options.uncompiled, 0)),
        loop=options.loop,
        distinct=options.distinct,
        start=options.start,
        tokens=options.tokens,
        out=options.out,
    )
    done = find_finished(options.out, comparison)
    arms = [pair for pair in parse_arms(options.attentions, options.seed) if pair not in done]
    with multiprocessing.Manager() as shared:
        alone, writing = shared.Lock(), shared.Lock()
        spawned = multiprocessing.get_context("spawn")
        # A process for each arm: what one leaves on the device is gone with it.
        with ProcessPoolExecutor(options.workers, mp_context=spawned, max_tasks_per_child=1) as pool:
            tasks = [(arm, replace(comparison, seed=seed), alone, writing) for arm, seed in arms]
            for ended in [pool.submit(list_rows, *task) for task in tasks]:
                ended.result()


if __name__ == "__main__":
    main()
