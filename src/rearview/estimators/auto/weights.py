"""Weights of a portfolio's members from their backtests, and forecasts combined by them.

A weight is the member's prior times a power of its backtest loss. A few windows can't distinguish good members, so the
prior adds what held on other data: on the development tasks (docs/findings-defaults.md) a portfolio with equal priors
was worse than its own best member, and one with these priors is better.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rearview.estimators.forecast.backtest import Backtest
from rearview.estimators.forecast.predictor import Array, Bounds

POWER = 8
"""A member's weight falls with this power of its loss."""
WORST = 1.5
"""Members whose loss is at least this many times the lowest have no weight."""
LEAST = 0.05
"""Weights below this share, of a variable or on average, count as none: a member costs time wherever it is used."""
OWN_WINDOWS = 30
"""Windows that a variable's own losses must outnumber to count for more than those of all variables."""
FEW = 2
"""Windows times variables that the losses must outnumber to count for more than the priors."""


def measure_losses(backtests: Sequence[Backtest]) -> Array:
    """[member, window, variable]: mean quantile loss over the steps, over the naive error of the variable."""
    scale = np.where(backtests[0].absolute > 0, backtests[0].absolute, np.nan)
    y = backtests[0].y
    seen = np.isfinite(y).any(axis=(0, 2), keepdims=True)  # of what was never seen numpy warns
    spread = np.nanstd(np.where(seen, y, 0.0), axis=(0, 2)) if y.size else scale
    scale = np.where(np.isnan(scale), np.where(spread > 0, spread, 1.0), scale)
    losses = []
    for one in backtests:
        parts = [np.abs(one.y - one.mean)]
        for level, (low, high) in one.intervals.items():
            tail = (1 - level / 100) / 2
            for share, bound in ((tail, low), (1 - tail, high)):
                error = one.y - bound
                parts.append(2 * np.maximum(share * error, (share - 1) * error))
        losses.append(_mean(np.mean(parts, axis=0)) / scale)
    return np.stack(losses)


def choose_weights(losses: Array, prior: Array) -> Array:
    """[variable, member]: weights by losses [member, window, variable], NaN where there is none; each row sums to 1.

    `prior` [member] holds what members weigh that lose the same.
    """
    loss, _ = _blend_losses(losses)
    relative = loss / loss.min(axis=1, keepdims=True)
    weights = np.where(relative < WORST, prior * np.maximum(relative, 1e-9) ** -POWER, 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    common = weights.mean(axis=0)
    trimmed = np.where((weights < LEAST) | (common < LEAST), 0.0, weights)
    common = np.where(common < LEAST, 0.0, common)
    trimmed = np.where(trimmed.sum(axis=1, keepdims=True) > 0, trimmed, common)
    return np.asarray(trimmed / trimmed.sum(axis=1, keepdims=True))


def tilt_weights(common: Array, losses: Array) -> Array:
    """[variable, member]: weights that all variables share, tilted towards the members that lose less on each.

    A variable without losses, or with those that all have on average, keeps the `common` weights [member].
    """
    loss, shared = _blend_losses(losses)
    weights = common * np.maximum(loss / shared, 1e-9) ** -POWER
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def combine_backtests(backtests: Sequence[Backtest], losses: Array, prior: Array) -> Backtest:
    """The backtest of the ensemble, each window weighted by the losses of the others alone.

    With one window alone, members weigh what they weighed before it.
    """
    windows, variables = losses.shape[1], losses.shape[2]
    weights = np.broadcast_to(prior / prior.sum(), (windows, variables, len(backtests))).copy()
    if windows > 1:
        for window in range(windows):
            weights[window] = choose_weights(np.delete(losses, window, axis=1), prior)
    first = backtests[0]
    levels = list(first.intervals)
    mean, intervals = combine(
        [one.mean for one in backtests], [one.intervals for one in backtests], levels, weights
    )  # fmt: skip
    notes = tuple(dict.fromkeys(note for one in backtests for note in one.notes))
    return replace(first, mean=mean, intervals=intervals, notes=notes)


def combine(
    means: Sequence[Array], intervals: Sequence[Bounds], levels: Sequence[float], weights: Array
) -> tuple[Array, Bounds]:
    """Weighted means of points and bounds [..., step] by `weights` [..., member]; missing cells count for nothing."""

    def mix(parts: Sequence[Array]) -> Array:
        cells = np.stack(parts, axis=-1)
        there = np.isfinite(cells) & (weights[..., None, :] > 0)
        shares = np.where(there, weights[..., None, :], 0.0)
        total = shares.sum(-1)
        # From the lowest on: where all agree, as on a constant series, the mean is what they say to the last bit.
        lowest = np.where(total > 0, np.where(there, cells, np.inf).min(-1), 0.0)
        beside = (np.where(there, cells - lowest[..., None], 0.0) * shares).sum(-1)
        return np.where(total > 0, lowest + beside / np.where(total > 0, total, 1), np.nan)

    point = mix(means)
    bounds = {
        level: (mix([one[level][0] for one in intervals]), mix([one[level][1] for one in intervals]))
        for level in levels
    }
    return point, bounds


def _blend_losses(losses: Array) -> tuple[Array, Array]:
    """[variable, member]: the losses that weigh members, and [member]: what these lose on all variables.

    A variable's own losses count for as much as it has windows; the rest is what the members lose on all variables,
    which is all that counts for a member that was not backtested on a variable.
    """
    shared = _shared_losses(losses)
    there = np.isfinite(losses)
    cells = int(there.all(axis=0).sum())
    usable = np.isfinite(shared)
    even = float(shared[usable].mean())
    shared = np.where(usable, (cells * shared + FEW * even) / (cells + FEW), np.inf)
    tested = there.any(axis=1, keepdims=True)  # [member, 1, variable]
    compared = (there | ~tested).all(axis=0) & tested.any(axis=0)  # [window, variable]
    own = _mean(np.where(compared, losses, np.nan).transpose(2, 0, 1))  # [variable, member]
    known = np.isfinite(own) & usable
    number = np.maximum(known.sum(axis=1, keepdims=True), 1)
    mean, level = (np.where(known, part, 0.0).sum(axis=1, keepdims=True) / number for part in (own, shared))
    # A variable that every member forecasts without an error says nothing of them.
    ratio = np.divide(own, mean, out=np.full_like(own, np.nan), where=mean > 0) * level
    ratio = np.where(np.isfinite(ratio), ratio, shared)
    n = compared.sum(axis=0)[:, None]
    return np.where(usable, (n * ratio + OWN_WINDOWS * shared) / (n + OWN_WINDOWS), np.inf), shared


def _shared_losses(losses: Array) -> Array:
    """[member]: mean loss over the windows and variables that all members have, or each one's own where none do."""
    common = np.isfinite(losses).all(axis=0)
    if common.any():
        return np.asarray(losses[:, common].mean(axis=1))
    return _mean(losses.reshape(len(losses), -1))


def _mean(values: Array) -> NDArray[np.float64]:
    """The mean over the last axis of what is there; NaN where nothing is."""
    there = np.isfinite(values)
    count = there.sum(-1)
    return np.where(count > 0, np.where(there, values, 0.0).sum(-1) / np.maximum(count, 1), np.nan)
