"""Pieces of small SVG figures that need nothing else: scales, round ticks, words, marks, a page that stacks parts."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import escape

INK, PALE, GRID = "#222222", "#666666", "#e4e4e4"
SIZE = 12
"""Of the letters, in pixels of a page that is shown as wide as it says."""
WIDTH = 760.0
"""Of a page, in pixels."""
LETTERS = 126
"""In a line as long as the page is wide."""
Shape = Literal["circle", "square", "diamond", "triangle"]
CORNERS: dict[str, tuple[tuple[float, float], ...]] = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "triangle": ((0, -1.2), (1.15, 0.9), (-1.15, 0.9)),
}


@dataclass(frozen=True, slots=True)
class Style:
    """How everything of one name is drawn."""

    colour: str
    shape: Shape = "circle"
    hollow: bool = False
    dash: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """What stands on a page between two heights: shapes, placed from its own upper left corner."""

    height: float
    shapes: list[str]


@dataclass(frozen=True, slots=True)
class Scale:
    """From a value to a place on an axis."""

    least: float
    most: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        least, most, at = (math.log(v) if self.logarithmic else v for v in (self.least, self.most, value))
        share = (at - least) / (most - least) if most > least else 0.5
        return self.start + share * (self.end - self.start)

    def holds(self, value: float) -> bool:
        """Whether the value lies between the ends of the axis."""
        return self.least <= value <= self.most

    def ticks(self, most: int = 5) -> list[float]:
        """At most so many round values on the axis; on a logarithmic one powers of ten, and 2 and 5 if they fit."""
        if not self.logarithmic:
            step = next(step for step in _steps(self.most - self.least) if self._count(step) <= most)
            return [step * at for at in range(math.ceil(self.least / step - 1e-9), self._last(step) + 1)]
        powers = range(math.floor(math.log10(self.least)), math.ceil(math.log10(self.most)) + 1)
        for digits in ((1, 2, 5), (1,)):
            found = [digit * 10.0**power for power in powers for digit in digits if self.holds(digit * 10.0**power)]
            if len(found) <= most:
                break
        return found

    def _count(self, step: float) -> int:
        return self._last(step) - math.ceil(self.least / step - 1e-9) + 1

    def _last(self, step: float) -> int:
        return math.floor(self.most / step + 1e-9)


def _steps(span: float) -> Iterator[float]:
    """Round distances between ticks, from too small ones upwards."""
    power = math.floor(math.log10(span or 1.0)) - 2
    while True:
        yield from (digit * 10.0**power for digit in (1, 2, 5))
        power += 1


def reach(values: Sequence[float], logarithmic: bool = False, margin: float = 0.06) -> tuple[float, float]:
    """The ends of an axis that holds all values with some room beside them."""
    least, most = min(values), max(values)
    if logarithmic:
        room = (most / least) ** margin
        return least / room, most * room
    room = (most - least) * margin or abs(most) * margin or 1.0
    return least - room, most + room


def numbers(values: Sequence[float], alike: bool = True) -> list[str]:
    """Values on an axis in words: no needless digits, and as many in all of them where they are to look alike."""
    plain = [f"{float(f'{value:.6g}'):,.10f}".rstrip("0").rstrip(".") for value in values]
    digits = max((len(words.partition(".")[2]) for words in plain), default=0)
    return [f"{value:,.{digits}f}" for value in values] if alike else plain


def ticks(scale: Scale, most: int = 8, at: Sequence[float] = ()) -> list[tuple[float, str]]:
    """Values with words under a horizontal axis that do not touch one another; `at`: instead of round values."""
    if at:
        found: list[tuple[float, str]] = []
        for value, words in zip(at, numbers(at, alike=False), strict=True):
            if not found or scale(value) - scale(found[-1][0]) >= _wide(words) / 2 + _wide(found[-1][1]) / 2:
                found.append((value, words))
        return found
    for count in range(most, 1, -1):
        values = scale.ticks(count)
        said = numbers(values, alike=not scale.logarithmic)
        if len(values) * max(map(_wide, said), default=0) <= abs(scale.end - scale.start):
            break
    return list(zip(values, said, strict=True))


def _wide(words: str) -> float:
    """Pixels of a number, with some room."""
    return 6.4 * len(words) + 8


def text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: Literal["start", "middle", "end"] = "start",
    colour: str = INK,
    size: float = SIZE,
    bold: bool = False,
    halo: bool = False,
) -> str:
    """Words on the page; `anchor` says which of their ends or middle stands at x, `halo` clears what lies behind."""
    weight = ' font-weight="bold"' if bold else ""
    around = ' stroke="white" stroke-width="4" paint-order="stroke"' if halo else ""
    look = f'text-anchor="{anchor}" fill="{colour}" font-size="{size:g}"{weight}{around}'
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{escape(words)}</text>'


def line(
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    *,
    colour: str = GRID,
    width: float = 1.0,
    dash: str = "",
    kind: str = "",
) -> str:
    """A straight line; `kind` names what it stands for, for those who read the file."""
    extra = (f' stroke-dasharray="{dash}"' if dash else "") + (f' class="{kind}"' if kind else "")
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}"{extra}/>'


def path(points: Sequence[tuple[float, float]], style: Style, width: float = 2.0, opacity: float = 1.0) -> str:
    """A line through the points."""
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = f' stroke-dasharray="{style.dash}"' if style.dash else ""
    look = f'fill="none" stroke="{style.colour}" stroke-width="{width:g}" stroke-opacity="{opacity:g}"{dash}'
    return f'<polyline points="{places}" {look} stroke-linejoin="round"/>'


def mark(x: float, y: float, style: Style, radius: float = 3.4) -> str:
    """A dot, or another shape, around a place."""
    fill = "white" if style.hollow else style.colour
    look = f'fill="{fill}" stroke="{style.colour}" stroke-width="1.4"'
    if style.shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" {look}/>'
    corners = " ".join(f"{x + radius * dx:.1f},{y + radius * dy:.1f}" for dx, dy in CORNERS[style.shape])
    return f'<polygon points="{corners}" {look}/>'


def heading(title: str, words: str) -> Part:
    """What a figure shows, in bold, and how it is read, in lines below."""
    lines = textwrap.wrap(words, LETTERS)
    below = [text(10, 40 + 16 * at, line, colour=PALE) for at, line in enumerate(lines)]
    return Part(36 + 16 * len(lines), [text(10, 22, title, size=15, bold=True), *below])


def legend(styles: dict[str, Style]) -> Part:
    """A mark and a name for each style, in one line."""
    shapes, x = [], 10.0
    for name, style in styles.items():
        shapes += [mark(x + 5, 10, style), text(x + 14, 14, name)]
        x += 14 + 7 * len(name) + 16
    return Part(22, shapes)


def page(parts: Sequence[Part], width: float, title: str) -> str:
    """The parts under one another, on white so that it reads the same on a dark page; `title` is for screen readers."""
    height = sum(part.height for part in parts) + 8
    shapes, top = [], 0.0
    for part in parts:
        shapes += [f'<g transform="translate(0 {top:.1f})">', *part.shapes, "</g>"]
        top += part.height
    box = f'width="{width:g}" height="{height:.0f}" viewBox="0 0 {width:g} {height:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" font-family="Helvetica, Arial, sans-serif">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width:g}" height="{height:.0f}" fill="white"/>',
            *shapes,
            "</svg>\n",
        ]
    )


def figure(title: str, words: str, *parts: Part) -> str:
    """A page of the usual width: what it shows and how it is read, above its parts."""
    return page([heading(title, words), *parts], WIDTH, title)
