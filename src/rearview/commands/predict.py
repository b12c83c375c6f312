"""The `predict` command: forecast new rows with a saved model."""

import re
import sys
from itertools import takewhile
from pathlib import Path

from rearview.commands.run_files import csv_content
from rearview.core.errors import InputError
from rearview.core.files import write_atomically
from rearview.core.output_folder import check_file
from rearview.core.wording import listing
from rearview.data.io.table import Table
from rearview.data.panel import Panel
from rearview.estimators.forecast.forecaster import Forecaster
from rearview.estimators.forecast.frames import forecast_frame
from rearview.estimators.frames import file_layout


def predict_command(
    model: Path, file: str | Table, future: str | None, level: tuple[float, ...], out: Path | None, device: str
) -> int:
    """Write forecasts of what follows the rows of a file; `out` None: to standard output."""
    if out is not None:
        check_file(out, (file if isinstance(file, str) else None, future, model))
    if not model.is_dir():
        wrong = "is a file" if model.exists() else "does not exist"
        raise InputError(f"{model} {wrong}; give the folder of a saved model first, then the file of new rows.")
    forecaster = Forecaster.load(model, device=device)
    panel = _read_as_trained(forecaster, file)
    forecasts, stamps = forecaster.forecast(panel, future=future, level=level or None)
    warnings = [finding.message for finding in panel.findings if finding.kind != "inferred"]
    for sentence in (*warnings, *forecasts.notes):
        sys.stderr.write(f"{sentence}\n")
    layout = file_layout(panel.layout)
    content = csv_content(forecast_frame(panel, forecasts, stamps, forecaster.name, layout=layout))
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
    except InputError as problem:
        clauses = re.split(r"(?<=[;.]) ", str(problem))
        kept = list(takewhile(lambda clause: "--" not in clause, clauses))
        if len(kept) == len(clauses):
            raise
        layout, fitted = forecaster.tail.layout, forecaster.fitted
        names = [layout.id_col] if layout.id_col else []
        names += [layout.time_col, *([layout.target_col] if layout.target_col else fitted.columns)]
        wrong = " ".join(kept or [re.sub(r" \(--[^)]*\)", "", clauses[0])]).rstrip(".;")
        raise InputError(
            f"{wrong}. The model was trained on a {layout.form} file with the columns {listing(names)}; bring new rows "
            "in that layout."
        ) from problem
