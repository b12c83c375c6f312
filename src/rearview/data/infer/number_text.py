"""Columns of numbers: one float64 array at a time, and a refusal that names the cell which is none."""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer.timestamps import infer_kind
from rearview.data.io.table import Table, TableColumn

MISSING_WORDS = frozenset({"", "na", "n/a", "#n/a", "nan", "nat", "null", "none", "<na>", "-nan", "-"})
LARGEST = 1e37
"""Beyond this a float32 may overflow in arithmetic as plain as a sum of ten."""
_WHOLE_OR_DECIMAL_COMMA = re.compile(r"[+-]?\d+(?:,\d+)?(?:[eE][+-]?\d+)?")
_GROUPED = {
    (".", ","): re.compile(r"[+-]?(?:[1-9]\d{0,2}(?:\.\d{3})+|\d+)(?:,\d+)?"),
    (",", "."): re.compile(r"[+-]?(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)(?:\.\d+)?"),
}
"""What stands between thousands and what before decimals -> the numbers that can be written so."""
_OTHER_NOTATION = re.compile(r"[+-]?\d[\d.,' ]*,[\d.,' ]*\d")
_TRUTH = {"true": 1.0, "false": 0.0}


class TextColumn(InputError):
    """A column in which no cell is a number."""

    def __init__(self, fact: str, advice: str = "") -> None:
        """`fact` says what the column holds, `advice` what to do about it."""
        super().__init__(f"{fact}; {advice}" if advice else fact)
        self.fact = fact


class DoubtfulColumn(TextColumn):
    """A column of what may be numbers in a notation that is not guessed at."""


class Notation(NamedTuple):
    """How the numbers of a text column are written."""

    thousands: str
    """What stands between thousands; nothing where it is empty."""
    decimal: str
    example: str
    """The first cell that shows it."""

    def plain(self, cell: str) -> str:
        """A number of this notation as Python reads it."""
        return cell.replace(self.thousands, "").replace(self.decimal, ".")


def read_numbers(table: Table, name: str) -> NDArray[np.float64]:
    """The column as float64, missing cells NaN; text, infinite and oversized values are refused by line and value."""
    import narwhals as nw

    column = table.fetch(name)
    dtype = column.dtype
    if isinstance(dtype, nw.Decimal) or dtype == nw.Boolean:
        column = column.cast(nw.Float64)
        dtype = column.dtype
    if dtype.is_numeric():
        numbers = np.asarray(column.to_numpy(), dtype=np.float64)
    elif column.is_null().all():
        numbers = np.full(len(column), np.nan)
    elif dtype.is_temporal() or dtype.is_nested():
        raise TextColumn(
            f"{table.source}: column {name!r} holds {'stamps' if dtype.is_temporal() else 'lists'}, not numbers",
            f"leave it out with drop (--drop {name!r}) or name what to forecast with target (--target).",
        )
    else:
        if name not in table.parsed:
            table.parsed[name] = _parse(table, name, column)
            table.parsed[name].flags.writeable = False
        numbers = table.parsed[name]
    # The comparison is False for NaN, so only infinite and oversized cells are True.
    with np.errstate(invalid="ignore"):
        bad = np.abs(numbers) > LARGEST
    if bad.any():
        row = int(bad.argmax())
        kind = "an infinite value" if np.isinf(numbers[row]) else "a value too large for float32"
        raise InputError(
            f"{table.at(row)}, column {name!r} holds {kind} ({numbers[row]!s}); correct the cell, or leave it empty if "
            "the value is missing."
        )
    return numbers


def _parse(table: Table, name: str, column: TableColumn) -> NDArray[np.float64]:
    """The numbers in cells of text, or of True and False."""
    cells = _texts(column)
    style = _infer_notation(table, cells)
    numbers = [_number(cell, style) for cell in cells]
    bad = [row for row, number in enumerate(numbers) if number is None]
    if not bad:
        return np.array(numbers, dtype=np.float64)
    filled = [row for row, cell in enumerate(cells) if cell.lower() not in MISSING_WORDS]
    if all(cells[row].lower() in _TRUTH for row in filled):
        return np.array([_TRUTH.get(cell.lower(), np.nan) for cell in cells])
    row, all_bad = bad[0], len(bad) == len(filled)
    if all(_OTHER_NOTATION.fullmatch(cells[one]) for one in bad):
        fact = (
            f"{table.at(row)}, column {name!r} holds {cells[row]!r}, which may be a number with a decimal comma or "
            f"with marks between thousands ({len(bad)} of {len(filled)} cells)"
        )
        advice = "write numbers with a decimal point and nothing between thousands, such as 1234.5"
        if all_bad:
            raise DoubtfulColumn(fact, f"{advice}, or leave the column out with drop (--drop {name!r}).")
        raise InputError(f"{fact}; {advice}.")
    if all_bad:
        clock = (
            "; if it is the time column, say so with time_col (--time-col)" if infer_kind(column) == "stamps" else ""
        )
        raise TextColumn(
            f"{table.at(row)}, column {name!r} holds text ({cells[row]!r}) where numbers are expected, as do all its "
            "rows",
            f"leave it out with drop (--drop {name!r}) or name what to forecast with target (--target){clock}.",
        )
    raise InputError(
        f"{table.at(row)}, column {name!r} holds {cells[row]!r}, which is not a number; correct the cell, or leave it "
        "empty if the value is missing."
    )


def _texts(column: TableColumn) -> list[str]:
    return ["" if cell is None else str(cell).strip() for cell in column.to_list()]


def _number(cell: str, style: Notation | None) -> float | None:
    """The number in a cell, NaN where the cell says missing, None where it is text."""
    if cell.lower() in MISSING_WORDS:
        return np.nan
    try:
        # Python reads 1_000 as a number; a data file that says so is in doubt.
        return None if "_" in cell else float(cell if style is None else style.plain(cell))
    except ValueError:
        return None


def find_notation(table: Table, name: str) -> Notation | None:
    """How the numbers of a column are written where it is not as those of other columns, or None."""
    column = table.fetch(name)
    style = None if column.dtype.is_numeric() else _infer_notation(table, _texts(column))
    return None if style is None or (table.decimal_comma and not style.thousands) else style


def _infer_notation(table: Table, cells: list[str]) -> Notation | None:
    """None too where a comma may be something else: between cells it separates, and a frame has read its numbers."""
    if table.separator in (None, ","):
        return None
    filled = [cell for cell in cells if cell.lower() not in MISSING_WORDS]
    # Where the file's decimals have commas, a point can only stand between thousands.
    grouped = next((cell for cell in filled if "." in cell and (table.decimal_comma or "," in cell)), None)
    if grouped is not None:
        for (thousands, decimal), shape in _GROUPED.items():
            if not (table.decimal_comma and decimal == ".") and all(map(shape.fullmatch, filled)):
                return Notation(thousands, decimal, grouped)
        return None
    first = next((cell for cell in filled if "," in cell), None)
    if first is not None and table.comma_groups:
        return Notation(",", ".", first) if all(map(_GROUPED[",", "."].fullmatch, filled)) else None
    if first is None or not (table.decimal_comma or all(map(_WHOLE_OR_DECIMAL_COMMA.fullmatch, filled))):
        return None
    return Notation("", ",", first)
