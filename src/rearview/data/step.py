"""The step of a series: how far apart two neighbouring stamps are, and the calendar arithmetic that follows from it.

Seconds to weeks are fixed lengths. Months, quarters and years are not: a step from a month end leads to a month end, a
step from another day keeps the day (31 January, 28 February, 31 March), and business months (BMS, BME, BQS, ...) stand
on the first or the last business day. Business days leave out Saturday and Sunday.
Integer time counts. Stamps are datetime64[us] or int64 throughout.
"""

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import SettingsError, did_you_mean

Stamps = NDArray[Any]
"""datetime64[us], or int64 where time is integer."""
StampLike: TypeAlias = Stamps | np.generic
"""One stamp or an array of them."""

MICROSECONDS = {
    "us": 1,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "D": 86_400_000_000,
    "W": 604_800_000_000,
}
MONTHS = {
    f"{business}{size}{side}": months
    for business in ("", "B")
    for size, months in {"M": 1, "Q": 3, "Y": 12}.items()
    for side in "SE"
}
UNITS = (*MICROSECONDS, "B", *MONTHS, "int")
SUB_DAILY = ("us", "s", "min", "h")

_ALIASES = {unit: unit for unit in UNITS if unit != "int"} | {
    "U": "us", "S": "s", "T": "min", "H": "h", "d": "D", "w": "W", "b": "B", "M": "ME", "Q": "QE", "Y": "YE", "A": "YE",
    "BM": "BME", "BQ": "BQE", "BY": "BYE", "BA": "BYE", "BAS": "BYS",
}  # fmt: skip
_THOUSANDS = {"ms": "us", "L": "us"}
_ACCEPTED = (
    "us, ms, s, min, h, D, B, W, MS, ME, QS, QE, YS, YE, those six on business days (BMS, BME, ...), with a count in "
    "front as in 15min, or a whole number"
)
_ANCHORED = re.compile(r"(\d*)\s*([A-Za-z]+)(?:-[A-Za-z]{3})?")
_LONGEST_SEASON = 100_000
_LONGEST_MONTH = 31
_TELLING_ROWS = 12
"""Stamps among which one is not clamped to the end of its month, unless all are: a year of months."""

_DAY = MICROSECONDS["D"]
_CYCLES = {
    "us": (1_000_000, 60_000_000),
    "s": (60_000_000, 3_600_000_000),
    "min": (_DAY, 7 * _DAY),
    "h": (_DAY, 7 * _DAY),
    "D": (7 * _DAY, 365 * _DAY),
    "W": (52 * 7 * _DAY,),
}
"""The cycles looked for at each unit, in microseconds; the first that is a whole number of steps is the season."""
_WORDS = {
    "us": "microsecond", "s": "second", "min": "minute", "h": "hour", "D": "day", "B": "business day", "W": "week",
    "MS": "month", "ME": "month end", "QS": "quarter", "QE": "quarter end", "YS": "year", "YE": "year end",
    "BMS": "business month start", "BME": "business month end", "BQS": "business quarter start",
    "BQE": "business quarter end", "BYS": "business year start", "BYE": "business year end",
}  # fmt: skip
_NOUNS = {1: "month", 3: "quarter", 12: "year"}

_MOST_DIGITS = 8
"""Of the number before a unit: 99,999,999 weeks are two million years."""


@dataclass(frozen=True, slots=True)
class Step:
    """`count` times `unit` from one stamp to the next; `str(step)` is the alias that `Step.parse` reads back."""

    count: int
    unit: str

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise SettingsError(f"a step has no unit {self.unit!r}; the units are {', '.join(UNITS)}.")
        if self.count < 1:
            raise SettingsError(f"a step counts {self.count} {self.unit}; the count must be 1 or more.")

    @classmethod
    def parse(cls, text: str, option: str = "freq") -> "Step":
        """The step an alias such as '15min', 'h', 'B', 'MS' or '1' (integer time) stands for; old spellings too."""
        text = text.strip()
        match = _ANCHORED.fullmatch(text)
        digits = text if text.isdigit() and text.isascii() else match[1] if match else ""
        if len(digits or "") > _MOST_DIGITS:
            raise SettingsError(
                f"{option} {text[:40]!r} is a step longer than any data; it can have {_MOST_DIGITS} digits."
            )
        if text.isdigit() and text.isascii():
            return cls(int(text), "int")
        count = int(match[1] or 1) if match else 1
        word = match[2] if match else ""
        if word in _ALIASES:
            return cls(count, _ALIASES[word]).simplest()
        if word in _THOUSANDS:
            return cls(count * 1000, _THOUSANDS[word]).simplest()
        near = did_you_mean(word, [*_ALIASES, *_THOUSANDS])
        raise SettingsError(f"{option} {text!r} is not a step that rearview knows.{near} Accepted are {_ACCEPTED}.")

    def simplest(self) -> "Step":
        """The same step in the largest unit that holds it whole: 60 min is 1 h, 7 D is 1 W, 3 MS is 1 QS."""
        if self.unit in MICROSECONDS:
            length = self.count * MICROSECONDS[self.unit]
            unit = next(u for u in reversed(MICROSECONDS) if length % MICROSECONDS[u] == 0)
            return Step(length // MICROSECONDS[unit], unit)
        if self.unit in MONTHS:
            months = self.count * MONTHS[self.unit]
            size = next(m for m in (12, 3, 1) if months % m == 0)
            business = "B" if self.business_month else ""
            return Step(months // size, business + {12: "Y", 3: "Q", 1: "M"}[size] + self.unit[-1])
        return self

    def __str__(self) -> str:
        if self.unit == "int":
            return str(self.count)
        if self.unit == "us" and self.count % 1000 == 0:
            return f"{self.count // 1000 if self.count > 1000 else ''}ms"
        return f"{self.count if self.count > 1 else ''}{self.unit}"

    def words(self) -> str:
        """The step as a person says it: 'every 15 minutes', 'every month', 'integer steps of 1'."""
        if self.unit == "int":
            return f"integer steps of {self.count}"
        count, word = self.count, _WORDS[self.unit]
        if self.unit == "us" and self.count % 1000 == 0:
            count, word = self.count // 1000, "millisecond"
        if count == 1:
            return f"every {word}"
        noun = _NOUNS[MONTHS[self.unit]] if self.unit in MONTHS else word
        return f"every {count} {noun}s" if noun == word else f"every {count} {noun}s, at {word}s"

    @property
    def noun(self) -> str:
        """What one step is called: hour, day, month; the same wherever in a month or year it is stamped."""
        return _NOUNS[MONTHS[self.unit]] if self.unit in MONTHS else self.words().removeprefix("every ")

    @property
    def at_end(self) -> bool:
        """True where the stamp of a step is its last day, or its last business day."""
        return self.unit in MONTHS and self.unit[-1] == "E"

    @property
    def business_month(self) -> bool:
        """True where months, quarters or years are stamped on their first or last business day."""
        return self.unit in MONTHS and self.unit[0] == "B"

    @property
    def sub_daily(self) -> bool:
        """True where a day holds several steps, so that a time zone's clock changes matter."""
        return self.unit in SUB_DAILY

    @property
    def season(self) -> int:
        """The period, in steps, that a seasonal forecast repeats by default; 1 where there is none."""
        return self.seasons[0]

    @property
    def seasons(self) -> tuple[int, ...]:
        """Candidate periods in steps, ascending: (24, 168) for hours, (7, 365) for days, (1,) where there is none."""
        if self.unit in MICROSECONDS:
            length = self.count * MICROSECONDS[self.unit]
            cycles = _CYCLES[self.unit]
        elif self.unit in MONTHS:
            length, cycles = self.count * MONTHS[self.unit], (12,)
        elif self.unit == "B":
            length, cycles = self.count, (5, 260)
        else:
            return (1,)
        whole = (cycle // length for cycle in cycles if cycle % length == 0)
        return tuple(period for period in whole if 1 < period <= _LONGEST_SEASON) or (1,)

    def shift(self, start: StampLike, steps: NDArray[np.int64] | int) -> Stamps:
        """The stamps `steps` whole steps after `start`; both may be arrays and broadcast."""
        start, moved = np.asarray(start), np.asarray(steps, dtype=np.int64) * self.count
        if self.unit == "int":
            return np.asarray(start + moved)
        if self.unit in MICROSECONDS:
            return np.asarray(start + moved * np.timedelta64(MICROSECONDS[self.unit], "us"))
        day = start.astype("datetime64[D]")
        if self.unit == "B":
            moved_day = np.busday_offset(day, moved, roll="forward")
        else:
            moved_day = _in_month(day, moved * MONTHS[self.unit], at_end=self.at_end, business=self.business_month)
        return np.asarray(moved_day.astype("datetime64[us]") + (start - day))

    def grid(self, start: StampLike, n: int, anchor: StampLike | None = None) -> Stamps:
        """`n` stamps, the first of them `start`; months keep the day of `anchor` where `start` is a step of it."""
        begin = np.asarray(start)[..., None]
        if anchor is None:
            return self.shift(begin, np.arange(n))
        anchor = np.asarray(anchor)[..., None]
        origin = np.where(self.on_grid(anchor, begin), anchor, begin)
        return self.shift(origin, self.distance(origin, begin) + np.arange(n))

    def after(self, last: StampLike, n: int, anchor: StampLike | None = None) -> Stamps:
        """The `n` stamps that follow each of `last`; months keep the day of `anchor`, or as it stands in `last`."""
        return np.asarray(self.grid(last, n + 1, anchor)[..., 1:])

    def anchors(self, stamps: Stamps, begin: NDArray[np.int64], end: NDArray[np.int64]) -> Stamps:
        """[series]: the stamp that all of a series, rows begin[s] to end[s] (exclusive), are whole steps from.

        It is the first one; where months are counted, one that tells the day: 28 February may stand for the 30th.
        """
        if self.unit not in MONTHS or self.business_month:
            return np.asarray(stamps[begin])
        rows = np.minimum(begin[:, None] + np.arange(_TELLING_ROWS), end[:, None] - 1)
        days, at_end = _days_of_month(stamps[rows])
        telling = np.where(at_end, days, _LONGEST_MONTH + 1).argmax(axis=1)
        return np.asarray(stamps[np.take_along_axis(rows, telling[:, None], axis=1)[:, 0]])

    def tells_day(self, anchors: Stamps) -> NDArray[np.bool_]:
        """Whether each anchor tells the day of the month that its steps keep, which matters where months are counted.

        The end of a month of fewer than 31 days does not: it may stand for a later day.
        """
        if self.unit not in MONTHS or self.at_end or self.business_month:
            return np.ones(len(anchors), dtype=np.bool_)
        days, at_end = _days_of_month(anchors)
        return np.asarray(~at_end | (days == _LONGEST_MONTH))

    def distance(self, start: StampLike, stamps: StampLike) -> NDArray[np.int64]:
        """Whole steps from `start` to each stamp, rounded down for a stamp off the grid (see `on_grid`)."""
        start, stamps = np.asarray(start), np.asarray(stamps)
        if self.unit == "int":
            return np.asarray((stamps - start) // self.count, dtype=np.int64)
        if self.unit in MICROSECONDS:
            length = self.count * MICROSECONDS[self.unit]
            return np.asarray((stamps - start).astype(np.int64) // length, dtype=np.int64)
        if self.unit == "B":
            days = np.busday_count(start.astype("datetime64[D]"), stamps.astype("datetime64[D]"))
            return np.asarray(days // self.count, dtype=np.int64)
        months = stamps.astype("datetime64[M]").astype(np.int64) - start.astype("datetime64[M]").astype(np.int64)
        return np.asarray(months // (self.count * MONTHS[self.unit]), dtype=np.int64)

    def floor(self, stamps: Stamps) -> Stamps:
        """The stamp that begins (month ends: ends) the step in which each stamp lies; weeks begin on Monday."""
        if self.unit == "int":
            return np.asarray(stamps // self.count * self.count)
        origin = np.datetime64("1970-01-05" if self.unit == "W" else "1970-01-01", "us")
        first = origin
        if self.at_end:
            first = (origin.astype("datetime64[M]") + self.count * MONTHS[self.unit] - 1).astype("datetime64[us]")
        return self.shift(first, self.distance(origin, stamps))

    def on_grid(self, start: StampLike, stamps: StampLike) -> NDArray[np.bool_]:
        """True for each stamp that a whole number of steps from `start` reaches exactly."""
        return np.asarray(self.shift(start, self.distance(start, stamps)) == np.asarray(stamps))


def _days_of_month(stamps: Stamps) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The day of the month of each stamp, counted from 1, and whether it is the last of its month."""
    days = stamps.astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    at_end = days + 1 == (months + 1).astype("datetime64[D]")
    return (days - months.astype("datetime64[D]")).astype(np.int64) + 1, np.asarray(at_end)


def _in_month(day: Stamps, months: NDArray[np.int64], *, at_end: bool, business: bool) -> Stamps:
    """The same day `months` later, clamped to the month's length; that month's last day; or its first or last
    business day."""
    month = day.astype("datetime64[M]")
    target = month + months
    first = target.astype("datetime64[D]")
    last = (target + 1).astype("datetime64[D]") - 1
    if business:
        return np.busday_offset(last if at_end else first, 0, roll="backward" if at_end else "forward")
    return np.asarray(last if at_end else np.minimum(first + (day - month.astype("datetime64[D]")), last))
