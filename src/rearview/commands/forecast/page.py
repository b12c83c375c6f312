"""A finished forecast as its page shows it."""

from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np

from rearview.commands import page_data
from rearview.commands.forecast.attention_maps import attention_views
from rearview.commands.forecast.components import compare_inputs, components, known_inputs
from rearview.commands.forecast.job import Outcome
from rearview.commands.forecast.outlook import describe_error, write_outlook
from rearview.data.infer.wall_time import to_wall_time
from rearview.data.panel import Panel
from rearview.estimators.auto.effects import WithEffects
from rearview.estimators.auto.ensemble import Ensemble
from rearview.estimators.auto.portfolio import panel_seasons
from rearview.estimators.forecast.known_inputs import read_known
from rearview.estimators.forecast.prediction import Fitted, variables
from rearview.estimators.forecast.predictor import Array, Bounds, Forecasts
from rearview.estimators.forecast.zero_shot import ZeroShot
from rearview.report.common.summary import Stamps
from rearview.report.forecast import views
from rearview.report.forecast.page import ForecastSummary
from rearview.tasks.plan import GIVEN, Choice

MOST_HISTORY = 1000
"""Rows before the forecast that a page draws, at most."""
SEASON_FOUND = "found in the data"
MOST_PARTS = 200
"""Series up to which each is taken apart into trend and seasons."""


def summary(outcome: Outcome, command: str) -> ForecastSummary:
    """The content of the page."""
    panel = outcome.panel
    attention = [
        attention_views(name, final.forecaster, panel, outcome.job.future) for name, final in outcome.finals.items()
    ]
    # The members of a portfolio are no baselines, but for the naive forecast.
    others = [result.name for result in outcome.results if result.final is None]
    baselines = [name for name in others if not outcome.leaderboard or name == "seasonal_naive"]
    errors = {name: test.by_step(scaled=_has_unlike_units(panel)) for name, test in outcome.backtests.items()}
    networks = _networks(outcome)
    histories = {name: fitted.history for name, fitted in networks.items()}
    even = [
        f"The attention of {shown[0].model} is not drawn: it looks everywhere about alike."
        for shown, _ in attention
        if shown and not any(look.finding for look in shown)
    ]
    lead = _lead(outcome)
    words, looks = ("", ()) if lead is None else write_outlook(outcome, outcome.finals[lead])
    return ForecastSummary(
        title=f"Forecast of {outcome.job.file}",
        outlook=words,
        verdict=f"{describe_error(outcome, lead) if lead else ''} {outcome.verdict}".strip(),
        command=command,
        device=page_data.describe_device(next((fitted.device for fitted in networks.values()), None)),
        seconds=outcome.seconds,
        unlike_units=_has_unlike_units(panel),
        series=_series_views(outcome, lead, looks),
        data=page_data.data_facts(panel),
        scores=tuple(
            views.Score(one.name, **asdict(one.scores), is_baseline=one.name in baselines)
            for one in outcome.results
            if one.scores is not None
        ),
        candidates=outcome.leaderboard,
        error_by_step={name: views.StepErrors(mae=mae, mse=mse) for name, (mae, mse) in errors.items()},
        curves={name: page_data.training_curve(one) for name, one in histories.items() if one and one.epochs},
        findings=outcome.findings,
        settings=_settings(outcome),
        notes=(*outcome.notes, *outcome.warnings, *(note for _, notes in attention for note in notes), *even),
        inputs=outcome.inputs,
        looks=tuple(look for shown, _ in attention for look in shown if look.finding),
    )


def _networks(outcome: Outcome) -> dict[str, Fitted]:
    """The networks that forecast, by name; of a portfolio its members."""
    networks: dict[str, Fitted] = {}
    for name, final in outcome.finals.items():
        fitted = final.forecaster.fitted
        members = fitted.members if isinstance(fitted, Ensemble) else (fitted,)
        for member in (one.inner if isinstance(one, WithEffects) else one for one in members):
            if isinstance(member, Fitted):
                networks[name if member is fitted else member.name] = member
    return networks


def _has_unlike_units(panel: Panel) -> bool:
    """Whether errors of the variables can't be added: columns of a wide file may be litres and euros."""
    return panel.targets > 1


def _lead(outcome: Outcome) -> str | None:
    """The model that the page starts with: the one with the lowest backtest error."""

    def error(name: str) -> float:
        scores = next(result.scores for result in outcome.results if result.name == name)
        return np.inf if scores is None or np.isnan(scores.mase) else scores.mase

    return min(outcome.finals, key=error, default=None)


def _series_views(outcome: Outcome, lead: str | None, looks: tuple[views.Outlook, ...]) -> tuple[views.SeriesView, ...]:
    """Every variable with its history, forecast, backtest, errors and parts."""
    panel, names = outcome.panel, variables(outcome.panel)
    # A backtest may have looked at some of the series alone.
    places = {name: {one: place for place, one in enumerate(test.names)} for name, test in outcome.backtests.items()}
    errors = _errors(outcome, lead)
    seasons = panel_seasons(panel, outcome.job.spec.season)
    final = None if lead is None else outcome.finals[lead]
    known = None
    if final is not None and panel.known:
        known = read_known(panel, final.stamps, outcome.job.future, outcome.job.reading)
    compared = {} if final is None or len(names) > MOST_PARTS else compare_inputs(panel, final, known)
    rows = min(
        MOST_HISTORY, max(4 * outcome.job.spec.horizon, 2 * outcome.lookback.value, 200, 2 * max(seasons, default=0))
    )
    forecasts = {name: one.forecasts for name, one in outcome.finals.items()}
    shown = []
    for number, name in enumerate(names):
        place = series, _ = divmod(number, panel.targets)
        ahead = panel.stamps[:0] if final is None else final.stamps[series]
        here = {model: numbers[name] for model, numbers in places.items() if name in numbers}
        view = series_view(panel, place, rows, forecasts, ahead)
        members = {member: mean for one in forecasts.values() for member, mean in one.members.items()}
        own = view.forecast.models
        drawn = {member: _prediction(mean, {}, place) for member, mean in members.items() if member not in own}
        with_members = replace(view.forecast, models={**own, **drawn})
        view = replace(view, forecast=with_members, backtest=_windows(outcome, here))
        if final is not None:
            end = int(panel.offsets[series + 1])
            inputs = known_inputs(panel, known, series, slice(end - len(view.values), end))
            parts: tuple[views.Component, ...] = ()
            if len(names) <= MOST_PARTS:
                parts = components(panel, final, place, seasons, known, inputs, compared)
            view = replace(view, outlook=looks[number], errors=errors.get(name), inputs=inputs, components=parts)
        shown.append(view)
    return tuple(shown)


def _errors(outcome: Outcome, lead: str | None) -> dict[str, views.SeriesErrors]:
    """The errors of the leading model by variable."""
    if lead is None or lead not in outcome.backtests:
        return {}
    test = outcome.backtests[lead]
    mae, mase, inside = test.by_variable()
    naive: dict[str, float] = {}
    if "seasonal_naive" in outcome.backtests:
        other = outcome.backtests["seasonal_naive"]
        naive = dict(zip(other.names, other.by_variable()[0].tolist(), strict=True))
    by_name = {}
    for place, name in enumerate(test.names):
        theirs = naive.get(name, np.nan)
        against = float(mae[place] / theirs) if theirs > 0 else np.nan
        by_name[name] = views.SeriesErrors(float(mase[place]), float(mae[place]), against, float(inside[place]))
    return by_name


def series_view(
    panel: Panel, place: tuple[int, int], rows: int, forecasts: Mapping[str, Forecasts], ahead: Stamps
) -> views.SeriesView:
    """One variable, at this place (series, target), with its last rows and its forecasts at the stamps ahead."""
    series, target = place
    begin, end = panel.span(series)
    shown = slice(max(begin, end - rows), end)
    predictions = {name: _prediction(one.mean, one.intervals, place) for name, one in forecasts.items()}
    return views.SeriesView(
        id=variables(panel)[series * panel.targets + target],
        stamps=to_wall_time(panel.stamps[shown], panel.layout),
        values=panel.original_column(shown, series, target),
        forecast=views.Forecast(to_wall_time(ahead, panel.layout), predictions),
    )


def _windows(outcome: Outcome, places: Mapping[str, int]) -> tuple[views.Window, ...]:
    """The backtest windows of one variable, which stands at these places in the backtests of the models."""
    tests = {model: outcome.backtests[model] for model in places}
    if not tests:
        return ()
    (first, one), layout = next(iter(tests.items())), outcome.panel.layout
    place = places[first]
    windows = []
    for w, cutoff in enumerate(to_wall_time(one.cutoffs[:, place], layout)):
        if np.isnan(one.mean[w, place]).all():
            continue
        # Of the members of a portfolio the page draws no intervals: they are many, and say nothing of the forecast.
        tested = {
            name: _prediction(
                test.mean,
                test.intervals if name in outcome.finals or not outcome.leaderboard else {},
                (w, places[name]),
            )
            for name, test in tests.items()
        }
        windows.append(views.Window(cutoff, to_wall_time(one.stamps[w, place], layout), one.y[w, place], tested))
    return tuple(windows)


def _prediction(mean: Array, intervals: Bounds, place: tuple[int, int]) -> views.Prediction:
    return views.Prediction(mean[place], {level: (low[place], high[place]) for level, (low, high) in intervals.items()})


def _settings(outcome: Outcome) -> page_data.Settings:
    lookback = outcome.lookback
    sections: page_data.Settings = {
        "forecast": {"horizon": (outcome.job.spec.horizon, GIVEN), "lookback": (lookback.value, lookback.reason)}
    }
    for name, fitted in _networks(outcome).items():
        plan = fitted.plan
        if plan.season is not None:
            detected = plan.season.reason == GIVEN and outcome.job.spec.season is None
            sections["forecast"]["season"] = (plan.season.value, SEASON_FOUND if detected else plan.season.reason)
        mechanism = fitted.attention if isinstance(fitted, ZeroShot) else fitted.spec.attention
        own = page_data.attention_choice(fitted.spec.model or fitted.name, plan.model, mechanism)
        if isinstance(fitted, ZeroShot) and fitted.spec.attention is None:
            own = {part: Choice(choice.value, "as trained") for part, choice in own.items()}
        sections |= page_data.network_settings(name, own, plan)
    return sections
