"""The step of a set of stamps, or a refusal: an irregular series is never guessed at.

The modal difference decides, so gaps do no harm. Days that all sit at month ends, or all on one day of the month, are
months; days that never fall on a weekend although they cross some are business days.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.step import Stamps, Step

_DAY = np.timedelta64(86_400_000_000, "us")
_WEEKDAY_OF_EPOCH = 3
_SATURDAY = 5
_SHORTEST_MONTH = 28
_WHAT_FREQ_DOES = "Give the step with freq (--freq), such as h, 15min, D, B or MS: stamps off that grid are then named."
_EVENTS = "Events at irregular times can be gathered with every and agg, for instance to sums by day"
_MONTHLY = "Each month holds one stamp, on days that differ"


BY_DAYS, BY_MONTHS = "--every D --agg sum", "--every ME --agg last"
"""Flags that gather events by days, and stamps that stand on another day in each month, by months."""


class FewStamps(InputError):
    """Too few stamps to tell a step by."""


class NoRegularStep(InputError):
    """Stamps of which no difference is common; `flag` gathers them."""

    def __init__(self, message: str, flag: str) -> None:
        super().__init__(message)
        self.flag = flag


def infer_step(stamps: Stamps, offsets: NDArray[np.int64]) -> Step:
    """The step of series that lie one after another, series s from offsets[s] to offsets[s + 1].

    The stamps of each are sorted and free of duplicates; gaps are allowed.
    """
    differences = _differences(stamps, offsets)
    if len(differences) < 2:
        raise FewStamps(f"the step can't be inferred from fewer than 3 stamps. {_WHAT_FREQ_DOES}")
    if stamps.dtype.kind in "iu":
        return Step(int(_modal(differences, "integers")), "int")
    calendar = _calendar_step(stamps, offsets, differences)
    if calendar is not None:
        return calendar
    lengths = differences.astype("timedelta64[us]").astype(np.int64)
    modal = _modal(lengths, "microseconds", lambda: _once_a_month(stamps, offsets))
    return Step(int(modal), "us").simplest()


def _once_a_month(stamps: Stamps, offsets: NDArray[np.int64]) -> bool:
    """Whether no month holds two stamps of a series, and most hold one."""
    inside = np.ones(len(stamps), dtype=bool)
    inside[offsets[:-1]] = False
    months = np.diff(stamps.astype("datetime64[M]").astype(np.int64), prepend=0)[inside]
    return bool(np.all(months >= 1) and np.median(months) == 1)


def _differences(stamps: Stamps, offsets: NDArray[np.int64]) -> Stamps:
    """Differences of neighbours within each series, zeros left out."""
    between = np.diff(stamps)
    inside = np.ones(len(between), dtype=bool)
    edges = offsets[1:-1] - 1
    inside[edges[(edges >= 0) & (edges < len(between))]] = False
    kept = between[inside]
    return np.asarray(kept[kept > np.zeros((), dtype=kept.dtype)])


def _modal(differences: NDArray[np.int64], unit: str, monthly: Callable[[], bool] = lambda: False) -> int:
    """The commonest difference, refused where it does not explain the stamps."""
    values, counts = np.unique(differences, return_counts=True)
    modal, count = int(values[counts.argmax()]), int(counts.max())
    multiples = float(np.mean(differences % modal == 0))
    share = count / len(differences)
    if multiples < 0.5 or share < 0.25:
        shown = str(modal) if unit == "integers" else Step(modal, "us").simplest().words()
        advice, flag = f"{_EVENTS} ({BY_DAYS}).", BY_DAYS
        if monthly():
            advice, flag = f"{_MONTHLY}: {BY_MONTHS} reads a value for each.", BY_MONTHS
        raise NoRegularStep(
            f"the stamps have no regular step: the commonest difference ({shown}) makes up only {share:.0%} of all "
            f"and {multiples:.0%} are multiples of it. {_WHAT_FREQ_DOES} {advice}",
            flag,
        )
    return modal


def _calendar_step(stamps: Stamps, offsets: NDArray[np.int64], differences: Stamps) -> Step | None:
    """Business days, months, quarters or years, where the stamps are such."""
    days = stamps.astype("datetime64[D]")
    if np.any(stamps - days != stamps[:1] - days[:1]):
        return None
    values, counts = np.unique(differences, return_counts=True)
    modal = values[counts.argmax()]
    since_monday = days.astype(np.int64) + _WEEKDAY_OF_EPOCH
    if modal == _DAY and np.all(since_monday % 7 < _SATURDAY) and len(_differences(since_monday // 7, offsets)):
        return Step(1, "B")
    if modal < _SHORTEST_MONTH * _DAY:
        return None
    # Whole months, when every stamp is a month end or every one has the same day of the month.
    months = days.astype("datetime64[M]")
    first = months.astype("datetime64[D]")
    last = (months + 1).astype("datetime64[D]") - 1
    day = days - first
    at_end = np.all(days == last)
    if not at_end and not np.all(day == np.minimum(day.max(), last - first)):
        return None
    count = _modal(_differences(months.astype(np.int64), offsets), "integers")
    return Step(count, "ME" if at_end else "MS").simplest()
