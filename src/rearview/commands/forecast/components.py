"""The components of a series for its page: trend, seasons, effects of known inputs, and these inputs."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rearview.commands.forecast.job import FinalForecast
from rearview.commands.forecast.outlook import round_to
from rearview.commands.page_data import space_evenly
from rearview.core.grouping import group_by
from rearview.core.wording import plural
from rearview.data.holidays import ANY, NAMED
from rearview.data.infer.categories import name_origin
from rearview.data.infer.wall_time import to_wall_time
from rearview.data.panel import Panel
from rearview.data.step import MICROSECONDS, MONTHS
from rearview.data.windows import final_windows
from rearview.estimators.auto.effects import MOST_LOG, Effects, WithEffects
from rearview.estimators.auto.ensemble import Ensemble
from rearview.estimators.clock_view import predict_on_clock
from rearview.estimators.forecast.predictor import Predictor
from rearview.report.forecast.views import Component, KnownInput
from rearview.tasks.decomposition import Decomposition, decompose

MOST_ROWS = 5_000
"""Rows before the forecast that are taken apart."""
TREND_POINTS = 160
SHOWN = 0.02
"""Share of the spread of a series below which a season is not drawn."""
MOST_INPUTS = 6

Array = NDArray[np.float64]


def known_inputs(panel: Panel, known: Array | None, series: int, rows: slice) -> tuple[KnownInput, ...]:
    """The known inputs of a series beside the rows that are drawn; `known` [series, column, step]."""
    if known is None:
        return ()
    first = len(panel.columns) - panel.known
    drawn = [place for place, name in enumerate(panel.known_names) if not name.startswith(NAMED)]
    return tuple(
        KnownInput(panel.known_names[place], panel.original_column(rows, series, first + place), known[series, place])
        for place in drawn[:MOST_INPUTS]
    )


def compare_inputs(panel: Panel, final: FinalForecast, known: Array | None) -> dict[str, Array]:
    """Input -> what it adds to the forecast [series, target, step] of a model that holds no effects of inputs.

    The forecast is made again with each input where it usually is, at its median.
    """
    forecaster, tail = final.forecaster, final.forecaster.tail
    if known is None or find_effects(forecaster.fitted) is not None:
        return {}
    first = len(panel.columns) - panel.known
    usual = [np.nanmedian(panel.original(slice(a, b), s)[:, first:], axis=0) for s, (a, b) in enumerate(panel.bounds())]
    added = {}
    for origin, places in list(group_inputs(panel).items())[:MOST_INPUTS]:
        without = known.copy()
        without[:, places] = np.stack(usual)[:, places, None]
        forecasts = predict_on_clock(forecaster.fitted, tail, final_windows(tail), (), without)
        added[origin] = final.forecasts.mean - forecasts.mean
    return added


def components(
    panel: Panel,
    final: FinalForecast,
    place: tuple[int, int],
    seasons: Sequence[int],
    known: Array | None,
    inputs: Sequence[KnownInput],
    compared: Mapping[str, Array],
) -> tuple[Component, ...]:
    """Trend, seasons and effects of one variable; nothing where it is too short to be taken apart.

    `compared` holds the effects of inputs on the forecast of a model that holds none.
    """
    series, target = place
    begin, end = panel.span(series)
    begin = max(begin, end - MOST_ROWS)
    line = np.concatenate([panel.original_column(slice(begin, end), series, target), final.forecasts.mean[place]])
    effects = find_effects(final.forecaster.fitted)
    shifts = None
    if effects is not None and known is not None and panel.ids[series] in effects.ids:
        first = len(panel.columns) - panel.known
        past = [panel.original_column(slice(begin, end), series, first + one) for one in range(panel.known)]
        cells = np.concatenate([np.stack(past), known[series]], axis=1)
        number = effects.ids.index(panel.ids[series])
        low, high, centre = (bound[number][:, None] for bound in (effects.low, effects.high, effects.centre))
        weights, factor = effects.coefficients[number, target], bool(effects.factor[number, target])
        # [input, row]: what each input adds, on the scale of the effects.
        shifts = weights[:, None] * (np.clip(np.nan_to_num(cells), low, high) - centre)
        total = np.clip(shifts.sum(0), -MOST_LOG, MOST_LOG) if factor else shifts.sum(0)
        line = line * np.exp(-total) if factor else line - total
    parts = decompose(line, seasons)
    if parts is None:
        return ()
    stamps = to_wall_time(np.concatenate([panel.stamps[begin:end], final.stamps[series]]), panel.layout)
    spread = float(np.nanstd(line))
    drawn = [_trend(parts, stamps, end - begin)]
    shown = {season: profile for season, profile in parts.profiles.items() if np.ptp(profile) > SHOWN * spread}
    drawn += [_season(profile, season, stamps, panel) for season, profile in shown.items()]
    if shifts is not None:
        horizon = final.forecasts.mean.shape[-1]
        count = (len(inputs[0].past) if inputs else 0) + horizon
        for origin, places in group_inputs(panel).items():
            moved = shifts[places].sum(axis=0)
            effect = (parts.trend * np.expm1(np.clip(moved, -MOST_LOG, MOST_LOG)) if factor else moved)[-count:]
            rate = float(weights[places[0]]) if len(places) == 1 else 0.0
            switch = bool(np.isin(cells[places], (0.0, 1.0)).all())
            more = _rate(origin, rate, factor, switch=switch)
            drawn.append(_effect_view(origin, effect, stamps[-count:], horizon, more))
            if len(places) > 1 and weights[places].any():
                drawn.append(_by_name(origin, [panel.known_names[place] for place in places], weights[places], factor))
    ahead = stamps[end - begin :]
    drawn += [_effect_view(origin, added[place], ahead, len(ahead)) for origin, added in compared.items()]
    return tuple(drawn)


def group_inputs(panel: Panel) -> dict[str, list[int]]:
    """Known columns by what they were made from: the categories of a column of text, all holidays."""
    return group_by(range(panel.known), lambda place: name_origin(panel.known_names[place], panel.layout))


def find_effects(fitted: Predictor) -> Effects | None:
    """The effects of known inputs that a forecast rests on; of a portfolio the heaviest member's."""
    if isinstance(fitted, WithEffects):
        return fitted.effects
    if isinstance(fitted, Ensemble):
        for number in np.argsort(-fitted.common, kind="stable").tolist():
            if isinstance(member := fitted.members[number], WithEffects):
                return member.effects
    return None


def _trend(parts: Decomposition, stamps: NDArray[np.generic], border: int) -> Component:
    trend = parts.trend
    kept = space_evenly(len(trend), TREND_POINTS)
    width = max(float(np.ptp(trend)), abs(float(trend[border - 1])) / 100)
    start, now, last = (round_to(float(trend[row]), width) for row in (0, border - 1, -1))
    return Component("Trend", f"From {start} at first to {now} now, and {last} at the end of the forecast.",
                     stamps[kept], (), trend[kept])  # fmt: skip


def _season(profile: Array, season: int, stamps: NDArray[np.generic], panel: Panel) -> Component:
    """The profile of a season, its phases named by the calendar and put in its order."""
    title, names, order = _phases(season, stamps[:season], panel)
    values = profile[order]
    labels = tuple(names[place] for place in order)
    high, low = int(values.argmax()), int(values.argmin())
    width = float(np.ptp(values))
    signed = [("+" if values[row] > 0 else "") + round_to(float(values[row]), width) for row in (high, low)]
    sentence = f"Highest at {labels[high]} ({signed[0]}), lowest at {labels[low]} ({signed[1]}).".replace("-", "−")
    return Component(title, sentence, None, labels, values)


def _phases(season: int, stamps: NDArray[np.generic], panel: Panel) -> tuple[str, list[str], list[int]]:
    """(name of a season, name of each phase, phases in the order of the calendar)."""
    plain = list(range(season))
    unit, count = panel.step.unit, panel.step.count
    if stamps.dtype.kind != "M":
        return f"Season of {season} steps", [str(one + 1) for one in plain], plain
    minutes = stamps.astype("datetime64[m]")
    clock = [str(one)[11:16] for one in minutes]
    days = stamps.astype("datetime64[D]")
    weekday = ((days.astype(np.int64) + 3) % 7).tolist()
    names = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    months = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
              "November", "December"]  # fmt: skip
    month = (stamps.astype("datetime64[M]").astype(np.int64) % 12).tolist()
    length = season * count * MICROSECONDS.get(unit, 0)
    if length == MICROSECONDS["D"]:
        return "Time of day", clock, sorted(plain, key=lambda one: clock[one])
    if length == 7 * MICROSECONDS["D"] or (unit == "B" and season * count == 5):
        shown = [names[day] if not panel.step.sub_daily else f"{names[day][:3]} {at}"
                 for day, at in zip(weekday, clock, strict=True)]  # fmt: skip
        return "Day of the week", shown, sorted(plain, key=lambda one: (weekday[one], clock[one]))
    if unit in MONTHS and season * count * MONTHS[unit] == 12:
        quarterly = count * MONTHS[unit] == 3
        shown = [f"Q{one // 3 + 1}" if quarterly else months[one] for one in month]
        return "Quarter" if quarterly else "Month", shown, sorted(plain, key=lambda one: month[one])
    if length and abs(length / MICROSECONDS["D"] - 365) <= 2:
        day = [int(str(one)[8:10]) for one in days]
        shown = [f"{one} {months[at][:3]}" for one, at in zip(day, month, strict=True)]
        return "Time of year", shown, sorted(plain, key=lambda one: (month[one], day[one]))
    return f"Season of {season} steps", [str(one + 1) for one in plain], plain


def _rate(name: str, weight: float, factor: bool, *, switch: bool) -> str:
    """What one more of an input makes, in a sentence, or that it is on (a `switch`, of 0 and 1); empty: nothing."""
    if not weight:
        return ""
    size = 100 * math.expm1(np.clip(weight, -MOST_LOG, MOST_LOG)) if factor else weight
    words = f"{name} makes" if switch else f"One more of {name} makes"
    return f" {words} {size:+,.3g}{' %' if factor else ''}.".replace("-", "−")


def _effect_view(name: str, effect: Array, stamps: NDArray[np.generic], horizon: int, more: str = "") -> Component:
    """What an input adds to the series, in its unit, over the rows that are drawn and the forecast."""
    title = f"Effect of {name}"
    if not effect.any():
        return Component(title, "None that the rows show.", stamps[:0], (), effect[:0])
    ahead = effect[-horizon:]
    width = float(np.ptp(effect)) or abs(float(effect[0]))
    steps = int((ahead != 0).sum())
    mean = float(ahead[ahead != 0].mean()) if steps else math.nan
    size = round_to(mean, width).replace("-", "−")
    on = f"{steps} {plural(steps, 'step', 'steps')} of the forecast"
    sentence = f"{'+' if mean > 0 else ''}{size} on average at {on}." if steps else "None in the forecast."
    return Component(title, f"{sentence}{more}", stamps, (), effect)


def _by_name(origin: str, names: Sequence[str], weights: Array, factor: bool) -> Component:
    """The effect of each category, or of each holiday by its name, the largest fall first."""
    shared = float(weights[names.index(ANY)]) if ANY in names else 0.0
    sizes = {
        name.removeprefix(NAMED).removeprefix(f"{origin}="): shared + float(weight)
        for name, weight in zip(names, weights, strict=True)
        if name != ANY
    }
    sizes = {name: 100 * math.expm1(size) if factor else size for name, size in sizes.items()}
    ordered = sorted(sizes, key=lambda name: sizes[name])
    values = np.array([sizes[name] for name in ordered])
    width = max(float(np.abs(values).max()), 1e-12)
    unit = " %" if factor else ""
    ends = [ordered[0], ordered[-1]] if len(ordered) > 1 else ordered
    parts = [f"{name} {'+' if sizes[name] > 0 else ''}{round_to(sizes[name], width)}{unit}" for name in ends]
    sentence = f"{', '.join(parts)}.".replace("-", "−")
    if ANY in names:
        usual = 100 * math.expm1(shared) if factor else shared
        others = f"{'+' if usual > 0 else ''}{round_to(usual, width)}{unit}".replace("-", "−")
        sentence = f"{sentence} A holiday that was not seen: {others}."
    title = f"{origin[0].upper()}{origin[1:]} by name" if ANY in names else f"Effect of {origin}, by category"
    return Component(title, sentence, None, tuple(ordered), values, "percent" if factor else "adds, original units")
