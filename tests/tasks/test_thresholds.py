"""Thresholds: quantiles, the tail fit against scipy's, and a rule that anomalies don't move."""

import numpy as np
import pytest

from rearview.core.errors import InputError
from rearview.tasks import thresholds


@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.2, 0.6])
def test_the_tail_is_that_of_the_greatest_likelihood(shape: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    peaks = stats.genpareto.rvs(shape, scale=2.0, size=800, random_state=7)
    found = thresholds.pareto(peaks)
    theirs_shape, _, theirs_scale = stats.genpareto.fit(peaks, floc=0)
    ours = stats.genpareto.logpdf(peaks, found[0], scale=found[1]).sum()
    theirs = stats.genpareto.logpdf(peaks, theirs_shape, scale=theirs_scale).sum()
    assert ours >= theirs - 1e-3
    np.testing.assert_allclose(found, (theirs_shape, theirs_scale), atol=5e-3)


@pytest.mark.parametrize("risk", [1e-2, 1e-3, 1e-4])
def test_the_risk_is_met_by_exponential_scores(risk: float) -> None:
    scores = np.random.default_rng(5).exponential(size=200_000)
    exact = -np.log(risk)
    assert thresholds.over_peaks(scores, risk) == pytest.approx(exact, rel=0.06)


def test_a_quantile_is_the_quantile_of_the_scores_that_are_there() -> None:
    scores = np.array([1.0, 2.0, 3.0, 4.0, 5.0, np.nan])
    limit, words = thresholds.choose(scores, "quantile", quantile=0.75, risk=0.1)
    assert limit == 4.0
    assert "75 % of 5" in words


def test_too_few_peaks_give_the_largest_score_and_say_so() -> None:
    limit, words = thresholds.choose(np.arange(100.0), "pot", quantile=0.9, risk=0.01)
    assert limit == 99.0
    assert "too few" in words


def test_anomalies_among_the_scores_hardly_move_the_robust_rule() -> None:
    rng = np.random.default_rng(1)
    ordinary = rng.chisquare(5, size=4000)
    dirty = ordinary.copy()
    dirty[:400] *= 200
    options = {"quantile": 0.995, "risk": 1e-3}
    clean_limit = thresholds.choose(ordinary, "robust", **options)[0]
    dirty_limit = thresholds.choose(dirty, "robust", **options)[0]
    assert dirty_limit == pytest.approx(clean_limit, rel=0.35)
    assert thresholds.choose(dirty, "quantile", **options)[0] > 10 * clean_limit
    assert (ordinary > clean_limit).mean() < 1e-3


def test_without_any_score_there_is_no_threshold() -> None:
    with pytest.raises(InputError, match="no score to draw a threshold from"):
        thresholds.choose(np.full(5, np.nan), "quantile", quantile=0.9, risk=0.1)


def test_a_quantile_with_few_scores_beyond_it_is_raised_towards_the_usual_one() -> None:
    scores = np.linspace(0, 1, 201)
    options = {"quantile": 0.9, "risk": 0.1}
    own, words = thresholds.choose(scores, "quantile", **options)
    assert own == pytest.approx(0.9)
    beyond = 0.1 * 201 / 10
    limit, raised = thresholds.choose(scores, "quantile", **options, averaged=10, usual=2.0)
    weight = thresholds.USUAL_BEYOND
    assert limit == pytest.approx((beyond * own + weight * 2) / (beyond + weight))
    assert raised == words
    assert thresholds.choose(scores, "quantile", **options, averaged=10, usual=0.5)[0] == own
    many, few = (thresholds.choose(scores, "quantile", **options, averaged=a, usual=2.0)[0] for a in (1, 100))
    assert own < many < limit < few < 2
