"""Flagged rows as segments: from when to when, where the worst row is, and which channels carry it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rearview.estimators.detect.scoring import Scores
from rearview.tasks.alarms import Flags, Offsets, find_runs

CARRIED = 0.8
"""The channels named are those that together make up this share of a segment's error."""
MOST_NAMED = 5
SHADOW = 0.5
"""The share of a peak's score, a mean of logarithms, below which rows beside it are in its shadow."""
RISE = 1.5
"""A score that grows by this factor over the lowest since a peak is not in its shadow."""


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
    found = []
    stretches = _join(find_runs(flags, offsets), offsets, join)
    if scores.members:
        stretches = [part for first, end in stretches for part in _step_out(scores.rows, first, end)]
    for first, end in stretches:
        peak = first + int(np.nanargmax(scores.rows[first:end]))
        series = int(np.searchsorted(offsets, first, side="right")) - 1
        inside = first + np.flatnonzero(flags[first:end])
        carriers = _carriers(scores.channels[inside])
        parts = {name: float(rows[inside].sum()) for name, rows in scores.members.items()}
        whole = sum(parts.values())
        members = sorted(((name, part / whole) for name, part in parts.items() if whole > 0), key=lambda one: -one[1])
        found.append(Segment(series, first, end - 1, peak, float(scores.rows[peak]), carriers, tuple(members)))
    return tuple(found)


def shares(channels: NDArray[np.float32]) -> NDArray[np.float64]:
    """[channel]: the share of each channel in the error of some rows [row, channel]."""
    total = np.nansum(channels.astype(np.float64), axis=0)
    return np.asarray(total / total.sum() if total.sum() > 0 else np.full(len(total), 1 / len(total)))


def _join(stretches: NDArray[np.int64], offsets: Offsets, join: int) -> list[tuple[int, int]]:
    series = np.searchsorted(offsets, stretches[:, 0], side="right")
    joined: list[tuple[int, int]] = []
    for number, (first, end) in enumerate(stretches.tolist()):
        if joined and series[number] == series[number - 1] and first - joined[-1][1] < join:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((first, end))
    return joined


def _step_out(scores: NDArray[np.float64], first: int, end: int) -> list[tuple[int, int]]:
    """The parts of a stretch of flagged rows that stand out: rows around an anomaly are in its shadow.

    Windows that hold an anomaly raise the scores of all their rows, on a logarithmic scale for many rows around. From
    the highest row down, a part is what reaches `SHADOW` of its peak; scores that fall from there on belong to it and
    are not shown, until they rise by half again, which is a part of its own.
    """
    rows = np.nan_to_num(scores[first:end])
    open_ = np.ones(len(rows), dtype=bool)
    parts = []
    while open_.any():
        peak = int(np.where(open_, rows, -np.inf).argmax())
        edges = []
        for step in (-1, 1):
            at, lowest, edge = peak, rows[peak], peak
            while 0 <= at < len(rows) and (at == peak or open_[at]):
                if lowest < SHADOW * rows[peak] and rows[at] > RISE * lowest:
                    break
                open_[at] = False
                lowest = min(lowest, rows[at])
                edge = at if lowest >= SHADOW * rows[peak] else edge
                at += step
            edges.append(edge)
        parts.append((first + edges[0], first + edges[1] + 1))
    return sorted(parts)


def _carriers(channels: NDArray[np.float32]) -> tuple[tuple[int, float], ...]:
    share = shares(channels)
    order = np.argsort(-share, kind="stable")
    enough = int(np.searchsorted(np.cumsum(share[order]), CARRIED)) + 1
    return tuple((int(channel), float(share[channel])) for channel in order[: min(enough, MOST_NAMED)])
