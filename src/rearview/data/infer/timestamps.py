"""The time column: from whatever the caller's frame holds to datetime64[us] or int64, and back again for forecasts.

One time zone is kept by name. Stamps closer than a day are stored in UTC, where every hour has the same length; days
and longer are stored as local wall time, because a local midnight is not the same hour of UTC all year.
"""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer import timestamp_text
from rearview.data.infer.problems import MOST_NAMED, MessyData, Problem, Repair
from rearview.data.infer.wall_time import find_zone_of_offsets, offset_name, to_utc, to_wall_time, zone_of
from rearview.data.io.table import Table, TableColumn
from rearview.data.panel import Finding, Layout, Panel
from rearview.data.read_options import ReadOptions
from rearview.data.step import Stamps

TimeKind = Literal["datetime", "date", "integer", "text"]
NativeSeries: TypeAlias = Any
"""A series of the caller's library, or an array."""
_SAMPLE = 100
_UNIX_SPAN = (631_152_000, 4_102_444_800)
"""From 1990 to 2100, in seconds since 1970."""
_UNIX_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
"""Each a thousandth of the one before."""
_UNIX_FORMAT = "since 1970 in "
"""What the format of stamps that count from 1970 begins with; their unit follows."""
_RISING = 0.9
"""The share of neighbours that rise in a column that is taken for a time without being called one."""
YEAR_NAMES = ("year", "jahr", "année", "annee", "año", "anno", "ano")
MONTH_NAMES = ("month", "monat", "period", "yearmonth", "year_month", "year-month", "yyyymm")
"""Columns whose whole numbers may be months, such as 201501."""
_DAY_NAMES = ("date", "datum", "day", "tag")
_SPREADSHEET_DAYS = (20_000, 60_000)
"""Days since the end of 1899, as spreadsheets count them, of 1954 to 2064."""
_SPREADSHEET_FORMAT = "days since 1899"
_YEARS = (1500, 2500)
_DECIMAL = re.compile(r"[+-]?\d+(?:\.\d+)?")
_ISO_HELP = "write stamps like 2024-01-31 or 2024-01-31 13:45:00"


@dataclass(frozen=True, slots=True)
class Times:
    """A column of stamps as the panel stores it, and what is needed to give stamps back as they came."""

    values: Stamps
    kind: TimeKind
    timezone: str | None = None
    stored: Literal["wall", "utc"] = "wall"
    format: str | None = None
    offsets: tuple[str, str] | None = None
    """The least and the greatest offset from UTC, where rows have different ones."""
    alike: bool = False
    """The time zone is not named, but its clocks have the offsets of all rows."""
    bare: bool = False
    """The stamps were written without the time zone that they are in."""
    wall: Stamps | None = None
    """What the clock showed, where `values` are in UTC and the stamps were written without an offset."""
    settled: str | None = None
    """A date with day and month in either order, which the spacing of all dates told."""
    other: str | None = None
    """A date whose parts stand in another order than those of the first."""

    def findings(self, table: Table, column: str) -> list[Finding]:
        """What was inferred of the stamps and of their time zone."""
        count, shape, findings = len(self.values), self.format or "", list[Finding]()

        def repair(what: str, row: int, cell: str, fact: str, more: str = ".") -> None:
            reading = show(self.values[row])
            message = f"{fact} is read as {reading}{more}"
            findings.append(Repair("repaired", what, count, message, table.place(row), column, cell, reading))

        if shape.startswith(_UNIX_FORMAT) or shape == _SPREADSHEET_FORMAT:
            cell = str(table.fetch(column)[0]).removesuffix(".0")
            if shape == _SPREADSHEET_FORMAT:
                repair("spreadsheet days", 0, cell, f"Column {column!r} counts days as spreadsheets do: {cell}")
            else:
                unit = _UNIX_UNITS[shape.removeprefix(_UNIX_FORMAT)]
                repair("unix time", 0, cell, f"Column {column!r} counts {unit} since 1970: {cell}", " in UTC.")
        if self.settled is not None:
            more = ": only so are the stamps evenly spaced. Give date_format (--date-format) to read them otherwise."
            row = _row_of(table, column, self.settled)
            repair("date order", row, self.settled, f"{self.settled!r} in column {column!r}", more)
        if self.other is not None:
            row = _row_of(table, column, self.other)
            fact = f"Column {column!r} has dates in more than one order: {self.other!r}"
            repair("date orders", row, self.other, fact)
        if self.offsets is not None:
            where = "it" if self.timezone == "UTC" else self.timezone
            how = f"stamps are counted in UTC and forecasts are given in {where}"
            if self.alike:
                how += ", whose clocks have these offsets; name another zone with timezone (--timezone)"
            if self.stored == "wall":
                how = "days are kept as local time and forecasts are given without an offset"
            message = f"Stamps have offsets from {self.offsets[0]} to {self.offsets[1]}; {how}."
            findings.append(Finding("repaired", "timezone", count, message))
        elif self.timezone is not None and not self.bare:
            how = "are counted in UTC" if self.stored == "utc" else "are kept as local time"
            message = f"The time zone is {self.timezone}; stamps {how} and forecasts are given in it."
            findings.append(Finding("inferred", "timezone", 0, message))
        return findings


def _row_of(table: Table, column: str, text: str) -> int:
    """The first row with a cell of this text."""
    return next(row for row, cell in enumerate(table.fetch(column).to_list()) if str(cell).strip() == text)


@dataclass(frozen=True, slots=True)
class BadStamp:
    """A cell of the time column that is no stamp, why, and what to do."""

    row: int
    value: str
    why: str
    advice: str
    flag: str | None = None


def show(stamp: object) -> str:
    """A stamp as a person writes it: '2024-01-31', '2024-01-31 13:45:00', '17'."""
    if not isinstance(stamp, np.datetime64):
        return str(stamp)
    text = str(stamp.astype("datetime64[us]")).replace("T", " ")
    return text.removesuffix(".000000").removesuffix(" 00:00:00")


def show_ends(panel: Panel) -> tuple[str, str]:
    """The first and the last stamp of a panel as a clock in its time zone shows them."""
    first, last = to_wall_time(np.array([panel.stamps.min(), panel.stamps.max()]), panel.layout)
    return show(first), show(last)


BadStamps = tuple[BadStamp, ...]


def _name_bad(
    bad: NDArray[np.bool_], why: str, advice: str, flag: str | None = None, cell: Callable[[int], str] = lambda row: ""
) -> BadStamps:
    """The rows that are bad, all for one reason; `cell` gives what stands there, which the reason begins with."""
    cells = {row: cell(row) for row in np.flatnonzero(bad).tolist()}
    return tuple(BadStamp(row, text, f"{text} {why}".strip(), advice, flag) for row, text in cells.items())


def infer_kind(column: TableColumn, date_format: str | None = None) -> Literal["stamps", "integers", "other"]:
    """Whether the first cells of a column read as stamps, as whole numbers, or as neither."""
    import narwhals as nw

    dtype = column.dtype
    if dtype in (nw.Date, nw.Datetime):
        return "stamps"
    if dtype.is_integer():
        return "integers"
    try:
        cells = column.head(_SAMPLE).drop_nulls().to_list()
    except (OverflowError, ValueError):  # durations and times that Python has no value for
        return "other"
    if not cells:
        return "other"
    if dtype.is_float():
        return "integers" if all(float(cell).is_integer() for cell in cells) else "other"
    if all(isinstance(cell, date) for cell in cells):
        return "stamps"
    if not all(isinstance(cell, str) for cell in cells):
        return "other"
    if date_format is None and timestamp_text.read_integers(cells) is not None:
        return "integers"
    # A column of stamps with one bad cell is still the time column; the cell is named when the column is read.
    stamps = [timestamp_text.read_stamps([cell], date_format=date_format) for cell in cells]
    bad = sum(isinstance(one, timestamp_text.Unreadable) and one.kind == "text" for one in stamps)
    if 2 * bad < len(cells):
        return "stamps"
    # So is one of whole numbers with a word above or below them.
    whole = [cell for cell in cells if timestamp_text.read_integers([cell]) is not None]
    return "integers" if date_format is None and 2 * len(whole) > len(cells) else "other"


_CALENDAR = tuple(np.array(["0001-01-02", "9999-12-30"], dtype="datetime64[ms]").astype(np.int64).tolist())
"""Milliseconds since 1970 between which every zone has a date."""


def read_times(table: Table, name: str, options: ReadOptions) -> Times | BadStamps:
    """The stamps of the time column, or all cells that are none.

    A step shorter than a day, where it is given, has stamps of a time zone counted in UTC.
    """
    import narwhals as nw

    column = table.fetch(name)
    missing = column.is_null().to_numpy()
    if missing.any():
        return _name_bad(missing, "the stamp is missing", "fill it in or remove the row")
    dtype = column.dtype
    if dtype == nw.Date:
        return Times(column.to_numpy().astype("datetime64[us]"), "date")
    if isinstance(dtype, nw.Datetime):
        if dtype.time_zone is None:
            return _in_zone(Times(column.to_numpy().astype("datetime64[us]"), "datetime"), options)
        count = column.dt.timestamp("ms").to_numpy()
        if (beyond := (count < _CALENDAR[0]) | (count > _CALENDAR[1])).any():
            return _name_bad(beyond, "the stamp is beyond the calendar, which goes from the year 1 to 9999", "mend it")
        wall = column.dt.replace_time_zone(None).to_numpy().astype("datetime64[us]")
        if _is_daily(wall, options):
            return Times(wall, "datetime", dtype.time_zone)
        utc = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_numpy().astype("datetime64[us]")
        return Times(utc, "datetime", dtype.time_zone, "utc")
    if dtype.is_numeric():
        return _read_counts(name, column.to_numpy(), options)
    try:
        cells = column.to_list()
    except OverflowError:
        raise InputError(
            f"{table.source}, column {name!r} holds {dtype}, of which some are too long for the calendar; mend them, "
            "or name another time column with time_col (--time-col)."
        ) from None
    if all(isinstance(cell, date) and not isinstance(cell, datetime) for cell in cells):
        return Times(np.array(cells, dtype="datetime64[us]"), "date")
    objects = all(isinstance(cell, datetime) for cell in cells)
    return _read_text(table, name, [str(cell).strip() for cell in cells], options, objects=objects)


def tells_time(column: TableColumn) -> bool:
    """Whether whole numbers, nearly all rising, spell moments such as 202401311745, or count seconds since 1970."""
    if column.dtype.is_numeric():
        numbers = column.drop_nulls().to_numpy()
    else:
        # A word above or below the numbers is no number, and does not make the others none.
        cells = column.drop_nulls().to_list()
        whole = [cell for cell in cells if isinstance(cell, str) and timestamp_text.read_integers([cell]) is not None]
        if 2 * len(whole) <= len(cells):
            return False
        numbers = np.array([float(cell) for cell in whole])
    if len(numbers) < 2 or np.mean(numbers[1:] >= numbers[:-1]) < _RISING or np.any(numbers != np.floor(numbers)):
        return False
    whole_numbers = numbers.astype(np.int64)
    return _unix_unit(whole_numbers) is not None or timestamp_text.moments_in(whole_numbers) is not None


def counts_months(column: TableColumn) -> bool:
    """Whether whole numbers such as 201501 stand for months."""
    cells = column.drop_nulls().to_list()
    numbers = timestamp_text.read_integers([str(cell) for cell in cells])
    return numbers is not None and timestamp_text.months_in(numbers) is not None


def _unix_unit(numbers: Stamps) -> str | None:
    """The unit in which all numbers count from 1970 to a moment of 1990 to 2100."""
    for power, unit in enumerate(_UNIX_UNITS):
        first, last = (second * 1000**power for second in _UNIX_SPAN)
        if first <= numbers.min() and numbers.max() <= last:
            return unit
    return None


def require_times(table: Table, name: str, options: ReadOptions) -> Times:
    """The stamps of a column that must have one in every row."""
    times = read_times(table, name, options)
    if not isinstance(times, Times):
        raise MessyData(table.source, stamp_problems(table, name, times))
    return times


def stamp_problems(table: Table, name: str, bad: Sequence[BadStamp]) -> list[Problem]:
    """A problem for each bad stamp, as many as are named; one where most of the column can't be read."""
    named = bad[:1] if 2 * len(bad) >= len(table) else bad[:MOST_NAMED]
    problems = []
    for one in named:
        more = len(bad) - len(named) if one is named[-1] else 0
        others = f" ({more} more stamps of the column can't be read)" if more else ""
        message = f"{table.at(one.row)}, column {name!r}: {one.why}{others}; {one.advice}."
        problems.append(Problem("stamp", message, table.place(one.row), name, one.value, one.flag, 1 + more))
    return problems


def _read_counts(name: str, numbers: Stamps, options: ReadOptions) -> Times | BadStamps:
    """Integer time, or what whole numbers spell: days such as 20240131, years, seconds since 1970 and their parts."""
    given, other = numbers, "or name another time column with time_col (--time-col)"
    if given.dtype.kind == "f" and (split := ~np.isfinite(given) | (given != np.floor(given))).any():
        advice = f"integer time needs whole numbers, else {_ISO_HELP}, {other}"
        return _name_bad(split, "is not a stamp", advice, "--time-col", lambda row: f"{given[row]!s}")
    if (beyond := np.abs(given.astype(np.float64)) >= 2.0**63).any():
        why, advice = "is beyond the whole numbers of 64 bits", f"count from a later moment, {other}"
        return _name_bad(beyond, why, advice, "--time-col", lambda row: f"{given[row]!s}")
    numbers = given.astype(np.int64)
    if (written := timestamp_text.moments_in(numbers)) is not None:
        return Times(written[0], "text", format=written[1])
    # A step in whole numbers says that they are not dates.
    if options.freq is not None and options.freq.unit == "int":
        return Times(numbers, "integer")
    if name.casefold() in _DAY_NAMES and (days := timestamp_text.days_of_years_in(numbers)) is not None:
        return Times(days, "text", format="%Y%j")
    if name.casefold() in YEAR_NAMES and _YEARS[0] <= numbers.min() and numbers.max() <= _YEARS[1]:
        return Times((numbers - 1970).astype("datetime64[Y]").astype("datetime64[us]"), "text", format="%Y")
    if name.casefold() in (*MONTH_NAMES, *_DAY_NAMES) and (months := timestamp_text.months_in(numbers)) is not None:
        return Times(months, "text", format="%Y%m")
    if name.casefold() in _DAY_NAMES and _SPREADSHEET_DAYS[0] <= numbers.min() <= numbers.max() <= _SPREADSHEET_DAYS[1]:
        days = np.datetime64("1899-12-30", "D") + numbers
        return Times(days.astype("datetime64[us]"), "integer", format=_SPREADSHEET_FORMAT)
    unit = _unix_unit(numbers)
    if unit is None:
        return Times(numbers, "integer")
    moments = numbers.astype(f"datetime64[{unit}]").astype("datetime64[us]")
    return Times(moments, "integer", format=f"{_UNIX_FORMAT}{unit}")


def _in_zone(times: Times, options: ReadOptions) -> Times | BadStamps:
    """Stamps that were written without a time zone in the one that is given; days stay as they are."""
    if options.timezone is None or times.timezone is not None or times.values.dtype.kind != "M":
        return times
    if _is_daily(times.values, options):
        return times
    moments = to_utc(times.values, options.timezone)
    if (skipped := np.isnat(moments)).any():
        why = f"does not exist in {options.timezone}, where clocks were put forward"
        advice = "correct it, or leave out timezone (--timezone)"
        return _name_bad(skipped, why, advice, cell=lambda row: show(times.values[row]))
    return replace(times, values=moments, timezone=options.timezone, stored="utc", bare=True, wall=times.values)


def _is_daily(wall: Stamps, options: ReadOptions) -> bool:
    """True where stamps are a day or more apart by the clock on the wall, or are gathered so.

    A step of days does not say so: midnights of UTC are a day apart as well, and the step that was inferred from them
    must not have them read otherwise than before.
    """
    if options.every is not None:
        return not options.every.sub_daily
    if options.freq is not None and options.freq.sub_daily:
        return False
    time_of_day = wall - wall.astype("datetime64[D]")
    return bool(np.all(time_of_day == time_of_day[:1]))


def _read_text(table: Table, name: str, cells: list[str], options: ReadOptions, *, objects: bool) -> Times | BadStamps:
    numbers = None if options.date_format else timestamp_text.read_integers(cells)
    if numbers is not None:
        return _read_counts(name, numbers, options)
    if options.date_format is None and any("." in cell for cell in cells) and all(map(_DECIMAL.fullmatch, cells)):
        advice = f"{_ISO_HELP}, or go by row numbers (--freq 1 --drop {shlex.quote(name)})"
        return tuple(
            BadStamp(row, cell, f"{cell!r} is not a stamp but a number with decimals", advice)
            for row, cell in enumerate(cells)
        )
    text = timestamp_text.read_stamps(cells, dayfirst=options.dayfirst, date_format=options.date_format)
    if isinstance(text, timestamp_text.Unreadable):
        return _bad_stamps(cells, text, options)
    if table.backend != "file":
        kind: TimeKind = "datetime" if objects else "text"
    elif any(mark in text.format for mark in ("%q", "%V", "%k", "%o", "%O")):
        kind = "text"
    else:
        kind = "datetime" if "%H" in text.format or "%I" in text.format else "date"
    shape, daily = None if objects else text.format, _is_daily(text.wall, options)
    if text.offset is None:
        return _in_zone(Times(text.wall, kind, format=shape, settled=text.settled, other=text.other), options)
    if isinstance(text.offset, int):
        zone = "UTC" if text.offset == 0 else offset_name(text.offset)
        if daily:
            return Times(text.wall, kind, zone, format=shape)
        return Times(text.wall - np.timedelta64(text.offset, "m"), kind, options.timezone or zone, "utc", shape)
    # Offsets differ, as over a change of clocks: exact moments in UTC, but days stay what they are.
    both = offset_name(int(text.offset.min())), offset_name(int(text.offset.max()))
    if daily:
        return Times(text.wall, kind, format=shape, offsets=both)
    offsets = text.offset.astype("timedelta64[m]")
    moments = np.asarray(text.wall - offsets)
    if options.timezone is None and (alike := find_zone_of_offsets(moments, offsets)) is not None:
        return Times(moments, kind, alike, "utc", shape, both, alike=True)
    return Times(moments, kind, options.timezone or "UTC", "utc", shape, both)


def _bad_stamps(cells: list[str], text: timestamp_text.Unreadable, options: ReadOptions) -> BadStamps:
    """The cells that are no stamps, with what to do about them."""
    # Whole numbers with words among them: only the words are out of place.
    whole = [row for row, cell in enumerate(cells) if timestamp_text.read_integers([cell]) is not None]
    rows = dict(text.rows)
    if text.kind == "text" and options.date_format is None and 2 * len(whole) > len(cells):
        rows = {row: f"{cells[row]!r} is not a stamp" for row in range(len(cells)) if row not in set(whole)}
    flag: str | None = "--date-format"
    advice = (
        f"{_ISO_HELP}, say how they are written with date_format (--date-format), or name another time column with "
        "time_col (--time-col)"
    )
    if text.kind == "zones":
        advice, flag = "give all stamps their offset, or none", None
    elif text.kind == "ambiguous":
        advice = (
            "say dayfirst (--dayfirst) if the day comes first, or date_format (--date-format) as in %m/%d/%Y if not"
        )
        flag = "--dayfirst"
    elif options.date_format is not None:
        advice, flag = "correct the cell, or give another date_format (--date-format)", "--date-format"
    return tuple(BadStamp(row, cells[row], why, advice, flag) for row, why in rows.items())


def localise(stamps: Stamps, layout: Layout) -> NativeSeries:
    """Stamps in the kind the caller gave them: a series of the caller's library, or text for data read from a file.

    Aware of the time zone, dates, integers, text or periods of pandas, as they came. A wall time that the clocks skip
    moves on, of one they repeat the first is taken.
    """
    if layout.bare:
        stamps, layout = to_wall_time(stamps, layout), replace(layout, timezone=None, stored="wall", bare=False)
    if layout.time_format == _SPREADSHEET_FORMAT:
        stamps = (stamps.astype("datetime64[D]") - np.datetime64("1899-12-30", "D")).astype(np.int64)
    if (layout.time_format or "").startswith(_UNIX_FORMAT):
        unit = (layout.time_format or "").removeprefix(_UNIX_FORMAT)
        stamps = stamps.astype(f"datetime64[{unit}]").astype(np.int64)
    values, zone = stamps, None
    if stamps.dtype.kind not in "iu":
        if layout.backend == "file" or layout.time_kind == "text":
            values = _as_text(stamps, layout)
        elif layout.time_kind == "date":
            values = stamps.astype("datetime64[D]")
        else:
            zone = layout.timezone
    cells = values.tolist() if values.dtype.kind == "U" else values
    if layout.backend == "polars":
        import polars as pl

        series = pl.Series(layout.time_col, cells)
        if zone is None:
            return series
        if layout.stored == "utc":
            return series.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
        later = (series + timedelta(hours=1)).dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
        return series.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null").fill_null(later)
    if layout.backend == "pyarrow":
        import pyarrow as pa
        import pyarrow.compute as compute

        if zone is None:
            return pa.array(cells)
        if layout.stored == "utc":
            return pa.array(stamps, type=pa.timestamp("us")).cast(pa.timestamp("us", tz=zone))
        return compute.assume_timezone(pa.array(stamps), zone, ambiguous="earliest", nonexistent="latest")
    if layout.backend == "pandas":
        import pandas as pd

        if layout.period is not None:
            return pd.Series(pd.PeriodIndex(stamps, freq=layout.period), name=layout.time_col)
        if zone is None:
            # numpy's days have no pandas dtype; dates came as Python objects and go back as such.
            dated = values.dtype == np.dtype("datetime64[D]")
            return pd.Series(values.astype(object) if dated else values, name=layout.time_col)
        index = pd.DatetimeIndex(stamps)
        if layout.stored == "utc":
            return pd.Series(index.tz_localize("UTC").tz_convert(zone), name=layout.time_col)
        first = np.ones(len(index), dtype=bool)
        return pd.Series(index.tz_localize(zone, ambiguous=first, nonexistent="shift_forward"), name=layout.time_col)
    return values


def _as_text(stamps: Stamps, layout: Layout) -> Stamps:
    """Stamps written as they were read, with the offset of their time zone where they have one."""
    shape = layout.time_format or ("%Y-%m-%d" if layout.time_kind == "date" else "%Y-%m-%d %H:%M:%S")
    moments: list[datetime] = stamps.astype("datetime64[us]").tolist()
    if any(moment.microsecond for moment in moments) and "%f" not in shape and "%S" in shape:
        shape = shape.replace("%S", "%S.%f")
    if layout.timezone is None:
        return np.array([_write(moment, shape) for moment in moments], dtype=np.str_)
    zone = zone_of(layout.timezone)
    if layout.stored == "utc":
        aware = [moment.replace(tzinfo=UTC).astimezone(zone) for moment in moments]
    else:
        aware = [moment.replace(tzinfo=zone) for moment in moments]
    return np.array([f"{_write(moment, shape)}{moment.isoformat()[-6:]}" for moment in aware], dtype=np.str_)


def _write(moment: datetime, shape: str) -> str:
    """A moment in a format of `strftime` and the marks of `StampText.format`."""
    following = moment.year + 1
    own = {
        "%q": (moment.month + 2) // 3,
        "%k": (moment.month + 5) // 6,
        "%o": f"{following % 100:02d}",
        "%O": following,
    }
    for mark, text in own.items():
        shape = shape.replace(mark, str(text))
    return moment.strftime(shape)
