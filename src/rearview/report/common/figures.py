"""Figures for notebooks: lines, bands and stretches of time in the colours of the pages."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from rearview.report.common.summary import Stamps, Values

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

INK, QUIET, GRID = "#1b1f24", "#59616b", "#eceae5"
HUES = ("#005f9e", "#b84a00", "#00795a", "#963d77", "#7a6000", "#4b55a8")
"""As in report.css."""
BAND = 0.16
"""How dense a band is; several that lie over one another are denser."""
MOST_TITLE = 80


def new_figure(titles: Sequence[str], *, columns: int = 1, row_height: int = 260, shared_x: bool = False) -> "Figure":
    """An empty figure with a plot for each title, row by row."""
    from plotly.subplots import make_subplots

    rows = -(-len(titles) // columns)
    gap = min(0.09, 0.25 / max(1, rows - 1)) if rows > 1 else 0.0
    figure = make_subplots(
        rows=rows,
        cols=columns,
        shared_xaxes=shared_x,
        vertical_spacing=gap,
        subplot_titles=[plain(title) for title in titles],
    )
    figure.update_layout(
        template="plotly_white",
        height=140 + rows * row_height,
        margin={"l": 60, "r": 20, "t": 70, "b": 70},
        hovermode="x unified",
        font={"color": QUIET, "size": 12},
        legend={"orientation": "h", "y": 0, "yref": "container", "yanchor": "bottom"},
    )
    figure.update_annotations(font={"size": 13, "color": INK})
    figure.update_xaxes(showgrid=False, linecolor=GRID, showline=True)
    figure.update_yaxes(gridcolor=GRID, zeroline=False)
    return figure


def add_line(
    figure: "Figure", place: tuple[int, int], x: Stamps, y: Values, name: str, colour: str, **options: Any
) -> None:
    """A line in the plot at (row, column), counted from 1; `options` are those of a scatter trace."""
    row, column = place
    figure.add_scatter(
        x=x, y=y, name=plain(name), row=row, col=column,
        **{"mode": "lines", "line": {"color": colour, "width": 1.6}, "legendgroup": name, **options},
    )  # fmt: skip


def add_band(
    figure: "Figure",
    place: tuple[int, int],
    x: Stamps,
    bounds: tuple[Values, Values],
    name: str,
    colour: str,
    **options: Any,
) -> None:
    """The area between two lines; steps without both bounds are left out."""
    known = np.isfinite(bounds[0]) & np.isfinite(bounds[1])
    low, high = (bound[known] for bound in bounds)
    hidden = {"line": {"width": 0}, "hoverinfo": "skip"}
    add_line(figure, place, x[known], low, name, colour, **{**hidden, **options, "showlegend": False})
    fill = {"fill": "tonexty", "fillcolor": fade(colour, BAND)}
    add_line(figure, place, x[known], high, name, colour, **{**hidden, **fill, **options})


def shade(figure: "Figure", stretches: Iterable[tuple[Any, Any]], colour: str) -> None:
    """Shade stretches of the time axis in every plot; one call for all of them, as each shape redraws the figure."""
    shapes = [
        {
            "type": "rect", "xref": "x", "yref": "paper", "x0": first, "x1": last, "y0": 0, "y1": 1, "layer": "below",
            "fillcolor": fade(colour, BAND), "line": {"width": 1, "color": fade(colour, 0.55)},
        }
        for first, last in stretches
    ]  # fmt: skip
    figure.update_layout(shapes=[*figure.layout.shapes, *shapes])


def fade(colour: str, share: float) -> str:
    """A colour so dense."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share})"


def plain(words: str) -> str:
    """Text of the data for plotly, which reads a little HTML in its texts; long ones are cut."""
    return escape(words if len(words) <= MOST_TITLE else f"{words[: MOST_TITLE - 1]}…", quote=False)
