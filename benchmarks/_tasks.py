"""Forecasting tasks with rolling windows: what is known at each, what is to be forecast, and how a forecast is scored.

MASE: absolute error of the median over the mean absolute seasonal difference of the window's own past, averaged over
all steps. CRPS: twice the quantile loss summed over everything, over the sum of absolute truths, averaged over nine
quantiles. Both as GIFT-Eval has them; missing truths do not count.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

QUANTILES = np.arange(1, 10) / 10
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """Series with test windows that lie end to end at the end of each."""

    name: str
    season: int
    """Steps of a season, for the scale of errors and the naive forecast; 1: none."""
    horizon: int
    windows: int
    series: tuple[Floats, ...]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of a forecast: series, windows, steps, quantiles."""
        return len(self.series), self.windows, self.horizon, len(QUANTILES)

    def cases(self) -> Iterator[tuple[int, int, Floats, Floats]]:
        """Series, window, everything known at its start, and what came."""
        for which, values in enumerate(self.series):
            for window in range(self.windows):
                start = len(values) - self.horizon * (self.windows - window)
                yield which, window, values[:start], values[start : start + self.horizon]


@dataclass(frozen=True)
class Scores:
    """How good the forecasts of one task are."""

    mase: float
    crps: float
    coverage: float
    """Share of truths between the quantiles 0.1 and 0.9."""
    truths: int
    width: float
    """Mean width between these quantiles, each over the scale of the series' MASE."""
    interval_score: float
    """Mean of that width and ten times what truths lie outside, scaled alike (Gneiting and Raftery, 2007)."""


def score(task: Task, forecast: Floats) -> Scores:
    """Scores of forecast [series, window, step, quantile], quantiles 0.1 to 0.9."""
    if forecast.shape != task.shape or np.isnan(forecast).any():
        raise ValueError(f"{task.name}: a forecast has the shape {task.shape} and no missing values")
    scaled, scaled_count, loss, size, inside, count = 0.0, 0, np.zeros(len(QUANTILES)), 0.0, 0, 0
    width, outside = 0.0, 0.0
    for which, window, past, truth in task.cases():
        there = np.isfinite(truth)
        y, q = truth[there, None], forecast[which, window][there]
        lag = task.season if task.season <= len(past) else 1
        scale = np.nanmean(np.abs(past[lag:] - past[:-lag]))
        if scale > 0:
            scaled += float(np.abs(y[:, 0] - q[:, 4]).sum() / scale)
            scaled_count += len(y)
            low, high = q[:, 0], q[:, -1]
            width += float((high - low).sum() / scale)
            outside += float((np.maximum(low - y[:, 0], 0) + np.maximum(y[:, 0] - high, 0)).sum() / scale)
        loss += 2 * np.maximum(QUANTILES * (y - q), (QUANTILES - 1) * (y - q)).sum(0)
        size += float(np.abs(y).sum())
        inside += int(((y[:, 0] >= q[:, 0]) & (y[:, 0] <= q[:, -1])).sum())
        count += len(y)
    cells = max(scaled_count, 1)
    return Scores(
        mase=scaled / cells,
        crps=float((loss / size).mean()),
        coverage=inside / max(count, 1),
        truths=count,
        width=width / cells,
        interval_score=(width + 2 / (QUANTILES[0] * 2) * outside) / cells,
    )


def seasonal_naive(task: Task) -> Floats:
    """The reference: the last season again, with normal quantiles from seasonal differences of the past."""
    normal = np.array([NormalDist().inv_cdf(q) for q in QUANTILES])
    steps, forecast = np.arange(task.horizon), np.empty(task.shape)
    for which, window, past, _ in task.cases():
        filled = fill_gaps(past)
        season = min(task.season, len(filled))
        difference = filled[season:] - filled[:-season]
        spread = np.sqrt(np.mean(difference**2) if len(difference) else 0.0) * np.sqrt(1 + steps // season)
        forecast[which, window] = filled[-season:][steps % season][:, None] + spread[:, None] * normal
    return forecast


def fill_gaps(values: Floats) -> Floats:
    """Missing values repeat the last one before them, at the start the first one after them."""
    there = np.isfinite(values)
    place = np.maximum.accumulate(np.where(there, np.arange(len(values)), -1))
    first = int(np.argmax(there))
    return values[np.where(place < 0, first, place)]


def relative(scores: Mapping[str, Scores], reference: Mapping[str, Scores]) -> tuple[float, float]:
    """Geometric means over tasks of MASE and CRPS, each over the reference's."""
    ratios = [(scores[name].mase / reference[name].mase, scores[name].crps / reference[name].crps) for name in scores]
    mase, crps = np.exp(np.log(np.array(ratios)).mean(0))
    return float(mase), float(crps)
