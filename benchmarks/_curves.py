"""Curves over one axis, panel beside panel, each line with its name beside it or in a legend below."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from _svg import GRID, INK, PALE, WIDTH, Part, Scale, Style, line, mark, numbers, page, path, reach, text, ticks

Point = tuple[float, float]
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 28, 42
LEGEND = 46
APART = 14
"""Between the names beside lines, in pixels."""
COLOURS = ("#4d4d4d", "#cc79a7", "#882255", "#0072b2", "#56b4e9", "#e69f00", "#d55e00", "#009e73", "#5e3c99")


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes: a title, the words under the horizontal axis, a line for each name."""

    title: str
    below: str
    lines: Mapping[str, Sequence[Point]]
    logarithmic: tuple[bool, bool] = (True, True)
    faint: Mapping[str, Sequence[Point]] = field(default_factory=dict)
    """What the lines are means of, thin behind them."""
    dots: Mapping[str, Sequence[Point]] = field(default_factory=dict)
    """Points without a line."""
    levels: Mapping[str, float] = field(default_factory=dict)
    """Horizontal lines across the panel."""
    band: tuple[float, float] | None = None
    """A stretch of the vertical axis that is shaded."""
    up: tuple[float, float] | None = None
    """Ends of the vertical axis, where they are not to follow from the points."""
    at: Sequence[float] = ()
    """Values written under the horizontal axis, where they are not to be round ones."""
    proportional: bool = False
    """A dashed line that grows in proportion."""

    def points(self) -> list[Point]:
        """All that the axes must hold."""
        return [point for group in (self.lines, self.faint, self.dots) for points in group.values() for point in points]


def draw(panels: Sequence[Panel], columns: int, title: str = "Curves") -> str:
    """The panels in rows of `columns` as a page of their own, with one legend; a dashed line grows in proportion."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    styles = {name: Style(COLOURS[at % len(COLOURS)]) for at, name in enumerate(names)}
    panels = [replace(panel, proportional=True, at=sorted({x for x, _ in panel.points()})) for panel in panels]
    width = 300 * columns
    legend = Part(LEGEND, list(_legend(styles, width)))
    return page([curves(panels, columns, styles, width=width, height=240, names=0), legend], width, title)


def curves(
    panels: Sequence[Panel],
    columns: int,
    styles: Mapping[str, Style],
    *,
    width: float = WIDTH,
    height: float = 300,
    names: float = 130,
) -> Part:
    """The panels in rows of `columns`; `names`: pixels for the names beside the lines of a panel, 0 for none."""
    each, shapes = width / columns, []
    for at, panel in enumerate(panels):
        shapes.append(f'<g transform="translate({at % columns * each:.1f} {at // columns * height:.1f})">')
        shapes += [*_PanelDrawing(panel, styles, each, height, names).shapes(), "</g>"]
    return Part(-(-len(panels) // columns) * height, shapes)


class _PanelDrawing:
    """A panel with the places of its axes."""

    def __init__(self, panel: Panel, styles: Mapping[str, Style], width: float, height: float, names: float) -> None:
        self.panel, self.styles, self.names = panel, styles, names
        self.right, self.bottom, self.height = width - RIGHT - names, height - BOTTOM, height
        points = panel.points()
        if points:
            logarithmic_x, logarithmic_y = panel.logarithmic
            heights = [y for _, y in points] + list(panel.levels.values()) + list(panel.band or ())
            least, most = reach([x for x, _ in points], logarithmic_x, margin=0.03)
            self.across = Scale(least, most, LEFT, self.right, logarithmic_x)
            self.up = Scale(*(panel.up or reach(heights, logarithmic_y)), self.bottom, TOP, logarithmic_y)

    def shapes(self) -> Iterator[str]:
        middle = (LEFT + self.right) / 2
        yield text(middle, 17, self.panel.title, anchor="middle", bold=True)
        beside = self.right + self.names + RIGHT - 3 * len(self.panel.below)
        yield text(min(middle, beside), self.height - 8, self.panel.below, anchor="middle", colour=PALE, size=11)
        if not self.panel.points():
            yield text(middle, self.height / 2, "not measured", anchor="middle", colour=PALE)
            return
        yield from self._frame()
        yield from self._lines()
        if self.names:
            yield from self._names()

    def place(self, point: Point) -> Point:
        return self.across(point[0]), self.up(point[1])

    def _frame(self) -> Iterator[str]:
        for value, words in ticks(self.across, at=self.panel.at):
            yield text(self.across(value), self.bottom + 16, words, anchor="middle", colour=PALE)
            yield line(self.across(value), self.bottom, self.across(value), self.bottom + 4, colour=PALE)
        heights = self.up.ticks(8)
        for value, words in zip(heights, numbers(heights, alike=not self.up.logarithmic), strict=True):
            yield line(LEFT, self.up(value), self.right, self.up(value))
            yield text(LEFT - 6, self.up(value) + 4, words, anchor="end", colour=PALE)
        yield line(LEFT, self.bottom, self.right, self.bottom, colour=PALE)
        if self.panel.band:
            low, high = (self.up(value) for value in self.panel.band)
            size = f'width="{self.right - LEFT:.1f}" height="{low - high:.1f}"'
            yield f'<rect x="{LEFT}" y="{high:.1f}" {size} fill="{GRID}" fill-opacity="0.6"/>'
        if self.panel.proportional:
            yield self._in_proportion()

    def _lines(self) -> Iterator[str]:
        for name, value in self.panel.levels.items():
            style, y = self._style(name), self.up(value)
            yield line(LEFT, y, self.right, y, colour=style.colour, width=1.6, dash=style.dash or "5 4", kind="level")
        for name, points in self.panel.faint.items():
            yield path([self.place(point) for point in points], Style(self._style(name).colour), 1, 0.3)
        for name, points in self.panel.lines.items():
            style, places = self._style(name), [self.place(point) for point in points]
            yield path(places, style)
            if len(places) <= 12:
                yield from (mark(x, y, style, 2.6) for x, y in places)
        for name, points in self.panel.dots.items():
            yield from (mark(*self.place(point), self._style(name)) for point in points)

    def _names(self) -> Iterator[str]:
        """Names at the height at which their lines end, pushed apart where they would lie on one another."""
        ends = {name: self.up(points[-1][1]) for name, points in self.panel.lines.items() if points}
        ends |= {name: self.up(value) for name, value in self.panel.levels.items()}
        ends |= {
            name: self.up(points[-1][1]) for name, points in self.panel.dots.items() if name not in ends and points
        }
        order = sorted(ends, key=lambda name: ends[name])
        for name, y in zip(order, spread([ends[name] for name in order], TOP, self.bottom), strict=True):
            style = self._style(name)
            if name in self.panel.lines or name in self.panel.levels:
                dash = style.dash or ("5 4" if name in self.panel.levels else "")
                yield line(self.right + 8, y, self.right + 24, y, colour=style.colour, width=2, dash=dash)
            else:
                yield mark(self.right + 16, y, style)
            yield text(self.right + 29, y + 4, name, colour=style.colour)

    def _style(self, name: str) -> Style:
        return self.styles.get(name, Style(INK))

    def _in_proportion(self) -> str:
        """From the lowest first point as far as the axes reach."""
        x, y = min((points[0] for points in self.panel.lines.values() if points), key=lambda point: point[1])
        factor = min(self.across.most / x, self.up.most / y)
        ends = (*self.place((x, y)), *self.place((x * factor, y * factor)))
        return line(*ends, colour=PALE, dash="4 3")


def spread(wanted: Sequence[float], least: float, most: float, apart: float = APART) -> list[float]:
    """Places in the order wanted, at least `apart` from one another and as near to those wanted as that allows."""
    groups: list[tuple[float, int]] = []
    for place in wanted:
        group = _within(place, 1, least, most, apart)
        while groups and group[0] - groups[-1][0] < apart * (group[1] + groups[-1][1]) / 2:
            (before, more), (centre, count) = groups.pop(), group
            together = count + more
            group = _within((centre * count + before * more) / together, together, least, most, apart)
        groups.append(group)
    return [centre + apart * (at - (count - 1) / 2) for centre, count in groups for at in range(count)]


def _within(centre: float, count: int, least: float, most: float, apart: float) -> tuple[float, int]:
    """A group of so many places that does not leave the axis."""
    half = apart * (count - 1) / 2
    return max(least + half, min(most - half, centre)), count


def smooth(points: Sequence[Point], reaching: int) -> list[Point]:
    """Running means over as many points to both sides, fewer at the ends."""
    found = []
    for at, (x, _) in enumerate(points):
        side = min(reaching, at, len(points) - 1 - at)
        found.append((x, math.fsum(y for _, y in points[at - side : at + side + 1]) / (2 * side + 1)))
    return found


def _legend(styles: Mapping[str, Style], width: float) -> Iterator[str]:
    each = width / max(1, -(-len(styles) // 2))
    for at, (name, style) in enumerate(styles.items()):
        x, y = at // 2 * each + 10, 16 + at % 2 * 18
        yield line(x, y - 4, x + 18, y - 4, colour=style.colour, width=2)
        yield text(x + 24, y, name)
