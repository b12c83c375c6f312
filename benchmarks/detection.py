"""Anomaly detection on labelled sets: networks x attentions x seeds under both protocols, as rows of one CSV.

    python benchmarks/detection.py --data-dir DATA --results results/detection.csv --seconds 600 --workers 4

Runs that the CSV holds already are not made again, and none is begun that is not likely to end within `--seconds`: call
it again to go on. Several workers share one GPU, which a single small network can't fill.
"""

import argparse
import multiprocessing
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATASETS = ("SMAP", "ASD", "SMD19")
MODELS = ("itransformer", "patchtst_tslib", "patchtst", "transformer")
ATTENTIONS: dict[str, Any] = {
    "softmax": "softmax",
    "toa softmax": {"name": "toa", "kind": "softmax"},
    "toa relu": {"name": "toa", "kind": "relu"},
    "toa gated": {"name": "toa", "kind": "gated"},
}
PROTOCOLS = ("published:tslib", "clean")


@dataclass(frozen=True)
class Job:
    """One run."""

    dataset: str
    model: str
    attention: str
    protocol: str
    seed: int
    settings: tuple[tuple[str, Any], ...] = ()
    balance: bool = True


def jobs(datasets: tuple[str, ...], models: tuple[str, ...], seeds: int) -> list[Job]:
    """Every run, a whole table of one seed before the next seed; set by set, so that each is read once."""
    found = []
    for seed in range(seeds):
        for dataset in datasets:
            for model in models:
                for attention in ATTENTIONS:
                    found += [Job(dataset, model, attention, protocol, seed) for protocol in PROTOCOLS]
                # What the window's own normalisation and noisy channels hide, seen beside it.
                found.append(Job(dataset, model, "softmax", "clean", seed, (("normalise", "none"),)))
                found.append(Job(dataset, model, "softmax", "clean", seed, balance=False))
    return found


def work(todo: list[Job], next_job: Any, options: argparse.Namespace, began: float) -> None:
    """Take jobs one after another until there is none or the time is up."""
    import torch

    from rearview.bench.detection import detect

    torch.set_num_threads(max(1, torch.get_num_threads() // options.workers))
    longest = 0.0
    while True:
        with next_job.get_lock():
            number = next_job.value
            next_job.value += 1
        left = options.seconds - (time.monotonic() - began)
        if number >= len(todo) or left < longest:
            return
        started = time.monotonic()
        one(todo[number], options, detect)
        longest = max(longest, time.monotonic() - started)


def one(job: Job, options: argparse.Namespace, detect: Any) -> None:
    """Make a run and print its line; a run that fails is told and leaves no row."""
    try:
        row = detect(
            job.dataset,
            job.model,
            attention=ATTENTIONS[job.attention],
            protocol=job.protocol,
            seed=job.seed,
            settings=dict(job.settings),
            balance=job.balance,
            device=options.device,
            data_dir=options.data_dir,
            results=options.results,
        )
    except Exception:
        print(f"failed: {job}\n{traceback.format_exc()}", flush=True)
        return
    measures = {name: getattr(row, name) for name in ("f1", "auc_pr", "vus_pr", "adjusted_f1", "adjusted_f1_by_chance")}
    shown = "  ".join(f"{name} {value:.3f}" for name, value in measures.items() if value is not None)
    variant = f"{dict(job.settings) or ''}{'' if job.balance else ' unbalanced'}"
    what = f"{job.dataset} {job.model} {job.attention} {job.protocol} {variant} seed {job.seed}"
    print(f"{what}: {shown}  train {row.train_seconds:.1f} s, all {row.total_seconds:.1f} s", flush=True)


def main() -> None:
    """Parse, share the jobs out among workers, wait."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--results", type=Path, default=Path("results/detection.csv"))
    parser.add_argument("--datasets", default="", help="by commas; default: those that are there")
    parser.add_argument("--models", default="", help="by commas; default: all of the table")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=600.0, help="no run is begun that may end later")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    began = time.monotonic()

    from rearview import models
    from rearview.data import labelled

    there = labelled.available(options.data_dir)
    datasets = tuple(filter(None, options.datasets.split(","))) or tuple(name for name in DATASETS if name in there)
    known = [name for name in MODELS if name in models.names() and models.claims(name).reconstructs]
    if "patchtst_tslib" in known:
        known.remove("patchtst")  # the field's detection runs have the library's form of it
    chosen = tuple(filter(None, options.models.split(","))) or tuple(known)
    todo = jobs(datasets, chosen, options.seeds)
    print(f"{len(todo)} runs: {', '.join(datasets)} x {', '.join(chosen)}", flush=True)
    context = multiprocessing.get_context("spawn")
    next_job = context.Value("i", 0)
    if options.workers == 1:
        work(todo, next_job, options, began)
        return
    workers = [context.Process(target=work, args=(todo, next_job, options, began)) for _ in range(options.workers)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
