"""Forecast errors by hand and against literal loops, with NaN where nothing was observed."""

import math

import numpy as np
import pytest

from rearview.tasks import metrics

WINDOWS, SERIES, STEPS = 3, 5, 7


@pytest.fixture
def cells() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    y, yhat = rng.normal(3, 2, (WINDOWS, SERIES, STEPS)), rng.normal(3, 2, (WINDOWS, SERIES, STEPS))
    y[rng.random(y.shape) < 0.3] = np.nan
    yhat[1, 2] = np.nan  # a series that had not begun
    y[:, 4] = np.nan  # a series of which nothing was seen
    return y, yhat


def pairs(y: np.ndarray, yhat: np.ndarray) -> list[tuple[float, float]]:
    return [(a, b) for a, b in zip(y.ravel(), yhat.ravel(), strict=True) if not math.isnan(a) and not math.isnan(b)]


def test_by_hand() -> None:
    y, yhat = np.array([[[1.0, 2.0, np.nan]]]), np.array([[[2.0, 4.0, 9.0]]])
    assert metrics.mse(y, yhat) == pytest.approx((1 + 4) / 2)
    assert metrics.mae(y, yhat) == pytest.approx(1.5)
    assert metrics.smape(y, yhat) == pytest.approx((200 / 3 + 200 * 2 / 6) / 2)
    assert metrics.mase(y, yhat, np.array([0.5])) == pytest.approx(3.0)
    assert metrics.rmsse(y, yhat, np.array([0.4])) == pytest.approx(math.sqrt(2.5 / 0.4))
    assert metrics.coverage(y, yhat - 1, yhat + 1) == 0.5


def test_mse_mae_smape_against_loops(cells: tuple[np.ndarray, np.ndarray]) -> None:
    seen = pairs(*cells)
    assert 0 < len(seen) < cells[0].size
    assert metrics.mse(*cells) == pytest.approx(sum((a - b) ** 2 for a, b in seen) / len(seen))
    assert metrics.mae(*cells) == pytest.approx(sum(abs(a - b) for a, b in seen) / len(seen))
    expected = sum(200 * abs(a - b) / (abs(a) + abs(b)) for a, b in seen) / len(seen)
    assert metrics.smape(*cells) == pytest.approx(expected)


@pytest.mark.parametrize("square", [False, True])
def test_scaled_errors_against_loops(cells: tuple[np.ndarray, np.ndarray], square: bool) -> None:
    y, yhat = cells
    scale = np.array([0.5, 2.0, 1.5, np.nan, 3.0])  # the fourth has no scale, the fifth no observed cell
    ratios = []
    for s in range(SERIES):
        errors = [(a - b) ** 2 if square else abs(a - b) for a, b in pairs(y[:, s], yhat[:, s])]
        if errors and not math.isnan(scale[s]):
            ratio = sum(errors) / len(errors) / scale[s]
            ratios.append(math.sqrt(ratio) if square else ratio)
    assert len(ratios) == 3
    found = metrics.rmsse(y, yhat, scale) if square else metrics.mase(y, yhat, scale)
    assert found == pytest.approx(sum(ratios) / 3)


def test_smape_of_zeros_is_zero() -> None:
    zero = np.zeros((1, 1, 2))
    assert metrics.smape(zero, zero) == 0.0
    assert metrics.smape(zero, np.array([[[0.0, 1.0]]])) == pytest.approx(100.0)


def test_pinball(cells: tuple[np.ndarray, np.ndarray]) -> None:
    y, yhat = cells
    assert metrics.pinball(y, {0.5: yhat}) == pytest.approx(metrics.mae(y, yhat))
    forecasts = {0.1: yhat - 1, 0.9: yhat + 1}
    losses = [
        sum(max(q * (a - b), (q - 1) * (a - b)) for a, b in pairs(y, f)) / len(pairs(y, f))
        for q, f in forecasts.items()
    ]
    assert metrics.pinball(y, forecasts) == pytest.approx(2 * sum(losses) / 2)
    assert math.isnan(metrics.pinball(y, {}))


def test_coverage_counts_observed_values_only() -> None:
    y = np.array([[[0.0, 1.0, 2.0, np.nan]]])
    assert metrics.coverage(y, y * 0, y * 0 + 1) == pytest.approx(2 / 3)
    assert metrics.coverage(y, y * 0, y * 0 + 1, np.array([[1.0]])) == 1.0
    assert math.isnan(metrics.coverage(y * np.nan, y, y))
    assert math.isnan(metrics.coverage(y, y * np.nan, y * np.nan))


def test_nothing_observed_is_nan_and_no_warning() -> None:
    nothing = np.full((1, 1, 3), np.nan)
    for error in (metrics.mse, metrics.mae, metrics.smape):
        assert math.isnan(error(nothing, nothing))
    assert math.isnan(metrics.mase(nothing, nothing, np.ones(1)))
    assert math.isnan(metrics.rmsse(nothing, nothing, np.full(1, np.nan)))


@pytest.mark.parametrize("square", [False, True])
def test_scale_of_the_seasonal_naive_forecast(square: bool) -> None:
    history = np.array([[1.0, 2.0, 4.0, 8.0, np.nan, 3.0], [5.0] * 6, [np.nan] * 6])
    found = metrics.naive_scale(history, 2, square)
    changes = [4 - 1, 8 - 2, 3 - 8]
    power = 2 if square else 1
    assert found[0] == pytest.approx(sum(abs(change) ** power for change in changes) / 3)
    assert np.isnan(found[1:]).all()


def test_a_history_shorter_than_two_seasons_is_compared_with_its_last_value() -> None:
    assert metrics.naive_scale(np.array([[1.0, 2.0, 4.0]]), 2)[0] == pytest.approx(1.5)


def test_deviation_by_hand() -> None:
    history = np.array([[1.0, 3.0, np.nan, 8.0], [np.nan] * 4, [7.0] * 4])
    assert metrics.deviation(history).tolist() == pytest.approx([(3 + 1 + 4) / 3, 0.0, 0.0])
