"""Every mechanism against softmax, run by run: how often it is better, and whether that could be chance.

    python benchmarks/pairs.py mechanisms --column mse
    python benchmarks/pairs.py classification --column accuracy --more-is-better --means
    python benchmarks/pairs.py detection --column auc_pr --more-is-better --means

A pair is two runs that differ in their attention alone: one data set, horizon, network, protocol and seed. Seeds of
one data set are no independent trials, so p over pairs measures consistency; `--means` pairs means over seeds instead,
a stricter question with fewer blocks. Wilcoxon's signed-rank test, two-sided; Holm's correction over the mechanisms of
a protocol and network, or of a protocol alone with `--pool`. Mean ranks, softmax among them, are over the runs (or
means) that every mechanism of the table has.
"""

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from _evidence import Missing, Row, name, rows
from rearview.bench.analysis.significance import average_ranks, holm, signed_rank
from rearview.core.grouping import group_by

HOME = Path(__file__).resolve().parents[1]
BLOCK = (
    "dataset", "lookback", "horizon", "model", "settings", "training", "loss", "adapters", "budget", "calendar", "mode",
    "stride", "threshold_rule", "balance", "seed",
)  # fmt: skip
"""Columns that two runs of a pair have in common."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A mechanism beside softmax."""

    name: str
    pairs: int
    better: int
    change: float
    """Mean relative change of the measure."""
    p_value: float
    corrected: float = 1.0


@dataclass(frozen=True, slots=True)
class Ranks:
    """Mechanisms and softmax by mean rank, the best first, over what all of them have."""

    blocks: int
    by_name: dict[str, float]

    def __str__(self) -> str:
        listed = "; ".join(f"{arm} {rank:.2f}" for arm, rank in self.by_name.items())
        return f"mean rank of {len(self.by_name)} over the {self.blocks} that all have: {listed}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", default="mechanisms", help="name of a results file, without .csv")
    parser.add_argument("--column", default="mse")
    parser.add_argument("--more-is-better", action="store_true")
    parser.add_argument("--means", action="store_true", help="pair means over seeds")
    parser.add_argument("--pool", action="store_true", help="all networks in one table")
    parser.add_argument("--results", type=Path, default=HOME / "results")
    options = parser.parse_args()
    try:
        found = rows(options.results, options.file, options.column)
    except Missing as problem:
        raise SystemExit(f"{problem}.") from None
    names = ("protocol",) if options.pool else ("model", "protocol")
    for title, part in group_by(found, lambda row: ", ".join(row[key] for key in names)).items():
        table = compare_with_softmax(part, options.column, more_is_better=options.more_is_better, means=options.means)
        if table:
            print(f"\n{title}: {options.column}, against softmax")
            print(f"{'attention':40} {'pairs':>5} {'better':>6} {'change':>8} {'p':>7} {'Holm':>7}")
        for line in table:
            told = f"{line.name:40} {line.pairs:5} {line.better:6} {100 * line.change:+7.1f}%"
            print(f"{told} {line.p_value:7.4f} {line.corrected:7.4f}")
        ranks = rank_mechanisms(part, options.column, more_is_better=options.more_is_better, means=options.means)
        if table and ranks:
            print(ranks)


def compare_with_softmax(part: Sequence[Row], column: str, *, more_is_better: bool, means: bool) -> list[Comparison]:
    """Every mechanism of some rows beside softmax, where both have runs."""
    by_name = _by_name(part, column, means)
    plain = by_name.pop("softmax", {})
    lines = []
    for arm, blocks in by_name.items():
        shared = [block for block in blocks if block in plain]
        if not shared:
            continue
        ours, theirs = [blocks[block] for block in shared], [plain[block] for block in shared]
        better = sum((a > b) if more_is_better else (a < b) for a, b in zip(ours, theirs, strict=True))
        shares = [a / b - 1 for a, b in zip(ours, theirs, strict=True) if b]
        change = statistics.fmean(shares) if shares else 0.0
        lines.append(Comparison(arm, len(shared), better, change, signed_rank(ours, theirs)))
    corrected = holm([line.p_value for line in lines])
    whole = [replace(line, corrected=p_value) for line, p_value in zip(lines, corrected, strict=True)]
    return sorted(whole, key=lambda line: line.change, reverse=more_is_better)


def rank_mechanisms(part: Sequence[Row], column: str, *, more_is_better: bool, means: bool) -> Ranks | None:
    """Mean ranks of all that share a run with softmax, and of softmax; None where no run is shared by all of them."""
    by_name = _by_name(part, column, means)
    plain = by_name.get("softmax", {})
    arms = {arm: blocks for arm, blocks in by_name.items() if blocks.keys() & plain.keys()}
    shared = [block for block in plain if all(block in blocks for blocks in arms.values())]
    if len(arms) < 2 or not shared:
        return None
    scores = np.array([[blocks[block] for blocks in arms.values()] for block in shared])
    found = dict(zip(arms, average_ranks(scores, lower_is_better=not more_is_better).tolist(), strict=True))
    return Ranks(len(shared), dict(sorted(found.items(), key=lambda one: one[1])))


def _by_name(part: Sequence[Row], column: str, means: bool) -> dict[str, dict[tuple[str, ...], float]]:
    """By mechanism and block: the mean of the measure."""
    shared = [key for key in BLOCK if key != "seed" or not means]
    return {
        arm: {
            block: statistics.fmean(float(row[column]) for row in runs)
            for block, runs in group_by(rows_of_arm, lambda row: tuple(row.get(key, "") for key in shared)).items()
        }
        for arm, rows_of_arm in group_by(part, name).items()
    }


if __name__ == "__main__":
    main()
