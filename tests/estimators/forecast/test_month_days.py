"""Months on a late day of the month: a model knows the day of its training where new rows can't tell it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from samples import HORIZON

from rearview import Forecaster
from rearview.cli import main

UNTOLD = "which don't tell the day of the month"


def monthly(day: int, months: int = 72, first: str = "2017-01-01", name: str | None = None) -> pd.DataFrame:
    """Months on a day, or on the last day of months that are shorter."""
    firsts = pd.date_range(first, periods=months, freq="MS")
    stamps = pd.DatetimeIndex([one.replace(day=min(day, one.days_in_month)) for one in firsts])
    values = 50 + 10 * np.sin(np.arange(months) * 2 * np.pi / 12)
    if name is None:
        return pd.DataFrame({"when": stamps, "value": values})
    return pd.DataFrame({"unique_id": name, "ds": stamps, "y": values})


def naive(lookback: int = 24, freq: str | None = None) -> Forecaster:
    return Forecaster("seasonal_naive", horizon=HORIZON, lookback=lookback, device="cpu", freq=freq)


def february(frame: pd.DataFrame, year: int = 2023) -> pd.DataFrame:
    """One row, on the last day of February."""
    return frame[:1].assign(**{frame.columns[-2]: pd.Timestamp(year, 2, 29 if year % 4 == 0 else 28)})


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("day", [28, 29, 30])
def test_february_alone_goes_on_on_the_day_of_training(
    day: int, saved: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fitted = naive().fit(monthly(day))
    if saved:
        fitted.save(tmp_path / "model")
        fitted = Forecaster.load(tmp_path / "model")
    future = fitted.predict(february(monthly(day)))
    assert future["when"].tolist() == monthly(day, HORIZON, "2023-03-01")["when"].tolist()
    assert UNTOLD not in caplog.text


def test_month_ends_go_on_at_month_ends() -> None:
    ends = naive().fit(monthly(31))
    assert ends.fitted.step == "ME"
    future = ends.predict(february(monthly(31)))
    assert future["when"].tolist() == monthly(31, HORIZON, "2023-03-01")["when"].tolist()


def test_the_rows_themselves_tell_where_they_can() -> None:
    """On the 28th in a leap year, or together with a row of March."""
    fitted = naive().fit(monthly(30))
    assert set(fitted.predict(february(monthly(30)).assign(when=pd.Timestamp("2024-02-28")))["when"].dt.day) == {28}
    rows = monthly(28, 2, "2023-02-01")
    assert set(fitted.predict(rows)["when"].dt.day) == {28}


def test_a_model_that_looks_back_on_february_alone_knows_the_day(tmp_path: Path) -> None:
    """Its last rows don't tell the day, but all rows of training did."""
    fitted = naive(lookback=1).fit(monthly(30, 74))
    expected = monthly(30, HORIZON, "2023-03-01")["when"].tolist()
    assert fitted.tail.stamps.astype("datetime64[D]").tolist() == [pd.Timestamp("2023-02-28").date()]
    assert fitted.predict()["when"].tolist() == expected
    fitted.save(tmp_path / "model")
    again = Forecaster.load(tmp_path / "model")
    assert again.predict()["when"].tolist() == expected
    assert again.predict(february(monthly(30)))["when"].tolist() == expected


def test_each_series_has_its_own_day_and_a_new_one_that_of_all(caplog: pytest.LogCaptureFixture) -> None:
    both = pd.concat([monthly(29, name="early"), monthly(30, name="late")])
    rows = pd.concat([february(monthly(30, name=name)) for name in ("early", "late")])
    future = naive(freq="MS").fit(both).predict(rows)
    for name, day in (("early", 29), ("late", 30)):
        assert set(future.loc[future["unique_id"] == name, "ds"].dt.day) == {day}
    assert UNTOLD not in caplog.text
    same = naive(freq="MS").fit(both.query("unique_id == 'late'")).predict(february(monthly(30, name="new")))
    assert set(same["ds"].dt.day) == {30}
    assert UNTOLD not in caplog.text


def test_a_day_that_nobody_knows_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    both = pd.concat([monthly(29, name="early"), monthly(30, name="late")])
    fitted = naive(freq="MS").fit(both)
    new = february(monthly(30, name="new"))
    future = fitted.predict(new)
    assert f"The rows of series 'new' stand at ends of months alone, {UNTOLD}" in caplog.text
    assert set(future["ds"].dt.day) == {28}
    fitted.save(tmp_path / "model")
    new.to_csv(tmp_path / "new.csv", index=False)
    assert main(["predict", str(tmp_path / "model"), str(tmp_path / "new.csv")]) == 0
    assert UNTOLD in capsys.readouterr().err
