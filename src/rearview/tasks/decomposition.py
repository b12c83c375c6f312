"""A line taken apart: a slow trend, and the profile of each season around it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LEAST_SPAN = 7
PASSES = 2
"""Passes in which trend and seasons are estimated in turn."""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """Trend [row] and, by season, the profile [phase] that repeats around it; phase 0 is the first row."""

    trend: Array
    profiles: dict[int, Array]


def decompose(values: Array, seasons: Sequence[int]) -> Decomposition | None:
    """Take a line apart; None where it has too few values. Seasons that do not fit in twice are left out."""
    there = np.isfinite(values)
    if there.sum() < 2 * LEAST_SPAN:
        return None
    rows = np.arange(len(values))
    filled = np.interp(rows, rows[there], values[there])
    fitting = sorted(season for season in seasons if 1 < season <= len(values) // 2)
    span = max(LEAST_SPAN, fitting[-1] if fitting else len(values) // 8)
    begin, end = _ends(len(values), span)
    trend = _sums(filled, begin, end) / (end - begin)
    profiles: dict[int, Array] = {}
    for _ in range(PASSES):
        left = filled - trend
        for season in fitting:
            phases = rows % season
            means = np.bincount(phases, left, season) / np.bincount(phases, minlength=season)
            profiles[season] = means - means.mean()
            left = left - profiles[season][phases]
        trend = _local_line(trend + left, span)
    return Decomposition(trend, profiles)


def _ends(count: int, span: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First row and row after the last of the window around each row; windows at the ends are as long as the others."""
    begin = np.clip(np.arange(count) - span // 2, 0, max(0, count - span))
    return begin, np.minimum(begin + span, count)


def _sums(values: Array, begin: NDArray[np.int64], end: NDArray[np.int64]) -> Array:
    total = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(total[end] - total[begin])


def _local_line(values: Array, span: int) -> Array:
    """At each row the straight line through the window around it, so that the ends follow a slope."""
    begin, end = _ends(len(values), span)
    count = end - begin
    rows = np.arange(len(values), dtype=np.float64)
    level = values.mean()  # sums of large numbers would lose digits
    x, y = _sums(rows, begin, end) / count, _sums(values - level, begin, end) / count
    spread = _sums(rows**2, begin, end) / count - x**2
    slope = (_sums(rows * (values - level), begin, end) / count - x * y) / np.maximum(spread, 1e-12)
    return np.asarray(level + y + slope * (rows - x))
