"""A finished run as the report's summary."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rearview import models, report
from rearview.attention import Spec, split
from rearview.commands.forecast.attention_maps import looks
from rearview.commands.forecast.job import ModelResult, Outcome
from rearview.commands.forecast.verdict import counted
from rearview.data.infer.timestamps import wall
from rearview.data.panel import Panel
from rearview.estimators.forecast.backtest import Backtest
from rearview.estimators.forecast.prediction import Forecasts, variables
from rearview.tasks.plan import GIVEN, Choice
from rearview.train import History

if TYPE_CHECKING:
    import torch

MOST_HISTORY = 1000


def summary(outcome: Outcome, command: str) -> report.ForecastSummary:
    """What the page shows."""
    panel = outcome.panel
    seen = [looks(r.name, r.forecaster, panel, outcome.job.future) for r in outcome.chosen if r.forecaster is not None]
    return report.ForecastSummary(
        title=f"Forecast of {outcome.job.file}",
        verdict=outcome.verdict,
        command=command,
        device=device(outcome),
        seconds=outcome.seconds,
        series=tuple(_series(outcome, number, name) for number, name in enumerate(variables(panel))),
        data=data_facts(panel),
        scores=tuple(_score(result) for result in outcome.results if result.scores is not None),
        error_by_step={r.name: _by_step(r.backtest) for r in outcome.results if r.backtest is not None},
        curves=_curves(outcome),
        findings=outcome.findings,
        settings=_settings(outcome),
        notes=(*outcome.notes, *outcome.warnings, *(note for _, notes in seen for note in notes)),
        looks=tuple(look for found, _ in seen for look in found),
    )


def device(outcome: Outcome) -> str:
    """Where the networks ran, in words."""
    used = next((r.forecaster.fitted.device for r in outcome.chosen if r.forecaster is not None), None)
    return device_words(used)


def device_words(used: "torch.device | None") -> str:
    """A device in words."""
    import torch

    if used is not None and used.type == "cuda":
        return torch.cuda.get_device_name(used)
    return f"CPU, {counted(torch.get_num_threads(), 'thread')}"


def _series(outcome: Outcome, number: int, name: str) -> report.SeriesView:
    panel = outcome.panel
    series, target = divmod(number, panel.targets)
    end = int(panel.offsets[series + 1])
    rows = min(MOST_HISTORY, max(4 * outcome.job.horizon, 2 * outcome.lookback.value, 200))
    begin = max(int(panel.offsets[series]), end - rows)
    shown = [r for r in outcome.chosen if r.answer is not None and r.stamps is not None]
    stamps = shown[0].stamps[series] if shown and shown[0].stamps is not None else panel.stamps[:0]
    said = {r.name: _prediction(r.answer, series, target) for r in shown if r.answer is not None}
    return report.SeriesView(
        id=name,
        stamps=wall(panel.stamps[begin:end], panel.layout),
        values=panel.original(slice(begin, end), series)[:, target],
        forecast=report.Forecast(wall(stamps, panel.layout), said),
        backtest=_windows(outcome, number),
    )


def _prediction(answer: Forecasts, series: int, target: int) -> report.Prediction:
    bounds = {level: (low[series, target], high[series, target]) for level, (low, high) in answer.intervals.items()}
    return report.Prediction(answer.mean[series, target], bounds)


def _windows(outcome: Outcome, number: int) -> tuple[report.Window, ...]:
    tests = {r.name: r.backtest for r in outcome.results if r.backtest is not None}
    if not tests:
        return ()
    one = next(iter(tests.values()))
    windows = []
    for w, cutoff in enumerate(wall(one.cutoffs, outcome.panel.layout)):
        if np.isnan(one.mean[w, number]).all():
            continue
        said = {name: _tested(test, w, number) for name, test in tests.items()}
        windows.append(report.Window(cutoff, wall(one.stamps[w], outcome.panel.layout), one.y[w, number], said))
    return tuple(windows)


def _tested(test: Backtest, window: int, number: int) -> report.Prediction:
    bounds = {level: (low[window, number], high[window, number]) for level, (low, high) in test.intervals.items()}
    return report.Prediction(test.mean[window, number], bounds)


def _score(result: ModelResult) -> report.Score:
    scores = result.scores
    assert scores is not None
    return report.Score(
        model=result.name,
        mse=scores.mse,
        mae=scores.mae,
        mase=scores.mase,
        smape=scores.smape,
        rmsse=scores.rmsse,
        pinball=scores.pinball,
        coverage=scores.coverage,
        is_baseline=result.baseline,
    )


def _by_step(test: Backtest) -> report.StepErrors:
    mae, mse = test.by_step()
    return report.StepErrors(mae=mae, mse=mse)


def _curves(outcome: Outcome) -> dict[str, report.Curve]:
    curves = {}
    for result in outcome.chosen:
        history = result.forecaster.fitted.history if result.forecaster is not None else None
        if history is not None and history.epochs:
            curves[result.name] = curve(history)
    return curves


def curve(history: History) -> report.Curve:
    """How a network was trained."""
    held_out = [epoch.validation_loss for epoch in history.epochs if epoch.validation_loss is not None]
    return report.Curve(
        train=np.array([epoch.train_loss for epoch in history.epochs]),
        validation=np.array(held_out, dtype=np.float64),
        best_epoch=history.best_epoch,
        ended=history.ended,
    )


def _settings(outcome: Outcome) -> dict[str, dict[str, tuple[object, str]]]:
    lookback = outcome.lookback
    sections: dict[str, dict[str, tuple[object, str]]] = {
        "forecast": {"horizon": (outcome.job.horizon, "as asked"), "lookback": (lookback.value, lookback.reason)}
    }
    for result in outcome.chosen:
        if result.forecaster is None:
            continue
        plan = result.forecaster.fitted.plan
        if plan.season is not None:
            sections["forecast"]["season"] = (plan.season.value, plan.season.reason)
        own = attention_setting(result.forecaster.fitted.name, plan.model, result.forecaster.spec.attention)
        for part, choices in (("model", {**own, **plan.model}), ("training", plan.training)):
            if choices:
                sections[f"{result.name}: {part}"] = {name: (c.value, c.reason) for name, c in choices.items()}
    return sections


def attention_setting(model: str, chosen: Mapping[str, Choice[object]], asked: Spec) -> dict[str, Choice[object]]:
    """The attention of a network as one of its settings; nothing where it has none."""
    made = models.settings_of(model)(**{name: choice.value for name, choice in chosen.items() if name != "adapters"})
    settled = models.attention_of(model, made, asked)
    if settled is None and not models.claims(model).attention:
        return {}
    name, settings = split(settled)
    words = f"{name}({', '.join(f'{key}={value}' for key, value in settings.items())})" if settings else name
    return {"attention": Choice(words, GIVEN if asked is not None else "the network's own")}


def data_facts(panel: Panel) -> report.DataFacts:
    """What was read, in numbers."""
    first, last = wall(np.array([panel.stamps.min(), panel.stamps.max()]), panel.layout)
    missing = 0.0 if panel.observed is None else 1 - float(panel.observed.mean())
    zone = f" ({panel.layout.timezone})" if panel.layout.timezone else ""
    return report.DataFacts(
        source=panel.layout.source,
        rows=len(panel.values),
        series=panel.series,
        columns=len(panel.columns),
        step=panel.step.words(),
        first=_text(first),
        last=_text(last),
        missing_share=missing,
        memory=panel.values.nbytes,
        time_name=f"{panel.layout.time_col}{zone}",
    )


def _text(stamp: NDArray[np.generic] | np.generic) -> str:
    return str(stamp).replace("T", " ").removesuffix(".000000")
