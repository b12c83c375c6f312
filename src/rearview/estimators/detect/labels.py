"""Labels of rows: which rows a person calls anomalous, taken from a column of the data or from an array."""

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer.timestamps import show
from rearview.data.io.files import open_table
from rearview.data.panel import Panel
from rearview.estimators.frames import Frame


def split_labels(panel: Panel, column: str | None) -> tuple[Panel, NDArray[np.float64] | None]:
    """The panel without its label column, and the labels [row]: 1, 0, or NaN where a row has none."""
    if column is None or column not in panel.columns:
        return panel, None
    place = panel.columns.index(column)
    rest = panel.select([c for c in range(len(panel.columns)) if c != place])
    parts = [panel.original_column(slice(a, b), s, place) for s, (a, b) in enumerate(panel.bounds())]
    labels = np.concatenate(parts)
    rounded = np.round(labels)
    odd = ~np.isnan(labels) & ((np.abs(labels - rounded) > 1e-6) | ~np.isin(rounded, (0.0, 1.0)))
    if odd.any():
        row = int(odd.argmax())
        raise InputError(
            f"{panel.layout.source}: the label column {column!r} holds {labels[row]:g} at {show(panel.stamps[row])}; "
            "a label is 1 (anomaly) or 0 (ordinary)."
        )
    return rest, rounded


def add_labels(frame: Frame, labels: object) -> tuple[Frame, str]:
    """The frame with an array of labels as one more column, and that column's name: the two are sorted as one."""
    if isinstance(frame, str | Path):
        raise InputError(
            f"The labels of {frame} must stand in it, in a column that is named; to give them as an array, read the "
            "file into a frame first."
        )
    import narwhals as nw

    table = open_table(frame)
    name = next(name for name in map("label {}".format, count(1)) if name not in table.names)
    whole = nw.from_native(frame)
    rows = whole.collect() if isinstance(whole, nw.LazyFrame) else whole
    cells = check_labels(_in_order(labels, frame, table.source), len(rows), table.source)
    return rows.with_columns(nw.new_series(name, cells, backend=rows.implementation)).to_native(), name


def _in_order(labels: Any, frame: Frame, source: str) -> Any:
    """Labels in the order of the frame's rows: a pandas series of its index goes by it, anything else by position."""
    if not (hasattr(labels, "reindex") and hasattr(frame, "reindex")) or len(labels) != len(frame):
        return labels
    one, other = labels.index, frame.index
    if one.equals(other):
        return labels
    if not (one.is_unique and other.is_unique and one.isin(other).all()):
        raise InputError(
            f"The labels have another index than {source}, so that they can't be told to go with its rows; give them "
            "with the frame's own index, or as an array (labels.to_numpy()) in the order of the rows."
        )
    return labels.reindex(other)


def check_labels(labels: object, rows: int, source: str) -> NDArray[np.float64]:
    """Labels [row] from an array; what is no label a row is refused."""
    try:
        cells = np.asarray(labels, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InputError(f"The labels can't be read as numbers ({problem}); give 1 (anomaly) or 0 a row.") from problem
    if cells.shape != (rows,):
        many = f"are {cells.shape[0]:,} labels" if cells.ndim == 1 else f"is an array of labels of shape {cells.shape}"
        raise InputError(
            f"There {many} for {rows:,} rows of {source}; give one label a row, or name the column that holds them."
        )
    if not np.isin(cells[~np.isnan(cells)], (0.0, 1.0)).all():
        wrong = cells[~np.isnan(cells) & ~np.isin(cells, (0.0, 1.0))][0]
        raise InputError(f"The labels hold {wrong:g}; a label is 1 (anomaly) or 0 (ordinary).")
    return cells
