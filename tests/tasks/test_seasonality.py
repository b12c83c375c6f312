"""Seasons are found where the data show them, and nowhere else."""

import numpy as np
import pytest

from rearview.tasks.seasonality import find_seasons


def waves(length: int, *periods: int, noise: float = 0.3, seed: int = 0) -> np.ndarray:
    steps = np.arange(length)
    rng = np.random.default_rng(seed)
    return sum((np.sin(2 * np.pi * steps / period) for period in periods), 0 * steps) + rng.normal(0, noise, length)


def test_seasons_of_the_calendar_count_where_they_explain_what_comes() -> None:
    assert find_seasons([waves(300, 12)], (12,)) == (12,)
    assert find_seasons([waves(300, 12) + 0.1 * np.arange(300)], (12,)) == (12,)


def test_a_longer_season_counts_where_the_shorter_leaves_something() -> None:
    both = waves(1500, 24, 168)
    assert find_seasons([both], (24, 168)) == (24, 168)
    assert find_seasons([waves(1500, 24)], (24, 168)) == (24,)


@pytest.mark.parametrize("kind", ["noise", "walk"])
def test_no_season_is_read_into_noise(kind: str) -> None:
    rng = np.random.default_rng(1)
    series = [rng.normal(size=400) for _ in range(5)]
    assert find_seasons(series if kind == "noise" else [values.cumsum() for values in series], (7, 365)) == ()


def test_a_rhythm_that_no_calendar_knows_is_found() -> None:
    assert find_seasons([waves(400, 17)], ()) == (17,)
    assert find_seasons([waves(400, 17)], (12,)) == (17,)


def test_short_and_constant_series_have_no_season() -> None:
    assert find_seasons([np.arange(3.0), np.zeros(100)], (12,)) == ()
    assert find_seasons([], (12,)) == ()
