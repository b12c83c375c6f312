"""Panels larger than the sample that chooses their members: each series has weights of its own, where there is time."""

import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from rearview import Forecaster
from rearview.data.panel import Panel
from rearview.estimators.auto import fit as portfolio
from rearview.estimators.auto.fit import AutoFit, Contest
from rearview.estimators.auto.portfolio import Candidate
from rearview.estimators.auto.schedule import Options
from rearview.estimators.auto.statistical import Statistical
from rearview.estimators.base import Session
from rearview.estimators.forecast.backtest import Backtest
from rearview.estimators.forecast.predictor import Predictor

ROWS, HORIZON, COUNT = 120, 6, 7


def panel_of(layout: str) -> Panel:
    """Variables that repeat every twelve steps, and from the fifth on random walks."""
    steps, rng = np.arange(ROWS), np.random.default_rng(0)
    months = pd.date_range("2015-01-01", periods=ROWS, freq="MS")
    values = [
        2 * np.sin(2 * np.pi * (steps + n) / 12) + rng.normal(0, 1, ROWS) if n < 4 else rng.normal(0, 1, ROWS).cumsum()
        for n in range(COUNT)
    ]
    if layout == "wide":
        frame = pd.DataFrame({"ds": months, **{f"c{n}": one for n, one in enumerate(values)}})
    else:
        parts = [pd.DataFrame({"unique_id": f"s{n}", "ds": months, "y": one}) for n, one in enumerate(values)]
        frame = pd.concat(parts)
    return Forecaster(horizon=HORIZON).read_to_fit(frame)


def naive(name: str, seasons: tuple[int, ...], *, trains: bool = False) -> Candidate:
    """A stand-in that repeats the last season, or the last value."""

    def fit(rows: Panel, session: Session) -> Predictor:
        spec = replace(Forecaster(horizon=HORIZON).spec, season=12)
        return Statistical.of("seasonal_naive", rows, spec, seasons)

    return Candidate(name, name, fit, trains=trains)


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AutoFit]:
    """Fit two stand-ins to a panel of which two variables are a sample."""

    def fit(layout: str, *, trains: bool = False, third: bool = False) -> AutoFit:
        members = [naive("season", (12,)), naive("last", (), trains=trains)]
        members += [naive("third", ())] if third else []
        monkeypatch.setattr(portfolio, "list_candidates", lambda *a, **k: members)
        monkeypatch.setattr(portfolio, "MOST_BACKTESTED", 2)
        return portfolio.fit(panel_of(layout), Forecaster(horizon=HORIZON).spec, Options(windows=5))

    return fit


@pytest.mark.parametrize("layout", ["wide", "long"])
def test_variables_beyond_the_sample_are_weighed_by_their_own_losses(
    fitted: Callable[..., AutoFit], layout: str
) -> None:
    made = fitted(layout)
    assert made.backtest is not None
    assert len(made.backtest.names) == 2
    weights = made.ensemble.weights
    assert weights.shape == (COUNT, 2)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert weights[:4, 0].min() > weights[4:, 0].max()
    assert not any("rest on" in note for note in made.ensemble.notes)


@pytest.mark.parametrize("layout", ["wide", "long"])
def test_without_time_all_have_the_weights_of_the_sample(
    fitted: Callable[..., AutoFit], layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portfolio, "FOR_OWN_WEIGHTS", 0.0)
    ensemble = fitted(layout).ensemble
    np.testing.assert_allclose(ensemble.weights, np.tile(ensemble.common, (COUNT, 1)))
    assert f"The weights rest on 2 of {COUNT} {'columns' if layout == 'wide' else 'series'}." in ensemble.notes


def test_what_there_is_no_time_left_for_goes_by_the_losses_of_the_others(
    fitted: Callable[..., AutoFit], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    plain = Contest._test_again

    def slow(contest: Contest, attempt: portfolio._Attempt, rows: Panel) -> Backtest:
        clock[0] += 1e6
        return plain(contest, attempt, rows)

    monkeypatch.setattr(Contest, "_test_again", slow)
    monkeypatch.setattr(
        portfolio, "time", SimpleNamespace(monotonic=lambda: clock[0], process_time=time.process_time)
    )  # fmt: skip
    ensemble = fitted("long").ensemble
    # The sample has s0 and s4; one part of two others is backtested before the time shows that the rest takes too long.
    assert f"The weights rest on 4 of {COUNT} series." in ensemble.notes
    np.testing.assert_allclose(ensemble.weights[5], ensemble.weights[6])
    assert ensemble.weights[1, 0] > ensemble.weights[5, 0]


def test_a_network_is_judged_on_the_others_as_the_sample_trained_it(
    fitted: Callable[..., AutoFit], monkeypatch: pytest.MonkeyPatch
) -> None:
    fits: list[int] = []
    plain = Statistical.of

    def count(model: str, rows: Panel, spec: object, seasons: tuple[int, ...]) -> Statistical:
        if not seasons:
            fits.append(rows.series)
        return plain(model, rows, spec, seasons)  # type: ignore[arg-type]

    monkeypatch.setattr(Statistical, "of", count)
    weights = fitted("long", trains=True).ensemble.weights
    assert fits == [2, COUNT]  # the backtest of the sample, and the fit to all rows
    assert weights[:4, 0].min() > weights[4:, 0].max()


def test_a_network_that_reads_some_columns_is_not_backtested_on_others(fitted: Callable[..., AutoFit]) -> None:
    ensemble = fitted("wide", trains=True).ensemble
    np.testing.assert_allclose(ensemble.weights, np.tile(ensemble.common, (COUNT, 1)))
    assert f"The weights rest on 2 of {COUNT} columns." in ensemble.notes
    ensemble = fitted("wide", trains=True, third=True).ensemble
    assert ensemble.weights[:4, 0].min() > ensemble.weights[4:, 0].max()
    assert not any("rest on" in note for note in ensemble.notes)


def test_a_single_member_is_not_backtested_on_the_others(
    fitted: Callable[..., AutoFit], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portfolio, "choose_weights", lambda losses, prior: np.tile([1.0, 0.0], (losses.shape[2], 1)))
    monkeypatch.setattr(Contest, "_test_again", lambda *_: pytest.fail("there is nothing to compare it with"))
    assert fitted("long").ensemble.weights.tolist() == [[1.0]] * COUNT


def test_a_member_that_takes_too_long_has_the_losses_of_the_sample_alone(
    fitted: Callable[..., AutoFit], monkeypatch: pytest.MonkeyPatch
) -> None:
    tested: list[str] = []
    plain = Contest._test_again

    def note(contest: Contest, attempt: portfolio._Attempt, rows: Panel) -> Backtest:
        tested.append(attempt.candidate.name)
        return plain(contest, attempt, rows)

    def revise(contest: Contest, attempt: portfolio._Attempt, seconds: float) -> None:
        attempt.forecast_seconds = 50.0 if attempt.candidate.name == "third" else 0.0

    monkeypatch.setattr(Contest, "_test_again", note)
    monkeypatch.setattr(Contest, "_revise_time", revise)
    weights = fitted("long", third=True).ensemble.weights
    assert {*tested} == {"season", "last"}
    assert weights.shape == (COUNT, 3)
    assert weights[:4, 0].min() > weights[4:, 0].max()
