"""Sixty messy files from a seed, with the reading that a person would expect: every kind of mess alone, then by threes.

A kind belongs to a group (stamps, numbers, rows, layout, faults); three at a time are of different groups, or faults of
which all have to be named. What is expected is worked out here from the values that the files are made of.
"""

import csv
import io
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

ROWS = 60
LATER = "b"
"""The second column of numbers, which is always written plainly."""


@dataclass
class Sheet:
    """A table while it is made messy."""

    random: random.Random
    kinds: tuple[str, ...]
    time: str = "date"
    column: str = "a"
    moments: list[datetime] = field(default_factory=list)
    stamps: list[str] = field(default_factory=list)
    stores: tuple[str, ...] = ()
    apart: bool = False
    """The day and the time of day of a stamp stand in columns of their own."""
    plain: bool = False
    """One column alone, without stamps."""
    options: dict[str, object] = field(default_factory=dict)
    repairs: set[str] = field(default_factory=set)
    problems: list[tuple[str, str, str, str | None]] = field(default_factory=list)
    """(what, place, column, value)."""


@dataclass(frozen=True)
class Expected:
    """The reading of a file: series by name, stamps, and values by series."""

    ids: tuple[str, ...]
    stamps: NDArray[np.generic]
    values: dict[str, NDArray[np.float64]]
    """[row, column] of each series."""


@dataclass(frozen=True)
class MessyFile:
    """A file, how to read it, and what a person would expect of that."""

    name: str
    content: bytes
    options: dict[str, object]
    expected: Expected
    repairs: frozenset[str]
    problems: tuple[tuple[str, str, str, str | None], ...]
    """Empty: the file is read."""


def _months(start: int, count: int) -> list[datetime]:
    return [datetime(start + number // 12, number % 12 + 1, 1) for number in range(count)]


def _stamps_iso(sheet: Sheet) -> None:
    sheet.moments = [datetime(2020, 1, 1) + timedelta(days=day) for day in range(ROWS)]
    sheet.stamps = [f"{moment:%Y-%m-%d}" for moment in sheet.moments]


def _slashes(sheet: Sheet) -> None:
    sheet.moments = _months(2012, ROWS)
    shape = sheet.random.choice(("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y"))
    sheet.stamps = [moment.strftime(shape) for moment in sheet.moments]
    sheet.repairs.add("date order")


def _days_with_slashes(sheet: Sheet) -> None:
    sheet.moments = [datetime(2012, 1, 1) + timedelta(days=day) for day in range(ROWS)]
    sheet.stamps = [f"{moment:%d/%m/%Y}" for moment in sheet.moments]


def _day_or_month(sheet: Sheet) -> None:
    sheet.moments = _months(2012, 12)
    sheet.stamps = [f"{moment:%d/%m/%Y}" for moment in sheet.moments]
    if sheet.random.random() < 0.5:
        sheet.options["dayfirst"] = True
    else:
        sheet.problems.append(("stamp", "01/02/2012", sheet.time, "01/02/2012"))


def _month_names(sheet: Sheet) -> None:
    sheet.moments, sheet.time = _months(2012, ROWS), "Month"
    shape = sheet.random.choice(("%b-%Y", "%B %Y", "%b-%y", "%d %b %Y"))
    sheet.stamps = [moment.strftime(shape) for moment in sheet.moments]


def _quarters(sheet: Sheet) -> None:
    sheet.moments, sheet.time = _months(1985, 3 * ROWS)[::3], "period"
    sheet.stamps = [f"{moment.year}Q{(moment.month + 2) // 3}" for moment in sheet.moments]


def _weeks(sheet: Sheet) -> None:
    sheet.moments, sheet.time = [datetime(2018, 1, 1) + timedelta(weeks=week) for week in range(ROWS)], "week"
    sheet.stamps = [f"{moment:%G-W%V}" for moment in sheet.moments]


def _years(sheet: Sheet) -> None:
    sheet.moments, sheet.time = [datetime(1950 + year, 1, 1) for year in range(ROWS)], "Year"
    sheet.stamps = [str(moment.year) for moment in sheet.moments]


def _seconds(sheet: Sheet) -> None:
    sheet.moments, sheet.time = [datetime(2012, 1, 1) + timedelta(hours=hour) for hour in range(ROWS)], "timestamp"
    sheet.stamps = [str(1_325_376_000 + 3600 * hour) for hour in range(ROWS)]
    sheet.repairs.add("unix time")


def _milliseconds(sheet: Sheet) -> None:
    _seconds(sheet)
    sheet.time, sheet.stamps = "ts", [f"{stamp}000" for stamp in sheet.stamps]


def _autumn_clock(sheet: Sheet) -> None:
    zone = ZoneInfo("Europe/Berlin")
    sheet.moments, sheet.time = [datetime(2012, 10, 26, 22) + timedelta(hours=hour) for hour in range(ROWS)], "time"
    local = [moment.replace(tzinfo=ZoneInfo("UTC")).astimezone(zone) for moment in sheet.moments]
    sheet.stamps = [f"{moment:%Y-%m-%d %H:%M}" for moment in local]
    sheet.repairs.add("clock change")


def _date_and_time(sheet: Sheet) -> None:
    sheet.moments, sheet.time = [datetime(2021, 3, 1) + timedelta(hours=hour) for hour in range(ROWS)], "Date Time"
    sheet.stamps = [f"{moment:%Y-%m-%d %H:%M}" for moment in sheet.moments]
    sheet.apart = True
    sheet.repairs.add("date parts")


def _one_column(sheet: Sheet) -> None:
    sheet.plain = True
    sheet.repairs.add("row numbers")


def _stores(sheet: Sheet) -> None:
    sheet.stores = ("north", "south") if sheet.random.random() < 0.5 else ("1", "2", "3")


STAMPS = {
    "slashes": _slashes, "days with slashes": _days_with_slashes, "day or month": _day_or_month,
    "month names": _month_names, "quarters": _quarters, "weeks": _weeks, "years": _years, "seconds": _seconds,
    "milliseconds": _milliseconds, "autumn clock": _autumn_clock, "date and time apart": _date_and_time,
}  # fmt: skip
LAYOUTS = {"one column": _one_column, "stores": _stores}
NUMBERS = ("thousands", "german", "two notations", "dollars", "percent", "brackets")
EXTRA_ROWS = ("title", "units", "header again", "total", "remark")
TITLE = ("Report of the office", "", "Printed on Monday")
FAULTS = ("two values", "two values joined", "text cell", "bad stamp", "infinite")
KINDS = (*STAMPS, *LAYOUTS, *NUMBERS, *EXTRA_ROWS, *FAULTS)


def _write(number: float, kind: str, row: int) -> str:
    """A number as a person writes it in some way."""
    german = f"{number:,.2f}".replace(",", " ").replace(".", ",").replace(" ", ".")
    return {
        "thousands": f"{number:,.2f}",
        "german": german,
        "two notations": f"{number:,.2f}" if row % 2 else german,
        "dollars": f"${number:,.0f}",
        "percent": f"{number:.1f}%",
        "brackets": f"({-number:,.0f})" if number < 0 else f"{number:,.0f}",
        "": f"{number:.2f}",
    }[kind]


def _draw(sheet: Sheet, kind: str) -> float:
    if kind == "percent":
        return round(sheet.random.uniform(1, 99), 1)
    if kind in ("dollars", "brackets"):
        return float(sheet.random.randint(1000, 99_999) * (sheet.random.choice((1, -1)) if kind == "brackets" else 1))
    return round(sheet.random.uniform(1000, 99_999), 2)


def make(rng: random.Random, kinds: tuple[str, ...]) -> MessyFile:
    """A file with these kinds of mess."""
    sheet = Sheet(rng, kinds)
    for kind in kinds:
        if kind in LAYOUTS:
            LAYOUTS[kind](sheet)
    _stamps_iso(sheet)
    for kind in kinds:
        if kind in STAMPS:
            STAMPS[kind](sheet)
    style = next((kind for kind in kinds if kind in NUMBERS), "")
    separator = rng.choice((",", ";")) if style in ("german", "") else ","
    comma = style == "german" and separator == ";"
    two = not sheet.stores and not sheet.plain
    header = [sheet.column, *([LATER] if two else [])]
    times = sheet.time.split() if sheet.apart else [sheet.time]
    header = header if sheet.plain else [*(["store"] if sheet.stores else []), *times, *header]
    values: dict[str, NDArray[np.float64]] = {}
    body: list[list[str]] = []
    for store in sheet.stores or ("series",):
        cells = np.array([[_draw(sheet, style), *([round(rng.gauss(20, 4), 3)] if two else [])] for _ in sheet.stamps])
        values[store] = cells
        for row, stamp in enumerate(sheet.stamps):
            texts = [
                _write(float(cells[row, 0]), style, row),
                *([f"{cells[row, 1]:.3f}".replace(".", "," if comma else ".")] if two else []),
            ]
            front = (
                []
                if sheet.plain
                else [*([store] if sheet.stores else []), *(stamp.split() if sheet.apart else [stamp])]
            )
            body.append([*front, *texts])
    stamps = np.array(sheet.moments, dtype="datetime64[us]")
    expected = Expected(sheet.stores or ("series",), np.arange(1, ROWS + 1) if sheet.plain else stamps, values)
    _spoil(sheet, body, header, style, expected)
    if style:
        sheet.repairs.add("notation")
    above = len(TITLE) if "title" in kinds else 0
    first = 2 + above
    blank = [""] if sheet.apart else []
    if "units" in kinds:
        units = ["kW", *(["C"] if two else [])]
        body.insert(0, units if sheet.plain else [*([""] if sheet.stores else []), "", *blank, *units])
        sheet.repairs.add("units")
        first += 1
    if "header again" in kinds:
        body.append(header)
        sheet.repairs.add("header")
    if "total" in kinds:
        sums = [_write(float(values[expected.ids[0]][:, 0].sum()), style, 1), *(["9"] if two else [])]
        body.append([*([""] if sheet.stores else []), "Total", *blank, *sums])
        sheet.repairs.add("total")
    if "remark" in kinds:
        body.append([*([""] if sheet.stores else []), "Source: the office", *blank, *("" for _ in range(1 + two))])
        sheet.repairs.add("remark")
    problems = [
        (what, _place(place, body, first, above), column, value) for what, place, column, value in sheet.problems
    ]
    sink = io.StringIO()
    sink.write("".join(f"{line}\n" for line in TITLE[:above]))
    writer = csv.writer(sink, delimiter=separator, lineterminator="\n")
    writer.writerows([header, *body])
    return MessyFile(
        " + ".join(kinds),
        sink.getvalue().encode(),
        sheet.options,
        expected,
        frozenset(sheet.repairs),
        tuple(problems),
    )


def _spoil(sheet: Sheet, body: list[list[str]], header: list[str], style: str, expected: Expected) -> None:
    """Put in the faults: rows that stand twice at the end, other cells where they are."""
    rng, count, first = sheet.random, len(sheet.stamps), expected.ids[0]
    place = {name: number for number, name in enumerate(header)}
    free = [row for row in range(3, count - 3) if sheet.stamps.count(sheet.stamps[row]) == 1]
    rng.shuffle(free)
    for kind in sheet.kinds:
        if kind not in FAULTS:
            continue
        row = free.pop()
        if kind == "text cell":
            body[row][place[sheet.column]] = "broken"
            sheet.problems.append(("number", f"row {row}", sheet.column, "broken"))
        elif kind == "bad stamp":
            day, _, clock = sheet.time.partition(" ")
            body[row][place[day]] = "yesterday"
            value = f"yesterday {body[row][place[clock]]}" if sheet.apart else "yesterday"
            sheet.problems.append(("stamp", f"row {row}", sheet.time, value))
        elif kind == "infinite":
            name = LATER if LATER in place else sheet.column
            body[row][place[name]] = "inf"
            what = "infinite" if name == LATER or not style else "number"
            sheet.problems.append((what, f"row {row}", name, "inf"))
        else:
            again = [*body[row]]
            other = _draw(sheet, style)
            again[place[sheet.column]] = _write(other, style, row)
            body.append(again)
            if kind == "two values joined":
                sheet.options["duplicates"] = "last"
                sheet.repairs.add("joined")
                expected.values[first][row, 0] = other
            else:
                sheet.problems.append(("duplicates", f"row {row}", sheet.time, None))


def _place(place: str, body: list[list[str]], first: int, above: int) -> str:
    """'line 7' for a row of the data, or for the row that holds a cell."""
    if place.startswith("row "):
        return f"line {int(place[4:]) + first}"
    row = next(number for number, cells in enumerate(body) if place in cells)
    return f"line {row + 2 + above}"


def _go_together(kinds: tuple[str, ...]) -> bool:
    groups = [STAMPS, NUMBERS, LAYOUTS]
    if any(sum(kind in group for kind in kinds) > 1 for group in groups):
        return False
    if {"two values", "two values joined"} <= set(kinds):
        return False
    # Without stamps there are no stamps to spoil, and nothing that says which row is a total.
    without = {
        *STAMPS,
        "two values",
        "two values joined",
        "bad stamp",
        "title",
        "header again",
        "total",
        "remark",
        "infinite",
    }
    return "one column" not in kinds or not without & set(kinds)


def messy_files(count: int = 60, seed: int = 0) -> list[MessyFile]:
    """Every kind alone, then three at a time, as many as are asked for."""
    rng = random.Random(seed)
    made = [make(rng, (kind,)) for kind in KINDS]
    names = {file.name for file in made}
    while len(made) < count:
        kinds = tuple(sorted(rng.sample(KINDS, 3), key=KINDS.index))
        if _go_together(kinds) and " + ".join(kinds) not in names:
            made.append(make(rng, kinds))
            names.add(made[-1].name)
    return made[:count]
