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

Kind = Literal["forecast", "classification", "detection", "synthetic", "cost", "summary", "elsewhere"]
"""forecast, classification, detection, synthetic: a run of ours compares. cost: parameters, FLOPs, milliseconds.
summary: a mean, rank or count over other rows. elsewhere: of a network that no maintained package offers."""

DOUBTS = ("RECONSTRUCTED", "DOUBTFUL", "UNREADABLE", "SUSPECT", "DISAGREES")

PAPERS = {
    "rbca": "Recency Biased Causal Attention for Time-series Forecasting",
    "caps": "CAPS: Unifying Attention, Recurrence, and Alignment in Transformer-based Time Series Forecasting",
    "toa": "Beyond Similarity: Temporal Operator Attention for Time Series Analysis",
    "mica": "Multivariate Infini Compressive Attention",
    "prime": "Dynamic Relational Priming Improves Transformer in Multivariate Time Series",
}


class Around(TypedDict, total=False):
    """What else a run needs beside network and mechanism."""

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
    around: Around = field(default_factory=Around)
    """What else the run needs: a loss, an adapter, a network's setting."""
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


MODELS = {
    "PatchTST": "patchtst",
    "iTransformer": "itransformer",
    "CAPS": "caps_net",
    "MOMENT": "moment",
    "Transformer": "transformer",
    "DUET": "duet",
    "Timer-XL": "timer_xl",
    "FreDF": "itransformer",
    "iTransformer-T5": "itransformer_t5",
    "Crossformer": "crossformer",
    "TSMixer": "tsmixer",
    "MLP": "mlp",
    "DLinear": "dlinear",
    "LIFT": "itransformer",
    "TimeMixer": "timemixer",
    "TimesNet": "timesnet",
    "FEDformer": "fedformer",
    "Autoformer": "autoformer",
    "Informer": "informer",
    "Chronos-2": "chronos2",
    "AutoETS": "autoets",
    "Transformer-2L2H": "harmonic",
}
ELSEWHERE = {
    "OLinear": "a network of its authors' repository, in no kept package",
    "TimeMixer++": "its authors released no complete code, and no kept package has it",
    "One-Fits-All": "it needs GPT-2's weights and its authors' code, in no kept package",
    "ETSformer": "a network of its authors' repository, in no kept package",
    "LagTS": "its authors released no code that could be found",
}

_TOA = {"gated": {"kind": "gated"}, "relu": {"kind": "relu"}, "softmax": {"kind": "softmax"}}
_GATES = {
    "shared": "shared",
    "channelwise": "channelwise",
    "layerwise": "layerwise",
    "layerwise_channelwise": "layerwise_channelwise",
    "mlp": "mlp",
    "mlpq": "mlp_query",
}
_CAPS_WITHOUT = {
    "caps_no_riemann": ("prefix", "clock"),
    "caps_no_prefix": ("riemann", "clock"),
    "caps_no_clock": ("riemann", "prefix"),
}
ATTENTIONS: dict[str, dict[str, object]] = {
    "softmax": {"name": "softmax"},
    "standard": {"name": "softmax"},
    "softmax_rope": {"name": "softmax", "rotary": True},
    "linear_rope": {"name": "linear_rope"},
    "caps_linear": {"name": "caps"},
    "caps_softmax": {"name": "caps", "normaliser": "softmax"},
    "causal": {"name": "rbca", "bias": "causal"},
    "rbca_pl": {"name": "rbca", "bias": "power_law"},
    "rbca_spl": {"name": "rbca", "bias": "similarity_power_law"},
    "rbca_bw1": {"name": "rbca", "bias": "butterworth", "order": 1},
    "rbca_bw2": {"name": "rbca", "bias": "butterworth", "order": 2},
    "rbca_best": {"name": "rbca"},
    "prime": {"name": "prime"},
    "diff": {"name": "differential"},
    "hyperglu_dplr": {"name": "hyperglu"},
    **{code: {"name": "caps", "paths": paths} for code, paths in _CAPS_WITHOUT.items()},
    **{f"toa_{kind}": {"name": "toa", **settings} for kind, settings in _TOA.items()},
    **{f"toa_{kind}_no_sor": {"name": "toa", **settings, "sor": False} for kind, settings in _TOA.items()},
    **{
        f"mica_{code}_{side}_{weighting}": {
            "name": "mica",
            "gate": gate,
            "exclude_self": side == "excl",
            "weighting": weighting,
        }
        for code, gate in _GATES.items()
        for side in ("incl", "excl")
        for weighting in ("uniform", "static", "dynamic")
    },
}

SUMMARY_METRICS = ("rank", "top1_count", "top2_count", "delta_pct", "wins", "ties", "losses")
COST_METRICS = ("gflops", "params_m", "ms", "ms_train_step")
SUMMARY_SETS = ("ALL", "ETT_ALL4", "UEA_AVG28")
_TASKS: dict[str, Kind] = {"classification": "classification", "anomaly": "detection", "synthetic": "synthetic"}


@cache
def numbers() -> tuple[Number, ...]:
    """Every printed number of the five papers."""
    text = resources.files("rearview.bench.papers").joinpath("results.csv").read_text(encoding="utf-8")
    return _share_doubts(tuple(_number(row) for row in csv.DictReader(text.splitlines())))


def select(paper: str, table: str | None = None) -> list[Number]:
    """The numbers of a paper, or of one of its tables."""
    return [n for n in numbers() if n.paper == paper and table in (None, n.table)]


def tables(paper: str) -> list[str]:
    """The tables of a paper, in the order of the file."""
    return list(dict.fromkeys(n.table for n in select(paper)))


def _share_doubts(numbers: tuple[Number, ...]) -> tuple[Number, ...]:
    """A number that a table takes over from another one is as doubtful as it is there."""
    doubts = {_place(number, number.table): number.note for number in numbers if number.doubtful}
    return tuple(
        replace(number, note="; ".join(filter(None, (number.note, f"as in {table[1]}: {doubts[key]}"))))
        if (table := re.search(r"\bsame cells as .+ in (\w+)", number.setting))
        and (key := _place(number, table[1])) in doubts
        else number
        for number in numbers
    )


def _place(number: Number, table: str) -> tuple[object, ...]:
    """What a number of a table shares with its copy elsewhere."""
    return (number.paper, table, number.dataset, number.horizon, number.backbone, number.variant, number.metric)


def _number(row: Mapping[str, str]) -> Number:
    kind = _kind(row)
    backbone = row["backbone"]
    return Number(
        paper=row["paper"],
        table=row["table"],
        kind=kind,
        dataset=row["dataset"],
        lookback=int(row["input_len"]) if row["input_len"] else None,
        horizon=int(row["horizon"]) if row["horizon"].isdigit() else None,
        model=_model(backbone, kind),
        attention=_attention(row),
        metric=row["metric"],
        value=float(row["value"]) if row["value"] else None,
        std=float(row["std"]) if row["std"] else None,
        backbone=backbone,
        variant=row["attention"],
        setting=row["setting"],
        note=row["note"],
        around=_around(row),
        reason=ELSEWHERE.get(backbone, ""),
    )


def _kind(row: Mapping[str, str]) -> Kind:
    if row["metric"] in SUMMARY_METRICS or row["dataset"] in SUMMARY_SETS or row["horizon"] == "avg":
        return "summary"
    if row["backbone"] in ELSEWHERE:
        return "elsewhere"
    if row["metric"] in COST_METRICS:
        return "cost"
    return _TASKS.get(row["task"], "forecast")


def _model(backbone: str, kind: Kind) -> str:
    # TOA judges detection and classification in the Time-Series-Library, whose PatchTST is another network.
    if backbone == "PatchTST" and kind in ("detection", "classification"):
        return "patchtst_tslib"
    return MODELS.get(backbone, "")


def _attention(row: Mapping[str, str]) -> dict[str, object] | None:
    if row["attention"] == "own":
        return None
    spec = dict(ATTENTIONS[row["attention"]])
    if alpha := re.search(r"\balpha=([\d.]+)", row["setting"]):
        spec["alpha"] = float(alpha[1])
    if start := re.search(r"learnable alpha, init=([\d.]+)", row["setting"]):
        spec |= {"alpha": float(start[1]), "learnable": True}
    if cutoff := re.search(r"t_c=([\d.]+)", row["setting"]):
        spec["scale"] = float(cutoff[1])
    return spec


def _around(row: Mapping[str, str]) -> Around:
    around = Around()
    if row["backbone"] == "FreDF":
        around["loss"] = "fredf"
    if row["backbone"] == "LIFT":
        around["adapters"] = ["lift"]
    if "PCA" in row["setting"]:
        around["adapters"] = ["decorrelate"]
    if "MOL" in row["setting"]:
        around["adapters"] = ["channel_heads"]
    if channels := re.search(r"\bC=(\d+)", row["setting"]):
        around["channels"] = int(channels[1])
    return around
