"""Columns of numbers: one float64 array at a time, however they are written, and the cells that are none by name.

Plain numbers come first, then numbers with decimal commas or marks between thousands, then those with a currency sign,
a per cent sign or in brackets. What a single mark means is never guessed: another cell of the column or of the file has
to show it, or `decimal` has to say it.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer.problems import MOST_NAMED, Problem, Problems
from rearview.data.infer.timestamps import infer_kind
from rearview.data.io.table import Table, TableColumn

MISSING_WORDS = frozenset(
    {"", "na", "n/a", "#n/a", "n.a.", "k.a.", "nan", "-nan", "nat", "null", "(null)", "none", "<na>", "nil", "missing",
     "(blank)", "-", "--", "---", "–", "—", ".", "..", "...", "?", ":", "\\n", "n/d", "n.d.", "#div/0!", "#ref!",
     "#value!", "#name?", "#num!", "#null!", "#error!", "#nv", "#wert!", "#bezug!", "#zahl!", "#n/d", "#valeur!"}
)  # fmt: skip
"""What people, spreadsheets and libraries write into an empty cell, in lower case."""
LARGEST = 1e37
"""Beyond this a float32 may overflow in arithmetic as plain as a sum of ten."""
FILL_GAP = 1e6
"""A fill value is this many times as large as any other value."""
_WHOLE_OR_DECIMAL_COMMA = re.compile(r"[+-]?\d+(?:,\d+)?(?:[eE][+-]?\d+)?")
_GROUPED = {
    (".", ","): re.compile(r"[+-]?(?:[1-9]\d{0,2}(?:\.\d{3})+|\d+)(?:,\d+)?"),
    (",", "."): re.compile(r"[+-]?(?:[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d?(?:,\d{2})+,\d{3}|\d+)(?:\.\d+)?"),
}
"""What stands between thousands and what before decimals -> the numbers that can be written so.

India has a comma between every two digits above the thousands.
"""
_OTHER_NOTATION = re.compile(r"[+-]?\d[\d.,' ]*,[\d.,' ]*\d")
_TRUTH = {"true": 1.0, "false": 0.0}
_CURRENCY = (
    r"(?:US|AU|CA|NZ|HK|A|C|R)?\$|[€£¥₹₽₺₩₪]|USD|EUR|GBP|CHF|JPY|AUD|CAD|NZD|INR|CNY|BRL|SEK|NOK|DKK|PLN|CZK|HUF|ZAR|"
    r"TRY|MXN|kr\.?|zł|Kč|Ft|Fr\.|Rs\.?"
)
_SIZES = {"k": 1e3, "K": 1e3, "tsd": 1e3, "M": 1e6, "mn": 1e6, "mio": 1e6, "B": 1e9, "bn": 1e9, "mrd": 1e9}
_DRESSED = re.compile(
    rf"'?(?P<bracket>\()?\s*(?P<minus>[-+−]?)\s*(?P<before>{_CURRENCY})?\s*(?P<inner>[-+−]?)\s*"
    rf"(?P<digits>\d(?:[\d.,'’\u00a0\u202f ]*\d)?|[.,]\d+)"
    rf"(?:\s?(?P<size>{'|'.join(_SIZES)}|(?i:tsd|mn|mio|bn|mrd))\.?(?![^\W\d]))?"
    rf"\s*(?P<after>%|{_CURRENCY}|(?<=\s)[^\W\d_][\w°²³/]{{0,11}}|°\w)?\s*(?P<last>[-−]?)\*{{0,3}}(?(bracket)\))"
)
"""A number with a sign of a currency or per cent, a unit, the mark of a footnote, or as accounts write a loss."""
_SPACED = re.compile(r"[1-9]\d{0,2}(?:(?P<mark>['’\u00a0\u202f ])\d{3})(?:(?P=mark)\d{3})*(?:[.,]\d+)?")
_POINT_CURRENCIES = (
    "$", "US$", "USD", "AU$", "A$", "AUD", "NZ$", "NZD", "HK$", "£", "GBP", "¥", "JPY", "CNY", "₹", "INR", "Rs", "Rs.",
)  # fmt: skip
"""Currencies of countries that write a decimal point."""


class TextColumn(InputError):
    """A column in which no cell is a number."""

    def __init__(self, fact: str, advice: str = "", flag: str | None = None) -> None:
        """`fact` says what the column holds, `advice` what to do about it."""
        super().__init__(f"{fact}; {advice}" if advice else fact)
        self.fact, self.flag = fact, flag


class DoubtfulColumn(TextColumn):
    """A column of what may be numbers in a notation that is not guessed at."""


class Notation(NamedTuple):
    """How the numbers of a text column are written."""

    thousands: str
    """The mark between thousands; empty: none."""
    decimal: str
    example: str
    """The first cell that shows it."""

    def plain(self, cell: str) -> str:
        """A number of this notation as Python reads it."""
        return cell.replace(self.thousands, "").replace(self.decimal, ".")


@dataclass(frozen=True, slots=True)
class ParsedColumn:
    """A column of text as numbers."""

    numbers: NDArray[np.float64]
    """NaN where a cell is missing or no number."""
    bad: dict[int, str]
    """Row -> cell, of the cells that are neither."""
    filled: int
    """Cells that are not missing."""
    dressed: tuple[tuple[int, str], ...] = ()
    """(row, cell) that show how numbers are dressed: the first of each notation."""
    doubtful: bool = False
    """The bad cells may be numbers in a notation that nothing shows."""

    @property
    def is_text(self) -> bool:
        """Whether no cell is a number."""
        return bool(self.bad) and len(self.bad) == self.filled


def read_numbers(
    table: Table, name: str, problems: Problems | None = None, *, fills: bool = False
) -> NDArray[np.float64]:
    """The column as float64, missing cells NaN; text, infinite and oversized values are refused by line and value.

    With `problems` they are kept there, and read as missing; with `fills`, oversized values that are far from all
    others stay for whoever masks fill values.
    """
    import narwhals as nw

    met = Problems(table.source) if problems is None else problems
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
            f"--drop {name}",
        )
    else:
        parsed = parse_column(table, name)
        _add_text_problems(table, name, column, parsed, met)
        numbers = parsed.numbers
    # The comparison is False for NaN, so only infinite and oversized cells are True.
    with np.errstate(invalid="ignore"):
        bad = np.abs(numbers) > LARGEST
    if fills and bad.any():
        bad &= np.isinf(numbers) | (np.abs(numbers) < FILL_GAP * np.fmax.reduce(np.abs(numbers[~bad]), initial=0.0))
    if bad.any():
        for row in np.flatnonzero(bad)[:MOST_NAMED].tolist():
            kind = "an infinite value" if np.isinf(numbers[row]) else "a value too large for float32"
            message = (
                f"{table.at(row)}, column {name!r} holds {kind} ({numbers[row]!s}); correct the cell, or leave it "
                "empty if the value is missing."
            )
            met.add(Problem("infinite", message, table.place(row), name, f"{numbers[row]!s}", count=int(bad.sum())))
        numbers = np.where(bad, np.nan, numbers)
    if problems is None:
        met.refuse()
    return numbers


def parse_column(table: Table, name: str) -> ParsedColumn:
    """The numbers in cells of text, or of True and False; read once for each table."""
    parsed = table.parsed.get(name)
    if not isinstance(parsed, ParsedColumn):
        column = table.fetch(name)
        plain = _cast(table, column)
        parsed = _parse(table, cell_texts(column)) if plain is None else ParsedColumn(plain, {}, len(plain))
        parsed.numbers.flags.writeable = False
        table.parsed[name] = parsed
    return parsed


def _cast(table: Table, column: TableColumn) -> NDArray[np.float64] | None:
    """A column of text that its library reads as numbers throughout, as it does many times faster than we; else None.

    Where a comma is the decimal mark, a point means something else than the library takes it for.
    """
    import narwhals as nw

    if column.dtype != nw.String or table.decimal_comma or table.decimal == "," or table.missing:
        return None
    try:
        return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64).copy()
    except Exception:  # each library has its own error for text that is no number
        return None


def _parse(table: Table, cells: list[str]) -> ParsedColumn:
    words = MISSING_WORDS | table.missing
    style = _infer_notation(table, cells)
    numbers = [_number(cell, style, words) for cell in cells]
    bad = [row for row, number in enumerate(numbers) if number is None]
    if not bad:
        return ParsedColumn(np.array(numbers, dtype=np.float64), {}, len(cells))
    filled = [row for row, cell in enumerate(cells) if cell.lower() not in words]
    if all(cells[row].lower() in _TRUTH for row in filled):
        return ParsedColumn(np.array([_TRUTH.get(cell.lower(), np.nan) for cell in cells]), {}, len(filled))
    dressed = _undress(table, cells, filled)
    if dressed is not None and len(dressed.bad) < len(bad):
        return dressed
    doubtful = all(_OTHER_NOTATION.fullmatch(cells[one]) for one in bad) or (dressed is not None and dressed.doubtful)
    values = np.array([np.nan if number is None else number for number in numbers])
    return ParsedColumn(values, {row: cells[row] for row in bad}, len(filled), doubtful=doubtful)


def cell_texts(column: TableColumn) -> list[str]:
    """The cells of a column as text; missing ones are empty."""
    return ["" if cell is None else str(cell).strip() for cell in column.to_list()]


def _number(cell: str, style: Notation | None, missing: frozenset[str]) -> float | None:
    """The number in a cell, NaN where the cell says missing, None where it is text."""
    if cell.lower() in missing:
        return np.nan
    try:
        # Python reads 1_000 as a number; a data file that says so is in doubt.
        return None if "_" in cell else float(cell if style is None else style.plain(cell))
    except ValueError:
        return None


def find_notation(table: Table, name: str) -> Notation | None:
    """How the numbers of a column are written where it is not as those of other columns, or None."""
    column = table.fetch(name)
    if column.dtype.is_numeric() or column.dtype.is_temporal() or parse_column(table, name).dressed:
        return None
    style = _infer_notation(table, cell_texts(column))
    return None if style is None or (table.decimal_comma and not style.thousands) else style


def _infer_notation(table: Table, cells: list[str]) -> Notation | None:
    """None too where a comma may be something else: between cells it separates, and a frame has read its numbers."""
    if table.separator in (None, ",") and table.decimal is None:
        return None
    words = MISSING_WORDS | table.missing
    filled = [cell for cell in cells if cell.lower() not in words]
    if table.decimal is not None:
        thousands = "," if table.decimal == "." else "."
        first = next((cell for cell in filled if "," in cell or (table.decimal == "," and "." in cell)), None)
        if first is None or not all(map(_GROUPED[thousands, table.decimal].fullmatch, filled)):
            return None
        return Notation(thousands, table.decimal, first)
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


def _undress(table: Table, cells: list[str], filled: Sequence[int]) -> ParsedColumn | None:
    """Numbers with signs of a currency or per cent, in brackets, or with marks between thousands that cells explain.

    None where the digits can't be told from the marks.
    """
    dresses = {row: match for row in filled if (match := _DRESSED.fullmatch(cells[row])) is not None}
    if not dresses:
        return None
    units = [match["before"] or match["after"] or "" for match in dresses.values()]
    if any(re.fullmatch(f"%|{_CURRENCY}|", unit) is None for unit in units):
        # A word behind a number is a unit where it is the same behind all of them.
        if len(set(units)) > 1 or len(dresses) < len(filled):
            return None
        units = []
    percent = 2 * units.count("%") > len(units)
    currencies = {unit for unit in units if unit not in ("", "%")}
    # Shares in per cent among plain ones, and two currencies in one column, are not one kind of number.
    if len(currencies) > 1 or (percent and currencies):
        return None
    kept = {row: match for row, match in dresses.items() if ((match["after"] or "") == "%") == percent}
    sizes = {row: _size_of(match["size"]) for row, match in kept.items()}
    digits = {row: _without_spaces(match["digits"]) for row, match in kept.items()}
    # Brackets are how accounts with a decimal point write losses.
    pointed = any(match["bracket"] for match in kept.values()) or bool(currencies & set(_POINT_CURRENCIES))
    marks = _find_marks(table, list(digits.values()), pointed, bool(currencies))
    numbers, bad = np.full(len(cells), np.nan), {row: cells[row] for row in filled if row not in kept}
    first: dict[tuple[object, ...], tuple[int, str]] = {}
    for row, text in digits.items():
        decimal = None if marks is None else marks(text)
        if decimal is None:
            bad[row] = cells[row]
            continue
        match = kept[row]
        minus = bool(match["bracket"]) != ((match["minus"] or match["inner"] or match["last"]) in ("-", "−"))
        number = float(text.replace("," if decimal == "." else ".", "").replace(decimal, ".")) * sizes[row]
        numbers[row] = -number if minus else number
        unit, both = match["before"] or match["after"], decimal if "," in text and "." in text else ""
        dress = (match["bracket"], unit, match["size"], match["last"], "*" in cells[row], both)
        if any(dress[:-1]) or "," in text or text != match["digits"] or cells[row].startswith("'"):
            first.setdefault(dress, (row, cells[row]))
    doubtful = bool(bad) and all(row in kept for row in bad)
    return ParsedColumn(numbers, dict(sorted(bad.items())), len(filled), tuple(first.values()), doubtful)


def _size_of(word: str | None) -> float:
    """The factor that k, M, Mio. or bn behind a number stands for."""
    return 1.0 if word is None else _SIZES.get(word) or _SIZES[word.lower()]


def _without_spaces(digits: str) -> str:
    """Digits without the spaces or apostrophes between their thousands."""
    match = _SPACED.fullmatch(digits)
    return digits.replace(match["mark"], "") if match is not None else digits


def _find_marks(table: Table, texts: list[str], pointed: bool, currency: bool) -> Callable[[str], str | None] | None:
    """What tells the decimal mark of each text (None: it has none that fits); None where the texts leave it open.

    `pointed`: their signs are those of countries that write a decimal point; `currency`: they are sums of money.
    """
    alone = {text: _marks_alone(text) for text in set(texts) if not text.isdigit()}
    certain = {mark for mark, sure in alone.values() if sure and mark}
    loose = {mark for mark, sure in alone.values() if not sure and mark}
    unclear = {"," if "," in text else "." for text, (mark, _) in alone.items() if mark == ""}
    shown = table.decimal or ("," if table.decimal_comma else "." if table.comma_groups else None)
    foreign = table.separator == "," and _has_decimals(table)
    if shown is not None and (table.decimal or len(certain) < 2):
        # The file, or the caller, shows which mark is which; a column that shows the other one is in doubt.
        if (certain | loose) - {shown} and not table.decimal:
            return None
        certain = {shown}
    elif not certain and not unclear and len(loose) < 2:
        if loose == {","} and foreign:
            return None
        certain = loose or {"."}
    elif not certain:
        whole = [text for text in texts if text.isdigit()]
        apart = bool(whole) and all(len(text) <= 3 for text in whole)
        points = table.separator == "," and (foreign or "." in loose or apart)
        if loose <= {"."} and (
            (unclear == {","} and (pointed or points)) or (unclear == {"."} and (pointed or not currency or loose))
        ):
            certain = {"."}
        elif loose == {","} and unclear == {","} and not foreign:
            certain = {","}
        else:
            return None
    if len(certain) == 1:
        decimal = next(iter(certain))
        shape = _GROUPED["," if decimal == "." else ".", decimal]
        return lambda text: decimal if shape.fullmatch(text) or text.startswith(decimal) else None
    # Both notations stand in one column: a cell that shows its own is read so, any other is in doubt.
    return lambda text: alone[text][0] or None if text in alone else "."


def _marks_alone(text: str) -> tuple[str | None, bool]:
    """The decimal mark of a number with marks by itself, and whether it is sure of it.

    Sure are numbers with two kinds of marks or with one kind twice; "" where one mark may be either, None where the
    text is no number in either notation.
    """
    fits = [decimal for (_, decimal), shape in _GROUPED.items() if shape.fullmatch(text) or text.startswith(decimal)]
    if len(fits) == 2:
        return "", False
    return (fits[0], sum(letter in ".," for letter in text) > 1) if fits else (None, False)


def _has_decimals(table: Table) -> bool:
    """Whether numbers, plain ones or such as 5.3%, hold decimals, so that the file writes a decimal point."""
    if "" not in table.parsed:
        columns = [(name in table.numeric, table.fetch(name).drop_nulls().head(1000)) for name in table.names]
        numeric = (column.to_numpy() for number, column in columns if number and column.dtype.is_float())
        texts = (column for number, column in columns if not number and not column.dtype.is_numeric())
        table.parsed[""] = any(bool(np.any(cells != np.floor(cells))) for cells in numeric) or any(
            _shows_point(cell) for column in texts for cell in cell_texts(column)
        )
    return bool(table.parsed[""])


def _shows_point(cell: str) -> bool:
    """Whether a cell is a share or a sum of money with one or two digits behind a point."""
    match = _DRESSED.fullmatch(cell)
    unit = (match["before"] or match["after"]) if match else None
    return bool(match and unit and re.fullmatch(r"\d+\.\d{1,2}", match["digits"]))


def _add_text_problems(table: Table, name: str, column: TableColumn, parsed: ParsedColumn, problems: Problems) -> None:
    """Keep each cell that is no number; raise where none of the column is one."""
    if not parsed.bad:
        return
    row, cell = next(iter(parsed.bad.items()))
    if parsed.doubtful:
        fact = (
            f"{table.at(row)}, column {name!r} holds {cell!r}, which may be a number with a decimal comma or with "
            f"marks between thousands ({len(parsed.bad)} of {parsed.filled} cells)"
        )
        fits = [
            word for word, (_, mark) in zip(("comma", "point"), _GROUPED, strict=True) if _fits(table, column, mark)
        ]
        say = f"say decimal (--decimal {' or '.join(fits)}), or " if fits else ""
        advice = f"{say}write numbers with a decimal point and nothing between thousands, such as 1234.5"
        flag = f"--decimal {fits[0]}" if fits else None
        if parsed.is_text:
            raise DoubtfulColumn(fact, f"{advice}, or leave the column out with drop (--drop {name!r}).", flag)
        problems.add(Problem("number", f"{fact}; {advice}.", table.place(row), name, cell, flag, len(parsed.bad)))
        return
    if parsed.is_text and len(kinds := _currencies(parsed.bad.values())) > 1:
        raise DoubtfulColumn(
            f"{table.at(row)}, column {name!r} holds {cell!r} beside amounts in other currencies ({', '.join(kinds)})",
            f"convert them to one, or leave the column out with drop (--drop {name!r}).",
            f"--drop {name}",
        )
    if parsed.is_text:
        clock = (
            "; if it is the time column, say so with time_col (--time-col)" if infer_kind(column) == "stamps" else ""
        )
        raise TextColumn(
            f"{table.at(row)}, column {name!r} holds text ({cell!r}) where numbers are expected, as do all its rows",
            f"leave it out with drop (--drop {name!r}) or name what to forecast with target (--target){clock}.",
            f"--drop {name}",
        )
    words = list(dict.fromkeys(parsed.bad.values()))
    for number, (row, cell) in enumerate(parsed.bad.items(), start=1):
        more = len(parsed.bad) - number if number == MOST_NAMED else 0
        others = f" ({more} more cells of the column are none either)" if more else ""
        message = (
            f"{table.at(row)}, column {name!r} holds {cell!r}, which is not a number{others}; correct the cell, or "
            "leave it empty if the value is missing"
        )
        # A word that stands for missing can be named; one that spells a number must not be lost so.
        wordy = not any(letter.isdigit() for letter in cell) and len(words) <= MOST_NAMED
        flag = f"--missing {shlex.quote(cell)}" if wordy else None
        message += f" (say missing, {flag})." if wordy else "."
        problems.add(Problem("number", message, table.place(row), name, cell, flag, 1 + more))
        if number == MOST_NAMED:
            break


def _currencies(cells: Iterable[str]) -> list[str]:
    """The currencies of amounts of money, in the order in which they stand first."""
    matches = (_DRESSED.fullmatch(cell) for cell in cells)
    units = (match["before"] or match["after"] for match in matches if match)
    return [unit for unit in dict.fromkeys(units) if unit and re.fullmatch(_CURRENCY, unit)]


def _fits(table: Table, column: TableColumn, decimal: str) -> bool:
    """Whether all cells of a column can be read with this decimal mark."""
    words = MISSING_WORDS | table.missing
    shape = _GROUPED["," if decimal == "." else ".", decimal]
    digits = [(_DRESSED.fullmatch(cell), cell) for cell in cell_texts(column) if cell.lower() not in words]
    return all(shape.fullmatch(match["digits"] if match else cell) for match, cell in digits)
