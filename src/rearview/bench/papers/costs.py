"""Tables of what networks cost: parameters and FLOPs counted at a paper's sizes, milliseconds beside those measured.

A paper's file of experiments says at which sizes its networks are built and, where our count differs from the printed
one and the reason is known, the reason. Two counts agree when they differ by at most one unit of the last printed digit
or 0.1 %, whichever is larger; a unit of a single digit is a tenth of the number or more, so that such a count can be
found to differ, never to agree. Milliseconds depend on the machine, so they are shown with ours and not judged.
"""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rearview.bench.papers import catalogue, published
from rearview.bench.papers.catalogue import Cell, Experiment
from rearview.bench.papers.published import Number
from rearview.bench.rows.row import Facts
from rearview.bench.runs.request import spell
from rearview.core.errors import InputError
from rearview.core.grouping import group_by

if TYPE_CHECKING:
    from rearview.models.costs import Cost

COST = "cost"
"""The task of such a table."""
COUNTED = {"gflops": "GFLOPs", "params_m": "million parameters"}
MEASURED = {"ms": "ms of inference", "ms_train_step": "ms a training step"}
SHARE = 0.001
RULE = (
    "agrees: the difference is at most one unit of the last printed digit or 0.1 %, whichever is larger; not "
    "comparable: the printed cell is doubtful, or its single digit is too few to tell; FLOPs are of one window's "
    "forward pass, two for a product and its sum"
)
NO_RULE = "milliseconds depend on the machine, so they stand beside each other and are not judged"
_GATE = "mlp_query"
"""MICA's gate in the rows of scaling.py, which name the mechanism alone."""


@dataclass(frozen=True, slots=True)
class CostCell:
    """A network at one size, and the numbers that a paper prints of what it costs."""

    dataset: str
    """That its channels are of; empty where the table names none."""
    lookback: int | None
    """None: not printed, as with the next two."""
    horizon: int | None
    channels: int | None
    model: str
    """Our name; the paper's of a network that is not on the shelf."""
    attention: Facts | None
    adapters: tuple[str, ...]
    settings: Facts | None
    """Of the network; None: nothing is counted."""
    counted_too: int
    """Parameters that the paper counts although its network never uses them, and which ours does not have."""
    maps_alone: bool
    """Whether the printed FLOPs are those of linear maps and convolutions alone."""
    digits: tuple[str, int]
    """The form of printed numbers: (decimals or figures, their number)."""
    reason: str
    """Why our count differs, or why there is none; empty: not known."""
    host: str
    """The host of `benchmarks/train_speed.py` that stands for it; empty: none does."""
    numbers: tuple[Number, ...]

    @property
    def label(self) -> str:
        """Network and mechanism in short."""
        own = [spell(self.attention)] if self.attention else []
        return " + ".join([self.model, *own, *self.adapters])

    @property
    def mechanism(self) -> str:
        """The name of its mechanism; empty for a network that is built as it is."""
        return "" if self.attention is None else str(self.attention["name"])

    @property
    def counts(self) -> bool:
        """Whether parameters or FLOPs are printed of it that can be counted here."""
        return self.settings is not None and any(number.metric in COUNTED for number in self.numbers)


@dataclass(frozen=True, slots=True)
class CostMeasurement:
    """One measurement of a network."""

    metric: str
    """The papers' name: ms of inference, ms_train_step."""
    network: str
    """As its file names it: a network, or one and its mechanism."""
    sizes: tuple[int, ...]
    """(channels, look-back, steps ahead); empty where the network's name implies them."""
    milliseconds: float
    where: str
    """Device, mode and batch."""
    memory: float | None = None
    """Most of it at once, in MiB; None: not measured."""

    def is_of(self, cell: CostCell) -> bool:
        """Whether it is a measurement of the network of a table's cell, at its sizes."""
        if self.metric == "ms_train_step":
            spec = cell.attention or {"name": "softmax"}  # train_speed.py has toa-gated, mica-shared
            kind = str(spec.get("kind", spec.get("gate", ""))).replace("_", "-")
            names = [f"{spec['name']}{f'-{kind}' if kind else ''}", *(["none"] if cell.attention is None else [])]
            return bool(cell.host) and self.network in [f"{cell.host} {name}" for name in names]
        return self.network == network_name(cell) and self.sizes == (cell.channels, cell.lookback, cell.horizon)


@dataclass(frozen=True, slots=True)
class CostComparison:
    """One printed number, and ours."""

    cell: CostCell
    number: Number
    ours: float | None
    verdict: str
    """agrees, differs, not comparable, not counted, not measured here; empty: measured, which is not judged."""
    where: str = ""
    """On what ours was measured."""
    memory: float | None = None
    """Our peak memory, in MiB."""

    @property
    def difference(self) -> float | None:
        """Ours against theirs, in percent."""
        if self.ours is None or not self.number.value:
            return None
        return 100 * (self.ours / self.number.value - 1)


@cache
def cells(paper: str, table: str) -> tuple[CostCell, ...]:
    """A cell for each network of a table, in the order of the paper."""
    facts = catalogue.costs(paper)
    networks = group_by(
        published.select(paper, table),
        lambda one: (one.dataset, one.lookback, one.horizon, one.backbone, one.variant, repr(one.needs)),
    )
    return tuple(_cell(tuple(same), facts) for same in networks.values())


def parts(experiment: Experiment) -> Sequence[CostCell] | Sequence[Cell]:
    """The cells of an experiment, whatever they are about."""
    return cells(experiment.paper, experiment.table) if experiment.task == COST else experiment.cells


def note(paper: str) -> str:
    """A remark on all counts of a paper; empty: none."""
    return str(catalogue.costs(paper).get("note", ""))


def compare(cells: Sequence[CostCell], times: Sequence[CostMeasurement]) -> Iterator[CostComparison]:
    """Every printed number of the cells beside ours: counted now, or among the times."""
    for cell in cells:
        counted = _count(cell) if cell.counts else None
        for number in cell.numbers:
            if number.metric in MEASURED:
                own = [one for one in times if one.metric == number.metric and one.is_of(cell)]
                yield from (CostComparison(cell, number, one.milliseconds, "", one.where, one.memory) for one in own)
                if not own:
                    yield CostComparison(cell, number, None, "not measured here")
            elif counted is None:
                yield CostComparison(cell, number, None, "not counted")
            else:
                flops = counted.map_flops if cell.maps_alone else counted.flops
                parameters = counted.parameters + cell.counted_too
                ours = parameters / 1e6 if number.metric == "params_m" else flops / 1e9
                yield CostComparison(cell, number, ours, judge(ours, number, cell.digits))


def judge(ours: float, number: Number, digits: tuple[str, int]) -> str:
    """agrees, differs or not comparable, by the rule above."""
    if number.doubtful or not number.value:
        return "not comparable"
    kind, count = digits
    before = math.floor(math.log10(number.value)) + 1
    figures, places = (before + count, count) if kind == "decimals" else (count, count - before)
    # A number next to the printed one is a unit away but for the last bit.
    allowed = max(10.0**-places, SHARE * number.value) * (1 + 1e-9)
    if abs(ours - number.value) > allowed:
        return "differs"
    return "agrees" if figures > 1 else "not comparable"


def _cell(numbers: tuple[Number, ...], facts: Mapping[str, Any]) -> CostCell:
    first = numbers[0]
    known = facts.get("networks", {}).get(first.backbone)
    network = known or {}
    # A network of which nothing but a reason is known is not built, nor is one that the file does not name.
    built = known is not None and ("settings" in network or "reason" not in network)
    kind = "figures" if "figures" in facts else "decimals"
    attention = first.attention
    if attention is not None:  # with the settings that a paper's table of costs has
        attention = {**attention, **facts.get("mechanisms", {}).get(attention["name"], {})}
    model = network.get("model", first.model or first.backbone)
    host = network.get("host", facts.get("host", "").format(model=model, dataset=first.dataset)) if built else ""
    return CostCell(
        dataset="" if first.dataset == "none" else first.dataset,
        lookback=first.lookback,
        horizon=first.horizon,
        channels=first.needs.get("channels", network.get("channels")),
        model=model,
        attention=attention,
        adapters=tuple(first.needs.get("adapters", ())),
        settings=network.get("settings", {}) if built else None,
        counted_too=network.get("counted_too", 0),
        maps_alone=facts.get("flops") == "maps",
        digits=(kind, facts.get(kind, 3)),
        reason=first.reason or network.get("reason", ""),
        host=host,
        numbers=numbers,
    )


def _count(cell: CostCell) -> "Cost":
    from rearview.models.costs import cost

    assert cell.lookback is not None
    assert cell.horizon is not None
    assert cell.channels is not None
    return cost(
        cell.model,
        channels=cell.channels,
        lookback=cell.lookback,
        steps=cell.horizon,
        attention=None if cell.attention is None else dict(cell.attention),
        adapters=cell.adapters,
        **(cell.settings or {}),
    )


def network_name(cell: CostCell) -> str:
    """A cell's network as the rows of scaling.py name it; empty: they have none of it."""
    spec = cell.attention or {"name": "softmax"}
    if cell.adapters or (spec["name"] == "mica" and spec["gate"] != _GATE):
        return ""
    return str(cell.model) if spec["name"] == "softmax" else f"{cell.model}+{spec['name']}"


def read_times(path: Path) -> list[CostMeasurement]:
    """The last measurement of each network, size, device and mode; none where a file holds other rows."""
    times: dict[tuple[object, ...], CostMeasurement] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row.get("network") and row.get("latency_ms"):  # a run that did not end has no time
                    sizes = (int(row["channels"]), int(row["lookback"]), int(row["steps"]))
                    where = f"{row['device']}, {row['mode']}, batch {row['batch']}"
                    one = CostMeasurement("ms", row["network"], sizes, float(row["latency_ms"]), where, _memory(row))
                elif row.get("host") and row.get("ms_per_step"):
                    where = f"{row['device']}, {row['mode']}, {row['model']}"
                    network = f"{row['host']} {row['attention']}"
                    one = CostMeasurement("ms_train_step", network, (), float(row["ms_per_step"]), where, _memory(row))
                else:
                    continue
                times[one.metric, one.network, one.sizes, one.where] = one
    except (OSError, UnicodeDecodeError, KeyError, TypeError, ValueError) as problem:
        raise InputError(f"{path} could not be read as rows of a benchmark: {problem}.") from None
    return list(times.values())


def _memory(row: Mapping[str, str]) -> float | None:
    return float(row["peak_mib"]) if row.get("peak_mib") else None
