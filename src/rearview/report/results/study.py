"""The page of a study or of a paper's figure: a table, and figures of lines, bars, points or maps, or drawings."""

from dataclasses import dataclass
from html import escape
from typing import Literal

import numpy as np

from rearview.core.errors import InputError
from rearview.report.common.payload import round_digits
from rearview.report.common.summary import BUDGET, Content, Summary, Tile, Values
from rearview.report.common.tables import Table

SCRIPTS = ("figures.js", "plots.js", "synthetic.js", "copy.js")
DIGITS = 4
"""Of the numbers behind a figure."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A line, or the bars of one colour."""

    name: str
    x: Values
    y: Values


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """One choice of a figure: lines, bars or points, or a map [row, column]."""

    name: str
    series: tuple[Series, ...] = ()
    map: Values | None = None
    labels: tuple[str, ...] = ()
    """Names of a map's rows and columns; empty: they are steps."""


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """A figure with its words; with several views, the reader chooses one."""

    title: str
    about: str
    kind: Literal["lines", "bars", "points", "map"]
    views: tuple[View, ...]
    x_title: str
    y_name: str
    y_log: bool = False
    x_log: bool = False
    choice: str = "Arm"
    """The name of what a view is."""
    every: int = 1
    """A map's rows and columns stand for so many steps each."""

    def __post_init__(self) -> None:
        if not self.views:
            raise InputError(f"The figure {self.title!r} has nothing to show; give it at least one view.")
        for view in self.views:
            if (view.map is not None) != (self.kind == "map"):
                raise InputError(f"The view {view.name!r} of {self.title!r} does not hold {self.kind}.")


@dataclass(frozen=True, slots=True)
class Diagram:
    """A drawing that needs no script, with its words."""

    title: str
    about: str
    drawing: str
    """An SVG element."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StudySummary(Summary):
    """Everything on the page of a study or of a figure."""

    tiles: tuple[Tile, ...]
    table: Table
    figures: tuple[Figure, ...]
    diagrams: tuple[Diagram, ...] = ()

    def content(self, budget: int = BUDGET) -> Content:
        sections = [_section(number, figure) for number, figure in enumerate(self.figures, start=1)]
        figures = "\n".join([*map(_diagram_section, self.diagrams), *sections])
        return Content(
            template="synthetic.html",
            parts={"table": self.table.html(), "figures": figures},
            tiles=[*self.tiles, self.run_time],
            scripts=SCRIPTS,
            data=[encode(figure) for figure in self.figures],
            skip="results",
        )


def encode(figure: Figure) -> dict[str, object]:
    """A figure as plain data for JSON."""
    return {
        "title": figure.title,
        "kind": figure.kind,
        "x": figure.x_title,
        "y": figure.y_name,
        "log": figure.y_log,
        "xLog": figure.x_log,
        "every": figure.every,
        "views": [_view(view) for view in figure.views],
    }


def _view(view: View) -> dict[str, object]:
    if view.map is not None:
        cells = [round_digits(row, DIGITS) for row in np.asarray(view.map)]
        return {"name": view.name, "map": cells, **({"labels": list(view.labels)} if view.labels else {})}
    series = [
        {"name": one.name, "x": round_digits(one.x, DIGITS + 2), "y": round_digits(one.y, DIGITS)}
        for one in view.series
    ]
    return {"name": view.name, "series": series}


def _diagram_section(diagram: Diagram) -> str:
    about = f'<p class="quiet">{escape(diagram.about)}</p>'
    return f"<section><h2>{escape(diagram.title)}</h2>{about}{diagram.drawing}</section>"


def _section(number: int, figure: Figure) -> str:
    name = f"figure-{number}"
    choice = (
        f'<div class="field"><label for="{name}-choice">{escape(figure.choice)}</label>'
        f'<select id="{name}-choice"></select></div>'
        if len(figure.views) > 1
        else ""
    )
    # Lines are named at their ends where there is room; bars and points have no end.
    key = "key shown" if figure.kind in ("bars", "points") else "key"
    return (
        f'<section id="{name}" aria-labelledby="{name}-title"><div class="bar"><h2 id="{name}-title">'
        f'{escape(figure.title)}</h2>{choice}</div><p class="quiet">{escape(figure.about)}</p>'
        f'<ul class="{key}" id="{name}-key" aria-hidden="true"></ul>'
        f'<div class="plot" id="{name}-plot" role="img"></div></section>'
    )
