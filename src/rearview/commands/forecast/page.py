"""A finished forecast as its page shows it."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from rearview.commands.forecast.attention_maps import attention_views
from rearview.commands.forecast.job import Outcome
from rearview.commands.page_data import (
    Settings,
    attention_choice,
    data_facts,
    describe_device,
    page_settings,
    training_curve,
)
from rearview.data.infer.wall_time import to_wall_time
from rearview.estimators.auto.effects import WithEffects
from rearview.estimators.auto.ensemble import Ensemble
from rearview.estimators.forecast.prediction import Fitted, variables
from rearview.estimators.forecast.predictor import Array, Bounds
from rearview.estimators.forecast.zero_shot import ZeroShot
from rearview.report.common.summary import Curve
from rearview.report.forecast.page import ForecastSummary
from rearview.report.forecast.views import Candidate, Forecast, Prediction, Score, SeriesView, StepErrors, Window
from rearview.tasks.plan import GIVEN

MOST_HISTORY = 1000
"""Rows before the forecast that a page draws, at most."""


def summary(outcome: Outcome, command: str) -> ForecastSummary:
    """The content of the page."""
    panel = outcome.panel
    views = [
        attention_views(name, final.forecaster, panel, outcome.job.future) for name, final in outcome.finals.items()
    ]
    scored = [(result, asdict(result.scores)) for result in outcome.results if result.scores is not None]
    # A backtest may have looked at some of the series alone.
    places = {name: {one: place for place, one in enumerate(test.names)} for name, test in outcome.backtests.items()}
    errors = {name: backtest.by_step() for name, backtest in outcome.backtests.items()}
    return ForecastSummary(
        title=f"Forecast of {outcome.job.file}",
        verdict=outcome.verdict,
        command=command,
        device=outcome_device(outcome),
        seconds=outcome.seconds,
        series=tuple(_series_view(outcome, number, name, places) for number, name in enumerate(variables(panel))),
        data=data_facts(panel),
        scores=tuple(_score(outcome, result.name, scores, final=result.final is not None) for result, scores in scored),
        candidates=tuple(
            Candidate(one.name, one.meaning, one.mase, one.loss, one.weight, one.seconds, one.note)
            for one in outcome.leaderboard
        ),
        error_by_step={name: StepErrors(mae=mae, mse=mse) for name, (mae, mse) in errors.items()},
        curves=_curves(outcome),
        findings=outcome.findings,
        settings=_settings(outcome),
        notes=(*outcome.notes, *outcome.warnings, *(note for _, notes in views for note in notes)),
        looks=tuple(look for shown, _ in views for look in shown),
    )


def _score(outcome: Outcome, name: str, scores: Mapping[str, Any], *, final: bool) -> Score:
    """A row of the score table; the members of a portfolio are no baselines, but for the naive forecast."""
    return Score(model=name, is_baseline=not final and (not outcome.leaderboard or name == "seasonal_naive"), **scores)


def outcome_device(outcome: Outcome) -> str:
    """Where the networks ran, in words."""
    return describe_device(next((fitted.device for fitted in _networks(outcome).values()), None))


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


def _series_view(outcome: Outcome, number: int, name: str, places: Mapping[str, Mapping[str, int]]) -> SeriesView:
    panel = outcome.panel
    series, target = divmod(number, panel.targets)
    end = int(panel.offsets[series + 1])
    rows = min(MOST_HISTORY, max(4 * outcome.job.spec.horizon, 2 * outcome.lookback.value, 200))
    begin = max(int(panel.offsets[series]), end - rows)
    finals = outcome.finals
    stamps = next((final.stamps[series] for final in finals.values()), panel.stamps[:0])
    predictions = {
        name: _prediction(final.forecasts.mean, final.forecasts.intervals, (series, target))
        for name, final in finals.items()
    }
    return SeriesView(
        id=name,
        stamps=to_wall_time(panel.stamps[begin:end], panel.layout),
        values=panel.original_column(slice(begin, end), series, target),
        forecast=Forecast(to_wall_time(stamps, panel.layout), predictions),
        backtest=_windows(outcome, {model: known[name] for model, known in places.items() if name in known}),
    )


def _windows(outcome: Outcome, places: Mapping[str, int]) -> tuple[Window, ...]:
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
        tested = {name: _prediction(test.mean, test.intervals, (w, places[name])) for name, test in tests.items()}
        windows.append(Window(cutoff, to_wall_time(one.stamps[w, place], layout), one.y[w, place], tested))
    return tuple(windows)


def _prediction(mean: Array, intervals: Bounds, place: tuple[int, int]) -> Prediction:
    return Prediction(mean[place], {level: (low[place], high[place]) for level, (low, high) in intervals.items()})


def _curves(outcome: Outcome) -> dict[str, Curve]:
    histories = {name: fitted.history for name, fitted in _networks(outcome).items()}
    return {name: training_curve(one) for name, one in histories.items() if one is not None and one.epochs}


def _settings(outcome: Outcome) -> Settings:
    lookback = outcome.lookback
    sections: Settings = {
        "forecast": {"horizon": (outcome.job.spec.horizon, GIVEN), "lookback": (lookback.value, lookback.reason)}
    }
    for name, fitted in _networks(outcome).items():
        plan = fitted.plan
        if plan.season is not None:
            sections["forecast"]["season"] = (plan.season.value, plan.season.reason)
        mechanism = fitted.attention if isinstance(fitted, ZeroShot) else fitted.spec.attention
        own = attention_choice(fitted.spec.model or fitted.name, plan.model, mechanism)
        for part, choices in (("model", {**own, **plan.model}), ("training", plan.training)):
            if choices:
                sections[f"{name}: {part}"] = page_settings(choices)
    return sections
