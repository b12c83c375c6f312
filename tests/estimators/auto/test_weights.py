"""Weights follow losses: the best leads, hopeless members have none, few windows count for little."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rearview.estimators.auto.weights import choose_weights, combine, measure_losses, tilt_weights


def losses(*members: float, windows: int = 5, variables: int = 3) -> np.ndarray:
    return np.broadcast_to(np.array(members)[:, None, None], (len(members), windows, variables)).copy()


def weigh(losses: np.ndarray, *prior: float) -> np.ndarray:
    """Weights; without priors, of members that are alike before the backtest."""
    return choose_weights(losses, np.array(prior or [1.0] * len(losses)))


def test_equal_members_share_equally_and_rows_sum_to_one() -> None:
    weights = weigh(losses(1.0, 1.0, 1.0))
    np.testing.assert_allclose(weights, 1 / 3)


def test_a_better_member_has_more_and_a_hopeless_one_nothing() -> None:
    weights = weigh(losses(1.0, 1.2, 4.0))
    np.testing.assert_allclose(weights.sum(1), 1)
    assert (weights[:, 0] > weights[:, 1]).all()
    assert (weights[:, 2] == 0).all()


def test_a_variable_is_weighted_by_its_own_losses_as_far_as_it_has_windows() -> None:
    table = losses(1.0, 1.0, variables=10)
    table[0, :, 0], table[1, :, 0] = 1.3, 1.0
    long = weigh(table)
    assert long[0, 0] < 0.5 < long[1, 0] + 0.1
    short = weigh(table[:, :1])
    assert abs(short[0, 0] - 0.5) < abs(long[0, 0] - 0.5)


def test_a_member_for_one_variable_in_many_is_not_worth_its_time() -> None:
    table = losses(1.0, 2.0, variables=40)
    table[0, :, 0], table[1, :, 0] = 4.0, 1.0
    weights = weigh(table)
    assert (weights[:, 1] == 0).all()
    np.testing.assert_allclose(weights.sum(1), 1)


def test_few_windows_draw_weights_together() -> None:
    few, many = weigh(losses(1.0, 1.4, windows=1, variables=1)), weigh(losses(1.0, 1.4, windows=50))
    assert few[0, 0] < many[0, 0]


def test_priors_decide_between_members_that_lose_the_same_and_losses_overrule_them() -> None:
    np.testing.assert_allclose(weigh(losses(1.0, 1.0), 3.0, 1.0), [[0.75, 0.25]] * 3)
    late = weigh(losses(1.3, 1.0, windows=20), 3.0, 1.0)
    assert (late[:, 0] < late[:, 1]).all()


@pytest.mark.parametrize("lost", [np.nan, 0.0])
def test_a_variable_without_losses_has_the_common_weights(lost: float) -> None:
    table = losses(1.0, 1.3)
    table[:, :, 2] = lost
    weights = weigh(table)
    assert np.isfinite(weights).all()
    assert weights[2, 0] > weights[2, 1] > 0


def test_combined_bounds_are_weighted_and_missing_cells_left_out() -> None:
    means = [np.array([[1.0, 2.0]]), np.array([[3.0, np.nan]])]
    bounds = [{80.0: (mean - 1, mean + 1)} for mean in means]
    point, intervals = combine(means, bounds, [80.0], np.array([[0.25, 0.75]]))
    assert point.tolist() == [[2.5, 2.0]]
    assert intervals[80.0][0].tolist() == [[1.5, 1.0]]


def test_members_that_agree_are_combined_without_rounding() -> None:
    means, weights = [np.full((20, 3), 42.0)] * 4, np.random.default_rng(0).dirichlet(np.ones(4), size=20)
    point, intervals = combine(means, [{80.0: (mean, mean)} for mean in means], [80.0], weights)
    for cells in (point, *intervals[80.0]):
        np.testing.assert_array_equal(cells, 42.0)


def test_what_no_window_saw_is_weighed_without_a_warning() -> None:
    y = np.ones((2, 2, 3))
    y[:, 1] = np.nan
    backtest: Any = SimpleNamespace(y=y, mean=0 * y, intervals={}, absolute=np.full(2, np.nan))
    assert np.isnan(measure_losses([backtest])[0, :, 1]).all()


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_weights_do_not_depend_on_the_scale_of_losses(scale: float) -> None:
    np.testing.assert_allclose(weigh(scale * losses(1.0, 1.2)), weigh(losses(1.0, 1.2)))


def test_a_member_without_losses_of_a_variable_counts_there_by_those_it_shares() -> None:
    table = losses(1.0, 1.0, 1.0, variables=10)
    table[0, :, :2], table[1, :, :2] = 1.3, 0.7
    table[2, :, 1] = np.nan
    weights = weigh(table)
    assert weights[1, 0] < weights[1, 2] < weights[1, 1]
    np.testing.assert_allclose(weights[1], weights[0], atol=0.02)


def test_weights_that_all_share_are_tilted_by_a_variables_own_losses() -> None:
    common, table = np.array([0.75, 0.25]), losses(1.0, 1.2, variables=10)
    np.testing.assert_allclose(tilt_weights(common, table), np.tile(common, (10, 1)), atol=0.01)
    table[:, :, 0] = 3 * table[::-1, :, 0]
    table[:, :, 1] = np.nan
    tilted = tilt_weights(common, table)
    assert tilted[0, 0] < 0.7
    np.testing.assert_allclose(tilted.sum(axis=1), 1)
    np.testing.assert_allclose(tilted[1], common)
