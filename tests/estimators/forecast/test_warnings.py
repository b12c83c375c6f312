"""Warnings of repairs, padding and series that nothing was learned from; intervals hold their own forecast."""

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from samples import HORIZON, forecaster, long, to_pandas, wide

from rearview.data.windows import final_windows
from rearview.tasks.conformal import Residuals


def test_repairs_are_reported_in_python_too(caplog: pytest.LogCaptureFixture) -> None:
    frame = wide().drop(index=[40, 41])
    with caplog.at_level(logging.WARNING, logger="rearview"):
        forecaster("dlinear").fit(frame)
    assert any("missing" in message or "gap" in message for message in caplog.messages)
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="rearview"):
        forecaster("dlinear").fit(wide())
    assert caplog.messages == []


def test_the_interval_of_a_biased_network_still_holds_its_forecast() -> None:
    model = forecaster("dlinear").fit(wide())
    biased = Residuals.of(np.full((2, 100, HORIZON), 3.0, dtype=np.float32))
    said = replace(model.fitted, residuals=biased).predict(model.tail, final_windows(model.tail), (80.0, 95.0))
    for low, high in said.intervals.values():
        assert (low <= said.mean).all()
        assert (high > said.mean).all()


def test_a_forecast_from_too_few_rows_says_so() -> None:
    model = forecaster("dlinear").fit(wide())
    panel = model.read_new(wide().tail(9))
    said, _ = model.forecast(panel)
    assert any("fewer rows than the look-back of 24" in note for note in said.notes)
    assert len(to_pandas(model.predict(wide().tail(9)))) == HORIZON


def test_series_that_end_before_others_are_named(caplog: pytest.LogCaptureFixture) -> None:
    frame = long({"north": 160, "south": 160, "west": 160})
    last = frame["ds"].max()
    ended = frame[(frame["unique_id"] != "west") | (frame["ds"] <= last - pd.Timedelta(hours=30))]
    with caplog.at_level(logging.WARNING, logger="rearview"):
        made = forecaster("dlinear").fit(ended)
    words = f"Series 'west' ends at {last - pd.Timedelta(hours=30)}, others at {last}; its forecast begins after"
    assert sum(words in message for message in caplog.messages) == 1
    future = made.predict()
    assert future[future["unique_id"] == "west"]["ds"].min() == last - pd.Timedelta(hours=29)
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="rearview"):
        forecaster("dlinear").fit(ended[(ended["unique_id"] != "south") | (ended["ds"] < last)])
    assert any(f"2 of 3 series end before {last}, the first of them ('west') at" in one for one in caplog.messages)


def test_rows_at_the_end_without_values_are_named() -> None:
    frame = wide()
    frame.loc[frame.index[-3:], ["load", "wind"]] = np.nan
    last, end = frame["date"].iloc[-4], frame["date"].iloc[-1]

    def warnings_of(frame: pd.DataFrame, **options: Any) -> list[str]:
        findings = forecaster("seasonal_naive", **options).read_to_fit(frame).findings
        return [one.message for one in findings if one.what == "empty ends"]

    [said] = warnings_of(frame)
    words = f"The last 3 rows of 'load' after {last} have no value (2 of 2 columns end so): the forecast begins after"
    assert f"{words} {end}." in said
    assert "--future" not in said
    [said] = warnings_of(frame.assign(promo=np.arange(len(frame)) % 5), known=["promo"])
    assert f"begin after {last}, or give them as future (--future)" in said
    frame.loc[frame.index[-1], "load"] = 1.0
    [said] = warnings_of(frame)
    assert f"The last 3 rows of 'wind' after {last} have no value: the forecast begins after {end}." in said
    frame.loc[frame.index[-1], "wind"] = 1.0
    assert not warnings_of(frame)
    rows = long({"north": 160, "south": 160})
    rows.loc[rows["ds"] == rows["ds"].max(), "y"] = np.nan
    [said] = warnings_of(rows)
    assert "The last 1 row of series 'north' after" in said
    assert "has no value (2 of 2 series end so)" in said


def test_a_series_that_is_never_trained_on_is_named(caplog: pytest.LogCaptureFixture) -> None:
    frame = long({"old": 160, "second": 160, "third": 160, "fourth": 160, "new": 8})
    with caplog.at_level(logging.WARNING, logger="rearview"):
        forecaster("dlinear").fit(frame)
    words = "1 of 5 series has too few rows before those held out to be trained on ('new')"
    assert sum(words in message for message in caplog.messages) == 1
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="rearview"):
        forecaster("dlinear").cross_validation(frame, 1)
    assert sum(words in message for message in caplog.messages) == 1
