"""Ranks, wins, tests of significance and intervals of candidates over blocks.

    judgement = significance.judge(scores, names)          # scores [block, candidate]: lower is better unless told
    judgement.friedman.p_value, judgement.cliques, judgement.too_few

Tests are scipy's, but for the signed-rank test of up to `EXACT` blocks: it counts every sign pattern, with ties too.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError

Scores = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Record:
    """Blocks won, tied and lost against another candidate."""

    wins: int
    ties: int
    losses: int

    def __str__(self) -> str:
        return f"{self.wins}/{self.ties}/{self.losses}"


def check_scores(scores: Scores) -> Scores:
    """Scores [block, candidate] as they are, if every one is a number."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or values.shape[0] < 1 or values.shape[1] < 2:
        raise InputError(
            f"Statistics need scores [block, candidate] of at least one block and two candidates, but the shape is "
            f"{values.shape}."
        )
    if not np.isfinite(values).all():
        block, candidate = (int(place) for place in np.argwhere(~np.isfinite(values))[0])
        raise InputError(
            f"The score of candidate {candidate} in block {block} is {values[block, candidate]}; leave out blocks that "
            "not every candidate has."
        )
    return values


def ranks(values: Scores, *, lower_is_better: bool = True) -> NDArray[np.float64]:
    """Ranks along the last axis, 1 the best; equals share the mean of their places."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(values if lower_is_better else -values, axis=-1))


def average_ranks(scores: Scores, *, lower_is_better: bool = True) -> NDArray[np.float64]:
    """[candidate]: mean rank over the blocks of scores [block, candidate]."""
    return ranks(check_scores(scores), lower_is_better=lower_is_better).mean(axis=0)


def record(ours: Scores, theirs: Scores, *, lower_is_better: bool = True) -> Record:
    """Blocks in which our score is better than, equal to and worse than theirs."""
    ahead = (theirs - ours) if lower_is_better else (ours - theirs)
    return Record(int((ahead > 0).sum()), int((ahead == 0).sum()), int((ahead < 0).sum()))


EXACT = 200
"""Most differences whose sign patterns are counted; the normal form is the same to three digits long before."""


@dataclass(frozen=True, slots=True)
class Friedman:
    """The outcome of Friedman's test: whether any candidate differs from the others."""

    statistic: float
    p_value: float
    blocks: int
    candidates: int


def signed_rank(ours: Scores, theirs: Scores) -> float:
    """The p-value of Wilcoxon's signed-rank test, two-sided: whether two candidates differ over the same blocks.

    Equals share their mean rank; differences of zero say nothing and are left out.
    """
    from scipy.stats import wilcoxon

    differences = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    nonzero = differences[differences != 0]
    if len(nonzero) > EXACT:
        return float(wilcoxon(nonzero, correction=False, method="approx").pvalue)
    # Twice the ranks are whole numbers even where ties share a mean rank; shares, not counts, so that none overflows.
    doubled = np.rint(2 * ranks(np.abs(nonzero))).astype(np.int64)
    shares = np.zeros(int(doubled.sum()) + 1)
    shares[0] = 1.0
    for size in doubled.tolist():
        moved = np.zeros_like(shares)
        moved[size:] = shares[: len(shares) - size]
        shares = (shares + moved) / 2
    statistic = min(doubled[nonzero > 0].sum(), doubled[nonzero < 0].sum())
    return min(1.0, 2 * float(shares[: statistic + 1].sum()))


def friedman(scores: Scores) -> Friedman:
    """Friedman's test of scores [block, candidate], corrected for ties."""
    from scipy.stats import friedmanchisquare

    values = check_scores(scores)
    if (np.ptp(values, axis=1) == 0).all():
        return Friedman(0.0, 1.0, *values.shape)
    test = friedmanchisquare(*values.T)
    return Friedman(float(test.statistic), float(test.pvalue), *values.shape)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values after Holm's correction, in the order given: compare them with the level as it is."""
    count = len(p_values)
    corrected = [0.0] * count
    highest = 0.0
    for step, place in enumerate(sorted(range(count), key=lambda place: p_values[place])):
        highest = max(highest, (count - step) * p_values[place])
        corrected[place] = min(1.0, highest)
    return corrected


ALPHA = 0.05
"""The level of significance."""


@dataclass(frozen=True, slots=True)
class PairTest:
    """Two candidates over the same blocks."""

    first: str
    second: str
    p_value: float
    """Wilcoxon's, two-sided."""
    corrected: float
    """After Holm's correction over all pairs."""
    record: Record
    """Blocks the first won, tied, lost."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Candidates by average rank, the best first, and what can be said of their differences."""

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    blocks: int
    friedman: Friedman | None
    """None for two candidates, of whom the signed-rank test says all, and for one block, of which it says nothing."""
    pairs: tuple[PairTest, ...]
    cliques: tuple[tuple[int, int], ...]
    """First and last place of every group of neighbours without a significant difference between any two."""
    alpha: float = ALPHA

    @property
    def needed(self) -> int:
        """The fewest blocks with which a difference of these candidates could be significant at all."""
        return blocks_needed(len(self.names), self.alpha)

    @property
    def too_few(self) -> bool:
        """Whether no outcome whatever could have been significant."""
        return self.blocks < self.needed

    @property
    def significant(self) -> tuple[PairTest, ...]:
        """The pairs that differ."""
        if self.friedman is not None and self.friedman.p_value > self.alpha:
            return ()
        return tuple(pair for pair in self.pairs if pair.corrected <= self.alpha)


def judge(scores: Scores, names: Sequence[str], *, lower_is_better: bool = True, alpha: float = ALPHA) -> Judgement:
    """Ranks and tests of scores [block, candidate]; pairs count as different only after Friedman's test."""
    values = check_scores(scores)
    if len(names) != values.shape[1] or len(set(names)) != len(names):
        raise InputError(f"Every candidate needs a name of its own: {values.shape[1]} candidates, names {list(names)}.")
    average = average_ranks(values, lower_is_better=lower_is_better)
    order = np.argsort(average, kind="stable").tolist()
    places = [(first, second) for place, first in enumerate(order) for second in order[place + 1 :]]
    raw = [signed_rank(values[:, first], values[:, second]) for first, second in places]
    pairs = tuple(
        PairTest(
            names[first],
            names[second],
            p_value,
            corrected,
            record(values[:, first], values[:, second], lower_is_better=lower_is_better),
        )
        for (first, second), p_value, corrected in zip(places, raw, holm(raw), strict=True)
    )
    overall = friedman(values) if len(values) > 1 and values.shape[1] > 2 else None
    named = tuple(names[place] for place in order)
    judgement = Judgement(named, tuple(average[order].tolist()), len(values), overall, pairs, (), alpha)
    different = {frozenset((pair.first, pair.second)) for pair in judgement.significant}
    groups = cliques(len(named), lambda i, j: frozenset((named[i], named[j])) in different)
    return replace(judgement, cliques=groups)


def cliques(count: int, different: Callable[[int, int], bool]) -> tuple[tuple[int, int], ...]:
    """The longest stretches of places within which no two differ; what lies within a longer one is left out."""
    stretches: list[tuple[int, int]] = []
    for first in range(count):
        last = first
        while last + 1 < count and not any(different(place, last + 1) for place in range(first, last + 1)):
            last += 1
        if last > first and not (stretches and stretches[-1][1] >= last):
            stretches.append((first, last))
    return tuple(stretches)


def blocks_needed(candidates: int, alpha: float = ALPHA) -> int:
    """The fewest blocks with which one of all pairs of so many candidates could pass."""
    return fewest_blocks(candidates * (candidates - 1) // 2, alpha)


def fewest_blocks(comparisons: int, alpha: float = ALPHA) -> int:
    """The fewest blocks with which one comparison could pass: n blocks all won have p = 2 / 2**n before Holm's
    correction."""
    return max(1, math.ceil(math.log2(2 * comparisons / alpha)))


DRAWS = 10_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean difference, as a rule in percent, and its interval."""

    mean: float
    low: float
    high: float
    level: float
    """From 0 to 1."""
    unit: str = "%"

    def __str__(self) -> str:
        return f"{self.low:+.2f} to {self.high:+.2f} {self.unit}"


def student_interval(
    differences: Sequence[float], comparisons: int, level: float = 0.95, *, step: float = 0.0, unit: str = "%"
) -> Interval:
    """Student's interval of the mean of differences, corrected for a number of comparisons.

    `step`: what both numbers of a difference are whole multiples of, such as the accuracy that one test case is worth;
    0: nothing. The variance of rounding both to it is added, without which the few seeds that happen to agree to the
    case would leave an interval of no width.
    """
    from scipy import stats

    count, mean = len(differences), float(np.mean(differences))
    error = math.sqrt(float(stats.sem(differences)) ** 2 + step**2 / (6 * count))
    reach = float(stats.t.ppf(1 - (1 - level) / (2 * comparisons), count - 1)) * error
    return Interval(mean, mean - reach, mean + reach, level, unit)


def bootstrap_interval(differences: Scores, *, level: float = 0.95, draws: int = DRAWS) -> Interval:
    """The mean difference over blocks, with the percentile interval of the means of blocks drawn with replacement."""
    if differences.ndim != 1 or len(differences) < 2:
        raise InputError(
            f"A paired bootstrap needs at least two blocks, but there is {differences.size}; one block can't tell how "
            "far another would be off."
        )
    if not 0 < level < 1:
        raise InputError(f"The level of an interval lies between 0 and 1, such as 0.95; got {level}.")
    drawn = np.random.default_rng(0).integers(0, len(differences), size=(draws, len(differences)))
    low, high = np.quantile(differences[drawn].mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(differences.mean()), float(low), float(high), level)
