"""The candidates of a portfolio for a panel: what each is, how it is fitted, and why it is there."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from rearview.core.errors import InputError
from rearview.data.launch import find_begins
from rearview.data.panel import Panel
from rearview.data.wall_clock import on_clock
from rearview.data.windows import final_windows
from rearview.estimators.auto import linear
from rearview.estimators.auto.effects import Effects, WithEffects
from rearview.estimators.auto.statistical import MOST_ROWS, Statistical
from rearview.estimators.base import Session
from rearview.estimators.forecast.fit import begin_at_launches
from rearview.estimators.forecast.fit import fit as fit_network
from rearview.estimators.forecast.predictor import Predictor
from rearview.estimators.forecast.spec import ALONE, ForecastSpec
from rearview.estimators.forecast.zero_shot import NEAR, TUNED, Pretrained, count_near_rows
from rearview.pretrained import weights
from rearview.tasks import statistical_models
from rearview.tasks.seasonality import MOST_SERIES, find_seasons

LONGEST_LOOKBACK = 1024
"""Of a network that is trained here, where none is asked for."""
MOST_COUPLED = 64
"""Columns up to which a network that mixes them is tried, on several columns of one series, or where inputs are there
that it alone has a place for."""
PRIORS = {
    "seasonal_naive": 0.25, "theta": 0.25, weights.NAME: 4.0, NEAR: 4.0, TUNED: 4.0, "patchtst": 0.25,
    "itransformer": 0.25,
}  # fmt: skip
"""Relative weights of members with equal backtest losses, 1 by default; from the development tasks
(docs/findings-defaults.md). A network trained from scratch weighs less, because its backtest is too optimistic."""

Fit = Callable[[Panel, Session], Predictor]
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A forecaster that may become a member."""

    name: str
    meaning: str
    fit: Fit
    """Fit it to the rows of a panel; a network trains within the session's time."""
    trains: bool = False
    """Whether it is a network that trains."""
    cost: float = 0.0
    """Seconds that a processor takes for one variable and window, about; of networks unknown."""

    @property
    def prior(self) -> float:
        """Its weight relative to others with the same backtest loss."""
        return PRIORS.get(self.name, 1.0)


def panel_seasons(panel: Panel, given: int | None) -> tuple[int, ...]:
    """The seasons that the targets of a panel show, shortest first; the given one alone where one is given.

    Effects of known inputs are removed first: a strong promotion hides a weekly season.
    """
    if given is not None:
        return (given,) if given > 1 else ()
    panel = on_clock(panel)
    if panel.known:
        some = panel.only(panel.ids[:: -(-panel.series // MOST_SERIES)])
        panel = Effects.fit(some, panel.step.seasons).remove(some)
    begins = find_begins(panel, final_windows(panel), panel.targets)
    series = [
        panel.values[int(begins[s, target]) : b, target].astype(np.float64)
        for s, (_, b) in enumerate(panel.bounds())
        for target in range(panel.targets)
    ]
    return find_seasons(series, panel.step.seasons)


def choose_lookback(rows: Panel, spec: ForecastSpec, seasons: tuple[int, ...]) -> int:
    """Rows that a network reads: the one asked for, or two of the longest season that the rows hold three times.

    Else one that they hold twice; at least two horizons; as far as the rows that it is fitted to allow.
    """
    if spec.lookback is not None:
        return spec.lookback
    longest, horizon = int(rows.lengths.max()), spec.horizon
    fitting = [2 * one if 3 * one <= longest else one for one in seasons if 2 * one <= longest]
    return max(4, min(max([*fitting, 2 * horizon, 16]), LONGEST_LOOKBACK, (longest - horizon) * 2 // 3))


def list_candidates(
    panel: Panel, spec: ForecastSpec, seasons: tuple[int, ...], *, quick: bool, workers: int
) -> list[Candidate]:
    """The candidates, cheapest first, or the one that is asked for; `quick` leaves out networks that train."""
    requested = spec.model
    spec = replace(spec, intervals="conformal", season=seasons[0] if seasons else 1)
    candidates = [_statistics(statistical_models.NAMES[0], panel, spec, seasons, workers)]
    shipped = replace(spec, model=weights.NAME)
    if weights.available():
        candidates.append(
            Candidate(
                weights.NAME,
                "a network trained beforehand on synthetic series, as it came",
                lambda rows, session: Pretrained.of(rows, shipped).start(),
            )
        )
        near = count_near_rows(spec.horizon)
        if near is not None and near < min(int(panel.lengths.max()), spec.lookback or sys.maxsize):
            newest = replace(shipped, lookback=near)
            candidates.append(
                Candidate(
                    NEAR,
                    "the same, which reads the newest rows alone, at a finer grain",
                    lambda rows, session: replace(Pretrained.of(rows, newest).start(), name=NEAR),
                )
            )
    candidates.append(
        Candidate(
            linear.NAME,
            "a ridge regression from the normalised look-back to all steps",
            lambda rows, session: linear.fit(rows, spec, seasons),
        )
    )
    for name in statistical_models.NAMES[1:]:
        if name != "mstl" or seasons or requested == name:  # without a season it is ETS
            candidates.append(_statistics(name, panel, spec, seasons, workers))
    if not quick:
        if weights.available():
            candidates.append(
                Candidate(
                    TUNED,
                    "the same, trained further on these rows",
                    lambda rows, session: _tune(Pretrained.of(rows, shipped), session),
                    trains=True,
                )
            )
        networks = ["patchtst"]
        has_inputs = panel.input_names or panel.statics
        if ((panel.series == 1 and len(panel.columns) > 1) or has_inputs) and len(panel.columns) <= MOST_COUPLED:
            networks.append("itransformer")
        for network in networks:
            candidates.append(_network(network, spec, seasons))
    if requested in ALONE:
        candidates = [one for one in candidates if one.name == requested]
        quick = True
    if panel.known:
        find = _once(lambda rows: Effects.fit(rows, seasons))
        cleared = [replace(one, fit=_with_effects(one.fit, find)) for one in candidates if one.name != "itransformer"]
        candidates = cleared if quick else [*cleared, _network("itransformer", spec, seasons)]
    if panel.clock is not None:
        lay_out = _once(on_clock)
        candidates = [replace(one, fit=_by_clock(one.fit, lay_out)) for one in candidates]
    return candidates


def _tune(shipped: Pretrained, session: Session) -> Predictor:
    """The network trained further; refused where training changed nothing, as it would be in the portfolio twice."""
    fitted = shipped.tuned(session)
    if fitted.name != TUNED:
        raise InputError(f"training {weights.NAME} further gave nothing better in its time; it is kept as it came")
    return fitted


def _statistics(
    name: statistical_models.Name, panel: Panel, spec: ForecastSpec, seasons: tuple[int, ...], workers: int
) -> Candidate:
    cost = statistical_models.estimate_seconds(name, min(int(panel.lengths.max()), MOST_ROWS[name]), seasons)
    return Candidate(
        name,
        statistical_models.MEANINGS[name],
        lambda rows, session: Statistical.of(name, rows, spec, seasons, workers),
        cost=cost,
    )


def _network(name: str, spec: ForecastSpec, seasons: tuple[int, ...]) -> Candidate:
    def fit_rows(rows: Panel, session: Session) -> Predictor:
        lookback = choose_lookback(begin_at_launches(rows, spec), spec, seasons)
        return fit_network(rows, replace(spec, model=name, lookback=lookback), session)

    meanings = {
        "patchtst": "attention over patches of each column, trained on all of them",
        "itransformer": "attention among columns, which learn from one another",
    }
    return Candidate(name, meanings[name], fit_rows, trains=True)


def _once(make: Callable[[Panel], Made]) -> Callable[[Panel], Made]:
    """What is made of some rows, made once for all candidates that are fitted to them."""
    cache: list[tuple[Panel, Made]] = []

    def find(rows: Panel) -> Made:
        for panel, made in cache:
            if panel is rows:
                return made
        cache.append((rows, make(rows)))
        del cache[:-2]  # those of the backtest, and those of the forecast
        return cache[-1][1]

    return find


def _by_clock(fit: Fit, lay_out: Callable[[Panel], Panel]) -> Fit:
    """The same on rows by the clock on the wall."""
    return lambda rows, session: fit(lay_out(rows), session)


def _with_effects(fit: Fit, find: Callable[[Panel], Effects]) -> Fit:
    """The same on rows cleared of what known inputs explain."""

    def fit_cleared(rows: Panel, session: Session) -> Predictor:
        effects = find(rows)
        inner = fit(effects.remove(rows), session)
        cut = len(rows.columns) - rows.known
        columns = (*rows.target_names, *rows.columns[cut:])
        return WithEffects(inner=inner, effects=effects, columns=columns, known=rows.known)

    return fit_cleared
