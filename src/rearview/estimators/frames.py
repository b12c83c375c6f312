"""Frames of callers: new rows read on the step of training, results in the caller's kind of frame."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.io.table import from_frame
from rearview.data.panel import Layout, Panel

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Frame = Any
"""A pandas, polars or arrow frame, the path of a file, or a panel."""
Columns = dict[str, Any]
"""Columns of a frame by name: arrays, lists, or the stamps of a library."""


class FrameReader(Protocol):
    """Reads a frame, on a step of its own or on `freq`."""

    def __call__(self, frame: Frame, *, freq: str | None = None) -> Panel: ...


def read_on_step(frame: Frame, read: FrameReader, step: str) -> Panel:
    """Read new rows on the step of training; rows of another step are refused."""
    try:
        panel = read(frame)
    except InputError:
        # A few rows don't tell their step, but the model knows it; other faults are met again and named.
        panel = read(frame, freq=step)
    if str(panel.step) == step:
        return panel
    if not isinstance(frame, Panel):
        # Few rows can look like another step (a week of business days: days), which is no fault if the model's fits.
        try:
            reread = read(frame, freq=step)
        except InputError:
            pass
        else:
            if len(reread.values) <= len(panel.values):
                return reread
    rows = f"rows in {panel.step.words()}" if panel.step.unit == "int" else f"a row {panel.step.words()}"
    raise InputError(
        f"{panel.layout.source} has {rows} ({panel.step}), but the model was trained on "
        f"steps of {step}; bring rows of the same step, or train again."
    )


def to_native(columns: Mapping[str, Any], layout: Layout) -> Frame:
    """Make a frame of the caller's library; for data read from a file polars, or pandas where polars is missing."""
    if layout.backend == "pyarrow":
        import pyarrow as pa

        return pa.table(dict(columns))
    if layout.backend in ("file", "polars"):
        return new_frame(columns)
    import pandas as pd

    frame = pd.DataFrame(dict(columns))
    return frame.set_index(layout.time_col) if layout.time_index and layout.form == "wide" else frame


def new_frame(columns: Mapping[str, Any]) -> Frame:
    """Make a frame where no caller's library is known: polars, or pandas where polars is missing."""
    try:
        import polars as pl
    except ImportError:
        import pandas as pd

        return pd.DataFrame(dict(columns))
    # polars takes numpy text as objects, and an empty list of it as nothing known.
    text = {name for name, values in columns.items() if isinstance(values, np.ndarray) and values.dtype.kind == "U"}
    return pl.DataFrame(
        {
            name: pl.Series(values.tolist(), dtype=pl.String) if name in text else values
            for name, values in columns.items()
        }
    )


def leaderboard_frame(standings: "Sequence[DataclassInstance]") -> Frame:
    """A row for each member of a portfolio; its fields are the columns."""
    rows = [asdict(standing) for standing in standings]
    return new_frame({name: [row[name] for row in rows] for name in rows[0]})


def file_layout(layout: Layout) -> Layout:
    """The layout of files: always long, with the field's column names."""
    return replace(layout, form="long", backend="file", id_col="unique_id", time_col="ds", target_col=None)


def has_whole_ids(frame: Frame, layout: Layout) -> bool:
    """Whether the series of a long frame were named by integers."""
    import narwhals as nw

    if layout.form == "wide" or layout.backend == "file" or isinstance(frame, Panel):
        return False
    given = nw.from_native(frame, pass_through=True)
    if isinstance(given, nw.LazyFrame):
        dtype = given.collect_schema().get(layout.id_col or "")
        return dtype is not None and dtype.is_integer()
    table = from_frame(frame, index_names=(layout.id_col or "",))
    return layout.id_col in table.names and bool(table.fetch(layout.id_col).dtype.is_integer())


def id_column(panel: Panel, series: NDArray[np.int64], whole_ids: bool) -> Columns:
    """The id column of rows of some series; with `whole_ids` the ids are integers again."""
    names = np.array(panel.ids, dtype=np.int64 if whole_ids else np.str_)[series]
    return {panel.layout.id_col or "unique_id": names}
