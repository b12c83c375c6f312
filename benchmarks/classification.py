"""Accuracy on ten sets of the UEA archive: TOA's three kinds, with and without its regularisation, beside softmax.

    python benchmarks/classification.py --data-dir data --results results/classification.csv --workers 8 --seconds 500

Runs that the results hold already are skipped, so a run that was cut off is taken up again by the same command. No run
begins after --seconds; each worker is a process of its own with one CPU thread, and all share the device.
"""

import argparse
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from rearview.data.archive import SETS

ATTENTIONS: tuple[dict[str, Any], ...] = (
    {"name": "softmax"},
    *({"name": "toa", "kind": kind, "sor": sor} for kind in ("softmax", "relu", "gated") for sor in (True, False)),
    {"name": "hyperglu"},
)
PROTOCOLS = ("clean", "published:tslib")
SEEDS = (2024, 2025, 2026)


def make(run: dict[str, Any], until: float) -> str:
    """One run as a line of text; nothing where the time is up."""
    import torch

    from rearview import bench

    if time.time() > until:
        return ""
    torch.set_num_threads(1)
    what = f"{run['dataset']} {run['attention']} {run['protocol']} seed {run['seed']}"
    try:
        row = bench.classify(**run, resume=True)
    except Exception as problem:  # one run that breaks off must not cost the others
        return f"{what}: failed, {type(problem).__name__}: {problem}"
    return f"{what}: accuracy {row.accuracy:.4f}, {row.epochs} epochs, {row.train_seconds:.1f} s, {row.loop}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--results", type=Path, default=Path("results/classification.csv"))
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--protocols", nargs="*", default=list(PROTOCOLS))
    parser.add_argument("--seeds", nargs="*", type=int, default=list(SEEDS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--device", default="auto")
    asked = parser.parse_args()
    until = time.time() + asked.seconds
    runs = [
        {
            "dataset": dataset,
            "attention": attention,
            "protocol": protocol,
            "seed": seed,
            "data_dir": asked.data_dir,
            "results": asked.results,
            "device": asked.device,
        }
        for seed in asked.seeds
        for dataset in asked.sets
        for protocol in asked.protocols
        for attention in ATTENTIONS
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(asked.workers, mp_context=context) as pool:
        for done in as_completed([pool.submit(make, run, until) for run in runs]):
            if line := done.result():
                print(line, flush=True)
    show(asked.results)


def show(results: Path) -> None:
    """The tables beside TOA's."""
    from rearview.bench import classification_table
    from rearview.bench.classification_row import ClassificationRow
    from rearview.bench.results import read

    rows = read(results, ClassificationRow)
    for protocol in PROTOCOLS:
        print("", *classification_table.lines(rows, protocol), sep="\n")


if __name__ == "__main__":
    main()
