"""Stamps written as text: ISO dates and times, dates with slashes, dots or names of months, quarters, weeks, offsets.

The common ISO shapes are checked and read as whole arrays; everything else cell by cell. A day and a month that could
be either are never guessed: one row of the column, or the spacing of all of them, has to settle it.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer.frequency import infer_step
from rearview.data.step import Stamps

CHUNK = 100_000
_ISO = "0000-00-00 00:00:00.000000"
_ISO_LENGTHS = (10, 16, 19, 23, 26)
_ZONES = {
    "Z": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 60, "CET": 60, "CEST": 120, "MEZ": 60, "MESZ": 120, "EET": 120,
    "EEST": 180, "EST": -300, "EDT": -240, "MST": -420, "MDT": -360, "PST": -480, "PDT": -420,
}  # fmt: skip
"""Zones that go by one short name, in minutes east of UTC; CST and BST stand for several."""
_OFFSET = rf"(?:{'|'.join(_ZONES)}|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)"
_SUFFIX = re.compile(rf"(?<=\d:\d\d){_OFFSET}$|(?<=\d\.\d){_OFFSET}$|(?<=\.\d\d\d){_OFFSET}$")
_CLOCK = (
    r"(?:[T ]+(?P<hour>\d{1,2})[:.](?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    rf"(?:\s*(?P<half>[AaPp][Mm]))?(?:\s*(?P<offset>{_OFFSET}))?)?"
)
_STAMP = re.compile(r"(?P<a>\d{1,4})(?P<separator>[-/.])(?P<b>\d{1,2})(?:(?P=separator)(?P<c>\d{1,4}))?" + _CLOCK)
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
           "november", "december")  # fmt: skip
_FOREIGN_MONTHS = (
    "januar jänner janvier janv enero gennaio januari janeiro ene gen",
    "februar février févr febrero febbraio februari fevereiro fév fev",
    "märz mars marzo maart março mär mrt",
    "avril abril aprile avr abr",
    "mai mayo maggio mei maio mag",
    "juni juin junio giugno junho giu",
    "juli juillet julio luglio julho juil lug",
    "august août agosto augustus aoû ago",
    "septembre septiembre settembre setembro set",
    "oktober octobre octubre ottobre outubro okt ott out",
    "novembre noviembre novembro",
    "dezember décembre diciembre dicembre dezembro dez déc dic",
)
"""German, French, Spanish, Italian, Dutch and Portuguese, with short forms that differ from the English ones."""
_MONTH_NUMBERS = {
    name: number
    for number, (english, others) in enumerate(zip(_MONTHS, _FOREIGN_MONTHS, strict=True), start=1)
    for name in (english, english[:3], *others.split())
} | {"sept": 9}
_ENGLISH = {*_MONTHS, *(name[:3] for name in _MONTHS), "sept"}
_MONTH = rf"(?P<month>(?i:{'|'.join(sorted(_MONTH_NUMBERS, key=len, reverse=True))}))\.?"
_YEAR = r"(?P<year>\d{4}|\d{2})"
_WEEKDAY = re.compile(
    r"(?i:mon|tues?|wed|thu(?:rs)?|fri|sat|sun|mo|di|mi|do|fr|sa|so|lun|mer|jeu|ven|sam|dim|mardi)[a-zäéè]*[.,]*\s+(?=.*\d)"
)
"""The day of the week before a date, which the date has in it."""
_UNTIL = re.compile(
    r"(?<=\d)(?:\s+(?:[-–]|to|bis)\s+(?:[\d./-]+ +)?\d{1,2}:\d{2}(?::\d{2})?"
    r"|(?:\s+(?:[-–]|to|bis)\s+|/)(?:\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|\d{4}-\d\d-\d\d))$"
)
"""The end of a span of time, which goes by its beginning."""
_OTHERS = (
    *(
        re.compile(shape + _CLOCK)
        for shape in (
            rf"(?:(?P<day>\d{{1,2}})[-/. ]+)?{_MONTH}[-/' ]*{_YEAR}",
            rf"{_MONTH} (?P<day>\d{{1,2}}),? (?P<year>\d{{4}})",
            rf"(?P<year>\d{{4}})[-/ ]?{_MONTH}(?:[-/ ](?P<day>\d{{1,2}}))?",
        )
    ),
    re.compile(r"(?P<year>\d{4})[-/ ]?[Qq](?P<quarter>[1-4])"),
    re.compile(rf"[Qq](?P<quarter>[1-4])[-/' ]*{_YEAR}"),
    re.compile(rf"(?P<quarter>[1-4])\.?[Qq][-/' ]*{_YEAR}"),
    re.compile(r"(?P<year>\d{4})[-/ ]?(?i:w|wk|kw|week)[- ]?(?P<week>\d{1,2})(?:-(?P<weekday>[1-7]))?"),
    re.compile(r"(?i:w|wk|kw|week)[- ]?(?P<week>\d{1,2})[-/, ]+(?P<year>\d{4})"),
    re.compile(r"(?P<month>\d{1,2})[-/](?P<year>(?:1[89]|20|21)\d\d)"),
    re.compile(r"(?P<year>\d{4})[Mm](?P<month>\d{1,2})"),
    re.compile(r"(?i:fy) ?(?P<year>(?:1[89]|20|21)\d\d)"),
    re.compile(rf"(?i:fy)[-' ]?{_YEAR}[-/ ]*[Qq](?P<quarter>[1-4])"),
    re.compile(rf"[Qq](?P<quarter>[1-4])[-/ ]*(?i:fy)[-' ]?{_YEAR}"),
    re.compile(r"(?P<year>\d{4})[-/ ]?[HhSs](?P<semester>[12])"),
    re.compile(rf"[HhSs](?P<semester>[12])[-/' ]*{_YEAR}"),
)
"""Dates with the name of a month, quarters, ISO weeks, months by number, financial years and their quarters, halves."""
_TWO_YEARS = re.compile(r"(?P<name>(?i:fy|sy)?[ -]?)(?P<year>\d{4})(?P<separator> ?[-/–] ?)(?P<next>\d{4}|\d{2})")
_LEAST_SPANS = 3
"""Years such as 2001/02 from which they are no months: those would be 13 apart."""
_MARKS = (("year", "%Y"), ("month", "%b"), ("day", "%d"), ("quarter", "%q"), ("semester", "%k"), ("week", "%V"),
          ("weekday", "%u"), ("hour", "%H"), ("minute", "%M"), ("second", "%S"), ("fraction", "%f"),
          ("half", "%p"))  # fmt: skip
_CENTURY = 69
"""Years of two digits from here on are of the last century, as `strptime` has it."""
_REGULAR, _IRREGULAR = 0.9, 0.5
"""Shares of a regular grid above which stamps are taken to lie on it, and below which they are not."""
_WHOLE_NUMBER = re.compile(r"[+-]?\d+(?:\.0*)?")


@dataclass(frozen=True, slots=True)
class StampText:
    """The stamps in a column of text: wall times as written, and minutes east of UTC where an offset was written."""

    wall: Stamps
    offset: int | NDArray[np.int64] | None
    """One number where all rows have the same offset, else one for each row."""
    format: str
    """How the stamps were written, as `strftime` takes it, without the offset; %q is the quarter, %k the half of a
    year, and %o and %O are the next year with two and four digits."""
    settled: str | None = None
    """The cell that could be read in two ways, where the spacing of the stamps told which."""
    other: str | None = None
    """A cell whose day, month and year stand in another order than those of the first, where there is one."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why a column of text is no column of stamps, and the rows that show it, each with its reason."""

    rows: dict[int, str]
    kind: Literal["text", "ambiguous", "zones"] = "text"


def read_integers(cells: list[str]) -> NDArray[np.int64] | None:
    """The cells as whole numbers; None when one of them is none."""
    first = cells[0].strip() if cells else ""
    if not _WHOLE_NUMBER.fullmatch(first) or not all(map(_WHOLE_NUMBER.fullmatch, map(str.strip, cells))):
        return None
    numbers = [int(cell.strip().partition(".")[0]) for cell in cells]
    # Beyond 64 bits they are the digits of something else, as of an id.
    return np.array(numbers, dtype=np.int64) if all(abs(number) < 2**63 for number in numbers) else None


def moments_in(numbers: NDArray[np.int64]) -> tuple[Stamps, str] | None:
    """Numbers such as 20240131, 2024013117, 202401311745 or 20240131174500 as stamps, and how they are written.

    None unless every one of them is a moment of 1800 to 2199.
    """
    if len(numbers) == 0 or numbers.min() <= 0:
        return None
    length = len(str(numbers.max()))
    clock, shape = {8: (1, ""), 10: (100, "%H"), 12: (10_000, "%H%M"), 14: (1_000_000, "%H%M%S")}.get(length, (0, ""))
    dates = numbers // max(clock, 1)
    months = months_in(dates // 100) if clock else None
    if months is None:
        return None
    days = months + (dates % 100 - 1).astype("timedelta64[D]")
    if np.any(days.astype("datetime64[M]") != months.astype("datetime64[M]")):
        return None
    parts = numbers % clock * (1_000_000 // clock)
    hours, minutes, seconds = parts // 10_000, parts // 100 % 100, parts % 100
    late = (hours > 24) | (minutes > 59) | (seconds > 59) | ((hours == 24) & (parts > 240_000))
    if late.any():
        return None
    return days + (3600 * hours + 60 * minutes + seconds).astype("timedelta64[s]"), f"%Y%m%d{shape}"


def days_of_years_in(numbers: NDArray[np.int64]) -> Stamps | None:
    """Numbers such as 2024031 as days; None unless every one of them is the number of a day of 1800 to 2199."""
    if len(numbers) == 0 or numbers.min() < 1_800_001 or numbers.max() > 2_199_366:
        return None
    years = (numbers // 1000 - 1970).astype("datetime64[Y]")
    days = years.astype("datetime64[D]") + (numbers % 1000 - 1)
    return days.astype("datetime64[us]") if np.all(days.astype("datetime64[Y]") == years) else None


def months_in(numbers: NDArray[np.int64]) -> Stamps | None:
    """Numbers such as 202401 as first days of months; None unless every one of them is a month of 1800 to 2199."""
    if len(numbers) == 0 or numbers.min() < 180_001 or numbers.max() > 219_912:
        return None
    months = numbers % 100
    if not np.all((months >= 1) & (months <= 12)):
        return None
    return ((numbers // 100 - 1970) * 12 + months - 1).astype("datetime64[M]").astype("datetime64[us]")


def part_of_year(text: str) -> str | None:
    """What follows a year to name a month or a quarter of it: '-03' for March or 3, 'Q2' for Q2; None: neither."""
    word = text.strip().removesuffix(".").removesuffix(".0").lower()
    if re.fullmatch(r"q[1-4]", word):
        return word.upper()
    number = int(word) if re.fullmatch(r"\d{1,2}", word) else _MONTH_NUMBERS.get(word, 0)
    return f"-{number:02d}" if 1 <= number <= 12 else None


def read_stamps(
    cells: list[str], *, dayfirst: bool | None = None, date_format: str | None = None
) -> StampText | Unreadable:
    """The stamps in a column of text, or the rows that stand in the way."""
    if date_format is not None:
        return _read_as(cells, date_format)
    if (spans := _read_two_years(cells)) is not None:
        return spans
    parts = []
    suffix = _SUFFIX.search(cells[0])
    for start in range(0, len(cells), CHUNK):
        part = _read_iso(np.array(cells[start : start + CHUNK], dtype=np.str_), suffix[0] if suffix else "")
        if part is None:
            return _read_one_by_one(cells, dayfirst)
        parts.append(part)
    offset = _minutes(suffix[0]) if suffix else None
    longest = max(cells[:CHUNK], key=len)
    match = _STAMP.fullmatch(longest)
    assert match is not None
    return StampText(np.concatenate(parts), offset, _format(longest, match, "Ymd"))


def _read_two_years(cells: list[str]) -> StampText | None:
    """Years that begin in one and end in the next, such as 2001/02 or FY2001-2002; None where the cells are none."""
    matches = []
    for cell in cells:
        match = _TWO_YEARS.fullmatch(cell.strip())
        if match is None or (int(match["year"]) + 1) % 10 ** len(match["next"]) != int(match["next"]):
            return None
        matches.append(match)
    first = matches[0]
    months = all(match["name"] + match["separator"] in "-/" and "00" < match["next"] <= "12" for match in matches)
    if months and len({match["year"] for match in matches}) < _LEAST_SPANS:
        return None
    years = np.array([int(match["year"]) - 1970 for match in matches]).astype("datetime64[Y]")
    shape = f"{first['name']}%Y{first['separator']}{'%o' if len(first['next']) == 2 else '%O'}"
    return StampText(years.astype("datetime64[us]"), None, shape)


def _read_as(cells: list[str], shape: str) -> StampText | Unreadable:
    """Cells that are all written in one given way; an offset (%z) is taken off into its own array."""
    moments: list[datetime] = []
    bad: dict[int, str] = {}
    for row, cell in enumerate(cells):
        try:
            moments.append(datetime.strptime(cell.strip(), shape))
        except ValueError:
            bad[row] = f"{cell!r} is not written as {shape}"
    if bad:
        return Unreadable(bad)
    wall = np.array([moment.replace(tzinfo=None) for moment in moments], dtype="datetime64[us]")
    away = [moment.utcoffset() for moment in moments]
    if away[0] is None:
        return StampText(wall, None, shape)
    minutes = np.array([0 if one is None else one.total_seconds() // 60 for one in away], dtype=np.int64)
    plain = shape.replace("%z", "").strip()
    return StampText(wall, int(minutes[0]) if np.all(minutes == minutes[0]) else minutes, plain)


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


def _read_one_by_one(cells: list[str], dayfirst: bool | None) -> StampText | Unreadable:
    matches: list[re.Match[str]] = []
    bad: dict[int, str] = {}
    for row, cell in enumerate(cells):
        text = cell.strip()
        match = _match(text) or _match(_WEEKDAY.sub("", _UNTIL.sub("", text), count=1))
        if match is None:
            bad[row] = f"{cell!r} is not a stamp"
        else:
            matches.append(match)
    if not matches:
        return Unreadable(bad)
    offset = _find_offset(matches)
    order = _find_order([match for match in matches if match.re is _STAMP], dayfirst)
    wall = []
    good = (row for row in range(len(cells)) if row not in bad)
    for row, match in zip(list(good), matches, strict=True):
        try:
            wall.append(_moment(match, order.parts))
        except ValueError as error:
            bad[row] = f"{cells[row]!r} is not a stamp ({error})"
    if bad:
        return Unreadable(bad)
    if isinstance(offset, Unreadable):
        return offset
    settled = None
    if order.doubt is not None:
        row = next(row for row, match in enumerate(matches) if match[0] == order.doubt)
        if not order.settled:
            return Unreadable({row: order.why}, "ambiguous")
        settled = cells[row]
    longest = max(matches[:CHUNK], key=lambda match: len(match[0]))
    other = next((row for row, match in enumerate(matches) if _year_first(match) != _year_first(matches[0])), None)
    months = {(match.groupdict().get("month") or "may").lower() for match in matches}
    # Forecasts are not written in the language of foreign names.
    english = all(month.isdigit() or month in _ENGLISH for month in months)
    shape = _format(longest[0], longest, order.parts) if english else "%Y-%m-%d"
    return StampText(
        np.array(wall, dtype="datetime64[us]"), offset, shape, settled, None if other is None else cells[other]
    )


def _match(text: str) -> re.Match[str] | None:
    """The parts of a stamp in one of the shapes that are known."""
    return _STAMP.fullmatch(text) or next(filter(None, (shape.fullmatch(text) for shape in _OTHERS)), None)


def _find_offset(matches: list[re.Match[str]]) -> int | NDArray[np.int64] | Unreadable | None:
    """The offset of all rows, or those of each; unreadable where only some of them have one."""
    offsets = [_minutes(match.groupdict().get("offset")) for match in matches]
    if len(set(offsets)) == 1:
        return offsets[0]
    if None not in offsets:
        return np.array(offsets, dtype=np.int64)
    # The rows of the smaller kind are named, or those that differ from the first.
    bare = sum(offset is None for offset in offsets)
    wrong_is_bare = offsets[0] is not None if 2 * bare == len(offsets) else 2 * bare < len(offsets)
    rows = [row for row, offset in enumerate(offsets) if (offset is None) == wrong_is_bare]
    right = next(row for row in range(len(offsets)) if (offsets[row] is None) != wrong_is_bare)
    words = ["no offset" if offsets[row] is None else matches[row]["offset"] for row in range(len(offsets))]
    where = "the first row has" if right == 0 else "others have"
    reasons = {
        row: f"{matches[row][0]!r} has {words[row]} where {where} {words[right]}: time zones are not guessed at"
        for row in rows
    }
    return Unreadable(reasons, "zones")


def _minutes(offset: str | None) -> int | None:
    if offset is None:
        return None
    if offset in _ZONES:
        return _ZONES[offset]
    digits = offset[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:] or 0)
    return -minutes if offset[0] == "-" else minutes


@dataclass(frozen=True, slots=True)
class _Order:
    """In which order day, month and year stand, and the cell that leaves it open."""

    parts: str
    """Letters as `strftime` has them: y is a year of two digits, Y one of four."""
    doubt: str | None = None
    why: str = ""
    settled: bool = False
    """The spacing of the stamps has only one reading."""


def _find_order(matches: list[re.Match[str]], dayfirst: bool | None) -> _Order:
    """The order of the parts that the whole column, or else its spacing, allows."""
    doubtful = [match for match in matches if not _year_first(match)]
    mixed = len(doubtful) < len(matches)
    if not doubtful or (mixed and any(len(match["c"] or "") != 4 for match in doubtful)):
        return _Order("Ymd")
    year = "Y" if 2 * sum(len(match["c"] or "") == 2 for match in doubtful) < len(doubtful) else "y"
    if dayfirst is not None:
        return _Order(f"dm{year}" if dayfirst else f"md{year}")
    # Where years have two digits, the first number may be one too.
    orders = (f"dm{year}", f"md{year}", *(("ymd",) if year == "y" else ()))
    readings = {order: _read_all(matches, order) for order in orders}
    valid = {order: moments for order, moments in readings.items() if moments is not None}
    if len(valid) < 2:
        # Where no reading holds for all rows, most of them tell, and the others are named when they are read.
        month_first = sum(int(match["b"]) > 12 for match in doubtful) > sum(int(match["a"]) > 12 for match in doubtful)
        return _Order(next(iter(valid), orders[month_first]))
    match = next((one for row, one in enumerate(matches) if len({days[row] for days in valid.values()}) > 1), None)
    if match is None:
        return _Order(orders[0])
    shares = {order: _regularity(moments) for order, moments in valid.items()}
    regular = [order for order, share in shares.items() if share >= _REGULAR]
    if len(regular) == 1 and max(share for order, share in shares.items() if order not in regular) < _IRREGULAR:
        return _Order(regular[0], match[0], settled=True)
    shown = " or as ".join(dict.fromkeys(f"{_moment(match, order):%Y-%m-%d}" for order in valid))
    return _Order(orders[0], match[0], f"{match[0]!r} can be read as {shown}, and no row of the column settles it")


def _year_first(match: re.Match[str]) -> bool:
    """Whether a date in numbers begins with a year of four digits, so that its month comes next."""
    return match.re is _STAMP and len(match["a"]) == 4


def _read_all(matches: list[re.Match[str]], order: str) -> list[datetime] | None:
    """All stamps in an order of day, month and year; None where one of them does not exist."""
    try:
        return [_moment(match, order) for match in matches]
    except ValueError:
        return None


def _regularity(moments: list[datetime]) -> float:
    """The share of a regular grid that the stamps fill, 1 where there are no gaps; 0 where there is no such grid."""
    stamps = np.unique(np.array(moments, dtype="datetime64[us]"))
    try:
        step = infer_step(stamps, np.array([0, len(stamps)]))
    except InputError:
        return 0.0
    return len(stamps) / (int(step.distance(stamps[0], stamps[-1])) + 1) if len(stamps) > 2 else 0.0


def _moment(match: re.Match[str], order: str) -> datetime:
    day, clock = (_day_in_numbers(match, order), match) if match.re is _STAMP else (_day_in_words(match), None)
    if clock is None and "hour" in match.re.groupindex:
        clock = match
    if clock is None or not clock["hour"]:
        return day
    hour = int(clock["hour"])
    if clock["half"]:
        if not 1 <= hour <= 12:
            raise ValueError("the hour must be in 1..12 before AM or PM")
        hour = hour % 12 + (12 if clock["half"].lower() == "pm" else 0)
    fraction = (clock["fraction"] or "0").ljust(6, "0")[:6]
    minute, second = int(clock["minute"]), int(clock["second"] or 0)
    if hour > 24 or minute > 59 or second > 59 or (hour == 24 and (minute or second)):
        raise ValueError("the time of day is out of range")
    return day + timedelta(hours=hour, minutes=minute, seconds=second, microseconds=int(fraction))


def _day_in_numbers(match: re.Match[str], order: str) -> datetime:
    order = "Ymd" if _year_first(match) else order
    parts = dict(zip(order, (match["a"], match["b"], match["c"]), strict=True))
    digits = parts.get("Y") or parts.get("y")
    if not digits:
        raise ValueError("the year is missing")
    if len(digits) != (4 if "Y" in order else 2):
        raise ValueError("day, month and year stand otherwise than in other rows")
    return datetime(_year(digits), int(parts["m"]), int(parts["d"] or 1))


def _year(digits: str) -> int:
    """The year that four or two digits stand for."""
    return int(digits) + (0 if len(digits) == 4 else 1900 if int(digits) >= _CENTURY else 2000)


def _day_in_words(match: re.Match[str]) -> datetime:
    """The first day of a named month, quarter, half of a year or week, or the day that is written with them."""
    parts, year = match.groupdict(), _year(match["year"])
    if parts.get("week"):
        return datetime.fromisocalendar(year, int(match["week"]), int(parts.get("weekday") or 1))
    if parts.get("semester"):
        return datetime(year, 6 * int(match["semester"]) - 5, 1)
    if parts.get("quarter"):
        return datetime(year, 3 * int(match["quarter"]) - 2, 1)
    month = parts.get("month") or "1"
    number = int(month) if month.isdigit() else _MONTH_NUMBERS[month.lower()]
    return datetime(year, number, int(parts.get("day") or 1))


def _format(cell: str, match: re.Match[str], order: str) -> str:
    """How `cell` was written, as `strftime` takes it."""
    parts = match.groupdict()
    marks = dict(_MARKS)
    if match.re is _STAMP:
        marks |= dict(zip("abc", (f"%{part}" for part in ("Ymd" if _year_first(match) else order)), strict=True))
    if parts.get("week"):
        marks["year"] = "%G"
    elif len(parts.get("year") or "") == 2:
        marks["year"] = "%y"
    month = (parts.get("month") or "").lower()
    if month.isdigit():
        marks["month"] = "%m"
    elif len(month) > 3:
        marks["month"] = "%B"
    if parts.get("half"):
        marks["hour"] = "%I"
    shape, end = "", 0
    for name in sorted((name for name in marks if parts.get(name)), key=match.start):
        shape += cell[end : match.start(name)] + marks[name]
        end = match.end(name)
    # What follows the last part is an offset, which is told apart, or a letter of the shape itself.
    return shape + (cell[end : match.start("offset")].rstrip() if parts.get("offset") else cell[end:])
