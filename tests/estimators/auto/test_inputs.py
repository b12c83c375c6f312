"""Inputs of every kind reach the members that have a place for them, are saved, and it is said who uses them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rearview import Forecaster
from rearview.data.panel_reader import load
from rearview.estimators.auto.effects import Effects
from rearview.estimators.auto.ensemble import Ensemble
from rearview.estimators.auto.portfolio import list_candidates
from rearview.estimators.auto.usage import list_used_inputs
from rearview.estimators.forecast.prediction import Fitted
from rearview.estimators.forecast.spec import ForecastSpec

HORIZON = 5
LIFTS = {"mall": {"none": 1.0, "flyer": 1.2, "tv": 1.5}, "street": {"none": 1.0, "flyer": 1.5, "tv": 2.0}}


def stores(count: int = 6, rows: int = 120) -> pd.DataFrame:
    """Stores of two kinds: those of the street answer more to promotions, and those of the mall grow."""
    rng, steps, parts = np.random.default_rng(0), np.arange(rows), []
    for n in range(count):
        kind = "street" if n % 2 else "mall"
        promo = np.array(["none", "flyer", "tv"])[rng.choice(3, rows, p=[0.7, 0.2, 0.1])]
        base = 50 + 10 * n + 8 * np.sin(2 * np.pi * steps / 7) + (0.3 * steps if kind == "mall" else 0)
        y = base * np.array([LIFTS[kind][one] for one in promo]) + rng.normal(0, 1, rows)
        facts = {"promo": promo, "heat": rng.normal(20, 3, rows), "kind": kind, "size": 100 + n}
        parts.append(
            pd.DataFrame({"unique_id": f"s{n}", "ds": pd.date_range("2024-01-01", periods=rows), "y": y, **facts})
        )
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def split() -> tuple[pd.DataFrame, pd.DataFrame]:
    whole = stores()
    last = whole["ds"].max() - pd.Timedelta(days=HORIZON)
    return whole[whole["ds"] <= last], whole[whole["ds"] > last]


def test_categories_are_forecast_with_and_used_on_new_series_of_their_kind(
    split: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    frame, ahead = split
    future = ahead[["unique_id", "ds", "promo"]]
    forecaster = Forecaster(horizon=HORIZON, known="promo", model="ridge").fit(frame)
    made = forecaster.predict(future=future)
    assert np.abs(made["ridge"].to_numpy() - ahead["y"].to_numpy()).mean() < 3
    forecaster.save(tmp_path / "model")
    loaded = Forecaster.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(future=future), made)
    pd.testing.assert_frame_equal(loaded.predict(frame, future=future), made, rtol=1e-5)
    panel = load(frame, known="promo")
    effects = Effects.fit(panel, (7,))
    for kind, shop in (("mall", "s0"), ("street", "s1")):
        rows = frame[frame["unique_id"] == shop].assign(unique_id="new", size=500)
        new = load(rows, known="promo", static=["kind", "size"], levels=panel.layout.levels)
        at, _ = effects.at(np.array([0]), new, np.array([[[0.0], [1.0]]]))
        assert np.exp(at[0, 0, 0]) == pytest.approx(LIFTS[kind]["tv"], rel=0.1)


def test_it_is_said_who_uses_what(split: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    frame, _ = split
    panel = load(frame, known="promo")
    forecaster = Forecaster(horizon=HORIZON, known="promo", model="ridge").fit(frame)
    assert list_used_inputs(forecaster.fitted, panel.layout) == ("promo", "kind", "size")
    assert list(forecaster.leaderboard()["inputs"]) == ["promo, kind, size"]
    assert isinstance(forecaster.fitted, Ensemble)
    assert any("'heat': past values of inputs are used by none" in note for note in forecaster.fitted.notes)


def test_past_inputs_of_several_series_bring_a_network_that_mixes_columns() -> None:
    frame = stores().drop(columns=["promo", "kind", "size"])
    spec = ForecastSpec(horizon=HORIZON)
    for given, networks in ((frame, {"patchtst", "itransformer"}), (frame.drop(columns="heat"), {"patchtst"})):
        tried = list_candidates(load(given), spec, (7,), quick=False, workers=1)
        assert {one.name for one in tried if one.trains} & {"patchtst", "itransformer"} == networks


def test_networks_with_a_place_read_what_describes_a_series(
    split: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    frame, _ = split
    quick = {"settings": {"width": 8, "heads": 2, "depth": 1}, "training": {"epochs": 2}, "lookback": 14}
    forecaster = Forecaster(model="itransformer", horizon=HORIZON, drop="promo", **quick).fit(frame)
    fitted = forecaster.fitted
    assert isinstance(fitted, Fitted)
    assert fitted.statics is not None
    assert list_used_inputs(fitted, forecaster.tail.layout) == ("heat", "kind", "size")
    made = forecaster.predict()
    forecaster.save(tmp_path / "model")
    loaded = Forecaster.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(), made)
    # The same rows of another kind of store are forecast otherwise.
    other = frame.assign(kind=frame["kind"].map({"mall": "street", "street": "mall"}))
    assert np.abs(loaded.predict(other)["itransformer"] - loaded.predict(frame)["itransformer"]).max() > 1e-6
    alone = Forecaster(model="patchtst", horizon=HORIZON, drop=["promo", "heat"], **quick).fit(frame)
    assert isinstance(alone.fitted, Fitted)
    assert alone.fitted.statics is None
    assert any("has no place for what describes the series (kind, size)" in note for note in alone.fitted.notes)
