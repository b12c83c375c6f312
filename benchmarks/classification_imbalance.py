"""Does the default classifier find a class of one case in fifty? Made-up sets, with and without the vote's offsets.

    python benchmarks/classification_imbalance.py --out results/classification_imbalance.csv

500 cases of a common class and 10 of a rare one train; 2,000 and 40 fresh ones test. The rare class has a bump at a
random place of white noise, or a wave of three periods instead of two under noise. Networks are left out, for time.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from _rows import Row, append, origin, show
from classification_portfolio import NO_OFFSETS, VOTE, decide, fit_vote, judge

COMMON, RARE, FRESH, STEPS = 500, 10, 4, 60
SETS = {"bump, noise 0.6": 0.6, "wave, noise 1": 1.0, "wave, noise 1.5": 1.5}
SHOWN = ("dataset", "seed", "arm", "accuracy", "balanced_accuracy", "log_loss", "calibration_error")


def draw(name: str, times: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Cases [case, channel, time] and whether each is rare."""
    random, places = np.random.default_rng(seed), np.linspace(0, 1, STEPS)
    rare = np.repeat([0, 1], [times * COMMON, times * RARE])
    values = SETS[name] * random.standard_normal((len(rare), STEPS))
    if name.startswith("bump"):
        middle = random.uniform(0.2, 0.8, (len(rare), 1))
        values += rare[:, None] * 1.5 * np.exp(-(((places - middle) / 0.05) ** 2))
    else:
        values += np.sin(2 * np.pi * (2 + rare[:, None]) * places + random.uniform(0, 2 * np.pi, (len(rare), 1)))
    return values[:, None], rare


def measure(name: str, seed: int) -> list[Row]:
    """A row for each vote."""
    import torch

    from rearview.data.cases.case_reader import as_cases
    from rearview.estimators.classify.portfolio import portfolio
    from rearview.estimators.classify.spec import ClassifySpec

    portfolio.MOST_NETWORK_SERIES = 0
    began = time.process_time()
    prepared = portfolio.prepare(as_cases(*draw(name, 1, 2 * seed)), ClassifySpec(seed=seed, device="cpu"))
    fits = prepared.fit_members()
    spent = round(time.process_time() - began, 1)
    values, truth = draw(name, FRESH, 2 * seed + 1)
    answers = torch.stack(list(decide(prepared, fits, as_cases(values)).values()))
    left_out, codes = torch.stack([entry.left_out for entry in fits.entries]), torch.from_numpy(prepared.codes)
    rows = []
    for arm in (NO_OFFSETS, VOTE):
        likely = fit_vote(left_out, codes, offsets=arm == VOTE).combine(answers).numpy()
        facts = {"dataset": name, "seed": seed, "arm": arm, "common": COMMON, "rare": RARE}
        rows.append({**facts, **judge(likely, truth), "fit_cpu_seconds": spent, **origin()})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1))
    parser.add_argument("--out", type=Path, help="CSV that the rows are added to")
    options = parser.parse_args()
    rows = []
    for seed in options.seeds:
        for name in SETS:
            rows += measure(name, seed)
            append(options.out, rows[-2:])
    show(rows, SHOWN)


if __name__ == "__main__":
    main()
