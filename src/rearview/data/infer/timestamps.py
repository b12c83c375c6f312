"""The time column: from whatever the caller's frame holds to datetime64[us] or int64, and back again for forecasts.

One time zone is kept by name. Stamps closer than a day are stored in UTC, where every hour has the same length; days
and longer are stored as local wall time, because a local midnight is not the same hour of UTC all year.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any, Literal, TypeAlias

import numpy as np

from rearview.core.errors import InputError
from rearview.data.infer.timestamp_text import Unreadable, dates_in, read_integers, read_stamps
from rearview.data.io.table import Table, TableColumn
from rearview.data.panel import Finding, Layout
from rearview.data.step import Stamps, Step

TimeKind = Literal["datetime", "date", "integer", "text"]
NativeSeries: TypeAlias = Any
"""A series of the caller's library, or an array."""
_SAMPLE = 100
_UNIX_SPAN = (631_152_000, 4_102_444_800)
"""From 1990 to 2100, in seconds since 1970."""
_UNIX_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
"""Each a thousandth of the one before."""
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

    def findings(self, column: str) -> list[Finding]:
        """What the stamps say of their time zone, and whole numbers of what they may count."""
        count = len(self.values)
        if self.values.dtype.kind in "iu":
            for power, (code, unit) in enumerate(_UNIX_UNITS.items()):
                first, last = (second * 1000**power for second in _UNIX_SPAN)
                if first <= self.values.min() and self.values.max() <= last:
                    moment = show(self.values[:1].astype(f"datetime64[{code}]")[0])
                    message = (
                        f"Column {column!r} counts in whole numbers, which have no season; {self.values[0]} may be "
                        f"{moment} in {unit} since 1970: if so, write the stamps as dates."
                    )
                    return [Finding("warning", "unix time", count, message)]
        if self.offsets is not None:
            how = "stamps are counted in UTC and forecasts are given in it"
            if self.stored == "wall":
                how = "days are kept as local time and forecasts are given without an offset"
            message = f"Stamps have offsets from {self.offsets[0]} to {self.offsets[1]}; {how}."
            return [Finding("repaired", "timezone", count, message)]
        if self.timezone is None:
            return []
        how = "are counted in UTC" if self.stored == "utc" else "are kept as local time"
        message = f"The time zone is {self.timezone}; stamps {how} and forecasts are given in it."
        return [Finding("inferred", "timezone", 0, message)]


def show(stamp: object) -> str:
    """A stamp as a person writes it: '2024-01-31', '2024-01-31 13:45:00', '17'."""
    if not isinstance(stamp, np.datetime64):
        return str(stamp)
    text = str(stamp.astype("datetime64[us]")).replace("T", " ")
    return text.removesuffix(".000000").removesuffix(" 00:00:00")


def infer_kind(column: TableColumn) -> Literal["stamps", "integers", "other"]:
    """Whether the first cells of a column read as stamps, as whole numbers, or as neither."""
    import narwhals as nw

    dtype = column.dtype
    if dtype in (nw.Date, nw.Datetime):
        return "stamps"
    if dtype.is_integer():
        return "integers"
    cells = column.head(_SAMPLE).drop_nulls().to_list()
    if not cells:
        return "other"
    if dtype.is_float():
        return "integers" if all(float(cell).is_integer() for cell in cells) else "other"
    if all(isinstance(cell, date) for cell in cells):
        return "stamps"
    if not all(isinstance(cell, str) for cell in cells):
        return "other"
    if read_integers(cells) is not None:
        return "integers"
    # A column of stamps with one bad cell is still the time column; the cell is named when the column is read.
    stamps = [read_stamps([cell]) for cell in cells]
    bad = sum(isinstance(one, Unreadable) and one.kind == "text" for one in stamps)
    return "stamps" if 2 * bad < len(cells) else "other"


def read_times(table: Table, name: str, step: Step | None) -> Times:
    """The stamps of the time column; a `step` shorter than a day, where it is known, has them counted in UTC."""
    import narwhals as nw

    column = table.fetch(name)
    missing = column.is_null().to_numpy()
    if missing.any():
        raise InputError(
            f"{table.at(int(missing.argmax()))}, column {name!r}: the stamp is missing; fill it in or remove the row."
        )
    dtype = column.dtype
    if dtype == nw.Date:
        return Times(column.to_numpy().astype("datetime64[us]"), "date")
    if isinstance(dtype, nw.Datetime):
        if dtype.time_zone is None:
            return Times(column.to_numpy().astype("datetime64[us]"), "datetime")
        wall = column.dt.replace_time_zone(None).to_numpy().astype("datetime64[us]")
        if _is_daily(wall, step):
            return Times(wall, "datetime", dtype.time_zone)
        utc = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_numpy().astype("datetime64[us]")
        return Times(utc, "datetime", dtype.time_zone, "utc")
    if dtype.is_integer():
        return _count(column.to_numpy().astype(np.int64))
    if dtype.is_float():
        numbers = column.to_numpy()
        whole = np.isfinite(numbers) & (numbers == np.floor(numbers))
        if not whole.all():
            row = int((~whole).argmax())
            raise InputError(
                f"{table.at(row)}, column {name!r}: {numbers[row]!s} is not a stamp; integer time needs whole numbers, "
                f"else {_ISO_HELP}, or name another time column with time_col (--time-col)."
            )
        return _count(numbers.astype(np.int64))
    cells = column.to_list()
    if all(isinstance(cell, date) and not isinstance(cell, datetime) for cell in cells):
        return Times(np.array(cells, dtype="datetime64[us]"), "date")
    objects = all(isinstance(cell, datetime) for cell in cells)
    return _read_text(table, name, [str(cell).strip() for cell in cells], step, objects=objects)


def _count(numbers: Stamps) -> Times:
    """Integer time, or days where every number is one, such as 20240131."""
    days = dates_in(numbers)
    return Times(numbers, "integer") if days is None else Times(days, "text", format="%Y%m%d")


def _is_daily(wall: Stamps, step: Step | None) -> bool:
    """True where stamps are a day or more apart by the clock on the wall.

    A step of days does not say so: midnights of UTC are a day apart as well, and the step that was inferred from them
    must not have them read otherwise than before.
    """
    if step is not None and step.sub_daily:
        return False
    time_of_day = wall - wall.astype("datetime64[D]")
    return bool(np.all(time_of_day == time_of_day[:1]))


def _read_text(table: Table, name: str, cells: list[str], step: Step | None, *, objects: bool) -> Times:
    numbers = read_integers(cells)
    if numbers is not None:
        return _count(numbers)
    text = read_stamps(cells)
    if isinstance(text, Unreadable):
        advice = f"{_ISO_HELP}, or name another time column with time_col (--time-col)"
        if text.kind == "zones":
            advice = "give all stamps their offset, or none"
        raise InputError(f"{table.at(text.row)}, column {name!r}: {text.why}; {advice}.")
    if table.backend != "file":
        kind: TimeKind = "datetime" if objects else "text"
    else:
        kind = "datetime" if "%H" in text.format or "%I" in text.format else "date"
    shape, daily = None if objects else text.format, _is_daily(text.wall, step)
    if text.offset is None:
        return Times(text.wall, kind, format=shape)
    if isinstance(text.offset, int):
        zone = "UTC" if text.offset == 0 else _offset_name(text.offset)
        if daily:
            return Times(text.wall, kind, zone, format=shape)
        return Times(text.wall - np.timedelta64(text.offset, "m"), kind, zone, "utc", shape)
    # Offsets differ, as over a change of clocks: exact moments in UTC, but days stay what they are.
    both = _offset_name(int(text.offset.min())), _offset_name(int(text.offset.max()))
    if daily:
        return Times(text.wall, kind, format=shape, offsets=both)
    moments = np.asarray(text.wall - text.offset.astype("timedelta64[m]"))
    return Times(moments, kind, "UTC", "utc", shape, both)


def _offset_name(minutes: int) -> str:
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def localise(stamps: Stamps, layout: Layout) -> NativeSeries:
    """Stamps in the kind the caller gave them: a series of the caller's library, or text for data read from a file.

    Aware of the time zone, dates, integers or text, as they came. A wall time that the clocks skip moves on, of one
    they repeat the first is taken.
    """
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
        return np.array([moment.strftime(shape) for moment in moments], dtype=np.str_)
    zone = _zone(layout.timezone)
    if layout.stored == "utc":
        aware = [moment.replace(tzinfo=UTC).astimezone(zone) for moment in moments]
    else:
        aware = [moment.replace(tzinfo=zone) for moment in moments]
    return np.array([f"{moment.strftime(shape)}{moment.isoformat()[-6:]}" for moment in aware], dtype=np.str_)


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    if name in ("UTC", "Z"):
        return UTC
    offset = name.removeprefix("UTC")
    if offset[:1] in ("+", "-"):
        hours, _, minutes = offset[1:].partition(":")
        sign = -1 if offset[0] == "-" else 1
        return timezone(sign * timedelta(hours=int(hours), minutes=int(minutes or 0)))
    return ZoneInfo(name)


def to_wall_time(stamps: Stamps, layout: Layout) -> Stamps:
    """Stamps as a clock in the data's time zone shows them, without the zone; for figures."""
    if layout.timezone is None or layout.stored != "utc" or stamps.dtype.kind != "M":
        return stamps
    zone = _zone(layout.timezone)
    moments: list[datetime] = stamps.astype("datetime64[us]").tolist()
    local = [moment.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None) for moment in moments]
    return np.array(local, dtype="datetime64[us]")
