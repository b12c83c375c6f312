"""The figure of cost: a training step by attention; `scaling.py` draws what grows with channels and look-backs."""

from datetime import datetime
from pathlib import Path

from _evidence import COLOURS, Missing, Row, place, rows, select
from _strips import Key, Lane, Panel, grid
from _svg import Style, figure
from rearview.core.grouping import group_by

HOSTS = {
    "patchtst": "PatchTST (Time-Series-Library)",
    "official": "PatchTST (official)",
    "itransformer": "iTransformer",
}


def cost(folder: Path) -> str:
    """Milliseconds of a training step relative to softmax's."""
    found = rows(folder, "train_step", "ms_per_step")
    panels = [panel for host, own in group_by(found, _host).items() if (panel := _steps(host, own))]
    if not panels:
        raise Missing("train_step.csv has no attention beside softmax in the same network")
    title = "Cost: a training step by attention, as a multiple of softmax's"
    devices = ", ".join(dict.fromkeys(row["device"] for row in found))
    words = (
        f"{devices}. Gather, forward, backward and optimiser; of each attention the latest row, "
        "beside the row of softmax made nearest in time."
    )
    return figure(title, words, *grid(panels, 2))


def _host(row: Row) -> tuple[str, str]:
    return row["host"], row["mode"]


def _steps(host: tuple[str, str], found: list[Row]) -> Panel | None:
    """Of each attention the latest row."""
    network, _, width = host[0].rpartition("-")
    plain = select(found, attention="softmax")
    latest = {row["attention"]: row for row in sorted(found, key=_made)}
    if not plain or len(latest) < 2:
        return None
    lanes: dict[Key, list[Lane]] = {}
    numbers = {}
    for attention in sorted(latest, key=lambda name: (place(name.partition("-")[0]), name)):
        row = latest[attention]
        base = min(plain, key=lambda other: abs((_made(other) - _made(row)).total_seconds()))
        ratio = float(row["ms_per_step"]) / float(base["ms_per_step"])
        key = ("", attention.replace("-", " "))
        lanes[key] = [Lane([ratio], Style(COLOURS.get(attention.partition("-")[0], "#000000")))]
        numbers[key] = f"{float(row['ms_per_step']):.2f} ms"
    most = max(lane[0].values[0] for lane in lanes.values())
    title, below = f"{HOSTS.get(network, network)}, {width} wide", f"times softmax's step ({host[1]})"
    return Panel(title, below, lanes, level=1.0, limits=(0.0, max(2.0, most) * 1.05), numbers=numbers, bars=True)


def _made(row: Row) -> datetime:
    return datetime.fromisoformat(row["created"])
