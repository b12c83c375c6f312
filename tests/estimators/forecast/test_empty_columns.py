"""What has no value is left out by name, and the others are forecast as if it had not been there.

Series of a long frame and columns of a wide one; and columns that were dropped in training, which new rows may lack.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from samples import forecaster, long, wide

TOLD = "Series 'middle' has no value in any row: it is left out and has no forecast."
LENGTHS = {"first": 120, "middle": 120, "last": 110}


def frames(inputs: tuple[str, ...] = ()) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Three series of which the second has no value, and the same without it."""
    whole = long(LENGTHS, inputs)
    empty = whole["unique_id"] == "middle"
    return whole.assign(y=whole["y"].mask(empty)), whole[~empty].reset_index(drop=True)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("model", ["patchtst", "seasonal_naive"])
def test_the_other_series_are_forecast_as_without_it(
    model: str, together: bool, caplog: pytest.LogCaptureFixture
) -> None:
    whole, rest = frames()
    fitted = forecaster(model, together=together).fit(whole)
    assert caplog.messages.count(TOLD) == 1
    assert TOLD in [finding.message for finding in fitted.findings]
    pd.testing.assert_frame_equal(fitted.predict(), forecaster(model, together=together).fit(rest).predict())


@pytest.mark.parametrize("together", [False, True])
def test_so_is_the_backtest(together: bool, caplog: pytest.LogCaptureFixture) -> None:
    whole, rest = frames()
    back, without = (forecaster(together=together).cross_validation(frame, 2, refit=True) for frame in (whole, rest))
    assert caplog.messages.count(TOLD) == 1
    assert set(back["unique_id"]) == {"first", "last"}
    pd.testing.assert_frame_equal(back, without)


@pytest.mark.parametrize("together", [False, True])
def test_its_inputs_go_with_it(together: bool) -> None:
    """Taken together, an input has a column for each series, and those of the series left out are left out too."""
    asked: dict[str, Any] = {"known": "price", "together": together}
    whole, rest = frames(("price",))
    stamps = pd.date_range("2024-03-11", periods=5, freq="h")
    ahead = pd.concat([pd.DataFrame({"unique_id": name, "ds": stamps, "price": 50.0}) for name in LENGTHS])
    fitted = forecaster("itransformer", **asked).fit(whole)
    alone = forecaster("itransformer", **asked).fit(rest)
    assert fitted.fitted.columns == alone.fitted.columns
    assert fitted.fitted.known == alone.fitted.known
    pd.testing.assert_frame_equal(fitted.predict(future=ahead), alone.predict(future=ahead))


def test_the_model_forecasts_it_once_it_has_values() -> None:
    whole, _ = frames()
    later = forecaster().fit(whole).predict(long(LENGTHS))
    assert set(later["unique_id"]) == set(LENGTHS)
    assert np.isfinite(later["patchtst"]).all()


@pytest.mark.parametrize("inputs", [{}, {"known": ["wind"]}])
def test_so_are_the_other_columns_of_a_wide_frame(inputs: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    frame = wide(120, ("load", "wind"))
    whole = frame.assign(empty=np.nan)[["date", "empty", "load", "wind"]]
    asked = forecaster("itransformer", **inputs)
    back, without = (asked.cross_validation(each, 2) for each in (whole, frame))
    assert caplog.messages == ["Column 'empty' has no value in any row: it is left out and has no forecast."]
    pd.testing.assert_frame_equal(back, without)
    fitted = asked.fit(whole)
    assert [f.message for f in fitted.findings if f.what == "empty"] == caplog.messages[:1]
    ahead = wide(8, start="2024-03-06")[["date", "wind"]] if inputs else None
    pd.testing.assert_frame_equal(fitted.predict(future=ahead), asked.fit(frame).predict(future=ahead))
    pd.testing.assert_frame_equal(fitted.predict(whole, future=ahead), fitted.predict(frame, future=ahead))


@pytest.mark.parametrize("form", ["wide", "long"])
def test_new_rows_need_not_have_the_columns_that_were_dropped(form: str, tmp_path: Any) -> None:
    frame = wide(120) if form == "wide" else long(LENGTHS)
    whole = frame.assign(price=1.5, region="north")
    model = forecaster("dlinear", drop=["price", "region"]).fit(whole)
    expected = model.predict(whole)
    for columns in ([], ["price"], ["region"]):
        new = frame.assign(**{name: whole[name] for name in columns})
        pd.testing.assert_frame_equal(model.predict(new), expected)
        new.to_csv(tmp_path / "new.csv", index=False)
        pd.testing.assert_frame_equal(
            model.predict(tmp_path / "new.csv").to_pandas().select_dtypes("number"), expected.select_dtypes("number")
        )
    model.save(tmp_path / "model")
    pd.testing.assert_frame_equal(type(model).load(tmp_path / "model").predict(frame), expected)
