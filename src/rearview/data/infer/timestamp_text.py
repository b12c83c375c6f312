"""Stamps written as text: ISO dates and times, dates with slashes or dots, offsets, integers.

The common ISO shapes are checked and read as whole arrays; everything else cell by cell. A day and a month that could
be either are never guessed: one row of the column has to settle it.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rearview.data.step import Stamps

CHUNK = 100_000
_ISO = "0000-00-00 00:00:00.000000"
_ISO_LENGTHS = (10, 16, 19, 23, 26)
_OFFSET = r"(?:Z|UTC|[+-]\d{2}:?\d{2}|[+-]\d{2})"
_SUFFIX = re.compile(rf"(?<=\d:\d\d){_OFFSET}$|(?<=\d\.\d){_OFFSET}$|(?<=\.\d\d\d){_OFFSET}$")
_STAMP = re.compile(
    r"(?P<a>\d{1,4})(?P<separator>[-/.])(?P<b>\d{1,2})(?:(?P=separator)(?P<c>\d{1,4}))?"
    r"(?:[T ]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    rf"(?:\s*(?P<half>[AaPp][Mm]))?(?:\s*(?P<offset>{_OFFSET}))?)?"
)
_WHOLE_NUMBER = re.compile(r"[+-]?\d+(?:\.0*)?")


@dataclass(frozen=True, slots=True)
class StampText:
    """The stamps in a column of text: wall times as written, and minutes east of UTC where an offset was written."""

    wall: Stamps
    offset: int | NDArray[np.int64] | None
    """One number where all rows have the same offset, else one for each row."""
    format: str
    """How the stamps were written, as `strftime` takes it, without the offset."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why a column of text is no column of stamps, and the row that shows it."""

    row: int
    why: str
    kind: Literal["text", "ambiguous", "zones"] = "text"


def read_integers(cells: list[str]) -> NDArray[np.int64] | None:
    """The cells as whole numbers; None when one of them is none."""
    first = cells[0].strip() if cells else ""
    if not _WHOLE_NUMBER.fullmatch(first) or not all(map(_WHOLE_NUMBER.fullmatch, map(str.strip, cells))):
        return None
    return np.array([int(cell.strip().partition(".")[0]) for cell in cells], dtype=np.int64)


def dates_in(numbers: NDArray[np.int64]) -> Stamps | None:
    """Numbers such as 20240131 as days; None unless every one of them is a valid day of 1800 to 2199."""
    if len(numbers) == 0 or numbers.min() < 18_000_101 or numbers.max() > 21_991_231:
        return None
    months = (numbers // 10_000 - 1970) * 12 + numbers // 100 % 100 - 1
    first = months.astype("datetime64[M]")
    days = first.astype("datetime64[D]") + (numbers % 100 - 1)
    valid = (numbers // 100 % 100 >= 1) & (numbers // 100 % 100 <= 12) & (days.astype("datetime64[M]") == first)
    return days.astype("datetime64[us]") if np.all(valid & (numbers % 100 >= 1)) else None


def read_stamps(cells: list[str]) -> StampText | Unreadable:
    """The stamps in a column of text, or the first row that stands in the way."""
    parts = []
    suffix = _SUFFIX.search(cells[0])
    for start in range(0, len(cells), CHUNK):
        part = _read_iso(np.array(cells[start : start + CHUNK], dtype=np.str_), suffix[0] if suffix else "")
        if part is None:
            return _read_one_by_one(cells)
        parts.append(part)
    offset = _minutes(suffix[0]) if suffix else None
    return StampText(np.concatenate(parts), offset, _format(max(cells[:CHUNK], key=len), "ymd"))


def _read_iso(cells: NDArray[np.str_], suffix: str) -> Stamps | None:
    """Cells that are all one ISO shape followed by one and the same offset; None when any is not."""
    width = cells.dtype.itemsize // 4
    length = width - len(suffix)
    if length not in _ISO_LENGTHS:
        return None
    codes = np.ascontiguousarray(cells).view(np.uint32).reshape(len(cells), width)
    for position, mark in enumerate(_ISO[:length] + suffix):
        code = codes[:, position]
        if position < length and mark == "0":
            fits = (code >= ord("0")) & (code <= ord("9"))
        elif position < length and mark == " ":
            fits = (code == ord(" ")) | (code == ord("T"))
        else:
            fits = code == ord(mark)
        if not fits.all():
            return None
    try:
        return cells.astype(f"U{length}").astype("datetime64[us]")
    except ValueError:
        return None


def _read_one_by_one(cells: list[str]) -> StampText | Unreadable:
    matches: list[re.Match[str]] = []
    for row, cell in enumerate(cells):
        match = _STAMP.fullmatch(cell.strip())
        if match is None:
            return Unreadable(row, f"{cell!r} is not a stamp")
        matches.append(match)
    offset = _find_offset(matches)
    if isinstance(offset, Unreadable):
        return offset
    order = _find_order(matches)
    if isinstance(order, Unreadable):
        return order
    wall = []
    for row, match in enumerate(matches):
        try:
            wall.append(_moment(match, order))
        except ValueError as error:
            return Unreadable(row, f"{cells[row]!r} is not a stamp ({error})")
    shape = _format(max(cells[:CHUNK], key=len).strip(), order)
    return StampText(np.array(wall, dtype="datetime64[us]"), offset, shape)


def _find_offset(matches: list[re.Match[str]]) -> int | NDArray[np.int64] | Unreadable | None:
    """The offset of all rows, or those of each; unreadable where only some of them have one."""
    offsets = [_minutes(match["offset"]) for match in matches]
    if len(set(offsets)) == 1:
        return offsets[0]
    if None not in offsets:
        return np.array(offsets, dtype=np.int64)
    row = next(row for row, offset in enumerate(offsets) if (offset is None) != (offsets[0] is None))
    words = [matches[place]["offset"] or "no offset" for place in (0, row)]
    why = f"{matches[row][0]!r} has {words[1]} where the first row has {words[0]}: time zones are not guessed at"
    return Unreadable(row, why, "zones")


def _minutes(offset: str | None) -> int | None:
    if offset is None:
        return None
    if offset in ("Z", "UTC"):
        return 0
    digits = offset[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:] or 0)
    return -minutes if offset[0] == "-" else minutes


def _find_order(matches: list[re.Match[str]]) -> str | Unreadable:
    """'ymd', 'dmy' or 'mdy', whichever the whole column allows; unreadable when it allows two."""
    if len(matches[0]["a"]) == 4:
        return "ymd"
    day_first = any(int(match["a"]) > 12 for match in matches)
    month_first = any(int(match["b"]) > 12 for match in matches)
    if day_first or month_first:
        return "dmy" if day_first else "mdy"
    row = next((row for row, match in enumerate(matches) if int(match["a"]) != int(match["b"])), None)
    try:
        if row is None:
            return "dmy"
        readings = [_moment(matches[row], order).strftime("%Y-%m-%d") for order in ("dmy", "mdy")]
    except ValueError:
        # Neither reading holds (no year, say): the cell is named when it is read.
        return "dmy"
    why = f"{matches[row][0]!r} can be read as {readings[0]} or as {readings[1]}, and no row of the column settles it"
    return Unreadable(row, why, "ambiguous")


def _moment(match: re.Match[str], order: str) -> datetime:
    parts = dict(zip(order, (match["a"], match["b"], match["c"]), strict=True))
    if len(parts["y"] or "") != 4:
        raise ValueError("the year needs four digits")
    hour = int(match["hour"] or 0)
    if match["half"]:
        if not 1 <= hour <= 12:
            raise ValueError("the hour must be in 1..12 before AM or PM")
        hour = hour % 12 + (12 if match["half"].lower() == "pm" else 0)
    moment = datetime(int(parts["y"]), int(parts["m"]), int(parts["d"] or 1))
    fraction = (match["fraction"] or "0").ljust(6, "0")[:6]
    minute, second = int(match["minute"] or 0), int(match["second"] or 0)
    if hour > 24 or minute > 59 or second > 59 or (hour == 24 and (minute or second)):
        raise ValueError("the time of day is out of range")
    return moment + timedelta(hours=hour, minutes=minute, seconds=second, microseconds=int(fraction))


def _format(cell: str, order: str) -> str:
    """How `cell` was written, as `strftime` takes it."""
    match = _STAMP.fullmatch(cell)
    assert match is not None
    marks = {"y": "%Y", "m": "%m", "d": "%d"}
    parts = zip(order, match.group("a", "b", "c"), strict=True)
    shape = match["separator"].join(marks[part] for part, text in parts if text)
    if match["hour"]:
        shape += cell[match.start("hour") - 1]
        shape += "%I:%M" if match["half"] else "%H:%M"
        shape += ":%S" if match["second"] else ""
        shape += ".%f" if match["fraction"] else ""
        shape += " %p" if match["half"] else ""
    return shape
