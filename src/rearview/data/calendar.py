"""Calendar features: what the clock and the calendar say about each row, each scaled to [-0.5, 0.5].

These are the features that the field calls "timeF": value / largest value - 0.5, values counted from 0. Which of
them a series gets depends on its step: the hour of the day says nothing about daily rows. A year has 366 days and
an ISO year 53 weeks at most, hence the largest values 365 and 52; an ordinary year ends a little below 0.5.

Published scripts mostly feed the hourly set whatever the step is; `features(stamps, "h")` reproduces that.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import SettingsError
from rearview.data.step import MONTHS, Step

Whole = NDArray[np.int64]

_DAILY = ("day_of_week", "day_of_month", "day_of_year")
_HOURLY = ("hour_of_day", *_DAILY)
_MINUTELY = ("minute_of_hour", *_HOURLY)
_SETS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("us", "s"), ("second_of_minute", *_MINUTELY)),
    "min": _MINUTELY,
    "h": _HOURLY,
    **dict.fromkeys(("D", "B"), _DAILY),
    "W": ("day_of_month", "week_of_year"),
    **{unit: ("month_of_year",) if months < 12 else () for unit, months in MONTHS.items()},
    "int": (),
}


def names(step: Step | str) -> tuple[str, ...]:
    """The calendar features of a step, in the order in which `features` gives them; none for years and integers."""
    return _SETS[(Step.parse(step) if isinstance(step, str) else step).unit]


def features(stamps: NDArray[np.generic], step: Step | str) -> NDArray[np.float32]:
    """[feature, row]: the calendar features of the stamps, in the order of `names(step)`."""
    wanted = names(step)
    result = np.empty((len(wanted), len(stamps)), np.float32)
    if not wanted:
        return result
    if not np.issubdtype(stamps.dtype, np.datetime64):
        raise SettingsError(
            f"the stamps are of type {stamps.dtype}, which has no calendar, but step {str(step)!r} asks for "
            f"{', '.join(wanted)}; use an integer step, or give dates"
        )
    for row, name in enumerate(wanted):
        count, largest = _FEATURES[name]
        result[row] = count(stamps) / largest - 0.5
    return result


def _whole(stamps: NDArray[np.generic], unit: str) -> Whole:
    """Whole units since 1970-01-01 (before it: negative, rounded down)."""
    return stamps.astype(f"datetime64[{unit}]").astype(np.int64)


def _day_of_week(stamps: NDArray[np.generic]) -> Whole:
    thursday = 3  # 1970-01-01 was one, and Monday counts as 0
    return (_whole(stamps, "D") + thursday) % 7


def _day_of_year(stamps: NDArray[np.generic]) -> Whole:
    return _whole(stamps, "D") - _whole(stamps.astype("datetime64[Y]"), "D")


def _week_of_year(stamps: NDArray[np.generic]) -> Whole:
    """ISO 8601 weeks from 0: a week belongs to the year in which its Thursday lies."""
    thursday = (_whole(stamps, "D") - _day_of_week(stamps) + 3).astype("datetime64[D]")
    return _day_of_year(thursday) // 7


_FEATURES: dict[str, tuple[Callable[[NDArray[np.generic]], Whole], float]] = {
    "second_of_minute": (lambda stamps: _whole(stamps, "s") % 60, 59.0),
    "minute_of_hour": (lambda stamps: _whole(stamps, "m") % 60, 59.0),
    "hour_of_day": (lambda stamps: _whole(stamps, "h") % 24, 23.0),
    "day_of_week": (_day_of_week, 6.0),
    "day_of_month": (lambda stamps: _whole(stamps, "D") - _whole(stamps.astype("datetime64[M]"), "D"), 30.0),
    "day_of_year": (_day_of_year, 365.0),
    "week_of_year": (_week_of_year, 52.0),
    "month_of_year": (lambda stamps: _whole(stamps, "M") % 12, 11.0),
}
"""Of each feature: how its value is counted from 0, and the largest value it can take."""
