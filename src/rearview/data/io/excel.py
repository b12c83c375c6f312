"""Excel and OpenDocument workbooks, a sheet of which is a table; read with python-calamine (the extra `excel`)."""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Literal, TypeAlias

from rearview.core.errors import InputError, did_you_mean
from rearview.core.installation import install_command
from rearview.core.wording import listing
from rearview.data.io.csv import join_headers
from rearview.data.io.table import Table, TableColumn, check_unique, has_polars

WorkbookCell: TypeAlias = str | float | bool | datetime | date | time | timedelta
_LEAST_ROWS = 3
"""Rows with cells from which on a sheet is taken for a table."""
_MOST_ROWS_ABOVE = 30
"""Rows that are looked at for the header."""
MARKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""The first bytes of workbooks: of zip archives, and of older ones."""


def read_excel(path: Path, sheet: str | None) -> Table:
    """The table of a sheet, by name; None: the first that holds one, or any cell.

    Rows above the header, such as a title, are passed over; columns without a header have names given.
    """
    sheets = _open_workbook(path)
    names = list(sheets.sheet_names)
    if sheet is not None and sheet not in names:
        raise InputError(
            f"{path} has no sheet {sheet!r}, which sheet (--sheet) names.{did_you_mean(sheet, names)} Its sheets are "
            f"{listing(names)}."
        )
    name, rows = "", list[list[WorkbookCell]]()
    for one in names if sheet is None else [sheet]:
        cells = _read_sheet(path, sheets, one)
        filled = sum(map(bool, map(_count_filled, cells)))
        # A sheet of remarks may stand before the table.
        if filled >= _LEAST_ROWS or (filled and not rows):
            name, rows = one, cells
        if filled >= _LEAST_ROWS:
            break
    if not rows:
        raise InputError(f"{path} is empty: {'no sheet' if sheet is None else f'its sheet {sheet!r}'} holds any cell.")
    note = f"The sheet is {name!r}; sheet (--sheet) names another of {listing(names)}."
    return _table_of(path, rows, (("sheet", note),) if sheet is None and len(names) > 1 else ())


def _read_sheet(path: Path, sheets: Any, name: str) -> list[list[WorkbookCell]]:
    try:
        rows: list[list[WorkbookCell]] = sheets.get_sheet_by_name(name).to_python(skip_empty_area=False)
    except Exception as error:  # the reader's own, of a sheet that is damaged or no table (a chart)
        raise InputError(
            f"{path}: sheet {name!r} can't be read ({str(error).splitlines()[0]}); save the data as CSV or parquet."
        ) from error
    return rows


def _open_workbook(path: Path) -> Any:
    try:
        from python_calamine import CalamineWorkbook
    except ModuleNotFoundError as error:
        raise InputError(
            f"{path} is a zip archive or an Excel workbook; to read a workbook install python-calamine "
            f"({install_command('excel')}), or save the data as CSV or parquet."
        ) from error
    try:
        return CalamineWorkbook.from_path(str(path))
    except Exception as error:
        # A zip archive of something else, a damaged or an encrypted workbook: each is an error of its own.
        raise InputError(
            f"{path} is no Excel workbook that can be read ({str(error).splitlines()[0]}); save the data as CSV or "
            "parquet."
        ) from error


def _count_filled(row: Sequence[WorkbookCell]) -> int:
    """The number of cells of a row that hold something."""
    return sum(cell != "" for cell in row)


def _find_header(rows: list[list[WorkbookCell]]) -> int:
    """The row of the names: the first that is text throughout and as long as most rows, else the first of two cells."""
    lengths = [count for count in map(_count_filled, rows) if count]
    usual = max(set(lengths), key=lengths.count)
    for number, row in enumerate(rows[:_MOST_ROWS_ABOVE]):
        filled = [cell for cell in row if cell != ""]
        if len(filled) >= max(2, usual):
            if all(isinstance(cell, str) for cell in filled):
                return number
            break
    return next(number for number, row in enumerate(rows) if _count_filled(row) >= min(2, max(lengths)))


def _table_of(path: Path, rows: list[list[WorkbookCell]], notes: tuple[tuple[str, str], ...]) -> Table:
    top = _find_header(rows)
    header, body = rows[top], rows[top + 1 :]
    filled = [cell for cell in header if cell != ""]
    if len(filled) > 1 and not any(isinstance(cell, str) for cell in filled) and isinstance(filled[0], date):
        # A row like the others: a stamp, then numbers.
        values = (f"value {place}" if len(filled) > 2 else "value" for place in range(1, len(header)))
        header, body, top = ["date", *values], rows[top:], top - 1
        notes = (*notes, ("header", f"There is no header; the columns are called {listing(list(map(str, header)))}."))
    elif body and (joint := join_headers([*map(_text, header)], [*map(_text, body[0])])):
        header, body, top = [*joint], body[1:], top + 1
        notes = (*notes, ("header", f"The header has two rows; the columns are called {listing(joint)}."))
    kept = [number for number, row in enumerate(body) if _count_filled(row)]
    used = [
        place
        for place in range(len(header))
        if header[place] != "" or any(body[number][place] != "" for number in kept)
    ]
    names = tuple(" ".join(_text(header[place]).split()) or f"column {place + 1}" for place in used)
    check_unique(names, str(path))
    if not kept:
        raise InputError(f"{path} has a header but no rows.")
    columns = {
        name: _column(name, [body[number][place] for number in kept]) for name, place in zip(names, used, strict=True)
    }
    return Table(
        names,
        str(path),
        "file",
        columns.__getitem__,
        # As Excel counts its rows.
        lambda row: f"row {top + 2 + kept[row]}",
        notes=notes,
    )


def _column(name: str, cells: list[WorkbookCell]) -> TableColumn:
    """Numbers, stamps, or text where a column holds several kinds."""
    import narwhals as nw

    backend: Literal["polars", "pandas"] = "polars" if has_polars() else "pandas"
    filled = [cell for cell in cells if cell != ""]
    if filled and all(isinstance(cell, float | int) and not isinstance(cell, bool) for cell in filled):
        numbers = [None if cell == "" else float(cell) for cell in cells]  # type: ignore[arg-type]
        return nw.new_series(name, numbers, nw.Float64(), backend=backend)
    if filled and all(isinstance(cell, date) for cell in filled):
        stamps = [None if cell == "" else _moment(cell) for cell in cells]
        return nw.new_series(name, stamps, nw.Datetime("us"), backend=backend)
    return nw.new_series(name, [None if cell == "" else _text(cell) for cell in cells], nw.String(), backend=backend)


def _moment(cell: object) -> datetime:
    if isinstance(cell, datetime):
        return cell
    assert isinstance(cell, date)
    return datetime(cell.year, cell.month, cell.day)


def _text(cell: WorkbookCell) -> str:
    """A cell as a person would write it: 3 for 3.0, 2024-01-31 for a day."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, date):
        return _moment(cell).isoformat(sep=" ").removesuffix(" 00:00:00")
    return str(cell).strip()
