"""The page's data: short, exact where it matters, safe inside a script element."""

import json
from dataclasses import replace

import numpy as np
import pytest

from rearview.core.errors import InputError
from rearview.report.common import payload
from rearview.report.common.summary import BUDGET
from rearview.report.forecast.page import ForecastSummary, encode
from rearview.report.forecast.views import Prediction, SeriesErrors


def _decoded(summary: ForecastSummary, budget: int = BUDGET) -> dict:
    return json.loads(payload.dump(encode(summary, budget)[0]))


def _stamps(data: dict, part: dict) -> list[int]:
    axis = data["axes"][part["at"]]
    return axis["at"] if "at" in axis else [axis["start"] + row * axis["step"] for row in range(axis["count"])]


def test_numbers_keep_six_digits_and_print_short():
    values = np.array([0.1234567891, -12345678.9, 1.0, 0.0, 2 / 3, 1.5e-30, 7e25, 1e-320])
    assert payload.round_digits(values) == [0.123457, -12345700.0, 1.0, 0.0, 0.666667, 1.5e-30, 7e25, 1e-320]
    assert json.dumps(payload.round_digits(np.array([0.1 + 0.2, 1 / 7, 123456.789]))) == "[0.3, 0.142857, 123457.0]"


def test_rounding_agrees_with_python_over_many_magnitudes():
    draw = np.random.default_rng(3)
    values = draw.standard_normal(997) * 10.0 ** draw.integers(-15, 15, 997)
    np.testing.assert_allclose(payload.round_digits(values), [float(f"{value:.6g}") for value in values], rtol=1e-6)


def test_whole_numbers_have_no_decimals():
    assert json.dumps(payload.round_digits(np.array([3.0, -5.0, 0.0]))) == "[3, -5, 0]"


def test_missing_and_unbounded_become_null():
    assert payload.round_digits(np.array([np.nan, np.inf, -np.inf, 2.5])) == [None, None, None, 2.5]
    assert payload.round_digits(np.array([])) == []


def test_a_small_movement_at_a_high_level_survives(seven: ForecastSummary):
    view = seven.series[0]
    values = 1e9 + np.arange(len(view.values)) % 7
    models = {name: Prediction(np.full_like(each.mean, 1e9)) for name, each in view.forecast.models.items()}
    high = replace(view, values=values, forecast=replace(view.forecast, models=models), backtest=())
    shown = _decoded(replace(seven, series=(high,)))["series"][0]["y"]
    np.testing.assert_allclose(shown, values, atol=0.001)


def test_everything_of_a_series_comes_back(seven: ForecastSummary):
    data = _decoded(seven)
    assert [each["id"] for each in data["series"]] == [view.id for view in seven.series]
    for found, view in zip(data["series"], seven.series, strict=True):
        assert [value is None for value in found["y"]] == np.isnan(view.values).tolist()
        assert _stamps(data, found) == view.stamps.astype("datetime64[ms]").astype(int).tolist()
        assert _stamps(data, found["forecast"]) == view.forecast.stamps.astype("datetime64[ms]").astype(int).tolist()
        for part, models in [(found["forecast"], view.forecast.models), (found["windows"][3], view.backtest[3].models)]:
            assert list(part["models"]) == list(models)
            for name, said in models.items():
                np.testing.assert_allclose(part["models"][name]["mean"], said.mean, rtol=1e-5)
                assert [level for level, _, _ in part["models"][name]["intervals"]] == sorted(said.intervals)
                for level, low, high in part["models"][name]["intervals"]:
                    np.testing.assert_allclose([low, high], said.intervals[level], rtol=1e-5, atol=1e-5)
        assert found["windows"][3]["cutoff"] == view.backtest[3].cutoff.astype("datetime64[ms]").astype(int)


def test_shared_and_regular_stamps_are_stored_once(seven: ForecastSummary):
    axes = _decoded(seven)["axes"]
    assert len(axes) == 2 + len(seven.series[0].backtest)
    assert all(set(axis) == {"start", "step", "count"} for axis in axes)


def test_months_are_stored_stamp_by_stamp(seven: ForecastSummary):
    view = seven.series[0]
    months = (np.datetime64("2001-01", "M") + np.arange(len(view.stamps))).astype("datetime64[us]")
    data = _decoded(replace(seven, series=(replace(view, stamps=months),)))
    assert _stamps(data, data["series"][0]) == months.astype("datetime64[ms]").astype(int).tolist()


def test_nothing_can_end_the_script_element(odd: ForecastSummary):
    text = payload.dump(encode(odd)[0])
    assert not set(text) & set("<>&")
    assert text.isascii()
    assert [each["id"] for each in json.loads(text)["series"]] == [view.id for view in odd.series]


def test_older_windows_are_left_off_beyond_the_budget(seven: ForecastSummary):
    data, notes = encode(seven, budget=19_000)
    kept = data["series"]
    assert {len(each["windows"]) for each in kept} == {3}
    assert kept[0]["windows"][-1]["cutoff"] == seven.series[0].backtest[-1].cutoff.astype("datetime64[ms]").astype(int)
    assert len(notes) == 1
    assert "draws the newest 3 of 5 backtest windows of each series" in notes[0]


def test_series_are_left_off_when_even_their_forecasts_exceed_the_budget(seven: ForecastSummary):
    errors = {name: SeriesErrors(mase, 1.0, 1.0, 0.9) for name, mase in (("OT", 2.0), ("HULL", 3.0), ("MULL", 1.5))}
    scored = replace(seven, series=tuple(replace(view, errors=errors.get(view.id)) for view in seven.series))
    data, notes = encode(scored, budget=1_900)
    kept = data["series"]
    assert [each["id"] for each in kept] == ["HULL", "MULL", "OT"]
    assert not any(each["windows"] for each in kept)
    assert {len(each["y"]) for each in kept} == {60}
    assert "no backtest windows of the 3 series with the largest errors, of 7" in notes[0]


def test_a_missing_stamp_is_refused(seven: ForecastSummary):
    view = seven.series[0]
    stamps = view.stamps.copy()
    stamps[5] = np.datetime64("NaT")
    with pytest.raises(InputError, match="a row without a stamp"):
        encode(replace(seven, series=(replace(view, stamps=stamps),)))
