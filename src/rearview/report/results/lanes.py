"""Percentages on a common axis, a lane for each name: a mark with its interval, or many marks.

Plain elements placed by shares of the width, so that the figure fits every screen, prints, and needs no script.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from statistics import median

from rearview.report.common import text

OUTLIER = 5
"""Marks further out than so many times the median distance stand hollow at the edge, or they would squeeze the rest."""


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
    """A name and what stands on its line."""

    name: str
    marks: tuple[Mark, ...]
    beside: str = ""


def figure(lanes: Sequence[Lane], label: str, band: float = 0.0) -> str:
    """Lanes over one axis around zero, `band` percent to either side of it shaded."""
    edge = _edge([mark for lane in lanes for mark in lane.marks], band)
    shaded = _span("band", -band, band, edge) if band else ""
    rows = "".join(_row(lane, edge, shaded) for lane in lanes)
    decimals = 0 if edge >= 2 else 2
    ticks = "".join(
        f'<i style="left:{_share(value, edge):.2f}%">{text.change(value, decimals)}</i>'
        for value in (-edge, -edge / 2, 0, edge / 2, edge)
    )
    return (
        f'<ul class="lanes" role="img" aria-label="{escape(label)}">{rows}'
        f'<li class="axis" aria-hidden="true"><span></span><span class="track">{ticks}</span><span></span></li></ul>'
    )


def _row(lane: Lane, edge: float, shaded: str) -> str:
    marks = "".join(_drawn(mark, edge) for mark in lane.marks)
    return (
        f'<li><span class="name">{escape(lane.name)}</span>'
        f'<span class="track">{shaded}<i class="zero"></i>{marks}</span>'
        f'<span class="number">{escape(lane.beside)}</span></li>'
    )


def _drawn(mark: Mark, edge: float) -> str:
    reach = "" if mark.low is None or mark.high is None else _span("reach", mark.low, mark.high, edge)
    kind = f"dot {mark.kind}{' beyond' if abs(mark.value) > edge else ''}".strip()
    return f'{reach}<i class="{kind}" style="left:{_share(mark.value, edge):.2f}%" title="{escape(mark.words)}"></i>'


def _span(kind: str, low: float, high: float, edge: float) -> str:
    left, right = _share(low, edge), _share(high, edge)
    return f'<i class="{kind}" style="left:{left:.2f}%;width:{right - left:.2f}%"></i>'


def _share(value: float, edge: float) -> float:
    """Where a percentage stands, in percent of the track."""
    return 50 + 50 * max(-1.0, min(1.0, value / edge))


def _edge(marks: Sequence[Mark], band: float) -> float:
    """The end of the axis: a round number that has room for all but outliers."""
    usual = median(abs(mark.value) for mark in marks)
    widest = max(abs(value) for mark in marks for value in (mark.value, mark.low, mark.high) if value is not None)
    wanted = max(min(widest, OUTLIER * usual) if usual else widest, 2 * band, 0.1)
    scale = 10.0 ** math.floor(math.log10(wanted))
    return next(step * scale for step in (1, 2, 4, 10) if step * scale >= wanted * (1 - 1e-9))
