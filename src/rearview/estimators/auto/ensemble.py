"""A fitted portfolio: its members, their weights, and intervals stretched by what the backtest showed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rearview.core.errors import SettingsError
from rearview.data.panel import Finding, Panel
from rearview.data.windows import Windows
from rearview.estimators.auto.effects import WithEffects
from rearview.estimators.auto.weights import combine
from rearview.estimators.forecast.backtest import Backtest, select_columns
from rearview.estimators.forecast.prediction import Fitted
from rearview.estimators.forecast.predictor import Array, Bounds, Forecasts, Predictor
from rearview.estimators.forecast.spec import AUTO, ForecastSpec

GRID = (20.0, 40.0, 60.0, 80.0, 95.0)
"""Levels at which members are compared and intervals are corrected, beside those asked for."""
TRUSTED = 10
"""Windows times variables that must be outnumbered for the backtest to count for more than the members' own widths."""
LEAST_STRETCH, MOST_STRETCH = 0.5, 3.0


@dataclass(frozen=True, slots=True)
class Standing:
    """One candidate of a portfolio."""

    name: str
    meaning: str
    mase: float | None
    """Mean absolute scaled error of its backtest; None: it has none."""
    loss: float | None
    """Mean scaled quantile loss of its backtest."""
    weight: float
    """Mean share in the ensemble over the variables."""
    seconds: float
    """Wall time of its backtest and of its final fit."""
    note: str = ""
    """Why it has no part, where it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensemble:
    """Members fitted to all rows, and how their forecasts are combined."""

    spec: ForecastSpec
    members: tuple[Predictor, ...]
    weights: Array
    """[variable, member]; rows sum to 1."""
    common: Array
    """[member]: weights of variables that were not seen."""
    ids: tuple[str, ...]
    columns: tuple[str, ...]
    targets: int
    known: int
    step: str
    period: int
    stretch: Mapping[float, float]
    """Level in percent -> factor of its interval's reach on both sides of the median."""
    stretches: tuple[Mapping[float, float], ...]
    """[member]: the same of each member alone, before they are combined."""
    leaderboard: tuple[Standing, ...]
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    interrupted: bool = False

    @property
    def name(self) -> str:
        """What it is called."""
        return self.spec.model or AUTO

    @property
    def lookback(self) -> int:
        """Rows before a forecast that its members read, at most."""
        return max(member.lookback for member in self.members)

    def predict(self, panel: Panel, which: Windows, levels: tuple[float, ...], known: Array | None = None) -> Forecasts:
        """Forecast from the rows before each window's start (see `Predictor`)."""
        made = [
            member.predict(select_columns(panel, member), which, levels, known if member.known else None)
            for member in self.members
        ]
        place = {name: number for number, name in enumerate(self.ids)}
        rows = [place.get(panel.ids[series]) for series in which.series.tolist()]
        table = self.weights.reshape(len(self.ids), self.targets, -1)
        unseen = np.broadcast_to(self.common, table.shape[1:])
        weights = np.stack([unseen if row is None else table[row] for row in rows])
        own = [
            stretch_bounds(one.mean, one.intervals, {level: _factor(factors, level) for level in levels})
            for one, factors in zip(made, self.stretches, strict=True)
        ]
        point, bounds = combine([one.mean for one in made], own, levels, weights)
        notes = tuple(dict.fromkeys(note for one in made for note in one.notes))
        findings = tuple(dict.fromkeys(finding for one in made for finding in one.findings))
        stretched = stretch_bounds(point, bounds, {level: _factor(self.stretch, level) for level in levels})
        stretched = cut_at_zero(stretched) if self.spec.nonnegative else stretched
        return Forecasts(which.series, point, stretched, notes, findings)


def has_attention(fitted: Ensemble) -> bool:
    """Whether a network is among the members."""
    inner = [member.inner if isinstance(member, WithEffects) else member for member in fitted.members]
    return any(isinstance(member, Fitted) for member in inner)


def find_attention(fitted: Predictor, panel: Panel) -> tuple[Fitted, Panel]:
    """The network whose attention can be looked at, and the panel as it reads it; of a portfolio, the heaviest."""
    if isinstance(fitted, Fitted):
        return fitted, panel
    if isinstance(fitted, WithEffects):
        return find_attention(fitted.inner, fitted.effects.remove(panel))
    if isinstance(fitted, Ensemble):
        for number in np.argsort(-fitted.common).tolist():
            member = fitted.members[number]
            inner = member.inner if isinstance(member, WithEffects) else member
            if isinstance(inner, Fitted):
                return find_attention(member, select_columns(panel, member))
    raise SettingsError(f"{fitted.name} holds no network to look at; name one, such as model='patchtst'.")


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


def trim_levels(backtest: Backtest, levels: Sequence[float]) -> Backtest:
    """The backtest with some of its intervals alone."""
    return replace(backtest, intervals={level: backtest.intervals[level] for level in levels})


def _factor(factors: Mapping[float, float], level: float) -> float:
    """The factor of a level; between those that were measured it is read off a line."""
    known = sorted(factors)
    return float(np.interp(level, known, [factors[one] for one in known])) if known else 1.0


def cut_at_zero(bounds: Bounds) -> Bounds:
    """Intervals without what lies below 0."""
    return {level: (np.maximum(low, 0), high) for level, (low, high) in bounds.items()}


def measure_stretch(backtest: Backtest, levels: Sequence[float]) -> dict[float, float]:
    """By how much intervals must grow or shrink to hold as often as they say, drawn towards 1 where windows are few.

    Split-conformal: the factor of a level is the quantile, of that level, of the factors that each truth needs.
    """
    trust = int(np.isfinite(backtest.y - backtest.mean).any(-1).sum())
    factors = {}
    for level in levels:
        low, high = backtest.intervals[level]
        error = backtest.y - backtest.mean
        reach = np.where(error >= 0, high - backtest.mean, backtest.mean - low)
        there = np.isfinite(error) & np.isfinite(reach) & (reach > 0)
        needed = np.sort(np.abs(error[there]) / reach[there])
        if not len(needed):
            factors[level] = 1.0
            continue
        rank = min(len(needed), math.ceil((len(needed) + 1) * level / 100))
        exact = float(np.clip(needed[rank - 1], LEAST_STRETCH, MOST_STRETCH))
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
