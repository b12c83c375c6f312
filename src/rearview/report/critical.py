"""The critical-difference diagram: average ranks on a line, bars over candidates that can't be told apart.

Drawn as Demšar (2006) draws it: the best at the left, names led out to both sides, a thick bar over every group of
neighbours without a significant difference between any two.
"""

import math
from html import escape

from rearview.bench.statistics import Judgement

WIDTH = 820
SIDE = 270
"""Room for names on either side of the axis."""
LINE = 22
BAR = 9
TOP = 46
LONGEST = 36


def diagram(found: Judgement) -> str:
    """The diagram as an SVG element that takes its colours from the page."""
    count = len(found.names)
    left = math.ceil(count / 2)
    first = TOP + BAR * len(found.cliques) + 24
    height = first + LINE * left + 4
    parts = [_axis(count)]
    for place, (name, rank) in enumerate(zip(found.names, found.ranks, strict=True)):
        low = place < left
        level = first + LINE * (place if low else count - 1 - place)
        parts.append(_leader(_shortened(name), rank, _x(rank, count), level, low))
    for row, (begin, end) in enumerate(found.cliques):
        y = TOP + BAR * (row + 1)
        x1, x2 = _x(found.ranks[begin], count) - 5, _x(found.ranks[end], count) + 5
        parts.append(f'<line class="bar" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y}" y2="{y}"/>')
    told = "; ".join(f"{name} {rank:.2f}" for name, rank in zip(found.names, found.ranks, strict=True))
    return (
        '<div class="scroll" role="region" aria-label="Critical-difference diagram" tabindex="0">'
        f'<svg class="critical" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Average ranks: {escape(told)}">'
        f"{''.join(parts)}</svg></div>"
    )


def _x(rank: float, count: int) -> float:
    return SIDE + (rank - 1) / max(1, count - 1) * (WIDTH - 2 * SIDE)


def _axis(count: int) -> str:
    every = max(1, math.ceil(count / 10))
    ticks = "".join(
        f'<line x1="{_x(rank, count):.1f}" x2="{_x(rank, count):.1f}" y1="{TOP - 6}" y2="{TOP}"/>'
        f'<text x="{_x(rank, count):.1f}" y="{TOP - 12}" text-anchor="middle">{rank}</text>'
        for rank in range(1, count + 1, every)
    )
    ends = f'<line x1="{_x(1, count):.1f}" x2="{_x(count, count):.1f}" y1="{TOP}" y2="{TOP}"/>'
    title = f'<text class="quiet" x="{WIDTH / 2}" y="13" text-anchor="middle">average rank, 1 is best</text>'
    return f"{title}{ends}{ticks}"


def _leader(name: str, rank: float, x: float, y: float, left: bool) -> str:
    edge = SIDE - 12 if left else WIDTH - SIDE + 12
    anchor, at = ("end", edge - 6) if left else ("start", edge + 6)
    number = f'<tspan class="quiet">{rank:.2f}</tspan>'
    words = f"{escape(name)} {number}" if left else f"{number} {escape(name)}"
    return (
        f'<polyline points="{x:.1f},{TOP} {x:.1f},{y} {edge},{y}"/>'
        f'<text x="{at}" y="{y + 4}" text-anchor="{anchor}">{words}</text>'
    )


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
