"""The files and the printing of a detection run: anomalies.csv, scores.csv, model/, report.html, run.json."""

import json
import platform
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import rearview
from rearview import report
from rearview.commands.detect.job import Outcome, run
from rearview.commands.detect.rows import Job
from rearview.commands.forecast import page
from rearview.commands.forecast.console import ended, new_console
from rearview.commands.forecast.files import csv, plain
from rearview.commands.output_folder import check_folder
from rearview.core.files import write_atomically
from rearview.data.infer.timestamps import wall
from rearview.data.panel import Panel
from rearview.estimators.detect import frames
from rearview.estimators.detect.fit import Detection
from rearview.estimators.detect.segments import shares
from rearview.estimators.forecast.frames import file_layout
from rearview.tasks.alarms import runs
from rearview.train import Line

MEASURES = {
    "precision": ("Precision", "rows flagged rightly, counted one by one at the threshold"),
    "recall": ("Recall", "anomalous rows flagged, counted one by one at the threshold"),
    "f1": ("F1", "of these two; the threshold has seen no label"),
    "best_f1": ("Best F1", "of any threshold, chosen with the labels: an upper bound"),
    "auc_pr": ("AUC-PR", "average precision over all thresholds"),
    "auc_roc": ("AUC-ROC", "an anomalous row scores above an ordinary one this often"),
    "vus_pr": (
        "VUS-PR",
        "area under precision and recall, near misses within a window counted in part",
    ),
    "range_f1": ("Range F1", "range-based: overlap of ranges, over the pieces they are found in"),
    "event_precision": ("Event precision", "anomalies found, close flags joined as listed, that hit a marked row"),
    "event_recall": ("Event recall", "marked anomalies that a flagged row touches"),
    "adjusted_f1": ("Point-adjusted F1", "one hit flags a whole anomaly: edited by the labels, the field's number"),
    "adjusted_f1_by_chance": ("Point-adjusted F1 by chance", "of as many flags thrown at random"),
}
"""Field of an assessment -> its name and what it is, in the order of tables."""


def detect_command(job: Job, out: Path, command: str) -> int:
    """Run a detection job, write its files and print what came of it; `command` is how to make the run again."""
    check_folder(out, "detect")
    console = new_console()
    outcome = run(job, out, progress=Line(), say=lambda sentence: console.print(sentence, style="dim"))
    written = write(outcome, out, command)
    fitted = outcome.detector.fitted
    console.print(
        f"\nthreshold = {fitted.calibration.threshold_elsewhere:.4g}  ({fitted.calibration.drawn})", style="dim"
    )
    _print_segments(console, outcome.found)
    _print_measures(console, outcome)
    return ended(console, outcome, out, written)


def write(outcome: Outcome, folder: Path, command: str) -> list[Path]:
    """Write everything and return what was written; each file whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    found = replace(outcome.found, panel=_named(outcome.found.panel))
    contents = {"anomalies.csv": frames.segment_columns(found), "scores.csv": frames.flag_columns(found)}
    written = []
    for name, columns in contents.items():
        write_atomically(folder / name, csv(columns))
        written.append(folder / name)
    if outcome.fresh:
        outcome.detector.save(folder / "model")
        written.append(folder / "model")
    report.write(folder / "report.html", summary(outcome, command))
    write_atomically(folder / "run.json", json.dumps(_run(outcome, command), indent=1) + "\n")
    written += [folder / "report.html", folder / "run.json"]
    if not outcome.interrupted:
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return written


def summary(outcome: Outcome, command: str) -> report.DetectionSummary:
    """What the page shows."""
    found, fitted = outcome.found, outcome.detector.fitted
    history = fitted.history
    return report.DetectionSummary(
        title=f"Anomalies in {outcome.job.file}",
        verdict=outcome.verdict,
        command=command,
        device=page.device_words(fitted.device),
        seconds=outcome.seconds,
        data=page.data_facts(found.panel),
        channels=found.panel.columns,
        entities=tuple(_entity(outcome, series) for series in range(found.panel.series)),
        measures=_measures(outcome),
        curves={fitted.name: page.curve(history)} if history is not None and history.epochs else {},
        findings=outcome.findings,
        settings=_settings(outcome),
        notes=(*outcome.notes, *outcome.warnings),
    )


def _entity(outcome: Outcome, series: int) -> report.EntityView:
    found = outcome.found
    panel = found.panel
    a, b = panel.bounds()[series]
    flagged = found.scores.channels[a:b][found.flags[a:b]]
    labels = [] if outcome.labels is None else runs(outcome.labels[a:b] == 1).tolist()
    return report.EntityView(
        id=panel.ids[series],
        stamps=wall(panel.stamps[a:b], panel.layout),
        values=panel.original(slice(a, b), series),
        score=found.scores.rows[a:b],
        threshold=float(found.thresholds[series]),
        segments=tuple(
            report.SegmentView(part.first - a, part.last - a, part.peak - a, part.score, part.channels)
            for part in found.segments
            if part.series == series
        ),
        shares=shares(flagged if len(flagged) else found.scores.channels[a:b]),
        labels=tuple((first, end - 1) for first, end in labels),
    )


def _measures(outcome: Outcome) -> dict[str, tuple[float, str]]:
    if outcome.assessment is None:
        return {}
    return {name: (getattr(outcome.assessment, key), meaning) for key, (name, meaning) in MEASURES.items()}


def _settings(outcome: Outcome) -> dict[str, dict[str, tuple[object, str]]]:
    fitted = outcome.detector.fitted
    request, plan = fitted.spec, fitted.plan
    asked: dict[str, tuple[object, str]] = {
        "model": (fitted.name, ""),
        "mode": (
            request.mode,
            "the error of giving a window back"
            if request.mode == "reconstruct"
            else "the error of forecasting a row from those before it",
        ),
        "lookback": (request.lookback, plan.lookback.reason),
        "threshold": (float(f"{fitted.calibration.threshold_elsewhere:.6g}"), fitted.calibration.drawn),
        "stride": (request.step, "rows from one scored window to the next"),
    }
    sections = {"detection": asked}
    own = page.attention_setting(fitted.name, plan.model, request.attention)
    for part, choices in (("model", {**own, **plan.model}), ("training", plan.training)):
        if choices:
            sections[f"{fitted.name}: {part}"] = {name: (c.value, c.reason) for name, c in choices.items()}
    return sections


def _run(outcome: Outcome, command: str) -> dict[str, Any]:
    """The run as plain data: what was asked, found and measured."""
    import torch

    found, fitted = outcome.found, outcome.detector.fitted
    panel = found.panel
    return {
        "rearview": rearview.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": page.device_words(fitted.device),
        "command": command,
        "file": outcome.job.file,
        "fitted_on": outcome.job.fit or (str(outcome.job.model) if outcome.job.model else outcome.job.file),
        "series": panel.series,
        "rows": len(panel.values),
        "channels": list(panel.columns),
        "step": str(panel.step),
        "model": fitted.name,
        "request": fitted.spec.to_dict(),
        "plan": {part: {k: asdict(c) for k, c in choices.items()} for part, choices in fitted.plan.sections().items()},
        "windows": fitted.windows,
        "parameters": sum(weight.numel() for weight in fitted.network.parameters()),
        "history": None if fitted.history is None else fitted.history.to_dict(),
        "thresholds": plain(dict(zip(panel.ids, found.thresholds.tolist(), strict=True))),
        "threshold_drawn": fitted.calibration.drawn,
        "flagged": int(found.flags.sum()),
        "segments": len(found.segments),
        "assessment": None if outcome.assessment is None else plain(asdict(outcome.assessment)),
        "findings": [asdict(finding) for finding in outcome.findings],
        "notes": list(outcome.notes),
        "warnings": list(outcome.warnings),
        "verdict": outcome.verdict,
        "interrupted": outcome.interrupted,
        "seconds": round(outcome.seconds, 3),
    }


def _named(panel: Panel) -> Panel:
    """Files are always long, with the field's column names."""
    return replace(panel, layout=file_layout(panel.layout))


def _print_segments(console: Any, found: Detection, most: int = 10) -> None:
    from rich.table import Table

    if not found.segments:
        return
    parts = sorted(found.segments, key=lambda part: -part.score / (found.thresholds[part.series] or 1))
    shown = "" if len(parts) <= most else f", the {most} highest of {len(parts):,}"
    table = Table(title=f"Anomalies{shown}", title_justify="left")
    several = found.panel.series > 1
    for column in (("series",) if several else ()) + ("start", "end", "rows", "score", "channels"):
        table.add_column(column, justify="right" if column in ("rows", "score") else "left")
    columns = frames.segment_columns(replace(found, panel=_named(found.panel), segments=tuple(parts[:most])))
    for row in range(min(most, len(parts))):
        cells = [str(columns[name][row]) for name in ("start", "end", "rows")]
        ids = [str(columns["unique_id"][row])] if several else []
        table.add_row(*ids, *cells, f"{columns['score'][row]:.4g}", columns["channels"][row])
    console.print()
    console.print(table)


def _print_measures(console: Any, outcome: Outcome) -> None:
    from rich.table import Table

    if outcome.assessment is None:
        return
    table = Table(title="Against the labels", title_justify="left")
    table.add_column("measure")
    table.add_column("value", justify="right")
    table.add_column("what it is")
    for name, (value, meaning) in _measures(outcome).items():
        table.add_row(name, "-" if np.isnan(value) else f"{value:.3f}", meaning)
    console.print()
    console.print(table)
