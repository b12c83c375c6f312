"""The papers' numbers as data, under our names.

`papers/results.csv` holds every results table of the five papers, one number a row, as printed (its `note` marks cells
that were hard to read). One map leads from its names to ours and leaves no row out: a row is a number that a run of
ours compares with, or it says why not.
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Literal, TypedDict

from rearview.bench.rows.row import Facts
from rearview.core.files import read_yaml

Kind = Literal["forecast", "classification", "detection", "synthetic", "cost", "summary", "elsewhere"]
"""forecast, classification, detection, synthetic: a run of ours compares. cost: parameters, FLOPs, milliseconds.
summary: a mean, rank or count over other rows. elsewhere: of a network that no maintained package offers."""

DOUBTS = ("RECONSTRUCTED", "DOUBTFUL", "UNREADABLE", "SUSPECT", "DISAGREES")

_NAMES = read_yaml("rearview.bench.papers", "names")
ELSEWHERE: Mapping[str, str] = _NAMES["elsewhere"]
"""Networks that no run of ours stands for, and why."""
_TASKS: dict[str, Kind] = {"classification": "classification", "anomaly": "detection", "synthetic": "synthetic"}


class RunNeeds(TypedDict, total=False):
    """Needs of a run beside network and mechanism."""

    loss: str
    adapters: list[str]
    channels: int


@dataclass(frozen=True, slots=True)
class Number:
    """One printed number, and what of ours it compares with."""

    paper: str
    table: str
    kind: Kind
    dataset: str
    lookback: int | None
    """None: not stated, or chosen per data set."""
    horizon: int | None
    """None: an average over horizons, or a task without one."""
    model: str
    """Our name; empty where there is none."""
    attention: Facts | None
    """Our mechanism with its settings; None for a network's own."""
    metric: str
    value: float | None
    """None: unreadable."""
    std: float | None
    backbone: str
    """The paper's name of the network."""
    variant: str
    """The paper's name of the mechanism."""
    setting: str
    note: str
    needs: RunNeeds = field(default_factory=RunNeeds)
    """Further needs of the run: a loss, an adapter, a network's setting."""
    reason: str = ""
    """Why no run of ours compares with it."""

    @property
    def doubtful(self) -> bool:
        """Whether the cell was hard to read or is odd in the paper itself."""
        return any(mark in self.note for mark in DOUBTS)

    @property
    def quoted(self) -> bool:
        """Whether the paper took it from another one, whose settings it rests on."""
        return "quoted" in self.note


@cache
def numbers() -> tuple[Number, ...]:
    """Every printed number of the five papers."""
    text = resources.files("rearview.bench.papers").joinpath("results.csv").read_text(encoding="utf-8")
    every = [_number(row) for row in csv.DictReader(text.splitlines())]
    # A number that a table takes over from another one is as doubtful as it is there.
    doubts = {_place(number, number.table): number.note for number in every if number.doubtful}
    for place, number in enumerate(every):
        table = re.search(r"\bsame cells as .+ in (\w+)", number.setting)
        if table and (key := _place(number, table[1])) in doubts:
            note = "; ".join(filter(None, (number.note, f"as in {table[1]}: {doubts[key]}")))
            every[place] = replace(number, note=note)
    return tuple(every)


def select(paper: str, table: str | None = None) -> list[Number]:
    """The numbers of a paper, or of one of its tables."""
    return [n for n in numbers() if n.paper == paper and table in (None, n.table)]


def _place(number: Number, table: str) -> tuple[object, ...]:
    """The key that a number of a table shares with its copy elsewhere."""
    return (number.paper, table, number.dataset, number.horizon, number.backbone, number.variant, number.metric)


def _number(row: Mapping[str, str]) -> Number:
    kind, backbone = _kind(row), row["backbone"]
    model = _NAMES["models"].get(backbone, "")
    if backbone == "PatchTST" and kind in ("detection", "classification"):
        model = "patchtst_tslib"  # TOA judges these in the Time-Series-Library, whose PatchTST is another network
    return Number(
        paper=row["paper"],
        table=row["table"],
        kind=kind,
        dataset=row["dataset"],
        lookback=int(row["input_len"]) if row["input_len"] else None,
        horizon=int(row["horizon"]) if row["horizon"].isdigit() else None,
        model=model,
        attention=_attention(row),
        metric=row["metric"],
        value=float(row["value"]) if row["value"] else None,
        std=float(row["std"]) if row["std"] else None,
        backbone=backbone,
        variant=row["attention"],
        setting=row["setting"],
        note=row["note"],
        needs=_read_needs(row),
        reason=ELSEWHERE.get(backbone, ""),
    )


def _kind(row: Mapping[str, str]) -> Kind:
    if (
        row["metric"] in _NAMES["summary_metrics"]
        or row["dataset"] in _NAMES["summary_sets"]
        or row["horizon"] == "avg"
    ):
        return "summary"
    if row["backbone"] in ELSEWHERE:
        return "elsewhere"
    return "cost" if row["metric"] in _NAMES["cost_metrics"] else _TASKS.get(row["task"], "forecast")


def _attention(row: Mapping[str, str]) -> dict[str, object] | None:
    if (code := row["attention"]) == "own":
        return None
    if code in _NAMES["attentions"]:
        spec = {key: tuple(v) if isinstance(v, list) else v for key, v in _NAMES["attentions"][code].items()}
    else:
        gate, side, weighting = code.removeprefix("mica_").rsplit("_", 2)
        spec = {"name": "mica", "gate": _NAMES["gates"][gate], "exclude_self": side == "excl", "weighting": weighting}
    if alpha := re.search(r"\balpha=([\d.]+)", row["setting"]):
        spec["alpha"] = float(alpha[1])
    if start := re.search(r"learnable alpha, init=([\d.]+)", row["setting"]):
        spec |= {"alpha": float(start[1]), "learnable": True}
    if cutoff := re.search(r"t_c=([\d.]+)", row["setting"]):
        spec["scale"] = float(cutoff[1])
    return spec


def _read_needs(row: Mapping[str, str]) -> RunNeeds:
    needs = RunNeeds()
    if row["backbone"] == "FreDF":
        needs["loss"] = "fredf"
    if row["backbone"] == "LIFT":
        needs["adapters"] = ["lift"]
    if "PCA" in row["setting"]:
        needs["adapters"] = ["decorrelate"]
    if "MOL" in row["setting"]:
        needs["adapters"] = ["channel_heads"]
    if channels := re.search(r"\bC=(\d+)", row["setting"]):
        needs["channels"] = int(channels[1])
    return needs
