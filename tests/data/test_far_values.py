"""Single values out of all proportion: which are found, and what stands in their place."""

import numpy as np
import pytest

from rearview.data.far_values import LEAST_JUDGED, bridge_far_values, find_far_values


def months(rows: int = 24) -> np.ndarray:
    return 100 + 10 * np.random.default_rng(rows).normal(size=rows)


@pytest.mark.parametrize("rows", [LEAST_JUDGED, 24, 90])
@pytest.mark.parametrize("factor", [1e3, -1e9])
def test_one_value_of_a_short_series_that_is_out_of_all_proportion_is_bridged(rows: int, factor: float) -> None:
    values = months(rows)
    expected = values.copy()
    values[7] *= factor
    expected[7] = (values[6] + values[8]) / 2
    assert find_far_values(values).tolist() == [7]
    np.testing.assert_allclose(bridge_far_values(values), expected)


def test_what_may_have_come_to_stay_comes_often_or_stands_among_too_few_is_kept() -> None:
    for places in ([23], [22], [6, 7], [3, 9]):
        values = months()
        values[places] *= 1e3
        assert bridge_far_values(values) is values
    few = months(LEAST_JUDGED - 1)
    few[4] *= 1e3
    assert bridge_far_values(few) is few
    lonely = np.append(np.zeros(20), [9.0, 0, 0, 0])
    assert bridge_far_values(lonely) is lonely
