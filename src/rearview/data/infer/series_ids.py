"""Which series each row of a long table belongs to: ids as text, in the order in which they first appear."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.io.table import Table

JOIN = "/"
"""What stands between the parts of an id made from several columns."""


def series_of(table: Table, id_columns: tuple[str, ...]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """[row] the number of each row's series, and the ids."""
    codes, ids = _one_column(table, id_columns[0])
    for name in id_columns[1:]:
        more, words = _one_column(table, name)
        joint, first, inverse = np.unique(codes * len(words) + more, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        ids = [f"{ids[both // len(words)]}{JOIN}{words[both % len(words)]}" for both in joint[order].tolist()]
        codes = rank[inverse.reshape(-1)]
    return codes, tuple(ids)


def _one_column(table: Table, name: str) -> tuple[NDArray[np.int64], list[str]]:
    import narwhals as nw

    series: nw.Series[Any] = table.fetch(name)
    dtype = series.dtype
    if dtype.is_float() and not series.is_null().any() and np.all(series.to_numpy() == np.floor(series.to_numpy())):
        # A reader makes floats of integers where a neighbour was missing once; 1.0 was never meant as an id.
        series = series.cast(nw.Int64)
    elif not dtype.is_integer() and dtype != nw.String:
        series = series.cast(nw.String)
    missing = series.is_null().to_numpy()
    if series.dtype == nw.String:
        missing = missing | (series == "").fill_null(True).to_numpy()
    if missing.any():
        raise InputError(
            f"{table.at(int(missing.argmax()))}, column {name!r}: the id of the series is missing; fill it in or "
            "remove the row."
        )
    values = series.unique(maintain_order=True).to_list()
    words = [str(value) for value in values]
    if len(values) == 1:
        return np.zeros(len(series), dtype=np.int64), words
    codes = series.replace_strict(values, list(range(len(values))), return_dtype=nw.Int64).to_numpy()
    return np.asarray(codes, dtype=np.int64), words
