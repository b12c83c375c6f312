"""Milliseconds that benchmarks measured, off their files: inference of `scaling.py`, steps of `train_speed.py`."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rearview.core.errors import InputError

_GATE = "mlp_query"
"""MICA's gate in the rows of scaling.py, which name the mechanism alone."""


@dataclass(frozen=True, slots=True)
class Timed:
    """One measurement of a network."""

    metric: str
    """The papers' name: ms of inference, ms_train_step."""
    network: str
    """As its file names it: a network, or one and its mechanism."""
    sizes: tuple[int, ...]
    """(channels, look-back, steps ahead); empty where the network's name tells them."""
    milliseconds: float
    where: str
    """Device, mode and batch."""

    def is_of(self, cell: Any) -> bool:
        """Whether it is a measurement of the network of a table's cell, at its sizes."""
        if self.metric == "ms_train_step":
            return bool(cell.host) and self.network == f"{cell.host} {_in_a_step(cell.attention)}"
        return self.network == network_name(cell) and self.sizes == (cell.channels, cell.lookback, cell.horizon)


def network_name(cell: Any) -> str:
    """A cell's network as the rows of scaling.py name it; empty: they have none of it."""
    spec = cell.attention or {"name": "softmax"}
    if cell.adapters or (spec["name"] == "mica" and spec["gate"] != _GATE):
        return ""
    return str(cell.model) if spec["name"] == "softmax" else f"{cell.model}+{spec['name']}"


def read(path: Path) -> list[Timed]:
    """The last measurement of each network, size, device and mode; none where a file holds other rows."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            known = [columns for columns in _FORMS if columns <= set(rows.fieldnames or ())]
            found = [_FORMS[known[0]](row) for row in rows if all(row[name] for name in known[0])] if known else []
    except (OSError, UnicodeDecodeError, KeyError, TypeError, ValueError) as problem:
        raise InputError(f"{path} could not be read as rows of a benchmark: {problem}.") from None
    return _last(found)


def _last(found: Sequence[Timed]) -> list[Timed]:
    return list({(one.metric, one.network, one.sizes, one.where): one for one in found}.values())


def _inference(row: Mapping[str, str]) -> Timed:
    return Timed(
        "ms",
        row["network"],
        (int(row["channels"]), int(row["lookback"]), int(row["steps"])),
        float(row["latency_ms"]),
        f"{row['device']}, {row['mode']}, batch {row['batch']}",
    )


def _step(row: Mapping[str, str]) -> Timed:
    return Timed(
        "ms_train_step",
        f"{row['host']} {row['attention']}",
        (),
        float(row["ms_per_step"]),
        f"{row['device']}, {row['mode']}, {row['model']}",
    )


def _in_a_step(attention: Mapping[str, Any] | None) -> str:
    """A mechanism as train_speed.py names it: toa-gated, mica-shared."""
    spec = attention or {"name": "softmax"}
    kind = str(spec.get("kind", spec.get("gate", ""))).replace("_", "-")
    return f"{spec['name']}-{kind}" if kind else str(spec["name"])


_FORMS: Mapping[frozenset[str], Callable[[Mapping[str, str]], Timed]] = {
    frozenset({"network", "latency_ms"}): _inference,
    frozenset({"host", "ms_per_step"}): _step,
}
"""By the columns that tell a file: how its rows are read. A run that did not end has no time."""
