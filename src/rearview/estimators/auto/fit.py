"""Backtest a portfolio within a time limit, weigh its members, fit them to all rows."""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import RearviewError
from rearview.core.wording import listing, quantity
from rearview.data.panel import Panel
from rearview.data.windows import final_windows
from rearview.estimators.auto import linear
from rearview.estimators.auto.deadline import MANY
from rearview.estimators.auto.ensemble import GRID, Ensemble, Standing, limit_backtest, trim_levels
from rearview.estimators.auto.portfolio import Candidate, list_candidates, panel_seasons
from rearview.estimators.auto.schedule import START, Options, check_rows, choose_windows
from rearview.estimators.auto.usage import list_used_inputs
from rearview.estimators.auto.weights import choose_weights, combine_backtests, measure_losses, tilt_weights
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
from rearview.estimators.forecast.stretch import cut_bounds, measure_stretch, stretch_backtest
from rearview.estimators.forecast.zero_shot import NEAR
from rearview.pretrained import weights as shipped
from rearview.tasks import metrics, statistical_models

MOST_BACKTESTED = 200
"""Series, or columns, whose backtests choose the members, and that are backtested at once."""
FOR_OWN_WEIGHTS = 0.3
"""Share of the time left that backtests of the other series, or columns, may take, so that each has its own weights."""
FEW_VARIABLES = 20
"""Variables below which the time of a model is not measured, but taken from what it costs elsewhere."""
AT_ONCE = 16
"""Series that the network which came trained is timed on: it reads many at once, and a single one would mislead."""
FOR_TRAINING = 0.8
"""Share of the time left that networks may train for; the rest is for forecasts, pages and files."""
END, END_EACH = 1.5, 5e-4
"""Seconds of the processor for page and files, and as many more for each variable."""
LEAST_TRAINING = 2.0
"""Seconds below which a network is not trained."""
LEAST_FORECAST = 0.1
"""Share of many series that the network which came trained must have time to forecast, to be begun."""
FOR_PARTS = 0.8
"""Share of the time left that is set aside for it where it has no time for all of them."""
FOR_THE_END = 0.25
"""Share of the limit that must be left for a model that does not train to be begun, but for the first few."""
LEAST_TRIED = 2
"""Models that may use all the time left: the naive forecast and the pretrained network."""
BREAKING = (RearviewError, ArithmeticError, LookupError, RuntimeError, ValueError, TypeError)
"""Errors that end a candidate but not the others."""
INTERRUPTED = "interrupted"
"""The note of a candidate that Ctrl-C left without a part."""
LEAST_COMPARED = 3
"""Windows from which on the last one is compared with those before it."""
UNLIKE = 2.5
"""Last rows that change so many times more than those of the backtest are unlike them."""


@dataclass(frozen=True, slots=True)
class AutoFit:
    """A fitted ensemble and the backtests that its weights rest on."""

    ensemble: Ensemble
    backtest: Backtest | None
    """Of the ensemble, each window weighted and calibrated by the others; None: too short for one."""
    members: dict[str, Backtest]
    first: Predictor | None = None
    """The first candidate, which is the cheapest, fitted to all rows; None: it was left out."""

    def fall_back(self) -> "AutoFit | None":
        """The first candidate alone, for when the forecast of the others is cut off; None: there is none."""
        test = None if self.first is None else self.members.get(self.first.name)
        if self.first is None or test is None:
            return None
        name, whole = self.first.name, self.ensemble
        board = [
            replace(one, weight=float(one.name == name), note=one.note or (INTERRUPTED if one.weight else ""))
            for one in whole.leaderboard
        ]
        alone = replace(
            whole,
            members=(self.first,),
            weights=np.ones((len(whole.weights), 1)),
            common=np.ones(1),
            stretch={},
            leaderboard=tuple(sorted(board, key=lambda one: -one.weight)),
            interrupted=True,
        )
        levels = whole.spec.levels if self.backtest is None else tuple(self.backtest.intervals)
        return replace(self, ensemble=alone, backtest=replace(trim_levels(test, levels), fitted=alone))


@dataclass(slots=True, eq=False)
class _Attempt:
    """One candidate with its backtest and final fit."""

    candidate: Candidate
    backtest: Backtest | None = None
    seconds: float = 0.0
    forecast_seconds: float = 0.0
    """Seconds that a forecast of all variables will take, where that was estimated."""
    note: str = ""
    final: Predictor | None = None


def fit(panel: Panel, spec: ForecastSpec, options: Options, known_at: PanelHistory | None = None) -> AutoFit:
    """Fit a portfolio to a panel; `known_at` gives the panel as it was known at a date."""
    return Contest.of(panel, spec, options).run(known_at)


def count_seconds_left(options: Options, panel: Panel, slower: float = 1.0) -> float:
    """Seconds left beside the page and the files, which take so many times as long as they would have before."""
    return options.left() - slower * options.slowness() * (END + END_EACH * _count(panel))


def is_sampled(panel: Panel) -> bool:
    """Whether a panel has so many series, or columns, that candidates are backtested on some of them alone."""
    return max(panel.series, panel.targets) > MOST_BACKTESTED


@dataclass(slots=True, eq=False)
class Contest:
    """The candidates for a panel, how they are backtested, and the results."""

    panel: Panel
    sample: Panel
    """The series, or columns, that they are backtested on."""
    spec: ForecastSpec
    options: Options
    windows: int
    seasons: tuple[int, ...]
    attempts: list[_Attempt]
    interrupted: bool = False
    """Whether Ctrl-C ended the backtests."""
    weighed: int = 0
    """Variables that were backtested."""

    @classmethod
    def of(cls, panel: Panel, spec: ForecastSpec, options: Options) -> "Contest":
        """Choose candidates, windows and a sample; a panel that is too short is refused."""
        check_rows(panel, spec)
        seasons = panel_seasons(panel, spec.season)
        windows = choose_windows(panel, spec.horizon, seasons, options.windows)
        candidates = list_candidates(panel, spec, seasons, quick=options.quick, workers=os.cpu_count() or 1)
        sample = panel
        if panel.series > MOST_BACKTESTED:
            sample = panel.only(panel.ids[:: -(-panel.series // MOST_BACKTESTED)])
        elif panel.targets > MOST_BACKTESTED:
            sample = _keep_targets(panel, range(0, panel.targets, -(-panel.targets // MOST_BACKTESTED)))
        return cls(panel, sample, spec, options, windows, seasons, [_Attempt(one) for one in candidates])

    @property
    def levels(self) -> tuple[float, ...]:
        """Levels at which candidates are backtested."""
        return tuple(sorted({*GRID, *self.spec.levels}))

    def describe(self) -> str:
        """The plan as one line: what is tried, on how many windows, and for about how long."""
        rhythm = f"season of {' and '.join(map(str, self.seasons))} steps" if self.seasons else "no season"
        candidates = [one.candidate for one in self.attempts]
        cheap = [one for one in candidates if not one.trains]
        cost = sum(one.cost for one in cheap) * (_count(self.sample) * self.windows + _count(self.panel))
        shared = cost if cost < 60 else cost / (os.cpu_count() or 1)  # below that, processes are not worth their start
        limit = self.options.time_limit
        seconds = min(START + shared, limit)
        parts = [f"{', '.join(one.name for one in cheap)} (about {seconds:.0f} s)"] if cheap else []
        if networks := [one.name for one in candidates if one.trains]:
            parts.append(f"{', '.join(networks)} (until training ends, {limit - seconds:.0f} s at most)")
        return f"Plan: {'; '.join(parts)}; {quantity(self.windows, 'backtest window')}, {rhythm}."

    def run(self, known_at: PanelHistory | None) -> AutoFit:
        """Backtest the candidates, weigh them, and fit those with a weight to all rows."""
        self.options.say(self.describe())
        known_at = known_at if self.sample is self.panel else None
        for place, attempt in enumerate(self.attempts if self.windows else ()):
            try:
                self.backtest(attempt, self.attempts[place + 1 :], known_at)
                if attempt.backtest is not None and attempt.backtest.fitted.interrupted:
                    raise KeyboardInterrupt  # which the training took for itself
            except KeyboardInterrupt:
                self.interrupted = True
                for one in self.attempts[max(1, place) :]:  # the first, and cheapest, can do without a backtest
                    one.note = INTERRUPTED
                break
        return self._finish()

    def backtest(self, attempt: _Attempt, after: list[_Attempt], known_at: PanelHistory | None) -> None:
        """Backtest one candidate on the sample; whatever it breaks on, those after it go on without it."""
        candidate, options, began = attempt.candidate, self.options, time.monotonic()
        options.stage(f"backtest of {candidate.name}", [*(one.candidate.name for one in after), "fit to all rows"])
        networks = 1 + sum(one.candidate.trains for one in after)
        seconds = FOR_TRAINING * self._left() / networks / 2 if candidate.trains else None
        if seconds is None:
            attempt.note = self._plan_time(attempt)
        elif seconds < LEAST_TRAINING:
            attempt.note = "no time left"
        if attempt.note:
            options.say(f"{candidate.name}: left out, {attempt.note}")
            return
        session = options.session(f"{candidate.name}-backtest", seconds)
        stored = None
        if options.checkpoints is not None and not candidate.trains:
            request = (self.spec, self.windows, self.levels, options.refit, candidate.name)
            stored = options.checkpoints / f"{candidate.name}-{fingerprint(self.sample, *request)}.npz"
        try:
            if stored is not None and options.resume and stored.exists():
                attempt.backtest = read_backtest(stored, candidate.fit(self.sample, session))
            if attempt.backtest is None:
                tested = time.monotonic()
                attempt.backtest = backtest(
                    self.sample,
                    lambda rows, window: candidate.fit(rows, session),
                    self.spec.horizon,
                    n_windows=self.windows,
                    refit=options.refit,
                    levels=self.levels,
                    known_at=known_at,
                    own_ends=ends_apart(self.sample, self.spec.horizon),
                )
                if stored is not None:
                    write_backtest(stored, attempt.backtest)
                if not candidate.trains:
                    self._revise_time(attempt, time.monotonic() - tested)
        except RearviewError as problem:
            attempt.note = str(problem)
        except BREAKING as problem:
            attempt.note = f"failed: {type(problem).__name__}: {problem}"
        attempt.seconds = time.monotonic() - began
        if attempt.backtest is not None:
            error = metrics.mase(attempt.backtest.y, attempt.backtest.mean, attempt.backtest.absolute)
            options.say(f"{candidate.name}: MASE {error:.3g}, {attempt.seconds:.1f} s")
        else:
            options.say(f"{candidate.name}: left out, {attempt.note}")

    def _left(self) -> float:
        """Seconds left beside the final forecasts of what was backtested, the page and the files."""
        return count_seconds_left(self.options, self.panel) - sum(one.forecast_seconds for one in self.attempts)

    def _plan_time(self, attempt: _Attempt) -> str:
        """Why there is no time for a model that does not train; empty: there is, and its forecast's is set aside."""
        candidate, options, left = attempt.candidate, self.options, self._left()
        first = sum(one.backtest is not None for one in self.attempts) < LEAST_TRIED
        least = 0.0 if candidate.name == linear.NAME else FOR_THE_END * options.time_limit  # ridge takes next to none
        if left < least and not first:
            return "no time left"
        once, start = self._estimate(candidate), 0.0
        if candidate.cost and not once:
            slowness = options.slowness()
            once = slowness * candidate.cost * _count(self.sample)
            start = 0.0 if "statsforecast" in sys.modules else slowness * START
        share = _share_work if candidate.name in statistical_models.NAMES else float  # networks use all threads anyway
        final = share(once * (_count(self.panel) / _count(self.sample)))
        tested = start + share(once * self.windows)
        if once and tested + self._least(attempt) * final > (left if first else left / 2):
            return f"about {tested + final:.0f} s, more than there is time for"
        self._set_aside(attempt, final, left - tested)
        return ""

    def _revise_time(self, attempt: _Attempt, seconds: float) -> None:
        """Set aside what a forecast of all variables takes, by the seconds of the backtest of some.

        Without time for it the backtest is of no use, unless it is the only one.
        """
        if self.sample is self.panel:
            return
        left = self._left() + attempt.forecast_seconds
        share = _share_work if attempt.candidate.name in statistical_models.NAMES else float
        final = share(seconds / self.windows * _count(self.panel) / _count(self.sample))
        others = any(one.backtest is not None for one in self.attempts if one is not attempt)
        if self._least(attempt) * final > left and others:
            attempt.note = f"about {final:.0f} s for all variables, more than there is time for"
            attempt.backtest, final = None, 0.0
        self._set_aside(attempt, final, left)

    def _least(self, attempt: _Attempt) -> float:
        """Share of the forecast of all variables that there must be time for.

        The network that came trained, the best by far on most data, may leave some of many series to the others.
        """
        return LEAST_FORECAST if attempt.candidate.name == shipped.NAME and self.panel.series >= MANY else 1.0

    def _set_aside(self, attempt: _Attempt, seconds: float, left: float) -> None:
        """Keep seconds for the final forecast of a candidate; one that may leave some series out leaves time, too."""
        late = seconds > left and self._least(attempt) < 1
        attempt.forecast_seconds = FOR_PARTS * left if late else seconds

    def _estimate(self, candidate: Candidate) -> float:
        """Seconds of one process for a forecast of the sample, measured on a few; 0: too few variables to measure."""
        if _count(self.sample) < FEW_VARIABLES or candidate.name in ("seasonal_naive", linear.NAME):
            return 0.0
        most = AT_ONCE if candidate.name in (shipped.NAME, NEAR) else 1
        few = self.sample.only(self.sample.ids[:: -(-self.sample.series // most)])
        if few.targets > 2 * most:
            few = _keep_targets(few, range(0, few.targets, -(-few.targets // (2 * most))))
        seconds = 0.0
        with suppress(*BREAKING):  # what breaks here breaks in the backtest, too, and is told there
            predictor = candidate.fit(few, Session())
            known = np.zeros((few.series, few.known, self.spec.horizon)) if predictor.known else None
            times = []
            for _ in range(3):  # the first time, libraries are loaded and compiled; any time, others may hold it up
                began, spent = time.monotonic(), time.process_time()
                predictor.predict(select_columns(few, predictor), final_windows(few), self.levels, known)
                times.append(time.monotonic() - began)
            seconds = min(times)
            if candidate.name in statistical_models.NAMES:  # too short a time to be held up by what else runs
                seconds = max(seconds, self.options.slowness() * (time.process_time() - spent))
        return seconds * _count(self.sample) / _count(few)

    def _finish(self) -> AutoFit:
        """Weigh what was backtested, fit it to all rows, and combine it."""
        panel, spec = self.panel, self.spec
        backtests = {one.candidate.name: one.backtest for one in self.attempts if one.backtest is not None}
        # Members are judged and combined with their own intervals: the whole is stretched once, since intervals that
        # are stretched twice hold too often.
        losses = measure_losses([*backtests.values()]) if backtests else None
        if losses is None:
            scored = [one for one in self.attempts if not one.candidate.trains and one.note != INTERRUPTED]
        else:
            scored = [one for one in self.attempts if one.backtest is not None]
        prior = np.array([one.candidate.prior for one in scored])
        if losses is None:
            weights = np.tile(prior / prior.sum(), (_count(panel), 1))
        else:
            weights = self._weigh(scored, losses, prior)
        weights = self._fit_members(scored, weights)
        used = [n for n, one in enumerate(scored) if one.final is not None]
        finals = tuple(one.final for one in scored if one.final is not None)
        combined, stretch = None, dict[float, float]()
        if losses is not None:
            tests = [*backtests.values()]
            raw = combine_backtests([tests[n] for n in used], losses[used], prior[used])
            stretch = measure_stretch(raw, self.levels)
            lookback = max(one.lookback for one in finals)
            combined = limit_backtest(stretch_backtest(raw, spec.levels), self.sample, lookback)
            bounds = cut_bounds(combined.intervals, 0.0) if spec.nonnegative else combined.intervals
            combined = replace(combined, intervals=bounds, notes=())
        common = weights[:, used].mean(axis=0)
        common = common / common.sum()
        table = weights[:, used] / weights[:, used].sum(axis=1, keepdims=True)
        shares = {scored[n]: float(share) for n, share in zip(used, common, strict=True)}
        means = {} if losses is None else {one: float(np.nanmean(own)) for one, own in zip(scored, losses, strict=True)}
        standings = [self._standing(one, shares.get(one, 0.0), means.get(one)) for one in self.attempts]
        ensemble = Ensemble(
            spec=spec,
            members=finals,
            weights=table,
            common=common,
            ids=panel.ids,
            columns=panel.columns,
            targets=panel.targets,
            known=panel.known,
            step=str(panel.step),
            period=self.seasons[0] if self.seasons else 1,
            stretch=stretch,
            leaderboard=tuple(sorted(standings, key=lambda one: (-one.weight, one.loss is None, one.loss or 0.0))),
            notes=(*self._notes(self.windows if backtests else 0, finals), *_compare_last_window(combined)),
            findings=tuple(dict.fromkeys(finding for one in finals for finding in one.findings)),
            interrupted=any(one.interrupted for one in finals) or any(one.note == INTERRUPTED for one in self.attempts),
        )
        if combined is not None:
            combined = replace(combined, fitted=ensemble)
        first = self.attempts[0]
        with suppress(*BREAKING):
            first.final = first.final or first.candidate.fit(panel, Session())
        return AutoFit(ensemble, combined, backtests, first.final)

    def _weigh(self, scored: list[_Attempt], losses: Array, prior: Array) -> Array:
        """[variable, member]: weights for all variables by losses of the sample and, in time, of the others.

        The sample chooses the members. Where there is no time to backtest those on the others, all weigh alike.
        """
        weights = choose_weights(losses, prior)
        self.weighed = _count(self.sample)
        if self.sample is self.panel:
            return weights
        common = weights.mean(axis=0)
        used = np.flatnonzero(common)
        weights = np.tile(common, (_count(self.panel), 1))
        whole = self._measure_others([scored[n] for n in used], losses[used])
        if whole is not None:
            weights[:, used] = tilt_weights(common[used], whole)
        return weights

    def _measure_others(self, members: list[_Attempt], losses: Array) -> Array | None:
        """[member, window, variable]: losses of the sample and, part by part, of the others; None: no time for them.

        Members that there is no time for, as the last parts went, have those of the sample alone. Nothing but losses is
        kept.
        """
        panel, options, began = self.panel, self.options, time.monotonic()
        room = FOR_OWN_WEIGHTS * self._left()
        # A network forecasts other series as the sample trained it, but no other columns.
        as_trained = panel.series > MOST_BACKTESTED and not options.refit
        able = [n for n, one in enumerate(members) if as_trained or not one.candidate.trains]
        chosen = _choose_cheapest({n: self.windows * members[n].forecast_seconds for n in able}, room)
        if self.interrupted or len(chosen) < 2:
            return None
        options.stage("backtests of all other variables", ["fit to all rows"])
        whole = np.full((*losses.shape[:2], _count(panel)), np.nan)
        whole[..., _find_places(panel, self.sample)] = losses
        parts, spent = _list_others(panel, self.sample), dict.fromkeys(chosen, 0.0)
        for done, part in enumerate(parts):
            if done:
                left = room - (time.monotonic() - began)
                chosen = _choose_cheapest({n: spent[n] / done * (len(parts) - done) for n in chosen}, left)
            if len(chosen) < 2:
                break
            if panel.series > MOST_BACKTESTED:
                rows = panel.only(part)
            else:
                rows = _keep_targets(panel, [panel.columns.index(name) for name in part])
            tests: dict[int, Backtest] = {}
            try:
                for n in chosen:
                    started = time.monotonic()
                    with suppress(*BREAKING):
                        tests[n] = self._test_again(members[n], rows)
                    spent[n] += time.monotonic() - started
            except KeyboardInterrupt:
                self.interrupted = True
                break
            if tests:
                part_losses = np.full((len(members), self.windows, _count(rows)), np.nan)
                part_losses[[*tests]] = measure_losses([*tests.values()])
                whole[..., _find_places(panel, rows)] = part_losses
            self.weighed += _count(rows)
        seconds = time.monotonic() - began
        options.say(f"backtests of {self.weighed:,} of {_count(panel):,} variables: {seconds:.1f} s")
        return whole if self.weighed > _count(self.sample) else None

    def _test_again(self, attempt: _Attempt, rows: Panel) -> Backtest:
        """The backtest of a member on other rows than those of the sample."""
        candidate, tested = attempt.candidate, attempt.backtest
        trained = tested.fitted if candidate.trains and tested is not None else None
        return backtest(
            rows,
            lambda before, window: trained or candidate.fit(before, Session()),
            self.spec.horizon,
            n_windows=self.windows,
            refit=self.options.refit,
            levels=self.levels,
            own_ends=ends_apart(self.sample, self.spec.horizon),
        )

    def _fit_members(self, scored: list[_Attempt], weights: Array) -> Array:
        """Fit to all rows what has a weight, the heaviest networks first; the weights with those that failed at 0."""
        weights, options, interrupted = weights.copy(), self.options, self.interrupted
        used = [n for n in range(len(scored)) if weights[:, n].max() > 0]
        networks = [n for n in used if scored[n].candidate.trains]
        for number in sorted(used, key=lambda n: (scored[n].candidate.trains, -float(weights[:, n].mean()))):
            attempt, began = scored[number], time.monotonic()
            candidate = attempt.candidate
            options.stage(f"{candidate.name} on all rows", [scored[n].candidate.name for n in networks if n != number])
            seconds = None
            if candidate.trains:
                seconds = FOR_TRAINING * self._left() / max(1, len(networks))
                networks.remove(number)
            late = seconds is not None and seconds < LEAST_TRAINING and any(scored[n].final is not None for n in used)
            try:
                if interrupted and candidate.trains:
                    attempt.note = INTERRUPTED
                elif late:
                    attempt.note = "no time left for all rows"
                else:
                    seconds = None if seconds is None else max(LEAST_TRAINING, seconds)
                    attempt.final = candidate.fit(self.panel, options.session(f"{candidate.name}-final", seconds))
                    interrupted = interrupted or attempt.final.interrupted
            except KeyboardInterrupt:
                interrupted = True
                attempt.note = INTERRUPTED
            except BREAKING as problem:
                attempt.note = f"failed on all rows: {problem}"
            attempt.seconds += time.monotonic() - began
            if attempt.final is None:
                weights[:, number] = 0
        memberless = weights.sum(axis=1) == 0
        if memberless.any():
            alive = [n for n in used if scored[n].final is not None]
            if not alive and interrupted:
                raise KeyboardInterrupt
            if not alive:
                raise RearviewError(f"No model could be fitted: {'; '.join(one.note for one in scored)}")
            weights[np.ix_(memberless, alive)] = 1 / len(alive)
        return weights / weights.sum(axis=1, keepdims=True)

    def _standing(self, attempt: _Attempt, weight: float, loss: float | None) -> Standing:
        test = attempt.backtest
        fitted = attempt.final or (None if test is None else test.fitted)
        return Standing(
            name=attempt.candidate.name,
            meaning=attempt.candidate.meaning,
            mase=None if test is None else float(metrics.mase(test.y, test.mean, test.absolute)),
            loss=loss,
            weight=weight,
            seconds=attempt.seconds,
            note=attempt.note,
            uses=() if fitted is None else list_used_inputs(fitted, self.panel.layout),
        )

    def _notes(self, windows: int, finals: tuple[Predictor, ...]) -> tuple[str, ...]:
        """What a person should know of an ensemble that so many windows were backtested for."""
        panel, notes = self.panel, []
        if not windows:
            why = "Interrupted before" if self.interrupted else "Too short for"
            notes.append(
                f"{why} a backtest: the weights are those of other data, and the intervals are the members' own."
            )
        elif windows == 1:
            notes.append("The weights rest on one backtest window.")
        if windows and self.weighed < _count(panel):
            many = panel.series > 1
            of = (panel.targets, panel.series, "series") if many else (panel.series, panel.targets, "columns")
            notes.append(f"The weights rest on {self.weighed // of[0]:,} of {of[1]:,} {of[2]}.")
        unlike = _count_unlike(panel, self.spec.horizon, self.seasons[0] if self.seasons else 1) if windows else 0
        if 2 * unlike > _count(panel):
            few = f"The last rows of {unlike} variables change" if unlike > 1 else "The last rows change"
            notes.append(f"{few} far more than those the backtest saw: errors may be larger and intervals too narrow.")
        inputs = panel.input_names
        if inputs and not any(set(inputs) & set(one.columns) for one in finals):
            notes.append(f"{listing(inputs)}: past values of inputs are used by none of the members.")
        return tuple(notes)


def _count(panel: Panel) -> int:
    """Variables of a panel."""
    return panel.series * panel.targets


def _keep_targets(panel: Panel, targets: Sequence[int]) -> Panel:
    """Some targets of a panel by number, and all its inputs."""
    return replace(panel.select([*targets, *range(panel.targets, len(panel.columns))]), targets=len(targets))


def _choose_cheapest(seconds: Mapping[int, float], room: float) -> list[int]:
    """The members, by number, that together take less than some seconds, cheapest first."""
    chosen = list[int]()
    for number in sorted(seconds, key=lambda n: seconds[n]):
        room -= seconds[number]
        if room <= 0:
            break
        chosen.append(number)
    return chosen


def _list_others(panel: Panel, sample: Panel) -> list[Sequence[str]]:
    """Names of the series that are not in a sample, or of the targets, as many at a time as are backtested at once."""
    by_series = panel.series > MOST_BACKTESTED
    tested = {*(sample.ids if by_series else sample.target_names)}
    others = [name for name in (panel.ids if by_series else panel.target_names) if name not in tested]
    return [others[start : start + MOST_BACKTESTED] for start in range(0, len(others), MOST_BACKTESTED)]


def _find_places(panel: Panel, part: Panel) -> NDArray[np.int64]:
    """[variable]: the numbers that the variables of a part have in the panel."""
    rows = {name: number for number, name in enumerate(panel.ids)}
    series = np.array([rows[name] for name in part.ids])
    targets = np.array([panel.columns.index(name) for name in part.target_names])
    return (series[:, None] * panel.targets + targets).ravel()


def _share_work(seconds: float) -> float:
    """How long work of one process takes that several share where it is long."""
    return seconds if seconds < statistical_models.SHARING else seconds / (os.cpu_count() or 1)


def _compare_last_window(test: Backtest | None) -> Iterator[str]:
    """A note where the narrowest intervals asked for held in the windows before the last one, but not in that."""
    if test is None or len(test.y) < LEAST_COMPARED or not test.intervals:
        return
    level = min(test.intervals)
    low, high = test.intervals[level]
    there = np.isfinite(test.y) & np.isfinite(low) & np.isfinite(high)
    inside = there & (low <= test.y) & (test.y <= high)
    if not there[:-1].any() or not there[-1].any():
        return
    before, last = inside[:-1].sum() / there[:-1].sum(), inside[-1].sum() / there[-1].sum()
    if last < min(before, level / 100) / 2:
        yield (
            f"The {level:g} % intervals held {100 * before:.0f} % of the time in the backtest windows before the last "
            f"one, and {100 * last:.0f} % in that: the recent past is unlike what came before, so errors may be larger "
            "and intervals too narrow."
        )


def _count_unlike(panel: Panel, horizon: int, season: int) -> int:
    """Variables whose last horizon of rows changes far more, season by season, than the backtest windows before."""
    count = 0
    for s, (a, b) in enumerate(panel.bounds()):
        for target in range(panel.targets):
            values = panel.values[max(a, int(panel.first[s, target])) : b, target].astype(np.float64)
            blocks = (len(values) - season) // horizon
            if blocks < 3:
                continue
            change = np.abs(values[season:] - values[:-season])[-blocks * horizon :].reshape(blocks, horizon).mean(1)
            usual = float(np.median(change[:-1]))
            count += bool(change[-1] > UNLIKE * usual and change[-1] > change[:-1].max())
    return count
