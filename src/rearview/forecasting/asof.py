"""A panel as it was known at a date: later cells are blanked before anything is inferred from the rest.

Cutting a panel that was read whole is not the same. What it was centred on, which cells counted as sentinels and how
gaps were bridged would rest on values that nobody had at that date.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rearview.data.layout import ID_NAME, LONG_TIME_NAME, TEXT_COLUMNS
from rearview.data.loading import load
from rearview.data.numbers import numeric_column
from rearview.data.panel import Panel
from rearview.data.read import open_table
from rearview.data.series import JOIN
from rearview.data.stamps import read_times
from rearview.data.table import Table

if TYPE_CHECKING:
    import narwhals as nw


@dataclass(frozen=True, slots=True)
class AsOf:
    """The rows of a file or frame, from which panels are read as they would have been read at a date."""

    panel: Panel
    """All rows."""
    rows: "nw.DataFrame[Any]"
    options: Mapping[str, Any]
    """How `load` reads the rows as it read the panel."""

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
        return cls(panel, _frame(table, panel, ids, numeric), options)

    def __call__(self, date: np.generic) -> Panel:
        """The panel of the rows up to a date."""
        import narwhals as nw

        layout = self.panel.layout
        known = nw.col(layout.time_col) <= date.item()
        numeric = [name for name, dtype in self.rows.schema.items() if dtype == nw.Float64]
        blanked = self.rows.with_columns(nw.when(known).then(nw.col(name)).alias(name) for name in numeric)
        panel = load(blanked.to_native(), **self.options)
        return replace(panel, layout=layout, findings=()).until(date)


def _names(names: Any) -> tuple[str, ...]:
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


def _ids(panel: Panel, reading: Mapping[str, Any]) -> tuple[str, ...]:
    return (_names(reading.get("id_col")) or (ID_NAME,)) if panel.layout.form == "long" else ()


def _used(name: str, panel: Panel) -> bool:
    """Whether a column of the table went into the panel; taken together, an input has a column for each series."""
    if panel.layout.together:
        return name == panel.layout.target_col or f"{name}{JOIN}{panel.columns[0]}" in panel.columns
    return name in panel.columns


def _frame(table: Table, panel: Panel, ids: tuple[str, ...], numeric: list[str]) -> "nw.DataFrame[Any]":
    import narwhals as nw

    columns: dict[str, Any] = {name: table.fetch(name).to_list() for name in ids}
    columns[panel.layout.time_col] = read_times(table, panel.layout.time_col, panel.step).values
    columns |= {name: numeric_column(table, name) for name in numeric}
    try:
        import polars as pl
    except ImportError:
        import pandas as pd

        return nw.from_native(pd.DataFrame(columns), eager_only=True)
    return nw.from_native(pl.DataFrame(columns), eager_only=True)
