"""Detection judged by labels: every measure under its own name, the inflated one beside what chance gets.

The point-adjusted F1 edits flags by labels (one hit within an anomaly counts for all of it), so that long anomalies
make random flags look good; it is given because the field reports it, and `adjusted_f1_by_chance` tells its worth.
"""

from dataclasses import dataclass

import numpy as np

from rearview.tasks import alarms, rankings
from rearview.tasks.alarms import Flags, Offsets, Runs
from rearview.tasks.rankings import Scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What labels say of scores and flags; NaN where a measure does not exist."""

    rows: int
    """Rows that have both a score and a label."""
    anomalous: int
    events: int
    """Anomalies as stretches of marked rows; a row without a label ends one."""
    flagged: int
    precision: float
    """Rows counted one by one at the threshold, which no label has touched; recall and f1 likewise."""
    recall: float
    f1: float
    best_f1: float
    """The highest F1 of any threshold: chosen with the labels, so an upper bound."""
    auc_pr: float
    auc_roc: float
    vus_pr: float
    range_precision: float
    range_recall: float
    range_f1: float
    event_precision: float
    """Alarms with a flag on an anomaly: segments where they were given, else runs of flagged rows."""
    event_recall: float
    """Anomalies that a flag touches."""
    event_f1: float
    adjusted_precision: float
    """After point adjustment."""
    adjusted_recall: float
    adjusted_f1: float
    adjusted_f1_by_chance: float
    """The adjusted F1 of as many flags thrown at random."""


def assess(
    labels: Flags,
    scores: Scores,
    flags: Flags,
    *,
    slack: int,
    offsets: Offsets | None = None,
    segments: Runs | None = None,
) -> Assessment:
    """Compare rows [row]; those without a score (NaN) do not count. `slack`: the widest buffer of VUS-PR.

    An anomaly is a run of marked rows, and an alarm one of flagged rows, among all rows: what lies apart stays apart
    where rows between have no score. A row without a label is not marked, so that it ends an anomaly; one that is
    marked but has no score does not. Anomalies and alarms of which no row counts do not count either.

    `segments` [segment, 2] (first row, row after the last) are what a reader is shown as one anomaly each: flagged
    rows that lie close together. Events are counted by them; None: by runs of flagged rows.
    """
    known = ~np.isnan(scores)
    events = alarms.count_among(alarms.runs(labels, offsets), known)
    flagged = alarms.count_among(alarms.runs(flags, offsets), known)
    shown = flagged if segments is None else alarms.count_among(segments, known)
    vus_pr = rankings.vus_pr(labels, scores, slack, offsets)
    labels, scores, flags = labels[known], scores[known], flags[known]
    rows = alarms.pointwise(labels, flags)
    ranges = alarms.rangewise(labels, flags, events, flagged)
    eventwise = alarms.eventwise(labels, flags, events, shown)
    adjusted = alarms.pointwise(labels, alarms.adjust(labels, flags, events))
    return Assessment(
        rows=len(scores),
        anomalous=int(labels.sum()),
        events=len(events),
        flagged=int(flags.sum()),
        precision=rows.precision,
        recall=rows.recall,
        f1=rows.f1,
        best_f1=rankings.best_f1(labels, scores)[0],
        auc_pr=rankings.auc_pr(labels, scores),
        auc_roc=rankings.auc_roc(labels, scores),
        vus_pr=vus_pr,
        range_precision=ranges.precision,
        range_recall=ranges.recall,
        range_f1=ranges.f1,
        event_precision=eventwise.precision,
        event_recall=eventwise.recall,
        event_f1=eventwise.f1,
        adjusted_precision=adjusted.precision,
        adjusted_recall=adjusted.recall,
        adjusted_f1=adjusted.f1,
        adjusted_f1_by_chance=alarms.chance_adjusted_f1(labels, int(flags.sum()), events),
    )
