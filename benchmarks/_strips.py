"""Strips of dots: things named at the left, panels of the same things side by side, a dot for each run."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from _svg import PALE, WIDTH, Part, Scale, Style, line, mark, reach, text, ticks

NAMES, NUMBERS, GAP = 172, 52, 24
HEAD, AXIS, LANE, ROOM, HEADING = 32, 42, 10, 8, 22
Key = tuple[str, str]
"""Group and name of a strip."""


@dataclass(frozen=True, slots=True)
class Lane:
    """The values of one thing; `beside`: what each is to be seen beside, such as chance."""

    values: Sequence[float]
    style: Style
    beside: float | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """A horizontal axis and what lies on it, strip by strip."""

    title: str
    below: str
    strips: Mapping[Key, Sequence[Lane]]
    level: float | None = None
    """A vertical line, such as the mean of what all is compared with."""
    limits: tuple[float, float] | None = None
    """Ends of the axis; what lies beyond is told in words."""
    numbers: Mapping[Key, str] = field(default_factory=dict)
    """At the right of the strips."""
    above: str = ""
    """Over those numbers."""
    bars: bool = False
    """From the level to the mean of each lane."""


CHANCE = Style("#8a8a8a", "diamond", hollow=True)


def strips(panels: Sequence[Panel], columns: int, title: str = "") -> Part:
    """Panels that share the names at the left, with a title over all of them, where `columns` fit side by side."""
    keys = merge_keys([list(panel.strips) for panel in panels])
    top = HEAD + (HEADING if title else 0)
    places, bottom = _places(keys, panels, top)
    shapes = [text(10, 18, title, size=13, bold=True)] if title else []
    shapes += list(_names(places))
    each = (WIDTH - NAMES - 6) / columns
    single = all(len(lanes) == 1 for panel in panels for lanes in panel.strips.values())
    for at, panel in enumerate(panels):
        left = NAMES + at * each
        right = left + each - GAP - (NUMBERS if panel.numbers else 0)
        shapes += _PanelDrawing(panel, places, (left, right), (top, bottom), 6.5 if single else 5.0).shapes()
    return Part(bottom + AXIS, shapes)


def grid(panels: Sequence[Panel], columns: int) -> list[Part]:
    """Panels in rows of so many."""
    return [strips(panels[at : at + columns], columns) for at in range(0, len(panels), columns)]


def merge_keys(orders: Sequence[Sequence[Key]]) -> list[Key]:
    """All keys, each after the one it follows in its own panel; those of a group together."""
    found: list[Key] = []
    for order in orders:
        after = 0
        for key in order:
            if key not in found:
                found.insert(after, key)
            after = found.index(key) + 1
    groups = list(dict.fromkeys(group for group, _ in found))
    return sorted(found, key=lambda key: groups.index(key[0]))


def _places(keys: Sequence[Key], panels: Sequence[Panel], top: float) -> tuple[dict[Key, float], float]:
    """(the height of the middle of each strip, where the last one ends)."""
    found: dict[Key, float] = {}
    group = ""
    for key in keys:
        if key[0] != group:
            group, top = key[0], top + HEADING
        lanes = max(len(panel.strips.get(key, ())) for panel in panels)
        found[key] = top + (lanes * LANE + ROOM) / 2
        top += lanes * LANE + ROOM
    return found, top


def _names(places: Mapping[Key, float]) -> Iterator[str]:
    group = ""
    for (of, name), y in places.items():
        if of != group:
            group = of
            yield text(10, y - HEADING + 8, of, bold=True)
        yield text(NAMES - 12, y + 4, name, anchor="end")


class _PanelDrawing:
    """A panel with the places of its axes; `half`: of a strip's height, for its marks."""

    def __init__(
        self,
        panel: Panel,
        places: Mapping[Key, float],
        ends: tuple[float, float],
        heights: tuple[float, float],
        half: float,
    ) -> None:
        self.panel, self.places, self.heights, self.half = panel, places, heights, half
        self.left, self.right = ends
        values = [value for lanes in panel.strips.values() for lane in lanes for value in _all(lane)]
        values += [] if panel.level is None else [panel.level]
        self.scale = Scale(*(panel.limits or reach(values)), self.left, self.right)

    def shapes(self) -> Iterator[str]:
        yield from self._frame()
        for key, lanes in self.panel.strips.items():
            for at, lane in enumerate(lanes):
                middle = self.places[key] + (at - (len(lanes) - 1) / 2) * LANE
                yield from self._lane(lane, middle)
        for key, words in self.panel.numbers.items():
            yield text(self.right + NUMBERS, self.places[key] + 4, words, anchor="end", colour=PALE, size=11)

    def _frame(self) -> Iterator[str]:
        top, bottom = self.heights
        yield text(self.left, top - 10, self.panel.title, bold=True)
        if self.panel.above:
            yield text(self.right + NUMBERS, top - 10, self.panel.above, anchor="end", colour=PALE, size=11)
        for y in self.places.values():
            yield line(self.left, y, self.right, y)
        for value, words in ticks(self.scale):
            x = self.scale(value)
            yield line(x, top, x, bottom)
            yield line(x, bottom, x, bottom + 4, colour=PALE)
            yield text(x, bottom + 16, words, anchor="middle", colour=PALE, size=11)
        yield line(self.left, bottom, self.right, bottom, colour=PALE)
        yield text((self.left + self.right) / 2, bottom + 31, self.panel.below, anchor="middle", colour=PALE)
        if self.panel.level is not None and self.scale.holds(self.panel.level):
            x = self.scale(self.panel.level)
            yield line(x, top - 2, x, bottom, colour="#4d4d4d", width=1.3, dash="4 3", kind="level")

    def _lane(self, lane: Lane, y: float) -> Iterator[str]:
        inside = [value for value in lane.values if self.scale.holds(value)]
        mean = statistics.fmean(lane.values)
        if self.panel.bars and self.panel.level is not None and self.scale.holds(mean):
            yield line(self.scale(self.panel.level), y, self.scale(mean), y, colour=lane.style.colour, width=2)
        if lane.beside is not None and self.scale.holds(lane.beside):
            yield line(self.scale(lane.beside), y, self.scale(mean), y, colour="#b5b5b5", width=1.2)
            yield mark(self.scale(lane.beside), y, CHANCE, 3.2)
        yield from (mark(self.scale(value), y, lane.style, self.half / 2) for value in inside)
        if len(lane.values) > 1 and self.scale.holds(mean):
            x = self.scale(mean)
            yield line(x, y - self.half, x, y + self.half, colour=lane.style.colour, width=2.4, kind="mean")
        if words := describe_outliers(lane.values, self.scale):
            yield text(self.right - 2, y + 4, words, anchor="end", colour=lane.style.colour, size=11, halo=True)


def _all(lane: Lane) -> list[float]:
    return [*lane.values, *([] if lane.beside is None else [lane.beside])]


def describe_outliers(values: Sequence[float], scale: Scale) -> str:
    """What is said of values beyond the ends of the axis; empty where there are none."""
    off = sorted(value for value in values if not scale.holds(value))
    if not off:
        return ""
    least, most = f"{off[0]:.4g}", f"{off[-1]:.4g}"
    words = least if least == most else f"{least} to {most}"
    if len(off) < len(values):
        return f"{len(off)} of {len(values)} off the axis: {words}"
    return f"off the axis: {words}"


def choose_limits(values: Sequence[float], centre: float, share: float) -> tuple[float, float]:
    """Ends of an axis that holds those of the values that differ from the centre by no more than this share of it.

    It is at least half as wide as that, so that what hardly differs does not look as if it did. Where most of them
    differ by more, it holds them all.
    """
    held = [value for value in values if abs(value - centre) <= share * abs(centre)]
    if 2 * len(held) < len(values):
        held = list(values)
    return reach([*held, centre * (1 - share / 4), centre * (1 + share / 4)])
