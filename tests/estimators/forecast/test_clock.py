"""Forecasts in a time zone follow the clock on the wall over its changes, by every kind of model."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from samples import forecaster

from rearview import Forecaster
from rearview.data.panel_reader import load
from rearview.data.wall_clock import follow_clock
from rearview.data.windows import final_windows
from rearview.estimators.clock_view import ClockView
from rearview.estimators.forecast.backtest import backtest
from rearview.estimators.forecast.predictor import Forecasts

BERLIN = "Europe/Berlin"
SPRING, AUTUMN = pd.Timestamp("2024-03-31", tz=BERLIN), pd.Timestamp("2024-10-27", tz=BERLIN)
PROFILE = np.random.default_rng(5).normal(50, 9, 24)
"""A day of people, by the hour."""


def people(stamps: pd.DatetimeIndex) -> np.ndarray:
    return np.asarray(PROFILE[stamps.hour] + stamps.minute / 7)


def around(day: pd.Timestamp, minutes: int = 60, days: int = 12) -> pd.DataFrame:
    stamps = pd.date_range(day - pd.Timedelta(days=days), day + pd.Timedelta(days=4), freq=f"{minutes}min")
    return pd.DataFrame({"ds": stamps, "y": people(stamps)})


def naive(horizon: int, minutes: int = 60, **options: object) -> Forecaster:
    a_day = 24 * 60 // minutes
    return forecaster("seasonal_naive", horizon=horizon, lookback=None, season=a_day, training={}, **options)


@pytest.mark.parametrize("minutes", [60, 30])
@pytest.mark.parametrize("day", [SPRING, AUTUMN])
@pytest.mark.parametrize("horizon", [1, 3, 24, 31])
def test_a_daily_season_follows_the_clock(day: pd.Timestamp, horizon: int, minutes: int) -> None:
    frame = around(day, minutes)
    middle = int(np.searchsorted(frame["ds"], day))
    for cut in range(middle - 3, middle + 8):
        future = naive(horizon, minutes, intervals="none").fit(frame[:cut]).predict()
        expected = frame[cut : cut + horizon]
        assert future["ds"].tolist() == expected["ds"].tolist()
        # The hour that was skipped is not known on the day after.
        known = (expected["ds"].dt.hour != 2) | (day == AUTUMN) | (expected["ds"] < day + pd.Timedelta(days=1))
        np.testing.assert_allclose(future["y"][known.to_numpy()], expected["y"][known], rtol=1e-6)


@pytest.mark.parametrize("model", ["glance", "ridge", "theta"])
@pytest.mark.usefixtures("glance_weights")
def test_rows_of_a_zone_are_forecast_like_bare_stamps_of_the_wall(model: str) -> None:
    frame = around(SPRING)
    rng = np.random.default_rng(1)
    frame["y"] += rng.normal(size=len(frame))
    past = frame[: int(np.searchsorted(frame["ds"], SPRING)) + 30]
    bare = past.assign(ds=past["ds"].dt.tz_localize(None))
    futures = [Forecaster(model, horizon=13).fit(one).predict(level=[80]) for one in (past, bare)]
    assert futures[0]["ds"].dt.tz_localize(None).tolist() == futures[1]["ds"].tolist()
    np.testing.assert_array_equal(futures[0]["y"], futures[1]["y"])
    assert (futures[0]["y-lo-80"] < futures[0]["y"]).all()


@pytest.mark.parametrize("model", ["transformer", "patchtst"])
def test_without_a_change_of_clocks_nothing_is_otherwise_than_in_utc(model: str) -> None:
    frame = around(pd.Timestamp("2024-07-10", tz=BERLIN))
    same = frame.assign(ds=frame["ds"].dt.tz_convert("UTC"))
    futures = [forecaster(model).fit(one).predict() for one in (frame, same)]
    assert str(futures[0]["ds"].dt.tz) == BERLIN
    np.testing.assert_array_equal(futures[0].drop(columns="ds"), futures[1].drop(columns="ds"))


def test_a_saved_model_follows_the_clock_of_new_rows(tmp_path: Path) -> None:
    frame = around(SPRING)
    middle = int(np.searchsorted(frame["ds"], SPRING))
    winter = naive(24).fit(frame[: middle - 30])
    over = naive(24).fit(frame[: middle + 12])
    for number, model in enumerate((winter, over)):
        model.save(tmp_path / str(number))
        loaded = Forecaster.load(tmp_path / str(number))
        pd.testing.assert_frame_equal(loaded.predict(), model.predict())
        for rows in (frame[middle - 60 : middle - 5], frame[middle - 60 : middle + 12]):
            utc = rows.assign(ds=rows["ds"].dt.tz_convert("UTC"))
            for one in (rows, utc):
                future = loaded.predict(one)
                expected = people(pd.DatetimeIndex(future["ds"]).tz_convert(BERLIN))
                known = future["ds"].dt.tz_convert(BERLIN).dt.hour != 2
                np.testing.assert_allclose(future["y"][known], expected[known], rtol=1e-6)


@pytest.mark.parametrize("day", [SPRING, AUTUMN])
def test_a_backtest_over_a_change_of_clocks_has_the_stamps_that_were(day: pd.Timestamp) -> None:
    frame = around(day)
    back = naive(7).cross_validation(frame, n_windows=16)
    assert back["ds"].tolist() == frame["ds"][-16 * 7 :].tolist()
    known = (back["ds"].dt.hour != 2) | (day == AUTUMN)
    np.testing.assert_allclose(back["y"][known], back["y-y"][known], rtol=1e-6)


@pytest.mark.parametrize("day", [SPRING, AUTUMN])
def test_known_inputs_go_by_the_clock_with_their_rows(day: pd.Timestamp) -> None:
    frame = around(day, days=28)
    rng = np.random.default_rng(2)
    promo = dict(enumerate(rng.integers(0, 2, 24 * 366) * 1.0))
    frame["promo"] = [promo[24 * one.dayofyear + one.hour - 24] for one in frame["ds"]]
    frame["y"] += 40 * frame["promo"] + rng.normal(0, 0.1, len(frame))
    cut = int(np.searchsorted(frame["ds"], day)) - 3
    ahead = frame[cut : cut + 24]
    model = Forecaster("ridge", horizon=24, known=["promo"]).fit(frame[:cut])
    future = model.predict(future=ahead[["ds", "promo"]])
    assert np.abs(future["y"].to_numpy() - ahead["y"].to_numpy()).max() < 3


@pytest.mark.parametrize("day", [SPRING, AUTUMN])
def test_a_portfolio_follows_the_clock(day: pd.Timestamp) -> None:
    frame = around(day, days=28)
    frame["y"] += np.random.default_rng(4).normal(size=len(frame))
    cut = int(np.searchsorted(frame["ds"], day)) + 30
    model = Forecaster(horizon=24).fit(frame[:cut], quick=True)
    future, expected = model.predict(level=[80], members=True), frame[cut : cut + 24]
    assert np.abs(future["y"].to_numpy() - people(pd.DatetimeIndex(expected["ds"]))).mean() < 2
    assert (future["y-lo-80"] <= future["y-hi-80"]).all()
    assert future.notna().all().all()


def test_attention_is_labelled_by_the_clock() -> None:
    frame = around(SPRING)
    cut = int(np.searchsorted(frame["ds"], SPRING)) + 20
    maps = forecaster("transformer").fit(frame[:cut]).explain()
    starts = next(iter(maps.labels.values())).starts
    assert starts is not None
    assert str(starts.max())[:13] == str(frame["ds"][cut - 1])[:13].replace(" ", "T")


def counting(horizon: int) -> object:
    """A forecaster that counts steps from the number of observed rows; its interval is as wide as the forecast."""

    def predict(rows, which, inputs):
        count = (rows.offsets[1:] - rows.offsets[:-1])[which.series]
        mean = (count[:, None, None] + np.arange(horizon)).astype(float)
        if inputs is not None:
            assert inputs.shape[-1] == horizon
            mean = mean + 1000 * inputs[:, :1]
        return Forecasts(which.series, mean, {80.0: (mean - 1, mean + 1)}, (), (), {"one": mean})

    return predict


@pytest.mark.parametrize("horizon", [1, 2, 5, 24])
def test_steps_beyond_the_horizon_by_the_clock_go_on_from_the_first_ones(horizon: int) -> None:
    stamps = pd.date_range("2024-03-30 20:00", "2024-03-31 01:45", freq="15min", tz=BERLIN)
    panel = follow_clock(load(pd.DataFrame({"ds": stamps, "y": np.arange(24.0)})), horizon)
    view = ClockView.of(panel, horizon)
    known = np.arange(horizon)[None, None].astype(float)
    made = view.forecast(counting(horizon), final_windows(view.panel), horizon, known)
    places = 24 + 4 + np.arange(horizon)  # 02:00 to 02:45 are skipped
    np.testing.assert_array_equal(made.mean[0, 0], places + 1000 * np.arange(horizon))
    np.testing.assert_array_equal(made.members["one"], made.mean)
    np.testing.assert_array_equal(made.intervals[80.0][0], made.mean - 1)


def test_backtests_without_a_clock_read_rows_as_they_are() -> None:
    panel = load(around(SPRING))
    fitted = naive(24).fit(panel).fitted
    assert panel.clock is None
    test = backtest(panel, lambda rows, window: fitted, 24, n_windows=3)
    assert np.nanmax(np.abs(test.y - test.mean)) > 5
