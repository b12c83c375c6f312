"""Curves on logarithmic axes as a small SVG that needs nothing else."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Point = tuple[float, float]
WIDTH, HEIGHT = 300, 240
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 26, 40
LEGEND = 44
COLOURS = ("#1f4e79", "#c0392b", "#1e8449", "#7d3c98", "#b9770e", "#117a8b", "#6e6e6e", "#a04070", "#5d8a00")


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes: a title, the words under the horizontal axis, a line for each name."""

    title: str
    below: str
    lines: dict[str, list[Point]]


def draw(panels: Sequence[Panel], columns: int) -> str:
    """The panels in rows of `columns`, with one legend; a dashed line grows in proportion."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(names)}
    width, height = columns * WIDTH, -(-len(panels) // columns) * HEIGHT + LEGEND
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="11" fill="#222">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for at, panel in enumerate(panels):
        parts.append(f'<g transform="translate({at % columns * WIDTH} {at // columns * HEIGHT})">')
        parts += [*_axes(panel, colours), "</g>"]
    parts += [*_legend(colours, width, height - LEGEND), "</svg>"]
    return "\n".join(parts) + "\n"


def _axes(panel: Panel, colours: dict[str, str]) -> Iterator[str]:
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text x="{middle}" y="16" text-anchor="middle" font-weight="bold">{panel.title}</text>'
    yield f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{panel.below}</text>'
    points = [point for line in panel.lines.values() for point in line]
    if not points:
        yield f'<text x="{middle}" y="{HEIGHT / 2}" text-anchor="middle">not measured</text>'
        return
    across = Scale([x for x, _ in points], LEFT, WIDTH - RIGHT)
    up = Scale([y for _, y in points], HEIGHT - BOTTOM, TOP)
    for value in sorted({x for x, _ in points}):
        yield f'<text x="{across(value):.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">{value:g}</text>'
    for value in _decades([y for _, y in points]):
        y = up(value)
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
    yield _proportional(panel, across, up)
    for name, line in panel.lines.items():
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in line)
        yield f'<polyline points="{path}" fill="none" stroke="{colours[name]}" stroke-width="1.6"/>'
        for x, y in line:
            yield f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="2" fill="{colours[name]}"/>'


class Scale:
    """From a value to a place on a logarithmic axis."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self.least, self.most = math.log(min(values)), math.log(max(values))
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        span = self.most - self.least
        share = (math.log(value) - self.least) / span if span else 0.5
        return self.start + share * (self.end - self.start)


def _decades(values: Sequence[float]) -> list[float]:
    first, last = math.ceil(math.log10(min(values))), math.floor(math.log10(max(values)))
    return [10.0**power for power in range(first, last + 1)]


def _proportional(panel: Panel, across: Scale, up: Scale) -> str:
    """A dashed line of slope 1, from the lowest first point as far as the axes reach."""
    starts = [line[0] for line in panel.lines.values() if line]
    x, y = min(starts, key=lambda point: point[1])
    factor = min(math.exp(across.most) / x, math.exp(up.most) / y)
    ends = f'x2="{across(x * factor):.1f}" y2="{up(y * factor):.1f}"'
    return f'<line x1="{across(x):.1f}" y1="{up(y):.1f}" {ends} stroke="#999" stroke-dasharray="4 3"/>'


def _legend(colours: dict[str, str], width: float, top: float) -> Iterator[str]:
    each = width / -(-len(colours) // 2)
    for at, (name, colour) in enumerate(colours.items()):
        x, y = at // 2 * each + 10, top + 14 + at % 2 * 18
        ends = f'x1="{x:.1f}" x2="{x + 18:.1f}" y1="{y - 4:.1f}" y2="{y - 4:.1f}"'
        yield f'<line {ends} stroke="{colour}" stroke-width="2"/>'
        yield f'<text x="{x + 24:.1f}" y="{y:.1f}">{name}</text>'
