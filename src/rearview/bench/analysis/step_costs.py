"""The cost of a training step of a mechanism, measured apart from the runs: rows of results/step_cost.csv.

Runs of a sweep share their device, so their own seconds say nothing of speed; these were measured one at a time
(`benchmarks/step_cost.py`).
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rearview.bench.rows.identity import mechanism_of
from rearview.bench.rows.row import Facts, RunRow
from rearview.core.errors import InputError

CAPS_PATHS = 3
COLUMNS = ("arm", "model", "dataset", "lookback", "horizon", "parameters", "ms_per_step")


@dataclass(frozen=True, slots=True)
class StepCost:
    """The time of one training step of a network with a mechanism, on one data set at one size."""

    arm: str
    model: str
    dataset: str
    lookback: int
    horizon: int
    parameters: int
    milliseconds: float

    def is_of(self, row: RunRow) -> bool:
        """Whether it was measured on the network, mechanism and sizes of a run."""
        place = (row.model, row.dataset, row.lookback, getattr(row, "horizon", None), row.parameters)
        own = (self.model, self.dataset, self.lookback, self.horizon, self.parameters)
        # Softmax was measured at other sizes too, which have the same arm.
        return place == own and self.arm.removesuffix("_wide").removesuffix("_ff") == arm_of(
            row.attention, mechanism_of(row.configuration)
        )


def holds_costs(path: Path) -> bool:
    """Whether a file's first line names the columns of such measurements."""
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        return set(COLUMNS) <= set(next(csv.reader(file), []))


def read(path: Path) -> list[StepCost]:
    """The measurements of a file; a line that is none is refused."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    costs = []
    try:
        for row in rows:
            lookback, horizon, parameters = (int(row[name]) for name in COLUMNS[3:6])
            place = (row["arm"], row["model"], row["dataset"], lookback, horizon, parameters)
            costs.append(StepCost(*place, float(row["ms_per_step"])))
    except (TypeError, ValueError) as problem:
        raise InputError(f"{path} holds a line that is no cost of a step ({problem}); mend it.") from None
    return costs


def find(costs: Sequence[StepCost], rows: Iterable[RunRow]) -> float | None:
    """Milliseconds of a step of the first run that was measured; None where none was."""
    return next((cost.milliseconds for row in rows for cost in costs if cost.is_of(row)), None)


def arm_of(attention: str, settings: Facts) -> str:
    """A mechanism as the file names it: toa_gated_l2, mica_rbca, causal, softmax_rotary, caps_softmax."""
    parts: list[object] = ["causal" if settings.get("bias") == "causal" else attention]
    if attention == "toa":
        parts += [settings.get("kind"), settings.get("score_norm")]
    elif attention == "softmax" and settings.get("rotary"):
        parts.append("rotary")
    elif attention == "caps":
        paths = settings.get("paths")
        parts += paths if isinstance(paths, list | tuple) and len(paths) < CAPS_PATHS else ()
        parts += ["softmax"] if settings.get("normaliser") == "softmax" else ()
    inner = settings.get({"mica": "local", "toa": "bias"}.get(attention, ""))
    if isinstance(inner, dict) and inner.get("name") != "softmax":
        parts.append(inner["name"])
    return "_".join(str(part) for part in parts if part and part != "none")
