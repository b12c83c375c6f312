"""A forecast in plain sentences: how much, in which range, and compared with the period before."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rearview.commands.forecast.job import FinalForecast, Outcome
from rearview.commands.page_data import measure_name
from rearview.core.wording import plural, quantity
from rearview.data.panel import Panel
from rearview.data.step import MICROSECONDS, MONTHS, Step
from rearview.estimators.forecast.prediction import variables
from rearview.report.forecast.views import Outlook

LEAST_SEEN = 0.8
"""Share of the steps of a period that must have been observed to compare with it."""
LEVEL = 0.1
"""A difference below this share of the spread of the period before counts as none."""
RESTING = 0.5
"""Share of steps at the lowest value of the period from which on its mean is no measure for medians."""
SKEWED = 4
"""The reach of an interval upwards over that downwards from which on its median says little of the mean."""
NAMED = 4
"""Variables up to which each is named; more are counted."""
_YEAR = 365 * MICROSECONDS["D"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a panel in words."""

    per: str
    """As in 410 a day; empty where a step has no name."""
    several: str
    """As in the next 28 days."""

    @classmethod
    def of(cls, step: Step, count: int) -> "Steps":
        """The words for so many steps."""
        if step.count > 1 or step.unit in ("int", "us"):
            return cls("", quantity(count, "step"))
        return cls(f" {'an' if step.noun == 'hour' else 'a'} {step.noun}", quantity(count, step.noun))


def write_outlook(outcome: Outcome, final: FinalForecast) -> tuple[str, tuple[Outlook, ...]]:
    """(the forecast in a sentence or two, the outlook of each variable)."""
    panel, horizon = outcome.panel, outcome.job.spec.horizon
    steps = Steps.of(panel.step, horizon)
    ways = [_compare(panel, s, target, horizon) for s in range(panel.series) for target in range(panel.targets)]
    shared = ways[0][0] if len({words for words, _ in ways}) == 1 else "in the period before"
    levels = sorted(final.forecasts.intervals)
    looks = []
    for number, (name, (words, before)) in enumerate(zip(variables(panel), ways, strict=True)):
        place = divmod(number, panel.targets)
        mean = _mean(final.forecasts.mean[place])
        low, high = (_mean(side[place]) for side in final.forecasts.intervals[levels[0]]) if levels else (math.nan,) * 2
        spread = _spread(panel, *place, horizon)
        if high - mean > SKEWED * (mean - low) and _rests(panel, *place, horizon):
            words, before = "", math.nan
        sentence = _sentence(name, (low, mean, high), (words, before), steps, spread)
        looks.append(Outlook(sentence, mean, low, high, before, words, spread))
    if len(looks) == 1:
        return looks[0].sentence, tuple(looks)
    same_unit = panel.targets == 1 and panel.layout.form == "long"
    several = f"{len(looks):,} series"
    if same_unit and (measured := measure_name(panel)):
        several = f"{measured} of {several}"
    # A column called 2 would read as a number.
    names = tuple(name if any(map(str.isalpha, name)) else f"{name!r}" for name in variables(panel))
    return _summarise_series(names, looks, steps, shared, several, same_unit=same_unit), tuple(looks)


def describe_error(outcome: Outcome, lead: str) -> str:
    """How far off the forecast was in the backtest, and the naive one beside it; empty where units differ."""
    errors = {result.name: result.scores.mae for result in outcome.results if result.scores is not None}
    ours, naive = errors.get(lead, math.nan), errors.get("seasonal_naive", math.nan)
    if outcome.panel.targets > 1 or not math.isfinite(ours):
        return ""
    per = Steps.of(outcome.panel.step, 1).per
    comparison = f"; the last season again would have been off by {naive:,.3g}" if math.isfinite(naive) else ""
    return f"On past data it was off by {ours:,.3g}{per} on average{comparison}."


def _compare(panel: Panel, series: int, target: int, horizon: int) -> tuple[str, float]:
    """What the forecast is compared with: the same steps a year before where they were seen, else the last steps."""
    begin, end = panel.span(series)
    step = panel.step
    a_year = 0
    if step.unit in MICROSECONDS and (length := step.count * MICROSECONDS[step.unit]) >= MICROSECONDS["h"]:
        # Whole weeks, so that Mondays stand against Mondays.
        a_year = 52 * 7 * MICROSECONDS["D"] // length if (52 * 7 * MICROSECONDS["D"]) % length == 0 else _YEAR // length
    elif step.unit in MONTHS and 12 % (step.count * MONTHS[step.unit]) == 0:
        a_year = 12 // (step.count * MONTHS[step.unit])
    if a_year >= horizon and end - a_year >= begin:
        cells = panel.original_column(slice(end - a_year, end - a_year + horizon), series, target)
        if np.isfinite(cells).mean() >= LEAST_SEEN:
            return "a year before", _mean(cells)
    cells = panel.original_column(slice(max(begin, end - horizon), end), series, target)
    if len(cells) < horizon or np.isfinite(cells).mean() < LEAST_SEEN:
        return "", math.nan
    return f"in the last {Steps.of(step, horizon).several.removeprefix('1 ')}", _mean(cells)


def _spread(panel: Panel, series: int, target: int, horizon: int) -> float:
    begin, end = panel.span(series)
    cells = panel.original_column(slice(max(begin, end - max(horizon, 50)), end), series, target)
    return float(np.nanstd(cells)) if np.isfinite(cells).any() else math.nan


def _rests(panel: Panel, series: int, target: int, horizon: int) -> bool:
    """Whether most recent rows hold one and the same lowest value, as intermittent demand does."""
    begin, end = panel.span(series)
    cells = panel.original_column(slice(max(begin, end - max(horizon, 50)), end), series, target)
    seen = cells[np.isfinite(cells)]
    return len(seen) > 0 and RESTING <= float((seen == seen.min()).mean()) < 1


def _mean(cells: Array) -> float:
    seen = cells[np.isfinite(cells)]
    return float(seen.mean()) if len(seen) else math.nan


def _sentence(
    name: str, numbers: tuple[float, float, float], before: tuple[str, float], steps: Steps, spread: float
) -> str:
    low, mean, high = numbers
    if not math.isfinite(mean):
        return f"{name} has no forecast: nothing of it was observed."
    subject = name.capitalize() if name.islower() and name.isalpha() else name
    width = high - low if math.isfinite(high - low) and high > low else spread
    words, value = before
    against = f"; {words} it was {round_to(value, width, 1)}" if math.isfinite(value) else ""
    expected = f"about {round_to(mean, width, 1)}{steps.per}"
    if not math.isfinite(high - low):
        return f"{subject} will likely be {expected} over the next {steps.several}{against}."
    average = "" if steps.several.startswith("1 ") else " on average"
    ends = f"between {round_to(low, width)} and {round_to(high, width)}{steps.per}{average}"
    return f"{subject} will likely be {ends} over the next {steps.several}, about {round_to(mean, width, 1)}{against}."


def _summarise_series(
    names: tuple[str, ...], looks: list[Outlook], steps: Steps, compared: str, several: str, *, same_unit: bool
) -> str:
    """Several variables in a sentence or two: their sum where units agree, how many rise and fall, which most."""
    known = [look for look in looks if math.isfinite(look.before) and math.isfinite(look.mean)]
    parts, ahead = [], f"Over the next {steps.several}"
    if same_unit and len(known) == len(looks):
        total, before = sum(look.mean for look in looks), sum(look.before for look in looks)
        share = total / before - 1 if before > 0 else math.nan
        percent = round(100 * abs(share)) if math.isfinite(share) else 0
        way = f"{percent} % {'more' if share > 0 else 'less'} than" if percent else "as much as"
        change = f", {way} {compared}" if math.isfinite(share) and compared else ""
        sum_words = f"{round_to(total, abs(total), 1)}{steps.per}{change}"
        parts.append(f"{ahead}, {several} will together be about {sum_words}.")
        ahead = ""
    if known:
        far = [(look.mean - look.before) / look.spread if look.spread else 0.0 for look in known]
        counts = (sum(one > LEVEL for one in far), sum(one < -LEVEL for one in far))
        ways = [(count, way) for count, way in zip(counts, ("higher", "lower"), strict=True) if count]
        every = "both" if len(looks) == 2 else f"all {len(looks):,}"
        words = [f"{count:,} {way}" for count, way in ways]
        if ways:
            of = f" of {len(looks):,}" if ahead else ""  # the sum names their number already
            which = every if ways[0][0] == len(looks) else f"{ways[0][0]:,}{of}"
            words[0] = f"{which} {plural(ways[0][0], 'is', 'are')} expected {ways[0][1]}"
        moved = f"{' and '.join(words)} than {compared}"
        if not any(counts):
            which = every if len(known) == len(looks) else f"{len(known):,} of {len(looks):,}"
            level = f"{plural(len(known), 'is', 'are')} expected to be about as high as {compared}."
            return " ".join([*parts, f"{ahead}, {which} {level}" if ahead else f"{which.capitalize()} {level}"])
        if ahead and len(looks) <= NAMED and all(math.isfinite(look.change) for look in looks):
            return f"{ahead}, {_name_each(names, looks, compared)}."
        parts.append(f"{ahead}, {moved}." if ahead else f"{moved[0].upper()}{moved[1:]}.")
    moving = sorted((look.change, name) for name, look in zip(names, looks, strict=True) if math.isfinite(look.change))
    if len(moving) > 1:
        ends = [f"{moving[-1][1]} rises most ({_percent(moving[-1][0])})"] if moving[-1][0] >= 0.005 else []
        ends += [f"{moving[0][1]} falls most ({_percent(moving[0][0])})"] if moving[0][0] <= -0.005 else []
        parts += [f"{', '.join(ends)}."] if ends else []
    return " ".join(parts) or f"A forecast of {several} over the next {steps.several}."


def _name_each(names: tuple[str, ...], looks: list[Outlook], compared: str) -> str:
    """The change of each of a few variables, the largest rise first."""
    order = sorted(range(len(looks)), key=lambda place: -looks[place].change)
    words: list[str] = []
    for place in order:
        percent, rises = round(100 * abs(looks[place].change)), looks[place].change > 0
        way = f"about {percent} % {'higher' if rises else 'lower'}" if percent else "about as high"
        first = f"{names[place]} will be {way} {'than' if percent else 'as'} {compared}"
        words.append(f"{names[place]} {way}" if words else first)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _percent(share: float) -> str:
    return f"{100 * share:+.0f} %".replace("-", "−")


def round_to(value: float, width: float, more: int = 0) -> str:
    """A number to two digits of a width, or `more` of them: 410 and 520 for 411.3 and 518.9."""
    if not math.isfinite(value):
        return "–"
    if not math.isfinite(width) or width <= 0:
        return f"{value:,.4g}"
    places = 1 + more - math.floor(math.log10(width * 2**more))
    rounded = round(value, places)
    return f"{rounded:,.{max(0, places)}f}"
