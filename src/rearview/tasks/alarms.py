"""Flags compared with labels: by rows, by events, by ranges, and with the field's point adjustment.

Flags are drawn at a threshold beforehand. Stretches of rows are [stretch, 2]: first row and row after the last. None
crosses from one series into the next where `offsets` [series + 1] says at which rows series begin. A ratio that does
not exist (no flag, no anomaly) is NaN.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Offsets = NDArray[np.int64]
Runs = NDArray[np.int64]

FEWEST_THROWS, USUAL_THROWS = 20, 1_000
"""The number of times flags are thrown at random: at least, and for up to some 4,000 anomalies."""
COUNTS_AT_ONCE, MOST_COUNTS = 1 << 19, 1 << 22
"""Counts of flags that are drawn at once, and in all (but for the fewest throws)."""


@dataclass(frozen=True, slots=True)
class Quality:
    """Precision, recall and their harmonic mean."""

    precision: float
    recall: float
    f1: float

    @staticmethod
    def of(precision: float, recall: float) -> "Quality":
        """With F1 = 0 where nothing was found, even without any flag."""
        return Quality(precision, recall, 2 * precision * recall / (precision + recall) if recall != 0 else 0.0)


class Hits(NamedTuple):
    """The number of stretches that are alarms, because a row of theirs is flagged, and of those on an anomaly."""

    alarms: int
    right: int


def find_runs(flags: Flags, offsets: Offsets | None = None) -> Runs:
    """Every stretch of flagged rows."""
    edges = np.diff(np.concatenate([[0], flags.astype(np.int8), [0]]))
    firsts, ends = edges == 1, edges == -1
    if offsets is not None:
        # A run that goes on over the border of two series is two: it ends there and begins there.
        inner = offsets[(offsets > 0) & (offsets < len(flags))]
        through = inner[flags[inner] & flags[inner - 1]]
        firsts[through], ends[through] = True, True
    return np.stack([np.flatnonzero(firsts), np.flatnonzero(ends)], axis=1)


def count_inside(flags: Flags, stretches: Runs) -> NDArray[np.int64]:
    """[stretch]: flagged rows in each."""
    counts = np.concatenate([[0], np.cumsum(flags)])
    return counts[stretches[:, 1]] - counts[stretches[:, 0]]


def restrict(stretches: Runs, known: Flags) -> Runs:
    """Stretches as rows counted among the known ones alone; those without a known row are left out.

    So rows of which nothing is known neither count nor bring stretches together that lie apart.
    """
    counts = np.concatenate([[0], np.cumsum(known)])
    return np.asarray(counts[stretches[count_inside(known, stretches) > 0]])


def count_hits(labels: Flags, flags: Flags, stretches: Runs) -> Hits:
    """The alarms among stretches; one is right by a flag on an anomaly, not by spanning it."""
    on_anomaly = count_inside(flags & labels, stretches) > 0
    return Hits(int((count_inside(flags, stretches) > 0).sum()), int(on_anomaly.sum()))


def score_rows(labels: Flags, flags: Flags) -> Quality:
    """Rows counted one by one."""
    hits = int((labels & flags).sum())
    return Quality.of(_ratio(hits, int(flags.sum())), _ratio(hits, int(labels.sum())))


def score_events(labels: Flags, flags: Flags, events: Runs, alarms: Runs) -> Quality:
    """Stretches counted one by one: alarms with a flag on an anomaly, anomalies (`events`) that a flag touches."""
    hits = count_hits(labels, flags, alarms)
    touched = int((count_inside(flags, events) > 0).sum())
    return Quality.of(_ratio(hits.right, hits.alarms), _ratio(touched, len(events)))


def score_ranges(labels: Flags, flags: Flags, events: Runs, alarms: Runs) -> Quality:
    """Range-based precision and recall (Tatbul et al., 2018): mean over ranges of overlap / cardinality.

    The overlap of a range is the share of it that ranges of the other kind cover (flat bias, no reward for mere
    existence), the cardinality is how many of them do: an anomaly found in three pieces counts a third.
    """

    def overlap(ranges: Runs, others: Flags, other_ranges: Runs) -> float:
        if not len(ranges):
            return float("nan")
        share = count_inside(others, ranges) / (ranges[:, 1] - ranges[:, 0])
        first = np.searchsorted(other_ranges[:, 1], ranges[:, 0], side="right")
        last = np.searchsorted(other_ranges[:, 0], ranges[:, 1], side="left")
        return float(np.mean(share / np.maximum(last - first, 1)))

    return Quality.of(overlap(alarms, labels, events), overlap(events, flags, alarms))


def adjust(labels: Flags, flags: Flags, events: Runs | None = None) -> Flags:
    """Point adjustment, the field's habit: one flag within an anomaly flags all of it. It edits flags by labels."""
    events = find_runs(labels) if events is None else events
    touched = events[count_inside(flags, events) > 0]
    changes = np.zeros(len(flags) + 1, dtype=np.int64)
    np.add.at(changes, touched[:, 0], 1)
    np.add.at(changes, touched[:, 1], -1)
    return flags | (np.cumsum(changes[:-1]) > 0)


def chance_adjusted_f1(labels: Flags, flagged: int, events: Runs | None = None, *, seed: int = 0) -> float:
    """The mean point-adjusted F1 of as many flags thrown at random: what the adjustment gives for nothing.

    How many flags of a throw fall on each anomaly, and how many on none, follows a multivariate hypergeometric law, so
    only these counts are drawn, never rows. Few anomalies, whose F1 varies most, are thrown at most often.
    """
    events = find_runs(labels) if events is None else events
    if not len(events):
        return float("nan")
    lengths = events[:, 1] - events[:, 0]
    anomalous = int(lengths.sum())
    places = np.append(lengths, len(labels) - anomalous)
    rng = np.random.default_rng(seed)
    usual = max(USUAL_THROWS, COUNTS_AT_ONCE // len(places))
    left = throws = max(FEWEST_THROWS, min(usual, MOST_COUNTS // len(places)))
    total = 0.0
    while left:
        size = min(left, max(1, COUNTS_AT_ONCE // len(places)))
        counts = rng.multivariate_hypergeometric(places, flagged, size=size, method="marginals")
        hit = (counts[:, :-1] > 0) @ lengths
        total += float(np.sum(2 * hit / (hit + counts[:, -1] + anomalous)))
        left -= size
    return total / throws


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
