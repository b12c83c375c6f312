"""Cases from arrays, lists of unequal arrays, long tables and files; what can't be one is refused by name.

A long table has a row for each id and time, and a column for each channel.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rearview.core.errors import InputError
from rearview.core.wording import listing, quantity
from rearview.data.cases.case_set import Cases, Labels, Series, check_labels, is_missing, label_array
from rearview.data.infer.column_reader import count_values, find_marks, sentinel_cells
from rearview.data.infer.number_text import DoubtfulColumn, TextColumn, read_numbers
from rearview.data.infer.timestamps import infer_kind, require_times
from rearview.data.io import ts
from rearview.data.io.files import column_names, open_table
from rearview.data.io.table import Table
from rearview.data.panel import Finding
from rearview.data.read_options import ReadOptions, Sentinels
from rearview.data.step import Stamps

ID_NAMES = ("unique_id", "id", "case", "case_id")
TIME_NAMES = ("ds", "time", "date", "timestamp", "step", "t")
LABEL_NAMES = ("label", "class")
_LIKE_A_NUMBER = re.compile(r"[+-]?\d[\d.,' ]*")


def as_cases(
    X: object,
    y: object = None,
    *,
    source: str = "X",
    id_col: str | None = None,
    time_col: str | None = None,
    columns: tuple[str, ...] = (),
    sentinels: Sentinels | None = None,
) -> Cases:
    """Cases from an array [case, channel, time] ([case, time]: one channel), a list of arrays, a long frame or a file.

    A file is one of .ts, which holds the classes itself, or long: CSV or parquet. `y` holds a class for each case, in
    order; for a frame or long file also by id (a mapping or a pandas Series) or the name of a column that says it. Of
    these `columns` are the channels, in this order; none: all columns that are left. Steps at either end that are
    missing in every channel are cut off: that is how unequal series are stored in one array. `sentinels` are values
    that stand for missing, by the rule of `sentinel_cells` for all cases of a channel.
    """
    if isinstance(X, Cases):
        return X if y is None else replace(X, labels=_ordered_labels(y, len(X), source))
    if isinstance(X, str | Path):
        source = str(X)
    if is_ts(X):
        return mask_marks(as_cases(ts.read(X), y, source=source), sentinels)
    if isinstance(X, str | Path) or hasattr(X, "columns") or hasattr(X, "column_names"):
        return _read_long(X, y, source, id_col, time_col, columns, sentinels).trim()
    series, findings = _mask_series(_split_arrays(X, source), (), sentinels)
    names = tuple(f"case {number}" for number in range(1, len(series) + 1))
    if y is None:
        return Cases(series, None, names, source, findings=findings).trim()
    labels = _ordered_labels(y, len(series), source)
    return Cases(series, labels, names, source, findings=(*findings, *_find_turned(series, source))).trim()


def mask_marks(cases: Cases, sentinels: Sentinels | None) -> Cases:
    """Cases without the values that stand for missing."""
    series, findings = _mask_series(cases.series, cases.columns, sentinels)
    return replace(cases, series=series, findings=(*cases.findings, *findings))


def _mask_series(
    series: tuple[Series, ...], columns: Sequence[str], sentinels: Sentinels | None
) -> tuple[tuple[Series, ...], tuple[Finding, ...]]:
    """Series with NaN where a value stands for missing among all cases of its channel, and what was found."""
    if not sentinels or len({one.shape[0] for one in series}) != 1:
        return series, ()
    whole = np.concatenate(series, axis=1)
    marked: dict[str, dict[float, int]] = {}
    for number, channel in enumerate(whole):
        finite = np.where(np.isfinite(channel), channel, np.nan)  # infinity is refused, whatever stands beside it
        cells = sentinel_cells(finite, np.array([0, len(channel)]), sentinels) if len(channel) else None
        if cells is not None:
            marked[columns[number] if columns else f"channel {number + 1}"] = count_values(channel[cells])
            channel[cells] = np.nan
    if not marked:
        return series, ()
    ends = np.cumsum([one.shape[1] for one in series])[:-1]
    return tuple(np.split(whole, ends, axis=1)), (find_marks(marked),)


def is_ts(X: object) -> TypeGuard[str | Path]:
    """Whether cases come in a .ts file."""
    return isinstance(X, str | Path) and Path(X).suffix.casefold() == ".ts"


def label_column(file: Path | str, given: str | None) -> str:
    """The column of a long file that holds the class of a row's case; None looks for one of the usual names."""
    return _find_column(column_names(file), given, LABEL_NAMES, "labels", str(file))


def find_label_column(file: Path | str, channels: Sequence[str] = ()) -> str | None:
    """The column of one of the usual names that holds classes, beside `channels`; None where none does."""
    table = open_table(file)
    usual = [name for name in table.names if name.casefold() in LABEL_NAMES and name not in channels]
    return next((name for name in usual if not table.fetch(name).is_null().all()), None)


def _ordered_labels(y: object, cases: int, source: str) -> Labels:
    """Classes in the order of the cases."""
    if isinstance(y, Mapping):
        raise InputError("Classes by id go with a long frame; for arrays give y in the order of the cases.")
    labels = label_array(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InputError(f"y must hold one class for each case, but its shape is {labels.shape}; give a 1d list.")
    if len(labels) != cases:
        raise InputError(f"y holds {len(labels)} classes, but {source} holds {cases} cases; give one for each case.")
    return check_labels(labels)


def _split_arrays(X: object, source: str) -> tuple[Series, ...]:
    if hasattr(X, "toarray"):
        raise InputError(f"{source} is a sparse matrix; a series has a value at every step: call toarray() first.")
    if isinstance(X, Sequence) and not isinstance(X, str) and _is_unequal(X):
        each = (_numbers(one, f"{source}, case {number}") for number, one in enumerate(X, start=1))
        return tuple(one[None] if one.ndim == 1 else one for one in each)
    whole = _numbers(X, source)
    if whole.shape == (0,):
        raise InputError(f"{source} holds no case (0 samples); give at least one series.")
    if whole.ndim not in (2, 3):
        raise InputError(
            f"{source} must have the shape [case, channel, time] (or [case, time]), but it has {whole.ndim} axes: "
            f"{whole.shape}. Reshape your data."
        )
    if 0 in whole.shape:
        missing = "sample(s)" if not len(whole) else "feature(s)"
        raise InputError(
            f"{source} is empty: 0 {missing} (shape={whole.shape}) while a minimum of 1 is required; give at least one "
            "case of one step."
        )
    return tuple(whole[:, None] if whole.ndim == 2 else whole)


def _find_turned(series: tuple[Series, ...], source: str) -> list[Finding]:
    """A warning of cases alike that have more channels than steps, as arrays [case, time, channel] have."""
    channels, steps = series[0].shape
    if channels <= steps or any(one.shape != series[0].shape for one in series):
        return []
    message = (
        f"{source} is read as cases of {channels} channels and {quantity(steps, 'step')}; channels come before time: "
        f"if these are {quantity(steps, 'channel')} of {channels} steps, give np.transpose({source}, (0, 2, 1))."
    )
    return [Finding("warning", "more_channels_than_steps", len(series), message)]


def _is_unequal(X: Sequence[ArrayLike]) -> bool:
    """Whether a list holds arrays of their own rather than the rows of one."""
    try:
        return len({np.shape(one) for one in X}) > 1 or (len(X) > 0 and np.ndim(X[0]) == 2)
    except ValueError:  # lists within lists of unequal length: each is refused by its name
        return True


def _numbers(X: object, what: str) -> Series:
    try:
        array = np.asarray(X)
        if array.dtype.kind != "c":
            return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InputError(
            f"{what} does not hold numbers ({problem}); give an array [case, channel, time], a list of arrays "
            "[channel, time], or a long frame."
        ) from problem
    raise InputError(f"Complex data not supported: {what} holds complex numbers.")


def _read_long(
    frame: object,
    y: object,
    source: str,
    id_col: str | None,
    time_col: str | None,
    columns: tuple[str, ...],
    sentinels: Sentinels | None,
) -> Cases:
    """A case for each id, in the order in which the ids first appear, its rows in the order of time.

    Ids and classes of a text file are kept as they are written.
    """
    label_col = y if isinstance(y, str) else None
    as_written = {name.casefold() for name in (id_col, label_col) if name} | {*ID_NAMES}
    table = open_table(frame, text_columns=as_written)
    ids_in = _find_column(table.names, id_col, ID_NAMES, "id_col", source, columns)
    times_in = _find_column(table.names, time_col, TIME_NAMES, "time_col", source, columns)
    taken = {ids_in, times_in, label_col}
    channels = list(columns) or [name for name in table.names if name not in taken]
    missing = [name for name in columns if name not in table.names]
    if missing:
        raise InputError(
            f"{source} has no column {missing[0]!r}, which the classifier was trained on; it has "
            f"{listing(table.names)}."
        )
    if label_col is not None and label_col not in table.names:
        raise InputError(table.describe_unknown(label_col, "y"))
    if not channels:
        raise InputError(f"{source} has no column of values beside {ids_in!r} and {times_in!r}; add one a channel.")
    ids, times = _complete(table, ids_in, source), _times(table, times_in, source)
    _, first, codes = np.unique(ids.astype(str), return_index=True, return_inverse=True)
    codes = np.argsort(np.argsort(first))[codes]  # in the order of their first rows
    order = np.lexsort((times, codes))
    sorted_codes, sorted_times = codes[order], times[order]
    twice = np.flatnonzero((sorted_codes[1:] == sorted_codes[:-1]) & (sorted_times[1:] == sorted_times[:-1]))
    if len(twice):
        row = order[twice[0]]
        raise InputError(f"{source}: id {ids[row]} has two rows at time {times[row]}; keep one of them.")
    values = np.stack([_channel(table, name, source, fills=sentinels == "auto") for name in channels])[:, order]
    ends = np.cumsum(np.bincount(codes))[:-1]
    keys = ids[np.sort(first)]
    labels = None if y is None else check_labels(_labels_by_id(table, y, keys, ids, source), f"y of {source}")
    series, findings = _mask_series(tuple(np.split(values, ends, axis=1)), channels, sentinels)
    own = tuple(str(key) for key in keys)
    names = tuple(f"id {key}" for key in own)
    return Cases(series, labels, names, source, columns=tuple(channels), findings=findings, ids=own)


def _times(table: Table, name: str, source: str) -> Stamps:
    """The time of each row; text is read as the stamps or numbers that it spells, whose order is not its letters'."""
    values = _complete(table, name, source)
    if values.dtype.kind not in "OUT":
        return values
    if infer_kind(table.fetch(name)) == "other":
        try:
            numbers = read_numbers(table, name)
        except InputError:
            # Names of steps have no order but that of their letters; numbers among them would be put out of theirs.
            if not any(_LIKE_A_NUMBER.fullmatch(str(value).strip()) for value in values):
                return values
        else:
            _refuse_empty(np.isnan(numbers), name, source)
            return numbers
    return require_times(table, name, ReadOptions()).values


def _complete(table: Table, name: str, source: str) -> Stamps:
    """A column that must have a value in every row."""
    column = table.fetch(name)
    empty = column.is_null()
    if column.dtype.is_float():
        empty = empty | column.is_nan()
    _refuse_empty(empty.to_numpy(), name, source)
    return column.to_numpy()


def _refuse_empty(empty: NDArray[np.bool_], name: str, source: str) -> None:
    if empty.any():
        raise InputError(
            f"{source}: column {name!r} has no value in {int(empty.sum())} of {len(empty)} rows, the first in row "
            f"{int(empty.argmax()) + 1}; every row of a case needs its id and time."
        )


def _find_column(
    names: tuple[str, ...],
    given: str | None,
    usual: tuple[str, ...],
    setting: str,
    source: str,
    channels: tuple[str, ...] = (),
) -> str:
    """The column that is given, else that with the first of the usual names; `channels` of training are passed over."""
    option = f"{setting} (--{setting.replace('_', '-')})"
    if given is not None:
        if given not in names:
            raise InputError(f"{source} has no column {given!r}, which {option} names; it has {listing(names)}.")
        return given
    # From the back, so that of names that differ in case alone the first one stays.
    by_name = {name.casefold(): name for name in reversed(names) if name not in channels}
    name = next((by_name[name] for name in usual if name in by_name), None)
    if name is None:
        beside = f" beside {listing(channels)}, which the classifier was trained on" if channels else ""
        numbered = sum(name[-1:].isdigit() for name in names)
        turn = ""
        if setting == "time_col" and 2 * numbered > len(names):
            turn = (
                " If each row is a whole case with a column for each step, make rows of its steps first, as pandas' "
                "melt does: a case, a time, a value and a class in each."
            )
        raise InputError(
            f"{source} has no column called {' or '.join(usual)}{beside}; say with {option} which of "
            f"{listing(names)} it is.{turn}"
        )
    return name


def _channel(table: Table, name: str, source: str, *, fills: bool) -> NDArray[np.float64]:
    try:
        # Numbers of a file may be spelled in many ways; text in a frame is meant as text, a class of "0" and "1", say.
        if table.backend != "file" and not table.fetch(name).dtype.is_numeric():
            raise TextColumn(name)
        return read_numbers(table, name, fills=fills)
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


def _labels_by_id(table: Table, y: object, keys: Stamps, ids: Stamps, source: str) -> Labels:
    """The class of each id."""
    if isinstance(y, str):
        column = table.fetch(y).to_numpy()
        by_id: dict[object, object] = {}
        for key, label in zip(ids.tolist(), column.tolist(), strict=True):
            if by_id.setdefault(key, label) != label and not (is_missing(label) and is_missing(by_id[key])):
                raise InputError(
                    f"{source}: id {key} is of class {by_id[key]!r} in one row and {label!r} in another; "
                    "a case has one class."
                )
        return label_array([by_id[key] for key in keys.tolist()])
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
