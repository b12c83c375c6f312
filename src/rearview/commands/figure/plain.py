"""Figures that need no training: recency masks, and how correlation falls with separation."""

from collections.abc import Mapping
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray

from rearview.attention.contract import Site
from rearview.attention.rbca.layer import Decay, Settings
from rearview.bench.runs.request import spell
from rearview.commands.figure.drawing import Drawing, FigureOptions, FigureSpec, draw_figure, tabulate
from rearview.commands.page_data import space_evenly
from rearview.core.settings import settings_from
from rearview.data.datasets import catalogue
from rearview.report.common import text
from rearview.report.results.study import Figure, Series, View

SCORES_SEED = 1
MOST_LINES = 24
"""Channels that are drawn one by one; of more, so many from the first to the last."""
SEPARATIONS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
Floats = NDArray[np.float64]


def draw_masks(declared: FigureSpec, options: FigureOptions) -> Drawing:
    """Biases over age: what they add to the scores, and what they leave of a weight that is 1 at age 0."""
    tokens = int(declared["tokens"])
    profiles = {name: _profile(settings, tokens) for name, settings in _settings(declared["biases"]).items()}
    ages = np.arange(tokens, dtype=np.float64)
    marks = [age for age in (1, 2, 5, 10, 20, 50) if age < tokens]
    rows = [
        [name, *text.column([float(np.exp(f[age])) for age in marks]), f"{np.exp(f).sum():.3g}"]
        for name, f in profiles.items()
    ]
    biases = View("", tuple(Series(name, ages, f) for name, f in profiles.items()))
    weights = View("", tuple(Series(name, ages, np.exp(f)) for name, f in profiles.items()))
    figures = [draw_figure("mask_biases", [biases]), draw_figure("mask_weights", [weights])]
    if declared.get("maps"):
        figures.append(_mask_maps(profiles, min(tokens, 24)))
    least, most = (pick(profiles, key=lambda name: float(np.exp(profiles[name]).sum())) for pick in (min, max))
    verdict = (
        f"Of {len(profiles)} biases {least} forgets fastest (all weights up to {tokens} tokens sum to "
        f"{np.exp(profiles[least]).sum():.3g} times the newest one's) and {most} slowest "
        f"({np.exp(profiles[most]).sum():.3g} times)."
    )
    heads = ["bias", *(f"exp f({age})" for age in marks), "sum of weights"]
    return Drawing(verdict=verdict, table=tabulate("Biases", heads, rows), figures=tuple(figures))


def _settings(biases: list[Mapping[str, object]]) -> dict[str, Settings]:
    """Every combination of the listed values, by name."""
    made = {}
    for spec in biases:
        listed = {key: value if isinstance(value, list) else [value] for key, value in spec.items()}
        for values in product(*listed.values()):
            chosen = dict(zip(listed, values, strict=True))
            made[spell({"name": "rbca", **chosen}).removeprefix("rbca")] = settings_from(Settings, "rbca", chosen)
    return {name.strip("()").removeprefix("bias="): settings for name, settings in made.items()}


def _profile(settings: Settings, tokens: int) -> Floats:
    decay = Decay(Site(groups=1, tokens=tokens, width=8, heads=1), settings)
    profile: Floats = decay.profile(tokens, torch.zeros(1, dtype=torch.float64))[0].detach().numpy()
    return profile


def _mask_maps(profiles: Mapping[str, Floats], tokens: int) -> Figure:
    """The weights that each bias makes of the same random scores."""
    scores = 1.5 * np.random.default_rng(SCORES_SEED).standard_normal((tokens, tokens))
    age = np.arange(tokens)[:, None] - np.arange(tokens)
    views = [View("scores, drawn at random", map=scores), View("weights without a mask", map=_softmax(scores))]
    for name, profile in profiles.items():
        mask = np.where(age >= 0, profile[np.abs(age)], -np.inf)
        views.append(View(f"weights with {name}", map=_softmax(scores + mask)))
    return draw_figure("mask_maps", views)


def _softmax(scores: Floats) -> Floats:
    raised = np.exp(scores - scores.max(1, keepdims=True))
    weights: Floats = raised / raised.sum(1, keepdims=True)
    return weights


def draw_correlation(declared: FigureSpec, options: FigureOptions) -> Drawing:
    """The correlation of each channel with itself some steps later, over the whole recording."""
    names = [options.dataset] if options.dataset else list(declared["datasets"])
    here = {name.casefold() for name in catalogue.available(options.data_dir)}
    missing = [name for name in names if len(names) > 1 and name.casefold() not in here]
    views, rows, sentences = [], [], []
    for name in [name for name in names if name not in missing] or names:
        dataset = catalogue.get(name)
        panel = catalogue.load(dataset, options.data_dir)
        curves = correlate(panel.values.astype(np.float64), min(int(declared["separation"]), len(panel.values) // 2))
        shown = space_evenly(len(curves), MOST_LINES)
        x = np.arange(curves.shape[1], dtype=np.float64)
        lines = [Series(str(panel.columns[at]), x, curves[at]) for at in shown.tolist()]
        views.append(View(dataset.name, tuple(lines)))
        middle = np.nanmedian(curves, axis=0)
        marks = [at for at in SEPARATIONS if at < len(middle)]
        rows.append(
            [dataset.name, str(len(curves)), *(f"{middle[at]:.2f}" for at in marks), f"{_exponent(middle):.2f}"]
        )
        sentences.append(f"{dataset.name} {middle[marks[-1]]:.2f} at {marks[-1]}, like a power law of alpha "
                         f"{_exponent(middle):.2f}")  # fmt: skip
    widest = max(rows, key=len)
    rows = [[*row[:-1], *["–"] * (len(widest) - len(row)), row[-1]] for row in rows]
    heads = ["data set", "channels", *(f"at {at}" for at in SEPARATIONS[: len(widest) - 3]), "alpha"]
    return Drawing(
        verdict=f"The median channel's correlation with itself: {'; '.join(sentences)}.",
        table=tabulate("Correlation of the median channel", heads, rows),
        figures=(draw_figure("correlation", views, most=MOST_LINES),),
        notes=(
            "alpha: the slope of the median's logarithm over that of 1 + separation, by least squares, up to where the "
            "median first falls below 0.05.",
            *([f"Left out, as their files are not at hand: {', '.join(missing)}."] if missing else []),
        ),
    )


def correlate(values: Floats, most: int) -> Floats:
    """[channel, separation]: correlation of x_t and x_(t + s), from 0 to `most` steps; NaN for a constant channel."""
    x = values - values.mean(0)
    size = 1 << (2 * len(x) - 1).bit_length()
    out = np.empty((x.shape[1], most + 1))
    pairs = len(x) - np.arange(most + 1)
    for channel in range(x.shape[1]):
        spectrum = np.fft.rfft(x[:, channel], size)
        out[channel] = np.fft.irfft(spectrum * spectrum.conj(), size)[: most + 1] / pairs
    variance = out[:, :1].copy()
    # What is left of a constant after its mean is subtracted is rounding.
    flat = variance <= 1e-20 * np.square(values).max(0)[:, None]
    return np.where(flat, np.nan, out / np.where(flat, 1.0, variance))


def _exponent(curve: Floats) -> float:
    """The alpha of (1 + s)^-alpha that fits a curve on logarithmic scales, up to where it falls below 0.05."""
    low = np.flatnonzero(~(curve > 0.05))
    end = int(low[0]) if len(low) else len(curve)
    if end < 3:
        return float("nan")
    slope: float = np.polyfit(np.log1p(np.arange(end)), np.log(curve[:end]), 1)[0]
    return -float(slope)
