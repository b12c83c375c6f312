"""The `predict` command: forecast new rows with a saved model."""

import re
import sys
import time
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

from rearview.commands.run_files import csv_content
from rearview.commands.what_if import describe_change, write_what_if_page
from rearview.core.errors import InputError, SettingsError
from rearview.core.files import write_atomically
from rearview.core.output_folder import check_file
from rearview.core.wording import listing
from rearview.data.infer.problems import MISSING_COLUMN, MessyData, Problem
from rearview.data.io.table import Table
from rearview.data.panel import Panel
from rearview.data.read_options import ReadOptions
from rearview.estimators.forecast.forecaster import Forecaster
from rearview.estimators.forecast.frames import forecast_frame, what_if_frame
from rearview.estimators.frames import file_layout
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
) -> int:
    """Write forecasts of what follows the rows of a file; `out` None: to standard output.

    `reading` says how what the file says is read, where it is not as in training. With `what_if`, another file of known
    inputs or the values of some, forecasts as planned and as changed are written, and drawn on a `page` if it is named.
    """
    began = time.perf_counter()
    if page is not None and what_if is None:
        raise SettingsError("page (--page) draws what a change makes; say which with what_if (--what-if).")
    for place in (out, page):
        if place is not None:
            changed = what_if if isinstance(what_if, str) else None
            check_file(place, (file if isinstance(file, str) else None, future, changed, model))
    if not model.is_dir():
        wrong = "is a file" if model.exists() else "does not exist"
        raise InputError(f"{model} {wrong}; give the folder of a saved model first, then the file of new rows.")
    forecaster = Forecaster.load(model, device=device)
    if reading is not None:
        forecaster.reading = forecaster.reading.override(reading)
    panel = _read_as_trained(forecaster, file)
    warnings = [finding.message for finding in panel.findings if finding.kind != "inferred"]
    layout = file_layout(panel.layout)
    if what_if is None:
        forecasts, stamps = forecaster.forecast(panel, future=future, level=level or None)
        content = csv_content(forecast_frame(panel, forecasts, stamps, forecaster.name, layout=layout))
        notes = forecasts.notes
    else:
        made = forecaster.compare(panel, what_if, future=future)
        content = csv_content(what_if_frame(panel, made, layout=layout))
        notes = (*made.planned.notes, describe_change(panel, made))
        if page is not None:
            write_what_if_page(page, panel, made, command, began)
    for sentence in (*warnings, *notes):
        sys.stderr.write(f"{sentence}\n")
    if page is not None:
        sys.stderr.write(f"Written to {page}\n")
    if out is None:
        sys.stdout.write(content.decode())
    else:
        write_atomically(out, content)
        sys.stderr.write(f"Written to {out}\n")
    return 0


def _read_as_trained(forecaster: Forecaster, file: str | Table) -> Panel:
    """New rows; a refusal names the layout they need instead of flags that only a training has."""
    try:
        return forecaster.read_new(file)
    except InputError as error:
        met = error.problems if isinstance(error, MessyData) else (Problem("file", str(error)),)
        told = [replace(problem, message=_without_foreign_flags(problem)) for problem in met]
        same = all(one.message == other.message for one, other in zip(told, met, strict=True))
        if same and met[0].what != MISSING_COLUMN:
            raise
        layout, fitted = forecaster.tail.layout, forecaster.fitted
        names = [layout.id_col] if layout.id_col else []
        names += [layout.time_col, *([layout.target_col] if layout.target_col else fitted.columns)]
        wrong = str(MessyData(error.source if isinstance(error, MessyData) else "", told))
        raise InputError(
            f"{wrong}{chr(10) if len(told) > 1 else ' '}The model was trained on a {layout.form} file with the columns "
            f"{listing(names)}; bring new rows in that layout."
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
