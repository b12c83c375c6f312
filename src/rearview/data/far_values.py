"""Single values out of all proportion to the others of a series: beside a typing error of 1e9 numbers near 1 have no
shape left.

They are `FAR` times as far from the median as the middle four fifths of all values reach, at most one in a hundred,
and the two values after each are back among the others: what has just leapt may have come to stay.
"""

import numpy as np
from numpy.typing import NDArray

FAR = 50
"""Ranges of the middle four fifths; a single value that is further from the median is not read."""
LEAST_JUDGED = 12
"""Observed values below which no value is left out: of fewer, one alone widens the middle four fifths."""


def find_far_values(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Places of the single values that lie out of all proportion to the others."""
    none = np.zeros(0, dtype=np.int64)
    if len(values) < LEAST_JUDGED:
        return none
    low, middle, high = np.quantile(values, (0.1, 0.5, 0.9))
    far = np.abs(values - middle) > FAR * (high - low)
    count = int(far.sum())
    if not high > low or not 0 < count <= max(1, len(values) // 100):
        return none
    back = ~np.append(far[1:], [True]) & ~np.append(far[2:], [True, True])
    return np.flatnonzero(far) if (back | ~far).all() else none


def bridge_far_values(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values with a straight line in place of each that lies out of all proportion."""
    far = find_far_values(values)
    if not len(far):
        return values
    kept = np.delete(np.arange(len(values)), far)
    return np.interp(np.arange(len(values)), kept, values[kept])
