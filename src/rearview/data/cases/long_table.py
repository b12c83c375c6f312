"""Cases from a long frame or file: a row for each id and time, a column for each channel."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rearview.core.errors import InputError
from rearview.data.cases.case_set import Cases, Labels, check_labels, is_missing, label_array
from rearview.data.infer.number_text import DoubtfulColumn, TextColumn, numeric_column
from rearview.data.infer.timestamps import kind_of, read_times
from rearview.data.io.files import column_names, open_table
from rearview.data.io.table import Table, listing

ID_NAMES = ("unique_id", "id", "case", "case_id")
TIME_NAMES = ("ds", "time", "date", "timestamp", "step", "t")
LABEL_NAMES = ("label", "class")
_LIKE_A_NUMBER = re.compile(r"[+-]?\d[\d.,' ]*")


def label_column(file: Path | str, given: str | None) -> str:
    """The column of a long file that holds the class of a row's case; None looks for one of the usual names."""
    return _named(column_names(file), given, LABEL_NAMES, "labels", str(file))


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
    ids_in = _named(table.names, id_col, ID_NAMES, "id_col", source, columns)
    times_in = _named(table.names, time_col, TIME_NAMES, "time_col", source, columns)
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
    from_file = isinstance(frame, str | Path)
    values = np.stack([_column(table, name, source, from_file) for name in channels])[:, order]
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
    """The time of each row; text is read as the stamps or numbers that it spells, whose order is not its letters'."""
    values = _complete(table, name, source)
    if values.dtype.kind not in "OUT":
        return values
    if kind_of(table.fetch(name)) == "other":
        try:
            numbers = numeric_column(table, name)
        except InputError:
            # Names of steps have no order but that of their letters; numbers among them would be put out of theirs.
            if not any(_LIKE_A_NUMBER.fullmatch(str(value).strip()) for value in values):
                return values
        else:
            _refuse_empty(np.isnan(numbers), name, source)
            return numbers
    return read_times(table, name, None).values


def _complete(table: Table, name: str, source: str) -> Any:
    """A column that must have a value in every row."""
    values: Any = table.fetch(name)
    empty = values.is_null()
    if values.dtype.is_float():
        empty = empty | values.is_nan()
    _refuse_empty(empty.to_numpy(), name, source)
    return values.to_numpy()


def _refuse_empty(empty: Any, name: str, source: str) -> None:
    if empty.any():
        raise InputError(
            f"{source}: column {name!r} has no value in {int(empty.sum())} of {len(empty)} rows, the first in row "
            f"{int(empty.argmax()) + 1}; every row of a case needs its id and time."
        )


def _named(
    names: tuple[str, ...],
    given: str | None,
    usual: tuple[str, ...],
    setting: str,
    source: str,
    channels: tuple[str, ...] = (),
) -> str:
    """The column that is given, else that with the first of the usual names; `channels` of training are passed over."""
    if given is not None:
        if given not in names:
            raise InputError(f"{source} has no column {given!r}, which {setting} names; it has {listing(names)}.")
        return given
    # From the back, so that of names that differ in case alone the first one stays.
    by_name = {name.casefold(): name for name in reversed(names) if name not in channels}
    found = next((by_name[name] for name in usual if name in by_name), None)
    if found is None:
        beside = f" beside {listing(channels)}, which the classifier was trained on" if channels else ""
        raise InputError(
            f"{source} has no column called {' or '.join(usual)}{beside}; say with {setting}=... which of "
            f"{listing(names)} it is."
        )
    return found


def _column(table: Table, name: str, source: str, from_file: bool) -> Any:
    try:
        # Numbers of a file may be spelled in many ways; text in a frame is meant as text, a class of "0" and "1", say.
        if not from_file and not table.fetch(name).dtype.is_numeric():
            raise TextColumn(name)
        return numeric_column(table, name)
    except DoubtfulColumn as problem:
        raise InputError(
            f"{source}: column {name!r} may hold numbers with a decimal comma or with marks between thousands; write "
            "them with a decimal point and nothing between thousands, such as 1234.5, or leave the column out."
        ) from problem
    except TextColumn as problem:
        raise InputError(
            f"{source}: column {name!r} holds {table.fetch(name).dtype}, but a channel holds numbers; leave it out, or "
            "name it as y if it says the class."
        ) from problem


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
