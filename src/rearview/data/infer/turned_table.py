"""Tables whose columns are stamps or times of day, turned so that each of these is a row."""

import re
from collections.abc import Sequence
from itertools import cycle
from typing import NamedTuple

import numpy as np

from rearview.data.infer.layout import is_text
from rearview.data.infer.timestamp_text import Unreadable, part_of_year, read_integers, read_stamps
from rearview.data.infer.timestamps import YEAR_NAMES, infer_kind
from rearview.data.io.table import Table

_LEAST_STAMPS = 4
"""Columns called by stamps from which on a table is taken to lie on its side."""
_TURNED = ("date", "value", *YEAR_NAMES)
_AMBIGUOUS = re.compile(r"\d{1,2}[-/.]\d{1,2}[-/.](?:\d{2}|\d{4})")
_TOTAL_OF_SERIES = re.compile(r"(?i)(?:grand |sub)?-?\s?(?:totals?|sum|summe|zwischensumme|gesamt(?:summe)?)\s*[:=]?")
"""Names of rows that add up others; no more words, since a product may be called Max or Average Joe."""
_SUM_OF_YEAR = re.compile(
    r"(?i)(?:year(?:ly)?|annual)?[ _]?(?:total|sum|mean|average|avg|year|annual|jahr|summe|mittel)"
)
"""Names of columns that sum up the months beside them."""
_HOUR = re.compile(
    r"(?i)(?:h|hr|he|hour|std|stunde)[ _.]?(?P<hour>\d{1,2})|(?P<clock>\d{1,2}):(?P<minute>\d{2})(?::00)?"
)
_DAY_PARTS = (24, 48, 96)
"""Into how many parts columns divide a day."""


class TurnedTable(NamedTuple):
    """A table whose columns were stamps, with a row for each series and stamp instead."""

    table: Table
    ids: tuple[str, ...]
    """The columns that tell series apart."""
    left_out: tuple[str, ...]
    """Columns that were left out."""
    totals: tuple[str, ...]
    """Names of rows that were left out, as they add up others."""
    first: str
    """The first of the columns that were turned."""


def turn_stamp_columns(table: Table) -> TurnedTable | None:
    """A table whose columns are stamps, turned on its side; None where they are none."""
    years = [name for name in table.names if re.fullmatch(r"(?:1[89]|20|21)\d\d", name)]
    of_years = [name for name in table.names if name not in years]
    # Where every month or quarter has a row, two columns called by years are enough.
    whole = len(years) > 1 and len(of_years) == 1 and _is_year(_parts_in(table, of_years[0]))
    stamps = years if whole or len(years) >= _LEAST_STAMPS else [name for name in table.names if _is_stamp(name)]
    others = [name for name in table.names if name not in stamps]
    few = not whole and len(stamps) < max(_LEAST_STAMPS, len(others))
    if few or any(name in _TURNED for name in others):
        return None
    if any(infer_kind(table.fetch(name)) == "stamps" for name in others):
        return None
    texts = [name for name in others if is_text(table, name)]
    totals: tuple[str, ...] = ()
    if texts:
        names = [str(cell or "").strip() for cell in table.fetch(texts[0]).to_list()]
        totals = tuple(name for name in names if _TOTAL_OF_SERIES.fullmatch(name))
        table = table.select(np.array([row for row, name in enumerate(names) if name not in totals], dtype=np.int64))
    rows = len(table)
    if stamps is years and len(others) == 1:
        parts = _parts_in(table, others[0])
        if len(parts) == rows and _is_year(parts):
            return TurnedTable(_turn_years(table, years, parts), (), (), totals, years[0])
    ids = texts or [name for name in others if table.fetch(name).n_unique() == rows][:1]
    if rows > 1 and not ids:
        return None
    turned = _turn(table, ids, stamps)
    turned[YEAR_NAMES[0] if stamps is years else "date"] = stamps * rows
    turned["value"] = turned.pop("value")  # behind the stamps
    return TurnedTable(
        table.rebuild(turned, lambda row: f"{table.place(row // len(stamps))}, column {stamps[row % len(stamps)]!r}"),
        tuple(ids) if rows > 1 else (),
        tuple(name for name in others if name not in ids),
        totals,
        stamps[0],
    )


def turn_year_rows(table: Table) -> TurnedTable | None:
    """A table with a row for each year and a column for each of its months or quarters, turned; None: any other."""
    parts = {name: part for name in table.names if (part := part_of_year(name)) is not None}
    others = [name for name in table.names if name not in parts]
    years = [name for name in others if name.casefold() in YEAR_NAMES and not table.fetch(name).is_null().any()]
    if not _is_year([*parts.values()]) or len(years) != 1 or {"date", "value"} & {*others}:
        return None
    numbers = read_integers([str(cell).strip() for cell in table.fetch(years[0]).to_list()])
    ids = [name for name in others if name != years[0] and is_text(table, name)]
    sums = [name for name in others if name not in (*years, *ids)]
    if numbers is None or not all(_SUM_OF_YEAR.fullmatch(name.strip()) for name in sums):
        return None
    if not ids and len(np.unique(numbers)) < len(numbers):
        return None
    names = sorted(parts, key=parts.__getitem__)
    order = np.argsort(numbers, kind="stable").tolist()
    read = _read_alike(table, names)
    cells = [column[row] for row in order for column in read]
    columns: dict[str, Sequence[object]] = {}
    for name in ids:
        of_rows = table.fetch(name).to_list()
        columns[name] = [of_rows[row] for row in order for _ in names]
    columns |= {"date": [f"{numbers[row]}{parts[name]}" for row in order for name in names], "value": cells}
    count = len(cells) if ids else _count_begun(cells)

    def place(row: int) -> str:
        return f"{table.place(order[row // len(names)])}, column {names[row % len(names)]!r}"

    rebuilt = table.rebuild({name: each[:count] for name, each in columns.items()}, place)
    return TurnedTable(rebuilt, tuple(ids), tuple(sums), (), names[0])


def _parts_in(table: Table, name: str) -> list[str]:
    """The months or quarters that the cells of a column name, those of other cells left out."""
    return [part for cell in table.fetch(name).to_list() if (part := part_of_year(str(cell))) is not None]


def _is_year(parts: Sequence[str]) -> bool:
    """Whether months or quarters are all of a year, each once."""
    return len(parts) in (4, 12) and len({*parts}) == len(parts) and len({part[0] for part in parts}) == 1


def _count_begun(cells: Sequence[object]) -> int:
    """Cells up to the last one with a value: what is left of the last year is not missing, it has not come yet."""
    begun = (place for place, cell in enumerate(cells, start=1) if cell not in (None, "") and cell == cell)
    return max(begun, default=0)


def _turn(table: Table, kept: Sequence[str], turned: Sequence[str]) -> dict[str, Sequence[object]]:
    """The columns that are kept, each cell as often as there are columns to turn, and the cells of these as values."""
    columns: dict[str, Sequence[object]] = {
        name: [cell for cell in table.fetch(name).to_list() for _ in turned] for name in kept
    }
    return columns | {"value": [cell for row in zip(*_read_alike(table, turned), strict=True) for cell in row]}


def _read_alike(table: Table, names: Sequence[str]) -> list[list[object]]:
    """The cells of columns, all of them as text unless all are numbers."""
    columns = [table.fetch(name) for name in names]
    if all(column.dtype.is_numeric() for column in columns):
        return [column.to_list() for column in columns]
    return [[cell if cell is None else str(cell) for cell in column.to_list()] for column in columns]


def _turn_years(table: Table, years: list[str], parts: list[str]) -> Table:
    """One series of a table with a column for each year and a row for each month or quarter."""
    order = np.argsort(parts).tolist()
    cells = [column[row] for column in _read_alike(table, years) for row in order]
    count = _count_begun(cells)
    stamps = [f"{year}{parts[row]}" for year in years for row in order]
    return table.rebuild(
        {"date": stamps[:count], "value": cells[:count]},
        lambda row: f"{table.place(order[row % len(order)])}, column {years[row // len(order)]!r}",
    )


def _is_stamp(name: str) -> bool:
    return not isinstance(read_stamps([name]), Unreadable) or _AMBIGUOUS.fullmatch(name) is not None


def turn_clock_columns(table: Table) -> tuple[Table, tuple[str, ...]] | None:
    """A table with a column of days and one for each part of a day, and the names of the latter; None: any other.

    It has a row for each part of each day, with the value in a column of its own.
    """
    minutes = {name: minute for name in table.names if (minute := _minute_of(name)) is not None}
    order = sorted(minutes.values())
    parts = len(order)
    if parts not in _DAY_PARTS or np.any(np.diff(order) != 1440 // parts) or order[0] not in (0, 60, 1440 // parts):
        return None
    numbered = not any(":" in name for name in minutes)
    # Hours by number begin with 1 where they go up to 24.
    early = order[0] if numbered else 0
    others = [name for name in table.names if name not in minutes and not _TOTAL_OF_SERIES.fullmatch(name)]
    days = [name for name in others if infer_kind(table.fetch(name)) == "stamps"]
    if len(days) != 1 or "value" in others:
        return None
    names = sorted(minutes, key=minutes.__getitem__)
    clocks = [f"{(minutes[name] - early) // 60:02d}:{(minutes[name] - early) % 60:02d}" for name in names]
    turned = _turn(table, others, names)
    texts = [str(cell).removesuffix(" 00:00:00") for cell in turned[days[0]]]
    turned[days[0]] = [f"{day} {clock}" for day, clock in zip(texts, cycle(clocks), strict=False)]
    rebuilt = table.rebuild(turned, lambda row: f"{table.place(row // parts)}, column {names[row % parts]!r}")
    return rebuilt, tuple(names)


def _minute_of(name: str) -> int | None:
    """The minute of the day that a column is called by; None where it is called otherwise."""
    match = _HOUR.fullmatch(name.strip())
    if match is None:
        return None
    minute = 60 * int(match["hour"] or match["clock"]) + int(match["minute"] or 0)
    return minute if minute <= 1440 else None
