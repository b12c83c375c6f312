"""Cases from a long frame or file: a row for each id and time, a column for each channel."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rearview.data.cases import Cases, Labels, check_labels, is_missing, label_array
from rearview.data.read import open_table
from rearview.data.stamps import read_times
from rearview.data.table import Table, listing
from rearview.errors import InputError

ID_NAMES = ("unique_id", "id", "case", "case_id")
TIME_NAMES = ("ds", "time", "date", "timestamp", "step", "t")
LABEL_NAMES = ("label", "class")


def label_column(file: Path | str, given: str | None) -> str:
    """The column of a long file that holds the class of a row's case; None looks for one of the usual names."""
    return _named(open_table(file).names, given, LABEL_NAMES, "labels", str(file))


def from_frame(
    frame: Any, y: Any, *, source: str, id_col: str | None, time_col: str | None, columns: tuple[str, ...] = ()
) -> Cases:
    """A case for each id, in the order in which the ids first appear, its rows in the order of time.

    `frame`: a frame, or a CSV or parquet file. `y`: a column of it, a mapping or pandas Series from id to class, or a
    class for each id in that order. `columns`: the channels, in this order; none: every column that is left. Ids and
    classes of a text file are kept as they are written.
    """
    as_written = {name.casefold() for name in (id_col, y if isinstance(y, str) else None) if name} | {*ID_NAMES}
    table = open_table(frame, text_columns=as_written)
    label_col = y if isinstance(y, str) else None
    ids_in = _named(table.names, id_col, ID_NAMES, "id_col", source)
    times_in = _named(table.names, time_col, TIME_NAMES, "time_col", source)
    taken = {ids_in, times_in, label_col}
    channels = list(columns) or [name for name in table.names if name not in taken]
    _check_columns(table.names, columns, source)
    if label_col is not None:
        table.check_names([label_col], "y")
    if not channels:
        raise InputError(f"{source} has no column of values beside {ids_in!r} and {times_in!r}; add one a channel.")
    ids, times = _complete(table, ids_in, source), _times(table, times_in, source)
    unique, first, codes = np.unique(ids.astype(str), return_index=True, return_inverse=True)
    rank = np.empty(len(unique), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(unique))
    order = np.lexsort((times, rank[codes]))
    _check_times(times, codes, order, ids, source)
    values = np.stack([_column(table, name, source) for name in channels])[:, order]
    ends = np.cumsum(np.bincount(rank[codes]))[:-1]
    keys = ids[np.sort(first)]
    labels = None if y is None else check_labels(_labels(table, y, keys, ids, source), f"y of {source}")
    series = tuple(np.split(values, ends, axis=1))
    return Cases(series, labels, tuple(f"id {key}" for key in keys), source, columns=tuple(channels))


def _check_columns(names: tuple[str, ...], wanted: tuple[str, ...], source: str) -> None:
    missing = [name for name in wanted if name not in names]
    if missing:
        raise InputError(
            f"{source} has no column {missing[0]!r}, which the classifier was trained on; it has {listing(names)}."
        )


def _times(table: Table, name: str, source: str) -> Any:
    """The time of each row; text is read as the stamps that it spells, whose order is not that of its letters."""
    values = _complete(table, name, source)
    return read_times(table, name, None).values if values.dtype.kind in "OUT" else values


def _complete(table: Table, name: str, source: str) -> Any:
    """A column that must have a value in every row."""
    values: Any = table.fetch(name)
    empty = values.is_null()
    if values.dtype.is_float():
        empty = empty | values.is_nan()
    empty = empty.to_numpy()
    if empty.any():
        raise InputError(
            f"{source}: column {name!r} has no value in {int(empty.sum())} of {len(empty)} rows, the first in row "
            f"{int(empty.argmax()) + 1}; every row of a case needs its id and time."
        )
    return values.to_numpy()


def _named(names: tuple[str, ...], given: str | None, usual: tuple[str, ...], setting: str, source: str) -> str:
    if given is not None:
        if given not in names:
            raise InputError(f"{source} has no column {given!r}, which {setting} names; it has {listing(names)}.")
        return given
    found = [name for name in names if name.casefold() in usual]
    if not found:
        raise InputError(
            f"{source} has no column called {' or '.join(usual)}; say with {setting}=... which of {listing(names)} "
            "it is."
        )
    return found[0]


def _column(table: Table, name: str, source: str) -> Any:
    values = table.fetch(name)
    if not values.dtype.is_numeric():
        raise InputError(
            f"{source}: column {name!r} holds {values.dtype}, but a channel holds numbers; leave it out, or name it as "
            "y if it says the class."
        )
    return np.asarray(values.to_numpy(), dtype=np.float64)


def _check_times(times: Any, codes: Any, order: Any, ids: Any, source: str) -> None:
    sorted_codes, sorted_times = codes[order], times[order]
    twice = np.flatnonzero((sorted_codes[1:] == sorted_codes[:-1]) & (sorted_times[1:] == sorted_times[:-1]))
    if len(twice):
        row = order[twice[0]]
        raise InputError(f"{source}: id {ids[row]} has two rows at time {times[row]}; keep one of them.")


def _labels(table: Table, y: Any, keys: Any, ids: Any, source: str) -> Labels:
    """The class of each id."""
    if isinstance(y, str):
        column = table.fetch(y).to_numpy()
        found: dict[Any, Any] = {}
        for key, label in zip(ids.tolist(), column.tolist(), strict=True):
            if found.setdefault(key, label) != label and not (is_missing(label) and is_missing(found[key])):
                raise InputError(
                    f"{source}: id {key} is of class {found[key]!r} in one row and {label!r} in another; "
                    "a case has one class."
                )
        return label_array([found[key] for key in keys.tolist()])
    if not isinstance(y, Mapping) and hasattr(y, "to_dict"):
        y = y.to_dict()
    if isinstance(y, Mapping):
        without = [key for key in keys.tolist() if key not in y]
        if without:
            raise InputError(f"y has no class for {len(without)} of {len(keys)} ids, such as {without[0]!r}; add them.")
        return label_array([y[key] for key in keys.tolist()])
    labels = label_array(y)
    if labels.shape != (len(keys),):
        raise InputError(
            f"y holds {labels.size} classes, but {source} holds {len(keys)} ids; give one for each id, in the order in "
            "which they first appear, or a mapping from id to class."
        )
    return labels
