"""Where a forecaster looks: weights with column names and time stamps to their axes."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from samples import HORIZON, SMALL, forecaster, long, wide

from rearview.core.errors import InputError
from rearview.estimators.forecast.attention_maps import AttentionMaps, Labels

STEP = np.timedelta64(1, "h")
LAST = np.datetime64("2024-03-07T15:00")
"""The last row of `wide()`."""


def explained(model: str, frame: Any = None, **asked: Any) -> tuple[AttentionMaps, Labels]:
    maps = forecaster(model, **asked).fit(wide() if frame is None else frame).explain()
    assert isinstance(maps, dict)
    assert list(maps.labels) == list(maps)
    return maps, maps.labels["layer 1"]


def test_patches_have_stamps_and_groups_are_columns() -> None:
    maps, labels = explained("patchtst", settings={**SMALL, "patch": 6, "stride": 6})
    assert maps["layer 1"].shape == (1, 2, 2, 5, 5)
    assert labels.groups == ("load", "wind")
    assert labels.steps == ((-24, -18), (-18, -12), (-12, -6), (-6, 0), (-1, 0))
    assert labels.starts is not None
    assert labels.ends is not None
    assert np.array_equal(labels.starts[0], LAST + STEP * np.array([-23, -17, -11, -5, 0]))
    assert np.array_equal(labels.ends[0], LAST + STEP * np.array([-18, -12, -6, 0, 0]))
    assert labels.tokens()[:2] == ["2024-03-06 16:00:00", "2024-03-06 22:00:00"]
    assert not labels.padded.any()


def test_maps_are_shown_by_the_shapes_of_their_weights() -> None:
    maps, _ = explained("patchtst")
    shape = list(maps["layer 1"].shape)
    assert repr(maps) == f"AttentionMaps({{'layer 1': {shape}}})"


def test_tokens_that_are_columns_are_called_so() -> None:
    _, labels = explained("itransformer")
    assert labels.groups == ("all columns",)
    assert labels.tokens() == ["load", "wind", "hour_of_day", "day_of_week", "day_of_month", "day_of_year"]
    assert labels.starts is None


def test_known_inputs_follow_the_calendar() -> None:
    frame = wide(columns=("load", "price"))
    model = forecaster("itransformer", known=["price"], target="load").fit(frame)
    future = wide(160 + HORIZON, columns=("load", "price")).iloc[160:][["date", "price"]]
    maps = model.explain(future=future)
    assert maps.labels["layer 1"].tokens()[0] == "load"
    assert maps.labels["layer 1"].tokens()[-1] == "price"
    assert maps["layer 1"].shape[-1] == 6


def test_channel_and_patch_are_both_named() -> None:
    _, labels = explained("timer_xl", settings={**SMALL, "patch": 12})
    assert labels.tokens() == [
        f"{column}, {stamp}" for column in ("load", "wind") for stamp in ("2024-03-06 16:00:00", "2024-03-07 04:00:00")
    ]


@pytest.mark.parametrize("asked", [{}, {"intervals": "quantile", "level": [80]}])
def test_steps_ahead_have_the_stamps_of_the_forecast(asked: dict[str, Any]) -> None:
    """A quantile is one more token of the same moment."""
    model = forecaster("transformer", settings={**SMALL, "label": 3}, **asked).fit(wide())
    maps = model.explain()
    assert list(maps) == list(maps.labels) == ["encoder 1", "decoder 1"]
    labels = maps.labels["decoder 1"]
    times = 3 if asked else 1
    assert labels.starts is not None
    assert labels.starts.shape == (1, 3 + times * HORIZON)
    ahead = model.predict(level=[80])["date"].to_numpy().astype("datetime64[us]")
    assert np.array_equal(labels.starts[0, 3:], np.repeat(ahead, times))
    assert labels.starts[0, 2] == LAST


def test_what_lies_before_a_short_series_is_padding() -> None:
    frame = long({"north": 160, "south": 10})
    maps, labels = explained("patchtst", frame, settings={**SMALL, "patch": 6, "stride": 6})
    assert maps.series == ("north", "south")
    assert labels.groups == ("y",)
    assert labels.padded.tolist() == [[False] * 5, [True, True, False, False, False]]
    assert labels.tokens(1)[:3] == ["before the first row", "before the first row", "2024-03-10 14:00:00"]
    assert np.abs(maps["layer 1"][1, :, :, 2:, :2]).max() == 0


def test_some_series_alone() -> None:
    model = forecaster().fit(long())
    maps, south = model.explain(), model.explain(series=["south"])
    assert south.series == ("south",)
    np.testing.assert_allclose(south["layer 1"][0], maps["layer 1"][1], rtol=1e-5, atol=1e-7)
    with pytest.raises(InputError, match=r"no series 'suoth'\. Did you mean 'south'"):
        model.explain(series=["suoth"])


def test_stamps_are_those_of_the_wall_clock() -> None:
    frame = wide()
    frame["date"] = frame["date"].dt.tz_localize("Asia/Kolkata")
    _, labels = explained("patchtst", frame)
    assert labels.ends is not None
    assert labels.ends[0, -1] == LAST


def test_integer_time_and_other_attention_keep_their_names() -> None:
    frame = wide().assign(date=np.arange(160))
    maps, labels = explained("patchtst", frame, attention="mica", settings={**SMALL, "patch": 12, "stride": 12})
    assert labels.tokens() == ["136", "148", "159"]
    assert list(maps["layer 1"]) == ["local", "cross"]
    assert maps["layer 1"]["cross"].shape == (1, 2, 2, 3, 2, 3)


def test_components_are_not_taken_for_columns() -> None:
    _, labels = explained("patchtst", settings={**SMALL, "adapters": ["decorrelate"]})
    assert labels.groups == ("component 1", "component 2")


def test_weights_are_those_of_the_rows_that_are_named() -> None:
    """Only what a token was cut from moves its row of keys; the stamps say which rows these are."""
    frame = wide()
    model = forecaster("patchtst", settings={**SMALL, "patch": 6, "stride": 6, "normalise": "none"}).fit(frame)
    maps = model.explain(frame)
    labels = maps.labels["layer 1"]
    assert labels.starts is not None
    assert labels.ends is not None
    token = 1
    within = frame["date"].between(pd.Timestamp(labels.starts[0, token]), pd.Timestamp(labels.ends[0, token]))
    assert within.sum() == 6
    changed = frame.assign(load=frame["load"].where(~within, frame["load"] * 2))
    moved = np.abs(model.explain(changed)["layer 1"] - maps["layer 1"])[0, 0].max(0)
    others = np.delete(np.arange(5), token)
    assert moved[token].max() > 1e-6
    # Rows of other queries change in proportion only: the shares among untouched keys stay as they were.
    kept = model.explain(changed)["layer 1"][0, 0][:, others][:, :, others]
    before = maps["layer 1"][0, 0][:, others][:, :, others]
    shares = [each / each.sum(-1, keepdims=True) for each in (kept, before)]
    np.testing.assert_allclose(shares[0], shares[1], rtol=1e-4)


def test_a_loaded_forecaster_explains_alike(tmp_path: Any) -> None:
    model = forecaster().fit(wide())
    model.save(tmp_path / "model")
    again = type(model).load(tmp_path / "model").explain()
    assert again.labels["layer 1"].tokens() == model.explain().labels["layer 1"].tokens()
    assert again["layer 1"].shape[3] == len(again.labels["layer 1"].tokens())
