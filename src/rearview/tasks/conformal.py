"""Split-conformal intervals: how wrong the model was on windows it neither trained on nor was selected by.

Residuals keep their sign and are divided by the window's own scale, (y - yhat) / s, so that calm and wild stretches
can share them. For each horizon step the n residuals are sorted; an interval of level q takes the residuals of rank
floor((n + 1) (1 - q) / 2) and ceil((n + 1) (1 + q) / 2), which covers at least q of exchangeable futures. Where n is
too small for those ranks to exist, residuals of neighbouring steps are pooled until they do, and the report says so;
every pool that was too small on the way still counts with its extremes. Ranks grow with the level, and a level that
takes a wider pool holds all of the narrower ones: wider levels always hold narrower ones.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


def residuals_needed(level: float) -> int:
    """Residuals below which the ranks of a level (in percent) do not exist."""
    return math.ceil(round(1 / ((1 - level / 100) / 2), 9)) - 1


@dataclass(frozen=True, slots=True)
class Residuals:
    """Sorted residuals for every pool of series or channels and every horizon step."""

    sorted: Array
    """[pool, step, residual], ascending, NaN (missing futures) at the end."""
    counts: NDArray[np.int64]
    """[pool, step]: residuals that are there."""

    @staticmethod
    def of(residuals: Array) -> "Residuals":
        """From residuals [pool, residual, step] in any order, NaN where the future was missing."""
        moved = np.ascontiguousarray(np.moveaxis(residuals, 1, 2), dtype=np.float32)
        return Residuals(np.sort(moved, axis=-1), (~np.isnan(moved)).sum(-1))

    def bounds(self, level: float) -> tuple[Array, Array, int]:
        """Lower and upper residual [pool, step] of a level in percent, and the widest pooling of steps it took.

        NaN in a pool that has no residual at any step.
        """
        lower, upper = _ranks(np.maximum(self.counts, 1), level)
        low, high = (np.take_along_axis(self.sorted, rank[..., None] - 1, axis=-1)[..., 0] for rank in (lower, upper))
        widest = 0
        for pool, step in np.argwhere(self.counts < residuals_needed(level)).tolist():
            values, inner, reach = self._pool_steps(pool, step, residuals_needed(level))
            if len(values):
                widest = max(widest, reach)
                first, last = _ranks(np.array(len(values)), level)
                low[pool, step] = min([values[first - 1], *inner[:1]])
                high[pool, step] = max([values[last - 1], *inner[-1:]])
        return low, high, widest

    @property
    def empty(self) -> NDArray[np.bool_]:
        """[pool]: whether there is no residual at any step."""
        return np.asarray(self.counts.sum(-1) == 0)

    def _pool_steps(self, pool: int, step: int, count: int) -> tuple[Array, Array, int]:
        """Sorted residuals of enough neighbouring steps, those of the widest pool that was too small, and the reach.

        All steps together may still be too few; the reach is then their number.
        """
        steps = self.sorted.shape[1]
        inner = values = self.sorted[pool, step, : self.counts[pool, step]]
        for reach in range(1, steps):
            near = self.sorted[pool, max(0, step - reach) : step + reach + 1]
            inner, values = values, np.sort(near[~np.isnan(near)])
            if len(values) >= count:
                return values, inner, reach
        return values, inner, steps


def _ranks(n: NDArray[np.int64], level: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ranks, from 1, of the lower and the upper bound among n residuals."""
    tail = (1 - level / 100) / 2
    # Rounding guards against binary fractions: (n + 1) * 0.95 must not become one rank more than it is.
    lower = np.floor(np.round((n + 1) * tail, 9)).astype(np.int64)
    upper = np.ceil(np.round((n + 1) * (1 - tail), 9)).astype(np.int64)
    return np.clip(lower, 1, n), np.clip(upper, 1, n)
