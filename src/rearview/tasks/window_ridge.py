"""Ridge regression from a normalised window of the past to all steps ahead, solved in closed form.

A window is centred on its last season (its last value where there is none) and divided by its standard deviation; the
steps ahead are forecast on that scale. One set of coefficients serves all variables, or each has its own, whichever
errs less on rows held out; the penalty is chosen there, too, and so is the spread of the intervals. What describes a
variable may stand beside its windows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PENALTIES = 10.0 ** np.arange(-3, 5)
HELD = 0.2
"""Share of each variable's rows, the last ones, that the penalty is chosen on."""
MOST_WINDOWS = 20_000
MOST_SERIES = 400
"""Variables whose windows are looked at; coefficients that more share need no more."""
LEAST_WINDOWS = 8
CLIP = 20.0
"""Targets beyond so many deviations of their window count as that far: a leap must not rule the fit."""
RANKS = 199
"""Quantiles of the held-out errors that are kept for each step."""


@dataclass(frozen=True, slots=True)
class Ridge:
    """Coefficients, and quantiles of the errors on held-out rows, both on the scale of normalised windows."""

    coefficients: Array
    """[pool, lag and feature, step]; the first pool is that of all variables together."""
    errors: Array
    """[pool, step, rank]: rising quantiles of truth minus forecast, of the levels (1 .. RANKS) / (RANKS + 1)."""
    pools: NDArray[np.int64]
    """[variable]: its pool."""
    season: int
    features: int = 0
    """Numbers that describe a variable, whose coefficients follow those of the lags."""

    @property
    def lookback(self) -> int:
        """Rows of a window."""
        return self.coefficients.shape[1] - self.features

    def forecast(self, past: Array, pool: int, levels: Sequence[float], about: Array | None = None) -> Array:
        """[step, 1 + 2 x level]: the point, then low and high of each level in percent; `about` [feature]."""
        # Before the first row there is only the first again.
        window = np.pad(past[-self.lookback :], (max(0, self.lookback - len(past)), 0), mode="edge")[None]
        centre, scale = _normal(window, self.season)
        row = (window - centre) / scale
        point = (row if about is None else np.concatenate([row, about[None]], axis=1)) @ self.coefficients[pool]
        tails = [side for level in levels for side in ((1 - level / 100) / 2, (1 + level / 100) / 2)]
        errors = self._read_errors(pool, (0.5, *tails))
        cells = point[0][:, None] + np.concatenate([np.zeros((len(errors), 1)), errors[:, 1:] - errors[:, :1]], axis=1)
        return np.asarray(cells * scale[0] + centre[0])

    def _read_errors(self, pool: int, levels: Sequence[float]) -> Array:
        """[step, level]: quantiles of the errors between those that are kept."""
        place = np.clip(np.asarray(levels) * (RANKS + 1) - 1, 0, RANKS - 1)
        below = np.floor(place).astype(np.int64)
        above = np.minimum(below + 1, RANKS - 1)
        table = self.errors[pool]
        return np.asarray(table[:, below] + (place - below) * (table[:, above] - table[:, below]))


@dataclass(frozen=True, slots=True)
class _Sample:
    """Normalised windows and what followed them."""

    past: Array
    ahead: Array

    @staticmethod
    def join(parts: "Sequence[_Sample]") -> "_Sample":
        return _Sample(np.concatenate([one.past for one in parts]), np.concatenate([one.ahead for one in parts]))

    def __len__(self) -> int:
        return len(self.past)


def fit(
    series: Sequence[Array], lookback: int, horizon: int, season: int, *, own: bool = True, about: Array | None = None
) -> Ridge | None:
    """Fit to variables; None where they are too short. With `own` each may get coefficients of its own.

    `about` [variable, feature] describes the variables.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):  # several threads wait for one another: on a busy machine for long
        return _fit(series, lookback, horizon, season, own, about)


def _fit(
    series: Sequence[Array], lookback: int, horizon: int, season: int, own: bool, about: Array | None
) -> Ridge | None:
    season = max(1, min(season, lookback))
    about = np.empty((len(series), 0)) if about is None else about
    every = -(-len(series) // MOST_SERIES)
    looked_at, most = series[::every], MOST_WINDOWS // len(series[::every])
    rows = zip(looked_at, about[::every], strict=True)
    samples = [_cut(values, lookback, horizon, season, most, row) for values, row in rows]
    shared = _solve([early for early, _ in samples], [late for _, late in samples])
    if shared is None:
        return None
    solutions, pools = [shared], np.zeros(len(series), dtype=np.int64)
    for number, (early, late) in enumerate(samples if own and 1 < len(series) == len(looked_at) else ()):
        if len(early) >= 2 * lookback and len(late) >= LEAST_WINDOWS:
            alone = _solve([early], [late])
            common = np.abs(late.ahead - late.past @ shared[0]).mean()
            if alone is not None and np.abs(alone[2]).mean() < common:
                pools[number] = len(solutions)
                solutions.append(alone)
    ranks = np.arange(1, RANKS + 1) / (RANKS + 1)
    coefficients = np.stack([one[1] for one in solutions])
    errors = np.stack([np.quantile(one[2], ranks, axis=0).T for one in solutions])
    return Ridge(coefficients, errors, pools, season, about.shape[1])


def _cut(values: Array, lookback: int, horizon: int, season: int, most: int, about: Array) -> tuple[_Sample, _Sample]:
    """Windows before the held-out rows, and windows of those; at most so many, evenly spaced, each beside `about`."""
    border = len(values) - max(horizon, round(HELD * len(values)))
    parts = []
    for first, stop, room in ((lookback, border, most), (max(lookback, border), len(values), max(20, most // 4))):
        ends = np.arange(first, stop - horizon + 1)
        if len(ends) > max(room, 50):
            ends = ends[np.unique(np.linspace(0, len(ends) - 1, max(room, 50)).round().astype(np.int64))]
        past = values[ends[:, None] + np.arange(-lookback, 0)]
        centre, scale = _normal(past, season)
        ahead = (values[ends[:, None] + np.arange(horizon)] - centre) / scale
        features = np.broadcast_to(about, (len(past), len(about)))
        rows = np.concatenate([(past - centre) / scale, features], axis=1)
        parts.append(_Sample(rows, np.clip(ahead, -CLIP, CLIP)))
    return parts[0], parts[1]


def _solve(early: Sequence[_Sample], late: Sequence[_Sample]) -> tuple[Array, Array, Array] | None:
    """(coefficients of the early rows, of all rows, errors on the late rows) at the best penalty; None: too few."""
    learned, held = _Sample.join(early), _Sample.join(late)
    if len(learned) < LEAST_WINDOWS or not len(held):
        return None
    solve_early = _factorise(learned)
    tried = [solve_early(penalty) for penalty in PENALTIES]
    errors = [held.ahead - held.past @ one for one in tried]
    best = int(np.argmin([np.abs(one).mean() for one in errors]))
    return tried[best], _factorise(_Sample.join([learned, held]))(PENALTIES[best]), errors[best]


def _factorise(sample: _Sample) -> Callable[[float], Array]:
    """From a penalty, which grows with the root of the sample, to the coefficients [lag, step] of a sample.

    The normal equations are solved by their eigenvectors, so that every penalty costs one product.
    """
    values, vectors = np.linalg.eigh(sample.past.T @ sample.past)
    turned, size = vectors.T @ (sample.past.T @ sample.ahead), float(np.sqrt(len(sample)))
    return lambda penalty: np.asarray(vectors @ (turned / (values + 0.1 * penalty * size)[:, None]))


def _normal(windows: Array, season: int) -> tuple[Array, Array]:
    """[window, 1] each: the mean of the last season, and the deviation, which is never 0."""
    centre = windows[:, -season:].mean(1, keepdims=True)
    scale = windows.std(1, keepdims=True)
    return centre, np.maximum(scale, np.maximum(1e-6 * np.abs(centre), 1e-12))
