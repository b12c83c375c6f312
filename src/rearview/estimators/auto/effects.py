"""The effects of inputs known in the future, found by regression, for forecasters that have no place for them.

The history is cleared of them, forecast by whatever model, and their effects at the steps ahead are put back on.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rearview.data.panel import Finding, Panel
from rearview.data.windows import Windows
from rearview.estimators.forecast.predictor import Array, Forecasts, Predictor
from rearview.estimators.forecast.spec import ForecastSpec

BLOCKS = 5
"""Stretches of rows, each forecast by the effects that the others show."""
LEAST_SHARE = 0.02
"""Share of the variance around level and season that inputs must explain in rows held out, to count."""
CHANCE = 5
"""An input may explain so many rows' share of the variance by chance; that much more is asked for."""
BEYOND = 0.5
"""How far beyond what was seen, in ranges of an input, its effect goes on."""
PENALTY = 1.0
MOST_LOG = 3.0
"""The largest effect on the logarithmic scale: a twentyfold rise."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What known inputs add to each variable, or by what factor they raise it."""

    ids: tuple[str, ...]
    coefficients: Array
    """[series, target, input]; 0 where an input explains nothing."""
    centre: Array
    """[series, input]: where an effect counts as none."""
    low: Array
    """[series, input]: below this an effect grows no more."""
    high: Array
    """[series, input]: nor above this."""
    factor: NDArray[np.bool_]
    """[series, target]: whether effects multiply."""
    share: Array
    """[series, target]: the share of the variance around level and season that they explain."""

    @classmethod
    def fit(cls, panel: Panel, season: int) -> "Effects":
        """Regress the targets of a panel, without their level and season, on its known inputs."""
        shape = (panel.series, panel.targets)
        coefficients = np.zeros((*shape, panel.known))
        factor, share = np.zeros(shape, dtype=np.bool_), np.zeros(shape)
        centre, low, high = (np.zeros((panel.series, panel.known)) for _ in range(3))
        for s, (a, b) in enumerate(panel.bounds()):
            cells = panel.original(slice(a, b), s)
            inputs = np.nan_to_num(cells[:, len(panel.columns) - panel.known :])
            centre[s], reach = np.median(inputs, axis=0), BEYOND * np.ptp(inputs, axis=0)
            low[s], high[s] = inputs.min(axis=0) - reach, inputs.max(axis=0) + reach
            for target in range(panel.targets):
                there = np.isfinite(cells[:, target])
                if there.sum() < 4 * (panel.known + 2):
                    continue
                y, x = cells[there, target], inputs[there]
                scales = [(False, y)] + ([(True, np.log(y))] if (y > 0).all() else [])
                found = [(*_regress(values, x, season), is_log) for is_log, values in scales]
                best, explained, is_log = max(found, key=lambda one: one[1])
                if explained > LEAST_SHARE + CHANCE * panel.known / len(y):
                    coefficients[s, target], factor[s, target], share[s, target] = best, is_log, explained
        return cls(panel.ids, coefficients, centre, low, high, factor, share)

    def at(self, series: NDArray[np.int64], names: tuple[str, ...], inputs: Array) -> tuple[Array, NDArray[np.bool_]]:
        """(effects [case, target, step], whether they multiply) of inputs [case, input, step] of series by number.

        A series that was not seen has the mean effects of those that were.
        """
        place = {name: number for number, name in enumerate(self.ids)}
        rows = [place.get(names[one]) for one in series.tolist()]
        own = (self.coefficients, self.centre, self.low, self.high, self.factor)
        weights, centre, low, high, factors = (
            np.stack([part.mean(0) if row is None else part[row] for row in rows]) for part in own
        )
        factors = factors > 0.5
        effects = np.einsum(
            "stk,skh->sth", weights, np.clip(inputs, low[..., None], high[..., None]) - centre[..., None]
        )
        return np.where(factors[..., None], np.clip(effects, -MOST_LOG, MOST_LOG), effects), factors[..., None]

    def remove(self, panel: Panel) -> Panel:
        """The panel without its known inputs, its targets cleared of their effects."""
        values, centre = panel.values[:, : panel.targets].copy(), panel.centre[:, : panel.targets].copy()
        for s, (a, b) in enumerate(panel.bounds()):
            inputs = (panel.values[a:b, -panel.known :] + panel.centre[s, -panel.known :]).astype(np.float64)
            effects, factor = self.at(np.array([s]), panel.ids, inputs.T[None])
            cells = values[a:b].astype(np.float64) + centre[s]
            cleared = np.where(factor[0].T, cells * np.exp(-effects[0].T), cells - effects[0].T)
            centre[s] = cleared.mean(0)
            values[a:b] = cleared - centre[s]
        for target in range(panel.targets):  # before the first observed cell the centre stands, as in every panel
            for s, (a, _) in enumerate(panel.bounds()):
                values[a : int(panel.first[s, target]), target] = 0
        cut = panel.select(range(panel.targets))
        return replace(cut, values=values, centre=centre, targets=panel.targets, known=0)

    def add(self, cells: Array, effects: Array, factor: NDArray[np.bool_]) -> Array:
        """Forecasts [case, target, step] with the effects on them."""
        return np.where(factor, cells * np.exp(effects), cells + effects)


@dataclass(frozen=True, slots=True, kw_only=True)
class WithEffects:
    """A forecaster of cleared history with the effects of known inputs put back on."""

    inner: Predictor
    effects: Effects
    columns: tuple[str, ...]
    known: int

    @property
    def spec(self) -> ForecastSpec:
        """What it was asked for."""
        return self.inner.spec

    @property
    def name(self) -> str:
        """What it is called."""
        return self.inner.name

    @property
    def targets(self) -> int:
        """How many of the columns it forecasts."""
        return self.inner.targets

    @property
    def step(self) -> str:
        """The step of its rows."""
        return self.inner.step

    @property
    def lookback(self) -> int:
        """Rows before a forecast that it reads, at most."""
        return self.inner.lookback

    @property
    def period(self) -> int:
        """Steps of a season, by which errors are scaled."""
        return self.inner.period

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of how it was fitted."""
        return self.inner.notes

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was repaired and warned of while it was fitted."""
        return self.inner.findings

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended its fit."""
        return self.inner.interrupted

    def predict(self, panel: Panel, which: Windows, levels: tuple[float, ...], known: Array | None = None) -> Forecasts:
        """Forecast from the rows before each window's start (see `Predictor`)."""
        assert known is not None
        forecasts = self.inner.predict(self.effects.remove(panel), which, levels)
        effects, factor = self.effects.at(which.series, panel.ids, known)
        return replace(
            forecasts,
            mean=self.effects.add(forecasts.mean, effects, factor),
            intervals={
                level: (self.effects.add(low, effects, factor), self.effects.add(high, effects, factor))
                for level, (low, high) in forecasts.intervals.items()
            },
        )


def _regress(y: Array, inputs: Array, season: int) -> tuple[Array, float]:
    """Coefficients of inputs, and the share of the variance that they explain in rows held out."""
    target, x = _clear(y[:, None], season)[:, 0], _clear(inputs, season)
    spread = x.std(0)
    x = x / np.where(spread > 0, spread, 1)
    total = float(np.square(target).sum())
    if not total or not spread.any():
        return np.zeros(inputs.shape[1]), 0.0
    blocks = np.arange(len(y)) * BLOCKS // len(y)
    left = 0.0
    for block in range(BLOCKS):
        held = blocks == block
        left += float(np.square(target[held] - x[held] @ _ridge(x[~held], target[~held])).sum())
    return _ridge(x, target) / np.where(spread > 0, spread, np.inf), 1 - left / total


def _ridge(x: Array, y: Array) -> Array:
    return np.asarray(np.linalg.solve(x.T @ x + PENALTY * np.eye(x.shape[1]), x.T @ y))


def _clear(values: Array, season: int) -> Array:
    """Columns without their level, a moving mean over a season or more, and without their season's profile."""
    span = min(max(7, season) // 2 * 2 + 1, len(values) // 2 * 2 - 1)
    kernel = np.ones(span)
    count = np.convolve(np.ones(len(values)), kernel, "same")
    level = np.stack([np.convolve(column, kernel, "same") / count for column in values.T], axis=1)
    left = values - level
    if season > 1 and len(values) >= 2 * season:
        phases = np.arange(len(values)) % season
        sizes = np.maximum(np.bincount(phases, minlength=season), 1)
        means = np.stack([np.bincount(phases, column, season) / sizes for column in left.T], axis=1)
        left = left - means[phases]
    return np.asarray(left)
