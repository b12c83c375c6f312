"""Networks trained on series that only ever rise forecast what is added at each step, and add it up."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from samples import numbers

import rearview as rv
from rearview.data.panel_reader import load
from rearview.estimators.forecast.transform import list_counters, take_additions

OPTIONS = {"model": "patchtst", "horizon": 7, "lookback": 21, "training": {"epochs": 3}, "device": "cpu", "seed": 3}


def additions(rows: int, seed: int = 0) -> np.ndarray:
    draws = np.random.default_rng(seed).gamma(4, 1, rows)
    return draws * (5 + 4 * np.sin(2 * np.pi * np.arange(rows) / 7))


def frame(values: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=len(values)), "y": values})


def test_a_panel_of_counters_is_read_as_what_they_add() -> None:
    added = additions(131)
    readings = 5000 + added.cumsum()
    readings[[57, 58]] = np.nan
    panel = load(np.stack([readings, added], axis=1))
    assert list_counters(panel).tolist() == [[True, False]]
    taken = take_additions(panel)
    cells = taken.original_column(slice(0, 131), 0, 0)
    assert np.flatnonzero(np.isnan(cells)).tolist() == [0, 57, 58, 59]
    assert taken.first[0, 0] == 1
    np.testing.assert_allclose(cells[~np.isnan(cells)], np.delete(added, [0, 57, 58, 59]), rtol=1e-3)


def test_a_network_adds_up_what_it_forecasts_of_the_additions() -> None:
    added = additions(180)
    meter = rv.Forecaster(**OPTIONS).fit(frame(5000 + added.cumsum()))
    daily = rv.Forecaster(**OPTIONS).fit(frame(np.append(np.nan, added[1:])))
    steps = daily.predict(level=[])["y"].to_numpy()
    made = meter.predict(level=[80])
    np.testing.assert_allclose(made["y"] - 5000 - added.sum(), steps.cumsum(), rtol=5e-3)
    assert any("added at each step" in note for note in meter.fitted.notes)
    assert not any("added at each step" in note for note in daily.fitted.notes)
    low, high = made["y-lo-80"].to_numpy(), made["y-hi-80"].to_numpy()
    assert (low <= made["y"]).all()
    assert (made["y"] <= high).all()
    assert high[-1] - low[-1] > 1.5 * (high[0] - low[0])  # errors add up, too


def test_no_forecast_of_a_counter_falls() -> None:
    added = np.where(np.arange(180) < 120, additions(180), 1e-3 * additions(180))
    readings = 5000 + added.cumsum()
    made = rv.Forecaster(**OPTIONS | {"training": {"epochs": 1}}).fit(frame(readings)).predict(level=[95])
    cells = numbers(made)
    assert cells.min() >= readings[-1] - 1e-2
    assert (np.diff(cells, axis=0) >= 0).all()


def test_what_is_saved_and_new_rows_are_forecast_alike(tmp_path: Path) -> None:
    rows = frame(5000 + additions(180).cumsum())
    fitted = rv.Forecaster(**OPTIONS).fit(rows)
    fitted.save(tmp_path / "model")
    whole = fitted.predict(level=[80])
    pd.testing.assert_frame_equal(rv.Forecaster.load(tmp_path / "model").predict(level=[80]), whole)
    np.testing.assert_allclose(numbers(fitted.predict(rows, level=[80])), numbers(whole), rtol=1e-6)
    assert fitted.explain()["layer 1"].ndim == 5
    one = fitted.predict(rows[:1], level=[])  # of one reading no addition is known
    assert (numbers(one) >= rows["y"][0]).all()


@pytest.mark.parametrize(("rows", "intervals"), [(64, "conformal"), (180, "quantile")])
def test_short_counters_and_learned_quantiles_are_forecast_as_they_stand(rows: int, intervals: str) -> None:
    fitted = rv.Forecaster(**OPTIONS | {"intervals": intervals}).fit(frame(5000 + additions(rows).cumsum()))
    assert not fitted.fitted.adds_up
