"""Figures of the synthetic studies: curves of what was measured on the way."""

import json
import statistics
from pathlib import Path
from typing import Any

from _curves import Panel, Point, curves, smooth
from _evidence import BIASES, COLOURS, Missing
from _svg import Style, figure

REACHING = 3
"""Looks to both sides that a line of the flip-flop figure is a mean of."""
ARMS = {
    "mha": "none",
    "alibi": "ALiBi",
    "power_law": "power law",
    "similarity_power_law": "similarity power law",
    "butterworth": "Butterworth",
}
TOA = {
    "softmax": Style(COLOURS["softmax"]),
    "toa softmax": Style(COLOURS["toa"]),
    "toa relu": Style(COLOURS["toa"], dash="7 3"),
    "toa gated": Style(COLOURS["toa"], dash="2 3"),
    "toa softmax, SOR": Style("#7a9a01"),
    "toa relu, SOR": Style("#7a9a01", dash="7 3"),
    "toa gated, SOR": Style("#7a9a01", dash="2 3"),
}


def flipflop(folder: Path) -> str:
    """Accuracy on sparse strings over steps, by bias."""
    panels = []
    kept = [run for run in _read_runs("flipflop", folder) if run.row.size != "reduced"]
    kept.sort(key=lambda run: run.row.steps)  # of several runs of an arm the one that came furthest is drawn
    for rate in sorted({_rate(run) for run in kept}):
        faint = {ARMS[run.row.arm]: _curve(run, "sparse") for run in kept if _rate(run) == rate}
        lines = {arm: smooth(faint[arm], REACHING) for arm in ARMS.values() if arm in faint}
        published = any(run.row.size == "full" for run in kept if _rate(run) == rate)
        title = f"learning rate {f'{rate:.8f}'.rstrip('0')}" + (" (the paper's)" if published else "")
        panels.append(Panel(title, "training steps", lines, (False, False), faint, up=(0.45, 1.01)))
    if not panels:
        raise Missing("flipflop.csv has no runs of the full size")
    title = "Flip-flop: share of last reads answered right on sparse strings, by recency bias"
    words = (
        f"Thin: each look at the test strings; thick: the mean of {2 * REACHING + 1} looks. Guessing gets 0.5. One "
        "seed; lines end where time did."
    )
    return figure(title, words, curves(panels, 1, BIASES, height=240, names=150))


def harmonic(folder: Path) -> str:
    """Mean squared error over steps, by attention, with the paper's numbers."""
    kept = [run for run in _read_runs("harmonic", folder) if run.row.size == "full"]
    if not kept:
        raise Missing("harmonic.csv has no runs of the full size")
    lines = {_arm(run.row.arm): _curve(run, "mse") for run in kept}
    last = max(x for line in lines.values() for x, _ in line)
    at = [last / 2**halvings for halvings in range(4, -1, -1)]
    floor = {"best fixed linear operator": statistics.fmean(run.row.linear_floor for run in kept)}
    printed = {f"{_arm(arm)}, the paper": [(last, value)] for arm, value in _published().items()}
    styles = TOA | {f"{name}, the paper": Style(style.colour, "diamond", hollow=True) for name, style in TOA.items()}
    styles |= {"best fixed linear operator": Style("#8a8a8a")}
    title = "Harmonic demixing: test MSE over training steps, by attention"
    words = (
        "Both axes logarithmic. Diamonds: the numbers of TOA's paper, which does not say after how many steps. SOR: "
        "operators regularised. One seed."
    )
    panel = Panel("mean of the three regimes", "training steps", lines, dots=printed, levels=floor, at=at)
    return figure(title, words, curves([panel], 1, styles, height=420, names=190))


def _read_runs(study: str, folder: Path) -> list[Any]:
    """The study's runs with their curves."""
    for name in (f"{study}.csv", f"{study}-looks.csv"):
        if not (folder / name).exists():
            raise Missing(f"there is no {name}")
    from rearview.bench import synthetic
    from rearview.core.errors import InputError

    try:
        return synthetic.read_runs(study, folder)
    except InputError as problem:
        raise Missing(str(problem).rstrip(".")) from problem


def _curve(run: Any, metric: str) -> list[Point]:
    return [(float(point.step), float(point.value)) for point in run.curve if point.metric == metric]


def _rate(run: Any) -> float:
    return float(json.loads(run.row.training)["learning_rate"])


def _arm(arm: str) -> str:
    return arm.removesuffix("_sor").replace("_", " ") + (", SOR" if arm.endswith("_sor") else "")


def _published() -> dict[str, float]:
    from rearview.bench.papers import published

    return {str(each.variant): each.value for each in published.select("toa", "text4.1") if each.value is not None}
