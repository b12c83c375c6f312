"""Test accuracy and calibration of the default classifier on UEA sets, with and without attention, and of each member.

    python benchmarks/classification_portfolio.py --data-dir DATA --out results/classification_vote.csv

One fit for each set and seed on the published TRAIN part; TEST is read once, after everything is chosen. Each fit gives
a row for the vote of all members, one for the vote without attention (weighed anew), one for each member alone, one for
the vote without offsets by the classes' shares (rows in `results/classification_portfolio.csv` are of that vote), and
one for the plain mean of the members' probabilities, which are not calibrated.
Sets and seeds that the file holds are skipped, so that a run that was cut off is taken up again. Without --data-dir the
rows that are there are shown beside the archive's published accuracies.
"""

import argparse
import statistics
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from _rows import Row, append, origin, read

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from rearview.data.cases.case_set import Cases
    from rearview.estimators.classify.portfolio.portfolio import MemberFits, PreparedPortfolio
    from rearview.estimators.classify.portfolio.vote import Vote

SETS = (
    "BasicMotions",
    "Libras",
    "RacketSports",
    "JapaneseVowels",
    "StandWalkJump",
    "Handwriting",
    "UWaveGestureLibrary",
    "ArticularyWordRecognition",
    "LSST",
)
APART = "StandWalkJump"
"""Twelve cases to train on, fifteen to test on: shown, but in no mean."""
VOTE, SIMPLE = "vote", "vote without attention"
NO_OFFSETS, PLAIN_MEAN = "vote without offsets", "mean of members, not calibrated"
BINS = 15
"""Of probabilities, for the calibration error."""
PUBLISHED = Path(__file__).parents[1] / "results" / "classification_published.csv"


def measure(folder: Path, name: str, seed: int) -> list[Row]:
    """The rows of one fit."""
    import numpy as np
    import torch

    from rearview.bench.runs.provenance import device_words
    from rearview.data.io import ts
    from rearview.estimators.classify.portfolio.portfolio import prepare
    from rearview.estimators.classify.spec import NETWORK, ClassifySpec

    learned = ts.read(folder / f"{name}_TRAIN.ts")
    started, cpu = time.perf_counter(), time.process_time()
    prepared = prepare(learned, ClassifySpec(seed=seed, device="cpu"))
    fits = prepared.fit_members()
    fit_seconds, fit_cpu = time.perf_counter() - started, time.process_time() - cpu
    tested = ts.read(folder / f"{name}_TEST.ts")
    assert tested.labels is not None
    truth = np.searchsorted(prepared.classes, tested.labels)
    started = time.perf_counter()
    answers = decide(prepared, fits, tested)
    predict_seconds = time.perf_counter() - started
    codes = torch.from_numpy(prepared.codes)
    left_out = {entry.name: entry.left_out for entry in fits.entries}
    arms = {VOTE: list(left_out), SIMPLE: [one for one in left_out if one != NETWORK]}
    arms |= {one: [one] for one in left_out} | {NO_OFFSETS: list(left_out), PLAIN_MEAN: list(left_out)}
    rows = []
    for arm, members in arms.items():
        honest, decisions = (torch.stack([each[one] for one in members]) for each in (left_out, answers))
        vote = fit_vote(honest, codes, offsets=arm != NO_OFFSETS)
        likely = vote.combine(decisions) if arm != PLAIN_MEAN else torch.softmax(decisions.double(), -1).mean(0)
        right = vote.combine(honest).argmax(1) == codes
        weights = "" if arm == PLAIN_MEAN else zip(members, vote.weights.tolist(), strict=True)
        rows.append(
            {
                "dataset": name,
                "seed": seed,
                "arm": arm,
                "train_cases": len(learned),
                "test_cases": len(tested),
                **judge(likely.numpy(), truth),
                "training_accuracy": None if arm == PLAIN_MEAN else round(float(right.double().mean()), 6),
                "weights": ";".join(f"{one}={weight:.3f}" for one, weight in weights),
                "fit_seconds": round(fit_seconds, 2),
                "fit_cpu_seconds": round(fit_cpu, 2),
                "predict_seconds": round(predict_seconds, 2),
                "threads": torch.get_num_threads(),
                "device": device_words(torch.device("cpu")),
                "protocol": "published split; all choices on TRAIN",
                **origin(),
            }
        )
    return rows


def decide(prepared: "PreparedPortfolio", fits: "MemberFits", cases: "Cases") -> dict[str, "Tensor"]:
    """The numbers of each member for other cases, by its name."""
    import numpy as np
    import torch

    from rearview.data.cases.padding import stretch_cases
    from rearview.estimators.classify.portfolio.members import CaseSample

    decisions = defaultdict(list)
    with torch.inference_mode():
        for begin in range(0, len(cases), 256):
            some = cases.take(np.arange(begin, min(begin + 256, len(cases))))
            values = stretch_cases(some, prepared.scaler, fits.steps, longest=prepared.lookback.value)
            sample = CaseSample(some, values, fits.blocks)
            for entry in fits.entries:
                decisions[entry.name].append(entry.member.decide(sample))
    return {name: torch.cat(parts) for name, parts in decisions.items()}


def fit_vote(left_out: "Tensor", codes: "Tensor", *, offsets: bool) -> "Vote":
    """The vote of the portfolio, or the one without offsets by the classes' shares."""
    from rearview.estimators.classify.portfolio import vote as votes

    pull, votes.OFFSET_PULL = votes.OFFSET_PULL, votes.OFFSET_PULL if offsets else 1e12
    try:
        return votes.fit_vote(left_out, codes)
    finally:
        votes.OFFSET_PULL = pull


def judge(likely: "NDArray[np.float64]", truth: "NDArray[np.int64]") -> Row:
    """Accuracy, its mean over classes, log loss, and by how much probabilities miss the share of correct answers."""
    import numpy as np

    sure, right = likely.max(1), likely.argmax(1) == truth
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    apart = [abs(right[bins == one].sum() - sure[bins == one].sum()) for one in np.unique(bins)]
    return {
        "accuracy": round(float(right.mean()), 6),
        "balanced_accuracy": round(float(np.mean([right[truth == one].mean() for one in np.unique(truth)])), 6),
        "log_loss": round(float(-np.log(likely[np.arange(len(truth)), truth]).mean()), 6),
        "calibration_error": round(float(sum(apart) / len(truth)), 6),
    }


def show(path: Path) -> None:
    """Mean accuracies over seeds beside the published ones."""
    rows, published = read(path), {row["dataset"]: row for row in read(PUBLISHED)}
    columns = list(dict.fromkeys(row["arm"] for row in rows))
    theirs = [name for name in next(iter(published.values())) if name not in ("dataset", "file")]
    cells: dict[str, dict[str, float]] = defaultdict(dict)
    for name in dict.fromkeys(row["dataset"] for row in rows):
        for arm in columns:
            values = [float(row["accuracy"]) for row in rows if (row["dataset"], row["arm"]) == (name, arm)]
            if values:
                cells[name][arm] = statistics.mean(values)
        cells[name] |= {one: float(published[name][one]) for one in theirs}
    counted = [name for name in cells if name != APART]
    print(f"{'':34s}" + "".join(f"{name[:10]:>11s}" for name in cells) + "       mean  below 1NN-DTW")
    for arm in [*columns, *theirs]:
        values = [cells[name].get(arm) for name in counted]
        mean = f"{statistics.mean(v for v in values if v is not None):11.4f}" if None not in values else f"{'-':>11s}"
        below = sum((cells[name].get(arm) or 0) < cells[name]["1NN-DTW"] for name in counted)
        line = "".join(f"{cells[name][arm]:11.4f}" if arm in cells[name] else f"{'-':>11s}" for name in cells)
        print(f"{arm:34s}{line}{mean}{below:8d} of {len(counted)}")


def main() -> None:
    """Run what is missing and show the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/classification_vote.csv"))
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1, 2))
    options = parser.parse_args()
    made = read(options.out) if options.out.exists() else []
    done = {(row["dataset"], int(row["seed"])) for row in made}
    if options.data_dir is not None:
        for seed in options.seeds:
            for name in options.sets:
                if (name, seed) not in done:
                    append(options.out, measure(options.data_dir / "uea" / name, name, seed))
                    print(f"{name}, seed {seed}", flush=True)
    show(options.out)


if __name__ == "__main__":
    main()
