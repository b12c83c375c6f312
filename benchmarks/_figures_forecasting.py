"""Figures of forecasting: attentions in one network, prime and RBCA by setting, MICA by gate, CAPS by path."""

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import _curves
import _evidence as evidence
from _curves import Point
from _evidence import BIASES, COLOURS, NETWORKS, Missing, Row, name, select, settings_of, values
from _strips import Key, Lane, Panel, choose_limits, grid
from _svg import Part, Style, figure, legend, reach
from rearview.core.grouping import group_by

FAR = 0.04
"""What differs from softmax by more than this share would squeeze all others together."""
SEEDS = "A dot a seed, a bar at their mean, which stands in numbers at the right; dashed: softmax's mean."
STRENGTHS = {
    "alpha": ("alpha (logarithmic)", ("power law", "similarity power law")),
    "scale": ("scale in tokens (logarithmic)", ("Butterworth",)),
}
"""What the biases of RBCA are swept over."""


def mechanisms(folder: Path) -> str:
    """PatchTST: test MSE by attention."""
    found = select(evidence.rows(folder, "mechanisms", "mse"), model="patchtst")
    return _by_attention(found, "The same PatchTST with each attention: test MSE")


def channels(folder: Path) -> str:
    """iTransformer: test MSE by attention."""
    found = select(evidence.rows(folder, "channels", "mse"), model="itransformer")
    return _by_attention(found, "The same iTransformer with each attention over channels: test MSE")


def caps(folder: Path) -> str:
    """The CAPS network: test MSE by kind of attention and without each path."""
    found = select(evidence.rows(folder, "caps", "mse"), model="caps_net")
    return _by_attention(found, "The CAPS network by attention and path: test MSE")


def _by_attention(found: Sequence[Row], title: str) -> str:
    clean = select(found, protocol="clean")
    if len({name(row) for row in clean}) < 2:
        raise Missing("there are no two attentions to compare in this network under the clean protocol")
    parts = _panels(evidence.in_order(clean), lambda row: ("", name(row)))
    return figure(title, f"Clean protocol. {SEEDS}", *parts)


def _panels(found: Iterable[Row], key: Callable[[Row], Key]) -> list[Part]:
    """A panel for each data set, horizon, look-back and budget, two side by side."""
    cells = group_by(found, lambda row: (int(row["horizon"]), row["dataset"], int(row["lookback"]), row["training"]))
    panels = []
    for (horizon, dataset, lookback, training), here in sorted(cells.items()):
        runs = {strip: values(own, "mse") for strip, own in group_by(here, key).items()}
        softmax = values((row for row in here if name(row) == "softmax"), "mse")
        level = statistics.fmean(softmax) if softmax else None
        everything = [value for own in runs.values() for value in own]
        styles = {key(row): evidence.style(row) for row in here}
        panels.append(
            Panel(
                f"{dataset}, horizon {horizon}",
                f"look-back {lookback}, at most {json.loads(training)['epochs']} epochs",
                {strip: [Lane(own, styles[strip])] for strip, own in runs.items()},
                level=level,
                limits=choose_limits(everything, level or statistics.median(everything), FAR),
                numbers={strip: f"{statistics.fmean(own):.4f}" for strip, own in runs.items()},
                above="mean",
            )
        )
    return grid(panels, 2)


def prime_ablations(folder: Path) -> str:
    """iTransformer: prime attention's initialisations and sparsity."""
    found = evidence.in_order(row for row in evidence.rows(folder, "prime", "mse") if row["lookback"] == "96")
    if len({_primed(row) for row in found}) < 2:
        raise Missing("prime.csv has no two kinds of primers at look-back 96")
    found.sort(key=lambda row: (settings_of(row).get("primer") == "sparse", settings_of(row).get("sparsity", 0)))
    title = "Prime attention: what its primers start from, and how many are left out: test MSE"
    words = f"iTransformer, clean protocol. {SEEDS}"
    return figure(title, words, *_panels(found, _primed))


def _primed(row: Row) -> Key:
    settings = settings_of(row)
    if row["attention"] != "prime":
        return "", name(row)
    if settings.get("primer") == "sparse":
        return "Pairs without a primer", evidence.percent(settings["sparsity"])
    features = str(settings["features"]).replace("_", "-")
    return "Primers start from", f"{features} (the default)" if features == "full" else features


def prime_lookback(folder: Path) -> str:
    """iTransformer: softmax and prime over the look-back."""
    styles = {"softmax": Style(COLOURS["softmax"]), "prime": Style(COLOURS["prime"])}
    found = [row for row in evidence.rows(folder, "prime", "mse") if name(row) in styles]
    panels = []
    for (dataset, horizon), here in group_by(found, lambda row: (row["dataset"], row["horizon"])).items():
        lines, dots = _over(here, name, lambda row: float(row["lookback"]))
        if any(len(line) > 1 for line in lines.values()):
            at = sorted({x for line in lines.values() for x, _ in line})
            title = f"{dataset}, horizon {horizon}"
            panels.append(_curves.Panel(title, "steps of look-back", lines, (False, False), dots=dots, at=at))
    if not panels:
        raise Missing("prime.csv has no look-backs to compare")
    title = "Prime attention and softmax over the look-back: test MSE"
    words = "iTransformer, clean protocol. A dot a seed, the line through their means."
    part = _curves.curves(panels, min(2, len(panels)), styles, names=84)
    return figure(title, words, part)


def rbca(folder: Path) -> str:
    """PatchTST: RBCA's biases over their strength, beside softmax."""
    found = evidence.rows(folder, "rbca", "mse")
    plain = select([*evidence.rows(folder, "mechanisms", "mse"), *found], model="patchtst", attention="softmax")
    panels = []
    for (dataset, horizon, training), here in group_by(select(found, attention="rbca"), _cell).items():
        softmax = values(select(plain, dataset=dataset, horizon=horizon, training=training), "mse")
        panels += _strengths(here, f"{dataset}, horizon {horizon}", softmax)
    if not panels:
        raise Missing("rbca.csv has no strengths to compare")
    styles = BIASES | {"softmax": Style(COLOURS["softmax"])}
    title = "RBCA over the strength of its biases: test MSE"
    words = (
        "PatchTST, clean protocol. A dot a seed, lines through their means; dashed: softmax's mean, shaded: the range "
        "of its seeds."
    )
    return figure(title, words, _curves.curves(panels, 2, styles, height=260, names=148))


def _strengths(found: Sequence[Row], title: str, softmax: Sequence[float]) -> list[_curves.Panel]:
    """One panel over alpha, one over the scale; both with the same vertical axis."""
    causal = values((row for row in found if _bias(row) == "causal mask only"), "mse")
    means = {"softmax": softmax, "causal mask only": causal}
    levels = {who: statistics.fmean(own) for who, own in means.items() if own}
    up = reach([*values(found, "mse"), *softmax])
    band = (min(softmax), max(softmax)) if len(softmax) > 1 else None
    panels = []
    for setting, (below, biases) in STRENGTHS.items():
        own = [row for row in found if _bias(row) in biases]
        lines, dots = _over(own, _bias, partial(_strength, setting))
        if lines:
            at = sorted({x for line in lines.values() for x, _ in line})
            panels.append(
                _curves.Panel(title, below, lines, (True, False), dots=dots, levels=levels, band=band, up=up, at=at)
            )
    return panels


def _strength(setting: str, row: Row) -> float:
    return float(settings_of(row)[setting])


def _cell(row: Row) -> tuple[str, str, str]:
    return row["dataset"], row["horizon"], row["training"]


def _bias(row: Row) -> str:
    return evidence.bias(settings_of(row))


def _over(
    found: Iterable[Row], who: Callable[[Row], str], where: Callable[[Row], float]
) -> tuple[dict[str, list[Point]], dict[str, list[Point]]]:
    """(a line through means, a dot for each seed) by name, at the places that `where` says."""
    lines, dots = {}, {}
    for each, own in group_by(found, who).items():
        at = sorted(group_by(own, where).items())
        lines[each] = [(x, statistics.fmean(values(runs, "mse"))) for x, runs in at]
        dots[each] = [(x, value) for x, runs in at for value in values(runs, "mse")]
    return lines, dots


def mica(folder: Path) -> str:
    """PatchTST and MOMENT: MAE by MICA's gate, relative to softmax."""
    styles = {"patchtst": Style(COLOURS["mica"]), "moment": Style(COLOURS["mica"], "square", hollow=True)}
    found = evidence.in_order(select(evidence.rows(folder, "mica", "original_mae"), protocol="published:mica"))
    panels = []
    for (dataset, horizon, _), here in group_by(found, _cell).items():
        lanes: dict[Key, list[Lane]] = {}
        for model, style in styles.items():
            for who, gains in _relative(select(here, model=model)).items():
                lanes.setdefault(("", who.removeprefix("mica, ")), []).append(Lane(gains, style))
        if lanes:
            below = "percent above softmax's error"
            title = f"{dataset}, horizon {horizon}"
            panels.append(Panel(title, below, lanes, level=0.0, limits=_about(lanes), bars=True))
    if not panels:
        raise Missing("mica.csv has no gate beside softmax in the same network on the same data")
    title = "MICA by gate: mean absolute error relative to the same network with softmax"
    words = (
        "Protocol published:mica, errors in original units. A mark a seed, a bar to the mean; left of the dashed line "
        "is better."
    )
    marks = legend({NETWORKS[model]: style for model, style in styles.items()})
    return figure(title, words, marks, *grid(panels, 2))


def _relative(found: Sequence[Row]) -> dict[str, list[float]]:
    """By name, how many percent the errors lie above the mean of softmax's; nothing where softmax was not run."""
    softmax = values(select(found, attention="softmax"), "original_mae")
    if not softmax:
        return {}
    others = group_by((row for row in found if row["attention"] != "softmax"), name)
    base = statistics.fmean(softmax)
    return {who: [100 * (value / base - 1) for value in values(own, "original_mae")] for who, own in others.items()}


def _about(lanes: Mapping[Key, Sequence[Lane]]) -> tuple[float, float]:
    """Ends of an axis around 0 that leaves out what is many times as far from it as most."""
    everything = [value for own in lanes.values() for lane in own for value in lane.values]
    usual = max(0.5, 6 * statistics.median(map(abs, everything)))
    return reach([0.0, *(value for value in everything if abs(value) <= usual)])
