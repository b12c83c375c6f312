"""The step of a set of stamps, or a refusal: an irregular series is never guessed at.

The modal difference decides, so gaps do no harm. Days that all sit at month ends, all on one day of the month, or all
on the first or last business day of one, are months; days that never fall on a weekend although they cross some are
business days.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.step import MICROSECONDS, Stamps, Step

_DAY = np.timedelta64(86_400_000_000, "us")
_WEEKDAY_OF_EPOCH = 3
_SATURDAY = 5
_SHORTEST_MONTH = 28
_WHAT_FREQ_DOES = "Give the step with freq (--freq), such as h, 15min, D, B or MS: stamps off that grid are then named."
_EVENTS = "Events at irregular times can be gathered with every and agg, for instance to sums by day"
_MONTHLY = "Each month holds one stamp, on days that differ"
_DAYS_OF_MONTHS = {"BME": "the last business day", "ME": "the last day", "BMS": "the first business day"}
_MOST_MONTHS = 0.7
"""The share of stamps on one kind of day of their months from which the others are taken for mistakes, or holidays."""

_UNSTEADY, _STRAY = 0.2, 0.1
"""How far, of a step, the stamps of a clock that is not exact stray, and the share of stamps that may stray further."""
_ROUND = tuple(
    Step(count, unit)
    for unit, counts in {"s": (1, 5, 10, 30), "min": (1, 5, 10, 15, 30), "h": (1, 6), "D": (1,), "W": (1,)}.items()
    for count in counts
)

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
    if np.any(lengths % lengths.min()):
        _refuse_other_days(stamps, offsets)
    try:
        modal = _modal(lengths, "microseconds", lambda: _once_a_month(stamps, offsets))
    except NoRegularStep as error:
        steady = _gather_unsteady(stamps, lengths)
        raise (error if steady is None else steady) from None
    return Step(int(modal), "us").simplest()


def _gather_unsteady(stamps: Stamps, lengths: NDArray[np.int64]) -> NoRegularStep | None:
    """The refusal of a clock that is not exact, as of a sensor, with the flags that gather its rows; None: no such."""
    usual = float(np.median(lengths))
    near = min(_ROUND, key=lambda step: abs(step.count * MICROSECONDS[step.unit] - usual))
    length = near.count * MICROSECONDS[near.unit]
    if abs(length - usual) > _UNSTEADY * length or np.mean(np.abs(lengths - usual) > _UNSTEADY * usual) > _STRAY:
        return None
    # A clock that is late by little has one stamp in each step; one that is early, too, has two in some and none in
    # others, and several are taken together.
    every = near
    if np.mean(np.diff(near.floor(stamps)) == np.timedelta64(length, "us")) < 1 - _STRAY:
        every = next((step for step in _ROUND if step.count * MICROSECONDS[step.unit] >= 5 * length), near)
    flag = f"--every {every} --agg mean"
    return NoRegularStep(
        f"the stamps have no regular step: one comes about {near.words()}, but not exactly so. {flag} gathers them "
        "into regular rows.",
        flag,
    )


def _once_a_month(stamps: Stamps, offsets: NDArray[np.int64]) -> bool:
    """Whether no month holds two stamps of a series, and most hold one."""
    months = _months_between(stamps, offsets)
    return bool(np.all(months >= 1) and np.median(months) == 1)


def _refuse_other_days(stamps: Stamps, offsets: NDArray[np.int64]) -> None:
    """Refuse stamps of months of which nearly all stand on one kind of day, and name the first of the others."""
    months = _months_between(stamps, offsets)
    if np.any(months < 1):
        return
    days = stamps.astype("datetime64[D]")
    day, last = _days_of_months(days)
    common = int(np.bincount(day).argmax())
    wanted = {unit: Step(1, unit).shift(days, 0).astype("datetime64[D]") for unit in _DAYS_OF_MONTHS}
    wanted["MS"] = days - day + np.minimum(common, last)
    unit = max(wanted, key=lambda one: int(np.sum(days == wanted[one])))
    off = days != wanted[unit]
    if off.mean() > 1 - _MOST_MONTHS:
        return
    at, kind = int(off.argmax()), _DAYS_OF_MONTHS.get(unit, f"day {common + 1}")
    step = Step(int(np.bincount(months).argmax()), unit).simplest()
    flag = f"--every {step} --agg last"
    more = "; no holidays are known here" if step.business_month else ""
    raise NoRegularStep(
        f"{len(days) - int(off.sum()):,} of {len(days):,} stamps are {kind} of their month, but {days[at]} is not "
        f"({wanted[unit][at]} would be{more}). Correct it, or read a value for each "
        f"{step.noun if step.count == 1 else 'step'} with {flag}.",
        flag,
    )


def _days_of_months(days: Stamps) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The day of its month of each day, counted from 0, and the last of that month."""
    months = days.astype("datetime64[M]")
    first = months.astype("datetime64[D]")
    last = (months + 1).astype("datetime64[D]") - 1
    return (days - first).astype(np.int64), (last - first).astype(np.int64)


def _months_between(stamps: Stamps, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Calendar months from each stamp to the next of its series."""
    inside = np.ones(len(stamps), dtype=bool)
    inside[offsets[:-1]] = False
    return np.asarray(np.diff(stamps.astype("datetime64[M]").astype(np.int64), prepend=0)[inside])


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
    day, last = _days_of_months(days)
    fits = {
        "ME": day == last,
        "MS": day == np.minimum(day.max(), last),
        "BME": days == Step(1, "BME").shift(days, 0),
        "BMS": days == Step(1, "BMS").shift(days, 0),
    }
    unit = next((unit for unit, on in fits.items() if np.all(on)), None)
    if unit is None:
        return None
    count = _modal(_differences(days.astype("datetime64[M]").astype(np.int64), offsets), "integers")
    return Step(count, unit).simplest()
