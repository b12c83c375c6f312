"""Scores as ranks among held-out rows: by hand, beyond the highest of them, and in detectors saved before."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sensors import broken, fleet, ordinary

from rearview import Detector
from rearview.core.errors import InputError
from rearview.data.datasets.labelled_arrays import from_arrays
from rearview.data.panel import Panel
from rearview.estimators.detect import storage
from rearview.estimators.detect.portfolio.portfolio import Portfolio
from rearview.estimators.detect.portfolio.ranks import LEAST_ROWS, TAIL, THINNER, USUAL_BURSTS, Ranks, usual_quantile

UNIFORM = np.linspace(1, 2, 1_001)


def learn(*scored: np.ndarray, count: int | None = None, averaged: int = 1, usual_scale: float = 1.0) -> Ranks:
    series = np.arange(len(scored))
    return Ranks.learn(scored, series, count or len(scored), averaged=averaged, usual_scale=usual_scale)


def panel_of(*lengths: int) -> Panel:
    """Rows of nothing, so many for each series."""
    arrays = {part: np.zeros((sum(lengths), 1)) for part in ("train", "test", "test_label")}
    whole = from_arrays(arrays, Path("rows")).test
    return replace(whole, offsets=np.concatenate([[0], np.cumsum(lengths)]), ids=tuple(map(str, range(len(lengths)))))


def rank(ranks: Ranks, *scores: float, place: int | None = 0) -> list[float]:
    return ranks.rank(np.array(scores, dtype=float), panel_of(len(scores)), [place]).tolist()


def test_ranks_are_shares_of_held_out_rows() -> None:
    ranks = learn(UNIFORM)
    wanted = [0.0, -np.log(0.75), -np.log(0.5), -np.log(0.1), -np.log(TAIL)]
    assert rank(ranks, 0.5, 1.25, 1.5, 1.9, 1.95) == pytest.approx(wanted, abs=1e-3)


def test_an_exponential_tail_goes_on_with_its_own_scale() -> None:
    held = np.random.default_rng(0).exponential(0.5, 400_000)
    ranks = learn(held)
    assert ranks.scale == pytest.approx(0.5, rel=0.02)
    assert rank(ranks, 5.0, 10.0) == pytest.approx([10, 20], rel=0.02)  # -log of exp(-s / 0.5)
    unmoved = learn(np.append(held, np.full(6_000, 1e3)))
    assert unmoved.scale < 2 * ranks.scale  # 1.5 % of the rows are anomalies; the mean excess would be 300


def test_the_usual_scale_counts_for_more_the_fewer_bursts_there_are() -> None:
    excess = np.median(UNIFORM[UNIFORM > 1.95] - 1.95) / np.log(2)
    assert learn(UNIFORM, averaged=10).scale == pytest.approx(
        (5 * excess + USUAL_BURSTS) / (5 + USUAL_BURSTS), rel=1e-2
    )
    assert learn(UNIFORM, averaged=10_000).scale == pytest.approx(1, rel=1e-2)
    assert learn(np.ones(500), usual_scale=0.3).scale == 0.3  # nothing is beyond


def test_a_series_has_ranks_of_its_own_if_it_has_rows_for_them() -> None:
    few = UNIFORM[: LEAST_ROWS - 1] + 7
    ranks = learn(UNIFORM, 10 * UNIFORM, few, count=4)
    assert rank(ranks, 1.5, place=0) == pytest.approx([-np.log(0.5)])
    assert rank(ranks, 15, place=1) == pytest.approx([-np.log(0.5)])
    for place in (2, 3, None):
        np.testing.assert_array_equal(rank(ranks, 1.5, 15, place=place), rank(ranks, 1.5, 15, place=None))
    both = ranks.rank(np.array([1.5, 15]), panel_of(1, 1), [0, 1])
    assert both.tolist() == pytest.approx([-np.log(0.5)] * 2)


def test_what_has_no_score_has_no_rank_and_0_stays_0() -> None:
    assert np.isnan(rank(learn(UNIFORM), np.nan)[0])
    assert rank(learn(np.append(np.zeros(900), UNIFORM)), 0.0) == [0.0]
    empty = learn(np.full(3, np.nan))
    assert empty.scale == 1
    assert np.isfinite(rank(empty, 0.5)[0])


@pytest.fixture(scope="module")
def fitted() -> Detector:
    return Detector(lookback=24, device="cpu", label_col="label").fit(ordinary())


def without_ranks(portfolio: Portfolio) -> Portfolio:
    references = {name: replace(one, ranks=None) for name, one in portfolio.references.items()}
    return replace(portfolio, references=references, ranks=None)


def test_a_detector_saved_before_ranks_were_known_scores_as_it_did(
    fitted: Detector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe = storage._describe_portfolio

    def describe_earlier(portfolio: Portfolio) -> tuple[dict, dict]:
        facts, tensors = describe(portfolio)
        del facts["rank_scales"]
        return facts, {name: tensor for name, tensor in tensors.items() if not name.startswith("ranks.")}

    monkeypatch.setattr(storage, "_describe_portfolio", describe_earlier)
    fitted.save(tmp_path)
    portfolio = fitted.fitted
    assert isinstance(portfolio, Portfolio)
    panel, _ = fitted.read_new(broken())
    wanted = without_ranks(portfolio).scores(panel).rows
    assert not np.allclose(wanted, portfolio.scores(panel).rows)
    np.testing.assert_array_equal(Detector.load(tmp_path).detect(broken()).scores.rows, wanted)


def test_a_scale_that_is_no_scale_is_refused(fitted: Detector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    describe = storage._describe_portfolio

    def describe_wrongly(portfolio: Portfolio) -> tuple[dict, dict]:
        facts, tensors = describe(portfolio)
        return {**facts, "rank_scales": {**facts["rank_scales"], "shapes": 0.0}}, tensors

    monkeypatch.setattr(storage, "_describe_portfolio", describe_wrongly)
    fitted.save(tmp_path)
    with pytest.raises(InputError, match="scale of the ranks of shapes"):
        Detector.load(tmp_path)


def test_held_out_rows_of_every_series_have_the_same_ranks() -> None:
    """A machine whose ordinary errors scatter widely does not stand above one whose errors hardly move."""
    detector = Detector(lookback=24, device="cpu").fit(fleet(1_000))
    portfolio = detector.fitted
    assert isinstance(portfolio, Portfolio)
    np.testing.assert_allclose(portfolio.drift.ceilings, -np.log(0.25), rtol=0.02)


def test_a_file_that_judges_itself_has_no_ranks() -> None:
    portfolio = Detector(lookback=24, device="cpu", threshold="robust").fit(ordinary()).fitted
    assert isinstance(portfolio, Portfolio)
    assert portfolio.ranks is None
    assert all(one.ranks is None for one in portfolio.references.values())


def test_usual_quantiles_are_ranks_up_to_the_tail_and_thinner_beyond() -> None:
    assert usual_quantile(0.5) == pytest.approx(np.log(2))
    assert usual_quantile(1 - TAIL) == pytest.approx(-np.log(TAIL))
    assert usual_quantile(1 - TAIL / np.e) == pytest.approx(-np.log(TAIL) + THINNER)


def test_of_fresh_ordinary_rows_about_as_many_are_flagged_as_asked_for() -> None:
    """0.5 % are: with the quantile of 400 held-out rows as it is it would be 2.5 %."""
    flagged = []
    for seed in range(6):
        rows = ordinary(4_000, seed)[["date", "noise"]]
        detector = Detector(device="cpu").fit(rows[:2_000])
        flagged.append(detector.detect(rows[2_000:]).flags.mean())
    assert np.mean(flagged) < 0.01
