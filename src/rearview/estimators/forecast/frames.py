"""Forecasts as frames of the kind and layout that the data came in."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview.data.infer.timestamps import localise
from rearview.data.panel import Layout, Panel

Array = NDArray[np.float64]
Bounds = dict[float, tuple[Array, Array]]


def native(columns: dict[str, Any], layout: Layout) -> Any:
    """A frame of the caller's library; for data read from a file polars, or pandas where polars is missing."""
    backend = layout.backend
    if backend == "pyarrow":
        import pyarrow as pa

        return pa.table(columns)
    if backend in ("file", "polars"):
        try:
            import polars as pl
        except ImportError:
            backend = "pandas"
        else:
            return pl.DataFrame(
                {
                    # polars takes numpy text as objects, and an empty list of it as nothing known.
                    name: pl.Series(values.tolist(), dtype=pl.String) if _is_text(values) else values
                    for name, values in columns.items()
                }
            )
    import pandas as pd

    frame = pd.DataFrame(columns)
    return frame.set_index(layout.time_col) if layout.time_index and layout.form == "wide" else frame


def _is_text(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype.kind == "U"


def has_whole_ids(frame: Any, layout: Layout) -> bool:
    """Whether the series of a long frame were named by integers."""
    import narwhals as nw

    if layout.form == "wide" or layout.backend == "file" or isinstance(frame, Panel):
        return False
    dtype = nw.from_native(frame).collect_schema().get(layout.id_col or "")
    return dtype is not None and dtype.is_integer()


def long_columns(
    layout: Layout,
    names: tuple[str, ...],
    stamps: NDArray[np.generic],
    mean: Array,
    intervals: Bounds,
    model: str,
    *,
    y: Array | None = None,
    cutoffs: NDArray[np.generic] | None = None,
    whole_ids: bool = False,
) -> dict[str, Any]:
    """Columns `unique_id, ds, [cutoff, y,] model, model-lo-95, model-hi-95`, variable by variable.

    Shapes: stamps [variable, step], mean and bounds the same, y too, cutoffs [variable]. With `whole_ids` the ids are
    integers again.
    """
    steps = stamps.shape[1]
    ids = np.repeat(np.array(names, dtype=np.int64 if whole_ids else np.str_), steps)
    columns: dict[str, Any] = {
        layout.id_col or "unique_id": ids if whole_ids else ids.tolist(),
        layout.time_col if layout.form == "long" else "ds": localise(stamps.ravel(), layout),
    }
    if cutoffs is not None:
        columns["cutoff"] = localise(np.repeat(cutoffs, steps), layout)
    if y is not None:
        columns["y" if layout.target_col is None else layout.target_col] = y.ravel()
    return columns | _said(model, mean, intervals)


def wide_columns(
    layout: Layout,
    names: tuple[str, ...],
    stamps: NDArray[np.generic],
    mean: Array,
    intervals: Bounds,
    *,
    y: Array | None = None,
    cutoffs: NDArray[np.generic] | None = None,
) -> dict[str, Any]:
    """Columns `time, [cutoff,] column, column-lo-95, column-hi-95, [column-y]`, for every target column.

    Shapes: stamps [window, step], mean, bounds and y [window, column, step], cutoffs [window].
    """
    columns: dict[str, Any] = {layout.time_col: localise(stamps.ravel(), layout)}
    if cutoffs is not None:
        columns["cutoff"] = localise(np.repeat(cutoffs, stamps.shape[1]), layout)
    for c, name in enumerate(names):
        columns |= _said(name, mean[:, c], {level: (low[:, c], high[:, c]) for level, (low, high) in intervals.items()})
        if y is not None:
            columns[f"{name}-y"] = y[:, c].ravel()
    return columns


def _said(name: str, mean: Array, intervals: Bounds) -> dict[str, Any]:
    columns = {name: mean.ravel()}
    for level in sorted(intervals):
        low, high = intervals[level]
        columns[f"{name}-lo-{level:g}"] = low.ravel()
        columns[f"{name}-hi-{level:g}"] = high.ravel()
    return columns
