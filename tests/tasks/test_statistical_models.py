"""Statistical models forecast each series, alone or by several processes, and fall back on the naive forecast."""

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rearview.tasks import statistical_models
from rearview.tasks.statistical_models import NAMES, Name, fit_and_forecast

LEVELS = (80.0, 97.5)


def monthly(seed: int = 0, length: int = 96) -> np.ndarray:
    steps = np.arange(length)
    return 100 + steps + 10 * np.sin(2 * np.pi * steps / 12) + np.random.default_rng(seed).normal(0, 1, length)


@pytest.mark.parametrize("name", NAMES)
def test_a_trend_with_a_season_goes_on(name: Name) -> None:
    [made], failed = fit_and_forecast(name, [monthly()[:84]], 12, (12,), LEVELS)
    assert failed == 0
    assert made.shape == (12, 5)
    point, low, high, lower, upper = made.T
    assert (lower < low).all()
    assert (low < point).all()
    assert (point < high).all()
    assert (high < upper).all()
    assert np.abs(point - monthly()[84:]).mean() < {"seasonal_naive": 16, "theta": 10}.get(name, 6)


def test_the_naive_forecast_repeats_the_last_season_and_widens_with_every_one() -> None:
    past = np.tile([1.0, 2, 3, 4], 6) + np.arange(24) // 4
    [made], _ = fit_and_forecast("seasonal_naive", [past], 9, (4,), (80.0,))
    assert made[:4, 0].tolist() == past[-4:].tolist()
    width = made[:, 2] - made[:, 1]
    np.testing.assert_allclose(width[:4], width[0])
    assert width[0] < width[4] < width[8]


def test_a_fit_that_breaks_is_naive_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError

    monkeypatch.setattr(statistical_models, "_fit", fail)
    made, failed = fit_and_forecast("ets", [monthly(), monthly(1)], 3, (12,), ())
    assert failed == 2
    assert made[0].ravel().tolist() == monthly()[-12:-9].tolist()


@pytest.mark.parametrize("name", ["ets", "mstl"])
def test_one_giant_value_does_not_make_intervals_explode(name: Name) -> None:
    past = np.random.default_rng(2).poisson(20, 25).astype(float)
    past[13] = 5000
    [made], failed = fit_and_forecast(name, [past], 11, (), LEVELS)
    assert failed == 0
    assert np.abs(made).max() < 50 * np.ptp(past)


@pytest.mark.parametrize(("last", "far"), [(409.9, False), (-390.1, True), (np.nan, True)])
def test_a_forecast_reaches_too_far_beyond_what_slopes_that_wander_can_do(last: float, far: bool) -> None:
    steps = np.array([[10.0, 9.0], [10.0, last], [10.0, 10.0], [10.0, 10.0]])
    assert statistical_models.reaches_too_far(steps, np.array([5.0, 7.0, 10.0])) is far


@pytest.mark.parametrize("past", [np.zeros(30), np.array([5.0]), np.array([1.0, 2.0]), 1e12 + np.arange(20.0)])
def test_constant_short_and_large_series_have_a_forecast(past: np.ndarray) -> None:
    for name in NAMES:
        [made], _ = fit_and_forecast(name, [past], 4, (12,), (80.0,))
        assert np.isfinite(made).all()


def test_processes_share_the_series_and_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistical_models, "SHARING", 0.0)
    pasts = [monthly(seed, 40 + seed) for seed in range(6)]
    alone, _ = fit_and_forecast("theta", pasts, 3, (12,), LEVELS)
    shared, failed = fit_and_forecast("theta", pasts, 3, (12,), LEVELS, workers=2)
    assert failed == 0
    for one, other in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(one, other)


def test_machines_of_ray_share_them_where_it_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[int] = []

    def remote(function: Callable[..., Any]) -> SimpleNamespace:
        def run(name: Name, part: list[np.ndarray], *rest: Any) -> Any:
            parts.append(len(part))
            return function(name, part, *rest)

        return SimpleNamespace(remote=run)

    ray = SimpleNamespace(
        is_initialized=lambda: True, cluster_resources=lambda: {"CPU": 3.0}, remote=remote, get=lambda made: made
    )
    monkeypatch.setattr(statistical_models, "SHARING", 0.0)
    pasts = [monthly(seed, 40 + seed) for seed in range(8)]
    alone, _ = fit_and_forecast("theta", pasts, 3, (12,), LEVELS)
    monkeypatch.setitem(sys.modules, "ray", ray)
    shared, failed = fit_and_forecast("theta", pasts, 3, (12,), LEVELS, workers=2)
    assert parts == [2, 2, 1]  # of the five that are left when the first three have been timed
    assert failed == 0
    for one, other in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(one, other)
