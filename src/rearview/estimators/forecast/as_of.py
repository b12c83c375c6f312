"""A panel as it was known at a date: later cells are blanked before anything is inferred from the rest.

Cutting a panel that was read whole is not the same. What it was centred on, which cells counted as sentinels and how
gaps were bridged would rest on values that nobody had at that date.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer.column_reader import sentinel_cells
from rearview.data.infer.layout import ID_NAME
from rearview.data.infer.number_text import read_numbers
from rearview.data.infer.row_order import JOIN, read_series
from rearview.data.infer.timestamps import read_times, show
from rearview.data.io.table import Table
from rearview.data.panel import Panel
from rearview.data.panel_array import Columns
from rearview.data.panel_reader import open_source
from rearview.data.read_options import ReadOptions

Array = NDArray[np.float64]
Places = slice | NDArray[np.int64]


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
        return cls(panel, panel, _cells(open_source(source, options), panel, options), options)

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


def _cells(table: Table, panel: Panel, options: ReadOptions) -> Array:
    """[row, column]: the cells of a table at their rows and columns of the panel."""
    layout = panel.layout
    ids = (options.id_col or (ID_NAME,)) if layout.form == "long" else ()
    stamps = read_times(table, layout.time_col, panel.step).values
    columns = {name: number for number, name in enumerate(panel.columns)}
    used = set(columns)
    if layout.together:  # a series has a column of each kind
        ending = f"{JOIN}{panel.columns[0]}"
        used = {name.removesuffix(ending) for name in columns if name.endswith(ending)} | {layout.target_col or ""}
    others = (*ids, layout.time_col)
    numbers = {name: read_numbers(table, name) for name in table.names if name in used and name not in others}
    out = np.full(panel.values.shape, np.nan)
    bounds: dict[str, tuple[int, int]] = dict(zip(panel.ids, panel.bounds(), strict=True))
    for series, taken in _series(table, panel, ids):
        begin, end = (0, len(out)) if layout.together else bounds.get(series, (0, 0))
        if begin == end or (layout.together and series not in columns):
            continue
        grid, when = panel.stamps[begin:end], stamps[taken]
        places = np.minimum(np.searchsorted(grid, when), len(grid) - 1)
        strange = grid[places] != when
        if strange.any():
            raise InputError(
                f"{layout.source} has a row at {show(when[strange.argmax()])}, where the panel that was read from it "
                "has none; read the panel again if the rows have changed since."
            )
        for name, cells in numbers.items():
            of_series = series if name == layout.target_col else f"{name}{JOIN}{series}"
            out[begin + places, columns[of_series if layout.together else name]] = cells[taken]
    return out


def _series(table: Table, panel: Panel, ids: tuple[str, ...]) -> Iterator[tuple[str, Places]]:
    """Every series of a table by name, with its rows."""
    if not ids:
        yield panel.ids[0], slice(None)
        return
    codes, names = read_series(table, ids)
    order, ends = np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))
    for name, begin, end in zip(names, [0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        yield name, order[begin:end]
