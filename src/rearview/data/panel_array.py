"""The panel's array, built one column at a time: sentinels out, centred in float64, missing cells filled, float32 in.

Never more than a few float64 columns exist at once, so a panel costs its own array and little more.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rearview.data.read_options import Sentinels

Column = NDArray[np.float64]
LIKELY_SENTINELS = (-999.0, -9999.0, -99999.0, -999999.0, -9999999.0)


@dataclass(slots=True)
class Columns:
    """The arrays of a panel while they are filled, column by column."""

    offsets: NDArray[np.int64]
    count: int
    fill: str
    values: NDArray[np.float32] = field(init=False)
    observed: NDArray[np.bool_] | None = field(init=False, default=None)
    centre: NDArray[np.float64] = field(init=False)
    first: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        rows, series = int(self.offsets[-1]), len(self.offsets) - 1
        self.values = np.empty((rows, self.count), dtype=np.float32)
        self.centre = np.zeros((series, self.count))
        self.first = np.repeat(self.offsets[:-1, None], self.count, axis=1)

    def put(self, number: int, column: Column) -> None:
        """Takes column `number` in original units, NaN where it is missing."""
        missing = np.isnan(column)
        lengths = np.diff(self.offsets)
        if not missing.any():
            centre, _ = self._centre(column, column, column, lengths)
            self.values[:, number] = column - np.repeat(centre, lengths)
        else:
            starts = self.offsets[:-1]
            seen = np.add.reduceat((~missing).astype(np.int64), starts)
            low, high = np.where(missing, np.inf, column), np.where(missing, -np.inf, column)
            centre, mean = self._centre(np.where(missing, 0.0, column), low, high, seen)
            self.values[:, number] = self._filled(column, missing, np.repeat(centre, lengths), np.repeat(mean, lengths))
            self._mark(number, missing)
        self.centre[:, number] = centre

    def _centre(
        self, column: Column, low: Column, high: Column, seen: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """[series] what to subtract, and the mean.

        The centre is the mean rounded to a power of two no larger than the range: that is as good for precision, and
        integers and float32 numbers stay what they are, where a mean of many digits would round them all.
        """
        starts = self.offsets[:-1]
        lowest, highest = np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)
        mean = np.add.reduceat(column, starts) / np.maximum(seen, 1)
        varied, some = highest > lowest, seen > 0
        spread = np.where(varied, highest - np.where(varied, lowest, 0.0), 1.0)
        unit = np.exp2(np.floor(np.log2(spread)))
        return np.where(varied, np.rint(mean / unit) * unit, np.where(some, lowest, 0.0)), mean

    def _filled(self, column: Column, missing: NDArray[np.bool_], centre: Column, mean: Column) -> Column:
        """The column centred, with missing cells filled; the centre, 0, stays where nothing was seen before."""
        if self.fill == "zero":
            return np.where(missing, -centre, column - centre)
        rows = np.arange(len(column))
        latest = np.maximum.accumulate(np.where(missing, -1, rows))
        unseen = latest < np.repeat(self.offsets[:-1], np.diff(self.offsets))
        if self.fill == "mean":
            filled = np.where(missing, mean, column)
        elif self.fill == "last":
            filled = column[np.maximum(latest, 0)]
        else:
            filled = self._between(column, missing, latest)
        return np.where(unseen, 0.0, filled - centre)

    def _between(self, column: Column, missing: NDArray[np.bool_], latest: NDArray[np.int64]) -> Column:
        """Missing cells on the line between their neighbours in the series; after the last one, the last one."""
        rows = np.arange(len(column))
        ends = np.repeat(self.offsets[1:], np.diff(self.offsets))
        after = np.minimum.accumulate(np.where(missing, len(column), rows)[::-1])[::-1]
        left = np.maximum(latest, 0)
        right = np.where(after < ends, after, left)
        share = (rows - left) / np.maximum(right - left, 1)
        return np.asarray(column[left] + share * (column[right] - column[left]))

    def _mark(self, number: int, missing: NDArray[np.bool_]) -> None:
        if self.observed is None:
            self.observed = np.ones(self.values.shape, dtype=bool)
        self.observed[:, number] = ~missing
        rows = np.where(missing, len(missing), np.arange(len(missing)))
        self.first[:, number] = np.minimum(np.minimum.reduceat(rows, self.offsets[:-1]), self.offsets[1:])


def sentinel_cells(column: Column, bounds: NDArray[np.int64], sentinels: Sentinels) -> NDArray[np.bool_] | None:
    """True on cells that stand for missing; None when there are none.

    With "auto" a cell counts when it is one of `LIKELY_SENTINELS` and lies below all other values of its series by at
    least half of their range: a column that really reaches -999 keeps it.
    """
    if not len(sentinels):
        return None
    if sentinels != "auto":
        cells = np.isin(column, np.asarray(sentinels, dtype=np.float64))
        return cells if cells.any() else None
    if not np.any(column <= LIKELY_SENTINELS[0]):
        return None
    likely = np.isin(column, LIKELY_SENTINELS)
    if not likely.any():
        return None
    apart = likely | np.isnan(column)
    lowest = np.minimum.reduceat(np.where(apart, np.inf, column), bounds[:-1])
    highest = np.maximum.reduceat(np.where(apart, -np.inf, column), bounds[:-1])
    with np.errstate(invalid="ignore"):
        # A series of nothing but sentinels has no range (inf - inf is NaN), and the comparison leaves it alone.
        limit = np.repeat(lowest - (highest - lowest) / 2, np.diff(bounds))
        cells = likely & (column < limit) & np.repeat(np.isfinite(lowest), np.diff(bounds))
    return cells if cells.any() else None
