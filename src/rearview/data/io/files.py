"""From a file or frame to a table: which reader a source needs, and which columns it has."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from rearview.core.errors import InputError
from rearview.data.io.csv import read_csv, sniff
from rearview.data.io.parquet import parquet_names, read_parquet
from rearview.data.io.table import Table, from_frame
from rearview.data.read_options import Decimal, Names, names_in

_PARQUET = b"PAR1"


def open_table(
    source: object,
    *,
    text_columns: Collection[str] = (),
    index_names: Collection[str] = (),
    decimal: Decimal | None = None,
    sheet: str | None = None,
) -> Table:
    """The table in a file (str or Path) or frame, or a table that is open already.

    In a text file `text_columns` (in lower case) are kept as they are written; levels of a pandas index become columns
    where they hold stamps or are among `index_names`.
    """
    mark = None if decimal is None else "," if decimal == "comma" else "."
    if isinstance(source, Table):
        return source.suited_to(text_columns, index_names, mark)
    table = _open(source, text_columns, index_names, mark, sheet)
    return table if mark is None else replace(table, decimal=mark)


def _open(
    source: object, text_columns: Collection[str], index_names: Collection[str], mark: str | None, sheet: str | None
) -> Table:
    if not isinstance(source, str | Path):
        return from_frame(source, index_names=index_names)
    path = Path(source)
    return read_parquet(path) if _is_parquet(path) else read_csv(sniff(path), text_columns, mark)


def column_names(source: object) -> tuple[str, ...]:
    """The columns of a file, frame or table; of a file the beginning alone is read, and refused if it is no table's."""
    if isinstance(source, Table):
        return source.names
    if not isinstance(source, str | Path):
        return from_frame(source).names
    path = Path(source)
    return parquet_names(path) if _is_parquet(path) else sniff(path).names


def select_present(source: object, names: Names) -> tuple[str, ...]:
    """Those of some columns that a file, frame or table has."""
    there = column_names(source) if names else ()
    return tuple(name for name in names_in(names) if name in there)


def _is_parquet(path: Path) -> bool:
    """Whether a file is parquet, whatever its name; a missing, empty or unreadable file is refused."""
    if not path.exists():
        raise InputError(f"{path} does not exist; check the path and the spelling.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the file in it that holds the data.")
    try:
        with path.open("rb") as file:
            start = file.read(len(_PARQUET))
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}.") from error
    if not start:
        raise InputError(f"{path} is empty: it has no bytes.")
    return start == _PARQUET
