"""Scores against labels: scikit-learn's areas, and VUS-PR as its definition reads."""

import numpy as np
import pytest

from rearview.tasks import rankings


def draw(seed: int, rows: int = 211) -> tuple[np.ndarray, np.ndarray]:
    """Labels in stretches, and scores with ties that know a little of them."""
    rng = np.random.default_rng(seed)
    labels = np.convolve(rng.random(rows) < 0.02, np.ones(7), "same") > 0
    labels[50:53] = True
    return labels, np.round(rng.normal(size=rows) + labels, 1)


@pytest.mark.parametrize("seed", range(4))
def test_areas_and_the_best_f1_are_those_of_scikit_learn(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    labels, scores = draw(seed)
    assert rankings.auc_roc(labels, scores) == pytest.approx(metrics.roc_auc_score(labels, scores))
    assert rankings.auc_pr(labels, scores) == pytest.approx(metrics.average_precision_score(labels, scores))
    every = [metrics.f1_score(labels, scores >= limit) for limit in np.unique(scores)]
    assert rankings.best_f1(labels, scores) == pytest.approx(max(every))


def test_without_anomalies_or_without_ordinary_rows_there_is_no_area() -> None:
    scores = np.arange(5.0)
    none, every = np.zeros(5, dtype=bool), np.ones(5, dtype=bool)
    assert np.isnan([rankings.auc_roc(none, scores), rankings.auc_roc(every, scores)]).all()
    assert np.isnan(
        [rankings.auc_pr(none, scores), rankings.vus_pr(none, scores, 4), rankings.best_f1(none, scores)]
    ).all()


def literal_vus_pr(labels: np.ndarray, scores: np.ndarray, slack: int, thresholds: int) -> float:
    """The surface row by row and threshold by threshold, nothing sorted or summed ahead; NaN: no row that counts."""
    rows, known = len(labels), ~np.isnan(scores)
    events = []
    for row in range(rows):
        if labels[row] and (row == 0 or not labels[row - 1]):
            events.append([row, row])
        elif labels[row]:
            events[-1][1] = row
    events = [(first, last) for first, last in events if known[first : last + 1].any()]
    ranked = sorted(scores[known], reverse=True)
    cuts = [ranked[int(k)] for k in np.linspace(0, len(ranked) - 1, thresholds).astype(int)]
    volume = 0.0
    for buffer in range(slack + 1):
        soft = [float(any(first <= row <= last for first, last in events)) for row in range(rows)]
        for row in range(rows):
            for first, last in events:
                distance = first - row if row < first else row - last
                if not labels[row] and 1 <= distance <= buffer // 2:
                    soft[row] += (1 - distance / buffer) ** 0.5
        soft = [min(1.0, value) for value in soft]
        wide, inside = [], False
        for row in range(rows):
            if soft[row] > 0 and not inside:
                wide.append([])
            inside = soft[row] > 0
            if inside:
                wide[-1].append(row)
        wide = [event for event in wide if known[event].any()]
        soft = [value if there else 0.0 for value, there in zip(soft, known, strict=True)]
        positives = (sum(labels[known]) + sum(soft)) / 2
        before, area = 0.0, 0.0
        for cut in cuts:
            flags = [score >= cut for score in scores]
            hits = sum(value for value, flag in zip(soft, flags, strict=True) if flag)
            met = sum(any(flags[row] for row in event) for event in wide) / len(wide)
            recall = min(hits / positives, 1) * met
            area += (recall - before) * hits / sum(flags)
            before = recall
        volume += area / (slack + 1)
    return volume


@pytest.mark.parametrize(("seed", "slack"), [(0, 0), (1, 5), (2, 12)])
def test_vus_pr_as_its_definition_reads(seed: int, slack: int) -> None:
    labels, scores = draw(seed)
    for known in (np.ones(len(labels), dtype=bool), np.random.default_rng(seed).random(len(labels)) < 0.7):
        counted = np.where(known, scores, np.nan)
        assert rankings.vus_pr(labels, counted, slack, thresholds=40) == pytest.approx(
            literal_vus_pr(labels, counted, slack, 40)
        )


def test_rows_without_a_score_keep_others_at_their_distance() -> None:
    """A flag ten rows off an anomaly is no near miss because the rows between have no score."""
    labels, scores = np.zeros(60, dtype=bool), np.zeros(60)
    labels[20:24], scores[34] = True, 1.0
    known = np.where((np.arange(60) >= 24) & (np.arange(60) < 34), np.nan, scores)
    assert rankings.vus_pr(labels, known, 8) < rankings.vus_pr(labels[~np.isnan(known)], known[~np.isnan(known)], 8)


def test_a_near_miss_counts_in_part() -> None:
    labels = np.zeros(200, dtype=bool)
    labels[100:110] = True
    near, far = np.zeros(200), np.zeros(200)
    near[95:100], far[20:25] = 1.0, 1.0
    assert rankings.vus_pr(labels, near, 30) > rankings.vus_pr(labels, far, 30) + 0.05


def test_buffers_stay_within_a_series() -> None:
    labels = np.zeros(40, dtype=bool)
    labels[18:20] = True
    scores = np.zeros(40)
    scores[20:24] = 1.0  # the next series begins at row 20
    whole = rankings.vus_pr(labels, scores, 10)
    assert rankings.vus_pr(labels, scores, 10, np.array([0, 20, 40])) < whole
