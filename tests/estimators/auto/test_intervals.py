"""Intervals of a portfolio grow or shrink to what its backtests ask for, once, by the last windows above all."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from rearview import Forecaster
from rearview.data.panel_reader import load
from rearview.data.windows import Windows, final_windows
from rearview.estimators.auto import fit as portfolio
from rearview.estimators.auto.ensemble import Ensemble, trim_levels
from rearview.estimators.auto.weights import combine
from rearview.estimators.forecast.backtest import Backtest, select_columns
from rearview.estimators.forecast.stretch import (
    MOST_STRETCH,
    TRUSTED,
    find_count_floors,
    measure_stretch,
    stretch_bounds,
)


def backtest(errors: np.ndarray) -> Backtest:
    """A backtest of errors [window, variable, step] whose 80 % interval reaches 1 to both sides."""
    windows, variables, _ = errors.shape
    zeros = np.zeros_like(errors)
    return Backtest(
        names=tuple(map(str, range(variables))),
        cutoffs=np.zeros((windows, variables), dtype=np.int64),
        stamps=zeros.astype(np.int64),
        y=errors,
        mean=zeros,
        intervals={80.0: (zeros - 1, zeros + 1)},
        absolute=np.ones(variables),
        squared=np.ones(variables),
        rounding=np.zeros(variables),
        fitted=None,  # type: ignore[arg-type]
        notes=(),
    )


def spread(reach: float, windows: int = 4, variables: int = 50) -> np.ndarray:
    """Errors evenly spread up to a reach, so that 80 % of them lie within 0.8 of it."""
    return np.broadcast_to(np.linspace(0, reach, 100) * (-1) ** np.arange(100), (windows, variables, 100)).copy()


@pytest.mark.parametrize("reach", [0.8, 1.25, 2.5])
@pytest.mark.parametrize("windows", [1, 5, 90])
def test_the_factor_is_what_the_truths_needed_as_far_as_there_are_windows(reach: float, windows: int) -> None:
    factor = measure_stretch(backtest(spread(reach, windows)), [80.0])[80.0]
    assert factor ** (1 + TRUSTED / windows) == pytest.approx(0.8 * reach, rel=0.03)


def test_variables_of_one_window_are_no_further_windows() -> None:
    one, many = (measure_stretch(backtest(spread(2.5, 2, variables)), [80.0])[80.0] for variables in (1, 50))
    assert one == pytest.approx(many, rel=0.01)


def test_the_last_windows_count_for_more() -> None:
    calm, wild = spread(1.25, windows=2), spread(2.5, windows=2)
    late = measure_stretch(backtest(np.concatenate([calm, wild])), [80.0])[80.0]
    early = measure_stretch(backtest(np.concatenate([wild, calm])), [80.0])[80.0]
    assert early < late


def test_one_wild_backtest_does_not_blow_intervals_up() -> None:
    assert measure_stretch(backtest(spread(1e6)), [80.0])[80.0] <= MOST_STRETCH


def test_nothing_to_go_by_leaves_intervals_alone() -> None:
    assert measure_stretch(backtest(np.full((2, 3, 5), np.nan)), [80.0]) == {80.0: 1.0}


def test_members_are_combined_with_their_own_intervals_and_stretched_once() -> None:
    rng, steps = np.random.default_rng(0), np.arange(90)
    values = 100 + 10 * np.sin(2 * np.pi * steps / 12) + rng.normal(0, 2, 90)
    frame = pd.DataFrame({"ds": pd.date_range("2015-01-01", periods=90, freq="MS"), "y": values})
    forecaster = Forecaster(horizon=4, level=80).fit(frame, quick=True)
    fitted, tail = forecaster.fitted, forecaster.tail
    assert isinstance(fitted, Ensemble)
    made = [one.predict(select_columns(tail, one), final_windows(tail), (80.0,)) for one in fitted.members]
    point, bounds = combine(
        [one.mean for one in made], [one.intervals for one in made], [80.0], fitted.weights[None]
    )  # fmt: skip
    low = point - fitted.stretch[80.0] * (point - bounds[80.0][0])
    np.testing.assert_allclose(forecaster.predict()["y-lo-80"], low.ravel(), rtol=1e-9)


@pytest.mark.parametrize("side", ["floor", "ceiling"])
def test_nothing_lies_beyond_a_limit_that_the_series_rests_on(monkeypatch: pytest.MonkeyPatch, side: str) -> None:
    monkeypatch.setattr(portfolio, "measure_stretch", lambda backtest, levels: dict.fromkeys(levels, 3.0))
    monkeypatch.setattr(
        portfolio, "stretch_backtest", lambda one, levels: stretch_three_times(trim_levels(one, levels))
    )
    rng, days = np.random.default_rng(0), pd.date_range("2024-01-01", periods=90)
    units, free = rng.poisson(0.7, 90) + 4.0, 4 + rng.normal(0, 1, 90)
    sign, end = (1, "lo") if side == "floor" else (-1, "hi")
    frame = pd.concat(
        pd.DataFrame({"unique_id": name, "ds": days, "y": sign * y})
        for name, y in (("a", units), ("b", free), ("c", units))
    )
    forecaster = Forecaster(horizon=6, level=[80, 99]).fit(frame, quick=True)
    made = (sign * forecaster.predict().set_index("unique_id").drop(columns="ds")).groupby("unique_id").min()
    assert made.loc[["a", "c"], f"auto-{end}-99"].tolist() == [4.0, 4.0]
    assert made.loc["a", "auto"] >= 4.0
    assert made.loc["b", f"auto-{end}-99"] < 0
    assert forecaster.portfolio is not None
    test = forecaster.portfolio.backtest
    assert test is not None
    ends = (sign * test.intervals[99.0][0 if sign > 0 else 1]).min(axis=(0, 2))
    assert ends[0] == ends[2] == 4.0
    assert ends[1] < 0


@pytest.mark.parametrize("rows", [3, 5, 8, 16, 31])
@pytest.mark.parametrize("model", ["glance", "auto"])
def test_a_few_counts_have_nothing_below_0(model: str, rows: int) -> None:
    rng, days = np.random.default_rng(rows), pd.date_range("2024-01-01", periods=rows)
    kinds = {
        "counts": rng.poisson(2, rows),
        "falling": np.maximum(0, 3 * rows - 3 * np.arange(rows)),
        "amounts": np.where(np.arange(rows) % 2, 0.4 + rng.random(rows), 0.0) * (np.arange(rows) != 1),
        "rates": 0.1 + rng.random(rows),
    }
    frame = pd.DataFrame({"ds": days, **kinds})
    forecaster = Forecaster(model=model, horizon=5, level=[80, 99])
    made = forecaster.fit(frame, **({"quick": True} if model == "auto" else {})).predict()
    for name in ("counts", "falling", "amounts"):
        assert made[[name, f"{name}-lo-80", f"{name}-lo-99", f"{name}-hi-80"]].min().min() >= 0, name
    assert made["rates-lo-99"].min() < 0


def test_few_whole_numbers_or_two_zeros_tell_counts_and_amounts() -> None:
    def floors(*values: float) -> list[float]:
        panel = load(np.array(values))
        which = Windows(np.array([len(values)]), np.array([0]))
        return find_count_floors(panel, which, 1).ravel().tolist()

    assert floors(*range(31)) == [0.0]
    assert floors(*range(32)) == [-np.inf]
    assert floors(0, -1, 2, 3, 4) == [-np.inf]
    assert floors(3, 1, 2, 3.5, 4) == [-np.inf]
    assert floors(0, 1.25, 2, 0, 4) == [0.0]
    assert floors(0, 1.25, 2, 0.5, 4) == [-np.inf]
    assert floors(1e9, 2e9 + 0.4, 5, 300, 900) == [-np.inf]
    assert floors(1e9, 2e9 + 0.4, 0, 0, 900) == [0.0]
    assert floors(*np.sin(np.arange(40)), 1e9) == [-np.inf]
    assert floors(*np.arange(0.5, 40), 0) == [-np.inf]
    assert floors(0, *np.arange(0.5, 40), 0) == [-np.inf]  # a rate that was 0 twice may turn
    assert floors(0, 0, *np.arange(0.5, 40), 0) == [0.0]  # as before a launch
    assert floors(0, *range(1, 40), 0) == [0.0]
    assert floors(0, *np.arange(0.5, 40), 0, -1) == [-np.inf]
    assert floors(70_001, 3, 5, 60_007, 9) == [0.0]
    assert floors(3, np.nan, 2, 5, 1) == [0.0]


def stretch_three_times(one: Backtest) -> Backtest:
    return replace(one, intervals=stretch_bounds(one.mean, one.intervals, dict.fromkeys(one.intervals, 3.0)))
