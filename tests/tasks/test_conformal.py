"""Split-conformal intervals: ranks by hand, nested levels, pooled neighbours, coverage."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rearview.tasks.conformal import Residuals, residuals_needed


def residuals_of(*steps: list[float]) -> Residuals:
    """One pool, one list of residuals a step."""
    most = max(map(len, steps))
    cells = np.full((1, most, len(steps)), np.nan, dtype=np.float32)
    for step, values in enumerate(steps):
        cells[0, : len(values), step] = values
    return Residuals.of(cells)


@pytest.mark.parametrize(("level", "count"), [(80, 9), (90, 19), (95, 39), (99, 199), (50, 3)])
def test_residuals_needed(level: float, count: int) -> None:
    assert residuals_needed(level) == count
    tail = (1 - level / 100) / 2
    assert (count + 1) * tail == pytest.approx(1)


def test_ranks_by_hand() -> None:
    # 19 residuals 1 .. 19: 80 % takes ranks floor(20 * 0.1) = 2 and ceil(20 * 0.9) = 18, 90 % takes 1 and 19.
    found = residuals_of([float(value) for value in range(19, 0, -1)])
    assert found.counts.tolist() == [[19]]
    low, high, pooled = found.bounds(80)
    assert (low[0, 0], high[0, 0], pooled) == (2.0, 18.0, 0)
    low, high, pooled = found.bounds(90)
    assert (low[0, 0], high[0, 0], pooled) == (1.0, 19.0, 0)


def test_signs_are_kept() -> None:
    low, high, _ = residuals_of([float(value) for value in range(10, 19)]).bounds(80)
    assert low[0, 0] == 10.0
    assert high[0, 0] == 18.0


def test_too_few_residuals_take_their_neighbours() -> None:
    steps = [[1.0, 2.0, 3.0], [11.0, 12.0, 13.0], [21.0, 22.0, 23.0], [31.0, 32.0, 33.0], [41.0, 42.0, 43.0]]
    low, high, pooled = residuals_of(*steps).bounds(80)
    # Nine are needed: step 2 takes one neighbour on each side, the ends two on the one side they have.
    assert pooled == 2
    assert (low[0, 2], high[0, 2]) == (11.0, 33.0)
    assert (low[0, 0], high[0, 0]) == (1.0, 23.0)


def test_all_steps_together_may_still_be_too_few() -> None:
    low, high, pooled = residuals_of([1.0], [5.0], [3.0]).bounds(95)
    assert pooled == 3
    assert (low.min(), low.max(), high.min(), high.max()) == (1.0, 1.0, 5.0, 5.0)


def test_one_residual_is_a_bound_of_its_own() -> None:
    low, high, pooled = residuals_of([2.0]).bounds(80)
    assert (low[0, 0], high[0, 0], pooled) == (2.0, 2.0, 1)


def test_a_step_without_any_residual_takes_its_neighbours_and_nothing_stays_nothing() -> None:
    low, high, _ = residuals_of([float(value) for value in range(9)], []).bounds(80)
    assert (low[0, 1], high[0, 1]) == (0.0, 8.0)
    nothing = Residuals.of(np.full((1, 3, 2), np.nan, dtype=np.float32))
    assert nothing.empty.tolist() == [True]
    low, high, pooled = nothing.bounds(80)
    assert pooled == 0
    assert np.isnan(low).all()
    assert np.isnan(high).all()


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_wider_levels_hold_narrower_ones(data: st.DataObject) -> None:
    """Whatever is pooled: a wild step beside calm ones must not have a 95 % interval inside its 80 % one."""
    count = data.draw(st.integers(1, 45))
    steps = data.draw(st.integers(1, 6))
    rng = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    cells = rng.normal(size=(2, count, steps)) * rng.choice([0.01, 1, 100], size=(1, 1, steps))
    cells[rng.random(cells.shape) < 0.3] = np.nan
    found = Residuals.of(cells.astype(np.float32))
    bounds = [found.bounds(level)[:2] for level in (10, 50, 80, 90, 95, 99)]
    for (low, high), (lower, higher) in itertools.pairwise(bounds):
        some = ~np.isnan(low)
        assert (lower[some] <= low[some]).all()
        assert (high[some] <= higher[some]).all()


@pytest.mark.parametrize("level", [50, 80, 95])
def test_coverage_of_exchangeable_residuals(level: float) -> None:
    rng = np.random.default_rng(1)
    trials, count, steps = 600, 59, 3
    hits = []
    for _ in range(trials):
        cells = rng.gamma(2.0, size=(1, count + 1, steps)).astype(np.float32)
        low, high, pooled = Residuals.of(cells[:, :-1]).bounds(level)
        assert pooled == 0
        hits.append((cells[:, -1] >= low) & (cells[:, -1] <= high))
    share = float(np.mean(hits))
    error = np.sqrt(level / 100 * (1 - level / 100) / (trials * steps))
    assert level / 100 - 4 * error <= share <= level / 100 + 2 / (count + 1) + 4 * error
