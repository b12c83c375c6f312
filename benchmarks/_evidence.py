"""Rows under results/ as the figures read them, and how a mechanism is called and drawn in every one of them."""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from _rows import read
from _svg import Style

Row = dict[str, str]
ASKED = (
    "dataset", "protocol", "lookback", "horizon", "model", "attention", "attention_settings", "settings", "training",
    "balance", "adapters", "loss", "budget", "seed",
)  # fmt: skip
"""Columns that say which run it was; of two rows of the same run, in whichever files, the latest counts."""
COLOURS = {
    "softmax": "#4d4d4d",
    "rbca": "#0072b2",
    "caps": "#c77f00",
    "toa": "#009e73",
    "mica": "#c2568f",
    "prime": "#d55e00",
    "differential": "#332288",
    "hyperglu": "#882255",
    "linear_rope": "#7a6a53",
}
"""Of the mechanisms, the same in every figure; told apart with every common kind of colour blindness."""
BIASES = {
    "none": Style(COLOURS["softmax"]),
    "causal mask only": Style("#8a8a8a", dash="2 3"),
    "ALiBi": Style("#5e3c99"),
    "power law": Style(COLOURS["rbca"]),
    "similarity power law": Style("#3b93c9", "square"),
    "Butterworth": Style("#a6611a", "triangle"),
}
NETWORKS = {
    "patchtst": "PatchTST",
    "patchtst_tslib": "PatchTST",
    "itransformer": "iTransformer",
    "transformer": "Transformer",
    "moment": "MOMENT",
    "caps_net": "CAPS network",
}
GATES = {"mlp": "MLP", "mlp_query": "MLP-query", "layerwise_channelwise": "layer- and channelwise"}


class Missing(Exception):
    """There is too little under results/ for a figure; the sentence says what."""


def rows(folder: Path, name: str, column: str) -> list[Row]:
    """The runs of a results file with a number in the column, without those that failed; each by its latest row."""
    place = folder / f"{name}.csv"
    if not place.exists():
        raise Missing(f"there is no {place.name}")
    done = _finished(place, column)
    if not done:
        raise Missing(f"{place.name} holds no finished run with a number in {column!r}")
    if "seed" not in done[0]:
        return done
    latest: dict[tuple[str | None, ...], Row] = {}
    for other in sorted(folder.glob("*.csv")):
        for row in _finished(other, column):
            run = tuple(row.get(key) for key in ASKED)
            if row.get("created", "") >= latest.get(run, row).get("created", ""):
                latest[run] = row
    return [latest[run] for run in dict.fromkeys(tuple(row.get(key) for key in ASKED) for row in done)]


def _finished(place: Path, column: str) -> list[Row]:
    done = [row for row in read(place) if row.get("status", "done") == "done"]
    return [_without_unset(row) for row in done if _is_number(row.get(column) or "")]


def _without_unset(row: Row) -> Row:
    """The row with the training settings that say something: a setting that came later is off in earlier rows."""
    if not row.get("training"):
        return row
    settings = {name: value for name, value in json.loads(row["training"]).items() if value is not None}
    return {**row, "training": json.dumps(settings, sort_keys=True)}


def select(found: Iterable[Row], **wanted: str) -> list[Row]:
    """The rows whose columns have these values."""
    return [row for row in found if all(row[column] == value for column, value in wanted.items())]


def values(found: Iterable[Row], column: str) -> list[float]:
    """The column as numbers, where it has any."""
    return [float(row[column]) for row in found if _is_number(row[column])]


def _is_number(cell: str) -> bool:
    return bool(cell) and math.isfinite(float(cell))


def settings_of(row: Row) -> dict[str, Any]:
    """Settings of the row's mechanism."""
    settings: dict[str, Any] = json.loads(row["attention_settings"] or "{}")
    return settings


def name(row: Row) -> str:
    """The row's mechanism in words, with whatever of its settings sets it apart in the figures."""
    spell = {"toa": _toa, "mica": _mica, "prime": _prime, "caps": _caps, "rbca": _rbca}.get(row["attention"])
    if spell is not None:
        return spell(settings_of(row))
    if row["attention"] == "linear_rope":
        return "linear, rotary"
    return row["attention"].replace("_", " ") + (", rotary" if settings_of(row).get("rotary") else "")


def style(row: Row) -> Style:
    """How the row's mechanism is drawn: hollow where it is a combination of two."""
    return Style(COLOURS.get(row["attention"], "#000000"), hollow=_combined(row))


def in_order(found: Iterable[Row]) -> list[Row]:
    """Rows by mechanism, then by name; combinations of two last."""
    return sorted(found, key=lambda row: (_combined(row), place(row["attention"]), name(row)))


def place(mechanism: str) -> int:
    """Where a mechanism stands among the others in every figure."""
    order = list(COLOURS)
    return order.index(mechanism) if mechanism in order else len(order)


def percent(share: float, digits: int = 0) -> str:
    """A share in percent."""
    return f"{100 * share:.{digits}f} %"


def bias(settings: Mapping[str, Any]) -> str:
    """What RBCA fades keys by, in words."""
    words = {"exponential": "ALiBi", "butterworth": "Butterworth", "causal": "causal mask only"}
    kind = str(settings.get("bias", "power_law"))
    return words.get(kind, kind.replace("_", " "))


def _combined(row: Row) -> bool:
    settings = settings_of(row)
    return isinstance(settings.get("bias"), dict) or isinstance(settings.get("local"), dict)


def _toa(settings: Mapping[str, Any]) -> str:
    kind, added = settings.get("kind", "gated"), settings.get("bias")
    words = f"toa {kind}"
    if added:
        words += f" + {added['name']} bias"
    if kind != "softmax" and "score_norm" in settings:
        words += ", as printed" if settings["score_norm"] == "none" else f", {settings['score_norm']} norm"
    return words if settings.get("sor", True) else f"{words}, no SOR"


def _mica(settings: Mapping[str, Any]) -> str:
    local = settings.get("local")
    if isinstance(local, dict):
        return f"mica over {local['name']}"
    gate = str(settings.get("gate", "mlp_query"))
    words = f"mica, {GATES.get(gate, gate)}"
    if settings.get("exclude_self"):
        words += ", others only"
    weighting = settings.get("weighting", "uniform")
    return words if weighting == "uniform" else f"{words}, {weighting}"


def _prime(settings: Mapping[str, Any]) -> str:
    if settings.get("primer") == "sparse":
        return f"prime, {percent(settings['sparsity'])} left out"
    features = str(settings.get("features", "full"))
    return "prime" if features == "full" else f"prime, {features.replace('_', '-')}"


def _caps(settings: Mapping[str, Any]) -> str:
    paths = settings.get("paths", ())
    without = [path for path in ("riemann", "prefix", "clock") if path not in paths] if paths else []
    words = "caps" + "".join(f" without {path.replace('riemann', 'Riemann')}" for path in without)
    if settings.get("normaliser", "linear") != "linear":
        words += f", {settings['normaliser']}"
    return words if settings.get("numerics", "stable") == "stable" else f"{words}, as released"


def _rbca(settings: Mapping[str, Any]) -> str:
    kind = bias(settings)
    if kind in ("power law", "similarity power law") and settings.get("alpha") is not None:
        return f"rbca, {kind} {settings['alpha']:g}"
    return f"rbca, {kind}"
