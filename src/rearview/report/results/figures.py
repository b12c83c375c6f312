"""Figures of the page about result rows that need no script: average ranks, and percentages on a common axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from statistics import median

from rearview.bench.analysis.significance import Judgement
from rearview.report.common import text
from rearview.report.results.tables import candidate

AXIS = 340
"""Width of the axis; the names on either side take what they need."""
LETTER = 7.3
LINE = 22
BAR = 9
TOP = 46
LONGEST = 42
OUTLIER = 5
"""Marks further out than so many times the median distance stand hollow at the edge, or they would squeeze the rest."""


def draw_ranks(judgement: Judgement, host: str = "") -> str:
    """The critical-difference diagram as an SVG element that takes its colours from the page.

    As Demšar (2006) draws it: average ranks on a line, the best at the left, names led out to both sides, a thick bar
    over every group of neighbours of which no two differ significantly. The name of a shared host is left out.
    """
    names = [candidate(name).text.removeprefix(f"{host} + ") for name in judgement.names]
    names = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in names]
    count, left = len(names), math.ceil(len(names) / 2)
    side = 66 + LETTER * max(map(len, names))
    width = AXIS + 2 * side

    def x(rank: float) -> float:
        return side + (rank - 1) / max(1, count - 1) * AXIS

    parts = [
        f'<text class="quiet" x="{width / 2:.1f}" y="13" text-anchor="middle">average rank, 1 is best</text>',
        f'<line x1="{x(1):.1f}" x2="{x(count):.1f}" y1="{TOP}" y2="{TOP}"/>',
    ]
    for tick in range(1, count + 1, math.ceil(count / 10)):
        parts.append(
            f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP - 6}" y2="{TOP}"/>'
            f'<text x="{x(tick):.1f}" y="{TOP - 12}" text-anchor="middle">{tick}</text>'
        )
    first = TOP + BAR * len(judgement.cliques) + 24
    for place, (name, rank) in enumerate(zip(names, judgement.ranks, strict=True)):
        number, is_left = f'<tspan class="quiet">{rank:.2f}</tspan>', place < left
        y = first + LINE * (place if is_left else count - 1 - place)
        edge = side - 12 if is_left else width - side + 12
        anchor, at = ("end", edge - 6) if is_left else ("start", edge + 6)
        words = f"{escape(name)} {number}" if is_left else f"{number} {escape(name)}"
        parts.append(
            f'<polyline points="{x(rank):.1f},{TOP} {x(rank):.1f},{y} {edge:.1f},{y}"/>'
            f'<text x="{at:.1f}" y="{y + 4}" text-anchor="{anchor}">{words}</text>'
        )
    for row, (begin, end) in enumerate(judgement.cliques, start=1):
        x1, x2, y = x(judgement.ranks[begin]) - 5, x(judgement.ranks[end]) + 5, TOP + BAR * row
        parts.append(f'<line class="bar" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y}" y2="{y}"/>')
    ranks = "; ".join(f"{name} {rank:.2f}" for name, rank in zip(judgement.names, judgement.ranks, strict=True))
    size = round(width), first + LINE * left + 4
    return (
        '<div class="scroll" role="region" aria-label="Critical-difference diagram" tabindex="0">'
        f'<svg class="critical" width="{size[0]}" height="{size[1]}" viewBox="0 0 {size[0]} {size[1]}" role="img" '
        f'aria-label="Average ranks: {escape(ranks)}">{"".join(parts)}</svg></div>'
    )


@dataclass(frozen=True, slots=True)
class Mark:
    """A percentage on a lane."""

    value: float
    kind: str = ""
    """Classes of the style sheet."""
    words: str = ""
    """Shown under the pointer."""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """A name and the marks on its line."""

    name: str
    marks: tuple[Mark, ...]
    beside: str = ""


def draw_lanes(lanes: Sequence[Lane], label: str, band: float = 0.0) -> str:
    """Lanes over one axis around zero, `band` percent to either side of it shaded; marks may have intervals.

    Plain elements placed by shares of the width fit every screen and print.
    """
    edge = _edge([mark for lane in lanes for mark in lane.marks], band)

    def share(value: float) -> float:
        """The place of a percentage, in percent of the track."""
        return 50 + 50 * max(-1.0, min(1.0, value / edge))

    def span(kind: str, low: float, high: float) -> str:
        return f'<i class="{kind}" style="left:{share(low):.2f}%;width:{share(high) - share(low):.2f}%"></i>'

    rows = []
    for lane in lanes:
        parts = [span("band", -band, band) if band else "", '<i class="zero"></i>']
        for mark in lane.marks:
            parts.append("" if mark.low is None or mark.high is None else span("reach", mark.low, mark.high))
            kind = f"dot {mark.kind}{' beyond' if abs(mark.value) > edge else ''}".strip()
            parts.append(f'<i class="{kind}" style="left:{share(mark.value):.2f}%" title="{escape(mark.words)}"></i>')
        rows.append(
            f'<li><span class="name">{escape(lane.name)}</span><span class="track">{"".join(parts)}</span>'
            f'<span class="number">{escape(lane.beside)}</span></li>'
        )
    ticks = "".join(
        f'<i style="left:{share(value):.2f}%">{text.change(value, 0 if edge >= 2 else 2)}</i>'
        for value in (-edge, -edge / 2, 0, edge / 2, edge)
    )
    return (
        f'<ul class="lanes" role="img" aria-label="{escape(label)}">{"".join(rows)}'
        f'<li class="axis" aria-hidden="true"><span></span><span class="track">{ticks}</span><span></span></li></ul>'
    )


def _edge(marks: Sequence[Mark], band: float) -> float:
    """The end of the axis: a round number that has room for all but outliers."""
    usual = median(abs(mark.value) for mark in marks)
    widest = max(abs(value) for mark in marks for value in (mark.value, mark.low, mark.high) if value is not None)
    least = max(min(widest, OUTLIER * usual) if usual else widest, 2 * band, 0.1)
    scale = 10.0 ** math.floor(math.log10(least))
    return next(step * scale for step in (1, 2, 4, 10) if step * scale >= least * (1 - 1e-9))
