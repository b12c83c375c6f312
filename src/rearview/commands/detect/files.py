"""The files of a detection run: anomalies.csv, scores.csv, model/, report.html, summary.md, run.json."""

from dataclasses import asdict, replace
from pathlib import Path

from rearview.commands.detect.job import Outcome
from rearview.commands.detect.page import standings, summary
from rearview.commands.run_files import end_facts, plain, write_results
from rearview.estimators.detect import frames
from rearview.estimators.detect.detection import Detection
from rearview.estimators.frames import file_layout


def write(outcome: Outcome, folder: Path, command: str) -> list[Path]:
    """Write everything to a new folder and return what was written."""
    detection = in_file_time(outcome)
    tables = {"anomalies.csv": frames.segment_columns(detection), "scores.csv": frames.flag_columns(detection)}
    save = outcome.detector.save if outcome.fresh else None
    return write_results(folder, tables, save, summary(outcome, command), _facts(outcome))


def in_file_time(outcome: Outcome) -> Detection:
    """The detection with stamps as files have them."""
    panel = outcome.detection.panel
    return replace(outcome.detection, panel=replace(panel, layout=file_layout(panel.layout)))


def _facts(outcome: Outcome) -> dict[str, object]:
    """The run as plain data: spec, data, plan, measures."""
    detection, fitted = outcome.detection, outcome.detector.fitted
    panel = detection.panel
    return {
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
        "parameters": fitted.parameters,
        "history": None if fitted.history is None else fitted.history.to_dict(),
        "members": [asdict(standing) for standing in standings(fitted)],
        "thresholds": plain(dict(zip(panel.ids, detection.thresholds.tolist(), strict=True))),
        "threshold_drawn": fitted.calibration.drawn,
        "flagged": int(detection.flags.sum()),
        "segments": len(detection.segments),
        "assessment": None if outcome.assessment is None else plain(asdict(outcome.assessment)),
        **end_facts(outcome),
    }
