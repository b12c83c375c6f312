"""Forecasts come back in the kind, the layout, the units and the stamps of the data."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from samples import HORIZON, LOOKBACK, as_kind, forecaster, long, numbers, to_pandas, wave, wide

from rearview.core.errors import InputError, SettingsError
from rearview.estimators.forecast import prediction

KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}


def on_day(start: str, periods: int, *, months: int, day: int | None = None) -> pd.DatetimeIndex:
    """Stamps on one day of the month, that of `start` or another, or on the month's last day where it is shorter."""
    first = pd.Timestamp(start)
    whole = pd.date_range(first.replace(day=1), periods=periods, freq=f"{months}MS")
    days = [one.replace(day=min(day or first.day, one.days_in_month)) for one in whole]
    return pd.DatetimeIndex(days)


@pytest.fixture(scope="module")
def fitted() -> Any:
    return forecaster().fit(wide())


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_forecast_that_is_not_finite_is_refused(fitted: Any, wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    real = prediction.outputs

    def outputs(*given: Any) -> Any:
        yhat, scale = real(*given)
        yhat[0, 1, -1] = wrong
        return yhat, scale

    monkeypatch.setattr(prediction, "outputs", outputs)
    with pytest.raises(InputError, match="The forecast of 'wind' is not a finite number"):
        fitted.predict()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["wide", "long"])
def test_the_frame_comes_back_in_its_kind_and_layout(kind: str, form: str) -> None:
    frame = as_kind(wide() if form == "wide" else long(), kind)
    model = forecaster("dlinear").fit(frame)
    future = model.predict(level=[80, 95])
    assert type(future) is KINDS[kind]
    bounds = [f"-{side}-{level}" for level in (80, 95) for side in ("lo", "hi")]
    found = to_pandas(future)
    if form == "wide":
        expected = ["date", *(name + end for name in ("load", "wind") for end in ("", *bounds))]
        assert len(found) == HORIZON
    else:
        expected = ["unique_id", "ds", *("dlinear" + end for end in ("", *bounds))]
        assert found["unique_id"].tolist() == ["north"] * HORIZON + ["south"] * HORIZON
    assert list(found.columns) == expected
    time = "date" if form == "wide" else "ds"
    last = pd.Timestamp(to_pandas(frame)[time].max())
    assert found[time].tolist()[:HORIZON] == list(pd.date_range(last, periods=HORIZON + 1, freq="h")[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame_gives_the_same_numbers(kind: str, fitted: Any) -> None:
    again = fitted.predict(as_kind(wide(), kind))
    assert np.array_equal(numbers(again), numbers(fitted.predict()))


def test_forecasts_are_in_original_units() -> None:
    frame = wide(columns=("small", "large"))
    frame["large"] = 1e6 + 1e4 * (frame["large"] - 100)
    future = forecaster("dlinear", training={"epochs": 20}).fit(frame).predict(level=[80])
    for name in ("small", "large"):
        low, high = frame[name].min(), frame[name].max()
        spread = high - low
        for column in (name, f"{name}-lo-80", f"{name}-hi-80"):
            assert future[column].between(low - spread, high + spread).all()
    scaled = forecaster("dlinear", training={"epochs": 20}).fit(frame.assign(large=frame["large"] / 1000)).predict()
    np.testing.assert_allclose(scaled["large"] * 1000, future["large"], rtol=1e-6)


@pytest.mark.parametrize(
    ("stamps", "following"),
    [
        (pd.date_range("2015-01-31", periods=120, freq="ME"), ["2025-01-31", "2025-02-28", "2025-03-31"]),
        (pd.bdate_range("2024-01-01", periods=120), ["2024-06-17", "2024-06-18", "2024-06-19"]),
        (pd.date_range("2010-01-01", periods=120, freq="QS"), ["2040-01-01", "2040-04-01", "2040-07-01"]),
        (on_day("2015-03-30", 120, months=1), ["2025-03-30", "2025-04-30", "2025-05-30"]),
        (on_day("2015-03-29", 120, months=1), ["2025-03-29", "2025-04-29", "2025-05-29"]),
        (on_day("1995-05-30", 120, months=3), ["2025-05-30", "2025-08-30", "2025-11-30"]),
        (on_day("2016-02-28", 120, months=12), ["2136-02-28", "2137-02-28", "2138-02-28"]),
        (on_day("2016-02-29", 120, months=12), ["2136-02-29", "2137-02-28", "2138-02-28"]),
        (on_day("2015-02-28", 120, months=1, day=30), ["2025-02-28", "2025-03-30", "2025-04-30"]),
    ],
    ids=[
        "month ends",
        "business days",
        "quarters",
        "30th",
        "29th",
        "quarters on the 30th",
        "28 February",
        "leap days",
        "30th from February on",
    ],
)
def test_stamps_of_the_calendar(stamps: pd.DatetimeIndex, following: list[str]) -> None:
    frame = pd.DataFrame({"when": stamps, "value": wave(120)})
    future = forecaster("dlinear", horizon=3).fit(frame).predict()
    assert future["when"].tolist() == [pd.Timestamp(day) for day in following]


def test_stamps_keep_their_time_zone() -> None:
    stamps = pd.date_range("2024-03-24", periods=160, freq="h", tz="Europe/Berlin")  # over the change of clocks
    future = forecaster("dlinear").fit(pd.DataFrame({"date": stamps, "load": wave(160)})).predict()
    assert future["date"].tolist() == list(pd.date_range(stamps[-1], periods=HORIZON + 1, freq="h")[1:])
    assert str(future["date"].dt.tz) == "Europe/Berlin"


def test_integer_time_and_a_pandas_index() -> None:
    frame = pd.DataFrame({"t": np.arange(0, 480, 3), "y": wave(160)})
    assert forecaster("dlinear").fit(frame).predict()["t"].tolist() == [480, 483, 486, 489, 492]
    indexed = wide().set_index("date")
    future = forecaster("dlinear").fit(indexed).predict()
    assert future.index.name == "date"
    assert future.index[0] == indexed.index[-1] + pd.Timedelta(hours=1)
    assert list(future.columns)[:2] == ["load", "load-lo-80"]


def test_integer_ids_come_back_as_integers_and_join() -> None:
    frame = long({7: 160, 3: 130})
    model = forecaster("dlinear").fit(frame)
    future = model.predict()
    assert future["unique_id"].dtype == np.int64
    assert future["unique_id"].unique().tolist() == [7, 3]
    assert len(future.merge(frame[["unique_id"]].drop_duplicates(), on="unique_id")) == 2 * HORIZON
    back = model.cross_validation(frame, n_windows=2)
    assert back["unique_id"].dtype == np.int64
    polars = model.predict(pl.from_pandas(frame))
    assert polars["unique_id"].dtype == pl.Int64
    assert forecaster("dlinear").fit(frame.astype({"unique_id": str})).predict()["unique_id"].tolist()[0] == "7"
    keyed = model.predict(frame.set_index(["unique_id", "ds"])["y"])
    assert keyed["unique_id"].dtype == np.int64


def test_new_rows_without_fitting_again(fitted: Any) -> None:
    before = {name: tensor.clone() for name, tensor in fitted.fitted.network.state_dict().items()}
    same = fitted.predict(wide())
    assert same.equals(fitted.predict())
    later = pd.concat([wide(), wide(10, start="2024-03-07 16:00")], ignore_index=True)
    future = fitted.predict(later)
    assert future["date"].iloc[0] == later["date"].iloc[-1] + pd.Timedelta(hours=1)
    assert all(tensor.equal(before[name]) for name, tensor in fitted.fitted.network.state_dict().items())


def test_the_last_rows_are_enough(fitted: Any) -> None:
    few = wide().tail(LOOKBACK)
    np.testing.assert_allclose(numbers(fitted.predict(few)), numbers(fitted.predict()), rtol=1e-5)


def test_columns_in_another_order_and_beside_others(fitted: Any) -> None:
    frame = wide()[["wind", "date", "load"]].assign(other=1.5)
    future = fitted.predict(frame)
    assert list(future.columns) == list(fitted.predict().columns)
    assert np.array_equal(numbers(future), numbers(fitted.predict()))


def test_a_missing_column_is_refused_by_name(fitted: Any) -> None:
    with pytest.raises(InputError, match=r"no column 'wind', which the model was trained on"):
        fitted.predict(wide().drop(columns="wind"))


@pytest.mark.parametrize("cell", ["12 kWh or 13", "12,5"])
def test_text_in_a_column_of_training_is_refused_by_its_cell(fitted: Any, cell: str, tmp_path: Path) -> None:
    new = wide(60)
    path = tmp_path / "new.csv"
    new.assign(**{new.columns[1]: cell}).to_csv(path, index=False)
    words = rf"line 2, column '{new.columns[1]}' holds .*'{cell}'.*; the model was trained on this column, so write"
    with pytest.raises(InputError, match=words) as refusal:
        fitted.predict(path)
    assert "drop" not in str(refusal.value)


def test_another_step_is_refused(fitted: Any) -> None:
    daily = wide().assign(date=pd.date_range("2024-01-01", periods=160, freq="D"))
    with pytest.raises(InputError, match=r"every day.*trained on steps of h"):
        fitted.predict(daily)


def test_few_rows_take_the_step_of_the_model(fitted: Any) -> None:
    assert len(fitted.predict(wide().tail(2))) == HORIZON
    business = pd.DataFrame({"date": pd.bdate_range("2024-01-01", periods=120), "y": wave(120)})
    model = forecaster("dlinear").fit(business)
    week = business.iloc[10:15]  # Monday to Friday: nothing in it says that a weekend is left out
    assert model.predict(week)["date"].iloc[0].day_name() == "Monday"


@pytest.mark.parametrize("model", ["patchtst", "itransformer", "dlinear"])
def test_a_series_never_seen_is_scaled_by_itself(model: str) -> None:
    fitted = forecaster(model, training={"epochs": 4}).fit(long())
    known = long({"north": 160})
    stranger = known.assign(unique_id="east", y=1000 * known["y"] + 7)
    future = fitted.predict(stranger)
    assert future["unique_id"].unique().tolist() == ["east"]
    assert future[model].between(1000 * known["y"].min() * 0.5, 1000 * known["y"].max() * 1.5).all()
    both = fitted.predict(pd.concat([known, stranger]))
    np.testing.assert_allclose(both[model].iloc[HORIZON:], future[model], rtol=1e-6)


def test_a_short_series_is_padded_and_what_is_before_it_never_matters() -> None:
    lengths = {"north": 160, "young": 9}
    frame = long(lengths)
    model = forecaster().fit(frame)
    found = {finding.what: finding.count for finding in model.findings}
    assert found["short_series"] == 1
    young = model.predict().query("unique_id == 'young'")
    assert np.isfinite(numbers(young)).all()
    # The rows that lie before it in memory belong to another series.
    louder = frame.assign(y=np.where(frame["unique_id"] == "north", frame["y"] * 1e5, frame["y"]))
    again = model.predict(louder).query("unique_id == 'young'")
    assert np.array_equal(numbers(young), numbers(again))


def test_fewer_rows_never_make_an_interval_much_narrower(fitted: Any) -> None:
    def width(rows: int) -> Any:
        future = fitted.predict(wide().tail(rows), level=[95])
        return (future["load-hi-95"] - future["load-lo-95"]).to_numpy()

    whole = width(LOOKBACK)
    for rows in (1, 2, LOOKBACK // 2):
        assert (width(rows) > 0.7 * whole).all()


def test_levels_are_nested_and_hold_the_forecast_in_the_middle_of_their_residuals(fitted: Any) -> None:
    future = fitted.predict(level=[99, 50, 80, 95])
    columns = [f"load-lo-{level}" for level in (99, 95, 80, 50)] + [f"load-hi-{level}" for level in (50, 80, 95, 99)]
    assert list(future.columns)[1] == "load"
    cells = future[columns].to_numpy()
    assert (np.diff(cells, axis=1) >= 0).all()


def test_levels_can_be_left_out_and_are_checked(fitted: Any) -> None:
    assert list(fitted.predict(level=[]).columns) == ["date", "load", "wind"]
    assert "load-lo-90" in fitted.predict(level=np.array([90])).columns
    assert "load-lo-97.5" in fitted.predict(level=97.5).columns
    with pytest.raises(SettingsError, match="did you mean 95"):
        fitted.predict(level=[0.95])
    with pytest.raises(SettingsError, match="between 0 and 100"):
        fitted.predict(level=[100])
    with pytest.raises(SettingsError, match="level is '80'; give percentages"):
        fitted.predict(level="80")


def test_the_alias_names_the_columns() -> None:
    model = forecaster("dlinear", alias="ours").fit(long())
    assert list(model.predict(level=[80]).columns) == ["unique_id", "ds", "ours", "ours-lo-80", "ours-hi-80"]


@pytest.mark.parametrize(
    "name",
    [
        "données été.csv",
        "a b;c.csv",
        "sales [1].csv",
    ],
)
def test_a_file_is_read_whatever_it_is_called(name: str, tmp_path: Any) -> None:
    path = tmp_path / name
    wide().to_csv(path, index=False)
    model = forecaster("dlinear").fit(path)
    assert isinstance(model.predict(), pl.DataFrame)
    assert numbers(model.predict()).shape == (HORIZON, 10)


def test_not_fitted_is_said() -> None:
    for ask in (lambda one: one.predict(), lambda one: one.explain(), lambda one: one.save("nowhere")):
        with pytest.raises(SettingsError, match="has not been fitted"):
            ask(forecaster())


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"horizon": 0}, "horizon is 0"),
        ({"horizon": 2.5}, "horizon is 2.5"),
        ({"lookback": 0}, "lookback is 0"),
        ({"season": -1}, "season is -1"),
        ({"intervals": "bayes"}, "conformal, quantile, none"),
        ({"transform": "sqrt"}, "none, log1p"),
        ({"level": [120]}, "between 0 and 100"),
        ({"seed": -1}, "seed is -1"),
        ({"training": {"seed": 3}}, "seed="),
        ({"targett": ["a"]}, "Did you mean 'target'"),
        ({"train": {"epochs": 3}}, "no setting 'train'. It is called 'training'"),
        ({"set": {"width": 3}}, "no setting 'set'. It is called 'settings'"),
    ],
)
def test_settings_are_checked_when_they_are_given(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        forecaster(**asked)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"model": "patchts"}, "Did you mean 'patchtst'"),
        ({"settings": {"widht": 3}}, "Did you mean 'width'"),
        ({"settings": {"width": "wide"}}, "width is 'wide'; it must be a whole number"),
        ({"settings": {"dropout": None}}, "dropout is None; it must be a number"),
        ({"training": {"epochz": 3}}, "Training has no setting 'epochz'. Did you mean 'epochs'"),
        ({"training": {"epochs": 0}}, "epochs must be"),
        ({"attention": "softmx"}, "Did you mean 'softmax'"),
        ({"device": "tpu9000"}, "no device 'tpu9000'"),
        ({"loss": "rmse"}, "mse, mae, huber"),
    ],
)
def test_settings_that_need_the_network_are_refused_in_a_sentence(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        forecaster(**asked).fit(wide(80))


def test_a_target_without_any_value_is_refused() -> None:
    frame = wide(80).assign(wind=np.nan)
    for ask in (forecaster(target=["load", "wind"]).fit, forecaster(target=["load", "wind"]).cross_validation):
        with pytest.raises(InputError, match=r"column 'wind' has no value in any row.*--drop wind"):
            ask(frame)
    for ask in (forecaster().fit, forecaster().cross_validation):
        with pytest.raises(InputError, match=r"columns 'load' and 'wind' have no value in any row.*bring rows"):
            ask(frame.assign(load=np.nan))
    silent = long({"north": 80, "south": 80}).assign(y=np.nan)
    for together in (True, False):
        for ask in (forecaster(together=together).fit, forecaster(together=together).cross_validation):
            with pytest.raises(
                InputError, match=r"series 'north' and 'south' have no value in any row.*bring rows with"
            ):
                ask(silent)


@pytest.mark.parametrize("model", ["patchtst", "itransformer", "seasonal_naive"])
def test_a_new_series_without_any_value_is_left_empty_and_the_others_are_not(
    model: str, caplog: pytest.LogCaptureFixture
) -> None:
    fitted = forecaster(model).fit(long())
    frame = long()
    empty = frame.assign(y=frame["y"].where(frame["unique_id"] == "north"))
    future = fitted.predict(empty)
    assert "Series 'south' has no value in any row: its forecast is left empty." in caplog.text
    silent = future["unique_id"] == "south"
    assert np.isnan(numbers(future[silent])).all()
    alone = fitted.predict(frame.query("unique_id == 'north'"))
    np.testing.assert_allclose(numbers(future[~silent]), numbers(alone), rtol=1e-5)
    strange = pd.concat([frame, frame[-40:].assign(unique_id="east", y=np.nan)])
    assert np.isnan(numbers(fitted.predict(strange).query("unique_id == 'east'"))).all()


def test_a_new_column_without_any_value_is_left_empty(fitted: Any, caplog: pytest.LogCaptureFixture) -> None:
    future = fitted.predict(wide().assign(wind=np.nan))
    assert "Column 'wind' has no value in any row: its forecast is left empty." in caplog.text
    assert "constant" not in caplog.text
    assert np.isnan(future.filter(like="wind").to_numpy()).all()
    assert np.array_equal(future.filter(like="load"), fitted.predict().filter(like="load"))


@pytest.mark.parametrize("kind", ["text", "datetime", "date"])
def test_a_few_rows_at_midnight_have_hours_to_come(fitted: Any, kind: str) -> None:
    frame = wide(1)
    if kind != "datetime":
        frame["date"] = frame["date"].dt.strftime("%Y-%m-%d") if kind == "text" else frame["date"].dt.date
    future = fitted.predict(frame)
    assert pd.to_datetime(future["date"]).tolist() == list(pd.date_range("2024-03-01 01:00", periods=HORIZON, freq="h"))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (lambda one: one.where(one.index < 100), "No value of 'wind' was observed within the look-back of 24"),
        (lambda one: one * 1e6, "Values of 'wind' lie more than 1,000 standard deviations from those of training"),
    ],
    ids=["stale", "far"],
)
def test_a_forecast_from_nothing_recent_or_from_other_units_is_reported(
    fitted: Any, changed: Any, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    fitted.predict(wide())
    assert "wind" not in caplog.text
    frame = wide().assign(wind=lambda one: changed(one["wind"]))
    assert np.isfinite(numbers(fitted.predict(frame))).all()
    assert words in caplog.text
    assert "'load'" not in caplog.text


def test_integer_time_into_a_model_of_hours_is_refused(fitted: Any) -> None:
    with pytest.raises(
        InputError, match=r"has rows in integer steps of 1 \(1\), but the model was trained on steps of h"
    ):
        fitted.predict(wide().assign(date=np.arange(160)))


def test_new_rows_without_any_value_are_refused(fitted: Any) -> None:
    for frame in (wide().assign(wind=np.nan, load=np.nan), wide().assign(wind=np.nan, load=np.nan, other=1.5)):
        with pytest.raises(InputError, match=r"columns 'load' and 'wind' have no value in any row"):
            fitted.predict(frame)


def test_an_input_without_any_value_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    forecaster("dlinear", target="load").fit(wide(80).assign(wind=np.nan))
    assert "Input column 'wind' has no value in any row" in caplog.text


def test_numpy_numbers_are_numbers(tmp_path: Any) -> None:
    model = forecaster("dlinear", horizon=np.int64(5), lookback=np.int32(24), level=np.array([80]), seed=np.int64(1))
    model.fit(wide()).save(tmp_path / "model")
    assert model.spec.horizon == 5
