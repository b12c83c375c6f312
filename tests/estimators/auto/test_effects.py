"""Known inputs: what they explain is found, put on the forecast, saved, and left alone where it is chance."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rearview import Forecaster
from rearview.core.errors import InputError
from rearview.data.holidays import ANY
from rearview.data.panel_reader import load
from rearview.estimators.auto.effects import Effects, WithEffects
from rearview.estimators.auto.ensemble import Ensemble
from rearview.estimators.auto.portfolio import panel_seasons

HORIZON = 28


def promoted(rows: int = 300, lift: float = 0.8) -> pd.DataFrame:
    """Daily sales with a weekly season, noise of 5, and promotions of two to five days."""
    rng, steps = np.random.default_rng(3), np.arange(rows)
    promo = np.zeros(rows)
    for start in rng.choice(rows - 5, rows // 18, replace=False):
        promo[start : start + rng.integers(2, 6)] = 1
    promo[-10:-5] = 1
    base = 100 + 0.03 * steps + 15 * np.sin(2 * np.pi * steps / 7)
    sales = base * (1 + lift * promo) + rng.normal(0, 5, rows)
    return pd.DataFrame({"date": pd.date_range("2023-01-01", periods=rows), "sales": sales, "promo": promo})


def closed_on_holidays(rows: int = 800) -> pd.DataFrame:
    """Daily sales of Bavaria that fall to two fifths on holidays, on Christmas Day to a fifth."""
    panel = load(
        pd.DataFrame({"date": pd.date_range("2021-11-15", periods=rows), "y": np.arange(float(rows))}), holidays="DE-BY"
    )
    cells = panel.original(slice(0, rows), 0)
    rng, steps = np.random.default_rng(1), np.arange(rows)
    factor = np.where(cells[:, panel.columns.index(ANY)] > 0, 0.4, 1.0)
    factor[cells[:, panel.columns.index("holiday: Christmas Day")] > 0] = 0.2
    sales = (200 + 20 * np.sin(2 * np.pi * steps / 7)) * factor + rng.normal(0, 5, rows)
    return pd.DataFrame({"date": pd.date_range("2021-11-15", periods=rows), "sales": sales})


def error(made: pd.DataFrame, truth: pd.DataFrame) -> float:
    return float(np.abs(made["sales"].to_numpy() - truth["sales"].to_numpy()).mean())


def test_a_promotion_that_lifts_sales_by_80_percent_is_forecast_as_well_as_by_regression(tmp_path: Path) -> None:
    whole = promoted()
    frame, ahead = whole[:-HORIZON], whole[-HORIZON:]
    informed = Forecaster(horizon=HORIZON, known="promo").fit(frame, quick=True)
    made = informed.predict(future=ahead[["date", "promo"]])
    informed.save(tmp_path / "model")
    loaded = Forecaster.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(future=ahead[["date", "promo"]]), made)
    got = error(made, ahead)
    steps, promo = np.arange(len(whole)), whole["promo"].to_numpy()
    week = np.eye(7)[steps % 7]
    design = np.column_stack([steps, week, week * promo[:, None]])
    fitted = np.linalg.lstsq(design[:-HORIZON], frame["sales"], rcond=None)[0]
    regression = float(np.abs(design[-HORIZON:] @ fitted - ahead["sales"]).mean())
    blind = Forecaster(horizon=HORIZON, drop="promo", model="ridge").fit(frame)
    assert regression < 5
    assert got < 1.4 * regression
    assert got < 0.4 * error(blind.predict(), ahead)


def test_a_lift_in_percent_is_a_factor_and_one_in_units_adds() -> None:
    frame = promoted()
    effects = Effects.fit(load(frame, known="promo"), (7,))
    assert effects.factor.tolist() == [[True]]
    assert float(np.exp(effects.coefficients[0, 0, 0])) == pytest.approx(1.8, abs=0.05)
    base = 400 * np.abs(np.sin(np.arange(len(frame)) / 30)) + 300
    frame["sales"] = base + 60 * frame["promo"] + np.random.default_rng(0).normal(0, 3, len(frame))
    effects = Effects.fit(load(frame, known="promo"), (7,))
    assert effects.factor.tolist() == [[False]]
    assert effects.coefficients[0, 0, 0] == pytest.approx(60, abs=3)


def test_rows_before_a_launch_tell_no_effect_and_show_none() -> None:
    frame, idle = promoted(), 211
    frame.loc[: idle - 1, "sales"] = 0.0
    panel, since = load(frame, known="promo"), load(frame[idle:], known="promo")
    effects, wanted = (Effects.fit(one, (7,)) for one in (panel, since))
    assert effects.factor.tolist() == [[True]]
    np.testing.assert_allclose(effects.coefficients, wanted.coefficients, rtol=1e-4)
    cleared = effects.remove(panel).original(slice(0, 300), 0)[:, 0]
    np.testing.assert_allclose(cleared[:idle], 0, atol=1e-4)
    assert (cleared[:idle] == cleared[0]).all()  # so that the launch is seen
    np.testing.assert_allclose(cleared[idle:], wanted.remove(since).original(slice(0, 89), 0)[:, 0], rtol=1e-4)


def test_a_season_is_found_behind_promotions() -> None:
    panel = load(promoted(), known="promo")
    assert panel_seasons(panel, None) == (7,)
    hidden = load(promoted(), target="sales", drop="promo")
    assert panel_seasons(hidden, None) != (7,)


def test_chance_is_no_effect() -> None:
    frame = promoted(lift=0.0)
    effects = Effects.fit(load(frame, known="promo", holidays="DE"), (7,))
    assert not effects.coefficients.any()


def test_holidays_are_found_forecast_saved_and_used_on_new_rows(tmp_path: Path) -> None:
    whole = closed_on_holidays()
    frame, ahead = whole[:-HORIZON], whole[-HORIZON:]
    assert ahead["date"].iloc[-1] > pd.Timestamp("2024-01-06")
    informed = Forecaster(horizon=HORIZON, holidays="DE-BY", model="ridge").fit(frame)
    made = informed.predict()
    blind = Forecaster(horizon=HORIZON, model="ridge").fit(frame).predict()
    assert error(made, ahead) < 8
    assert error(made, ahead) < 0.6 * error(blind, ahead)
    informed.save(tmp_path / "model")
    loaded = Forecaster.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(), made)
    # New rows are read with the holidays of training, whichever of them they hold.
    later = loaded.predict(frame.iloc[200:-60])
    truth = whole[len(frame) - 60 : len(frame) - 60 + HORIZON]
    assert error(later, truth) < 8


def test_a_holiday_seen_seldom_goes_with_the_others() -> None:
    effects = Effects.fit(panel := load(closed_on_holidays(), holidays="DE-BY"), (7,))
    weights = dict(zip(panel.known_names, effects.coefficients[0, 0].tolist(), strict=True))

    def left(effect: float) -> float:
        """The share of usual sales."""
        return float(np.exp(effect)) if effects.factor[0, 0] else 1 + effect / 200

    assert left(weights[ANY]) == pytest.approx(0.4, abs=0.08)  # what a holiday never seen would have
    assert left(weights[ANY] + weights["holiday: Good Friday"]) == pytest.approx(0.4, abs=0.05)
    assert left(weights[ANY] + weights["holiday: Christmas Day"]) < 0.3


def test_holidays_of_hours_last_a_day() -> None:
    hours = pd.date_range("2024-03-01", periods=24 * 100, freq="h")
    rng = np.random.default_rng(0)
    holiday = hours.normalize().isin(
        pd.to_datetime(["2024-03-29", "2024-04-01", "2024-05-01", "2024-05-09", "2024-05-20"])
    )
    load_ = (50 + 10 * np.sin(2 * np.pi * hours.hour / 24)) * np.where(holiday, 0.7, 1) + rng.normal(0, 1.5, len(hours))
    effects = Effects.fit(panel := load(pd.DataFrame({"time": hours, "load": load_}), holidays="DE"), (24,))
    weights = dict(zip(panel.known_names, effects.coefficients[0, 0].tolist(), strict=True))
    usual = weights[ANY] + weights["holiday: Labor Day"]
    assert (np.exp(usual) if effects.factor[0, 0] else 1 + usual / 50) == pytest.approx(0.7, abs=0.07)


def test_holidays_beside_other_known_inputs_need_the_future_of_those_alone() -> None:
    frame = promoted(200)
    informed = Forecaster(horizon=7, known="promo", holidays="DE", model="ridge").fit(frame)
    with pytest.raises(InputError, match="The values of promo are known in the future"):
        informed.predict()
    ahead = pd.DataFrame({"date": pd.date_range("2023-07-20", periods=7), "promo": [0, 0, 1, 1, 0, 0, 0]})
    made = informed.predict(future=ahead)
    assert made["sales"][2:4].min() > 1.4 * made["sales"][:2].max()
    assert isinstance(informed.fitted, Ensemble)
    assert all(isinstance(member, WithEffects) for member in informed.fitted.members)
