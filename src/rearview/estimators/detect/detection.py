"""Apply a fitted detector to rows: scores, flags and segments."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rearview.core.wording import listing
from rearview.data.infer.timestamps import show
from rearview.data.panel import Panel
from rearview.estimators.detect import fit as network_fit
from rearview.estimators.detect.fit import Fitted, Prepared, empty_series
from rearview.estimators.detect.portfolio import portfolio
from rearview.estimators.detect.portfolio.portfolio import Portfolio, PreparedPortfolio
from rearview.estimators.detect.scoring import Scores
from rearview.estimators.detect.segments import Segment, segments
from rearview.estimators.detect.spec import AUTO, DetectSpec

LEAST_DIVISOR = 1.1
"""The divisor of scores from which a note reports that a series has moved."""
MOST_GAPS = 5
"""Gaps that a note names, at most."""


def prepare(panel: Panel, spec: DetectSpec) -> Prepared | PreparedPortfolio:
    """Check the rows and plan a network or a portfolio; what can't be trained is refused."""
    return portfolio.prepare(panel, spec) if spec.model == AUTO else network_fit.prepare(panel, spec)


@dataclass(frozen=True, slots=True, eq=False)
class Detection:
    """Scores, flags and segments of the rows of a panel."""

    panel: Panel
    scores: Scores
    thresholds: NDArray[np.float64]
    """[series]."""
    flags: NDArray[np.bool_]
    """[row]: score above the threshold of its series."""
    segments: tuple[Segment, ...]
    notes: tuple[str, ...]

    @property
    def stretches(self) -> NDArray[np.int64]:
        """[segment, 2]: first row and row after the last of each segment."""
        return np.array([(part.first, part.last + 1) for part in self.segments], dtype=np.int64).reshape(-1, 2)


def detect(fitted: Fitted | Portfolio, panel: Panel) -> Detection:
    """Scores, flags and segments of the rows of a panel."""
    return flag_rows(fitted, panel, fitted.scores(panel))


def flag_rows(fitted: Fitted | Portfolio, panel: Panel, scores: Scores) -> Detection:
    """Flags and segments of scored rows."""
    limits = fitted.calibration.limits(fitted.place(panel))
    flags = scores.rows > np.repeat(limits, panel.lengths)
    stretches = segments(flags, scores, panel.offsets, fitted.spec.join)
    return Detection(panel, scores, limits, flags, stretches, _notes(fitted, panel, scores))


def find_moved(scores: Scores, panel: Panel) -> list[tuple[str, float]]:
    """The series that have moved for good since training, and by how much their scores are divided."""
    return [(name, by) for name, by in zip(panel.ids, scores.divisors, strict=False) if by >= LEAST_DIVISOR]


def describe_moved(moved: list[tuple[str, float]], panel: Panel) -> str:
    """The beginning of a sentence on series that have moved."""
    if panel.series == 1:
        return "The series has moved for good"
    return f"{len(moved)} of {panel.series} series {'has' if len(moved) == 1 else 'have'} moved for good"


def _notes(fitted: Fitted | Portfolio, panel: Panel, scores: Scores) -> tuple[str, ...]:
    notes = []
    empty = empty_series(panel)
    places = zip(panel.ids, fitted.place(panel), strict=True)
    unknown = [name for name, place in places if place is None and name not in empty]
    if unknown:
        one = len(unknown) == 1
        notes.append(
            f"{len(unknown)} of {panel.series} series {'was' if one else 'were'} not seen in training "
            f"({', '.join(unknown[:5])}{' ...' if len(unknown) > 5 else ''}): "
            f"{'it is scaled by its' if one else 'they are scaled by their'} own rows and "
            f"{'shares' if one else 'share'} the pooled threshold."
        )
    moved = find_moved(scores, panel)
    if moved:
        what = ", ".join(f"{name!r} by {by:.2g}" for name, by in moved[:5]) + (" ..." if len(moved) > 5 else "")
        what = what if panel.series > 1 else f"{moved[0][1]:.2g}"
        notes.append(
            f"{describe_moved(moved, panel)} since the rows that were learned from, so scores are divided by how far "
            f"({what}): fit the detector to newer rows if that is how they should be, look into it if not."
        )
    without = int(np.isnan(scores.rows).sum())
    if without:
        has, them = ("has", "it") if without == 1 else ("have", "them")
        few = f", or too few rows stand before {them} to forecast from" if fitted.spec.mode == "forecast" else ""
        notes.append(f"{without:,} of {len(scores.rows):,} rows {has} no score: nothing was observed there{few}.")
    if empty:
        has = "has" if len(empty) == 1 else "have"
        notes.append(f"Series {listing(empty)} {has} no value in any row, so no score.")
    gaps = _find_gaps(panel, fitted.lookback)
    if gaps:
        rest = f" and {len(gaps) - MOST_GAPS:,} more" if len(gaps) > MOST_GAPS else ""
        notes.append(f"Where a channel has no value it is not judged: {', '.join(gaps[:MOST_GAPS])}{rest}.")
    short = int((panel.lengths < fitted.lookback).sum())
    if short:
        notes.append(
            f"{short} of {panel.series} series {'is' if short == 1 else 'are'} shorter than a window of "
            f"{fitted.lookback} rows: the rest of {'its' if short == 1 else 'their'} window is padded and masked."
        )
    return tuple(notes)


def _find_gaps(panel: Panel, least: int) -> list[str]:
    """Stretches of at least so many rows in which a channel, which has values elsewhere, has none: in words."""
    if panel.observed is None:
        return []
    gaps = []
    for s, (a, b) in enumerate(panel.bounds()):
        of = f" of {panel.ids[s]}" if panel.series > 1 else ""
        missing = np.pad(~panel.observed[a:b], ((1, 1), (0, 0))).astype(np.int8)
        for name, change in zip(panel.columns, np.diff(missing, axis=0).T, strict=True):
            first, end = np.flatnonzero(change == 1), np.flatnonzero(change == -1)
            gaps += [
                f"{name!r}{of} for {rows:,} rows from {show(panel.stamps[a + at])}"
                for at, rows in zip(first.tolist(), (end - first).tolist(), strict=True)
                if least <= rows < b - a
            ]
    return gaps
