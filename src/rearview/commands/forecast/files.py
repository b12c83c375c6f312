"""The files of a forecast run: forecast.csv, backtest.csv, model/, report.html, run.json."""

import json
import math
import platform
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import rearview
from rearview import report
from rearview.commands.forecast.job import Outcome
from rearview.commands.forecast.page import device, summary
from rearview.core.files import write_atomically
from rearview.core.model_folder import FORECASTER
from rearview.data.panel import Layout
from rearview.estimators.forecast.frames import backtest_frame, file_layout, forecast_frame
from rearview.estimators.frames import to_native


def write(outcome: Outcome, folder: Path, command: str) -> list[Path]:
    """Write everything and return what was written; each file whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "forecast.csv"]
    write_atomically(written[0], csv(_forecast(outcome)))
    if outcome.windows:
        written.append(folder / "backtest.csv")
        write_atomically(written[-1], csv(_backtest(outcome)))
    else:
        (folder / "backtest.csv").unlink(missing_ok=True)
    _save_models(outcome, folder / "model")
    written.append(folder / "model")
    report.write(folder / "report.html", summary(outcome, command))
    write_atomically(folder / "run.json", json.dumps(_run(outcome, command), indent=1) + "\n")
    written += [folder / "report.html", folder / "run.json"]
    if not outcome.interrupted:
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return written


def _save_models(outcome: Outcome, folder: Path) -> None:
    """One model in the folder itself, several in folders of their own; models of an earlier run don't stay beside."""
    single = len(outcome.chosen) == 1
    places = {folder if single else folder / r.name: r.forecaster for r in outcome.chosen if r.forecaster is not None}
    for place, forecaster in places.items():
        forecaster.save(place)
    for manifest in (*folder.glob(FORECASTER.manifest), *folder.glob(f"*/{FORECASTER.manifest}")):
        if manifest.parent not in places:
            FORECASTER.discard(manifest.parent)


def _forecast(outcome: Outcome) -> dict[str, Any]:
    panel = outcome.panel
    layout = file_layout(panel.layout)
    columns: dict[str, Any] = {}
    for result in outcome.chosen:
        if result.answer is None or result.stamps is None:
            continue
        columns |= forecast_frame(panel, result.answer, result.stamps, result.name, layout=layout)
    return columns


def _backtest(outcome: Outcome) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    layout = file_layout(outcome.panel.layout)
    for result in outcome.results:
        if result.backtest is not None:
            columns |= backtest_frame(result.backtest, layout, result.name)
    return columns


def csv(columns: dict[str, Any]) -> bytes:
    """Columns as the content of a CSV file; what is missing is empty."""
    frame = to_native(columns, Layout(form="long", time_col="ds"))
    text = frame.fill_nan(None).write_csv() if hasattr(frame, "write_csv") else frame.to_csv(index=False)
    return str(text).encode()


def _run(outcome: Outcome, command: str) -> dict[str, Any]:
    """The run as plain data: what was asked, found, chosen and measured."""
    import torch

    panel = outcome.panel
    return {
        "rearview": rearview.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": device(outcome),
        "command": command,
        "file": outcome.job.file,
        "horizon": outcome.job.horizon,
        "lookback": asdict(outcome.lookback),
        "series": panel.series,
        "left_out": list(outcome.left_out),
        "rows": len(panel.values),
        "columns": list(panel.columns),
        "targets": list(panel.target_names),
        "step": str(panel.step),
        "findings": [asdict(finding) for finding in outcome.findings],
        "notes": list(outcome.notes),
        "warnings": list(outcome.warnings),
        "verdict": outcome.verdict,
        "interrupted": outcome.interrupted,
        "seconds": round(outcome.seconds, 3),
        "models": {result.name: _model(result) for result in outcome.results},
    }


def _model(result: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"baseline": result.baseline}
    if result.scores is not None:
        facts["backtest"] = plain(asdict(result.scores))
    fitted = result.forecaster.fitted if result.forecaster is not None else None
    if fitted is None and result.backtest is not None:
        fitted = result.backtest.fitted
    if fitted is not None:
        facts["request"] = fitted.spec.to_dict()
        facts["plan"] = {
            section: {name: {"value": choice.value, "reason": choice.reason} for name, choice in choices.items()}
            for section, choices in fitted.plan.sections().items()
        }
        facts["windows"] = fitted.windows
        facts["parameters"] = sum(p.numel() for p in fitted.network.parameters())
        facts["history"] = None if fitted.history is None else fitted.history.to_dict()
    return facts


def plain(value: Any) -> Any:
    """JSON has no NaN: what could not be computed is null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
