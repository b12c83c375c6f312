"""The files of a forecast run: forecast.csv, backtest.csv, model/, report.html, summary.md, run.json."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rearview.commands.forecast.job import ModelResult, Outcome
from rearview.commands.forecast.page import summary
from rearview.commands.run_files import end_facts, plain, write_results
from rearview.estimators.auto.ensemble import Ensemble
from rearview.estimators.forecast.frames import backtest_frame, forecast_frame
from rearview.estimators.forecast.prediction import Fitted
from rearview.estimators.frames import Columns, file_layout


def write(outcome: Outcome, folder: Path, command: str) -> list[Path]:
    """Write everything to a new folder and return what was written."""
    layout = file_layout(outcome.panel.layout)
    tables = {"forecast.csv": forecast_columns(outcome)}
    for name, backtest in outcome.backtests.items():
        tables.setdefault("backtest.csv", {}).update(backtest_frame(backtest, layout, name))

    def save(place: Path) -> None:
        for name, final in outcome.finals.items():
            final.forecaster.save(place if len(outcome.finals) == 1 else place / name)

    return write_results(folder, tables, save, summary(outcome, command), _facts(outcome))


def forecast_columns(outcome: Outcome) -> Columns:
    """The forecasts of all models that were asked for, side by side."""
    layout, forecasts = file_layout(outcome.panel.layout), dict[str, Any]()
    for name, final in outcome.finals.items():
        forecasts |= forecast_frame(
            outcome.panel, final.forecasts, final.stamps, name, layout=layout, members=outcome.job.members
        )
    return forecasts


def _facts(outcome: Outcome) -> dict[str, object]:
    """The run as plain data: spec, data, plan, measures."""
    panel = outcome.panel
    return {
        "file": outcome.job.file,
        "horizon": outcome.job.spec.horizon,
        "lookback": asdict(outcome.lookback),
        "series": panel.series,
        "left_out": list(outcome.left_out),
        "rows": len(panel.values),
        "columns": list(panel.columns),
        "targets": list(panel.target_names),
        "inputs": [asdict(one) for one in outcome.inputs],
        "step": str(panel.step),
        **end_facts(outcome),
        "models": {result.name: _model_facts(result) for result in outcome.results},
    }


def _model_facts(result: ModelResult) -> dict[str, object]:
    facts: dict[str, object] = {"baseline": result.final is None}
    if result.scores is not None:
        facts["backtest"] = plain(asdict(result.scores))
    fitted = result.fits[0] if result.fits else None
    if isinstance(fitted, Ensemble) and result.final is not None:
        facts["request"] = fitted.spec.to_dict()
        facts["leaderboard"] = [plain(asdict(one)) for one in fitted.leaderboard]
    if isinstance(fitted, Fitted):
        sections = fitted.plan.sections().items()
        facts["request"] = fitted.spec.to_dict()
        facts["plan"] = {section: {name: asdict(c) for name, c in choices.items()} for section, choices in sections}
        facts["windows"] = fitted.windows
        facts["parameters"] = fitted.parameters
        facts["history"] = None if fitted.history is None else fitted.history.to_dict()
    return facts
