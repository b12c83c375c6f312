"""Figures of trained networks: attention maps, weights by age with and without a mask, forecasts, paths of CAPS.

Networks are trained as their presets say under the clean protocol, or with what --train changes of it. Validation and
test windows are some hundred, spread over their whole parts: these errors go with the drawing and make no row.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rearview.attention.contract import Attention, Inputs, Projected
from rearview.attention.softmax import join_carried
from rearview.bench.runs import forecasting, measurement
from rearview.bench.runs.request import Request, spell
from rearview.bench.synthetic.components import read_attention, silence
from rearview.commands.console import say
from rearview.commands.figure.drawing import Drawing, FigureOptions, FigureSpec, draw_figure, tabulate
from rearview.commands.page_data import space_evenly
from rearview.core.errors import SettingsError
from rearview.data.windows import Batch
from rearview.estimators.base import Session, resolve_device
from rearview.models.contract import layer_names
from rearview.report.common import text
from rearview.report.results.study import Figure, Series, View
from rearview.train import Line
from rearview.train.evaluation import evaluation_mode

MOST_WINDOWS = 256
"""Validation windows that choose the epoch, and test windows that an error is measured on: a figure needs no more."""
WINDOWS = 32
"""Test windows whose attention is averaged."""
MISSED = 1.005
"""A path is missed where the error grows by so much without it."""
FEW_WINDOWS = 4
"""The same where every pair of every head is kept for a distribution."""
DRAWN = 4
"""Test windows whose forecasts are drawn."""
COLUMNS = 3
"""Their channels that are drawn."""
BINS = 60
LEAST_WEIGHT = 1e-8
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class TrainedArm:
    """A trained network with its test error."""

    name: str
    trial: forecasting.Fit
    columns: tuple[str, ...]
    mse: float

    def windows(self, count: int) -> Batch:
        """Test windows, spread evenly from the first to the last."""
        return self.trial.source.batch(_spread(self.trial.tested, count))


def train_arms(declared: FigureSpec, options: FigureOptions) -> list[TrainedArm]:
    """Train the networks of a figure, one for each of its mechanisms."""
    device = torch.device(resolve_device(options.device))
    arms: list[TrainedArm] = []
    for attention in declared["attention"]:
        name = attention if isinstance(attention, str) else spell(attention)
        request = Request(
            options.dataset or declared["dataset"],
            declared["model"],
            attention,
            declared["lookback"],
            declared["horizon"],
            seed=options.seed,
            settings=declared.get("settings", {}),
            training=options.training or {},
            presets=declared.get("presets"),
        )
        spec = forecasting.resolve(request)
        data = forecasting.read(spec, options.data_dir)
        say(f"training {spec.model} with {name} on {spec.dataset}, {spec.lookback} steps to {spec.horizon}")
        parts = forecasting.split(data.panel, spec.data, spec.lookback, spec.horizon)
        begun = forecasting.Fit.begin(spec, data.panel, parts, device)
        trial = replace(begun, selected=_spread(begun.selected), tested=_spread(begun.tested))
        trial = trial.fit(Session(progress=Line()))
        std = trial.parts.scaler.std[0, : trial.source.targets]
        errors = measurement.errors(trial.network, trial.task, trial.source, trial.tested, std, batch=trial.batch)
        arms.append(TrainedArm(name, trial, tuple(map(str, data.panel.columns)), errors.mse))
    return arms


def _spread(windows: Tensor, count: int = MOST_WINDOWS) -> Tensor:
    """At most so many of the windows, from the first to the last."""
    return windows[torch.from_numpy(space_evenly(len(windows), count))]


def draw_maps(declared: FigureSpec, options: FigureOptions) -> Drawing:
    """Attention maps between channels of two mechanisms and their difference, layer by layer."""
    first, second = arms = train_arms(declared, options)
    maps = [_channel_maps(arm) for arm in arms]
    names = [*first.columns, *(f"mark {n + 1}" for n in range(len(maps[0][0]) - len(first.columns)))]
    views, rows = [], []
    for layer, (before, after) in enumerate(zip(*maps, strict=True), start=1):
        shown = {first.name: before, second.name: after, f"{second.name} - {first.name}": after - before}
        views += [View(f"layer {layer}, {name}", map=map_, labels=tuple(names)) for name, map_ in shown.items()]
        for arm, map_ in zip(arms, (before, after), strict=True):
            rows.append([f"layer {layer}, {arm.name}", f"{arm.mse:.4f}", *_describe_map(map_, names)])
    means = [np.mean(each, axis=0) for each in maps]
    own = [float(np.diag(mean).mean()) for mean in means]
    top = [int(mean.mean(0).argmax()) for mean in means]
    shares = [float(mean.mean(0)[place]) for mean, place in zip(means, top, strict=True)]
    moved = float(np.abs(means[1] - means[0]).sum(1).mean() / 2)
    verdict = (
        f"{second.name} moves {text.percent(moved)} of the weight that {first.name} gives: on itself a channel puts "
        f"{text.percent(own[1])} instead of {text.percent(own[0])}, and the channel that is looked at most gets "
        f"{text.percent(shares[1])} ({names[top[1]]}) instead of {text.percent(shares[0])} ({names[top[0]]}); an even "
        f"look gives each {text.percent(1 / len(names))}. Test MSE {second.mse:.4f} and {first.mse:.4f}."
    )
    figure = draw_figure("maps", views, windows=WINDOWS)
    heads = ["map", "test MSE", "on itself", "most looked at", "its share", "evenness"]
    return _make_drawing(
        arms, verdict, heads, rows, (figure,), "evenness: entropy over that of an even look, 1 at most."
    )


def _channel_maps(arm: TrainedArm) -> list[Floats]:
    """[looks, looked at] of each layer, averaged over windows, groups and heads."""
    batch = arm.windows(WINDOWS)
    with evaluation_mode(arm.trial.network):
        layers = arm.trial.network.weights(batch.past, batch.past_marks, batch.future_marks)
    maps = []
    for layer in layers:
        if isinstance(layer, Mapping):
            raise SettingsError(f"{arm.name} has several operators that add up, and no one map; use softmax or prime.")
        maps.append(layer.double().mean((0, 1, 2)).cpu().numpy())
    return maps


def _describe_map(map_: Floats, names: Sequence[str]) -> list[str]:
    looked = map_.mean(0)
    shares = np.clip(map_, 1e-300, None)
    entropy = -(shares * np.log(shares)).sum(1).mean() / math.log(len(map_))
    place = int(looked.argmax())
    return [
        text.percent(float(np.diag(map_).mean())),
        names[place],
        text.percent(float(looked[place])),
        f"{entropy:.3f}",
    ]


@dataclass(frozen=True, slots=True, eq=False)
class LayerWeights:
    """What one layer does on a few windows: [pair] of all heads, with and without its mask."""

    name: str
    age: NDArray[np.int64]
    scores: Floats
    """Before any mask."""
    bare: Floats
    """The softmax of the scores alone."""
    weights: Floats
    """As the layer has them."""

    def by_age(self, weights: Floats) -> tuple[Floats, Floats]:
        """(ages, mean weight at each)."""
        ages, places = np.unique(self.age, return_inverse=True)
        means: Floats = np.bincount(places, weights) / np.bincount(places)
        return ages.astype(np.float64), means

    def causal_share(self, weights: Floats) -> float:
        """The share of all weight that lies on a token itself and on earlier ones."""
        return float(weights[self.age >= 0].sum() / weights.sum())

    def slope(self, weights: Floats) -> float:
        """The power of 1 + age, fitted to the mean weight of earlier tokens on logarithmic scales."""
        ages, means = self.by_age(weights)
        kept = (ages >= 0) & (means > LEAST_WEIGHT)
        if kept.sum() < 3:
            return math.nan
        return float(np.polyfit(np.log1p(ages[kept]), np.log(means[kept]), 1)[0])


def read_layers(arm: TrainedArm) -> list[LayerWeights]:
    """Scores and weights of every layer that compares tokens, on a few windows and at most a few channels of each."""
    network, batch = arm.trial.network, arm.windows(FEW_WINDOWS)
    names = layer_names(network.axes())
    every = [part for part in network.modules() if isinstance(part, Attention)]
    layers: list[LayerWeights] = []

    def add(layer: Projected, given: tuple[Tensor], named: dict[str, Any]) -> None:
        inputs = Inputs(*given, **named)
        q, k, _ = layer.heads(inputs.x)
        q, k = join_carried(q, k, inputs)
        scores = q @ k.transpose(-1, -2) * layer.site.per_head**-0.5
        weights = layer.weights(*given, **named)
        assert isinstance(weights, Tensor)
        order = torch.arange(scores.shape[-1], device=scores.device)
        age = (order[:, None] - order).expand(scores.shape)
        flat = (part[:, :COLUMNS].flatten().double().cpu().numpy() for part in (scores, scores.softmax(-1), weights))
        layers.append(LayerWeights(names[len(layers)], age[:, :COLUMNS].flatten().cpu().numpy(), *flat))

    if not all(isinstance(part, Projected) for part in every):
        raise SettingsError(f"{arm.name} has no scores of pairs to draw; use softmax or rbca.")
    hooks = [part.register_forward_pre_hook(add, with_kwargs=True) for part in every]
    try:
        with evaluation_mode(network):
            network(batch.past, batch.past_marks, batch.future_marks)
    finally:
        for hook in hooks:
            hook.remove()
    return layers


def draw_ages(declared: FigureSpec, options: FigureOptions) -> Drawing:
    """Weights over age, and how scores and weights are distributed, with the mask and without it."""
    arms = train_arms(declared, options)
    every = {arm.name: read_layers(arm) for arm in arms}
    first = next(iter(every.values()))
    ages, weights, scores, rows = [], [], [], []
    for place, layer in enumerate(first):
        by_age, spread, scored = [], [], []
        for arm in arms:
            own = every[arm.name][place]
            forms = {", no mask": own.bare, "": own.weights}
            if arm.name == "softmax":
                forms = {"": own.weights}
            for words, form in forms.items():
                name = f"{arm.name}{words}"
                by_age.append(Series(name, *own.by_age(form)))
                spread.append(Series(name, *_histogram(np.log10(np.clip(form, LEAST_WEIGHT, 1)))))
                rows.append(
                    [f"{layer.name}, {name}", f"{arm.mse:.4f}", text.percent(own.causal_share(form)),
                     _two_decimals(own.slope(form))]
                )  # fmt: skip
            scored.append(Series(arm.name, *_histogram(own.scores)))
        ages.append(View(layer.name, tuple(by_age)))
        weights.append(View(layer.name, tuple(spread)))
        scores.append(View(layer.name, tuple(scored)))
    figures = (draw_figure("weights_by_age", ages), draw_figure("weights", weights), draw_figure("scores", scores))
    heads = ["layer and mechanism", "test MSE", "weight on itself and before", "goes with age to the power of"]
    verdict = _judge_ages(arms[-1], every[arms[-1].name])
    return _make_drawing(arms, verdict, heads, rows, figures, _WEIGHTS_OF)


_WEIGHTS_OF = f"Weights are those of {FEW_WINDOWS} test windows and at most {COLUMNS} channels of each."


def _judge_ages(arm: TrainedArm, layers: Sequence[LayerWeights]) -> str:
    """What the strongest mask makes the scores learn, in the first and the last layer."""
    words = []
    for layer in dict.fromkeys((layers[0], layers[-1])):
        even = float((layer.age >= 0).mean())
        words.append(
            f"in {layer.name} the scores alone put {text.percent(layer.causal_share(layer.bare))} of the weight on a "
            f"token and earlier ones (an even look: {text.percent(even)}) and go with age to the power of "
            f"{_two_decimals(layer.slope(layer.bare))}, with the mask {_two_decimals(layer.slope(layer.weights))}"
        )
    return f"Trained with {arm.name}, {'; '.join(words)}."


def _two_decimals(value: float) -> str:
    """Two decimals; what rounds to nothing has no sign."""
    return f"{round(value, 2) + 0.0:.2f}"


def _histogram(values: Floats) -> tuple[Floats, Floats]:
    """(middles, shares) of equally wide bins."""
    counts, edges = np.histogram(values, bins=BINS)
    return (edges[:-1] + edges[1:]) / 2, counts / counts.sum()


def draw_forecasts(declared: FigureSpec, options: FigureOptions) -> Drawing:
    """Forecasts of a few test windows by several mechanisms, beside what came."""
    arms = train_arms(declared, options)
    batches = [arm.windows(DRAWN) for arm in arms]
    made = []
    for arm, batch in zip(arms, batches, strict=True):
        with evaluation_mode(arm.trial.network):
            made.append(arm.trial.task.forecasts(arm.trial.network, batch)[..., 0].double().cpu().numpy())
    past, future = (part.double().cpu().numpy() for part in (batches[0].past, batches[0].future))
    seen = min(past.shape[-1], future.shape[-1])
    before = np.arange(-seen, 0, dtype=np.float64)
    ahead = np.arange(future.shape[-1], dtype=np.float64)
    views = []
    for window in range(len(future)):
        for channel in range(min(COLUMNS, future.shape[1])):
            lines = [
                Series("what came", np.r_[before, ahead], np.r_[past[window, channel, -seen:], future[window, channel]])
            ]
            lines += [Series(arm.name, ahead, yhat[window, channel]) for arm, yhat in zip(arms, made, strict=True)]
            views.append(View(f"window {window + 1}, {arms[0].columns[channel]}", tuple(lines)))
    errors = [np.square(yhat - future).mean((1, 2)) for yhat in made]
    rows = [[arm.name, f"{arm.mse:.4f}", *(f"{one:.4f}" for one in own)] for arm, own in zip(arms, errors, strict=True)]
    best, plain = min(arms, key=lambda arm: arm.mse), arms[0]
    verdict = f"{best.name} has the least test error, MSE {best.mse:.4f}"
    if best is not plain:
        verdict += f"; {plain.name} {plain.mse:.4f} ({text.change(100 * (best.mse / plain.mse - 1))})"
    apart = float(np.mean([np.abs(one - made[0]).mean() for one in made[1:]])) if len(made) > 1 else 0.0
    verdict += (
        f". Forecasts differ from {plain.name}'s by {apart:.3f} standard deviations on average, and from what came by "
        f"{np.abs(made[0] - future).mean():.3f}."
    )
    heads = ["mechanism", "test MSE", *(f"window {n + 1}" for n in range(len(future)))]
    return _make_drawing(arms, verdict, heads, rows, (draw_figure("forecasts", views),))


def draw_paths(declared: FigureSpec, options: FigureOptions) -> Drawing:
    """CAPS path by path: weight by age, and the error with each path silenced."""
    [arm] = arms = train_arms(declared, options)
    trial, paths = arm.trial, tuple(declared["paths"])
    batch = arm.windows(WINDOWS)
    arrays = read_attention(trial.network, batch, paths)
    std = trial.parts.scaler.std[0, : trial.source.targets]
    rows, ratios = [["every path", f"{arm.mse:.4f}", "", "100.0 %"]], {}
    shares = arrays["by_age"].sum(1) / arrays["by_age"].sum()
    for path, share in zip(paths, shares.tolist(), strict=True):
        with silence(trial.network, path):
            without = measurement.errors(
                trial.network, trial.task, trial.source, trial.tested, std, batch=trial.batch
            ).mse
        ratios[path] = without / arm.mse
        rows.append([f"without {path}", f"{without:.4f}", text.change(100 * (ratios[path] - 1)), text.percent(share)])
    ages = np.arange(arrays["by_age"].shape[1], dtype=np.float64)
    by_age = View("", tuple(Series(path, ages, arrays["by_age"][n]) for n, path in enumerate(paths)))
    past, future, predicted = (arrays[name].astype(np.float64) for name in ("past", "future", "said"))
    ahead = len(past) + np.arange(len(future), dtype=np.float64)
    forecast = (
        Series("past", np.arange(len(past), dtype=np.float64), past),
        Series("future", ahead, future),
        Series("forecast", ahead, predicted),
    )
    figures = (
        draw_figure("paths_by_age", [by_age]),
        draw_figure("one_forecast", [View("", forecast)], column=arm.columns[0]),
    )
    peak = {path: int(arrays["by_age"][n, 1:].argmax()) + 1 for n, path in enumerate(paths)}
    listed = ", ".join(f"{path} at {age}" for path, age in peak.items())
    verdict = f"{describe_loss(ratios)} Beyond the step itself, each path looks hardest at an age of: {listed}."
    heads = ["paths", "test MSE", "change", "share of weight"]
    note = "A path is silenced in the trained network; networks trained without it are tables 3 and 6."
    return _make_drawing(arms, verdict, heads, rows, figures, note)


def describe_loss(ratios: Mapping[str, float]) -> str:
    """The path that is missed most, by how many times as large the error is without each; or that none is."""
    most = max(ratios, key=lambda path: ratios[path])
    if ratios[most] < MISSED:
        return f"No path is missed (without {most} the test error changes by {text.change(100 * (ratios[most] - 1))})."
    return f"The forecast rests most on {most}: without it the test error is {ratios[most]:.2f} times as large."


def _make_drawing(
    arms: Sequence[TrainedArm],
    verdict: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    figures: tuple[Figure, ...],
    *notes: str,
) -> Drawing:
    spec, history = arms[0].trial.spec, arms[0].trial.history
    settings = spec.training.to_dict() if spec.training is not None else {}
    network: dict[str, tuple[object, str]] = {name: (value, "") for name, value in spec.settings.items()}
    training: dict[str, tuple[object, str]] = {name: (value, "") for name, value in settings.items()}
    epochs = 0 if history is None else len(history.epochs)
    return Drawing(
        verdict=verdict,
        table=tabulate("What was trained", heads, rows),
        figures=figures,
        facts=(
            ("Data set", spec.dataset),
            ("Network", f"{spec.model}, {spec.lookback} steps to {spec.horizon}"),
            ("Protocol", spec.protocol.name),
            ("Seed", str(spec.seed)),
            ("Epochs", f"{epochs} of {settings.get('epochs', 0)}"),
            ("Test windows", f"{len(arms[0].trial.tested):,}"),
        ),
        settings={"Network": network, "Training": training},
        notes=(
            *notes,
            f"Errors are of at most {MOST_WINDOWS} test windows, spread evenly; `rearview bench` measures all of them.",
        ),
    )
