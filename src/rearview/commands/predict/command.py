"""The `predict` command: a saved model on new rows or cases; what kind it is, its folder says."""

import re
import sys
import time
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

from rearview.commands.console import output, print_json, say, warn
from rearview.commands.predict.what_if import describe_change, write_what_if_page
from rearview.commands.run_files import csv_content, list_records
from rearview.core.errors import InputError, SettingsError, UsageError
from rearview.core.files import write_atomically
from rearview.core.model_folder import CLASSIFIER, DETECTOR, FORECASTER, KINDS
from rearview.core.output_folder import check_file, find_model
from rearview.core.wording import listing
from rearview.data.infer.problems import MISSING_COLUMN, MessyData, Problem
from rearview.data.io.table import Table
from rearview.data.panel import Panel
from rearview.data.read_options import ReadOptions
from rearview.estimators.forecast.forecaster import Forecaster
from rearview.estimators.forecast.frames import forecast_frame, what_if_frame
from rearview.estimators.frames import Columns, file_layout
from rearview.estimators.options import TextKeywords


def predict_command(
    model: Path,
    file: str | Table,
    future: str | None,
    level: tuple[float, ...],
    out: Path | None,
    device: str,
    reading: ReadOptions | None = None,
    *,
    what_if: str | Mapping[str, object] | None = None,
    page: Path | None = None,
    command: str = "",
    members: bool = False,
) -> int:
    """Write what a saved model says of a file; `out` None: to standard output.

    A forecaster forecasts what follows its rows, a detector judges them, a classifier classifies its cases. `reading`
    says how what the file says is read, where it is not as in training. With `what_if`, another file of known inputs or
    the values of some, forecasts as planned and as changed are written, and drawn on a `page` if it is named. With
    `members` the forecasts of a portfolio's members are written, too.
    """
    began = time.perf_counter()
    if page is not None and what_if is None:
        raise SettingsError("page (--page) draws the effect of a change; name the change with what_if (--what-if).")
    out = None if out == Path("/dev/stdout") else out
    for flag, place in (("--out", out), ("--page", page)):
        if place is not None:
            changed = what_if if isinstance(what_if, str) else None
            check_file(place, (file if isinstance(file, str) else None, future, changed, model), flag)
    if not model.is_dir():
        wrong = "is a file" if model.exists() else "does not exist"
        raise InputError(f"{model} {wrong}; give the folder of a saved model first, then the file of new rows.")
    model = find_model(model)
    kind = next((kind for kind in KINDS if (model / kind.manifest).is_file()), FORECASTER)
    if kind is not FORECASTER and members:
        raise UsageError(f"{model} holds a {kind.word}, not a portfolio that forecasts; leave --members out.")
    if kind is not FORECASTER and (future is not None or level or what_if is not None):
        raise UsageError(
            f"{model} holds a {kind.word}; --future, --what-if and --level are for a forecaster, leave them out."
        )
    if kind is CLASSIFIER:
        rows, columns, notes = _classify(model, file, device, reading)
    elif kind is DETECTOR:
        rows, columns, notes = _detect(model, file, device, reading)
    else:
        forecaster = Forecaster.load(model, device=device)
        if reading is not None:
            forecaster.reading = forecaster.reading.override(reading)
        panel = _read_as_trained(forecaster, file)
        rows, layout = "forecast", file_layout(panel.layout)
        if what_if is None:
            forecasts, stamps = forecaster.forecast(panel, future=future, level=level or None)
            columns = forecast_frame(panel, forecasts, stamps, forecaster.name, layout=layout, members=members)
            notes = (*_warnings(panel), *forecasts.notes)
        else:
            effect = forecaster.compare(panel, what_if, future=future)
            columns = what_if_frame(panel, effect, layout=layout)
            notes = (*_warnings(panel), *effect.planned.notes, describe_change(panel, effect))
            if page is not None:
                write_what_if_page(page, panel, effect, command, began)
                notes = (*notes, f"Written to {page}")
    for sentence in notes:
        warn(sentence)
    print_json({"model": str(model), "kind": kind.word, "notes": list(notes), rows: list_records(columns)})
    if out is not None:
        write_atomically(out, csv_content(columns))
        say(f"Written to {out}")
    elif not output.get().json:
        sys.stdout.write(csv_content(columns).decode())
    return 0


def _detect(
    model: Path, file: str | Table, device: str, reading: ReadOptions | None
) -> tuple[str, Columns, tuple[str, ...]]:
    """(what the rows are, the rows, what there is to know); `_classify` likewise."""
    from rearview.estimators.detect import frames
    from rearview.estimators.detect.detection import detect
    from rearview.estimators.detect.detector import Detector

    detector = Detector.load(model, device=device)
    if reading is not None:
        detector.reading = detector.reading.override(reading)
    panel, _ = detector.read_new(file)
    detection = detect(detector.fitted, panel)
    shown = replace(detection, panel=replace(panel, layout=file_layout(panel.layout)))
    return "scores", frames.flag_columns(shown), (*_warnings(panel), *detection.notes)


def _classify(
    model: Path, file: str | Table, device: str, reading: ReadOptions | None
) -> tuple[str, Columns, tuple[str, ...]]:
    from rearview.commands.classify.files import prediction_columns
    from rearview.commands.classify.job import Job, run
    from rearview.estimators.classify.spec import ClassifySpec

    if reading is not None and reading != ReadOptions():
        raise UsageError(
            f"{model} holds a classifier, whose cases are read as they are; leave the options of reading out."
        )
    outcome = run(Job(test=str(file), model=model, spec=ClassifySpec(device=device)), model)
    return "predictions", prediction_columns(outcome), outcome.notes


def _warnings(panel: Panel) -> list[str]:
    return [finding.message for finding in panel.findings if finding.kind != "inferred"]


def _read_as_trained(forecaster: Forecaster, file: str | Table) -> Panel:
    """New rows; a refusal names the layout they need instead of flags that only a training has."""
    try:
        return forecaster.read_new(file)
    except InputError as error:
        problems = error.problems if isinstance(error, MessyData) else (Problem("file", str(error)),)
        reworded = [replace(problem, message=_without_foreign_flags(problem)) for problem in problems]
        same = all(one.message == other.message for one, other in zip(reworded, problems, strict=True))
        if same and problems[0].what != MISSING_COLUMN:
            raise
        layout, fitted = forecaster.tail.layout, forecaster.fitted
        names = [layout.id_col] if layout.id_col else []
        names += [layout.time_col, *([layout.target_col] if layout.target_col else fitted.columns)]
        wrong = str(MessyData(error.source if isinstance(error, MessyData) else "", reworded))
        raise InputError(
            f"{wrong}{chr(10) if len(reworded) > 1 else ' '}The model was trained on a {layout.form} file with the "
            f"columns {listing(names)}; bring new rows in that layout."
        ) from error


def _without_foreign_flags(problem: Problem) -> str:
    """The sentence of a problem without the advice that names flags of training."""
    flags = {f"--{each.name.replace('_', '-')}" for each in fields(TextKeywords)}
    clauses = re.split(r"(?<=[;.]) ", problem.message)
    foreign = [not flags.issuperset(re.findall(r"--[a-z-]+", clause)) for clause in clauses]
    if not any(foreign):
        return problem.message
    kept = clauses[: foreign.index(True)]
    return " ".join(kept or [re.sub(r" \(--[^)]*\)", "", clauses[0])]).rstrip(".;") + "."
