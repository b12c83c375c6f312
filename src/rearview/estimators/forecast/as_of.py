"""A panel as it was known at a date: later cells are blanked before anything is inferred from the rest.

Cutting a panel that was read whole is not the same. What it was centred on, which cells counted as sentinels and how
gaps were bridged would rest on values that nobody had at that date.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer.layout import ID_NAME, LONG_TIME_NAME, TEXT_COLUMNS
from rearview.data.infer.number_text import numeric_column
from rearview.data.infer.row_order import JOIN, series_of
from rearview.data.infer.timestamps import read_times, show
from rearview.data.io.files import open_table
from rearview.data.io.table import Table
from rearview.data.panel import Panel
from rearview.data.panel_reader import load

if TYPE_CHECKING:
    import narwhals as nw


@dataclass(frozen=True, slots=True)
class AsOf:
    """The rows of a file or frame, from which panels are read as they would have been read at a date."""

    panel: Panel
    """All rows of the series that are forecast."""
    rows: "nw.DataFrame[Any]"
    options: Mapping[str, Any]
    """How `load` reads the rows as it read the panel."""
    targets: NDArray[np.float64]
    """[row, target] of the panel: the values before they were rounded to float32, NaN where there is none."""

    @classmethod
    def of(cls, source: Any, panel: Panel, reading: Mapping[str, Any]) -> "AsOf":
        """From the file or frame that the panel was read from with the options `reading`."""
        layout = panel.layout
        ids = _ids(panel, reading)
        names = (*ids, layout.time_col)
        table = open_table(
            source,
            text_columns=TEXT_COLUMNS | {name.casefold() for name in names},
            index_names=(*names, ID_NAME, LONG_TIME_NAME),
        )
        numeric = [name for name in table.names if name not in names and _used(name, panel)]
        given = tuple(name for name in _names(reading.get("known")) if name in numeric)
        options = {
            "id_col": ids or None,
            "time_col": layout.time_col,
            "target": (layout.target_col,) if layout.form == "long" else panel.target_names,
            "known": given,
            "together": layout.together,
            "freq": panel.step,
            **{name: reading[name] for name in ("sentinels", "fill") if name in reading},
        }
        stamps = read_times(table, layout.time_col, panel.step).values
        cells = {name: numeric_column(table, name) for name in numeric}
        series = {name: table.fetch(name).to_list() for name in ids}
        frame = _frame({**series, layout.time_col: stamps, **cells})
        return cls(panel, frame, options, _targets(panel, _series(table, panel, ids), stamps, cells))

    def __call__(self, date: np.generic) -> Panel:
        """The panel of the rows up to a date."""
        import narwhals as nw

        layout = self.panel.layout
        known = nw.col(layout.time_col) <= date.item()
        numeric = [name for name, dtype in self.rows.schema.items() if dtype == nw.Float64]
        blanked = self.rows.with_columns(nw.when(known).then(nw.col(name)).alias(name) for name in numeric)
        panel = load(blanked.to_native(), **self.options).like(self.panel)
        return replace(panel, layout=layout, findings=()).until(date)

    def original(self, rows: slice, series: int) -> NDArray[np.float64]:
        """The targets of some rows of the panel as they came, [row, target]; NaN where they are missing."""
        return self.targets[rows]


def _names(names: Any) -> tuple[str, ...]:
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


def _ids(panel: Panel, reading: Mapping[str, Any]) -> tuple[str, ...]:
    return (_names(reading.get("id_col")) or (ID_NAME,)) if panel.layout.form == "long" else ()


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


def _series(table: Table, panel: Panel, ids: tuple[str, ...]) -> Iterator[tuple[str, slice | NDArray[np.int64]]]:
    """Every series of a table by name, with its rows."""
    if not ids:
        yield panel.ids[0], slice(None)
        return
    codes, names = series_of(table, ids)
    order, ends = np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))
    for name, begin, end in zip(names, [0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        yield name, order[begin:end]


def _targets(
    panel: Panel,
    series: Iterable[tuple[str, slice | NDArray[np.int64]]],
    stamps: NDArray[np.generic],
    cells: Mapping[str, NDArray[np.float64]],
) -> NDArray[np.float64]:
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
        rows = begin + _places(panel, panel.stamps[begin:end], stamps[taken])
        for source, column in placed.items():
            out[rows, column] = cells[source][taken]
    if panel.observed is not None:
        out[~panel.observed[:, : panel.targets]] = np.nan
    return out


def _places(panel: Panel, grid: NDArray[np.generic], stamps: NDArray[np.generic]) -> NDArray[np.int64]:
    """Where stamps stand on the grid of a series; one that is not there is refused, not put beside its place."""
    places = np.minimum(np.searchsorted(grid, stamps), len(grid) - 1)
    strange = grid[places] != stamps
    if strange.any():
        raise InputError(
            f"{panel.layout.source} has a row at {show(stamps[strange.argmax()])}, where the panel that was read from "
            "it has none; read the panel again if the rows have changed since."
        )
    return places
