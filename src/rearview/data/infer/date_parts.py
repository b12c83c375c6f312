"""Stamps whose parts stand in several columns: a day and a time of day, or years with months, quarters or weeks."""

import re
from collections.abc import Collection

import numpy as np

from rearview.data.infer.timestamp_text import part_of_year
from rearview.data.infer.timestamps import YEAR_NAMES
from rearview.data.io.table import Table

CLOCK_NAMES = ("time", "hour", "clock", "time of day", "uhrzeit", "zeit", "stunde", "heure", "hora", "hour ending",
               "he", "hr", "hour of day")  # fmt: skip
_SLOT_NAMES = ("period", "settlement period", "settlement_period", "interval", "slot", "quarter hour", "viertelstunde")
_SLOTS = (24, 48, 96)
"""Into how many numbered parts a day is divided."""
_MOST_PAIRS = 0.8
"""The share of rows with a day and a time of day from which on they make a stamp."""
_DAY = re.compile(r"(?=.*\d)[^:]+")
_PARTS = {
    "month": ("month", "monat", "mois", "mes", "mese"),
    "day": ("day", "tag", "jour", "dia", "día", "giorno"),
    "quarter": ("quarter", "quartal", "trimestre", "qtr"),
    "week": ("week", "woche", "kw", "isoweek", "iso week", "iso_week", "calendar week", "kalenderwoche", "semaine"),
}
"""Names of columns of the parts of a date, beside one of years."""


def join_clock(table: Table, time: str, left_out: Collection[str] = ()) -> tuple[Table, tuple[str, str]] | None:
    """A table with one column of stamps for one of days, which stand several times, and one of times of day.

    Beside it the names of these two; None where there is no such column.
    """
    import narwhals as nw

    by_name = {name.casefold(): name for name in reversed(table.names) if name not in (time, *left_out)}
    clocks = [by_name[name] for name in (*CLOCK_NAMES, *_SLOT_NAMES) if name in by_name]
    if not clocks or table.fetch(time).dtype == nw.Duration:
        return None
    days = _texts(table, time)
    if len({*days}) == len(days):
        return None
    for clock in clocks:
        cells = _texts(table, clock)
        times = _slot_times(cells) if clock.casefold() in _SLOT_NAMES else [_time_of_day(cell) for cell in cells]
        days = _repeat_days(days, times)
        # A total has no time of day, and a day may be written wrong; such rows are dealt with as others of their kind.
        both = sum(
            moment is not None and _DAY.fullmatch(day) is not None for day, moment in zip(days, times, strict=True)
        )
        if len({*times}) > 2 and both > _MOST_PAIRS * len(days):
            name = next(name for name in (f"{time} {clock}", f"{time} and {clock}") if name not in table.names)
            stamps = [f"{day} {moment or cell}".strip() for day, moment, cell in zip(days, times, cells, strict=True)]
            return table.add_column(name, np.array(stamps)), (time, clock)
    return None


def _texts(table: Table, name: str) -> list[str]:
    """The cells of a column as text, days without a time of day."""
    column = table.fetch(name)
    cells = zip(column.to_list(), column.is_null().to_list(), strict=True)
    return ["" if missing else str(cell).strip().removesuffix(" 00:00:00") for cell, missing in cells]


def _repeat_days(days: list[str], times: list[str | None]) -> list[str]:
    """Days, each in the empty cells below it too, where these have a time of day."""
    filled: list[str] = []
    for day, moment in zip(days, times, strict=True):
        filled.append(day or (filled[-1] if filled and moment is not None else ""))
    return filled


def _slot_times(cells: list[str]) -> list[str | None]:
    """The times at which the numbered parts of a day begin; None for all where their numbers do not show how many."""
    texts = [cell.removesuffix(".0") for cell in cells]
    numbers = [int(text) if text.isdigit() else None for text in texts]
    known = [number for number in numbers if number is not None]
    first, count = min(known, default=-1), max(known, default=0) - min(known, default=0) + 1
    if first not in (0, 1) or count not in _SLOTS:
        return [None] * len(cells)
    starts = [None if number is None else (number - first) * 1440 // count for number in numbers]
    return [None if start is None else f"{start // 60:02d}:{start % 60:02d}" for start in starts]


def _time_of_day(cell: str) -> str | None:
    """A time such as 13:45 or 1:45 PM, or an hour by its number; None where a cell is neither."""
    if re.fullmatch(r"\d{1,2}(?:\.0)?", cell):
        hour = int(float(cell))
        return f"{hour:02d}:00" if hour <= 24 else None
    return cell if re.fullmatch(r"(?i)\d{1,2}[:.]\d{2}(?::\d{2}(?:\.\d+)?)?(?:\s?[ap]m)?", cell) else None


def join_date_parts(table: Table, year: str) -> tuple[Table, tuple[str, ...]] | None:
    """A table with one column of dates for columns of years and of months, days, quarters or weeks.

    Beside it the names of these; None where there are none. A year may stand in the first of its rows alone.
    """
    if year.casefold() not in YEAR_NAMES:
        return None
    by_name = {name.casefold(): name for name in reversed(table.names)}
    units = {unit: next((by_name[name] for name in names if name in by_name), "") for unit, names in _PARTS.items()}
    part = next((unit for unit in ("month", "quarter", "week") if units[unit]), "")
    if not part:
        return None
    names = [year, units[part], *([units["day"]] if part == "month" and units["day"] else [])]
    texts = [[text.removesuffix(".0") for text in _texts(table, name)] for name in names]
    parts = [
        _fill_years(texts[0]),
        *([_write_part(unit, cell) for cell in column] for unit, column in zip((part, "day"), texts[1:], strict=False)),
    ]
    # As with times of day: a total has no month, and such rows are dealt with as others of their kind.
    dates = ["".join(row) if all(row) else "" for row in zip(*parts, strict=True)]
    if sum(map(bool, dates)) <= _MOST_PAIRS * len(dates):
        return None
    dates = [whole or " ".join(filter(None, row)) for whole, *row in zip(dates, *texts, strict=True)]
    name = next(name for name in ("date", f"year-{part}", "stamp") if name not in table.names)
    return table.add_column(name, np.array(dates)), tuple(names)


def _fill_years(years: list[str]) -> list[str]:
    """Years, each in the place of the empty cells below it too; what is no year is empty."""
    filled: list[str] = []
    for cell in years:
        text = cell.removesuffix(".0") or (filled[-1] if filled else "")
        filled.append(text if re.fullmatch(r"\d{4}", text) else "")
    return filled


def _write_part(unit: str, cell: str) -> str:
    """What follows a year in a date: '-03' for March, 3 or the day 3, 'Q2' for a quarter, '-W07' for a week."""
    text = cell.removesuffix(".0")
    if unit == "month":
        return part_of_year(text) or ""
    if unit == "quarter":
        return f"Q{text[-1]}" if re.fullmatch(r"[Qq]?[1-4]", text) else ""
    number = re.fullmatch(r"(?i:w|wk|kw|week)?[- ]?(\d{1,2})" if unit == "week" else r"(\d{1,2})", text)
    if number is None or not 1 <= int(number[1]) <= (53 if unit == "week" else 31):
        return ""
    return f"-{'W' if unit == 'week' else ''}{int(number[1]):02d}"
