"""Time zones: wall time into UTC and back, when clocks change, and the zone that offsets or a repeated hour show."""

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from rearview.data.panel import Layout
from rearview.data.step import Stamps

_LIKELY_ZONES = ("Europe/Berlin", "Europe/London", "Europe/Athens", "America/New_York")
"""A zone for each rule by which clocks change in Europe and North America."""
_LAST_DAY = np.datetime64("9999-12-31", "D")


def zone_of(name: str) -> tzinfo:
    """The time zone of a name or an offset such as +02:00."""
    if name in ("UTC", "Z"):
        return UTC
    offset = name.removeprefix("UTC")
    if offset[:1] in ("+", "-"):
        hours, _, minutes = offset[1:].partition(":")
        sign = -1 if offset[0] == "-" else 1
        return timezone(sign * timedelta(hours=int(hours), minutes=int(minutes or 0)))
    return ZoneInfo(name)


def to_wall_time(stamps: Stamps, layout: Layout) -> Stamps:
    """Stamps as a clock in the data's time zone shows them, without the zone."""
    if layout.timezone is None or layout.stored != "utc" or stamps.dtype.kind != "M":
        return stamps
    return np.asarray(stamps + offsets_at(stamps, layout.timezone))


def offsets_at(moments: Stamps, zone: str) -> NDArray[np.timedelta64]:
    """How far the clocks of a zone are ahead of UTC at moments of UTC."""
    days, which = np.unique(moments.astype("datetime64[D]"), return_inverse=True)
    rules, which = zone_of(zone), which.reshape(moments.shape)
    begins, ends = (_look_up(np.minimum(days + after, _LAST_DAY), rules) for after in (0, 1))
    offsets, changing = begins[which], (begins != ends)[which]
    offsets[changing] = _look_up(moments[changing], rules)
    return offsets


def clock_changes(first: np.datetime64, last: np.datetime64, zone: str) -> Stamps:
    """The moments of UTC after the first and up to the last one at which the clocks of a zone are changed."""
    begin, end = np.array([first, last], dtype="datetime64[D]")
    days = np.arange(begin, end + 2)
    offsets, rules = offsets_at(days, zone), zone_of(zone)
    moments = []
    for number in np.flatnonzero(offsets[1:] != offsets[:-1]).tolist():
        minutes = np.arange(days[number], days[number + 1] + 1, np.timedelta64(1, "m"))
        moments.append(minutes[(_look_up(minutes, rules) != offsets[number]).argmax()])
    changes = np.array(moments, dtype="datetime64[us]")
    return changes[(changes > first) & (changes <= last)]


def to_utc(wall: Stamps, zone: str) -> Stamps:
    """Wall times of a zone in UTC, NaT where clocks skipped them; of a time that clocks repeat, the first is taken."""
    return wall - _offsets(wall, zone)[0]


def second_pass(wall: Stamps, zone: str) -> NDArray[np.timedelta64]:
    """The time after which each wall time of a zone repeats, 0 for those that occur once."""
    first, second = _offsets(wall, zone)
    return np.asarray(first - second)


def find_zone(wall: Stamps, repeated: NDArray[np.bool_]) -> str | None:
    """The time zone in which clocks repeat an hour that stands twice in the data, all of it, and skip none it has."""
    for zone in _LIKELY_ZONES:
        first, second = _offsets(wall, zone)
        if not np.isnat(first).any():
            twice = first > second
            if twice.any() and repeated[twice].all():
                return zone
    return None


def find_zone_of_offsets(moments: Stamps, offsets: NDArray[np.timedelta64]) -> str | None:
    """The time zone whose clocks have these offsets at moments of UTC."""
    return next((zone for zone in _LIKELY_ZONES if np.array_equal(offsets_at(moments, zone), offsets)), None)


def offset_name(minutes: int) -> str:
    """The zone of a fixed offset, as `zone_of` reads it: +01:00."""
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def _look_up(moments: Stamps, rules: tzinfo) -> NDArray[np.timedelta64]:
    """The offset of each moment of UTC, one after another."""
    each: list[datetime] = moments.astype("datetime64[us]").tolist()
    offsets = [moment.replace(tzinfo=UTC).astimezone(rules).utcoffset() for moment in each]
    return np.array(offsets, dtype="timedelta64[us]")


def _offsets(wall: Stamps, zone: str) -> tuple[Stamps, Stamps]:
    """The offset from UTC of each wall time, before and after clocks are set back; NaT where clocks skipped it."""
    hours, which = np.unique(wall.astype("datetime64[h]"), return_inverse=True)
    rules = ZoneInfo(zone)
    offsets = []
    for hour in hours.astype("datetime64[us]").tolist():
        early, late = (hour.replace(tzinfo=rules, fold=fold).utcoffset() for fold in (0, 1))
        offsets.append((None, None) if early < late else (early, late))
    first, second = np.array(offsets, dtype="timedelta64[us]").reshape(-1, 2)[which.reshape(-1)].T
    return first, second
