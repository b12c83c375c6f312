"""A ridge regression on normalised windows: exact where it can be, equivariant, its own where that pays."""

import numpy as np
import pytest

from rearview.tasks import window_ridge
from rearview.tasks.window_ridge import RANKS, fit


def wave(length: int, period: int, phase: float = 0.0, noise: float = 0.0) -> np.ndarray:
    steps = np.arange(length)
    return 5 + np.sin(2 * np.pi * steps / period + phase) + np.random.default_rng(3).normal(0, noise, length)


def test_a_pure_wave_is_forecast_exactly() -> None:
    values = wave(400, 12)
    ridge = fit([values[:-12]], 24, 12, 12)
    assert ridge is not None
    np.testing.assert_allclose(ridge.forecast(values[:-12], 0, ())[:, 0], values[-12:], atol=1e-3)


def test_forecasts_move_with_scale_and_shift() -> None:
    values = wave(300, 12, noise=0.2)
    ridge = fit([values], 24, 6, 12)
    assert ridge is not None
    plain = ridge.forecast(values, 0, (80,))
    np.testing.assert_allclose(ridge.forecast(1000 * values - 7, 0, (80,)), 1000 * plain - 7, rtol=1e-9)


def test_intervals_are_as_wide_as_held_out_errors() -> None:
    values = wave(2000, 12, noise=0.3)
    ridge = fit([values[:1500]], 24, 1, 12)
    assert ridge is not None
    inside = []
    for end in range(1500, 1999):
        _, low, high = ridge.forecast(values[:end], 0, (80,))[0]
        inside.append(low <= values[end] <= high)
    assert 0.7 < np.mean(inside) < 0.9


def test_variables_get_their_own_coefficients_where_that_pays() -> None:
    twins = [wave(400, 12, phase, 0.05) for phase in (0.0, 1.0)]
    strangers = [wave(400, 12, 0.0, 0.05), np.tile([1.0, -1.0, 3.0, 0.0, 0.0], 80) + wave(400, 7, noise=0.05)]
    shared, apart = fit(twins, 20, 5, 1), fit(strangers, 20, 5, 1)
    assert shared is not None
    assert apart is not None
    assert len(apart.coefficients) > 1
    alone = fit(strangers, 20, 5, 1, own=False)
    assert alone is not None
    assert len(alone.coefficients) == 1


def test_what_is_too_short_is_not_fitted_and_short_pasts_are_padded() -> None:
    assert fit([np.arange(10.0)], 8, 4, 1) is None
    ridge = fit([wave(200, 12)], 24, 6, 12)
    assert ridge is not None
    assert np.isfinite(ridge.forecast(np.array([1.0, 2.0]), 0, (80,))).all()
    assert np.isfinite(ridge.forecast(np.zeros(30), 0, (80,))).all()


def test_quantiles_of_errors_are_read_between_those_that_are_kept() -> None:
    ridge = fit([wave(300, 12, noise=0.3)], 24, 3, 12)
    assert ridge is not None
    ranks, levels = np.arange(1, RANKS + 1) / (RANKS + 1), (0.001, 0.1, 0.5, 0.777, 0.999)
    expected = [[np.interp(level, ranks, step) for level in levels] for step in ridge.errors[0]]
    np.testing.assert_allclose(ridge._read_errors(0, levels), expected, rtol=1e-12)


def test_of_many_variables_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    series = [wave(80, 12, phase=number, noise=0.1) for number in range(9)]
    monkeypatch.setattr(window_ridge, "MOST_SERIES", 3)
    some, few = fit(series, 24, 6, 12), fit(series[::3], 24, 6, 12, own=False)
    assert some is not None
    assert few is not None
    np.testing.assert_array_equal(some.coefficients, few.coefficients)
    assert some.pools.tolist() == [0] * 9
