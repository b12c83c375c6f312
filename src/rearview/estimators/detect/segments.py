"""Flagged rows as segments: from when to when, where the worst row is, and which channels carry it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rearview.estimators.detect.scoring import Scores
from rearview.tasks.alarms import Flags, Offsets, find_runs

CARRIED = 0.8
"""The channels named are those that together make up this share of a segment's error."""
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of anomalous rows of one series."""

    series: int
    first: int
    """The first row, counted over all series; `last` and `peak` likewise."""
    last: int
    peak: int
    """The row of the highest score."""
    score: float
    """The highest score."""
    channels: tuple[tuple[int, float], ...]
    """Channels that carry it and their shares of the error, the largest first."""
    members: tuple[tuple[str, float], ...] = ()
    """Members of a portfolio and their shares of the score, the largest first."""


def segments(flags: Flags, scores: Scores, offsets: Offsets, join: int) -> tuple[Segment, ...]:
    """The segments of flagged rows; those at most `join` rows apart within one series are one."""
    found: list[Segment] = []
    for first, end in _join(find_runs(flags, offsets), offsets, join):
        peak = first + int(np.nanargmax(scores.rows[first:end]))
        series = int(np.searchsorted(offsets, first, side="right")) - 1
        inside = first + np.flatnonzero(flags[first:end])
        carriers = _carriers(scores.channels[inside])
        said = _speakers({name: float(rows[inside].sum()) for name, rows in scores.members.items()})
        found.append(Segment(series, first, end - 1, peak, float(scores.rows[peak]), carriers, said))
    return tuple(found)


def shares(channels: NDArray[np.float32]) -> NDArray[np.float64]:
    """[channel]: the share of each channel in the error of some rows [row, channel]."""
    total = np.nansum(channels.astype(np.float64), axis=0)
    return np.asarray(total / total.sum() if total.sum() > 0 else np.full(len(total), 1 / len(total)))


def _join(stretches: NDArray[np.int64], offsets: Offsets, join: int) -> list[tuple[int, int]]:
    series = np.searchsorted(offsets, stretches[:, 0], side="right")
    found: list[tuple[int, int]] = []
    for number, (first, end) in enumerate(stretches.tolist()):
        if found and series[number] == series[number - 1] and first - found[-1][1] < join:
            found[-1] = (found[-1][0], end)
        else:
            found.append((first, end))
    return found


def _carriers(channels: NDArray[np.float32]) -> tuple[tuple[int, float], ...]:
    share = shares(channels)
    order = np.argsort(-share, kind="stable")
    enough = int(np.searchsorted(np.cumsum(share[order]), CARRIED)) + 1
    return tuple((int(channel), float(share[channel])) for channel in order[: min(enough, MOST_NAMED)])


def _speakers(said: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    whole = sum(said.values())
    return tuple(sorted(((name, part / whole) for name, part in said.items() if whole > 0), key=lambda one: -one[1]))
