"""The figure of zero-shot forecasts: glance with each attention, after as many updates and after as many seconds."""

import statistics
from pathlib import Path

from _evidence import COLOURS, Missing, Row, place
from _rows import read
from _strips import Key, Lane, Panel, grid
from _svg import Style, figure
from rearview.core.grouping import group_by

COLUMN = "development_mase"


def glance(folder: Path) -> str:
    """Relative MASE on the development tasks by attention."""
    file = folder / "glance_attention.csv"
    if not file.exists():
        raise Missing(f"there is no {file.name}")
    budgets = sorted(group_by(read(file), _budget).items(), key=lambda each: (each[0][0] == "seconds", each[0][1]))
    panels = [panel for budget, own in budgets if (panel := _panel(budget, own))]
    if not panels:
        raise Missing(f"{file.name} has no two attentions with the same budget")
    title = "glance with each attention: relative MASE on 19 development tasks"
    words = (
        "A small glance, trained on synthetic series alone, then annealed. A dot a seed, a bar at their mean, which "
        "stands in numbers at the right; dashed: softmax's mean."
    )
    return figure(title, words, *grid(panels, 2))


def _budget(row: Row) -> tuple[str, int]:
    """Rows of a budget compare: about as many updates, or about as many seconds."""
    if row["kind"] == "updates":
        return "updates", round(int(row["updates"]), -3)
    return "seconds", 5 * round(float(row["seconds"]) / 5)


def _panel(budget: tuple[str, int], found: list[Row]) -> Panel | None:
    runs = group_by(
        sorted(found, key=lambda row: place(row["attention"].partition(":")[0])), lambda row: row["attention"]
    )
    if len(runs) < 2 or "softmax" not in runs:
        return None
    strips: dict[Key, list[Lane]] = {}
    numbers = {}
    for attention, rows in runs.items():
        key = ("", attention.replace(":", ", ").replace("_", " "))
        values = [float(row[COLUMN]) for row in rows]
        strips[key] = [Lane(values, Style(COLOURS.get(attention.partition(":")[0], "#000000")))]
        numbers[key] = f"{statistics.fmean(values):.3f}"
    level = statistics.fmean(float(row[COLUMN]) for row in runs["softmax"])
    title = f"After {budget[1]:,} updates" if budget[0] == "updates" else f"After {budget[1]} seconds on one GPU"
    return Panel(title, "MASE over seasonal naive's", strips, level=level, numbers=numbers, above="mean")
