"""From a file or frame to a table: which reader a source needs, and which columns it has."""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TypeGuard

import numpy as np

from rearview.core.errors import InputError, did_you_mean
from rearview.data.io.columnar import ColumnarFile
from rearview.data.io.csv import read_csv, sniff
from rearview.data.io.excel import MARKS, read_excel
from rearview.data.io.json_lines import is_json, read_json
from rearview.data.io.several_files import files_in, join_files
from rearview.data.io.table import Table, from_array, from_frame
from rearview.data.read_options import Decimal, Names, names_in

STDIN = ("-", "/dev/stdin")
"""Names that stand for standard input in place of a file."""
_STDIN_NAME = "standard input"
_PARQUET, _ARROW = b"PAR1", b"ARROW1"


def open_table(
    source: object,
    *,
    text_columns: Collection[str] = (),
    index_names: Collection[str] = (),
    decimal: Decimal | None = None,
    sheet: str | None = None,
) -> Table:
    """The table in a file (str or Path; - is standard input), a folder or list of files, a frame or array, or a table.

    In a text file `text_columns` (in lower case) are kept as they are written; levels of a pandas index become columns
    where they hold stamps, stand beside one that does, or are among `index_names`.
    """
    mark = None if decimal is None else "," if decimal == "comma" else "."
    if isinstance(source, Table):
        return source.suited_to(text_columns, index_names, mark)
    table = _open(source, text_columns, index_names, mark, sheet)
    return table if mark is None else replace(table, decimal=mark)


def _open(
    source: object, text_columns: Collection[str], index_names: Collection[str], mark: str | None, sheet: str | None
) -> Table:
    def open_file(path: Path, text: Collection[str]) -> Table:
        return _open_file(path, text, mark, sheet)

    if isinstance(source, np.ndarray):
        return from_array(source)
    if _are_paths(source):
        return join_files([Path(path) for path in source], f"{len(source)} files", open_file, text_columns)
    if not isinstance(source, str | Path):
        return from_frame(source, index_names=index_names)
    if str(source) in STDIN:
        return _name_stdin(lambda: open_file(_spool_stdin(), text_columns))
    path = Path(source)
    if path.is_dir():
        return join_files(files_in(path), str(path), open_file, text_columns)
    return open_file(path, text_columns)


def name_files(files: Sequence[str]) -> str:
    """How pages and messages call the files of a command."""
    return " ".join(_STDIN_NAME if file in STDIN else file for file in files)


def _are_paths(source: object) -> TypeGuard[Sequence[str | Path]]:
    return isinstance(source, list | tuple) and bool(source) and all(isinstance(one, str | Path) for one in source)


def _open_file(path: Path, text_columns: Collection[str], mark: str | None, sheet: str | None) -> Table:
    kind = _kind_of(path)
    if kind == "excel":
        return read_excel(path, sheet)
    if sheet is not None:
        raise InputError(f"{path} is no Excel workbook, so it has no sheet {sheet!r}; leave out sheet (--sheet).")
    if isinstance(kind, ColumnarFile):
        return kind.read()
    return read_json(path) if kind == "json" else read_csv(sniff(path), text_columns, mark)


def _kind_of(path: Path) -> ColumnarFile | str:
    """What a file is by its content, whatever its name; a missing, empty or unreadable file is refused."""
    start = _read_start(path)
    try:
        str(path).encode()
    except UnicodeEncodeError:
        shown = str(path).encode(errors="backslashreplace").decode()
        raise InputError(f"{shown} has a name that is no text in UTF-8; rename the file.") from None
    if start.startswith(_PARQUET):
        return ColumnarFile(path, "parquet")
    if start.startswith(_ARROW):
        return ColumnarFile(path, "arrow")
    if start.startswith(MARKS):
        return "excel"
    return "json" if is_json(path) else "text"


@lru_cache(maxsize=1)
def _spool_stdin() -> Path:
    """Standard input as a file, because a table may be read more than once."""
    folder = Path(tempfile.mkdtemp(prefix="rearview-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with (folder / "stdin").open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return folder / "stdin"


def _name_stdin(open_it: Callable[[], Table]) -> Table:
    """A table that calls itself standard input, as its refusals do."""
    try:
        table = open_it()
    except InputError as error:
        raise InputError(str(error).replace(str(_spool_stdin()), _STDIN_NAME)) from error
    return replace(table, source=_STDIN_NAME, reopen=table.reopen_with(lambda again: _name_stdin(lambda: again)))


def column_names(source: object, *, sheet: str | None = None) -> tuple[str, ...]:
    """The columns of a file, frame or table; of a file the beginning alone is read, and refused if it is no table's."""
    if not isinstance(source, str | Path) or str(source) in STDIN or os.path.isdir(source):
        return open_table(source, sheet=sheet).names
    path = Path(source)
    kind = _kind_of(path)
    if isinstance(kind, ColumnarFile):
        return kind.names()
    return sniff(path).names if kind == "text" else _open_file(path, (), None, sheet).names


def select_present(source: object, names: Names) -> tuple[str, ...]:
    """Those of some columns that a file, frame or table has."""
    there = column_names(source) if names else ()
    return tuple(name for name in names_in(names) if name in there)


def _read_start(path: Path) -> bytes:
    if not path.exists():
        near = sorted(one.name for one in path.parent.iterdir()) if path.parent.is_dir() else []
        raise InputError(f"{path} does not exist; check the path and the spelling.{did_you_mean(path.name, near)}")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the file in it that holds the data.")
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}.") from error
    if not start:
        raise InputError(f"{path} is empty: it has no bytes.")
    return start
