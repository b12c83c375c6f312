"""Attention maps of a run's networks, made small enough for its page.

A page has room for a few windows, a few maps of each and a few dozen cells a side. Neighbouring tokens are joined
(queries are averaged and keys are summed, so that rows keep their sum); of too many heads the maps show the mean and
those that differ most from it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import compress, pairwise

import numpy as np
from numpy.typing import NDArray

from rearview.attention.contract import Attention
from rearview.commands.page_data import space_evenly
from rearview.data.panel import Panel
from rearview.estimators.auto.ensemble import Ensemble, find_attention, has_attention
from rearview.estimators.forecast.attention_maps import AttentionMaps, Labels, Weights
from rearview.estimators.forecast.forecaster import Forecaster
from rearview.models.contract import Model
from rearview.report.forecast.views import AgeCurve, AttentionView, Names, WeightMap

VIEWS = 4
"""Windows of a network that a reader can choose from."""
MAPS = 16
SIDE = 64
MOST_WEIGHTS = 1 << 27
"""Weights of all layers that are worked out for a page: half a gigabyte of float32."""
LEAST_FOCUS = 0.01
"""Share of the entropy of uniform attention by which that of a layer must be lower for its maps to be drawn."""
PARTS = 3
"""Operators of a layer that add up, at most: those of caps."""

Operator = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """The queries or the keys of a layer in one window, without padding."""

    names: tuple[str, ...]
    columns: tuple[str, ...]
    """Tokens of one column stand next to one another, and only these are joined."""
    starts: NDArray[np.int64] | None
    """The first step of each; None where they are whole columns."""
    real: NDArray[np.bool_]
    """Which of all tokens are real."""

    @classmethod
    def of(
        cls,
        names: Iterable[str],
        columns: Iterable[str],
        steps: Iterable[tuple[int, int]] | None,
        real: NDArray[np.bool_],
    ) -> "Axis":
        """The tokens that are real."""
        starts = None if steps is None else np.array([first for first, _ in steps])[real]
        return cls(tuple(compress(names, real)), tuple(compress(columns, real)), starts, real)

    def runs(self) -> list[int]:
        """Where each column's tokens begin."""
        return [at for at in range(len(self.columns)) if not at or self.columns[at] != self.columns[at - 1]]

    def blocks(self) -> list[int]:
        """Where each run of joined tokens begins, as few of them joined as the page's room asks for."""
        runs = list(pairwise([*self.runs(), len(self.columns)]))
        size = 1
        while len(starts := [at for a, b in runs for at in range(a, b, size)]) > SIDE and size < len(self.columns):
            size += 1
        return starts

    def select(self, blocks: list[int]) -> Names:
        """The names of the cells that fit: those of the tokens that the blocks begin with."""
        runs = self.runs()
        several = 1 < len(runs) < len(blocks)
        kept = blocks[:SIDE]
        begun = ((kept.index(at), self.columns[at]) for at in runs if several and at in kept)
        return Names(tuple(self.names[at] for at in kept), tuple(begun))


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One operator of a layer in one window: [head, query, key]."""

    name: str
    weights: Operator
    queries: Axis
    keys: Axis

    def maps(self, room: int) -> Iterator[WeightMap]:
        """Every head, or their mean and the heads most unlike it, as many as there is room for."""
        mean, heads = self.weights.mean(0), len(self.weights)
        if heads > room or heads == 1:
            yield self._map("mean of heads" if heads > 1 else "", mean)
        if heads > 1:
            unlike = np.argsort(-np.square(self.weights - mean).sum((1, 2)), kind="stable")
            for head in range(heads) if heads <= room else sorted(unlike[: room - 1].tolist()):
                yield self._map(f"head {head + 1}", self.weights[head])

    def focus(self) -> float:
        """From 0 (uniform attention) to 1 (attention to one token)."""
        weights = np.abs(self.weights.mean(0, dtype=np.float64))
        seen = (weights > 0).sum(1)
        shares = weights / np.maximum(weights.sum(1, keepdims=True), 1e-300)
        entropy = -(shares * np.log(np.where(shares > 0, shares, 1))).sum(1)
        rows = seen > 1
        return float((1 - entropy[rows] / np.log(seen[rows])).mean()) if rows.any() else 0.0

    def say(self) -> str:
        """A sentence on what has the most attention."""
        weights = np.abs(self.weights.mean(0, dtype=np.float64))
        even = max(float(weights[weights > 0].mean()) if weights.any() else 1.0, 1e-300)
        curve = self.ages()
        if curve is None:
            best = int(weights.mean(0).argmax())
            lift = float(weights.mean(0)[best]) / even
            return f"In {self.name} it looks most at {self.keys.names[best]}: {lift:.1f} times an even share."
        lifts = np.abs(curve.weights) / even
        best = int(lifts.argmax())
        age = round(float(curve.ages[best]))
        where = f"{abs(age)} steps {'before' if age > 0 else 'after'}" if age else "the same place"
        sentence = f"In {self.name} a token looks most at {where}: {lifts[best]:.1f} times an even share"
        back = curve.ages > 0
        if age <= 0 and back.any() and lifts[back].max() > 1.2:
            second = round(float(curve.ages[back][lifts[back].argmax()]))
            sentence += f"; of what came before, most at {second} steps before ({lifts[back].max():.1f} times)"
        return f"{sentence}."

    def ages(self) -> AgeCurve | None:
        """Mean weight by age, over all heads and pairs of real tokens; None where tokens have no time."""
        if self.queries.starts is None or self.keys.starts is None:
            return None
        rows, columns = self.queries.starts, self.keys.starts
        weights = self.weights.mean(0).ravel()
        apart = np.diff(np.unique(columns))
        stride = int(np.median(apart)) if len(apart) else 1
        ages = np.rint((rows[:, None] - columns).ravel() / stride).astype(np.int64)
        if not weights[ages < 0].any():
            ages, weights = ages[ages >= 0], weights[ages >= 0]
        distinct, places = np.unique(ages, return_inverse=True)
        means = np.bincount(places, weights) / np.bincount(places)
        return AgeCurve(self.name, (distinct * stride).astype(np.float64), means)

    def _map(self, what: str, weights: Operator) -> WeightMap:
        rows, columns = self.queries.blocks(), self.keys.blocks()
        sizes = np.diff([*rows, len(weights)])
        joined = np.add.reduceat(np.add.reduceat(weights, rows, axis=0) / sizes[:, None], columns, axis=1)
        name = f"{self.name}, {what}".removesuffix(", ")
        return WeightMap(name, joined[:SIDE, :SIDE], self.queries.select(rows), self.keys.select(columns))


def attention_views(
    name: str, forecaster: Forecaster, panel: Panel, future: str | None
) -> tuple[tuple[AttentionView, ...], tuple[str, ...]]:
    """(attention maps of a network, sentences on what can't be shown); nothing for a network without attention.

    Errors become sentences: a page without attention maps is better than no page.
    """
    if isinstance(forecaster.fitted, Ensemble) and not has_attention(forecaster.fitted):
        return (), ()
    try:
        network = find_attention(forecaster.fitted, forecaster.tail)[0].network
        if weight_count(network, min(VIEWS, panel.series)) > MOST_WEIGHTS:
            return (), (f"Where {name} looks is not shown: its attention weights are too many to work out for a page.",)
        if not network.axes():
            return (), ()
        return _views(name, forecaster.explain(future=future, series=panel.ids[:VIEWS]), panel), ()
    except Exception as problem:
        return (), (f"Where {name} looks can't be shown: {problem}",)


def weight_count(network: Model, windows: int) -> int:
    """How many weights there are to work out, at most."""
    layers = [part for part in network.modules() if isinstance(part, Attention)]
    heads = max((layer.site.heads for layer in layers), default=0)
    mixed = any(layer.claims.mixes_groups for layer in layers)
    sizes = ((len(axes.groups), len(axes.tokens)) for axes in network.axes())
    parts = sum(groups * tokens**2 * (1 + groups if mixed else PARTS) for groups, tokens in sizes)
    return windows * heads * parts


def _views(model: str, maps: AttentionMaps, panel: Panel) -> tuple[AttentionView, ...]:
    groups = next(iter(maps.labels.values())).groups  # what is kept apart, which is the same in all layers
    places = [(series, group) for series in range(len(maps.series)) for group in range(len(groups))]
    count = panel.series * len(groups)
    noun = "windows" if panel.series > 1 and len(groups) > 1 else "series" if panel.series > 1 else "columns"
    fewer = f"The first {VIEWS} of {count:,} {noun} can be chosen." if count > VIEWS else ""
    named = panel.layout.named_series
    looks = []
    for series, group in places[:VIEWS]:
        parts = [maps.series[series]] if named else []
        parts += [groups[group]] if len(groups) > 1 or not named else []
        looks.append(_view_window(maps, (series, group), model, ", ".join(parts), fewer))
    return tuple(looks)


def _view_window(maps: AttentionMaps, place: tuple[int, int], model: str, name: str, fewer: str) -> AttentionView:
    """The maps of one window (series, group), weight by age, what is seen, and notes on tokens and what is left out."""
    every = [layer for each, weights in maps.items() for layer in _layers(each, weights, maps.labels[each], *place)]
    layers = [every[at] for at in space_evenly(len(every), MAPS)]
    room = MAPS // len(layers)
    notes = [f"There are maps of {len(layers)} of {len(every)} layers."] if len(layers) < len(every) else []
    curves = tuple(curve for layer in layers if (curve := layer.ages()) is not None)
    shown = tuple(one for layer in layers for one in layer.maps(room))
    sharpest = max(layers, key=Layer.focus)
    finding = sharpest.say() if sharpest.focus() >= LEAST_FOCUS else ""
    about = " ".join(filter(None, [*notes, *_about(layers, room), fewer]))
    return AttentionView(model, name, about, shown, curves, finding)


def _about(layers: list[Layer], room: int) -> Iterator[str]:
    """Notes on the names of tokens, and on heads, tokens and columns that are joined or left out."""
    if any(layer.keys.starts is not None for layer in layers):
        yield "A token is named by its first step."
    heads = len(layers[0].weights)
    if heads > room:
        few = "head" if room == 2 else f"{room - 1} heads"
        yield f"Of {heads} heads the maps show the mean{f' and the {few} most unlike it' if room > 1 else ''}."
    axes = [axis for layer in layers for axis in (layer.queries, layer.keys)]
    joined = max(max(np.diff([*axis.blocks(), len(axis.names)])) for axis in axes)
    if joined > 1:
        yield f"A cell joins up to {joined} tokens that follow one another."
    columns = max(len(axis.blocks()) for axis in axes)
    if columns > SIDE:
        yield f"The maps hold the first {SIDE} of {columns:,} columns."


def _layers(name: str, weights: Weights, labels: Labels, series: int, group: int) -> Iterator[Layer]:
    names = labels.tokens(series)
    starts = labels.starts
    if starts is not None and starts.dtype.kind == "M" and (starts == starts.astype("datetime64[m]")).all():
        names = [re.sub(r"(:\d\d):00$", r"\1", name) for name in names]  # whole minutes go without seconds
    tokens = Axis.of(names, labels.columns, labels.steps, ~labels.padded[series])
    for part, each in weights.items() if isinstance(weights, Mapping) else [("", weights)]:
        of, keys = each[series, group], tokens
        if of.ndim == 4:  # mica's memory across channels: what it has from each of them, whenever that was
            of = of.sum(-1)
            keys = Axis.of(labels.groups, labels.groups, None, np.ones(len(labels.groups), dtype=np.bool_))
        real = of[:, tokens.real][..., keys.real]
        yield Layer(f"{name}, {part}".removesuffix(", "), real, tokens, keys)
