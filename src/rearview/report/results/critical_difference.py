"""The critical-difference diagram: average ranks on a line, bars over candidates that can't be told apart.

Drawn as Demšar (2006) draws it: the best at the left, names led out to both sides, a thick bar over every group of
neighbours without a significant difference between any two.
"""

import math
from dataclasses import dataclass
from html import escape

from rearview.bench.analysis.statistics import Judgement
from rearview.report.results.tables import candidate

AXIS = 340
"""Width of the axis; the names on either side take what they need."""
LETTER = 7.3
LINE = 22
BAR = 9
TOP = 46
LONGEST = 42


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where ranks lie, between names of which the longest has room."""

    names: tuple[str, ...]

    @property
    def side(self) -> float:
        return 66 + LETTER * max(map(len, self.names))

    @property
    def width(self) -> float:
        return AXIS + 2 * self.side

    def x(self, rank: float) -> float:
        return self.side + (rank - 1) / max(1, len(self.names) - 1) * AXIS


def diagram(found: Judgement, host: str = "") -> str:
    """The diagram as an SVG element that takes its colours from the page; the name of a shared host is left out."""
    count = len(found.names)
    left = math.ceil(count / 2)
    frame = _Frame(tuple(_shortened(candidate(name).text.removeprefix(f"{host} + ")) for name in found.names))
    first = TOP + BAR * len(found.cliques) + 24
    parts = [_axis(frame)]
    for place, rank in enumerate(found.ranks):
        level = first + LINE * (place if place < left else count - 1 - place)
        parts.append(_leader(frame, place, rank, level, place < left))
    for row, (begin, end) in enumerate(found.cliques, start=1):
        x1, x2, y = frame.x(found.ranks[begin]) - 5, frame.x(found.ranks[end]) + 5, TOP + BAR * row
        parts.append(f'<line class="bar" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y}" y2="{y}"/>')
    told = "; ".join(f"{name} {rank:.2f}" for name, rank in zip(found.names, found.ranks, strict=True))
    width, height = round(frame.width), first + LINE * left + 4
    return (
        '<div class="scroll" role="region" aria-label="Critical-difference diagram" tabindex="0">'
        f'<svg class="critical" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="Average ranks: {escape(told)}">{"".join(parts)}</svg></div>'
    )


def _axis(frame: _Frame) -> str:
    count = len(frame.names)
    ticks = "".join(
        f'<line x1="{frame.x(rank):.1f}" x2="{frame.x(rank):.1f}" y1="{TOP - 6}" y2="{TOP}"/>'
        f'<text x="{frame.x(rank):.1f}" y="{TOP - 12}" text-anchor="middle">{rank}</text>'
        for rank in range(1, count + 1, math.ceil(count / 10))
    )
    ends = f'<line x1="{frame.x(1):.1f}" x2="{frame.x(count):.1f}" y1="{TOP}" y2="{TOP}"/>'
    middle = f"{frame.width / 2:.1f}"
    return f'<text class="quiet" x="{middle}" y="13" text-anchor="middle">average rank, 1 is best</text>{ends}{ticks}'


def _leader(frame: _Frame, place: int, rank: float, y: float, left: bool) -> str:
    x, name = frame.x(rank), escape(frame.names[place])
    edge = frame.side - 12 if left else frame.width - frame.side + 12
    anchor, at = ("end", edge - 6) if left else ("start", edge + 6)
    number = f'<tspan class="quiet">{rank:.2f}</tspan>'
    words = f"{name} {number}" if left else f"{number} {name}"
    return (
        f'<polyline points="{x:.1f},{TOP} {x:.1f},{y} {edge:.1f},{y}"/>'
        f'<text x="{at:.1f}" y="{y + 4}" text-anchor="{anchor}">{words}</text>'
    )


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
