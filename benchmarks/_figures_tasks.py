"""Figures of classification and detection."""

import json
import statistics
from pathlib import Path

from _evidence import (
    COLOURS,
    NETWORKS,
    Missing,
    Row,
    in_order,
    name,
    percent,
    rows,
    select,
    settings_of,
    style,
    values,
)
from _strips import CHANCE, Key, Lane, Panel, grid, strips
from _svg import Style, figure, legend, reach
from rearview.core.grouping import group_by

PROTOCOLS = ("clean", "published:tslib")
KINDS = {
    "toa softmax": Style(COLOURS["toa"]),
    "toa relu": Style(COLOURS["toa"], "triangle"),
    "toa gated": Style(COLOURS["toa"], "square", hollow=True),
    "hyperglu": Style(COLOURS["hyperglu"], "diamond"),
}


def classification(folder: Path) -> str:
    """UEA sets: accuracy by TOA's kinds, minus softmax's."""
    found = select(rows(folder, "classification", "accuracy"), model="patchtst_tslib")
    gains = {protocol: made for protocol in PROTOCOLS if (made := _gains(select(found, protocol=protocol)))}
    if not gains:
        raise Missing("classification.csv has no kind beside softmax on the same set")
    everything = [lane for made in gains.values() for lanes, _ in made.values() for lane in lanes]
    limits = reach([0.0, *(value for lane in everything for value in lane.values)])
    panels = [
        Panel(
            protocol,
            "percentage points",
            {key: lanes for key, (lanes, _) in made.items()},
            level=0.0,
            limits=limits,
            numbers={key: number for key, (_, number) in made.items()},
            above="softmax, %",
            bars=True,
        )
        for protocol, made in gains.items()
    ]
    title = "Classification: accuracy minus that of softmax, by set"
    words = (
        "PatchTST (Time-Series-Library's form). A mark a run, with and without regularisation, each minus softmax of "
        "the same seed; a bar to the mean."
    )
    return figure(title, words, legend(KINDS), *grid(panels, 2))


def _gains(found: list[Row]) -> dict[Key, tuple[list[Lane], str]]:
    """Of each set what the kinds are ahead of softmax, and softmax's own accuracy in words."""
    gains: dict[Key, tuple[list[Lane], str]] = {}
    for dataset, here in sorted(group_by(found, lambda row: row["dataset"]).items()):
        plain = {row["seed"]: float(row["accuracy"]) for row in select(here, attention="softmax")}
        kinds = group_by((row for row in here if row["seed"] in plain), _kind)
        lanes = [
            Lane([100 * (float(row["accuracy"]) - plain[row["seed"]]) for row in kinds[kind]], look)
            for kind, look in KINDS.items()
            if kind in kinds
        ]
        if lanes:
            gains["", dataset] = lanes, f"{100 * statistics.fmean(plain.values()):.1f}"
    return gains


def _kind(row: Row) -> str:
    return f"toa {settings_of(row).get('kind', 'gated')}" if row["attention"] == "toa" else name(row)


def detection(folder: Path) -> str:
    """Point-adjusted F1 beside that of random flags, AUC-PR beside the share of anomalies."""
    found = in_order(rows(folder, "detection", "adjusted_f1"))
    blocks = []
    for dataset, here in sorted(group_by(found, lambda row: row["dataset"]).items()):
        share = statistics.median(float(row["anomalous"]) / float(row["rows"]) for row in here)
        panels = [*(_adjusted(here, protocol) for protocol in PROTOCOLS), _ranked(here, share)]
        words = f"{dataset}: {percent(share, 1)} of the test rows are anomalies"
        blocks.append(strips([panel for panel in panels if panel], 3, words))
    title = "Detection: the field's measure beside random flags, and one that can't be adjusted"
    words = (
        "Point-adjusted F1 of each network and, hollow, of as many flags thrown at random. AUC-PR beside the share of "
        "anomalies (dashed), which is what a random score gets. Not normalised: windows as they are; not balanced: "
        "errors of channels as they are. Right is better."
    )
    marks = {"network": Style("#222222"), "random flags": CHANCE}
    return figure(title, words, legend(marks), *blocks)


def _adjusted(found: list[Row], protocol: str) -> Panel | None:
    lanes = {}
    for key, own in _by_network(select(found, protocol=protocol)).items():
        chance = values(own, "adjusted_f1_by_chance")
        beside = statistics.fmean(chance) if chance else None
        lanes[key] = [Lane(values(own, "adjusted_f1"), style(own[0]), beside)]
    return Panel(f"F1, {protocol}", "point-adjusted F1", lanes, limits=(0.0, 1.0)) if lanes else None


def _ranked(found: list[Row], share: float) -> Panel | None:
    groups = _by_network(select(found, protocol="clean"))
    lanes = {key: [Lane(scores, style(own[0]))] for key, own in groups.items() if (scores := values(own, "auc_pr"))}
    most = max((value for lane in lanes.values() for value in lane[0].values), default=0.0)
    limits = (0.0, max(0.2, 1.08 * most, 1.08 * share))
    return Panel("AUC-PR, clean", "AUC-PR", lanes, level=share, limits=limits, bars=True) if lanes else None


def _by_network(found: list[Row]) -> dict[Key, list[Row]]:
    """Rows by network and attention, and by whether data were prepared otherwise than for most rows of that network."""
    groups: dict[Key, list[Row]] = {}
    for model, own in sorted(group_by(found, lambda row: row["model"]).items()):
        usual = [statistics.mode(_prepared(row)[at] for row in own) for at in range(2)]
        for row in own:
            unusual = [words for words, most in zip(_prepared(row), usual, strict=True) if words != most]
            groups.setdefault((NETWORKS.get(model, model), ", ".join([_kind(row), *unusual])), []).append(row)
    return groups


def _prepared(row: Row) -> tuple[str, str]:
    """Whether windows were normalised, and whether channels were balanced, in words."""
    normalised = json.loads(row["settings"]).get("normalise", "none") != "none"
    balanced = row["balance"] == "1"
    return "normalised" if normalised else "not normalised", "balanced" if balanced else "not balanced"
