"""The figure of cost: a training step by attention, and latency over channels with MICA."""

from datetime import datetime
from pathlib import Path

from _curves import Panel as Curves
from _curves import curves
from _evidence import COLOURS, Missing, Row, chosen, grouped, place, rows
from _strips import Key, Lane, Panel, grid
from _svg import Part, Style, heading, page

WIDTH = 760
HOSTS = {
    "patchtst": "PatchTST (Time-Series-Library)",
    "official": "PatchTST (official)",
    "itransformer": "iTransformer",
}
NETWORKS = {
    "patchtst": ("PatchTST", Style(COLOURS["softmax"])),
    "patchtst+mica": ("PatchTST with MICA", Style(COLOURS["mica"])),
    "moment+mica": ("MOMENT with MICA", Style(COLOURS["mica"], "square", dash="6 3")),
}


def cost(folder: Path) -> str:
    """Milliseconds of a training step relative to softmax's; latency of MICA over channels where it was measured."""
    found = rows(folder, "train_step", "ms_per_step")
    panels = [panel for host, own in grouped(found, _host).items() if (panel := _steps(host, own))]
    if not panels:
        raise Missing("train_step.csv has no attention beside softmax in the same network")
    title = "Cost: a training step by attention, as a multiple of softmax's"
    words = (
        f"{_where(found)}. Gather, forward, backward and optimiser; of each attention the latest row, "
        "beside the row of softmax made nearest in time."
    )
    return page([heading(title, words), *grid(panels, 2), *_latency(folder)], WIDTH, title)


def _where(found: list[Row]) -> str:
    return ", ".join(dict.fromkeys(row["device"] for row in found))


def _host(row: Row) -> tuple[str, str]:
    return row["host"], row["mode"]


def _steps(host: tuple[str, str], found: list[Row]) -> Panel | None:
    """Of each attention the latest row."""
    network, _, width = host[0].rpartition("-")
    plain = chosen(found, attention="softmax")
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


def _latency(folder: Path) -> list[Part]:
    """On one device in one mode, the one that has most sizes; nothing where there are no two sizes."""
    try:
        found = chosen(rows(folder, "scaling", "latency_ms"), sweep="channels")
    except Missing:
        return []
    sizes = grouped(
        (row for row in found if row["network"] in NETWORKS), lambda row: (row["device"], row["mode"], row["batch"])
    )
    if not sizes:
        return []
    device, mode, batch = max(sizes, key=lambda key: (len({row["channels"] for row in sizes[key]}), "NVIDIA" in key[0]))
    lines = {}
    for network, (words, _) in NETWORKS.items():
        own = chosen(sizes[device, mode, batch], network=network)
        if own:
            lines[words] = sorted({float(row["channels"]): float(row["latency_ms"]) for row in own}.items())
    if len({x for line in lines.values() for x, _ in line}) < 2:
        return []
    ticks = sorted({x for line in lines.values() for x, _ in line})
    title = "Inference latency over channels, ms"
    below = f"channels; {device}, {mode}, batch {batch}; dashed: in proportion"
    panel = Curves(title, below, lines, at=ticks, proportional=True)
    return [curves([panel], 1, dict(NETWORKS.values()), height=250, names=168)]
