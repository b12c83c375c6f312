"""Measures of a detection against labels.

The point-adjusted F1 edits flags by labels (one hit within an anomaly counts for all of it), so that long anomalies
make random flags look good; it is given because the field reports it, with `adjusted_f1_by_chance` for comparison.
"""

from dataclasses import asdict, dataclass

import numpy as np

from rearview.core.display import html_table
from rearview.tasks import alarms, rankings
from rearview.tasks.alarms import Flags, Offsets, Quality, Runs
from rearview.tasks.rankings import Scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """Measures of scores and flags against labels; NaN where one does not exist."""

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
    false_alarms: int
    """Alarms without a flag on an anomaly."""
    adjusted_precision: float
    """After point adjustment."""
    adjusted_recall: float
    adjusted_f1: float
    adjusted_f1_by_chance: float
    """The adjusted F1 of as many flags thrown at random."""

    def _repr_html_(self) -> str:
        """Every measure, for notebooks."""
        words = {
            name: f"{value:.4g}" if isinstance(value, float) else f"{value:,}" for name, value in asdict(self).items()
        }
        return html_table(words.items())


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

    def add_prefix(prefix: str, quality: Quality) -> dict[str, float]:
        return {f"{prefix}{name}": value for name, value in asdict(quality).items()}

    known = ~np.isnan(scores)
    events = alarms.restrict(alarms.find_runs(labels, offsets), known)
    flagged = alarms.restrict(alarms.find_runs(flags, offsets), known)
    shown = flagged if segments is None else alarms.restrict(segments, known)
    vus_pr = rankings.vus_pr(labels, scores, slack, offsets)
    labels, scores, flags = labels[known], scores[known], flags[known]
    hits = alarms.count_hits(labels, flags, shown)
    return Assessment(
        rows=len(scores),
        anomalous=int(labels.sum()),
        events=len(events),
        flagged=int(flags.sum()),
        **add_prefix("", alarms.score_rows(labels, flags)),
        best_f1=rankings.best_f1(labels, scores),
        auc_pr=rankings.auc_pr(labels, scores),
        auc_roc=rankings.auc_roc(labels, scores),
        vus_pr=vus_pr,
        **add_prefix("range_", alarms.score_ranges(labels, flags, events, flagged)),
        **add_prefix("event_", alarms.score_events(labels, flags, events, shown)),
        false_alarms=hits.alarms - hits.right,
        **add_prefix("adjusted_", alarms.score_rows(labels, alarms.adjust(labels, flags, events))),
        adjusted_f1_by_chance=alarms.chance_adjusted_f1(labels, int(flags.sum()), events),
    )
