"""Public holidays of countries and their parts as inputs: known by date, in the past and in the future alike.

The column `ANY` counts the holidays of a row, one column for each holiday that the rows have counts it by its name. So
a holiday that was never seen still counts as one. A row of a day or less has the holidays of its date; rows of a week
or a month count the days they hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError, SettingsError, did_you_mean
from rearview.data.infer.wall_time import to_wall_time
from rearview.data.panel import Finding, Layout
from rearview.data.step import MICROSECONDS, MONTHS, Stamps, Step

ANY = "public holidays"
NAMED = "holiday: "
LANGUAGE = "en_US"
_SUNDAY = 6


def is_holiday(column: str) -> bool:
    """Whether a column of a panel was made here."""
    return column == ANY or column.startswith(NAMED)


def check_regions(regions: Sequence[str]) -> None:
    """Refuse what is no country, or no part of one."""
    import holidays

    for region in regions:
        country, _, part = region.partition("-")
        try:
            parts = holidays.country_holidays(country).subdivisions
        except NotImplementedError:
            countries = sorted(holidays.list_supported_countries(include_aliases=False))
            raise SettingsError(
                f"holidays is {region!r}, of which no holidays are known; give the code of a country, such as DE or "
                f"US, or of a part of one, such as DE-BY.{did_you_mean(country, countries)}"
            ) from None
        if part and part not in parts:
            known = f"; its parts are {', '.join(parts)}" if parts else ", whose holidays are the same everywhere"
            raise SettingsError(f"holidays is {region!r}, but {country} has no part {part!r}{known}.")


@dataclass(frozen=True, slots=True)
class HolidayColumns:
    """Columns of a panel that count holidays."""

    names: tuple[str, ...]
    cells: NDArray[np.float64]
    """[row, column]."""

    @classmethod
    def of(
        cls, regions: Sequence[str], stamps: Stamps, step: Step, layout: Layout, trained: Sequence[str] = ()
    ) -> "HolidayColumns":
        """The columns of all holidays that the rows have, or of those that a model was trained on."""
        if not regions:
            return cls((), np.empty((len(stamps), 0)))
        begin, end = _days(stamps, step, layout)
        days_of = _find_days(tuple(regions), begin.min().astype(object).year, end.max().astype(object).year)
        wanted = [name for name in trained if is_holiday(name)]
        names = wanted or [ANY, *(f"{NAMED}{name}" for name in days_of if name != ANY)]
        cells = np.zeros((len(stamps), len(names)))
        for place, name in enumerate(names):
            counts = sorted(days_of.get(name.removeprefix(NAMED), {}).items())
            days = np.array([day for day, _ in counts], dtype="datetime64[D]")
            total = np.concatenate([[0.0], np.cumsum([count for _, count in counts])])
            cells[:, place] = total[np.searchsorted(days, end)] - total[np.searchsorted(days, begin)]
        if wanted:
            return cls(tuple(names), cells)
        seen = cells.any(axis=0) | (np.array(names) == ANY)
        return cls(tuple(np.array(names)[seen].tolist()), cells[:, seen])

    def finding(self, regions: Sequence[str], step: Step) -> Finding:
        """A finding on the columns that were added."""
        of = f"Public holidays of {', '.join(regions)}"
        what = f"{len(self.names) - 1} by name" if len(self.names) > 1 else "none within the rows"
        how = "" if step.sub_daily or (step.count, step.unit) in ((1, "D"), (1, "B")) else ", counted by their days"
        return Finding("inferred", "holidays", 0, f"{of} are inputs known in the future: {what}{how}.")


def _days(stamps: Stamps, step: Step, layout: Layout) -> tuple[Stamps, Stamps]:
    """First day, and day after the last, of the step that each stamp stands for."""
    if stamps.dtype.kind != "M" or step.unit == "int":
        raise InputError(
            f"{layout.source}: holidays need dates, but its stamps are whole numbers; leave holidays (--holidays) out."
        )
    if MONTHS.get(step.unit, 1) * (step.count if step.unit in MONTHS else 1) > 1:
        raise InputError(
            f"{layout.source} has a row {step.words()}, and such rows have nearly the same holidays every year; leave "
            "holidays (--holidays) out, or bring rows of a month or less."
        )
    day = to_wall_time(stamps, layout).astype("datetime64[D]")
    if step.sub_daily or step.unit == "B":
        return day, day + 1
    if step.business_month:
        month = day.astype("datetime64[M]")
        return month.astype("datetime64[D]"), (month + 1).astype("datetime64[D]")
    if step.unit == "ME":
        return step.shift(stamps, -1).astype("datetime64[D]") + 1, day + 1
    if step.unit == "MS":
        return day, step.shift(stamps, 1).astype("datetime64[D]")
    length = step.count * MICROSECONDS[step.unit] // MICROSECONDS["D"]
    if step.unit == "W" and len(day) and (int(day[0].astype(np.int64)) + 3) % 7 == _SUNDAY:
        return day - length + 1, day + 1  # weeks by the day they end on
    return day, day + length


@lru_cache(maxsize=16)
def _find_days(regions: tuple[str, ...], first: int, last: int) -> dict[str, dict[date, int]]:
    """Holiday -> its days; under `ANY` the days with a holiday, and in how many of the regions."""
    import holidays

    days_of: dict[str, dict[date, int]] = {ANY: {}}
    for region in regions:
        country, _, part = region.partition("-")
        years = range(first, last + 1)
        calendar = holidays.country_holidays(country, subdiv=part or None, years=years, language=LANGUAGE)
        for day, names in sorted(calendar.items()):
            days_of[ANY][day] = days_of[ANY].get(day, 0) + 1
            for name in names.split("; "):
                days_of.setdefault(name.replace(" (estimated)", ""), {})[day] = 1
    return days_of
