"""Trend and seasons of a line: found again where they were put in."""

import numpy as np

from rearview.tasks.decomposition import decompose


def test_trend_and_season_that_were_put_in_are_found_again():
    rows = np.arange(211)
    season = np.array([3.0, 1.0, -2.0, 0.0, -4.0, 5.0, -3.0])
    parts = decompose(100 + 0.5 * rows + season[rows % 7], (7,))
    assert parts is not None
    np.testing.assert_allclose(parts.profiles[7], season, atol=0.3)
    np.testing.assert_allclose(parts.trend, 100 + 0.5 * rows, atol=0.7)


def test_missing_values_and_seasons_that_do_not_fit_are_passed_over():
    values = np.sin(np.arange(61) / 3)
    values[10:20] = np.nan
    parts = decompose(values, (53,))
    assert parts is not None
    assert parts.profiles == {}
    assert np.isfinite(parts.trend).all()


def test_a_line_of_few_values_is_not_taken_apart():
    assert decompose(np.array([1.0, 2.0, np.nan] * 4), (3,)) is None
