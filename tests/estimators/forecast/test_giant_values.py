"""One giant value among few rows changes no forecast by much, and a note tells of it."""

import numpy as np
import pandas as pd
import pytest
from samples import numbers

import rearview as rv

pytestmark = pytest.mark.usefixtures("glance_weights")


@pytest.mark.parametrize("model", ["ets", "theta", "glance"])
def test_a_giant_value_among_few_rows_is_not_read(model: str) -> None:
    values = 100 + 10 * np.random.default_rng(3).normal(size=24)
    made, notes = [], []
    for size in (values[17], 1e3 * values[17]):
        values[17] = size
        frame = pd.DataFrame({"ds": pd.date_range("2022-01-01", periods=24, freq="MS"), "y": values})
        forecaster = rv.Forecaster(model=model, horizon=6, season=1).fit(frame)
        made.append(numbers(forecaster.predict(frame, level=[80])))
        notes.append(any("than 50" in note for note in forecaster.forecast(forecaster.read(frame))[0].notes))
    assert np.abs(made[1] - made[0]).max() < 100
    assert notes == [False, True]
