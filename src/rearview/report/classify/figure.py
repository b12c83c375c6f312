"""A classification as a figure for notebooks: which classes are taken for which, and the cases most often confused."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rearview.report.classify.page import Example
from rearview.report.common import text
from rearview.report.common.figures import HUES, add_line, new_figure, plain
from rearview.tasks.confusion import Confusion

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MOST_CHANNELS = 6


def draw_confusion(confusion: Confusion, of: str) -> "Figure":
    """True classes down, predicted ones across; the darker a cell, the larger its share of its row."""
    import plotly.graph_objects as go

    names = [plain(str(label)) for label in confusion.labels]
    counts = confusion.counts
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    heat = go.Heatmap(
        z=shares, x=names, y=names, customdata=counts, text=np.where(counts > 0, counts.astype(str), ""),
        texttemplate="%{text}", colorscale=[[0, "#ffffff"], [1, HUES[0]]], zmin=0, zmax=1, showscale=False,
        hovertemplate="%{y} taken for %{x}: %{customdata} (%{z:.0%} of its cases)<extra></extra>",
    )  # fmt: skip
    side = 160 + 34 * len(names)
    words = f"{text.percent(confusion.accuracy)} of {counts.sum():,} {of} classified correctly"
    figure = go.Figure(heat)
    figure.update_layout(
        template="plotly_white", title={"text": words, "font": {"size": 14}}, height=max(360, side),
        width=max(420, side + 60), xaxis={"title": "predicted", "type": "category"},
        yaxis={"title": "true class", "type": "category", "autorange": "reversed"},
    )  # fmt: skip
    return figure


def draw_cases(examples: Sequence[Example]) -> "Figure":
    """Two cases in a row, each with its class, the answer and how likely that was held to be."""
    figure = new_figure([describe(one) for one in examples], columns=min(2, len(examples)), row_height=200)
    columns = min(2, len(examples))
    for number, one in enumerate(examples):
        place = (number // columns + 1, number % columns + 1)
        steps = np.arange(1, one.values.shape[1] + 1)
        for channel, values in enumerate(one.values[:MOST_CHANNELS]):
            colour, name = HUES[channel % len(HUES)], one.channel_name(channel)
            add_line(figure, place, steps, values, name, colour, showlegend=number == 0 and len(one.values) > 1)
    return figure


def describe(one: Example) -> str:
    """A case in words: its class, the answer, how likely both were held to be."""
    if one.said == one.label:
        return f"{one.name}: {one.label}, classified correctly ({100 * one.share:.0f} %)"
    return f"{one.name}: {one.label} taken for {one.said} ({100 * one.share:.0f} %)"
