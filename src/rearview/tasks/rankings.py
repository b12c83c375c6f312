"""Measures of how well scores rank anomalous rows above ordinary ones, whatever the threshold.

Tied scores are one threshold. A measure that does not exist, because no row or every row is an anomaly, is NaN.
"""

import numpy as np
from numpy.typing import NDArray

from rearview.tasks.alarms import Flags, Offsets, count_inside, find_runs, restrict

Scores = NDArray[np.float64]
THRESHOLDS = 250
"""Thresholds at which VUS-PR looks, spread evenly over the ranks of the scores, as its authors have it."""


def auc_roc(labels: Flags, scores: Scores) -> float:
    """The probability that an anomalous row scores above an ordinary one, ties counting half."""
    hits, alarms = _count_alarms(labels, scores)
    if not hits[-1] or hits[-1] == alarms[-1]:
        return float("nan")
    right = np.concatenate([[0.0], hits / hits[-1]])
    wrong = np.concatenate([[0.0], (alarms - hits) / (alarms[-1] - hits[-1])])
    return float(np.sum(np.diff(wrong) * (right[1:] + right[:-1]) / 2))


def auc_pr(labels: Flags, scores: Scores) -> float:
    """Average precision: precision summed over the steps of recall."""
    hits, alarms = _count_alarms(labels, scores)
    if not hits[-1]:
        return float("nan")
    return float(np.sum(np.diff(np.concatenate([[0.0], hits / hits[-1]])) * hits / alarms))


def best_f1(labels: Flags, scores: Scores) -> float:
    """The highest F1 of any threshold, chosen with the labels in hand."""
    hits, alarms = _count_alarms(labels, scores)
    return float((2 * hits / (alarms + hits[-1])).max()) if hits[-1] else float("nan")


def vus_pr(
    labels: Flags, scores: Scores, slack: int, offsets: Offsets | None = None, thresholds: int = THRESHOLDS
) -> float:
    """Volume under the precision-recall surface (Paparrizos et al., 2022): mean range-PR area over buffers 0 to slack.

    With a buffer l the label of a row at distance d of an anomaly is sqrt(1 - d / l) up to d = l / 2, so that a near
    miss counts in part. Recall is that of the soft labels, times the share of (widened) anomalies with a flag. Rows
    without a score (NaN) do not count, nor do anomalies of such rows alone, but they keep others at their distance.
    """
    known = ~np.isnan(scores)
    events = find_runs(labels, offsets)
    events = events[count_inside(known, events) > 0]
    if not len(events):
        return float("nan")
    seen = scores[known]
    order = np.argsort(-seen, kind="stable")
    ranked = seen[order]
    cuts = ranked[np.linspace(0, len(seen) - 1, min(thresholds, len(seen))).astype(np.int64)]
    alarms = np.searchsorted(-ranked, -cuts, side="right")
    # First row and row after the last of the series that each event lies in.
    borders = np.array([0, len(labels)]) if offsets is None else offsets
    place = np.searchsorted(borders, events[:, 0], side="right")
    limits = np.stack([borders[place - 1], borders[place]], axis=1)
    areas = []
    for buffer in range(slack + 1):
        widened = _soften(len(labels), events, limits, buffer)
        stretches = restrict(find_runs(widened > 0, offsets), known).tolist()
        peaks = np.sort(np.array([seen[first:end].max() for first, end in stretches]))
        soft = widened[known]
        hits = np.concatenate([[0.0], np.cumsum(soft[order])])[alarms]
        existing = 1 - np.searchsorted(peaks, cuts, side="left") / len(peaks)
        recall = np.minimum(hits / ((labels[known].sum() + soft.sum()) / 2), 1) * existing
        areas.append(float(np.sum(np.diff(np.concatenate([[0.0], recall])) * hits / alarms)))
    return float(np.mean(areas))


def _soften(rows: int, events: NDArray[np.int64], limits: NDArray[np.int64], buffer: int) -> Scores:
    """Labels that fade out on both sides of each event, within its series; where two fade together they add up to 1."""
    soft = np.zeros(rows)
    reach = buffer // 2
    fading = np.sqrt(1 - np.arange(1, reach + 1) / max(buffer, 1))
    for (first, end), (low, high) in zip(events.tolist(), limits.tolist(), strict=True):
        before, after = max(first - reach, low), min(end + reach, high)
        soft[first:end] += 1
        soft[before:first] += fading[: first - before][::-1]
        soft[end:after] += fading[: after - end]
    return np.minimum(soft, 1.0)


def _count_alarms(labels: Flags, scores: Scores) -> tuple[Scores, Scores]:
    """True alarms and alarms at every threshold, from the highest score down; one threshold for tied scores."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.flatnonzero(np.concatenate([ranked[1:] != ranked[:-1], [True]]))
    return np.cumsum(labels[order])[last].astype(np.float64), (last + 1).astype(np.float64)
