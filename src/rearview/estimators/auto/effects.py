"""The effects of inputs known in the future, found by regression, for forecasters that have no place for them.

Their effects are removed from the history, a model forecasts the rest, and the effects of the steps ahead are added.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rearview.data.holidays import NAMED, is_holiday
from rearview.data.infer.categories import IS
from rearview.data.launch import count_idle, find_begins
from rearview.data.panel import Finding, Panel
from rearview.data.statics import Statics, StaticScale
from rearview.data.step import MICROSECONDS
from rearview.data.windows import Windows, final_windows
from rearview.estimators.base import Forwarded
from rearview.estimators.forecast.predictor import Array, Forecasts, Predictor
from rearview.estimators.forecast.spec import ForecastSpec

BLOCKS = 5
"""Stretches of rows, each forecast by the effects that the others show."""
LEAST_SHARE = 0.02
"""Share of the variance around level and season that inputs must explain in rows held out, to count."""
CHANCE = 5
"""Inputs explain this many rows' share of the variance by chance, so that much more is required."""
OCCASIONS = 1.0
"""Pseudo-observations that shrink the effect of a holiday towards that of all holidays."""
BEYOND = 0.5
"""How far beyond the observed range, in units of it, the effect of an input continues."""
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
    statics: Statics | None = None
    """What describes the series; those that were not seen have the effects of those most like them."""

    @classmethod
    def fit(cls, panel: Panel, seasons: Sequence[int]) -> "Effects":
        """Regress the targets of a panel, without their level and season, on its known inputs.

        The inputs count together, then holidays beside them, each where they explain rows held out; effects add, or
        multiply where that leaves less.
        """
        design = _Design.of(panel, seasons)
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
                idle = count_idle(cells[there, target])  # before a launch no input has an effect
                y, x = cells[there, target][idle:], inputs[there][idle:]
                scales = [False, True] if len(y) and (y > 0).all() else [False]
                fits = [design.regress(y, x, log=is_log) for is_log in scales]
                place = min(range(len(fits)), key=lambda one: fits[one].left)
                best = fits[place]
                coefficients[s, target], factor[s, target], share[s, target] = best.weights, place == 1, best.share
        return cls(panel.ids, coefficients, centre, low, high, factor, share, panel.statics)

    def at(self, series: NDArray[np.int64], panel: Panel, inputs: Array) -> tuple[Array, NDArray[np.bool_]]:
        """(effects [case, target, step], whether they multiply) of inputs [case, input, step] of series by number.

        A series that was not seen has the mean effects of those that were, or of those described as it is.
        """
        place = {name: number for number, name in enumerate(self.ids)}
        rows = [
            [place[name]] if (name := panel.ids[one]) in place else self._find_similar(one, panel)
            for one in series.tolist()
        ]
        own = (self.coefficients, self.centre, self.low, self.high, self.factor)
        weights, centre, low, high, factors = (np.stack([part[row].mean(0) for row in rows]) for part in own)
        factors = factors > 0.5
        effects = np.einsum(
            "stk,skh->sth", weights, np.clip(inputs, low[..., None], high[..., None]) - centre[..., None]
        )
        return np.where(factors[..., None], np.clip(effects, -MOST_LOG, MOST_LOG), effects), factors[..., None]

    def _find_similar(self, series: int, panel: Panel) -> list[int]:
        """The training series whose static features are closest to those of a new one; all of them where it has none.

        Categories are compared before numbers.
        """
        if self.statics is None or panel.statics is None:
            return [*range(len(self.ids))]
        places = [place for place, name in enumerate(self.statics.names) if IS in name]
        places = places or [*range(len(self.statics.names))]
        described = Statics(tuple(self.statics.names[place] for place in places), self.statics.values[:, places])
        scale = StaticScale.of(described)
        if scale is None:
            return [*range(len(self.ids))]
        known, new = scale.read(described, len(self.ids)), scale.read(panel.statics, panel.series)[series]
        distance = np.square(known - new).sum(axis=1)
        return np.flatnonzero(distance <= distance.min() + 1e-9).tolist()

    def remove(self, panel: Panel) -> Panel:
        """The panel without its known inputs, its targets cleared of their effects."""
        values, centre = panel.values[:, : panel.targets].copy(), panel.centre[:, : panel.targets].copy()
        begins = find_begins(panel, final_windows(panel), panel.targets)
        for s, (a, b) in enumerate(panel.bounds()):
            inputs = (panel.values[a:b, -panel.known :] + panel.centre[s, -panel.known :]).astype(np.float64)
            effects, factor = self.at(np.array([s]), panel, inputs.T[None])
            cells = values[a:b].astype(np.float64) + centre[s]
            cleared = np.where(factor[0].T, cells * np.exp(-effects[0].T), cells - effects[0].T)
            cleared = np.where(np.arange(a, b)[:, None] < begins[s], cells, cleared)
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

    spec = Forwarded[ForecastSpec]("inner")
    name = Forwarded[str]("inner")
    targets = Forwarded[int]("inner")
    step = Forwarded[str]("inner")
    lookback = Forwarded[int]("inner")
    period = Forwarded[int]("inner")
    notes = Forwarded[tuple[str, ...]]("inner")
    findings = Forwarded[tuple[Finding, ...]]("inner")
    interrupted = Forwarded[bool]("inner")

    def predict(self, panel: Panel, which: Windows, levels: tuple[float, ...], known: Array | None = None) -> Forecasts:
        """Forecast from the rows before each window's start (see `Predictor`)."""
        assert known is not None
        forecasts = self.inner.predict(self.effects.remove(panel), which, levels)
        effects, factor = self.effects.at(which.series, panel, known)
        return replace(
            forecasts,
            mean=self.effects.add(forecasts.mean, effects, factor),
            intervals={
                level: (self.effects.add(low, effects, factor), self.effects.add(high, effects, factor))
                for level, (low, high) in forecasts.intervals.items()
            },
        )


@dataclass(frozen=True, slots=True)
class _Regression:
    """Coefficients of inputs, what they explain, and what they leave."""

    weights: Array
    share: float
    """Of the variance around level and season, in rows held out."""
    left: float
    """Squared errors of rows held out, in the units of the target."""


@dataclass(frozen=True, slots=True)
class _Design:
    """How the known inputs of a panel are regressed on."""

    groups: tuple[NDArray[np.int64], ...]
    """Inputs that are tried together, one group after the other."""
    rare: NDArray[np.bool_]
    """[input]: whether it is a holiday by its name, whose effect is drawn towards that of all."""
    span: int
    """Rows of the moving mean that is a level."""
    season: int

    @classmethod
    def of(cls, panel: Panel, seasons: Sequence[int]) -> "_Design":
        """By the names of the inputs and the step: a level moves over a season, and within days over a week."""
        names = panel.known_names
        dated = np.array([is_holiday(name) for name in names], dtype=bool)
        groups = tuple(part for part in (np.flatnonzero(~dated), np.flatnonzero(dated)) if len(part))
        rare = np.array([name.startswith(NAMED) for name in names], dtype=bool)
        week = (
            7 * MICROSECONDS["D"] // (panel.step.count * MICROSECONDS[panel.step.unit]) if panel.step.sub_daily else 7
        )
        # A year's profile would take in what holidays do; one of a week, where days have steps, takes in that of a day.
        season = max((one for one in seasons if one <= week), default=next(iter(seasons), 1))
        return cls(groups, rare, max(week, season), season)

    def regress(self, y: Array, inputs: Array, *, log: bool) -> _Regression:
        """Regress one variable on the inputs that explain it."""
        values = np.log(y) if log else y
        none = np.zeros(inputs.shape[1])
        chosen = np.zeros(0, dtype=np.int64)
        if len(y) < 4 * 3 or not np.ptp(values):
            return _Regression(none, 0.0, np.inf)
        target, x = self._clear(values[:, None])[:, 0], self._clear(inputs)
        raw, spread = inputs.std(0), x.std(0)
        # What a level and a season explain of an input is no effect of it: the rest of it may be rounding.
        x, spread = np.where(spread > 1e-6 * raw, x, 0.0), np.where(spread > 1e-6 * raw, spread, 0.0)
        unit = np.where(self.rare | (spread == 0), 1.0, spread)
        x, penalty = x / unit, np.where(self.rare, OCCASIONS, PENALTY)
        total = float(np.square(target).sum())
        errors, share = target, 0.0
        for group in self.groups:
            free = int((~self.rare[group] & (spread[group] > 0)).sum())
            if not total or not free or len(y) < 4 * (free + len(chosen) + 2):
                continue
            tried = np.concatenate([chosen, group])
            left = _hold_out(x[:, tried], target, penalty[tried])
            explained = 1 - float(np.square(left).sum()) / total
            if explained > share + LEAST_SHARE + CHANCE * free / len(y):
                chosen, errors, share = tried, left, explained
        weights = none.copy()
        if len(chosen):
            weights[chosen] = _ridge(x[:, chosen], target, penalty[chosen]) / unit[chosen]
        residuals = y * -np.expm1(-np.clip(errors, -MOST_LOG, MOST_LOG)) if log else errors
        return _Regression(weights, share, float(np.square(residuals).sum()))

    def _clear(self, values: Array) -> Array:
        """Columns without their level, a moving mean, and without their season's profile."""
        span = min(self.span // 2 * 2 + 1, len(values) // 2 * 2 - 1)
        kernel = np.ones(span)
        count = np.convolve(np.ones(len(values)), kernel, "same")
        level = np.stack([np.convolve(column, kernel, "same") / count for column in values.T], axis=1)
        left = values - level
        season = self.season
        if season > 1 and len(values) >= 2 * season:
            phases = np.arange(len(values)) % season
            sizes = np.maximum(np.bincount(phases, minlength=season), 1)
            means = np.stack([np.bincount(phases, column, season) / sizes for column in left.T], axis=1)
            left = left - means[phases]
        return np.asarray(left)


def _hold_out(x: Array, y: Array, penalty: Array) -> Array:
    """Errors of each stretch of rows, forecast by what the others show."""
    blocks = np.arange(len(y)) * BLOCKS // len(y)
    left = np.empty(len(y))
    for block in range(BLOCKS):
        tested = blocks == block
        left[tested] = y[tested] - x[tested] @ _ridge(x[~tested], y[~tested], penalty)
    return left


def _ridge(x: Array, y: Array, penalty: Array) -> Array:
    return np.asarray(np.linalg.solve(x.T @ x + np.diag(penalty), x.T @ y))
