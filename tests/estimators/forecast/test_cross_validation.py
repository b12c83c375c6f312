"""Backtests see nothing after their cutoff, go by date, and stand beside what happened."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from samples import HORIZON, as_kind, forecaster, long, numbers, to_pandas, wide

from rearview.core.errors import InputError, SettingsError
from rearview.data.panel_reader import load
from rearview.data.read_options import ReadOptions
from rearview.estimators.forecast.as_of import AsOf


def forecasts(frame: pd.DataFrame, cutoff: Any) -> np.ndarray:
    """What was said at a cutoff, without what happened."""
    said = frame[frame["cutoff"] == cutoff]
    names = [name for name in said.columns if name != "y" and not name.endswith("-y")]
    return numbers(said[names])


@pytest.fixture(scope="module")
def back() -> pd.DataFrame:
    return forecaster().cross_validation(wide(), n_windows=3)


def test_columns_and_cutoffs_of_a_wide_frame(back: pd.DataFrame) -> None:
    one = ["load", "load-lo-80", "load-hi-80", "load-lo-95", "load-hi-95", "load-y"]
    assert list(back.columns) == ["date", "cutoff", *one, *(name.replace("load", "wind") for name in one)]
    last = wide()["date"].max()
    expected = [last - pd.Timedelta(hours=HORIZON * back_) for back_ in (3, 2, 1)]
    assert back["cutoff"].unique().tolist() == expected
    assert (back["date"] > back["cutoff"]).all()
    assert len(back) == 3 * HORIZON


def test_the_actual_values_are_the_frame_s(back: pd.DataFrame) -> None:
    joined = back.merge(wide(), on="date", suffixes=("", "-real"))
    np.testing.assert_allclose(joined["load-y"], joined["load-real"], rtol=1e-6)
    np.testing.assert_allclose(joined["wind-y"], joined["wind-real"], rtol=1e-6)


def test_columns_of_a_long_frame() -> None:
    back = forecaster("dlinear").cross_validation(long(), n_windows=2, step_size=3, level=[80])
    assert list(back.columns) == ["unique_id", "ds", "cutoff", "y", "dlinear", "dlinear-lo-80", "dlinear-hi-80"]
    joined = back.merge(long(), on=["unique_id", "ds"], suffixes=("", "-real"))
    assert len(joined) == len(back) == 2 * 2 * HORIZON
    np.testing.assert_allclose(joined["y"], joined["y-real"], rtol=1e-6)
    gap = back["cutoff"].drop_duplicates().diff().iloc[1]
    assert gap == pd.Timedelta(hours=3)


def test_months_on_the_30th_are_cut_and_dated_on_the_30th_also_from_february_on() -> None:
    firsts = pd.date_range("2015-02-01", periods=121, freq="MS")
    stamps = pd.DatetimeIndex([one.replace(day=min(30, one.days_in_month)) for one in firsts])
    frame = pd.DataFrame({"when": stamps, "value": np.arange(121.0)})
    back = forecaster("dlinear", horizon=3).cross_validation(frame, n_windows=4)
    assert back["cutoff"].unique().tolist() == stamps[[108, 111, 114, 117]].tolist()
    assert back["when"].tolist() == stamps[109:].tolist()
    np.testing.assert_allclose(back["value-y"], np.arange(109.0, 121.0), rtol=1e-6)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_every_kind_of_frame_gives_the_same_backtest(kind: str) -> None:
    plain = forecaster("dlinear").cross_validation(long(), n_windows=1)
    found = forecaster("dlinear").cross_validation(as_kind(long(), kind), n_windows=1)
    assert np.array_equal(numbers(found), numbers(plain))
    assert list(to_pandas(found).columns) == list(plain.columns)


def test_cutoffs_go_by_date_in_series_that_end_at_other_times() -> None:
    frame = long({"whole": 160, "ended": 150})
    # One series ends twelve hours before the other: it has nothing to say at the last cutoffs.
    frame.loc[frame["unique_id"] == "ended", "ds"] -= pd.Timedelta(hours=12)
    back = forecaster("dlinear").cross_validation(frame, n_windows=3)
    by_cutoff = back.groupby("cutoff")["unique_id"].unique().map(sorted).tolist()
    assert by_cutoff == [["ended", "whole"], ["whole"], ["whole"]]
    part = back[(back["unique_id"] == "ended")]
    assert part["y"].notna().tolist() == [True, True, True, False, False]


POISONS = {"huge": 1e12, "missing": np.nan, "far below zero": -1e9}


@pytest.mark.parametrize(
    ("model", "asked", "poison"),
    [
        ("patchtst", {}, "huge"),
        ("patchtst", {}, "missing"),
        ("patchtst", {}, "far below zero"),
        ("itransformer", {"intervals": "quantile"}, "huge"),
        ("dlinear", {"transform": "log1p"}, "huge"),
        ("dlinear", {"transform": "log1p"}, "far below zero"),
        ("dlinear", {"fill": "mean"}, "huge"),
        ("dlinear", {"fill": "linear"}, "huge"),
        ("seasonal_naive", {}, "huge"),
    ],
)
def test_nothing_after_the_cutoff_is_seen(model: str, asked: dict[str, Any], poison: str) -> None:
    frame = wide(110)
    cutoff = frame["date"].iloc[-1 - HORIZON]
    hour = pd.Timedelta(hours=1)
    # A gap that ends after the cutoff, one in the middle, and a sentinel: each is found and filled by what is around.
    frame.loc[frame["date"].between(cutoff - 2 * hour, cutoff + hour), "load"] = np.nan
    frame.loc[30:33, "load"] = np.nan
    frame.loc[50, "load"] = -999.0
    poisoned = frame.assign(load=np.where(frame["date"] > cutoff, POISONS[poison], frame["load"]))
    plain, found = (forecaster(model, **asked).cross_validation(one, n_windows=1) for one in (frame, poisoned))
    assert np.isfinite(forecasts(plain, cutoff)).all()
    assert np.array_equal(forecasts(plain, cutoff), forecasts(found, cutoff))


def test_a_series_that_begins_late_is_scaled_by_what_was_known() -> None:
    frame = long({"old": 160, "new": 12})
    cutoff = frame["ds"].max() - pd.Timedelta(hours=HORIZON)
    louder = frame.assign(y=np.where((frame["unique_id"] == "new") & (frame["ds"] > cutoff), 1e9, frame["y"]))
    results = [forecaster("dlinear").cross_validation(one, n_windows=3) for one in (frame, louder)]
    for name in ("old", "new"):
        parts = [forecasts(one[one["unique_id"] == name], cutoff) for one in results]
        assert len(parts[0]) == HORIZON
        assert np.array_equal(*parts)


def test_a_series_without_a_value_up_to_a_cutoff_is_not_forecast_from_there() -> None:
    frame = long()
    first = frame["ds"].max() - pd.Timedelta(hours=HORIZON)
    late = frame.assign(y=frame["y"].where((frame["unique_id"] == "north") | (frame["ds"] > first)))
    model = forecaster("dlinear")
    back = model.cross_validation(late, n_windows=1)
    assert back["unique_id"].unique().tolist() == ["north"]
    result = model.backtest(load(late), n_windows=1)
    assert np.isfinite(result.y[0, 1]).all()
    assert np.isnan(result.mean[0, 1]).all()
    scores = result.scores()
    low, high = (bound[0, 0] for bound in result.intervals[95.0])
    assert scores.mae == pytest.approx(np.abs(result.y[0, 0] - result.mean[0, 0]).mean())
    assert scores.coverage[95.0] == pytest.approx(((result.y[0, 0] >= low) & (result.y[0, 0] <= high)).mean())


def test_a_cutoff_before_the_first_value_is_refused_with_the_way_out() -> None:
    frame = wide(columns=("load",))
    late = frame.assign(load=frame["load"].where(frame.index >= 157))
    with pytest.raises(InputError, match=r"no value of 'load' was observed up to .*ask for fewer windows"):
        forecaster("dlinear").cross_validation(late, n_windows=1)


def test_what_fit_saw_before_does_not_matter(back: pd.DataFrame) -> None:
    model = forecaster().fit(wide().assign(load=lambda frame: frame["load"] * 100))
    assert model.cross_validation(wide(), n_windows=3).equals(back)


def test_one_window_equals_fitting_on_the_rows_before_it(back: pd.DataFrame) -> None:
    cutoff = back["cutoff"].min()
    before = wide()[wide()["date"] <= cutoff]
    future = forecaster().fit(before).predict()
    assert np.array_equal(numbers(future), forecasts(back, cutoff))


def test_refit_trains_at_every_cutoff(back: pd.DataFrame) -> None:
    again = forecaster().cross_validation(wide(), n_windows=3, refit=True)
    cutoffs = back["cutoff"].unique()
    assert np.array_equal(forecasts(again, cutoffs[0]), forecasts(back, cutoffs[0]))
    for cutoff in cutoffs[1:]:
        before = wide()[wide()["date"] <= cutoff]
        assert np.array_equal(numbers(forecaster().fit(before).predict()), forecasts(again, cutoff))
        assert not np.array_equal(forecasts(again, cutoff), forecasts(back, cutoff))


def test_windows_that_leave_too_few_rows_are_refused_with_their_number() -> None:
    said = r"is not long enough: .* there are 20; .* after 4 windows were set aside of 5 steps each; lower n_windows"
    with pytest.raises(InputError, match=said):
        forecaster().cross_validation(wide(40), n_windows=4)


def test_too_many_windows_are_refused() -> None:
    with pytest.raises(
        InputError, match="50 backtest windows of 5 steps, 5 apart, need 251 rows, but the data has 160"
    ):
        forecaster().cross_validation(wide(), n_windows=50)
    with pytest.raises(InputError, match="is not long enough"):
        forecaster().cross_validation(wide(), n_windows=28)
    for name, asked in (("n_windows", {"n_windows": 0}), ("step_size", {"step_size": 0})):
        with pytest.raises(SettingsError, match=f"{name} is 0"):
            forecaster().cross_validation(wide(), **asked)


def test_scores_against_loops() -> None:
    panel = load(long())
    result = forecaster("dlinear").backtest(panel, 3)
    scores = result.scores()
    error = result.y - result.mean
    assert scores.mae == pytest.approx(np.abs(error).mean())
    assert scores.mse == pytest.approx(np.square(error).mean())
    parts = []
    for s, (a, b) in enumerate(panel.bounds()):
        history = panel.original(slice(a, b), s)[: -3 * HORIZON, 0]
        scale = np.abs(history[24:] - history[:-24]).mean()
        parts.append(np.abs(error[:, s]).mean() / scale)
    assert scores.mase == pytest.approx(np.mean(parts))
    low, high = result.intervals[80.0]
    assert scores.coverage[80.0] == pytest.approx(((result.y >= low) & (result.y <= high)).mean())
    mae, mse = result.by_step()
    np.testing.assert_allclose(mae, np.abs(error).mean(axis=(0, 1)))
    np.testing.assert_allclose(mse, np.square(error).mean(axis=(0, 1)))


def test_what_happened_is_reported_as_it_came_and_rounding_is_no_miss(tmp_path: Any) -> None:
    """Of values that repeat exactly the seasonal naive forecast is right, and float32 must not say otherwise."""
    days = pd.date_range("2024-01-01", periods=120, freq="D")
    values = np.tile([100.1, 107.8, 109.7, 92.2, 90.3, 95.6, 99.9], 18)[:120]
    frame = pd.DataFrame({"date": days, "sales": values, "clock": 1e9 + np.arange(120) % 7 / 10})
    frame.loc[0, "sales"] = 3e5 + 0.1  # what float32 rounds off rests on how far values lie apart
    frame.to_csv(tmp_path / "sales.csv", index=False)
    model = forecaster("seasonal_naive", horizon=7, lookback=14, season=7)
    for source in (frame, tmp_path / "sales.csv"):
        back = to_pandas(model.cross_validation(source, 2))
        np.testing.assert_array_equal(back["sales-y"], values[-14:])
        np.testing.assert_array_equal(back["clock-y"], frame["clock"][-14:])
        panel = model.read(source)
        result = model.backtest(panel, 2, known_at=AsOf.of(source, panel, ReadOptions()))
        assert not np.array_equal(result.y, result.mean)
        assert result.scores().coverage == {80.0: 1.0, 95.0: 1.0}
        assert (result.rounding < 0.02).all()
