"""Seasons of the data: those of the calendar, or the period of the autocorrelation."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LEAST_STRENGTH = 0.1
"""Share of the variance around the level that last season's profile must explain."""
FEW = 0.75
"""Quantile over the series: a season counts where a quarter of them show it."""
MOST_ROWS = 4_000
MOST_SERIES = 40
"""Series and rows of each that are looked at; the profile of a season needs no more."""
MOST_LAG = 400
"""The longest rhythm that is looked for beyond the calendar's."""


def find_seasons(series: Sequence[Array], candidates: Iterable[int]) -> tuple[int, ...]:
    """The candidates that explain values to come, shortest first; without any, a rhythm that the data have.

    A longer season counts where it explains what the shorter ones leave. Each must fit twice into half of the series.
    """
    varied = [values for values in series if len(values) > 4 and np.ptp(values) > 0]
    some = [_level(values[-MOST_ROWS:]) for values in varied[:: max(1, -(-len(varied) // MOST_SERIES))]]
    seasons: list[int] = []
    for season in sorted({int(one) for one in candidates if one > 1}):
        if _strength(some, season) >= LEAST_STRENGTH:
            seasons.append(season)
            some = [values - _profile(values, season) if len(values) >= 2 * season else values for values in some]
    if seasons:
        return tuple(seasons)
    rhythm = _rhythm(some)
    return (rhythm,) if rhythm > 1 and _strength(some, rhythm) >= 2 * LEAST_STRENGTH else ()


def _level(values: Array) -> Array:
    """Values without their linear trend, divided by their standard deviation."""
    steps = np.linspace(-1, 1, len(values))
    slope, offset = np.polyfit(steps, values, 1)
    left = values - slope * steps - offset
    return np.asarray(left / max(float(left.std()), 1e-300))


def _profile(values: Array, season: int) -> Array:
    """The mean of each phase, repeated."""
    phases = np.arange(len(values)) % season
    means = np.bincount(phases, values, season) / np.maximum(np.bincount(phases, minlength=season), 1)
    return np.asarray((means - means.mean())[phases])


def _strength(series: Sequence[Array], season: int) -> float:
    """How much of the variance of each second half its first half's profile explains, in the middle of the series."""
    shares = []
    for values in series:
        if len(values) < 2 * season + 2:
            continue
        half = max(season, len(values) // 2 // season * season)
        early, late = values[:half], values[half:]
        profile = _profile(early, season)[:season]
        profile = profile * (half // season) / (half // season + 1)  # of few seasons, a profile is part noise
        late = late - late.mean()
        left = late - profile[np.arange(len(late)) % season]
        shares.append(1 - float(np.square(left).sum()) / max(float(np.square(late).sum()), 1e-300))
    return float(np.quantile(shares, FEW)) if shares else 0.0


def _rhythm(series: Sequence[Array]) -> int:
    """The lag of the first high peak of the mean autocorrelation; 1 where there is none."""
    most = min(MOST_LAG, max((len(values) for values in series), default=0) // 3)
    if most < 3:
        return 1
    total = np.zeros(most + 1)
    for values in series:
        if len(values) < 2 * most:
            continue
        power = np.abs(np.fft.rfft(values, 2 * len(values))) ** 2
        total += (np.fft.irfft(power)[: most + 1] / len(values)) / max(float(values.var()), 1e-300)
    inner = total[1:-1]
    peaks = np.flatnonzero((inner > total[:-2]) & (inner >= total[2:])) + 1
    high = peaks[total[peaks] > 0.3 * total[0]] if len(peaks) else peaks
    return int(high[0]) if len(high) else 1
