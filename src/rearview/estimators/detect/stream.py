"""Rows that arrive a few at a time: the last rows of each series are kept to score the next ones.

For a portfolio the scores of earlier rows are kept, too: they show whether a series has moved for good (`drift`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer.timestamps import show
from rearview.data.panel import Panel
from rearview.data.panel_array import panel_of_cells
from rearview.data.step import Stamps
from rearview.estimators.detect.detection import Detection, flag_rows
from rearview.estimators.detect.fit import Fitted
from rearview.estimators.detect.portfolio.drift import divide
from rearview.estimators.detect.portfolio.patches import STEP
from rearview.estimators.detect.portfolio.portfolio import Portfolio
from rearview.estimators.detect.scoring import Scores

MOST_SCORES = 50_000
"""Scores of earlier rows of a series that are kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """The last rows of a series."""

    cells: NDArray[np.float64]
    """[row, channel] in original units, NaN where a cell was missing."""
    stamps: Stamps
    scores: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """A portfolio's scores of earlier rows before division; the last rows are scored again with the next ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """The last rows of each series that were given so far."""

    tails: Mapping[int, Tail] = field(default_factory=dict)
    """By the place of the series among those of training."""

    def follow(self, fitted: Fitted | Portfolio, panel: Panel) -> tuple[Detection, "Stream"]:
        """(the detection of the new rows, scored together with the rows before them, the stream that includes them)."""
        tails, new = dict(self.tails), []
        places = _places(fitted, panel)
        joined = [
            _join(self.tails.get(place), panel, series, slice(a, b))
            for series, (place, (a, b)) in enumerate(zip(places, panel.bounds(), strict=True))
        ]
        whole = panel_of_cells(
            np.concatenate([tail.cells for tail in joined]),
            np.concatenate([tail.stamps for tail in joined]),
            panel.step,
            panel.layout,
            lengths=np.array([len(tail.stamps) for tail in joined]),
            ids=panel.ids,
            columns=panel.columns,
        )
        portfolio = fitted if isinstance(fitted, Portfolio) else None
        scores = fitted.scores(whole) if portfolio is None else portfolio.raw_scores(whole)
        reach, divisors = _reach(fitted), []
        for place, tail, (begin, end), rows in zip(places, joined, whole.bounds(), panel.lengths.tolist(), strict=True):
            new.append(np.arange(end - rows, end))
            if portfolio is not None:
                rescored = begin + max(0, len(self.tails[place].stamps) - reach) if place in self.tails else begin
                so_far = np.concatenate([tail.scores, scores.rows[rescored:end]])
                divisors.append(portfolio.drift.divisor(so_far, place))
                settled = so_far[:-reach]
                tail = replace(tail, scores=settled[np.isfinite(settled)][-MOST_SCORES:])
            tails[place] = _cut(tail, fitted)
        at = np.concatenate(new)
        members = {name: rows[at] for name, rows in scores.members.items()}
        new_scores = Scores(scores.rows[at], scores.channels[at], members)
        return flag_rows(fitted, panel, divide(new_scores, panel, divisors) if divisors else new_scores), Stream(tails)


def _places(fitted: Fitted | Portfolio, panel: Panel) -> list[int]:
    places = fitted.place(panel)
    for name, place in zip(panel.ids, places, strict=True):
        if place is None:
            raise InputError(
                f"{panel.layout.source}: series {name!r} was not seen in training, so that a few rows can't be scaled; "
                "use predict on all of its rows, or train with it."
            )
    return [place for place in places if place is not None]


def _join(tail: Tail | None, panel: Panel, series: int, rows: slice) -> Tail:
    """The rows of a series behind those that were kept, with empty ones for those that were left out between."""
    new = Tail(panel.original(rows, series), panel.stamps[rows])
    if tail is None:
        return new
    steps = int(panel.step.distance(tail.stamps[-1], new.stamps[0]))
    if steps < 1:
        of = f" of series {panel.ids[series]!r}" if panel.series > 1 else ""
        raise InputError(
            f"{panel.layout.source}: the rows{of} begin at {show(new.stamps[0])}, but rows up to "
            f"{show(tail.stamps[-1])} were given already; give rows that follow."
        )
    between = panel.step.after(tail.stamps[-1], steps)[:-1]
    empty = np.full((len(between), len(panel.columns)), np.nan)
    cells, stamps = [tail.cells, empty, new.cells], [tail.stamps, between.ravel(), new.stamps]
    return Tail(np.concatenate(cells), np.concatenate(stamps), tail.scores)


def _reach(fitted: Fitted | Portfolio) -> int:
    """Rows before and after a row that its score depends on."""
    return fitted.lookback + (fitted.averaged if isinstance(fitted, Portfolio) else 0)


def _cut(tail: Tail, fitted: Fitted | Portfolio) -> Tail:
    """The rows that scores of the next rows depend on; windows begin where they would in the whole series.

    A portfolio scores the last rows again with the next ones, so that twice as many are kept.
    """
    rows, step = _reach(fitted), fitted.spec.step
    if isinstance(fitted, Portfolio):
        rows, step = 2 * rows, math.lcm(step, STEP)
    begin = max(0, len(tail.stamps) - rows) // step * step
    return replace(tail, cells=tail.cells[begin:], stamps=tail.stamps[begin:])
