"""Rows before a launch: which are found, and that no forecast reads them."""

import numpy as np
import pandas as pd
import pytest
from samples import numbers

import rearview as rv
from rearview.core.errors import RearviewError
from rearview.data.launch import count_idle, cut_idle, find_begins
from rearview.data.panel_reader import load
from rearview.data.windows import Windows, final_windows
from rearview.estimators.forecast.predictor import list_pasts

pytestmark = pytest.mark.usefixtures("glance_weights")


def launched(idle: int, later: int, before: float = 0.0) -> np.ndarray:
    sales = 40 + 9 * np.sin(np.arange(later)) + np.random.default_rng(later).normal(size=later)
    return np.concatenate([np.full(idle, before), sales])


@pytest.mark.parametrize("before", [0.0, 50.0, -3.0])
def test_one_value_that_stood_long_in_front_is_no_part_of_the_past(before: float) -> None:
    assert count_idle(launched(101, 37, before)) == 101
    assert count_idle(launched(101, 3, before)) == 101
    assert count_idle(launched(11, 37, before)) == 11


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(41),
        launched(7, 23),  # too few in front
        np.append(np.zeros(101), [5.0]),  # a first sale may be the last one for long
        np.append(np.zeros(101), [5.0, 0, 0, 7, 0]),  # rare demand
        np.append(launched(101, 37), [0.0]),  # back at where it began
        np.append(np.zeros(101), np.repeat([1.0, 2, 3], 35)),  # prices stand for long, each of them
        np.tile(np.append(np.zeros(11), np.arange(1.0, 14)), 5),  # nights and days
    ],
)
def test_what_may_come_again_is_read(values: np.ndarray) -> None:
    assert count_idle(values) == 0


def test_each_column_begins_at_its_own_launch_before_a_window() -> None:
    late, early = launched(61, 29), launched(0, 90)
    missing = np.where(np.arange(90) < 17, np.nan, launched(47, 43))
    panel = load(np.stack([late, early, missing], axis=1))
    which = final_windows(panel)
    assert find_begins(panel, which, 3).tolist() == [[61, 0, 47]]
    assert [len(past) for *_, past in list_pasts(panel, which, 3, 200)] == [29, 90, 43]
    assert [len(past) for *_, past in list_pasts(panel, which, 3, 31)] == [29, 31, 31]
    before = Windows(np.array([43]), np.array([0]))
    assert find_begins(panel, before, 3).tolist() == [[0, 0, 17]]  # of the launches nothing was known


def frame(values: np.ndarray) -> pd.DataFrame:
    days = pd.date_range("2024-12-31", periods=len(values), freq="-1D")[::-1]
    return pd.DataFrame({"ds": days, "y": values})


@pytest.mark.parametrize("model", ["glance", "theta", "ets", "seasonal_naive"])
def test_zeros_before_a_launch_change_no_forecast(model: str) -> None:
    values = launched(101, 37)
    options = {"model": model, "horizon": 5, "season": 7}
    whole, since = (rv.Forecaster(**options).fit(frame(one)) for one in (values, values[101:]))
    np.testing.assert_allclose(numbers(whole.predict(level=[])), numbers(since.predict(level=[])), rtol=1e-5, atol=1e-4)


def test_a_linear_forecast_is_fitted_to_the_rows_since_a_launch() -> None:
    whole, since = (
        rv.Forecaster(model="ridge", horizon=5, season=7).fit(frame(one)).predict(level=[])
        for one in (launched(211, 97), launched(211, 97)[211:])
    )
    np.testing.assert_allclose(numbers(whole), numbers(since), rtol=1e-5, atol=1e-4)
    with pytest.raises(RearviewError, match="9 rows since a launch are too few"):
        rv.Forecaster(model="ridge", horizon=5).fit(frame(launched(211, 9)))


@pytest.mark.parametrize("model", ["patchtst", "dlinear"])
def test_a_network_is_trained_on_the_rows_since_a_launch(model: str) -> None:
    options = {"model": model, "horizon": 5, "training": {"epochs": 2}, "device": "cpu"}
    whole, since = (rv.Forecaster(**options).fit(frame(one)) for one in (launched(211, 97), launched(211, 97)[211:]))
    np.testing.assert_allclose(numbers(whole.predict()), numbers(since.predict()), rtol=1e-4)
    assert [any("launch" in note for note in one.fitted.notes) for one in (whole, since)] == [True, False]
    late, bare = (whole.predict(frame(launched(idle, 13))) for idle in (101, 0))  # fewer rows than its look-back
    np.testing.assert_allclose(numbers(late), numbers(bare), rtol=1e-4)


def test_columns_that_are_launched_apart_are_each_read_since_their_own_launch() -> None:
    columns = np.stack([launched(61, 90), launched(101, 50), launched(121, 30)], axis=1)
    forecaster = rv.Forecaster(model="patchtst", horizon=5, lookback=40, training={"epochs": 1}, device="cpu")
    forecaster.fit(columns)
    other = np.where(columns == 0, 7.0, columns)  # another value stood before
    np.testing.assert_allclose(numbers(forecaster.predict(other)), numbers(forecaster.predict(columns)), rtol=1e-4)


def test_rows_before_launches_are_cut_off_or_missing() -> None:
    panel = load(np.stack([launched(61, 90), launched(101, 50)], axis=1))
    since = cut_idle(panel, 90)
    assert (since.lengths.tolist(), since.first.tolist()) == ([90], [[0, 40]])
    np.testing.assert_array_equal(since.observed[:, 1], np.arange(90) >= 40)
    np.testing.assert_allclose(since.original_column(slice(40, 90), 0, 1), launched(101, 50)[101:], rtol=1e-6)
    assert (since.values[:40, 1] == 0).all()  # as before any first value, the centre stands there
    assert cut_idle(panel, 91) is panel
    always = load(np.stack([launched(0, 90), np.arange(90.0)], axis=1))
    assert cut_idle(always, 1) is always


def test_a_series_that_was_not_launched_keeps_all_rows() -> None:
    parts = [frame(values).assign(unique_id=name) for name, values in (("a", launched(61, 29)), ("b", launched(0, 90)))]
    panel = load(pd.concat(parts), target="y", time_col="ds", id_col="unique_id")
    since = cut_idle(panel, 50)
    assert since.lengths.tolist() == [29, 90]
    assert since.observed is None


def test_a_note_says_that_rows_before_a_launch_are_not_read() -> None:
    forecaster = rv.Forecaster(model="glance", horizon=5)
    notes = [
        forecaster.fit(frame(one)).forecast(forecaster.read(frame(one)))[0].notes
        for one in (launched(101, 37), launched(0, 37))
    ]
    assert [any("launch" in note for note in some) for some in notes] == [True, False]


def test_a_value_that_fills_a_gap_is_none_that_stood() -> None:
    gap, idle = launched(0, 97), launched(211, 97)
    gap[1:42] = np.nan
    idle[101:109] = np.nan  # days without a value, long before the launch
    panels = [load(frame(values)) for values in (gap, idle)]
    assert [find_begins(one, final_windows(one), 1).tolist() for one in panels] == [[[0]], [[211]]]
