"""Widen or narrow intervals by one factor a level, learned from backtest windows (split-conformal), and cut them off
where a series can't go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rearview.data.panel import Panel
from rearview.data.windows import Windows
from rearview.estimators.forecast.backtest import Backtest
from rearview.estimators.forecast.predictor import Array, Bounds
from rearview.models.patch_hosts.glance import RESTING

TRUSTED = 10
"""Windows that must be outnumbered for the backtest to count for more than the members' own widths: variables err
together, so more of them in one window tell little more."""
FADING = 0.6
"""When intervals are corrected, a window counts for so much of the next one: what comes is most like what came last."""
LEAST_STRETCH, MOST_STRETCH = 0.5, 3.0
FEW_COUNTS = 32
"""Rows below which a series of whole numbers need not come down to 0 for that to be its floor."""
EXACT = 0.01
"""What the rounding of values in float32 may leave of a whole number for it to be known as one."""


def stretch_bounds(point: Array, bounds: Bounds, factors: Mapping[float, float]) -> Bounds:
    """Intervals whose reach from the median is multiplied; a wider level always holds a narrower one."""
    stretched: Bounds = {}
    low, high = point, point
    for level in sorted(bounds):
        lower, upper = bounds[level]
        low = np.minimum(low, point - factors[level] * np.maximum(point - lower, 0))
        high = np.maximum(high, point + factors[level] * np.maximum(upper - point, 0))
        stretched[level] = (low, high)
    return stretched


def read_factor(factors: Mapping[float, float], level: float) -> float:
    """The factor of a level; between those that were measured it is read off a line."""
    known = sorted(factors)
    return float(np.interp(level, known, [factors[one] for one in known])) if known else 1.0


def measure_stretch(backtest: Backtest, levels: Sequence[float]) -> dict[float, float]:
    """The factor of each level that gives its intervals their nominal coverage, shrunk towards 1 where windows are few.

    Split-conformal: the factor of a level is the quantile, of that level, of the factors that each truth needs, where
    late windows weigh more than early ones.
    """
    ages = np.arange(len(backtest.y))[::-1, None, None]
    share = np.broadcast_to(FADING**ages, backtest.y.shape)
    trust = int(np.isfinite(backtest.y - backtest.mean).any(axis=(1, 2)).sum())
    factors = {}
    for level in levels:
        low, high = backtest.intervals[level]
        error = backtest.y - backtest.mean
        reach = np.where(error >= 0, high - backtest.mean, backtest.mean - low)
        there = np.isfinite(error) & np.isfinite(reach) & (reach > 0)
        needed, weight = np.abs(error[there]) / reach[there], share[there]
        if not len(needed):
            factors[level] = 1.0
            continue
        order = np.argsort(needed)
        below = np.cumsum(weight[order]) / (weight.sum() * (1 + 1 / len(needed)))
        rank = min(len(needed) - 1, int(np.searchsorted(below, level / 100 - 1e-9)))
        exact = float(np.clip(needed[order[rank]], LEAST_STRETCH, MOST_STRETCH))
        factors[level] = exact ** (trust / (trust + TRUSTED))
    return factors


def stretch_backtest(backtest: Backtest, levels: Sequence[float]) -> Backtest:
    """The backtest with each window's intervals stretched by what the others showed; kept to the levels asked for."""
    windows = len(backtest.cutoffs)
    asked = {level: backtest.intervals[level] for level in levels}
    if windows == 1:
        return replace(backtest, intervals=asked)
    parts = []
    for window in range(windows):
        others = np.arange(windows) != window
        rest = replace(
            backtest,
            y=backtest.y[others],
            mean=backtest.mean[others],
            intervals={level: (low[others], high[others]) for level, (low, high) in backtest.intervals.items()},
        )
        own = {level: (low[window], high[window]) for level, (low, high) in asked.items()}
        parts.append(stretch_bounds(backtest.mean[window], own, measure_stretch(rest, levels)))
    bounds = {
        level: (np.stack([part[level][0] for part in parts]), np.stack([part[level][1] for part in parts]))
        for level in levels
    }
    return replace(backtest, intervals=bounds)


def find_count_floors(panel: Panel, which: Windows, targets: int) -> Array:
    """[window, target]: 0 where the rows before a window are counts or amounts; -inf elsewhere.

    No value of theirs is below 0, and they are whole numbers of which two or more are 0, or amounts of which a
    twentieth is, as rates that turn negative one day are not; of a few rows two, and whole numbers need no 0 there.
    """
    floors = np.full((len(which), targets), -np.inf)
    begins = panel.offsets[which.series]
    for window, (begin, start) in enumerate(zip(begins.tolist(), which.starts.tolist(), strict=True)):
        rows, series = slice(begin, start), int(which.series[window])
        for target in range(targets):
            past = panel.original_column(rows, series, target)
            past = past[np.isfinite(past)]
            rounding = float(np.finfo(np.float32).eps) * float(past.max(initial=0.0))
            if not len(past) or past.min() < -rounding:
                continue
            few = start - begin < FEW_COUNTS
            whole = rounding < EXACT and (np.abs(past - np.rint(past)) <= rounding).all()
            # Beside a value out of all proportion, others are nothing but rounding: what is 0 can't be told.
            amounts = past[past > past.min()]
            known = len(amounts) and rounding < EXACT * np.median(amounts)
            zeros = (past <= rounding).sum()
            if (few and whole) or (known and zeros > 1 and (few or whole or zeros >= RESTING * len(past))):
                floors[window, target] = 0.0
    return floors


def cut_bounds(bounds: Bounds, lowest: Array | float, highest: Array | float = np.inf) -> Bounds:
    """Intervals without what lies below a floor or above a ceiling."""
    return {
        level: (np.clip(low, lowest, highest), np.clip(high, lowest, highest)) for level, (low, high) in bounds.items()
    }
