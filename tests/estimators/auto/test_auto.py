"""A portfolio fits, weighs, forecasts, is saved, uses known inputs, and says what it left out."""

import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rearview import Forecaster
from rearview.core.errors import InputError, SettingsError
from rearview.data.panel import Panel
from rearview.estimators.auto import fit as portfolio
from rearview.estimators.auto.ensemble import Ensemble
from rearview.estimators.auto.portfolio import Candidate, choose_lookback
from rearview.estimators.auto.schedule import Options
from rearview.estimators.auto.statistical import Statistical
from rearview.estimators.auto.weights import combine_backtests, measure_losses
from rearview.estimators.base import Session
from rearview.estimators.forecast.prediction import Fitted
from rearview.estimators.forecast.spec import ForecastSpec
from rearview.tasks import statistical_models

HORIZON = 6


def monthly(rows: int = 84, columns: int = 1) -> pd.DataFrame:
    steps, rng = np.arange(rows), np.random.default_rng(0)
    data = {
        f"c{c}": 100 + steps + (10 + c) * np.sin(2 * np.pi * (steps + c) / 12) + rng.normal(0, 1, rows)
        for c in range(columns)
    }
    return pd.DataFrame({"month": pd.date_range("2015-01-01", periods=rows, freq="MS"), **data})


def shops(count: int = 4, rows: int = 60) -> pd.DataFrame:
    parts = [monthly(rows + 6 * n).assign(shop=f"s{n}").rename(columns={"c0": "y"}) for n in range(count)]
    return pd.concat(parts).rename(columns={"shop": "unique_id", "month": "ds"})


def quick(frame: pd.DataFrame, **options: object) -> Forecaster:
    return Forecaster(horizon=HORIZON, **options).fit(frame, quick=True)


@pytest.fixture
def _few_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two statistical members, where networks are what a test is about."""
    monkeypatch.setattr(statistical_models, "NAMES", ("seasonal_naive", "theta"))


def test_auto_is_the_default_and_beats_the_naive_forecast() -> None:
    frame = monthly()
    forecaster = quick(frame[:-HORIZON])
    assert isinstance(forecaster.fitted, Ensemble)
    assert forecaster.name == "auto"
    made = forecaster.predict(level=[80])
    truth = frame["c0"].to_numpy()[-HORIZON:]
    naive = frame["c0"].to_numpy()[-HORIZON - 12 : -12]
    assert np.abs(made["c0"] - truth).mean() < 0.5 * np.abs(naive - truth).mean()
    assert (made["c0-lo-80"] < made["c0"]).all()
    assert (made["c0"] < made["c0-hi-80"]).all()


def test_naming_anything_of_a_network_gives_a_network() -> None:
    assert Forecaster(horizon=3).spec.is_portfolio
    assert Forecaster(model="auto", horizon=3).spec.is_portfolio
    for asked in ({"model": "patchtst"}, {"attention": "rbca"}, {"training": {"epochs": 1}}, {"intervals": "quantile"}):
        assert not Forecaster(horizon=3, **asked).spec.is_portfolio


@pytest.mark.parametrize("model", ["ets", "theta", "mstl", "ridge"])
def test_a_member_alone_is_fitted_under_its_name_and_saved(model: str, tmp_path: Path) -> None:
    forecaster = Forecaster(model=model, horizon=HORIZON).fit(monthly())
    assert forecaster.name == model
    assert list(forecaster.leaderboard()["model"]) == [model]
    forecaster.save(tmp_path / "model")
    loaded = Forecaster.load(tmp_path / "model")
    assert loaded.name == model
    pd.testing.assert_frame_equal(loaded.predict(), forecaster.predict())


def test_what_only_networks_have_is_refused_of_a_member() -> None:
    with pytest.raises(SettingsError, match="ets is no network"):
        Forecaster(model="ets", horizon=3, attention="rbca")


def test_the_leaderboard_names_every_candidate_with_weights_that_sum_to_one() -> None:
    board = quick(monthly()).leaderboard()
    assert {"seasonal_naive", "theta", "mstl", "ets", "ridge", "glance"} == set(board["model"])
    assert board["weight"].sum() == pytest.approx(1)
    assert board["weight"].is_monotonic_decreasing
    naive = board.set_index("model").loc["seasonal_naive"]
    assert naive["mase"] > board["mase"].min()


def test_a_network_alone_has_no_leaderboard() -> None:
    alone = Forecaster(model="seasonal_naive", horizon=3).fit(monthly())
    with pytest.raises(SettingsError, match="one model"):
        alone.leaderboard()


@pytest.mark.parametrize("frame", [monthly(), monthly(72, 3), shops()], ids=["one", "wide", "long"])
def test_a_saved_portfolio_says_the_same_again(frame: pd.DataFrame, tmp_path: Path) -> None:
    forecaster = quick(frame, nonnegative=True)
    forecaster.save(tmp_path / "model")
    loaded = Forecaster.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(), forecaster.predict())
    pd.testing.assert_frame_equal(loaded.leaderboard(), forecaster.leaderboard())
    fewer = frame.groupby("unique_id").head(50) if "unique_id" in frame else frame.head(50)
    pd.testing.assert_frame_equal(loaded.predict(fewer), forecaster.predict(fewer))


@pytest.mark.usefixtures("glance_weights", "_few_members")
def test_networks_join_the_portfolio_are_saved_and_explained(tmp_path: Path) -> None:
    forecaster = Forecaster(horizon=HORIZON).fit(monthly(columns=2), time_limit=300)
    board = forecaster.leaderboard().set_index("model")
    assert {"patchtst", "itransformer"} <= set(board.index)
    assert np.isfinite(board.loc["patchtst", "mase"])
    fitted = forecaster.fitted
    assert isinstance(fitted, Ensemble)
    if any(isinstance(member, Fitted) for member in fitted.members):
        assert forecaster.explain()
    forecaster.save(tmp_path / "model")
    pd.testing.assert_frame_equal(Forecaster.load(tmp_path / "model").predict(), forecaster.predict())


def test_a_portfolio_without_networks_has_nothing_to_look_at() -> None:
    with pytest.raises(SettingsError, match="no network to look at"):
        quick(monthly(), model="ets").explain()


def test_known_inputs_are_found_and_used() -> None:
    rng, rows = np.random.default_rng(0), 200
    promotion = (rng.random(rows + HORIZON) < 0.2).astype(float)
    days = pd.date_range("2024-01-01", periods=rows + HORIZON)
    level = 100 + 10 * np.sin(2 * np.pi * np.arange(rows + HORIZON) / 7)
    sales = level * (1 + 0.8 * promotion) + rng.normal(0, 1, rows + HORIZON)
    frame = pd.DataFrame({"day": days, "sales": sales, "promotion": promotion})
    past, future = frame[:rows], frame[rows:][["day", "promotion"]].assign(promotion=[0.0, 1, 0, 1, 0, 0])
    truth = level[rows:] * (1 + 0.8 * future["promotion"].to_numpy())
    forecaster = quick(past, known=["promotion"])
    made = forecaster.predict(future=future)["sales"].to_numpy()
    assert np.abs(made - truth).mean() < 4
    without = quick(past[["day", "sales"]]).predict()["sales"].to_numpy()
    assert np.abs(made - truth).mean() < 0.3 * np.abs(without - truth).mean()


def test_what_inputs_do_not_explain_is_left_alone() -> None:
    rng = np.random.default_rng(5)
    frame = monthly(96).assign(noise=rng.normal(size=96))
    future = pd.DataFrame({"month": pd.date_range("2023-01-01", periods=HORIZON, freq="MS"), "noise": 50.0})
    made = quick(frame, known=["noise"]).predict(future=future)["c0"].to_numpy()
    plain = quick(frame[["month", "c0"]]).predict()["c0"].to_numpy()
    np.testing.assert_allclose(made, plain, rtol=0.02)


@pytest.mark.parametrize("rows", [3, 5, 8, 15])
def test_a_few_rows_are_enough(rows: int) -> None:
    made = quick(monthly(rows)).predict()
    assert np.isfinite(made["c0"]).all()


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(InputError, match="needs 3 rows, but there are 2"):
        quick(monthly(2), freq="MS")
    with pytest.raises(InputError, match="lookback 500"):
        quick(monthly(), lookback=500)


def test_a_candidate_that_fails_is_named_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no such luck")

    listed = portfolio.list_candidates
    broken = Candidate("broken", "a candidate that fails", fail)
    monkeypatch.setattr(portfolio, "list_candidates", lambda *a, **k: [*listed(*a, **k), broken])
    board = quick(monthly()).leaderboard().set_index("model")
    assert board.loc["broken", "weight"] == 0
    assert "no such luck" in board.loc["broken", "note"]


def test_many_columns_are_weighed_by_some_of_them_where_there_is_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "MOST_BACKTESTED", 2)
    monkeypatch.setattr(portfolio, "FOR_OWN_WEIGHTS", 0.0)
    monkeypatch.setattr(statistical_models, "NAMES", ("seasonal_naive",))
    frame = monthly(columns=5)
    panel = Forecaster(horizon=HORIZON).read_to_fit(frame)
    made = portfolio.fit(panel, Forecaster(horizon=HORIZON).spec, Options(quick=True))
    assert made.backtest is not None
    assert made.backtest.names == ("c0", "c3")
    assert "The weights rest on 2 of 5 columns." in made.ensemble.notes
    assert list(quick(frame).predict(level=[])) == ["month", *(f"c{c}" for c in range(5))]


def test_what_takes_longer_than_there_is_time_for_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"theta": 3.0, "ets": 1e5}  # of one process for the columns of the sample
    monkeypatch.setattr(portfolio.Contest, "_estimate", lambda _, candidate: seconds.get(candidate.name, 0.0))
    monkeypatch.setattr(portfolio, "MOST_BACKTESTED", 1)
    monkeypatch.setattr(statistical_models, "NAMES", ("seasonal_naive", "theta", "ets"))
    panel = Forecaster(horizon=HORIZON).read_to_fit(monthly(columns=5))
    # Two windows of one column are backtested, then five columns are forecast.
    made = portfolio.fit(panel, Forecaster(horizon=HORIZON).spec, Options(time_limit=1000, quick=True, windows=2))
    board = {one.name: one for one in made.ensemble.leaderboard}
    assert board["theta"].mase is not None
    assert board["ets"].mase is None
    needed = portfolio._share_work(2e5) + portfolio._share_work(5e5)
    assert board["ets"].note == f"about {needed:.0f} s, more than there is time for"


def test_a_backtest_that_took_far_longer_than_it_should_have_leaves_its_model_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = portfolio.Contest._revise_time

    def slow(contest: portfolio.Contest, attempt: portfolio._Attempt, seconds: float) -> None:
        plain(contest, attempt, 1e4 if attempt.candidate.name == "theta" else seconds)

    monkeypatch.setattr(portfolio.Contest, "_revise_time", slow)
    monkeypatch.setattr(portfolio, "MOST_BACKTESTED", 1)
    monkeypatch.setattr(statistical_models, "NAMES", ("seasonal_naive", "theta"))
    panel = Forecaster(horizon=HORIZON).read_to_fit(monthly(columns=5))
    spec = Forecaster(horizon=HORIZON).spec
    made = portfolio.fit(panel, spec, Options(time_limit=100_000, quick=True, windows=2))
    assert {one.name: one for one in made.ensemble.leaderboard}["theta"].mase is not None
    made = portfolio.fit(panel, spec, Options(time_limit=1000, quick=True, windows=2))
    board = {one.name: one for one in made.ensemble.leaderboard}
    needed = portfolio._share_work(1e4 / 2 * 5)
    assert board["theta"].note == f"about {needed:.0f} s for all variables, more than there is time for"


def test_glance_is_kept_where_it_has_time_for_some_of_many_series(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, took = portfolio.Contest._revise_time, 0.0

    def slow(contest: portfolio.Contest, attempt: portfolio._Attempt, seconds: float) -> None:
        plain(contest, attempt, took if attempt.candidate.name == "glance" else seconds)

    monkeypatch.setattr(portfolio.Contest, "_revise_time", slow)
    monkeypatch.setattr(portfolio, "MOST_BACKTESTED", 1)
    monkeypatch.setattr(portfolio, "MANY", 3)
    monkeypatch.setattr(statistical_models, "NAMES", ("seasonal_naive", "theta"))
    panel = Forecaster(horizon=HORIZON).read_to_fit(shops())

    def fit() -> dict[str, str]:
        options = Options(time_limit=1000, quick=True, windows=2)
        made = portfolio.fit(panel, Forecaster(horizon=HORIZON).spec, options)
        return {one.name: one.note for one in made.ensemble.leaderboard}

    took = 1e3  # for two windows of one series: a forecast of all four takes 2,000 s
    assert fit() == {"seasonal_naive": "", "glance": "", "ridge": "", "theta": "no time left"}
    took = 1e5
    assert fit()["glance"] == "about 200000 s for all variables, more than there is time for"


@pytest.mark.parametrize(
    ("rows", "seasons", "expected"),
    [(36, (12,), 20), (126, (12,), 24), (130, (52,), 52), (200, (52,), 104), (20, (), 9), (2900, (24, 720), 1024)],
)
def test_networks_read_one_or_two_seasons_of_the_rows_they_are_fitted_to(
    rows: int, seasons: tuple[int, ...], expected: int
) -> None:
    asked = Forecaster(horizon=HORIZON)
    panel = asked.read_to_fit(monthly(rows))
    assert choose_lookback(panel, asked.spec, seasons) == expected
    assert choose_lookback(panel, Forecaster(horizon=HORIZON, lookback=7).spec, seasons) == 7


def test_no_time_means_no_networks() -> None:
    panel = Forecaster(horizon=HORIZON).read_to_fit(monthly())
    made = portfolio.fit(panel, Forecaster(horizon=HORIZON).spec, Options(time_limit=1e-3))
    notes = {one.name: one.note for one in made.ensemble.leaderboard}
    assert notes["patchtst"] == "no time left"
    assert made.ensemble.members


def test_what_is_slow_is_not_begun_when_little_time_is_left() -> None:
    panel = Forecaster(horizon=HORIZON).read_to_fit(monthly())
    made = portfolio.fit(panel, Forecaster(horizon=HORIZON).spec, Options(time_limit=1e-3, quick=True))
    board = {one.name: one for one in made.ensemble.leaderboard}
    assert {name for name, one in board.items() if one.mase is not None} == {"seasonal_naive", "glance"}
    assert board["ets"].note == board["theta"].note == board["ridge"].note == "no time left"


def test_a_network_there_is_no_time_for_on_all_rows_has_no_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = Forecaster(horizon=HORIZON).spec
    options = Options(time_limit=1000, started=time.monotonic() - 960)

    def take_long(rows: Panel, session: Session) -> Statistical:
        assert session.seconds is not None  # fitted for the backtest, in time
        object.__setattr__(options, "started", options.started - 60)
        return Statistical.of("seasonal_naive", rows, spec, (12,))

    listed = portfolio.list_candidates
    slow = Candidate("ets", "a network that takes long", take_long, trains=True)
    monkeypatch.setattr(portfolio, "list_candidates", lambda *a, **k: [listed(*a, **k)[0], slow])
    made = portfolio.fit(Forecaster(horizon=HORIZON).read_to_fit(monthly()), spec, options)
    board = {one.name: one for one in made.ensemble.leaderboard}
    assert board["ets"].mase is not None
    assert board["ets"].note == "no time left for all rows"
    assert board["seasonal_naive"].weight == 1


def test_ctrl_c_keeps_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    listed = portfolio.list_candidates
    last = Candidate("last", "a candidate that is interrupted", interrupt)
    monkeypatch.setattr(portfolio, "list_candidates", lambda *a, **k: [*listed(*a, **k), last])
    forecaster = quick(monthly())
    assert forecaster.fitted.interrupted
    assert np.isfinite(forecaster.predict()["c0"]).all()
    monkeypatch.setattr(portfolio, "list_candidates", lambda *a, **k: [last])
    with pytest.raises(KeyboardInterrupt):
        quick(monthly())


def test_ctrl_c_before_any_backtest_gives_the_cheapest_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(portfolio, "backtest", interrupt)
    forecaster = quick(monthly())
    board = forecaster.leaderboard().set_index("model")
    assert forecaster.fitted.interrupted
    assert board.loc["seasonal_naive", "weight"] == 1
    assert set(board.drop("seasonal_naive")["note"]) == {"interrupted"}
    assert any("Interrupted before a backtest" in note for note in forecaster.fitted.notes)
    assert np.isfinite(forecaster.predict()["c0"]).all()


def test_ctrl_c_while_a_network_trains_ends_the_others_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(rows: Panel, session: Session) -> Statistical:
        naive = Statistical.of("seasonal_naive", rows, Forecaster(horizon=HORIZON).spec, (12,))
        return replace(naive, interrupted=True)

    def fail(*_: object) -> None:
        raise AssertionError("was tried all the same")

    listed = portfolio.list_candidates
    others = [Candidate("stopped", "a network that is interrupted", stop, trains=True), Candidate("last", "", fail)]
    monkeypatch.setattr(portfolio, "list_candidates", lambda *a, **k: [*listed(*a, **k), *others])
    forecaster = quick(monthly())
    board = forecaster.leaderboard().set_index("model")
    assert forecaster.fitted.interrupted
    assert board.loc["stopped", "note"] == board.loc["last", "note"] == "interrupted"
    assert np.isfinite(forecaster.predict()["c0"]).all()


def test_the_error_of_the_ensemble_is_measured_on_windows_that_did_not_choose_its_weights() -> None:
    panel = Forecaster(horizon=HORIZON).read_to_fit(monthly())
    spec = Forecaster(horizon=HORIZON).spec
    made = portfolio.fit(panel, spec, Options(quick=True))
    assert made.backtest is not None
    losses, prior = measure_losses(list(made.members.values())), np.ones(len(made.members))
    honest = combine_backtests(list(made.members.values()), losses, prior)
    # However a window turns out, its own forecast must not change: spoil what happened in it.
    spoiled = losses.copy()
    spoiled[0, 2] *= 100
    again = combine_backtests(list(made.members.values()), spoiled, prior)
    np.testing.assert_array_equal(again.mean[2], honest.mean[2])
    assert not np.array_equal(again.mean[1], honest.mean[1])


def test_last_rows_unlike_the_backtest_are_warned_of() -> None:
    frame = monthly(96)
    frame.loc[90:, "c0"] += 400
    assert any("change far more" in note for note in quick(frame).fitted.notes)
    assert not any("change far more" in note for note in quick(monthly(96)).fitted.notes)


@pytest.mark.usefixtures("glance_weights", "_few_members")
def test_intervals_that_fail_in_the_last_window_alone_are_warned_of() -> None:
    frame = monthly(120)
    calm = " ".join(quick(frame).fitted.notes)
    frame.loc[120 - HORIZON :, "c0"] += 60.0
    [note] = [one for one in quick(frame).fitted.notes if "in the backtest windows before the last" in one]
    assert "in that: the recent past is unlike what came before" in note
    assert "unlike what came before" not in calm


@pytest.mark.parametrize("frame", [monthly(72, 2), shops()], ids=["wide", "long"])
def test_members_stand_beside_the_forecast_on_request(frame: pd.DataFrame) -> None:
    forecaster = quick(frame)
    made, plain = forecaster.predict(members=True), forecaster.predict()
    pd.testing.assert_frame_equal(made[plain.columns], plain)
    board = forecaster.leaderboard()
    members = [name for name, weight in zip(board["model"], board["weight"], strict=True) if weight > 0]
    assert len(members) > 1
    wide = "unique_id" not in frame
    beside = [f"{column}-{name}" for column in ("c0", "c1") for name in members] if wide else members
    assert [name for name in made.columns if name not in plain.columns] == beside
    points = made[[f"c0-{name}" for name in members] if wide else members].to_numpy()
    answer = made["c0" if wide else "auto"].to_numpy()
    assert (points.min(axis=1) <= answer + 1e-9).all()
    assert (answer <= points.max(axis=1) + 1e-9).all()


def test_a_member_alone_stands_in_its_column_once() -> None:
    forecaster = quick(monthly(), model="ets")
    assert list(forecaster.predict(members=True).columns) == list(forecaster.predict().columns)


def test_rows_that_one_member_does_not_read_are_no_note_of_the_forecast() -> None:
    noisy = 100 + 10 * np.sin(2 * np.pi * np.arange(400) / 7) + np.random.default_rng(0).normal(0, 5, 400)
    forecaster = quick(pd.DataFrame({"day": pd.date_range("2020-01-01", periods=400), "y": noisy}))
    forecasts, _ = forecaster.forecast(forecaster.tail)
    assert "glance_near" in forecasts.members
    assert not any("rows alone" in note for note in forecasts.notes)


def test_cross_validation_fits_the_portfolio_before_the_first_cutoff(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    made = Forecaster(horizon=3, model="auto").cross_validation(monthly(36), n_windows=2)
    assert len(made) == 6
    assert np.isfinite(made["c0"]).all()


def test_cross_validation_can_be_as_quick_as_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[bool, float]] = []
    fitted = portfolio.fit

    def fit(panel: Panel, spec: ForecastSpec, options: Options) -> Any:
        seen.append((options.quick, options.time_limit))
        return fitted(panel, spec, options)

    monkeypatch.setattr(portfolio, "fit", fit)
    Forecaster(horizon=3).cross_validation(monthly(36), n_windows=2, refit=True, quick=True, time_limit=30)
    assert seen == [(True, 30)] * 2


def test_series_that_ended_long_ago_are_backtested_from_their_own_end() -> None:
    parts = []
    for number in range(4):
        part = monthly(60 + 20 * number).rename(columns={"month": "ds", "c0": "y"})
        parts.append(part.assign(unique_id=f"s{number}", ds=part["ds"] + pd.DateOffset(years=5 * number)))
    forecaster = Forecaster(horizon=HORIZON)
    panel = forecaster.read_to_fit(pd.concat(parts))
    made = portfolio.fit(panel, forecaster.spec, Options(quick=True))
    assert made.backtest is not None
    assert np.isfinite(made.backtest.mean).all()
    ends = panel.stamps[panel.offsets[1:] - 1]
    assert (made.backtest.stamps[-1, :, -1] == ends).all()
    assert len({str(one) for one in made.backtest.cutoffs[0]}) == 4


def test_a_resumed_portfolio_takes_up_the_backtests_of_finished_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = monthly()
    first = Forecaster(horizon=HORIZON).fit(frame, quick=True, checkpoint=tmp_path)
    ran: list[str] = []

    def backtest(*arguments: object, **options: object) -> object:
        ran.append("again")
        raise AssertionError("a finished backtest was run again")

    monkeypatch.setattr(portfolio, "backtest", backtest)
    again = Forecaster(horizon=HORIZON).fit(frame, quick=True, checkpoint=tmp_path, resume=True)
    assert not ran
    pd.testing.assert_frame_equal(again.predict(), first.predict())
    with pytest.raises(AssertionError, match="run again"):  # other rows are another run
        Forecaster(horizon=HORIZON).fit(frame[:-1], quick=True, checkpoint=tmp_path, resume=True)


def test_a_damaged_backtest_of_a_member_is_made_again(tmp_path: Path) -> None:
    first = Forecaster(horizon=HORIZON).fit(monthly(), quick=True, checkpoint=tmp_path)
    for place, path in enumerate(sorted(tmp_path.glob("*.npz"))):
        content = path.read_bytes()
        path.write_bytes((b"", content[:100], content[:-50], content.replace(b"mean", b"meal"), b"x" * 99)[place % 5])
    again = Forecaster(horizon=HORIZON).fit(monthly(), quick=True, checkpoint=tmp_path, resume=True)
    pd.testing.assert_frame_equal(again.predict(), first.predict())


def test_the_plan_is_said_first_and_every_stage_names_what_is_left() -> None:
    said, stages = list[str](), list[tuple[str, tuple[str, ...]]]()
    forecaster = Forecaster(horizon=HORIZON)
    options = Options(quick=True, say=said.append, stage=lambda doing, left: stages.append((doing, tuple(left))))
    portfolio.fit(forecaster.read_to_fit(monthly()), forecaster.spec, options)
    assert said[0].startswith("Plan: seasonal_naive, glance, ridge, theta, mstl, ets (about ")
    assert stages[0] == ("backtest of seasonal_naive", ("glance", "ridge", "theta", "mstl", "ets", "fit to all rows"))
    assert stages[5] == ("backtest of ets", ("fit to all rows",))
    assert stages[-1][0].endswith("on all rows")


def test_more_backtest_windows_than_rows_are_refused_at_once() -> None:
    panel = Forecaster(horizon=HORIZON).read_to_fit(monthly())
    rows = int(panel.lengths.max())
    with pytest.raises(
        InputError, match=rf"backtest windows of {HORIZON} steps .* but there are {rows}; ask for fewer"
    ):
        portfolio.fit(panel, Forecaster(horizon=HORIZON).spec, Options(quick=True, windows=rows // HORIZON))
    with pytest.raises(SettingsError, match="horizon is 1,000,000,000; it can be 500,000 at most"):
        Forecaster(horizon=10**9)
