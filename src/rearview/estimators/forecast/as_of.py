"""A panel as it was known at a date: later cells are blanked before anything is inferred from the rest.

Cutting a panel that was read whole is not the same. What it was centred on, which cells counted as sentinels and how
gaps were bridged would rest on values that nobody had at that date.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer.layout import ID_NAME
from rearview.data.infer.number_text import numeric_column
from rearview.data.infer.row_order import JOIN, read_series
from rearview.data.infer.timestamps import read_times, show
from rearview.data.io.table import Table
from rearview.data.panel import Panel
from rearview.data.panel_reader import open_source, read_panel
from rearview.data.read_options import ReadOptions

if TYPE_CHECKING:
    import narwhals as nw

Array = NDArray[np.float64]
Places = slice | NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AsOf:
    """The rows of a file or frame, from which panels are read as they would have been read at a date."""

    panel: Panel
    """All rows of the series that are forecast."""
    rows: "nw.DataFrame[Any]"
    options: ReadOptions
    """How the rows are read as the panel was."""
    targets: Array
    """[row, target] of the panel: the values before they were rounded to float32, NaN where there is none."""
    views: dict[np.generic, Panel] = field(default_factory=dict)
    """What was read before, by date."""

    @classmethod
    def of(cls, source: object, panel: Panel, options: ReadOptions) -> "AsOf":
        """From the file, frame or open table that the panel was read from with these options."""
        layout = panel.layout
        ids = (options.id_col or (ID_NAME,)) if layout.form == "long" else ()
        table = open_source(source, options)
        numeric = [name for name in table.names if name not in (*ids, layout.time_col) and _used(name, panel)]
        stamps = read_times(table, layout.time_col, panel.step).values
        cells = {name: numeric_column(table, name) for name in numeric}
        series = {name: table.fetch(name).to_list() for name in ids}
        again = ReadOptions(
            id_col=ids,
            time_col=layout.time_col,
            target=(layout.target_col or "",) if layout.form == "long" else panel.target_names,
            known=tuple(name for name in options.known if name in numeric),
            together=layout.together,
            freq=panel.step,
            sentinels=options.sentinels,
            fill=options.fill,
        )
        frame = _frame({**series, layout.time_col: stamps, **cells})
        return cls(panel, frame, again, _targets(panel, _series(table, panel, ids), stamps, cells))

    def of_columns(self, panel: Panel) -> "AsOf":
        """The same for fewer columns; what was read before is shared."""
        return self if panel is self.panel else replace(self, panel=panel)

    def __call__(self, date: np.generic) -> Panel:
        """The panel of the rows up to a date."""
        if date not in self.views:
            self.views[date] = self._read(date)
        return replace(self.views[date].like(self.panel), layout=self.panel.layout, findings=()).until(date)

    def _read(self, date: np.generic) -> Panel:
        import narwhals as nw

        known = nw.col(self.panel.layout.time_col) <= date.item()
        numeric = [name for name, dtype in self.rows.schema.items() if dtype == nw.Float64]
        blanked = self.rows.with_columns(nw.when(known).then(nw.col(name)).alias(name) for name in numeric)
        return read_panel(blanked.to_native(), self.options)

    def original(self, rows: slice, series: int) -> Array:
        """The targets of some rows of the panel as they came, [row, target]; NaN where they are missing."""
        return self.targets[rows]


def _used(name: str, panel: Panel) -> bool:
    """Whether a column of the table went into the panel; taken together, an input has a column for each series."""
    if panel.layout.together:
        return name == panel.layout.target_col or f"{name}{JOIN}{panel.columns[0]}" in panel.columns
    return name in panel.columns


def _frame(columns: dict[str, Any]) -> "nw.DataFrame[Any]":
    import narwhals as nw

    try:
        import polars as pl
    except ImportError:
        import pandas as pd

        return nw.from_native(pd.DataFrame(columns), eager_only=True)
    return nw.from_native(pl.DataFrame(columns), eager_only=True)


def _series(table: Table, panel: Panel, ids: tuple[str, ...]) -> Iterator[tuple[str, Places]]:
    """Every series of a table by name, with its rows."""
    if not ids:
        yield panel.ids[0], slice(None)
        return
    codes, names = read_series(table, ids)
    order, ends = np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))
    for name, begin, end in zip(names, [0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        yield name, order[begin:end]


def _targets(
    panel: Panel, series: Iterable[tuple[str, Places]], stamps: NDArray[np.generic], cells: Mapping[str, Array]
) -> Array:
    """[row, target]: the cells of a table at their rows of the panel."""
    out = np.full((len(panel.values), panel.targets), np.nan)
    bounds: dict[str, tuple[int, int]] = dict(zip(panel.ids, panel.bounds(), strict=True))
    columns = {name: column for column, name in enumerate(panel.target_names)}
    for name, taken in series:
        begin, end = bounds.get(name, (0, 0))
        placed = columns
        if panel.layout.together:
            begin, end = 0, len(out)
            placed = {panel.layout.target_col or "": columns[name]} if name in columns else {}
        if begin == end or not placed:
            continue
        grid, when = panel.stamps[begin:end], stamps[taken]
        places = np.minimum(np.searchsorted(grid, when), len(grid) - 1)
        strange = grid[places] != when
        if strange.any():
            raise InputError(
                f"{panel.layout.source} has a row at {show(when[strange.argmax()])}, where the panel that was read "
                "from it has none; read the panel again if the rows have changed since."
            )
        for source, column in placed.items():
            out[begin + places, column] = cells[source][taken]
    if panel.observed is not None:
        out[~panel.observed[:, : panel.targets]] = np.nan
    return out
