"""A lasting change of level after training: the scores of the series are divided by its size.

    divisor = max(1, quantile_SHARE(scores so far, and USUAL rows as usual) / quantile_CEILING(held-out scores))

A machine whose level moved after training would score above the anomalies of all others. Where most rows of a series
score above three quarters of its held-out rows, that is its new level, and scores are relative to it. A few hundred
rows are not enough: they may be the anomaly itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rearview.data.panel import Panel
from rearview.estimators.detect.scoring import Scores

CEILING = 0.75
"""Share of held-out rows below the score that the level of a series may reach."""
SHARE = 0.6
"""Share of rows below the level of a series: up to two fifths of them may be anomalies."""
USUAL = 500
"""Rows with the score 0 that are added to the scored ones."""

Rows = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Drift:
    """The levels up to which the series seen in training, and others, have not moved."""

    ceilings: NDArray[np.float64]
    """[series]; 0: not known."""
    ceiling_elsewhere: float

    @staticmethod
    def none(series: int) -> "Drift":
        """No series has moved."""
        return Drift(np.zeros(series), 0.0)

    @staticmethod
    def learn(scored: Sequence[Rows], series: NDArray[np.int64], count: int) -> "Drift":
        """From the scores of held-out rows of some `series` among `count`."""
        elsewhere = _find_ceiling(np.concatenate(scored), 0.0)
        ceilings = np.full(count, elsewhere)
        for s, rows in zip(series.tolist(), scored, strict=True):
            ceilings[s] = _find_ceiling(rows, elsewhere)
        return Drift(ceilings, elsewhere)

    def divisor(self, rows: Rows, place: int | None) -> float:
        """The divisor of the scores of a series, from all of its scores so far."""
        ceiling = self.ceiling_elsewhere if place is None else float(self.ceilings[place])
        known = rows[np.isfinite(rows)]
        if not ceiling > 0:
            return 1.0
        level = float(np.quantile(np.concatenate([known, np.zeros(USUAL)]), SHARE))
        return max(1.0, level / ceiling)


def divide(scores: Scores, panel: Panel, divisors: Sequence[float]) -> Scores:
    """The scores of rows, channels and members over the divisor [series] of their series."""
    by = np.repeat(np.array(divisors), panel.lengths)
    return replace(
        scores,
        rows=scores.rows / by,
        channels=(scores.channels / by[:, None]).astype(np.float32),
        members={name: rows / by for name, rows in scores.members.items()},
        divisors=tuple(divisors),
    )


def _find_ceiling(rows: Rows, otherwise: float) -> float:
    known = rows[np.isfinite(rows)]
    return float(np.quantile(known, CEILING)) if len(known) else otherwise
