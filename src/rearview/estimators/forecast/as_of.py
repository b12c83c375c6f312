"""A panel as it was known at a date: later cells are blanked before anything is inferred from the rest.

Truncating a panel that was read as a whole is not the same: its centre, its sentinels and its filled gaps depend on
later values.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer.column_reader import sentinel_cells
from rearview.data.infer.timestamps import show
from rearview.data.panel import Panel
from rearview.data.panel_array import Columns
from rearview.data.panel_reader import Reading, open_source, resolve
from rearview.data.read_options import ReadOptions

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class AsOf:
    """The cells of a file or frame, from which panels are read as they would have been read at a date."""

    panel: Panel
    """All rows of the series and columns that are forecast or looked at."""
    whole: Panel
    """The panel of the cells; it may have further columns."""
    cells: Array
    """[row, column] of the whole panel: the values as they came, NaN where there is none."""
    options: ReadOptions
    views: dict[np.generic, Panel] = field(default_factory=dict)
    """Panels by date, kept for all networks of a job."""

    @classmethod
    def of(cls, source: object, panel: Panel, options: ReadOptions) -> "AsOf":
        """From the file, frame or open table that the panel was read from with these options."""
        return cls(panel, panel, _cells(resolve(open_source(source, options), options), panel), options)

    def of_columns(self, panel: Panel) -> "AsOf":
        """The same for a panel of fewer columns."""
        return replace(self, panel=panel)

    def __call__(self, date: np.generic) -> Panel:
        """The panel of the rows up to a date."""
        if date not in self.views:
            self.views[date] = self._read(date)
        return self.views[date] if self.panel is self.whole else self.views[date].like(self.panel)

    def _read(self, date: np.generic) -> Panel:
        whole, later = self.whole, np.greater(self.whole.stamps, date)
        columns = Columns(whole.offsets, len(whole.columns), self.options.fill)
        for number in range(len(whole.columns)):
            column = np.where(later, np.nan, self.cells[:, number])
            sentinels = sentinel_cells(column, whole.offsets, self.options.sentinels)
            columns.put(number, column if sentinels is None else np.where(sentinels, np.nan, column))
        arrays = replace(
            whole,
            values=columns.values,
            centre=columns.centre,
            observed=columns.observed,
            first=columns.first,
            findings=(),
        )
        return arrays.until(date)

    def original(self, rows: slice, series: int) -> Array:
        """The targets of some rows of the panel as they came, [row, target]; NaN where they are missing."""
        targets = self.cells[rows, : self.panel.targets]
        if self.whole.observed is None:
            return targets
        return np.where(self.whole.observed[rows, : self.panel.targets], targets, np.nan)


def _cells(reading: Reading, panel: Panel) -> Array:
    """[row, column]: the cells of a table at their rows and columns of the panel."""
    order, cells = reading.order, reading.cells()
    columns = np.array([reading.panel_columns.index(name) for name in panel.columns])
    bounds = dict(zip(reading.panel_ids, zip(order.offsets[:-1], order.offsets[1:], strict=True), strict=True))
    rows = np.concatenate([np.arange(*bounds[name]) for name in panel.ids])
    stamps = order.stamps[rows]
    if len(rows) != len(panel.stamps) or np.any(stamps != panel.stamps):
        stamp = next(iter(np.setdiff1d(stamps, panel.stamps)), stamps[-1])
        raise InputError(
            f"{panel.layout.source} has a row at {show(stamp)}, where the panel that was read from it has none; read "
            "the panel again if the rows have changed since."
        )
    return cells[np.ix_(rows, columns)]
