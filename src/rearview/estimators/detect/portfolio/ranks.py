"""Scores as ranks among held-out ordinary rows: minus the logarithm of the share of those that score as high.

    rank(s) = -log(share of held-out rows above s)    up to u, which all but TAIL of them stay below
    rank(s) = -log(TAIL) + (s - u) / scale            beyond

Ranks end at the highest held-out row, so an exponential tail goes on from there; of scores that are logarithms of
errors, that is Pareto's tail of errors. Every series has ranks of its own, but few of its rows are in the tail, and
they come in bursts. So one scale serves all series: that of the median excess over u, which anomalies among the
held-out rows hardly move, weighed against the scale that is usual, which counts for more the fewer bursts there are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rearview.data.panel import Panel

TAIL = 0.05
"""Share of held-out rows that the tail is fitted to."""
LEVELS = np.linspace(0, 1 - TAIL, 39)
"""Shares of held-out rows below the scores that are kept; between these ranks are interpolated."""
RANKS = -np.log1p(-LEVELS)
LEAST_ROWS = 100
"""Held-out rows with which a series has ranks of its own: five of them are in the tail."""
USUAL_BURSTS = 5
"""Weight of the usual scale, in bursts."""
THINNER = 0.65
"""The scale, in ranks, of the tail of new ordinary rows. Measured on simulated series (seasons, AR(1), counts, noise,
noise with a long tail or a changing scale) with 100 to 1,000 held-out rows, differences between files included."""

Rows = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """Quantiles of held-out scores at LEVELS, and how fast higher ones become rare."""

    known: NDArray[np.float64]
    """[series, level]."""
    elsewhere: NDArray[np.float64]
    """[level]: for series that were not seen in training, or had too few held-out rows."""
    scale: float

    @staticmethod
    def learn(
        scored: Sequence[Rows], series: NDArray[np.int64], count: int, *, averaged: int, usual_scale: float
    ) -> "Ranks":
        """From the scores of held-out rows of some `series` among `count`, each averaged over so many rows."""
        finite = [rows[np.isfinite(rows)] for rows in scored]
        together = np.concatenate(finite)
        elsewhere = np.quantile(together if len(together) else np.zeros(1), LEVELS)
        known = np.tile(elsewhere, (count, 1))
        excess = []
        for s, rows in zip(series.tolist(), finite, strict=True):
            if len(rows) >= LEAST_ROWS:
                known[s] = np.quantile(rows, LEVELS)
            excess.append(rows[rows > known[s, -1]] - known[s, -1])
        beyond = np.concatenate(excess)
        bursts = len(beyond) / averaged
        own = float(np.median(beyond)) / math.log(2) if len(beyond) else usual_scale
        return Ranks(known, elsewhere, (bursts * own + USUAL_BURSTS * usual_scale) / (bursts + USUAL_BURSTS))

    def rank(self, rows: Rows, panel: Panel, place: Sequence[int | None]) -> Rows:
        """The ranks of scores [row], 0 for 0; `place` says where each series stands among those of training."""
        ranked = np.empty_like(rows)
        for p, (a, b) in zip(place, panel.bounds(), strict=True):
            levels = self.elsewhere if p is None else self.known[p]
            tail = RANKS[-1] + (rows[a:b] - levels[-1]) / self.scale
            ranked[a:b] = np.where(rows[a:b] > levels[-1], tail, np.interp(rows[a:b], levels, RANKS))
        return np.where(rows == 0, 0.0, ranked)


def usual_quantile(share: float) -> float:
    """The rank that usually this share of new ordinary rows stay below."""
    rank = -math.log1p(-share)
    return min(rank, RANKS[-1] + THINNER * max(0.0, rank - RANKS[-1]))
