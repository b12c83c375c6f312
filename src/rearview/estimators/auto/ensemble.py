"""A fitted portfolio: its members, their weights, and intervals stretched by what the backtest showed."""

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
from rearview.estimators.forecast.stretch import read_factor, stretch_bounds
from rearview.estimators.forecast.zero_shot import CUT_PAST

GRID = (20.0, 40.0, 60.0, 80.0, 95.0)
"""Levels at which members are compared and intervals are corrected, beside those asked for."""


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
    """Why it has no part, or not for all series."""
    uses: tuple[str, ...] = ()
    """Inputs that its forecasts depend on."""


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
        forecasts = [forecast_member(member, panel, which, levels, known) for member in self.members]
        return self.mix(panel, which, levels, forecasts)

    def mix(self, panel: Panel, which: Windows, levels: tuple[float, ...], forecasts: Sequence[Forecasts]) -> Forecasts:
        """Combine what the members forecast."""
        place = {name: number for number, name in enumerate(self.ids)}
        rows = [place.get(panel.ids[series]) for series in which.series.tolist()]
        table = self.weights.reshape(len(self.ids), self.targets, -1)
        unseen = np.broadcast_to(self.common, table.shape[1:])
        weights = np.stack([unseen if row is None else table[row] for row in rows])
        point, bounds = combine([one.mean for one in forecasts], [one.intervals for one in forecasts], levels, weights)
        # That a member reads the newest rows alone says nothing of the others.
        cut = {finding.message for one in forecasts for finding in one.findings if finding.what == CUT_PAST}
        notes = tuple(dict.fromkeys(note for one in forecasts for note in one.notes if note not in cut))
        findings = dict.fromkeys(finding for one in forecasts for finding in one.findings if finding.what != CUT_PAST)
        stretched = stretch_bounds(point, bounds, {level: read_factor(self.stretch, level) for level in levels})
        stretched = cut_at_zero(stretched) if self.spec.nonnegative else stretched
        heaviest = np.argsort(-self.common, kind="stable").tolist()
        members = {self.members[number].name: forecasts[number].mean for number in heaviest}
        return Forecasts(which.series, point, stretched, notes, tuple(findings), members)


def forecast_member(
    member: Predictor, panel: Panel, which: Windows, levels: tuple[float, ...], known: Array | None
) -> Forecasts:
    """What a member forecasts from the columns that it reads."""
    return member.predict(select_columns(panel, member), which, levels, known if member.known else None)


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


def trim_levels(backtest: Backtest, levels: Sequence[float]) -> Backtest:
    """The backtest with some of its intervals alone."""
    return replace(backtest, intervals={level: backtest.intervals[level] for level in levels})


def cut_at_zero(bounds: Bounds) -> Bounds:
    """Intervals without what lies below 0."""
    return {level: (np.maximum(low, 0), high) for level, (low, high) in bounds.items()}
