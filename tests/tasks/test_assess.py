"""Which rows an assessment counts: those with a score, however large it is."""

import numpy as np

from rearview.tasks.assess import assess

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
