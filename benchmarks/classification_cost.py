"""What a fit of the default classifier costs, in CPU seconds and memory: many short cases, and UEA's TRAIN files.

    python benchmarks/classification_cost.py --out results/classification_cost.csv
    python benchmarks/classification_cost.py --data-dir DATA --cases --out results/classification_cost.csv

Each fit runs in a process of its own. Made-up cases are noisy waves of four speeds, one channel and 50 steps; they are
to show whether time and memory grow as the cases do. CPU seconds are those of all threads together, so that they hold
on a busy machine; wall seconds are shown beside them. No TEST file is read.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from _rows import append, origin, show
from classification_portfolio import SETS

CASES = (25_000, 50_000, 100_000)
STEPS, CLASSES, FRESH = 50, 4, 2_000
SHOWN = ("dataset", "cases", "classes", "cpu_seconds", "wall_seconds", "idle_mib", "peak_mib", "accuracy")


def draw_waves(cases: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Noisy waves [case, channel, time] and their speeds."""
    random = np.random.default_rng(seed)
    speeds = random.integers(CLASSES, size=cases)
    phases, time_ = random.uniform(0, 2 * np.pi, (cases, 1)), np.linspace(0, 1, STEPS)
    waves = np.sin(2 * np.pi * (1 + speeds[:, None]) * time_ + phases) + 1.5 * random.standard_normal((cases, STEPS))
    return waves[:, None].astype(np.float32), speeds


def measure(what: str, threads: int) -> dict[str, object]:
    """Fit once in this process: a number of made-up cases, or a .ts file."""
    import torch

    from rearview import Classifier
    from rearview.data.cases.case_reader import as_cases

    torch.set_num_threads(threads)
    fresh = None
    if what.isdigit():
        cases, fresh = as_cases(*draw_waves(int(what), 0)), draw_waves(FRESH, 1)
    else:
        cases = as_cases(what)
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    classifier = Classifier(device="cpu").fit(cases)
    return {
        "dataset": "made up" if fresh else Path(what).stem,
        "cases": len(cases),
        "channels": cases.channels,
        "steps": int(cases.lengths.max()),
        "classes": len(classifier.classes_),
        "threads": threads,
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "wall_seconds": round(time.perf_counter() - wall, 1),
        "idle_mib": round(idle / 1024),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "accuracy": round(classifier.score(*fresh), 4) if fresh else None,
        "members": ";".join(classifier.leaderboard()["name"].to_list()[:-1]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, nargs="*", default=CASES, help="made-up cases; without a number none")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="CSV that the rows are added to")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.threads)))
        return
    files = [options.data_dir / "uea" / name / f"{name}_TRAIN.ts" for name in options.sets] if options.data_dir else []
    rows = []
    for what in (*map(str, options.cases), *map(str, files)):
        command = [sys.executable, __file__, "--one", what, "--threads", str(options.threads)]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        rows.append({**json.loads(output.splitlines()[-1]), **origin()})
        append(options.out, rows[-1:])
    show(rows, SHOWN)


if __name__ == "__main__":
    main()
