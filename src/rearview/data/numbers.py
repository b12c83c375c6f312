"""Columns of numbers: one float64 array at a time, and a refusal that names the cell which is none."""

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rearview.data.stamps import kind_of
from rearview.data.table import Table
from rearview.errors import InputError

if TYPE_CHECKING:
    import narwhals as nw

MISSING_WORDS = frozenset({"", "na", "n/a", "#n/a", "nan", "nat", "null", "none", "<na>", "-nan"})
_WHOLE_OR_DECIMAL_COMMA = re.compile(r"[+-]?\d+(?:,\d+)?(?:[eE][+-]?\d+)?")
_OTHER_NOTATION = re.compile(r"[+-]?\d[\d.,' ]*,[\d.,' ]*\d")
_TRUTH = {"true": 1.0, "false": 0.0}
LARGEST = 1e37
"""Beyond this a float32 may overflow in arithmetic as plain as a sum of ten."""


class TextColumn(InputError):
    """A column in which no cell is a number."""


def numeric_column(table: Table, name: str) -> NDArray[np.float64]:
    """The column as float64, missing cells NaN; text, infinite and oversized values are refused by line and value."""
    import narwhals as nw

    series = table.fetch(name)
    dtype = series.dtype
    if isinstance(dtype, nw.Decimal) or dtype == nw.Boolean:
        series = series.cast(nw.Float64)
        dtype = series.dtype
    if dtype.is_numeric():
        numbers = np.asarray(series.to_numpy(), dtype=np.float64)
    elif series.is_null().all():
        numbers = np.full(len(series), np.nan)
    elif dtype.is_temporal() or dtype.is_nested():
        raise TextColumn(
            f"{table.source}: column {name!r} holds {'stamps' if dtype.is_temporal() else 'lists'}, not numbers; "
            f"leave it out with drop (--drop {name!r}) or name what to forecast with target (--target)."
        )
    else:
        numbers = _from_text(table, name, series)
    _refuse_infinite(table, name, numbers)
    return numbers


def _from_text(table: Table, name: str, series: "nw.Series[Any]") -> NDArray[np.float64]:
    cells = _cells(series)
    commas = table.decimal_comma or _first_decimal_comma(table, cells) is not None
    numbers = [_number(cell, decimal_comma=commas) for cell in cells]
    bad = [row for row, number in enumerate(numbers) if number is None]
    if not bad:
        return np.array(numbers, dtype=np.float64)
    said = [row for row, cell in enumerate(cells) if cell.lower() not in MISSING_WORDS]
    if all(cells[row].lower() in _TRUTH for row in said):
        return np.array([_TRUTH.get(cell.lower(), np.nan) for cell in cells])
    row, whole = bad[0], len(bad) == len(said)
    if all(_OTHER_NOTATION.fullmatch(cells[one]) for one in bad):
        raise (TextColumn if whole else InputError)(
            f"{table.at(row)}, column {name!r} holds {cells[row]!r}, which may be a number with a decimal comma or "
            f"with marks between thousands ({len(bad)} of {len(said)} cells); write numbers with a decimal point and "
            "nothing between thousands, such as 1234.5"
            + (f", or leave the column out with drop (--drop {name!r})." if whole else ".")
        )
    if whole:
        clock = "; if it is the time column, say so with time_col (--time-col)" if kind_of(series) == "stamps" else ""
        raise TextColumn(
            f"{table.at(row)}, column {name!r} holds text ({cells[row]!r}) where numbers are expected, as do all its "
            f"rows; leave it out with drop (--drop {name!r}) or name what to forecast with target (--target){clock}."
        )
    raise InputError(
        f"{table.at(row)}, column {name!r} holds {cells[row]!r}, which is not a number; correct the cell, or leave it "
        "empty if the value is missing."
    )


def decimal_comma(table: Table, name: str) -> str | None:
    """The first cell with a decimal comma of a column that has them where other columns have points, or None."""
    series = table.fetch(name)
    return None if series.dtype.is_numeric() or table.decimal_comma else _first_decimal_comma(table, _cells(series))


def _first_decimal_comma(table: Table, cells: list[str]) -> str | None:
    """None too where a comma may be something else: between cells it separates, and a frame has read its numbers."""
    if table.separator in (None, ","):
        return None
    said = [cell for cell in cells if cell.lower() not in MISSING_WORDS]
    first = next((cell for cell in said if "," in cell), None)
    return first if all(map(_WHOLE_OR_DECIMAL_COMMA.fullmatch, said)) else None


def _cells(series: "nw.Series[Any]") -> list[str]:
    return ["" if cell is None else str(cell).strip() for cell in series.to_list()]


def _number(cell: str, *, decimal_comma: bool) -> float | None:
    """The number in a cell, NaN where the cell says missing, None where it is text."""
    if cell.lower() in MISSING_WORDS:
        return np.nan
    try:
        # Python reads 1_000 as a number; a data file that says so is in doubt.
        return None if "_" in cell else float(cell.replace(",", ".") if decimal_comma else cell)
    except ValueError:
        return None


def _refuse_infinite(table: Table, name: str, numbers: NDArray[np.float64]) -> None:
    # The comparison is False for NaN, so only infinite and oversized cells are True.
    with np.errstate(invalid="ignore"):
        bad = np.abs(numbers) > LARGEST
    if not bad.any():
        return
    row = int(bad.argmax())
    kind = "an infinite value" if np.isinf(numbers[row]) else "a value too large for float32"
    raise InputError(
        f"{table.at(row)}, column {name!r} holds {kind} ({numbers[row]!s}); correct the cell, or leave it empty if the "
        "value is missing."
    )
