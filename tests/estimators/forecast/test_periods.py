"""Frames of pandas whose stamps are periods are given back periods of the same frequency."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rearview as rv
from rearview.core.errors import InputError
from rearview.data.infer.timestamps import localise
from rearview.data.panel_reader import load

FREQUENCIES = ("M", "2M", "Q-DEC", "Q-NOV", "W-SUN", "W-THU", "Y-DEC", "Y-JUN", "D", "h", "15min")


def periods(freq: str, rows: int = 30) -> pd.DataFrame:
    when = pd.period_range("2015-03-01", periods=rows, freq=freq, name="when")
    return pd.DataFrame({"a": np.arange(rows) + np.sin(np.arange(rows))}, index=when)


@pytest.mark.parametrize("freq", FREQUENCIES)
def test_stamps_go_back_as_periods_of_their_frequency(freq: str) -> None:
    frame = periods(freq)
    for given in (frame, frame.reset_index()):
        panel = load(given)
        stamps = localise(panel.ahead(panel.offsets[1:] - 1, 5)[0], panel.layout)
        assert stamps.tolist() == pd.period_range(frame.index[-1] + 1, periods=5, freq=freq).tolist()
        assert stamps.dtype == frame.index.dtype


def test_gathered_rows_have_another_frequency_and_go_back_as_moments() -> None:
    assert load(periods("D"), every="W", agg="sum").layout.period is None


def test_forecasts_backtests_and_flags_have_periods(tmp_path: Path) -> None:
    frame, steps = periods("Q-NOV", 40), 3
    after = pd.period_range(frame.index[-1] + 1, periods=steps, freq="Q-NOV")
    assert rv.forecast(frame, steps).index.tolist() == after.tolist()
    assert rv.forecast(frame["a"], steps).index.name == "when"
    long = frame.reset_index().assign(unique_id="one").rename(columns={"when": "ds", "a": "y"})
    assert rv.forecast(long, steps)["ds"].tolist() == after.tolist()

    model = rv.Forecaster(model="seasonal_naive", horizon=steps)
    windows = model.cross_validation(frame, n_windows=2)
    assert windows.index.tolist() == frame.index[-2 * steps :].tolist()
    assert windows["cutoff"].tolist() == np.repeat(frame.index[[-2 * steps - 1, -steps - 1]], steps).tolist()

    model.fit(frame).save(tmp_path / "model")
    loaded = rv.Forecaster.load(tmp_path / "model")
    assert loaded.predict().index.tolist() == loaded.predict(frame).index.tolist() == after.tolist()


def test_known_inputs_are_taken_by_periods() -> None:
    frame = periods("M", 40).assign(promo=np.arange(40) % 3)
    ahead = pd.period_range(frame.index[-1] + 1, periods=2, freq="M", name="when")
    model = rv.Forecaster(model="ridge", horizon=2, known=["promo"]).fit(frame)
    future = pd.DataFrame({"promo": [1, 0]}, index=ahead)
    assert model.predict(future=future).index.tolist() == ahead.tolist()
    assert model.what_if({"promo": 0}, future=future).index.tolist() == ahead.tolist()
    assert model.predict(future=future.rename_axis(None)).equals(model.predict(future=future))
    assert model.predict(future=future.set_index(ahead.astype(str))).equals(model.predict(future=future))
    with pytest.raises(InputError, match="has no column 'when'"):
        model.predict(future=future.reset_index(drop=True))
