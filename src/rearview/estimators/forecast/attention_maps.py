"""Attention weights of a fitted network on the last windows, with column names and time stamps to their axes.

A network counts channels, marks and steps (`Model.axes`); what they are called and when they were is known here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from rearview.core.display import html_table
from rearview.core.errors import InputError, SettingsError, did_you_mean
from rearview.data import calendar
from rearview.data.infer.timestamps import show
from rearview.data.infer.wall_time import to_wall_time
from rearview.data.panel import Panel
from rearview.data.windows import final_windows
from rearview.estimators.forecast.prediction import Fitted, with_future
from rearview.estimators.forecast.predictor import Array
from rearview.models.contract import Axes, Token, layer_names

ALL = "all columns"
PADDING = "before the first row"

Weights = NDArray[np.float32] | dict[str, NDArray[np.float32]]
"""The operator of a layer, or its parts, which add up."""


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Labels of the axes of one layer's weights [series, group, head, query, key]."""

    groups: tuple[str, ...]
    """The column of each group; "all columns" where there is one group."""
    columns: tuple[str, ...]
    """Of each token, query or key: its column or calendar feature; "all columns" where it holds all of its group."""
    steps: tuple[tuple[int, int], ...] | None
    """Of each token: its first step and the one after its last, 0 being the first step ahead; None: all are whole
    columns."""
    starts: NDArray[np.generic] | None
    """[series, token]: the stamp of its first step, on the wall clock of the data's time zone."""
    ends: NDArray[np.generic] | None
    """[series, token]: the stamp of its last step."""
    padded: NDArray[np.bool_]
    """[series, token]: True where the look-back reaches back before the first row of the series, and nobody looks."""

    def tokens(self, series: int = 0) -> list[str]:
        """A name for every token of a series' window: where it starts, its column, or both."""
        if self.starts is None:
            return list(self.columns)
        places = zip(self.columns, self.starts[series], self.padded[series], strict=True)
        named = ((of, PADDING if padded else show(start)) for of, start, padded in places)
        return [stamp if of == ALL else f"{of}, {stamp}" for of, stamp in named]


class AttentionMaps(dict[str, Weights]):
    """ "layer 1" and on, or "encoder 1" to "decoder 1" and on: arrays [series, group, head, query, key], or a mapping
    of parts that add up.

    `series` names the first axis and `labels`, by layer, the others; a network that does not say what its tokens are
    has no labels.
    """

    def __init__(self, weights: Mapping[str, Weights], series: tuple[str, ...], labels: Mapping[str, Labels]) -> None:
        super().__init__(weights)
        self.series = series
        self.labels = dict(labels)

    def __repr__(self) -> str:
        """The layers and the shapes of their weights: the weights themselves would fill screens."""
        shapes = ", ".join(f"{name!r}: {list(weights.shape)}" for name, weights in self._parts())
        return f"AttentionMaps({{{shapes}}})"

    def _parts(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """The weights of each layer and, where they add up, of each of its parts."""
        for name, one in self.items():
            each = one if isinstance(one, Mapping) else {"": one}
            yield from ((f"{name} {part}".rstrip(), weights) for part, weights in each.items())

    def _repr_html_(self) -> str:
        """The same as a table, for notebooks."""
        rows = [(name, *weights.shape) for name, weights in self._parts()]
        return html_table(rows, ("layer", "series", "group", "head", "query", "key"), "attention weights, by axis")


def select_series(panel: Panel, series: Sequence[str]) -> Panel:
    """The panel with these series alone; one that it does not have is refused."""
    for name in series:
        if name not in panel.ids:
            raise InputError(f"There is no series {name!r}.{did_you_mean(name, list(panel.ids))}")
    return panel.only(series)


def explain_windows(fitted: Fitted, panel: Panel, known: Array | None) -> AttentionMaps:
    """The weights of every layer for the last window of each series; `known` is the future of known inputs."""
    moved = fitted.move(panel)
    which = final_windows(moved)
    index = torch.arange(len(which))
    batch = with_future(fitted, moved, which, index, fitted.source(moved, which).pasts(index), known)
    with torch.inference_mode():
        layers = fitted.network.weights(batch.past, batch.past_marks, batch.future_marks, mask=batch.mask)
    if not layers:
        raise SettingsError(f"{fitted.name} has no attention to look at.")
    axes = fitted.network.axes()
    names = layer_names(axes) or [f"layer {number}" for number in range(1, len(layers) + 1)]
    arrays = {name: _arrays(weights) for name, weights in zip(names, layers, strict=True)}
    labels = dict(zip(names, _label_axes(fitted, panel, axes), strict=False))
    return AttentionMaps(arrays, panel.ids, labels)


def _label_axes(fitted: Fitted, panel: Panel, layers: list[Axes]) -> Iterator[Labels]:
    """Label the axes of each layer for the last window of every series."""
    cut = len(fitted.columns) - fitted.known
    channels, known = fitted.columns[:cut], fitted.columns[cut:]
    marks = known if fitted.calendar is None else (*calendar.names(fitted.calendar), *known)
    lookback, last = fitted.lookback, panel.offsets[1:]
    # [series, step]: from the first step of the look-back to the last one ahead; before a series began, its first.
    rows = np.maximum(last[:, None] + np.arange(-lookback, 0), panel.offsets[:-1, None])
    when = np.concatenate([panel.stamps[rows], panel.ahead(last - 1, fitted.spec.horizon)], axis=1)
    when = to_wall_time(when.ravel(), panel.layout).reshape(when.shape)
    begins = -np.minimum(panel.lengths, lookback)
    repeats = max(1, len(fitted.task.quantiles))  # each step ahead is asked for once for every quantile

    def name(token: Token) -> str:
        if token.of == "all":
            return ALL
        if token.of == "component":
            return f"component {token.index + 1}"
        return (channels if token.of == "channel" else marks)[token.index]

    def count_once(steps: tuple[int, int]) -> tuple[int, int]:
        first, end = steps
        return first if first < 0 else first // repeats, end if end <= 0 else -(-end // repeats)

    for axes in layers:
        groups, columns = (tuple(map(name, tokens)) for tokens in (axes.groups, axes.tokens))
        timed = [token.steps for token in axes.tokens if token.steps is not None]
        if len(timed) < len(axes.tokens):
            padded = np.zeros((len(begins), len(axes.tokens)), dtype=np.bool_)
            yield Labels(groups, columns, None, None, None, padded)
            continue
        steps = tuple(map(count_once, timed))
        firsts, after = (np.array(side) for side in zip(*steps, strict=True))
        starts, ends = when[:, firsts + lookback], when[:, after - 1 + lookback]
        yield Labels(groups, columns, steps, starts, ends, after[None, :] <= begins[:, None])


def _arrays(weights: torch.Tensor | Mapping[str, torch.Tensor]) -> Weights:
    if isinstance(weights, Mapping):
        return {part: tensor.float().cpu().numpy() for part, tensor in weights.items()}
    return weights.float().cpu().numpy()
