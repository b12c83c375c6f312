"""Backtest a portfolio within a time limit, weigh its members, fit them to all rows."""

import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from rearview.core.errors import RearviewError
from rearview.core.wording import listing
from rearview.data.panel import Panel
from rearview.data.windows import final_windows
from rearview.estimators.auto import linear
from rearview.estimators.auto.ensemble import GRID, Ensemble, Standing, cut_at_zero
from rearview.estimators.auto.portfolio import Candidate, list_candidates, panel_seasons
from rearview.estimators.auto.schedule import START, Options, check_rows, choose_windows
from rearview.estimators.auto.usage import list_used_inputs
from rearview.estimators.auto.weights import choose_weights, combine_backtests, measure_losses
from rearview.estimators.base import Session, fingerprint
from rearview.estimators.forecast.backtest import (
    Backtest,
    PanelHistory,
    backtest,
    ends_apart,
    read_backtest,
    select_columns,
    write_backtest,
)
from rearview.estimators.forecast.predictor import Array, Predictor
from rearview.estimators.forecast.spec import ForecastSpec
from rearview.estimators.forecast.stretch import measure_stretch, stretch_backtest
from rearview.pretrained import weights as shipped
from rearview.tasks import metrics, statistics

MOST_BACKTESTED = 200
"""Series, or columns, whose backtests weigh the members; more are not looked at for that."""
FEW_VARIABLES = 20
"""Variables below which the time of a model is not measured, but taken from what it costs elsewhere."""
AT_ONCE = 16
"""Series that the network which came trained is timed on: it reads many at once, and a single one would mislead."""
FOR_TRAINING = 0.8
"""Share of the time left that networks may train for; the rest is for forecasts, pages and files."""
LEAST_TRAINING = 2.0
"""Seconds below which a network is not trained."""
FOR_THE_END = 0.25
"""Share of the limit that must be left for a model that does not train to be begun, but for the first few."""
LEAST_TRIED = 2
"""Models that may take all the time that is left: the naive forecast and the network that came trained."""
BREAKING = (RearviewError, ArithmeticError, LookupError, RuntimeError, ValueError, TypeError)
"""What a candidate may break on while the others go on."""
INTERRUPTED = "interrupted"
"""The note of a candidate that Ctrl-C left without a part."""
UNLIKE = 2.5
"""Last rows that change so many times more than those of the backtest are unlike them."""


@dataclass(frozen=True, slots=True)
class AutoFit:
    """A fitted ensemble and the backtests that its weights rest on."""

    ensemble: Ensemble
    backtest: Backtest | None
    """Of the ensemble, each window weighted and calibrated by the others; None: too short for one."""
    members: dict[str, Backtest]


@dataclass(slots=True)
class _Trial:
    candidate: Candidate
    backtest: Backtest | None = None
    seconds: float = 0.0
    forecast_seconds: float = 0.0
    """Seconds that a forecast of all variables will take, where that was estimated."""
    note: str = ""
    final: Predictor | None = None


def fit(panel: Panel, spec: ForecastSpec, options: Options, known_at: PanelHistory | None = None) -> AutoFit:
    """Fit a portfolio to a panel; `known_at` gives the panel as it was known at a date."""
    candidates, sample, windows, seasons = choose_candidates(panel, spec, options)
    levels = tuple(sorted({*GRID, *spec.levels}))
    trials = [_Trial(one) for one in candidates]
    known_at = known_at if sample is panel else None
    options.say(options.describe(candidates, sample, panel, windows, seasons))
    interrupted = False
    for place, trial in enumerate(trials):
        try:
            if windows:
                after = [one.candidate.name for one in trials[place + 1 :]]
                options.stage(f"backtest of {trial.candidate.name}", [*after, "fit to all rows"])
                networks = sum(one.candidate.trains for one in trials[place:])
                left = options.left() - sum(one.forecast_seconds for one in trials)
                ratio = panel.series * panel.targets / (sample.series * sample.targets)
                tried = sum(one.backtest is not None for one in trials)
                _backtest(trial, sample, spec, levels, windows, options, known_at, networks, left, ratio, tried)
                if trial.backtest is not None and trial.backtest.fitted.interrupted:
                    raise KeyboardInterrupt  # which the training took for itself
        except KeyboardInterrupt:
            interrupted = True
            for one in trials[place:] if place else trials[1:]:  # the first, and cheapest, can do without a backtest
                one.note = INTERRUPTED
            break
    return _finish(panel, sample, spec, trials, levels, options, seasons, windows, interrupted)


def choose_candidates(
    panel: Panel, spec: ForecastSpec, options: Options
) -> tuple[list[Candidate], Panel, int, tuple[int, ...]]:
    """The candidates for a panel, the series they are backtested on, how many windows, and the seasons."""
    check_rows(panel, spec)
    seasons = panel_seasons(panel, spec.season)
    windows = choose_windows(panel, spec.horizon, seasons, options.windows)
    cores = os.cpu_count() or 1
    candidates = list_candidates(panel, spec, seasons, quick=options.quick, workers=cores)
    return candidates, _sample_variables(panel), windows, seasons


def _backtest(
    trial: _Trial,
    panel: Panel,
    spec: ForecastSpec,
    levels: tuple[float, ...],
    windows: int,
    options: Options,
    known_at: PanelHistory | None,
    networks: int,
    left: float,
    ratio: float,
    tried: int,
) -> None:
    """Backtest one candidate on a sample, one part in `ratio`; whatever it breaks on, the others go on without it."""
    candidate, began = trial.candidate, time.monotonic()
    if candidate.trains:
        seconds = FOR_TRAINING * left / networks / 2
        if seconds < LEAST_TRAINING:
            trial.note = "no time left"
            return
    else:
        seconds = None
        if left < FOR_THE_END * options.time_limit and tried >= LEAST_TRIED:
            trial.note = "no time left"
            return
        once, start = _estimate(candidate, panel, spec, levels), 0.0
        if candidate.cost and not once:
            slowness = options.slowness()
            once = slowness * candidate.cost * panel.series * panel.targets
            start = 0.0 if "statsforecast" in sys.modules else slowness * START
        share = _share_work if candidate.name in statistics.NAMES else float  # networks use all threads anyway
        backtests, final = share(once * windows), share(once * ratio)
        if once and start + backtests + final > (left if tried < LEAST_TRIED else left / 2):
            trial.note = f"about {start + backtests + final:.0f} s, more than there is time for"
            options.say(f"{candidate.name}: left out, {trial.note}")
            return
        trial.forecast_seconds = final
    session = options.session(f"{candidate.name}-backtest", seconds)
    kept = None
    if options.checkpoints is not None and not candidate.trains:
        asked = (spec, windows, levels, options.refit, candidate.name)
        kept = options.checkpoints / f"{candidate.name}-{fingerprint(panel, *asked)}.npz"
    try:
        if kept is not None and options.resume and kept.exists():
            trial.backtest = read_backtest(kept, candidate.fit(panel, session))
        if trial.backtest is None:
            trial.backtest = backtest(
                panel,
                lambda rows, window: candidate.fit(rows, session),
                spec.horizon,
                n_windows=windows,
                refit=options.refit,
                levels=levels,
                known_at=known_at,
                own_ends=ends_apart(panel, spec.horizon),
            )
            if kept is not None:
                write_backtest(kept, trial.backtest)
    except RearviewError as problem:
        trial.note = str(problem)
    except BREAKING as problem:
        trial.note = f"failed: {type(problem).__name__}: {problem}"
    trial.seconds = time.monotonic() - began
    if trial.backtest is not None:
        error = metrics.mase(trial.backtest.y, trial.backtest.mean, trial.backtest.absolute)
        options.say(f"{candidate.name}: MASE {error:.3g}, {trial.seconds:.1f} s")
    else:
        options.say(f"{candidate.name}: left out, {trial.note}")


def _sample_variables(panel: Panel) -> Panel:
    """The panel, or of many series or columns some, evenly spaced."""
    if panel.series > MOST_BACKTESTED:
        return panel.only(panel.ids[:: -(-panel.series // MOST_BACKTESTED)])
    if panel.targets > MOST_BACKTESTED:
        return _keep_targets(panel, -(-panel.targets // MOST_BACKTESTED))
    return panel


def _keep_targets(panel: Panel, every: int) -> Panel:
    """One target in `every` of a panel, and all its inputs."""
    targets = range(0, panel.targets, every)
    return replace(panel.select([*targets, *range(panel.targets, len(panel.columns))]), targets=len(targets))


def _estimate(candidate: Candidate, panel: Panel, spec: ForecastSpec, levels: tuple[float, ...]) -> float:
    """Seconds of one process for a forecast of all variables, measured on a few; 0: too few variables to measure."""
    if panel.series * panel.targets < FEW_VARIABLES or candidate.name in ("seasonal_naive", linear.NAME):
        return 0.0
    most = AT_ONCE if candidate.name == shipped.NAME else 1
    few = panel.only(panel.ids[:: -(-panel.series // most)])
    few = few if few.targets <= 2 * most else _keep_targets(few, -(-few.targets // (2 * most)))
    seconds = 0.0
    with suppress(*BREAKING):  # what breaks here breaks in the backtest, too, and is told there
        predictor = candidate.fit(few, Session())
        known = np.zeros((few.series, few.known, spec.horizon)) if predictor.known else None
        for _ in range(2):  # the first time, libraries are loaded and compiled
            began = time.monotonic()
            predictor.predict(select_columns(few, predictor), final_windows(few), levels, known)
            seconds = time.monotonic() - began
    return seconds * panel.series * panel.targets / (few.series * few.targets)


def _share_work(seconds: float) -> float:
    """How long work of one process takes that several share where it is long."""
    return seconds if seconds < statistics.SHARING else seconds / (os.cpu_count() or 1)


def _finish(
    panel: Panel,
    sample: Panel,
    spec: ForecastSpec,
    trials: list[_Trial],
    levels: tuple[float, ...],
    options: Options,
    seasons: tuple[int, ...],
    windows: int,
    interrupted: bool,
) -> AutoFit:
    """Weigh what was backtested, fit it to all rows, and combine it."""
    scored = [trial for trial in trials if trial.backtest is not None]
    tests = [trial.backtest for trial in scored if trial.backtest is not None]
    # Members are judged and combined with their own intervals: the whole is stretched once, since intervals that are
    # stretched twice hold too often.
    losses = measure_losses(tests) if tests else None
    if losses is None:
        scored = [trial for trial in trials if not trial.candidate.trains and trial.note != INTERRUPTED]
    prior = np.array([trial.candidate.prior for trial in scored])
    if losses is None:
        weights = np.tile(prior / prior.sum(), (sample.series * sample.targets, 1))
    else:
        weights = choose_weights(losses, prior)
    weights = _fit_members(panel, scored, weights, options, interrupted)
    members = [trial for trial in scored if trial.final is not None]
    kept = [scored.index(trial) for trial in members]
    combined, stretch = None, dict[float, float]()
    if losses is not None:
        raw = combine_backtests([tests[n] for n in kept], losses[kept], prior[kept])
        stretch = measure_stretch(raw, levels)
        combined = stretch_backtest(raw, spec.levels)
        bounds = cut_at_zero(combined.intervals) if spec.nonnegative else combined.intervals
        combined = replace(combined, intervals=bounds, notes=())
    common = weights[:, kept].mean(axis=0)
    common = common / common.sum()
    table = weights[:, kept] / weights[:, kept].sum(axis=1, keepdims=True)
    finals = tuple(trial.final for trial in members if trial.final is not None)
    ensemble = Ensemble(
        spec=spec,
        members=finals,
        weights=table if sample is panel else np.tile(common, (panel.series * panel.targets, 1)),
        common=common,
        ids=panel.ids,
        columns=panel.columns,
        targets=panel.targets,
        known=panel.known,
        step=str(panel.step),
        period=seasons[0] if seasons else 1,
        stretch=stretch,
        leaderboard=_leaderboard(panel, trials, members, common, losses, scored),
        notes=_notes(panel, spec, windows if tests else 0, sample, seasons, finals, interrupted),
        findings=tuple(dict.fromkeys(finding for one in finals for finding in one.findings)),
        interrupted=any(one.interrupted for one in finals) or any(one.note == INTERRUPTED for one in trials),
    )
    backtests = {trial.candidate.name: trial.backtest for trial in scored if trial.backtest is not None}
    if combined is not None:
        combined = replace(combined, fitted=ensemble)
    return AutoFit(ensemble, combined, backtests)


def _fit_members(panel: Panel, scored: list[_Trial], weights: Array, options: Options, interrupted: bool) -> Array:
    """Fit to all rows what has a weight, the heaviest networks first; the weights with those that failed at 0."""
    weights = weights.copy()
    used = [n for n in range(len(scored)) if weights[:, n].max() > 0]
    networks = [n for n in used if scored[n].candidate.trains]
    for number in sorted(used, key=lambda n: (scored[n].candidate.trains, -float(weights[:, n].mean()))):
        trial, began = scored[number], time.monotonic()
        options.stage(
            f"{trial.candidate.name} on all rows", [scored[n].candidate.name for n in networks if n != number]
        )
        seconds = None
        if trial.candidate.trains:
            left = options.left() - sum(scored[n].forecast_seconds for n in used)
            seconds = FOR_TRAINING * left / max(1, len(networks))
            networks.remove(number)
        late = seconds is not None and seconds < LEAST_TRAINING and any(scored[n].final is not None for n in used)
        try:
            if interrupted and trial.candidate.trains:
                trial.note = INTERRUPTED
            elif late:
                trial.note = "no time left for all rows"
            else:
                seconds = None if seconds is None else max(LEAST_TRAINING, seconds)
                trial.final = trial.candidate.fit(panel, options.session(f"{trial.candidate.name}-final", seconds))
                interrupted = interrupted or trial.final.interrupted
        except KeyboardInterrupt:
            interrupted = True
            trial.note = INTERRUPTED
        except BREAKING as problem:
            trial.note = f"failed on all rows: {problem}"
        trial.seconds += time.monotonic() - began
        if trial.final is None:
            weights[:, number] = 0
    lost = weights.sum(axis=1) == 0
    if lost.any():
        alive = [n for n in used if scored[n].final is not None]
        if not alive and interrupted:
            raise KeyboardInterrupt
        if not alive:
            raise RearviewError(f"No model could be fitted: {'; '.join(trial.note for trial in scored)}")
        weights[np.ix_(lost, alive)] = 1 / len(alive)
    return weights / weights.sum(axis=1, keepdims=True)


def _leaderboard(
    panel: Panel,
    trials: list[_Trial],
    members: list[_Trial],
    common: Array,
    losses: Array | None,
    scored: list[_Trial],
) -> tuple[Standing, ...]:
    standings = []
    for trial in trials:
        test = trial.backtest
        fitted = trial.final or (None if test is None else test.fitted)
        standings.append(
            Standing(
                name=trial.candidate.name,
                meaning=trial.candidate.meaning,
                mase=None if test is None else float(metrics.mase(test.y, test.mean, test.absolute)),
                loss=None if test is None or losses is None else float(np.nanmean(losses[scored.index(trial)])),
                weight=float(common[members.index(trial)]) if trial in members else 0.0,
                seconds=trial.seconds,
                note=trial.note,
                uses=() if fitted is None else list_used_inputs(fitted, panel.layout),
            )
        )
    return tuple(sorted(standings, key=lambda one: (-one.weight, one.loss is None, one.loss or 0.0)))


def _notes(
    panel: Panel,
    spec: ForecastSpec,
    windows: int,
    sample: Panel,
    seasons: tuple[int, ...],
    finals: tuple[Predictor, ...],
    interrupted: bool,
) -> tuple[str, ...]:
    notes = []
    if not windows:
        why = "Interrupted before" if interrupted else "Too short for"
        notes.append(f"{why} a backtest: the weights are those of other data, and the intervals are the members' own.")
    elif windows == 1:
        notes.append("The weights rest on one backtest window.")
    if sample is not panel:
        of = (sample.series, panel.series, "series") if panel.series > 1 else (sample.targets, panel.targets, "columns")
        notes.append("The weights rest on {:,} of {:,} {}.".format(*of))
    unlike = _count_unlike(panel, spec.horizon, seasons[0] if seasons else 1, windows)
    if 2 * unlike > panel.series * panel.targets:
        few = f"The last rows of {unlike} variables change" if unlike > 1 else "The last rows change"
        notes.append(f"{few} far more than those the backtest saw: errors may be larger and intervals too narrow.")
    inputs = panel.input_names
    if inputs and not any(set(inputs) & set(one.columns) for one in finals):
        notes.append(f"{listing(inputs)}: past values of inputs are used by none of the members.")
    return tuple(notes)


def _count_unlike(panel: Panel, horizon: int, season: int, windows: int) -> int:
    """Variables whose last horizon of rows changes far more, season by season, than the backtest windows before."""
    count = 0
    for s, (a, b) in enumerate(panel.bounds()):
        for target in range(panel.targets):
            values = panel.values[max(a, int(panel.first[s, target])) : b, target].astype(np.float64)
            blocks = (len(values) - season) // horizon
            if blocks < 3 or not windows:
                continue
            change = np.abs(values[season:] - values[:-season])[-blocks * horizon :].reshape(blocks, horizon).mean(1)
            usual = float(np.median(change[:-1]))
            count += bool(change[-1] > UNLIKE * usual and change[-1] > change[:-1].max())
    return count
