"""Weights without labels: anomalies are injected into held-out rows, and members that rank them above ordinary rows
weigh more.

    place_m  = mean over made anomalies of the share of ordinary rows of their series that they score above
    weight_m = exp(SHARPNESS place_m) / sum over members

A series with few made anomalies leans on the mean place over all series.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rearview.data.panel import Panel

WANTED = 40
"""Anomalies that are made in a series, over all copies of its rows."""
SPACING = 250
"""Rows in which one anomaly is made."""
SHORTEST, LONGEST = 3, 100
"""Rows of an anomaly; never more than a third of those that it is made in."""
SMALLEST, LARGEST = 0.3, 3.0
"""Standard deviations that an anomaly moves a channel by."""
POOLED = 20
"""Anomalies that the mean over all series counts for."""
SHARPNESS = 10.0
"""Of two members, one that ranks anomalies by a tenth of the ordinary rows higher weighs e times as much."""

Cells = NDArray[np.float64]
"""[row, channel]."""
Rows = NDArray[np.float64]
Events = NDArray[np.int64]
"""[anomaly, 2]: first row and row after the last."""


def _spike(cells: Cells, size: Cells, other: Cells, random: np.random.Generator) -> Cells:
    cells[random.integers(len(cells))] += 4 * size
    return cells


def _stretch(cells: Cells, size: Cells, other: Cells, random: np.random.Generator) -> Cells:
    mean = cells.mean(axis=0)
    return mean + (cells - mean) * random.choice([0.3, 2.0, 3.0])


KINDS: Mapping[str, Callable[[Cells, Cells, Cells, np.random.Generator], Cells]] = {
    "spike": _spike,
    "shift": lambda cells, size, other, random: cells + size,
    "trend": lambda cells, size, other, random: cells + 2 * size * np.linspace(0, 1, len(cells))[:, None],
    "flat": lambda cells, size, other, random: np.repeat(cells[:1], len(cells), axis=0),
    "noise": lambda cells, size, other, random: cells + random.normal(size=cells.shape) * size,
    "stretch": _stretch,
    "reversed": lambda cells, size, other, random: cells[::-1],
    "from another time": lambda cells, size, other, random: other,
}
"""From the cells of some channels, sizes by channel and the same channels at another time."""


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """The weight of each member; the weights of a series add up to 1."""

    known: NDArray[np.float64]
    """[series, member]."""
    elsewhere: NDArray[np.float64]
    """[member]: for series that were not seen in training."""

    @staticmethod
    def equal(series: int, members: int) -> "Weights":
        """The same weight for every member."""
        return Weights(np.full((series, members), 1 / members), np.full(members, 1 / members))


def learn_weights(
    judge: Callable[[Panel], Sequence[Rows]],
    part: Panel,
    spread: NDArray[np.float64],
    varying: NDArray[np.bool_],
    series: NDArray[np.int64],
    count: int,
    seed: int,
) -> Weights:
    """Weights from the scores [member][row] that `judge` gives copies of held-out rows with anomalies.

    The rows are those of some `series` among `count`; `spread` and `varying` [series, channel] say how they move.
    """
    random = np.random.default_rng([seed, len(KINDS)])
    copies = math.ceil(WANTED / max(1, int(np.median(part.lengths)) // SPACING))
    made = [make_anomalies(part, spread, varying, random) for _ in range(copies)]
    return choose_weights([judge(panel) for panel, _ in made], [events for _, events in made], part, series, count)


def make_anomalies(
    part: Panel, spread: NDArray[np.float64], varying: NDArray[np.bool_], random: np.random.Generator
) -> tuple[Panel, Events]:
    """A copy of some rows with anomalies; `spread` and `varying` [series, channel] say how channels move, if at all."""
    values, events = part.values.copy(), []
    for s, (a, b) in enumerate(part.bounds()):
        channels = np.flatnonzero(varying[s])
        if not len(channels):
            continue
        for low, high in pairwise(np.linspace(a, b, max(1, (b - a) // SPACING) + 1).astype(int).tolist()):
            longest = min(LONGEST, (high - low) // 3)
            if longest < SHORTEST:
                continue
            rows = int(np.exp(random.uniform(np.log(SHORTEST), np.log(longest + 1))))
            first, begin = int(random.integers(low, high - rows + 1)), int(random.integers(a, b - rows + 1))
            number = math.ceil(np.exp(random.uniform(0, np.log(max(1.0, len(channels) / 2)))))
            some = random.choice(channels, number, replace=False)
            size = np.exp(random.uniform(np.log(SMALLEST), np.log(LARGEST), number)) * spread[s, some]
            size *= random.choice([-1, 1], number)
            here = part.values[first : first + rows, some].astype(np.float64)
            there = part.values[begin : begin + rows, some].astype(np.float64)
            made = list(KINDS.values())[int(random.integers(len(KINDS)))](here.copy(), size, there, random)
            # Reversed or frozen, a channel at rest stays what it was.
            values[first : first + rows, some] = here + size if np.array_equal(made, here) else made
            events.append((first, first + rows))
    return replace(part, values=values), np.array(events, dtype=np.int64).reshape(-1, 2)


def choose_weights(
    scored: Sequence[Sequence[Rows]], events: Sequence[Events], part: Panel, series: NDArray[np.int64], count: int
) -> Weights:
    """The weights of members, from their scores [copy][member] of rows with made `events` [copy].

    The rows are those of some `series` among `count`.
    """
    members = len(scored[0])
    number = np.zeros(part.series)
    places = np.zeros((part.series, members))
    for s, (a, b) in enumerate(part.bounds()):
        own = [here[(a <= here[:, 0]) & (here[:, 0] < b)] for here in events]
        number[s] = sum(map(len, own))
        if number[s]:
            for m in range(members):
                places[s, m] = np.mean(_rank([rows[m][a:b] for rows in scored], [here - a for here in own]))
    if not number.any():
        return Weights.equal(count, members)
    pooled = places[number > 0].mean(axis=0)
    known = np.tile(_sharpen(pooled), (count, 1))
    known[series] = _sharpen((number[:, None] * places + POOLED * pooled) / (number[:, None] + POOLED))
    return Weights(known, _sharpen(pooled))


def _rank(scored: list[Rows], events: list[Events]) -> list[float]:
    """The place of each anomaly: the share of ordinary rows that its rows are above, on average."""
    ordinary = []
    for rows, own in zip(scored, events, strict=True):
        usable = np.isfinite(rows)
        for first, end in own.tolist():
            usable[first:end] = False
        ordinary.append(rows[usable])
    ranked = np.sort(np.concatenate(ordinary))
    places = []
    for rows, own in zip(scored, events, strict=True):
        for first, end in own.tolist():
            made = rows[first:end][np.isfinite(rows[first:end])]
            below, level = np.searchsorted(ranked, made, "left"), np.searchsorted(ranked, made, "right")
            places.append(float((below + level).mean()) / (2 * len(ranked)) if len(made) and len(ranked) else 0.5)
    return places


def _sharpen(places: NDArray[np.float64]) -> NDArray[np.float64]:
    raised = np.exp(SHARPNESS * (places - places.max(axis=-1, keepdims=True)))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))
