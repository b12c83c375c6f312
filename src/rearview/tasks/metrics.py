"""Forecast errors, computed on arrays in which NaN marks what was not observed.

Shapes: y, yhat [window, series, step]; scales [series]. Everything is pooled over observed cells (never a mean of
means), except the scaled errors, which are means over series of each series' own ratio.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def mse(y: Array, yhat: Array) -> float:
    """Mean squared error."""
    return _mean(np.square(y - yhat))


def mae(y: Array, yhat: Array) -> float:
    """Mean absolute error."""
    return _mean(np.abs(y - yhat))


def smape(y: Array, yhat: Array) -> float:
    """Symmetric percentage error in 0 to 200: 200 |y - yhat| / (|y| + |yhat|), 0 where both are 0."""
    size = np.abs(y) + np.abs(yhat)
    return _mean(np.where(size > 0, 200 * np.abs(y - yhat) / np.where(size > 0, size, 1), 0 * size))


def mase(y: Array, yhat: Array, scale: Array) -> float:
    """Mean absolute error over that of the seasonal naive forecast in training; mean over series that have one."""
    return _ratio(np.abs(y - yhat), scale)


def rmsse(y: Array, yhat: Array, scale: Array) -> float:
    """Root of the mean squared error over that of the seasonal naive forecast in training; mean over series."""
    return _ratio(np.square(y - yhat), scale, root=True)


def pinball(y: Array, quantile_forecasts: dict[float, Array]) -> float:
    """Mean over quantiles q of max(q (y - yhat), (q - 1) (y - yhat)), times 2: at q = 0.5 alone it is the MAE."""
    losses = [_mean(np.maximum(q * (y - f), (q - 1) * (y - f))) for q, f in quantile_forecasts.items()]
    return 2 * float(np.mean(losses)) if losses else float("nan")


def coverage(y: Array, low: Array, high: Array, tolerance: Array | float = 0.0) -> float:
    """Share of observed values that fall within the interval, where there is one, or no further off than tolerated."""
    inside = (y >= low - tolerance) & (y <= high + tolerance)
    return _mean(np.where(np.isnan(y) | np.isnan(low) | np.isnan(high), np.nan, inside))


def naive_scale(history: Array, period: int, square: bool = False) -> Array:
    """[series]: the seasonal naive forecast's mean absolute (or squared) one-step error over a history [series, row].

    A history shorter than two periods is compared with its previous value; NaN where there is nothing to compare.
    """
    lag = period if history.shape[-1] >= 2 * period else 1
    change = history[..., lag:] - history[..., :-lag]
    errors = np.square(change) if square else np.abs(change)
    seen = ~np.isnan(errors)
    total, count = np.where(seen, errors, 0).sum(-1), seen.sum(-1)
    return np.where((count > 0) & (total > 0), total / np.maximum(count, 1), np.nan)


def deviation(history: Array) -> Array:
    """[series]: the mean absolute deviation from the mean over a history [series, row]; 0 where nothing was seen."""
    seen = ~np.isnan(history)
    count = np.maximum(seen.sum(-1), 1)
    mean = np.where(seen, history, 0).sum(-1) / count
    return np.asarray(np.where(seen, np.abs(history - mean[..., None]), 0).sum(-1) / count)


def _mean(cells: Array) -> float:
    seen = ~np.isnan(cells)
    return float(cells[seen].mean()) if seen.any() else float("nan")


def _ratio(errors: Array, scale: Array, root: bool = False) -> float:
    seen = ~np.isnan(errors)
    total = np.where(seen, errors, 0).sum(axis=(0, 2))
    count = seen.sum(axis=(0, 2))
    usable = (count > 0) & np.isfinite(scale)
    ratios = total[usable] / count[usable] / scale[usable]
    if not len(ratios):
        return float("nan")
    return float(np.mean(np.sqrt(ratios) if root else ratios))
