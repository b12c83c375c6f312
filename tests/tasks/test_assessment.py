"""Which rows an assessment counts, those with a score, however large it is; and what is one anomaly among all rows."""

import numpy as np

from rearview.tasks.assessment import assess

LABELS = np.array([0, 0, 1, 0, 1, 0, 0, 1], dtype=bool)
SCORES = np.array([0.1, 0.2, 9.0, 0.3, 8.0, 0.1, 0.2, 7.0])


def test_an_infinite_score_counts_as_the_highest() -> None:
    endless = np.where(SCORES == 9.0, np.inf, SCORES)
    assert assess(LABELS, endless, endless > 5, slack=2) == assess(LABELS, SCORES, SCORES > 5, slack=2)


def test_rows_without_a_score_do_not_count() -> None:
    unknown = np.where(np.arange(8) == 4, np.nan, SCORES)
    found = assess(LABELS, unknown, unknown > 5, slack=2, offsets=np.array([0, 5, 8]))
    known = np.arange(8) != 4
    assert found == assess(LABELS[known], SCORES[known], SCORES[known] > 5, slack=2, offsets=np.array([0, 4, 7]))
    assert (found.rows, found.anomalous, found.events) == (7, 2, 2)


def test_events_are_counted_by_the_segments_that_have_a_known_row() -> None:
    flags = np.array([1, 0, 1, 0, 1, 0, 1, 0], dtype=bool)
    segments = np.array([[0, 3], [4, 5], [6, 7]])
    assert assess(LABELS, SCORES, flags, slack=2).event_precision == 2 / 4
    assert assess(LABELS, SCORES, flags, slack=2, segments=segments).event_precision == 2 / 3
    unknown = np.where(np.isin(np.arange(8), (2, 4)), np.nan, SCORES)
    assert assess(LABELS, unknown, flags, slack=2, segments=segments).event_precision == 0 / 2


def test_anomalies_around_rows_without_a_score_are_two() -> None:
    labels = np.array([0, 1, 1, 0, 0, 1, 1, 0], dtype=bool)
    flags = np.array([0, 1, 0, 0, 0, 0, 0, 0], dtype=bool)
    scores = np.array([0.1, 9.0, 0.2, np.nan, np.nan, 0.3, 0.1, 0.2])
    found = assess(labels, scores, flags, slack=2)
    assert (found.rows, found.anomalous, found.events) == (6, 4, 2)
    assert (found.event_recall, found.adjusted_recall, found.range_recall) == (1 / 2, 2 / 4, 1 / 4)
    whole = assess(labels, np.nan_to_num(scores), flags, slack=2)
    assert (whole.events, whole.event_recall, whole.adjusted_recall) == (2, 1 / 2, 2 / 4)


def test_an_anomaly_with_rows_without_a_score_is_one_and_is_measured_by_the_others() -> None:
    labels = np.array([0, 1, 1, 1, 1, 1, 0, 0], dtype=bool)
    flags = np.array([0, 1, 0, 0, 0, 0, 0, 1], dtype=bool)
    scores = np.array([0.1, 9.0, 0.2, np.nan, np.nan, 0.3, 0.1, 8.0])
    found = assess(labels, scores, flags, slack=2)
    assert (found.rows, found.anomalous, found.events) == (6, 3, 1)
    assert (found.event_recall, found.event_precision) == (1, 1 / 2)
    assert (found.adjusted_recall, found.range_recall) == (1, 1 / 3)


def test_alarms_around_rows_without_a_score_are_two_and_one_over_rows_without_a_label() -> None:
    """Whoever compares has taken the scores of unlabelled rows away; their flags still hold an alarm together."""
    labels = np.array([0, 1, 0, 0, 0, 0, 0, 0], dtype=bool)
    scores = np.array([0.1, 9.0, np.nan, 9.0, 0.1, 0.2, 0.1, 0.3])
    apart = assess(labels, scores, np.array([0, 1, 0, 1, 0, 0, 0, 0], dtype=bool), slack=2)
    joined = assess(labels, scores, np.array([0, 1, 1, 1, 0, 0, 0, 0], dtype=bool), slack=2)
    assert (apart.flagged, joined.flagged) == (2, 2)
    assert (apart.event_precision, joined.event_precision) == (1 / 2, 1)
