"""The cut of the TSB-AD benchmark (Liu and Paparrizos, 2024): every entity is a file whose first part trains.

A file of its multivariate part is the test part of an entity. Its name says how many rows train: a quarter of them, or
all up to 100 rows before the first anomaly where that is fewer, and 500 at least. Every row of the file is judged, even
those that train, and a mean over files counts. The buffers of VUS-PR reach as far as the period of the first channel.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rearview.data.datasets.labelled_arrays import LabelledArrays

SHARE = 4
"""A file's rows over those that train."""
BEFORE = 100
"""Rows between those that train and the first anomaly, at least."""
FEWEST = 500
"""Rows that train, even where an anomaly is among them."""
READ, LAGS, SHORTEST, LONGEST = 20_000, 400, 3, 300
"""Rows and lags in which a period is looked for, and the lags beyond the shortest at which one counts."""
NO_PERIOD = 125
"""The reach of buffers where there is no period."""


def training_rows(labels: NDArray[np.float64]) -> int:
    """The number of rows of a file that train."""
    marked = np.flatnonzero(labels == 1)
    most = len(labels) // SHARE
    if len(marked):
        most = min(most, int(marked[0]) - BEFORE)
    return min(len(labels), max(FEWEST, most))


def cut(arrays: LabelledArrays) -> LabelledArrays:
    """The test part of every entity, and as what trains its first rows."""
    test = arrays.test
    rows = np.array([training_rows(arrays.labels[a:b]) for a, b in test.bounds()], dtype=np.int64)
    begin = test.offsets[:-1]
    return replace(arrays, train=test.between(begin, begin + rows))


def find_period(column: NDArray[np.floating]) -> int:
    """The lag of the highest peak of the autocorrelation, from the first rows of a channel."""
    values = column[:READ].astype(np.float64)
    values = values - values.mean()
    spectrum = np.fft.rfft(values, 2 * len(values))
    correlation = np.fft.irfft(np.abs(spectrum) ** 2)[SHORTEST : min(LAGS + 1, len(values))]
    peaks = 1 + np.flatnonzero((correlation[1:-1] > correlation[:-2]) & (correlation[1:-1] > correlation[2:]))
    if not len(peaks):
        return NO_PERIOD
    best = int(peaks[correlation[peaks].argmax()])
    return best + SHORTEST if SHORTEST <= best <= LONGEST else NO_PERIOD
