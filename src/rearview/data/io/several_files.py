"""Several files as one table: a column says which file each row is from, so that each file is a series."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from rearview.core.errors import InputError
from rearview.core.wording import listing
from rearview.data.io.table import Table, TableColumn

FILE_NAME = "file"
VALUE_NAME = "value"
"""What the column of values is called where each file calls it otherwise."""
SUFFIXES = (".csv", ".tsv", ".txt", ".gz", ".parquet", ".arrow", ".feather", ".ipc", ".jsonl", ".ndjson", ".json",
            ".xlsx", ".xls", ".ods")  # fmt: skip
"""What files of data are called, in a folder that may hold others."""


def files_in(folder: Path) -> list[Path]:
    """The files of data in a folder, by name."""
    files = sorted(path for path in folder.iterdir() if path.suffix.casefold() in SUFFIXES and path.is_file())
    if not files:
        raise InputError(
            f"{folder} is a folder without a file of data (such as .csv or .parquet); give the file itself."
        )
    return files


def join_files(
    paths: Sequence[Path], source: str, open_file: Callable[[Path, Collection[str]], Table], text: Collection[str]
) -> Table:
    """The rows of all files, one file after the other, with the name of its file in each."""
    tables = [open_file(path, text) for path in paths]
    labels = _short_names(paths)
    names, own = _common_names(tables)
    rows = list(map(len, tables))
    starts = [0, *accumulate(rows)]

    def fetch(name: str) -> TableColumn:
        import narwhals as nw

        if name == FILE_NAME:
            cells = [label for label, count in zip(labels, rows, strict=True) for _ in range(count)]
            backend = tables[0].fetch(tables[0].names[0]).implementation
            return nw.new_series(name, cells, nw.String(), backend=backend)
        parts = [
            table.fetch(own[number] if name == VALUE_NAME and own else name).alias(name)
            for number, table in enumerate(tables)
        ]
        if len({part.dtype for part in parts}) > 1:
            # Numbers in one file and text in another: as text, the cell that is none can be named.
            parts = [part if part.dtype == nw.String else part.cast(nw.String) for part in parts]
        return nw.concat([part.to_frame() for part in parts]).get_column(name)

    def place(row: int) -> str:
        number = bisect_right(starts, row) - 1
        return f"{paths[number].name}, {tables[number].place(row - starts[number])}"

    first = tables[0]
    return replace(
        first,
        names=(FILE_NAME, *names),
        source=source,
        fetch=fetch,
        place=place,
        numeric=frozenset.intersection(*(table.numeric for table in tables)),
        id_names=(FILE_NAME,),
        starts=tuple(starts[:-1]),
        surplus=tuple(
            (start + row, count) for start, table in zip(starts, tables, strict=False) for row, count in table.surplus
        ),
        reopen=lambda wanted, _: join_files(paths, source, open_file, wanted),
        parsed={},
    )


def _short_names(paths: Sequence[Path]) -> list[str]:
    """What files are called without their folders and endings, where that tells them apart."""
    stems = [path.name.partition(".")[0] for path in paths]
    for names in (stems, [path.name for path in paths]):
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def _common_names(tables: Sequence[Table]) -> tuple[tuple[str, ...], list[str]]:
    """The columns that all files have, and of each the one column of its own, where there is one in every file."""
    first = tables[0]
    common = [name for name in first.names if all(name in table.names for table in tables)]
    own = [[name for name in table.names if name not in common] for table in tables]
    if not any(own):
        return tuple(common), []
    if common and all(len(names) == 1 for names in own) and VALUE_NAME not in common:
        return (*common, VALUE_NAME), [names[0] for names in own]
    other = next(table for table in tables[1:] if set(table.names) != set(first.names))
    raise InputError(
        f"The files have different columns: {first.source} has {listing(first.names)}, but {other.source} has "
        f"{listing(other.names)}; files that are series of one table need the same columns."
    )
