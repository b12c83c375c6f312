"""The series of a long table: the ids of its rows, and the columns that tell series apart where none is named."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer.number_text import parse_column
from rearview.data.infer.timestamps import infer_kind
from rearview.data.io.table import Table, TableColumn
from rearview.data.step import Stamps

Indices = NDArray[np.int64]
JOIN = "/"
"""The separator of the parts of an id made from several columns."""
_LIKE_IDS = re.compile(
    r"(?i).*(?:\b|_)(?:id|nr|no|code)|(?:.*_)?(?:store|shop|branch|outlet|site|plant|item|sku|article|product|dept|"
    r"department|region|station|sensor|device|machine|meter|customer|client|account|series|entity)s?"
)
"""Names of columns whose whole numbers name something rather than count it."""
_FEW_STAMPS, _MOST_ROWS = 0.8, 0.95
"""Different stamps for each row below which stamps are shared, and the rows that ids have to tell apart then."""


def read_series(table: Table, id_columns: tuple[str, ...]) -> tuple[Indices, tuple[str, ...]]:
    """[row] the number of each row's series, and the ids as text, in the order in which they first appear.

    No id is missing.
    """
    codes, ids = _read_ids(table, id_columns[0])
    for name in id_columns[1:]:
        more, words = _read_ids(table, name)
        joint, first, inverse = np.unique(codes * len(words) + more, return_index=True, return_inverse=True)
        order = np.argsort(first)
        ids = [f"{ids[both // len(words)]}{JOIN}{words[both % len(words)]}" for both in joint[order].tolist()]
        codes = np.argsort(order)[inverse.reshape(-1)]
    return codes, tuple(ids)


def _read_ids(table: Table, name: str) -> tuple[Indices, list[str]]:
    import narwhals as nw

    column: TableColumn = table.fetch(name)
    dtype = column.dtype
    if dtype.is_float() and not column.is_null().any() and np.all(column.to_numpy() == np.floor(column.to_numpy())):
        # A reader makes floats of integers where a neighbour was missing once; 1.0 was never meant as an id.
        column = column.cast(nw.Int64)
    elif not dtype.is_integer() and dtype != nw.String:
        try:
            column = column.cast(nw.String)
        except Exception as problem:  # of whichever library holds the frame
            raise InputError(
                f"{table.source}, column {name!r} holds {dtype}, which can't name series; write the names as text."
            ) from problem
    values = column.unique(maintain_order=True).to_list()
    words = [str(value) for value in values]
    if len(values) == 1:
        return np.zeros(len(column), dtype=np.int64), words
    codes = column.replace_strict(values, list(range(len(values))), return_dtype=nw.Int64).to_numpy()
    return np.asarray(codes, dtype=np.int64), words


def fill_down(table: Table, names: Sequence[str], stamps: Stamps) -> tuple[Table, str | None]:
    """A table in which an id that stands in the first row of its series alone stands in all of them, and its column.

    So it is where ids are merged cells, and where the stamps of every run of empty cells differ.
    """
    import narwhals as nw

    for name in names:
        column = table.fetch(name)
        missing = missing_ids(column)
        if column.dtype != nw.String or missing[0] or 2 * int(missing.sum()) <= len(missing):
            continue
        runs = np.cumsum(~missing)
        if len(np.unique(np.stack([runs, stamps.astype(np.int64)]), axis=1).T) < len(runs):
            continue
        cells = column.to_list()
        filled = [cells[first] for first in np.flatnonzero(~missing)[runs - 1]]
        series = nw.new_series(name, filled, nw.String(), backend=column.implementation)

        def fetch(one: str, name: str = name, series: TableColumn = series) -> TableColumn:
            return series if one == name else table.fetch(one)

        return replace(table, fetch=fetch, reopen=None, parsed={}), name
    return table, None


def missing_ids(column: TableColumn) -> NDArray[np.bool_]:
    """[row]: whether the id of a row's series is missing."""
    import narwhals as nw

    missing = np.asarray(column.is_null().to_numpy())
    if column.dtype == nw.String:
        missing = missing | (column.str.strip_chars() == "").fill_null(True).to_numpy()
    return missing


def find_id_columns(
    table: Table, names: Sequence[str], stamps: Stamps, *, gathered: bool
) -> tuple[tuple[str, ...], ...]:
    """Sets of columns that tell apart the rows of one stamp, where nothing says which are ids.

    Columns of text count, and whole numbers with the name of an id or from an index. One set: there is one reading;
    several: any of them could be meant. Where most rows share their stamps, a few that can't be told apart are allowed:
    they are problems of their own. Where few do, and rows are to be `gathered` anyway, there are no series.
    """
    different, moments = np.unique(stamps, return_inverse=True)
    moments = moments.reshape(-1)
    shared = len(different) < _FEW_STAMPS * len(moments)
    if gathered and not shared:
        return ()
    least = _MOST_ROWS * len(moments) if shared else len(moments)
    codes = {name: read_series(table, (name,))[0] for name in names if _may_be_id(table, name)}

    def tells_apart(chosen: Sequence[str]) -> bool:
        if not chosen:
            return False
        rows = np.stack([*(codes[name] for name in chosen), moments])
        series = np.unique(rows[:-1], axis=1).shape[1]
        # An id of every row's own names no series.
        return 2 * series <= len(moments) and np.unique(rows, axis=1).shape[1] >= least

    alone = [name for name in codes if tells_apart([name])]
    if alone:
        partitions = {codes[name].tobytes(): (name,) for name in reversed(alone)}
        return tuple(reversed(partitions.values()))
    if not tells_apart(list(codes)):
        return ()
    needed = [name for name in codes if not tells_apart([other for other in codes if other != name])]
    return (tuple(needed),) if tells_apart(needed) else (tuple(codes),)


def _may_be_id(table: Table, name: str) -> bool:
    column = table.fetch(name)
    if column.dtype.is_nested() or column.dtype.is_temporal() or missing_ids(column).any():
        return False
    named = _LIKE_IDS.fullmatch(name) is not None or name in table.index_keys
    if column.dtype.is_numeric():
        numbers = column.to_numpy()
        return named and bool(np.all(numbers == np.floor(numbers)))
    kind = infer_kind(column)
    if kind == "stamps":
        return False
    parsed = parse_column(table, name)
    return parsed.is_text or (named and (kind == "integers" or bool(parsed.dressed)))
