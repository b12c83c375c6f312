"""A fitted portfolio: its members, their weights, and intervals stretched by what the backtest showed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from rearview.core.errors import SettingsError
from rearview.data.panel import Finding, Panel
from rearview.data.windows import Windows
from rearview.estimators.auto.effects import WithEffects
from rearview.estimators.auto.weights import combine
from rearview.estimators.forecast.backtest import Backtest, select_columns
from rearview.estimators.forecast.prediction import Fitted
from rearview.estimators.forecast.predictor import Array, Forecasts, Predictor
from rearview.estimators.forecast.spec import AUTO, ForecastSpec
from rearview.estimators.forecast.stretch import cut_bounds, find_count_floors, read_factor, stretch_bounds
from rearview.estimators.forecast.zero_shot import CUT_PAST
from rearview.models.patch_hosts.glance import find_limits

GRID = (20.0, 40.0, 60.0, 80.0, 95.0)
"""Levels at which members are compared and intervals are corrected, beside those asked for."""
_AT_ONCE = 256
"""Windows whose rows are looked at together."""


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
        floors, ceilings = find_ends(panel, which, self.targets, self.lookback)[..., None]
        point, stretched = np.clip(point, floors, ceilings), cut_bounds(stretched, floors, ceilings)
        stretched = cut_bounds(stretched, 0.0) if self.spec.nonnegative else stretched
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


def find_ends(panel: Panel, which: Windows, targets: int, lookback: int) -> Array:
    """[floor or ceiling, window, target]: the lowest and highest values that the rows before a window come to time and
    again, and 0 below counts and amounts; infinite: none.
    """
    ends = np.broadcast_to(np.array([-np.inf, np.inf])[:, None, None], (2, len(which), targets)).copy()
    begins = np.maximum(panel.offsets[which.series], which.starts - lookback)
    longest = int((which.starts - begins).max(initial=0))
    for window in range(0, len(which) if longest else 0, _AT_ONCE):
        part = range(window, min(window + _AT_ONCE, len(which)))
        past = np.full((len(part), targets, longest), np.nan)
        for place, one in enumerate(part):
            rows, series = slice(int(begins[one]), int(which.starts[one])), int(which.series[one])
            for target in range(targets):
                past[place, target, longest - (rows.stop - rows.start) :] = panel.original_column(rows, series, target)
        cells = torch.from_numpy(past)
        ends[:, part.start : part.stop] = torch.stack(find_limits(cells.nan_to_num(), ~cells.isnan())).numpy()
    ends[0] = np.maximum(ends[0], find_count_floors(panel, which, targets))
    return ends


def limit_backtest(backtest: Backtest, panel: Panel, lookback: int) -> Backtest:
    """The backtest with points and intervals cut off at the limits of the rows before each cutoff."""
    ends = []
    for cutoffs in backtest.cutoffs[:, :: panel.targets]:
        starts = [
            a + int(np.searchsorted(panel.stamps[a:b], cutoff, side="right"))
            for (a, b), cutoff in zip(map(panel.span, range(panel.series)), cutoffs, strict=True)
        ]
        which = Windows(np.array(starts, dtype=np.int64), np.arange(panel.series))
        ends.append(find_ends(panel, which, panel.targets, lookback).reshape(2, -1))
    floors, ceilings = np.stack(ends, 1)[..., None]
    cut = cut_bounds(backtest.intervals, floors, ceilings)
    return replace(backtest, mean=np.clip(backtest.mean, floors, ceilings), intervals=cut)
