"""The row of a run that broke off: what was requested, and why there is no number."""

import math
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import torch

from rearview import __version__
from rearview.bench import tasks
from rearview.bench.rows.row import RunRow
from rearview.bench.runs import provenance
from rearview.bench.runs.request import Request

if TYPE_CHECKING:
    from rearview.bench.runs.run_spec import RunSpec


def failed_row(run: "RunSpec | Request", device: str, problem: Exception) -> RunRow:
    """A row without measures; a request that could not even be resolved is stated as it was given."""
    kind = tasks.get(run.task).row
    given = {name: value for name, value in run.columns().items() if name in kind.CONFIGURATION}
    broken_off = {
        "version": __version__,
        "commit": provenance.commit(),
        "device": device,
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "status": "failed",
        "problem": " ".join(f"{type(problem).__name__}: {problem}".split()),
    }
    nothing = {field.name: _nothing(field.name, field.type) for field in fields(kind) if field.default is MISSING}
    return kind.build({**nothing, **given, **broken_off})


def _nothing(column: str, kind: object) -> object:
    """The value of a column in the row of a run that failed."""
    if column == "borders":
        return "{}"
    if kind is float:
        return 0.0 if column.endswith("_seconds") else math.nan
    return {str: "", int: 0}.get(kind)  # type: ignore[call-overload]  # None for a column that may be empty
