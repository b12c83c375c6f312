"""Which attention makes the best zero-shot forecaster? glance with each, at equal updates and at equal time.

    python benchmarks/compare_glance.py --data-dir DATA --seconds 240 --attentions "softmax; rbca:learnable=True; caps"
        [--seeds 2] [--at 5000,10000,20000] [--out results/glance_attention.csv]

An arm trains at a constant rate. At each number of updates, and once its time is up, a copy is annealed for a tenth as
many updates and scored: by the loss on synthetic series of a seed of their own, and on the development tasks. Rows of
equal updates compare what is learned from the same series, the last row of each arm what is learned in the same time.
Arms that the file holds are skipped.
"""

import argparse
import csv
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from _task_files import development_tasks
from gift import glance, relative, run
from rearview.bench.runs.provenance import commit
from rearview.pretrained.training import TWO_GRAINS, Plan, Trainer
from train_glance import parse_attention, parse_pairs


def measure(trainer: Trainer, data: Path, seconds: float, marks: list[int]) -> Iterator[dict[str, object]]:
    """A row at each mark that is reached in time, and one where time is up."""
    trainer.set_up()
    for mark in [*marks, None]:
        trainer.run(seconds - trainer.seconds, most=mark)
        if mark is not None and trainer.step_count < mark:
            continue
        network = trainer.anneal(max(1, trainer.step_count // 10))
        scores, reference, _ = run(development_tasks(data), glance(network, trainer.plan.device))
        mase, crps = relative(scores, reference)
        yield {
            "kind": "time" if mark is None else "updates",
            "updates": trainer.step_count,
            "seconds": round(trainer.seconds, 1),
            "synthetic_loss": round(trainer.validate(network), 5),
            "development_mase": round(mase, 4),
            "development_crps": round(crps, 4),
            "parameters": sum(weight.numel() for weight in network.parameters()),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--attentions", required=True, help="names, with settings as name:a=1,b=2, apart by semicolons")
    parser.add_argument("--seconds", type=float, default=240, help="of an arm, setting up and annealing aside")
    parser.add_argument("--at", default="5000,10000,20000", help="numbers of updates to compare at")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", default="", dest="settings")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    done = set()
    if options.out.exists():
        with options.out.open(encoding="utf-8") as file:
            done = {(row["attention"], row["seed"]) for row in csv.DictReader(file) if row["kind"] == "time"}
    for seed in range(options.seeds):
        for name in (one.strip() for one in options.attentions.split(";")):
            if (name, str(seed)) in done:
                continue
            plan = Plan(
                updates=10**9,
                seed=seed,
                attention=parse_attention(name),
                settings={**TWO_GRAINS, **parse_pairs(options.settings)},
                device=options.device,
                compile=options.device != "cpu",
            )
            marks = [int(mark) for mark in options.at.split(",") if mark]
            for row in measure(Trainer(plan), options.data_dir, options.seconds, marks):
                made = {"attention": name, "seed": seed, **row, "device": options.device, "commit": commit()}
                made["created"] = datetime.now(UTC).isoformat(timespec="seconds")
                new = not options.out.exists()
                with options.out.open("a", encoding="utf-8", newline="") as file:
                    writer = csv.DictWriter(file, list(made))
                    if new:
                        writer.writeheader()
                    writer.writerow(made)
                print(made, flush=True)


if __name__ == "__main__":
    main()
