"""The arrays of a panel: centred in float64, missing cells filled, stored as float32.

`Columns` takes one column at a time, so that never more than a few float64 columns exist at once and a panel costs its
own array and little more. `panel_of_cells` takes a whole array of numbers that came without stamps.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rearview.data.panel import Finding, Layout, Panel
from rearview.data.read_options import Fill
from rearview.data.step import Stamps, Step

Floats = NDArray[np.float64]
ONE_SERIES = "series"
"""The name of the only series of a panel where it has none."""


@dataclass(slots=True)
class Columns:
    """The arrays of a panel while they are filled, column by column."""

    offsets: NDArray[np.int64]
    count: int
    fill: Fill
    values: NDArray[np.float32] = field(init=False)
    observed: NDArray[np.bool_] | None = field(init=False, default=None)
    centre: Floats = field(init=False)
    first: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        rows, series = int(self.offsets[-1]), len(self.offsets) - 1
        self.values = np.empty((rows, self.count), dtype=np.float32)
        self.centre = np.zeros((series, self.count))
        self.first = np.repeat(self.offsets[:-1, None], self.count, axis=1)

    def put(self, number: int, column: Floats) -> None:
        """Take column `number` in original units, NaN where it is missing."""
        missing = np.isnan(column)
        starts, lengths = self.offsets[:-1], np.diff(self.offsets)
        if not missing.any():
            self.centre[:, number], _ = self._centre(column, column, column, lengths)
            self.values[:, number] = column - np.repeat(self.centre[:, number], lengths)
            return
        seen = np.add.reduceat((~missing).astype(np.int64), starts)
        low, high = np.where(missing, np.inf, column), np.where(missing, -np.inf, column)
        centre, mean = self._centre(np.where(missing, 0.0, column), low, high, seen)
        self.centre[:, number] = centre
        self.values[:, number] = self._fill(column, missing, np.repeat(centre, lengths), np.repeat(mean, lengths))
        if self.observed is None:
            self.observed = np.ones(self.values.shape, dtype=bool)
        self.observed[:, number] = ~missing
        rows = np.where(missing, len(missing), np.arange(len(missing)))
        self.first[:, number] = np.minimum(np.minimum.reduceat(rows, starts), self.offsets[1:])

    def _centre(self, column: Floats, low: Floats, high: Floats, seen: NDArray[np.int64]) -> tuple[Floats, Floats]:
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

    def _fill(self, column: Floats, missing: NDArray[np.bool_], centre: Floats, mean: Floats) -> Floats:
        """The column centred, with missing cells filled; the centre, 0, stays where nothing was seen before."""
        if self.fill == "zero":
            return np.where(missing, -centre, column - centre)
        rows, lengths = np.arange(len(column)), np.diff(self.offsets)
        latest = np.maximum.accumulate(np.where(missing, -1, rows))
        left = np.maximum(latest, 0)
        if self.fill == "mean":
            whole = np.where(missing, mean, column)
        elif self.fill == "last":
            whole = column[left]
        else:
            # The line between the neighbours of a gap in its series; after the last value, that value.
            after = np.minimum.accumulate(np.where(missing, len(column), rows)[::-1])[::-1]
            right = np.where(after < np.repeat(self.offsets[1:], lengths), after, left)
            share = (rows - left) / np.maximum(right - left, 1)
            whole = column[left] + share * (column[right] - column[left])
        return np.where(latest < np.repeat(self.offsets[:-1], lengths), 0.0, whole - centre)


def panel_of_cells(
    cells: Floats,
    stamps: Stamps,
    step: Step,
    layout: Layout,
    *,
    lengths: NDArray[np.int64] | None = None,
    ids: tuple[str, ...] = (ONE_SERIES,),
    columns: tuple[str, ...] = (),
    findings: tuple[Finding, ...] = (),
) -> Panel:
    """A panel of cells [row, column], NaN where one is missing; columns without names are numbered.

    `lengths` are the rows of series that lie one after another; each is centred on its own mean, and missing cells take
    the last value before them.
    """
    offsets = np.array([0, len(cells)]) if lengths is None else np.concatenate([[0], np.cumsum(lengths)])
    observed = ~np.isnan(cells)
    whole = bool(observed.all())
    values = np.empty(cells.shape, dtype=np.float32)
    centre = np.zeros((len(ids), cells.shape[1]))
    first = np.empty(centre.shape, dtype=np.int64)
    for s, (a, b) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        seen = observed[a:b]
        centre[s] = np.where(seen, cells[a:b], 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        values[a:b] = cells[a:b] - centre[s]
        if not whole:
            values[a:b] = fill_forward(values[a:b], seen)
        first[s] = a + np.where(seen.any(axis=0), seen.argmax(axis=0), b - a)
    return Panel(
        values=values,
        centre=centre,
        observed=None if whole else observed,
        offsets=offsets.astype(np.int64),
        first=first,
        stamps=stamps,
        ids=ids,
        columns=columns or tuple(str(number) for number in range(cells.shape[1])),
        targets=cells.shape[1],
        known=0,
        step=step,
        layout=layout,
        findings=findings,
    )


def fill_forward(values: NDArray[np.float32], observed: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Missing cells take the last value before them; those before the first value take 0, the centre."""
    latest = np.maximum.accumulate(np.where(observed, np.arange(len(values))[:, None], -1), axis=0)
    whole = np.take_along_axis(values, np.maximum(latest, 0), axis=0)
    whole[latest < 0] = 0.0
    return whole
