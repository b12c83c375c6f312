"""Time zones: wall time into UTC and back, and the zone that a repeated hour in autumn shows."""

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from rearview.data.panel import Layout
from rearview.data.step import Stamps

_LIKELY_ZONES = ("Europe/Berlin", "Europe/London", "Europe/Athens", "America/New_York")
"""A zone for each rule by which clocks change in Europe and North America."""


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
    zone = zone_of(layout.timezone)
    moments: list[datetime] = stamps.astype("datetime64[us]").tolist()
    local = [moment.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None) for moment in moments]
    return np.array(local, dtype="datetime64[us]").reshape(stamps.shape)


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
