"""The terminal output of the `detect` command."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rearview.commands.console import (
    list_choices,
    new_console,
    number_or_dash,
    output,
    print_dim,
    print_end,
    print_preview,
    print_table,
    progress_stream,
)
from rearview.commands.detect.files import in_file_time, write
from rearview.commands.detect.job import run
from rearview.commands.detect.page import measures
from rearview.commands.detect.rows import Job, read_rows
from rearview.core.output_folder import OutputFolder, check_folder
from rearview.core.wording import quantity
from rearview.estimators.detect import frames
from rearview.estimators.detect.detection import Detection, prepare
from rearview.train import Line

if TYPE_CHECKING:
    from rich.console import Console

MOST_PRINTED = 10


def detect_command(job: Job, out: Path, command: str, *, overwrite: bool = False) -> int:
    """Run a detection job, write its files and print the result; `command` repeats the run."""
    if output.get().dry_run:
        return _preview(job, out, overwrite)
    console = new_console()
    with OutputFolder.claim(out, "detect", inputs=(job.file, job.fit, job.model), overwrite=overwrite) as folder:
        outcome = run(job, out, progress=Line(progress_stream(), log=output.get().verbose), say=print_dim(console))
        written = folder.publish(lambda place: write(outcome, place, command), finished=not outcome.interrupted)
    calibration = outcome.detector.fitted.calibration
    console.print(f"\nthreshold = {calibration.threshold_elsewhere:.4g}  ({calibration.drawn})", style="dim")
    _print_segments(console, in_file_time(outcome))
    if outcome.assessment is not None:
        cells = [(name, number_or_dash(value, ".3f"), meaning) for name, (value, meaning) in measures(outcome).items()]
        print_table(console, "Against the labels", ("measure", "value", "what it is"), cells, right=("value",))
    return print_end(console, outcome, out, written, {"anomalies": frames.segment_columns(in_file_time(outcome))})


def _preview(job: Job, out: Path, overwrite: bool) -> int:
    """Print what a job would do and write."""
    check_folder(out, "detect", inputs=(job.file, job.fit, job.model), overwrite=overwrite)
    rows = read_rows(job, print_dim(new_console()))
    work = f"judge {quantity(len(rows.panel.values), 'row')} of {quantity(len(rows.panel.columns), 'channel')}"
    if rows.learned is None:
        lines = [f"Plan: {work} with the {rows.detector.fitted.name} of {job.model}."]
    else:
        plan = prepare(rows.learned, rows.detector.spec).plan
        lines = [
            f"Plan: learn from {quantity(len(rows.learned.values), 'row')} of {rows.learned.layout.source}, {work}.",
            *list_choices(*plan.sections().values()),
        ]
    facts = {"file": job.file, "rows": len(rows.panel.values), "channels": list(rows.panel.columns), "plan": lines}
    facts |= {"findings": [asdict(finding) for finding in rows.panel.findings], "notes": list(rows.notes)}
    files = ["anomalies.csv", "scores.csv", *(["model"] if rows.learned is not None else [])]
    return print_preview([*lines, *rows.notes], facts, out, files)


def _print_segments(console: "Console", detection: Detection) -> None:
    if not detection.segments:
        return
    parts = sorted(detection.segments, key=lambda part: -part.score / (detection.thresholds[part.series] or 1))
    shown = "" if len(parts) <= MOST_PRINTED else f", the {MOST_PRINTED} highest of {len(parts):,}"
    ids = ["unique_id"] if detection.panel.series > 1 else []
    columns = frames.segment_columns(replace(detection, segments=tuple(parts[:MOST_PRINTED])))
    rows = [
        [
            *(str(columns[name][row]) for name in (*ids, "start", "end", "rows")),
            f"{columns['score'][row]:.4g}",
            columns["channels"][row],
        ]
        for row in range(min(MOST_PRINTED, len(parts)))
    ]
    heads = (*(["series"] if ids else []), "start", "end", "rows", "score", "channels")
    print_table(console, f"Anomalies{shown}", heads, rows, right=("rows", "score"))
