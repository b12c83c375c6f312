"""All candidates against all: Friedman first, then every pair, and which of them can't be told apart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rearview.bench.analysis.statistics.ranks import Record, Scores, average_ranks, checked, record
from rearview.bench.analysis.statistics.significance import Friedman, friedman, holm, signed_rank
from rearview.core.errors import InputError

ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Pair:
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
    pairs: tuple[Pair, ...]
    cliques: tuple[tuple[int, int], ...]
    """First and last place of every group of neighbours without a significant difference between any two."""
    alpha: float

    @property
    def needed(self) -> int:
        """The fewest blocks with which a difference of these candidates could be significant at all."""
        return blocks_needed(len(self.names), self.alpha)

    @property
    def too_few(self) -> bool:
        """Whether no outcome whatever could have been significant."""
        return self.blocks < self.needed

    @property
    def significant(self) -> tuple[Pair, ...]:
        """The pairs that differ."""
        if self.friedman is not None and self.friedman.p_value > self.alpha:
            return ()
        return tuple(pair for pair in self.pairs if pair.corrected <= self.alpha)


def judge(scores: Scores, names: Sequence[str], *, lower_is_better: bool = True, alpha: float = ALPHA) -> Judgement:
    """What scores [block, candidate] say of the candidates; pairs count as different only after Friedman's test."""
    values = checked(scores)
    if len(names) != values.shape[1] or len(set(names)) != len(names):
        raise InputError(f"Every candidate needs a name of its own: {values.shape[1]} candidates, names {list(names)}.")
    average = average_ranks(values, lower_is_better=lower_is_better)
    order = np.argsort(average, kind="stable").tolist()
    places = [(first, second) for place, first in enumerate(order) for second in order[place + 1 :]]
    raw = [signed_rank(values[:, first], values[:, second]).p_value for first, second in places]
    pairs = tuple(
        Pair(
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
    found = Judgement(named, tuple(average[order].tolist()), len(values), overall, pairs, (), alpha)
    different = {frozenset((pair.first, pair.second)) for pair in found.significant}
    groups = cliques(len(named), lambda i, j: frozenset((named[i], named[j])) in different)
    return Judgement(named, found.ranks, found.blocks, overall, pairs, groups, alpha)


def cliques(count: int, different: Callable[[int, int], bool]) -> tuple[tuple[int, int], ...]:
    """The longest stretches of places within which no two differ; what lies within a longer one is left out."""
    found: list[tuple[int, int]] = []
    for first in range(count):
        last = first
        while last + 1 < count and not any(different(place, last + 1) for place in range(first, last + 1)):
            last += 1
        if last > first and not (found and found[-1][1] >= last):
            found.append((first, last))
    return tuple(found)


def blocks_needed(candidates: int, alpha: float = ALPHA) -> int:
    """The fewest blocks with which one pair could pass: n blocks all won have p = 2 / 2**n before the correction."""
    pairs = candidates * (candidates - 1) // 2
    blocks = 1
    while pairs * 2 / 2**blocks > alpha:
        blocks += 1
    return blocks
