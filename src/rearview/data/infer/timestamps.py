"""The time column: from whatever the caller's frame holds to datetime64[us] or int64, and back again for forecasts.

One time zone is kept by name. Stamps closer than a day are stored in UTC, where every hour has the same length; days
and longer are stored as local wall time, because a local midnight is not the same hour of UTC all year.
"""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer import timestamp_text
from rearview.data.io.table import Table
from rearview.data.panel import Layout
from rearview.data.step import Stamps, Step

if TYPE_CHECKING:
    import narwhals as nw

TimeKind = Literal["datetime", "date", "integer", "text"]
_SAMPLE = 100
_UNIX_SPAN = (631_152_000, 4_102_444_800)
"""From 1990 to 2100, in seconds since 1970."""
_UNIX_UNITS = {
    "seconds": ("s", 1),
    "milliseconds": ("ms", 1_000),
    "microseconds": ("us", 1_000_000),
    "nanoseconds": ("ns", 1_000_000_000),
}
"""Unit -> what numpy calls it, and how many make a second."""
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


def show(stamp: Any) -> str:
    """A stamp as a person writes it: '2024-01-31', '2024-01-31 13:45:00', '17'."""
    if not isinstance(stamp, np.datetime64):
        return str(int(stamp))
    text = str(stamp.astype("datetime64[us]")).replace("T", " ")
    return text.removesuffix(".000000").removesuffix(" 00:00:00")


def kind_of(series: "nw.Series[Any]") -> Literal["stamps", "integers", "other"]:
    """Whether the first cells of a column read as stamps, as whole numbers, or as neither."""
    import narwhals as nw

    dtype = series.dtype
    if dtype in (nw.Date, nw.Datetime):
        return "stamps"
    if dtype.is_integer():
        return "integers"
    cells = series.head(_SAMPLE).drop_nulls().to_list()
    if not cells:
        return "other"
    if dtype.is_float():
        return "integers" if all(float(cell).is_integer() for cell in cells) else "other"
    if all(isinstance(cell, date) for cell in cells):
        return "stamps"
    if not all(isinstance(cell, str) for cell in cells):
        return "other"
    if timestamp_text.read_integers(cells) is not None:
        return "integers"
    # A column of stamps with one bad cell is still the time column; the cell is named when the column is read.
    found = [timestamp_text.read_stamps([cell]) for cell in cells]
    bad = sum(isinstance(one, timestamp_text.Unreadable) and one.kind == "text" for one in found)
    return "stamps" if 2 * bad < len(cells) else "other"


def read_times(table: Table, name: str, step: Step | None) -> Times:
    """The stamps of the time column; a `step` shorter than a day, where it is known, has them counted in UTC."""
    import narwhals as nw

    series = table.fetch(name)
    missing = series.is_null().to_numpy()
    if missing.any():
        raise InputError(
            f"{table.at(int(missing.argmax()))}, column {name!r}: the stamp is missing; fill it in or remove the row."
        )
    dtype = series.dtype
    if dtype == nw.Date:
        return Times(series.to_numpy().astype("datetime64[us]"), "date")
    if isinstance(dtype, nw.Datetime):
        return _typed(series, dtype.time_zone, step)
    if dtype.is_integer():
        return _integers(series.to_numpy().astype(np.int64), "integer")
    if dtype.is_float():
        return _whole_floats(table, name, series)
    cells = series.to_list()
    dates_only = all(isinstance(cell, date) and not isinstance(cell, datetime) for cell in cells)
    if dates_only:
        return Times(np.array(cells, dtype="datetime64[us]"), "date")
    objects = all(isinstance(cell, datetime) for cell in cells)
    return _texts(table, name, [str(cell).strip() for cell in cells], step, objects=objects)


def _typed(series: "nw.Series[Any]", zone: str | None, step: Step | None) -> Times:
    if zone is None:
        return Times(series.to_numpy().astype("datetime64[us]"), "datetime")
    wall = series.dt.replace_time_zone(None).to_numpy().astype("datetime64[us]")
    if _is_daily(wall, step):
        return Times(wall, "datetime", zone)
    utc = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_numpy().astype("datetime64[us]")
    return Times(utc, "datetime", zone, "utc")


def _is_daily(wall: Stamps, step: Step | None) -> bool:
    """True where stamps are a day or more apart by the clock on the wall.

    A step of days does not say so: midnights of UTC are a day apart as well, and the step that was inferred from them
    must not have them read otherwise than before.
    """
    if step is not None and step.sub_daily:
        return False
    time_of_day = wall - wall.astype("datetime64[D]")
    return bool(np.all(time_of_day == time_of_day[:1]))


def _integers(numbers: Stamps, kind: TimeKind) -> Times:
    days = timestamp_text.dates_in(numbers)
    return Times(numbers, kind) if days is None else Times(days, "text", format="%Y%m%d")


def _whole_floats(table: Table, name: str, series: "nw.Series[Any]") -> Times:
    numbers = series.to_numpy()
    whole = np.isfinite(numbers) & (numbers == np.floor(numbers))
    if not whole.all():
        row = int((~whole).argmax())
        raise InputError(
            f"{table.at(row)}, column {name!r}: {numbers[row]!s} is not a stamp; integer time needs whole numbers, "
            f"else {_ISO_HELP}, or name another time column with time_col (--time-col)."
        )
    return _integers(numbers.astype(np.int64), "integer")


def _texts(table: Table, name: str, cells: list[str], step: Step | None, *, objects: bool) -> Times:
    numbers = timestamp_text.read_integers(cells)
    if numbers is not None:
        return _integers(numbers, "integer")
    found = timestamp_text.read_stamps(cells)
    if isinstance(found, timestamp_text.Unreadable):
        advice = f"{_ISO_HELP}, or name another time column with time_col (--time-col)"
        if found.kind == "zones":
            advice = "give all stamps their offset, or none"
        raise InputError(f"{table.at(found.row)}, column {name!r}: {found.why}; {advice}.")
    if table.backend != "file":
        kind: TimeKind = "datetime" if objects else "text"
    else:
        kind = "datetime" if "%H" in found.format or "%I" in found.format else "date"
    shape = None if objects else found.format
    if found.offset is None:
        return Times(found.wall, kind, format=shape)
    if not isinstance(found.offset, int):
        return _of_several_offsets(found.wall, found.offset, Times(found.wall, kind, format=shape), step)
    zone = "UTC" if found.offset == 0 else _offset_name(found.offset)
    if _is_daily(found.wall, step):
        return Times(found.wall, kind, zone, format=shape)
    return Times(found.wall - np.timedelta64(found.offset, "m"), kind, zone, "utc", shape)


def unix_unit(stamps: Stamps) -> tuple[str, str] | None:
    """The unit in which whole numbers may count the time since 1970, and what the first of them is then."""
    if stamps.dtype.kind not in "iu":
        return None
    for unit, (code, per_second) in _UNIX_UNITS.items():
        if _UNIX_SPAN[0] * per_second <= stamps.min() and stamps.max() <= _UNIX_SPAN[1] * per_second:
            return unit, show(stamps[:1].astype(f"datetime64[{code}]")[0])
    return None


def _of_several_offsets(wall: Stamps, offsets: NDArray[np.int64], local: Times, step: Step | None) -> Times:
    """Stamps whose offsets differ, as over a change of clocks: exact moments in UTC, but days stay what they are."""
    both = _offset_name(int(offsets.min())), _offset_name(int(offsets.max()))
    if _is_daily(wall, step):
        return replace(local, offsets=both)
    moments = np.asarray(wall - offsets.astype("timedelta64[m]"))
    return replace(local, values=moments, timezone="UTC", stored="utc", offsets=both)


def _offset_name(minutes: int) -> str:
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def localise(stamps: Stamps, layout: Layout) -> Any:
    """Stamps in the kind the caller gave them: a series of the caller's library, or text for data read from a file.

    Aware of the time zone, dates, integers or text, as they came.
    """
    if stamps.dtype.kind in "iu":
        return _native(stamps, layout)
    if layout.backend == "file" or layout.time_kind == "text":
        return _native(_as_text(stamps, layout), layout)
    if layout.time_kind == "date":
        return _native(stamps.astype("datetime64[D]"), layout)
    return _native(stamps, layout) if layout.timezone is None else _aware(stamps, layout, layout.timezone)


def _native(values: Any, layout: Layout) -> Any:
    """Values without a time zone as a series of the caller's library, or an array for data read from a file."""
    if layout.backend == "polars":
        import polars as pl

        return pl.Series(layout.time_col, values.tolist() if values.dtype.kind == "U" else values)
    if layout.backend == "pyarrow":
        import pyarrow as pa

        return pa.array(values.tolist() if values.dtype.kind == "U" else values)
    if layout.backend == "pandas":
        import pandas as pd

        # numpy's days have no pandas dtype; dates came as Python objects and go back as such.
        dated = values.dtype == np.dtype("datetime64[D]")
        return pd.Series(values.astype(object) if dated else values, name=layout.time_col)
    return values


def _aware(stamps: Stamps, layout: Layout, zone: str) -> Any:
    """Stamps with their time zone; a wall time that the clocks skip moves on, of one they repeat the first is taken."""
    utc = layout.stored == "utc"
    if layout.backend == "polars":
        import polars as pl

        series = pl.Series(layout.time_col, stamps)
        if utc:
            return series.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
        later = (series + timedelta(hours=1)).dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
        return series.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null").fill_null(later)
    if layout.backend == "pyarrow":
        import pyarrow as pa
        import pyarrow.compute as compute

        if utc:
            return pa.array(stamps, type=pa.timestamp("us")).cast(pa.timestamp("us", tz=zone))
        return compute.assume_timezone(pa.array(stamps), zone, ambiguous="earliest", nonexistent="latest")
    import pandas as pd

    index = pd.DatetimeIndex(stamps)
    if utc:
        aware = index.tz_localize("UTC").tz_convert(zone)
    else:
        aware = index.tz_localize(zone, ambiguous=np.ones(len(index), dtype=bool), nonexistent="shift_forward")
    return pd.Series(aware, name=layout.time_col)


def _as_text(stamps: Stamps, layout: Layout) -> Any:
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


def wall(stamps: Stamps, layout: Layout) -> Stamps:
    """Stamps as a clock in the data's time zone shows them, without the zone; for figures."""
    if layout.timezone is None or layout.stored != "utc" or stamps.dtype.kind != "M":
        return stamps
    zone = _zone(layout.timezone)
    moments: list[datetime] = stamps.astype("datetime64[us]").tolist()
    local = [moment.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None) for moment in moments]
    return np.array(local, dtype="datetime64[us]")
