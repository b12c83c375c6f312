"""Friedman's test over all candidates, Wilcoxon's signed-rank test of two, Holm's correction of many.

Distributions are computed here: the signed-rank test counts every sign pattern, with ties, up to `EXACT` blocks and is
normal beyond; chi-squared with a whole number of degrees of freedom has a closed form.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rearview.bench.analysis.statistics.ranks import Scores, checked, ranks

EXACT = 200
"""Most differences whose sign patterns are counted; the normal form is the same to three digits long before."""


@dataclass(frozen=True, slots=True)
class SignedRank:
    """What Wilcoxon's signed-rank test says, two-sided."""

    statistic: float
    """The smaller of the sums of ranks of the positive and of the negative differences."""
    p_value: float
    differences: int
    """Differences that are not zero; zeros say nothing and are left out."""
    exact: bool


@dataclass(frozen=True, slots=True)
class Friedman:
    """What Friedman's test says: whether any candidate differs from the others."""

    statistic: float
    p_value: float
    blocks: int
    candidates: int


def signed_rank(ours: Scores, theirs: Scores) -> SignedRank:
    """Whether two candidates differ over the same blocks; equals share their mean rank."""
    differences = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    kept = differences[differences != 0]
    if not len(kept):
        return SignedRank(0.0, 1.0, 0, True)
    sizes = ranks(np.abs(kept))
    statistic = float(min(sizes[kept > 0].sum(), sizes[kept < 0].sum()))
    exact = len(kept) <= EXACT
    return SignedRank(statistic, (_counted if exact else _normal)(sizes, statistic), len(kept), exact)


def friedman(scores: Scores) -> Friedman:
    """Friedman's test of scores [block, candidate], corrected for ties."""
    ranked = ranks(checked(scores))
    blocks, candidates = ranked.shape
    ties = sum(_tie_sum(row) for row in ranked)
    shrink = 1 - ties / (blocks * candidates * (candidates**2 - 1))
    if shrink <= 0:
        return Friedman(0.0, 1.0, blocks, candidates)
    spread = float(((ranked.sum(axis=0) - blocks * (candidates + 1) / 2) ** 2).sum())
    statistic = 12 * spread / (blocks * candidates * (candidates + 1)) / shrink
    return Friedman(statistic, chi_squared_tail(statistic, candidates - 1), blocks, candidates)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values after Holm's correction, in the order given: compare them with the level as it is."""
    count = len(p_values)
    corrected = [0.0] * count
    highest = 0.0
    for step, place in enumerate(sorted(range(count), key=lambda place: p_values[place])):
        highest = max(highest, (count - step) * p_values[place])
        corrected[place] = min(1.0, highest)
    return corrected


def chi_squared_tail(value: float, freedom: int) -> float:
    """The chance that chi-squared with so many degrees of freedom exceeds the value."""
    if value <= 0:
        return 1.0
    half = value / 2
    if freedom % 2:
        # erfc(sqrt(h)) + exp(-h) * sum of h^(j - 1/2) / gamma(j + 1/2)
        total = math.erfc(math.sqrt(half))
        exponents = [j - 0.5 for j in range(1, (freedom + 1) // 2)]
    else:
        total = 0.0
        exponents = [float(j) for j in range(freedom // 2)]
    total += sum(math.exp(e * math.log(half) - half - math.lgamma(e + 1)) for e in exponents)
    return min(1.0, total)


def _counted(sizes: NDArray[np.float64], statistic: float) -> float:
    # Twice the ranks are whole numbers even where ties share a mean rank; shares, not counts, so that none overflows.
    doubled = np.rint(2 * sizes).astype(np.int64)
    shares = np.zeros(int(doubled.sum()) + 1)
    shares[0] = 1.0
    for size in doubled.tolist():
        moved = np.zeros_like(shares)
        moved[size:] = shares[: len(shares) - size]
        shares = (shares + moved) / 2
    return min(1.0, 2 * float(shares[: round(2 * statistic) + 1].sum()))


def _normal(sizes: NDArray[np.float64], statistic: float) -> float:
    count = len(sizes)
    variance = count * (count + 1) * (2 * count + 1) / 24 - _tie_sum(sizes) / 48
    distance = (statistic - count * (count + 1) / 4) / math.sqrt(variance)
    return min(1.0, math.erfc(abs(distance) / math.sqrt(2)))


def _tie_sum(ranked: NDArray[np.float64]) -> float:
    """Over groups of equals: t^3 - t."""
    counts = np.unique(ranked, return_counts=True)[1].astype(np.float64)
    return float((counts**3 - counts).sum())
