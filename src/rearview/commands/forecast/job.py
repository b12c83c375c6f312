"""From a file to a forecast: read, backtest beside naive baselines, train on everything, forecast."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray

from rearview import models
from rearview.commands.console import list_choices
from rearview.commands.forecast.input_use import list_inputs
from rearview.commands.forecast.verdict import ScoredModel, verdict
from rearview.core.errors import SettingsError, collect_warnings, did_you_mean
from rearview.core.wording import listing, quantity
from rearview.data.infer.categories import name_origin
from rearview.data.io.table import Table
from rearview.data.panel import Finding, Panel
from rearview.data.panel_checks import check_length, drop_empty_targets, note_ends
from rearview.data.panel_reader import open_source, read_panel
from rearview.data.read_options import ReadOptions
from rearview.data.wall_clock import follow_clock
from rearview.data.windows import final_windows
from rearview.estimators.auto import fit as portfolio
from rearview.estimators.auto import schedule
from rearview.estimators.auto.deadline import forecast_in_time
from rearview.estimators.auto.ensemble import Ensemble, Standing, trim_levels
from rearview.estimators.auto.portfolio import panel_seasons
from rearview.estimators.auto.schedule import Listener
from rearview.estimators.auto.usage import list_used_inputs
from rearview.estimators.base import Session, fingerprint, resolve_device
from rearview.estimators.forecast.as_of import AsOf
from rearview.estimators.forecast.backtest import Backtest, Scores
from rearview.estimators.forecast.fit import Prepared, prepare
from rearview.estimators.forecast.forecaster import Forecaster, stamps_ahead
from rearview.estimators.forecast.known_inputs import read_known
from rearview.estimators.forecast.prediction import Fitted, check_finite, variables
from rearview.estimators.forecast.predictor import Forecasts, Predictor
from rearview.estimators.forecast.spec import ALONE, AUTO, ForecastSpec, Intervals, check_limit, check_model
from rearview.estimators.forecast.zero_shot import Pretrained, uses_shipped_weights
from rearview.estimators.frames import Frame
from rearview.estimators.options import check_whole
from rearview.report.forecast.views import InputUse
from rearview.tasks import plan as planning
from rearview.tasks.plan import Choice

BASELINES = ("seasonal_naive", "dlinear")
MOST_WINDOWS = 5
PORTFOLIOS = (AUTO, *ALONE)
"""What is fitted as a portfolio, or as one of its members alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A forecast request of the command line."""

    file: str
    spec: ForecastSpec
    """What to forecast and how; its network is one of `models`."""
    reading: ReadOptions = field(default_factory=ReadOptions)
    files: tuple[str, ...] = ()
    """The files, where `file` names several."""
    table: Table | None = None
    """The file, where it is open already."""
    models: tuple[str, ...] = ()
    """Empty: one network is chosen."""
    windows: int | None = None
    """Backtest windows; None: as many as fit, five at most."""
    refit: bool = False
    future: Frame = None
    resume: bool = False
    time_limit: float | None = None
    """Seconds for the whole job, about; None: a few minutes for a portfolio, no limit for networks that are named."""
    quick: bool = False
    """Without networks that train."""
    threads: int | None = None
    """Threads of the processor; None: all cores."""
    members: bool = False
    """Whether forecast.csv holds the forecasts of a portfolio's members, too."""
    started: float | None = None
    """When the command began, on the clock of `time.perf_counter`; None: when the job is run."""

    def __post_init__(self) -> None:
        check_limit(self.time_limit)
        if self.threads is not None:
            check_whole("threads", self.threads, "the number of threads to use")

    @property
    def limit(self) -> float | None:
        """Seconds for the whole job, about; None: no limit."""
        return self.time_limit or (schedule.DEFAULT_LIMIT if AUTO in self.names else None)

    @property
    def names(self) -> tuple[str, ...]:
        """The models that are asked for; empty: one network, chosen from the data."""
        return tuple(dict.fromkeys(self.models)) or ((AUTO,) if self.spec.is_portfolio else ())


@dataclass(frozen=True, slots=True)
class FinalForecast:
    """A network trained on everything, and its forecast."""

    forecaster: Forecaster
    forecasts: Forecasts
    stamps: NDArray[np.generic]
    """[series, step]."""


@dataclass(frozen=True, slots=True)
class ModelResult:
    """One network's backtest and, unless it is a baseline, its forecast."""

    name: str
    backtest: Backtest | None
    scores: Scores | None
    final: FinalForecast | None
    """None: a baseline."""

    @property
    def fits(self) -> list[Predictor]:
        """What was fitted, that of the forecast first."""
        final = [] if self.final is None else [self.final.forecaster.fitted]
        return final + ([] if self.backtest is None else [self.backtest.fitted])


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a finished run."""

    job: Job
    panel: Panel
    results: tuple[ModelResult, ...]
    lookback: Choice[int]
    model: Choice[str] | None
    """The network that was chosen; None where the job names its networks."""
    verdict: str
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    left_out: tuple[str, ...]
    """Series of the file without any value, which have no forecast."""
    interrupted: bool
    seconds: float
    warnings: tuple[str, ...]
    """What rearview warned of during the run."""

    @property
    def finals(self) -> dict[str, FinalForecast]:
        """The forecasts of the networks that were asked for, by name."""
        return {result.name: result.final for result in self.results if result.final is not None}

    @property
    def backtests(self) -> dict[str, Backtest]:
        """The backtests by network."""
        return {result.name: result.backtest for result in self.results if result.backtest is not None}

    @property
    def leaderboard(self) -> tuple[Standing, ...]:
        """The candidates of a portfolio; empty where networks were named."""
        fitted = self.finals[AUTO].forecaster.fitted if AUTO in self.finals else None
        return fitted.leaderboard if isinstance(fitted, Ensemble) else ()

    @property
    def inputs(self) -> tuple[InputUse, ...]:
        """The inputs, and which of the models that forecast use them; of a portfolio its members."""
        layout = self.panel.layout
        used = {one.name: one.uses for one in self.leaderboard if one.weight}
        for name, final in self.finals.items():
            if name != AUTO:
                used[name] = list_used_inputs(final.forecaster.fitted, layout)
        return list_inputs(self.panel, used)

    @property
    def windows(self) -> int:
        """Backtest windows."""
        return next((len(backtest.cutoffs) for backtest in self.backtests.values()), 0)


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job whose data are read and whose models are chosen, before anything is trained."""

    whole: Panel
    """As the file has it."""
    panel: Panel
    """Without series that have no value."""
    model: Choice[str]
    names: tuple[str, ...]
    networks: tuple[str, ...]
    """Those of the names that are networks."""
    lookback: Choice[int] | None
    """None: nothing learns from windows of one length."""
    windows: int
    tasks: "list[_Task | _AutoTask]"

    def describe(self) -> list[str]:
        """A line for what each task would do."""
        return [line for task in self.tasks for line in task.describe()]


def run(job: Job, folder: Path, listener: Listener) -> Outcome:
    """Do the job; checkpoints lie in `folder` while it runs, so that it can be resumed."""
    started = time.perf_counter() if job.started is None else job.started
    with collect_warnings() as warnings:
        planned = plan(job, folder, listener, started)
        if job.resume and not any(task.has_checkpoint() for task in planned.tasks):
            listener.say("there is no checkpoint of this run to resume, so it starts afresh")
        results, interrupted = _run_each(planned.tasks)
    panel, windows = planned.panel, planned.windows
    notes = (*_notes(results), *_missing_parts(job, panel, windows), *_hints(planned.networks, job, panel, results))
    fits = [result.final.forecaster.fitted for result in results if result.final is not None]
    kept = set(variables(panel))
    return Outcome(
        job=job,
        panel=panel,
        results=results,
        lookback=planned.lookback or Choice(max(fitted.lookback for fitted in fits), "as far back as a model reads"),
        model=None if job.names else planned.model,
        verdict=" ".join([_compare(results, job, panel, windows), *_describe_members(results)]),
        notes=tuple(dict.fromkeys(notes)),
        findings=tuple(dict.fromkeys((*panel.findings, *(one for fitted in fits for one in fitted.findings)))),
        left_out=tuple(name for name in variables(planned.whole) if name not in kept),
        interrupted=interrupted,
        seconds=time.perf_counter() - started,
        warnings=tuple(warnings),
    )


def plan(job: Job, folder: Path, listener: Listener, started: float | None = None) -> JobPlan:
    """Read what a job needs and choose what it leaves open; what can't be done is refused."""
    resolve_device(job.spec.device)
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    for name in job.names:
        if name not in PORTFOLIOS:
            check_model(name)  # a wrong name is refused before anything is read or said
    table = open_source(job.file if job.table is None else job.table, job.reading)
    whole = read_panel(table, job.reading)
    named = job.reading.target is not None or job.reading.target_col is not None
    panel = follow_clock(note_ends(drop_empty_targets(whole, named=named)), job.spec.horizon)
    for finding in panel.findings:
        listener.say(finding.message)
    model = planning.choose_model(panel, None)
    names = job.names or (model.value,)
    networks = tuple(name for name in names if name not in PORTFOLIOS)
    if not networks:
        replace(job.spec, model=names[0])  # refuses what only networks have
    settings = _settings_of_each(networks, job.spec.settings)
    if job.spec.attention is not None and not any(models.claims(name).attention for name in networks):
        raise SettingsError(f"{', '.join(names)} has no attention to replace; leave --attention out, or use patchtst.")
    learners = tuple(name for name in networks if not uses_shipped_weights(_spec_of(job, name, settings[name])))
    lookback, windows = _choose_extent(panel, job, learners)
    if learners:
        check_length(panel, lookback.value, job.spec.horizon)
    # Read now, so that a future that can't be used is refused before the training.
    read_known(panel, stamps_ahead(panel, job.spec.horizon), job.future, job.reading)
    all_tested = networks or AUTO not in names or not portfolio.is_sampled(panel)
    known_at = AsOf.of(table, panel, job.reading) if windows and all_tested else None
    began = time.perf_counter() if started is None else started
    context = _JobContext(job, panel, known_at, folder / "checkpoints", windows, lookback.value, began, listener)
    tasks: list[_Task | _AutoTask] = []
    tasks += [_AutoTask(context, name) for name in names if name in PORTFOLIOS]
    tasks += [_Task.of(context, name, settings[name]) for name in networks]
    if AUTO not in names:
        # Beside a forecast that takes no training, a baseline that trains would take most of the time.
        baselines = BASELINES if learners else BASELINES[:1]
        tasks += [_Task.baseline(context, name) for name in baselines if name not in names]
    return JobPlan(whole, panel, model, names, networks, lookback if learners else None, windows, tasks)


def _settings_of_each(names: tuple[str, ...], given: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """The settings of each network: all of them for one network, those it has for one of several."""
    if len(names) == 1:
        models.claims(names[0])
        return {names[0]: dict(given)}
    known = {name: {"adapters", *(each.name for each in fields(models.settings_of(name)))} for name in names}
    everything = sorted(set().union(*known.values()))
    for setting in given:
        if setting not in everything:
            near = did_you_mean(setting, everything)
            raise SettingsError(f"None of {', '.join(names)} has a setting {setting!r}.{near}")
    return {name: {key: value for key, value in given.items() if key in known[name]} for name in names}


def _spec_of(job: Job, name: str, settings: Mapping[str, object]) -> ForecastSpec:
    """The spec of one network of a job."""
    spec = replace(job.spec, model=name, settings=settings)
    return spec if models.claims(name).attention else replace(spec, attention=None)


def _compare(results: Sequence[ModelResult], job: Job, panel: Panel, windows: int) -> str:
    """The verdict on the results; of the members of a portfolio the naive forecast alone is held against it."""
    auto = any(result.name == AUTO for result in results)
    compared = [one for one in results if not auto or one.final is not None or one.name == "seasonal_naive"]
    scored = tuple(ScoredModel(one.name, one.final is None, one.scores) for one in compared if one.scores is not None)
    return verdict(scored, windows, job.spec.horizon, skipped=job.windows == 0, known=bool(panel.known))


def _describe_members(results: tuple[ModelResult, ...]) -> Iterator[str]:
    """A sentence on what a portfolio's forecast is made of."""
    for result in results:
        fitted = None if result.final is None else result.final.forecaster.fitted
        if isinstance(fitted, Ensemble) and result.name == AUTO:
            parts = [f"{one.name} ({100 * one.weight:.0f} %)" for one in fitted.leaderboard if one.weight > 0]
            listed = parts[0].split(" ")[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
            yield f"The forecast is that of {listed}." if len(parts) == 1 else f"The forecast combines {listed}."


def _choose_extent(panel: Panel, job: Job, networks: tuple[str, ...]) -> tuple[Choice[int], int]:
    """Choose look-back and number of backtest windows together, so that both leave rows for training."""
    longest, horizon = int(panel.lengths.max()), job.spec.horizon
    if job.windows is not None and job.windows < 0:
        raise SettingsError(f"windows is {job.windows}; give 0 to skip the backtest, or how many windows to use.")
    if not networks:
        schedule.check_rows(panel, job.spec)
        seasons = panel_seasons(panel, job.spec.season)
        return Choice(0, ""), schedule.choose_windows(panel, horizon, seasons, job.windows)
    windows = MOST_WINDOWS if job.windows is None else job.windows
    while True:
        rows = longest - windows * horizon
        lookback = planning.choose_lookback(panel, horizon, job.spec.lookback, rows)
        # The backtest's own training needs look-back and horizon, and as much again to stop and to calibrate.
        if windows == 0 or job.windows is not None or rows >= lookback.value + 3 * horizon:
            return lookback, windows
        windows -= 1


@dataclass(frozen=True, slots=True)
class _JobContext:
    """What all models of a job have in common."""

    job: Job
    panel: Panel
    known_at: AsOf | None
    checkpoints: Path
    windows: int
    lookback: int
    started: float
    """When the job began, on the clock of `time.perf_counter`."""
    listener: Listener = field(default_factory=Listener)

    def forecaster(self, spec: ForecastSpec) -> Forecaster:
        """A forecaster that reads as the job does."""
        return Forecaster(**spec.to_dict(), **self.job.reading.to_json(), progress=self.listener.progress)

    def forecast(self, forecaster: Forecaster, fitted: Predictor) -> FinalForecast:
        """What follows the rows of the job, by what a forecaster was fitted to."""
        forecaster.adopt(fitted, self.panel)
        return FinalForecast(forecaster, *forecaster.forecast(forecaster.tail, future=self.job.future))


@dataclass(frozen=True, slots=True, eq=False)
class _AutoTask:
    """A portfolio's part of a job."""

    context: _JobContext
    name: str
    trains: bool = True

    @property
    def _folder(self) -> Path:
        context = self.context
        return context.checkpoints / f"{self.name}-{fingerprint(context.panel, context.job.spec, context.windows)}"

    def has_checkpoint(self) -> bool:
        """Whether there is a checkpoint to resume it from."""
        return any(self._folder.glob("*"))

    @property
    def _spec(self) -> ForecastSpec:
        spec = self.context.job.spec
        intervals: Intervals = "none" if spec.intervals == "none" else "conformal"
        return replace(spec, model=self.name, attention=None, settings={}, training={}, loss="mse", intervals=intervals)

    def _options(self, left: Sequence[str] = ()) -> schedule.Options:
        context, job = self.context, self.context.job
        return schedule.Options(
            time_limit=job.limit or schedule.DEFAULT_LIMIT,
            quick=job.quick,
            windows=context.windows,
            refit=job.refit,
            checkpoints=self._folder,
            resume=job.resume,
            progress=context.listener.progress,
            say=context.listener.say,
            stage=lambda doing, after: context.listener.stage(doing, [*after, *left]),
            started=time.monotonic() - (time.perf_counter() - context.started),
        )

    def describe(self) -> list[str]:
        """The portfolio's plan."""
        return [portfolio.Contest.of(self.context.panel, self._spec, self._options()).describe()]

    def run(self, left: Sequence[str] = ()) -> list[ModelResult]:
        """Fit the portfolio, forecast with it, and give its backtest before those of its members."""
        context = self.context
        forecaster, options = context.forecaster(self._spec), self._options(left)
        auto_fit = portfolio.fit(context.panel, forecaster.spec, options, context.known_at)
        context.listener.stage(f"forecast of {self.name}", left)
        try:
            auto_fit, final = self._forecast(forecaster, auto_fit, options)
        except KeyboardInterrupt:
            simpler = auto_fit.fall_back()
            if simpler is None:
                raise
            auto_fit, final = simpler, context.forecast(forecaster, simpler.ensemble)
        return _portfolio_results(self.name, auto_fit, final)

    def _forecast(
        self, forecaster: Forecaster, auto_fit: portfolio.AutoFit, options: schedule.Options
    ) -> tuple[portfolio.AutoFit, FinalForecast]:
        """The forecast in the time that is left, and the portfolio that it is the forecast of."""
        context = self.context
        forecaster.adopt(auto_fit.ensemble, context.panel)
        tail = forecaster.tail
        stamps = stamps_ahead(tail, forecaster.spec.horizon)
        known = read_known(tail, stamps, context.job.future, forecaster.reading_of_new)
        levels = () if forecaster.spec.intervals == "none" else forecaster.spec.levels
        ensemble, forecasts = forecast_in_time(
            auto_fit.ensemble, auto_fit.first, tail, levels, known, partial(portfolio.count_seconds_left, options, tail)
        )
        check_finite(forecasts, tail, final_windows(tail))
        forecaster.adopt(ensemble, context.panel)
        backtest = None if auto_fit.backtest is None else replace(auto_fit.backtest, fitted=ensemble)
        return replace(auto_fit, ensemble=ensemble, backtest=backtest), FinalForecast(forecaster, forecasts, stamps)


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """One network's part of a job."""

    context: _JobContext
    forecaster: Forecaster
    prepared: Prepared | Pretrained | None
    """The network of the forecast, planned early so that errors appear before training; None: a baseline."""
    stem: str
    """The beginning of the names of its checkpoints."""

    @classmethod
    def of(cls, context: _JobContext, name: str, settings: Mapping[str, object]) -> "_Task":
        """The task of a network that was asked for."""
        spec = _spec_of(context.job, name, settings)
        spec = spec if uses_shipped_weights(spec) else replace(spec, lookback=context.lookback)
        return cls._with(context, spec, final=True)

    @classmethod
    def baseline(cls, context: _JobContext, name: str) -> "_Task":
        """A baseline: without inputs known in the future, which it has no place for."""
        panel, known_at = context.panel, context.known_at
        if panel.known:
            panel = replace(panel.select(range(len(panel.columns) - panel.known)), known=0)
            context = replace(context, panel=panel, known_at=None if known_at is None else known_at.of_columns(panel))
        # The baseline that repeats a season looks back on a whole one, however far the networks look.
        lookback = context.lookback or None if models.claims(name).trains else None
        spec = replace(context.job.spec, model=name, lookback=lookback, attention=None, settings={}, training={})
        return cls._with(context, spec, final=False)

    @classmethod
    def _with(cls, context: _JobContext, spec: ForecastSpec, *, final: bool) -> "_Task":
        if spec.intervals == "quantile" and not models.claims(spec.model or "").trains:
            spec = replace(spec, intervals="conformal")  # nothing to learn quantiles with
        forecaster = context.forecaster(spec)
        stem = f"{spec.model}-{fingerprint(context.panel, forecaster.spec, context.windows)}"
        return cls(context, forecaster, prepare(context.panel, forecaster.spec) if final else None, stem)

    @property
    def name(self) -> str:
        return self.forecaster.spec.model or ""

    @property
    def trains(self) -> bool:
        return self.prepared is not None or models.claims(self.name).trains

    def has_checkpoint(self) -> bool:
        """Whether there is a checkpoint to resume it from."""
        return any(self.context.checkpoints.glob(f"{self.stem}-*"))

    def describe(self) -> list[str]:
        """What would be done, and the settings that were chosen with their reasons."""
        parts = [f"backtest over {quantity(self.context.windows, 'window')}"] if self.context.windows else []
        parts += ["baseline" if self.prepared is None else "fit to all rows"]
        lines = [f"Plan: {self.name}: {', '.join(parts)}."]
        if isinstance(self.prepared, Prepared):
            lines += list_choices(*self.prepared.plan.sections().values())
        return lines

    def run(self, left: Sequence[str] = ()) -> list[ModelResult]:
        """Backtest and, unless it is a baseline, train for the forecast and make it."""
        context, resume = self.context, self.context.job.resume
        backtest = None
        if context.windows:
            context.listener.say(f"{self.name}: backtest over {quantity(context.windows, 'window')}")
            final = [] if self.prepared is None else [f"{self.name} on all rows"]
            context.listener.stage(f"backtest of {self.name}", [*final, *left])
            backtest = self.forecaster.backtest(
                context.panel,
                context.windows,
                refit=context.job.refit,
                known_at=context.known_at,
                checkpoint=context.checkpoints / f"{self.stem}-backtest",
                resume=resume,
            )
        scores = None if backtest is None else backtest.scores()
        if self.prepared is None:
            return [ModelResult(self.name, backtest, scores, None)]
        if backtest is not None and backtest.fitted.interrupted:
            fitted = backtest.fitted
        else:
            trains = isinstance(self.prepared, Prepared)
            context.listener.say(
                f"{self.name}: {'training for the forecast' if trains else 'forecasting without training'}"
            )
            context.listener.stage(f"{self.name} on all rows", left)
            path = context.checkpoints / f"{self.stem}-final.safetensors"
            fitted = self.prepared.train(Session(path, resume, context.listener.progress))
            for finding in fitted.findings:
                context.listener.say(f"{self.name}: {finding.message}")
        return [ModelResult(self.name, backtest, scores, context.forecast(self.forecaster, fitted))]


def _run_each(tasks: "list[_Task | _AutoTask]") -> tuple[tuple[ModelResult, ...], bool]:
    """Run one task after the other; once interrupted, only baselines that need no training."""
    results: list[ModelResult] = []
    interrupted = False
    for place, task in enumerate(tasks):
        if interrupted and task.trains:
            continue
        try:
            made = task.run([one.name for one in tasks[place + 1 :]])
        except KeyboardInterrupt:
            # What is finished is worth keeping; with nothing finished there is nothing to write.
            if all(result.final is None for result in results):
                raise
            interrupted = True
            continue
        results += made
        interrupted = interrupted or any(fitted.interrupted for result in made for fitted in result.fits)
    return tuple(results), interrupted


def _notes(results: tuple[ModelResult, ...]) -> list[str]:
    notes: list[str] = []
    for result in results:
        if result.final is not None:
            notes += (*result.final.forecaster.fitted.notes, *result.final.forecasts.notes)
            if result.backtest is not None:
                notes += [f"Backtest: {note}" for note in result.backtest.notes]
    return notes


def _missing_parts(job: Job, panel: Panel, windows: int) -> list[str]:
    """Notes on what is missing, and why."""
    notes = []
    if not windows and job.windows is None:
        notes.append(f"Too short to hold out a backtest window of {quantity(job.spec.horizon, 'step')}.")
    if panel.known and windows and AUTO not in job.names:
        known = listing([*dict.fromkeys(name_origin(name, panel.layout) for name in panel.known_names)])
        notes.append(f"The baselines forecast without {known}, known in the future, for which they have no place.")
    return notes


def _hints(names: tuple[str, ...], job: Job, panel: Panel, results: tuple[ModelResult, ...]) -> list[str]:
    """Notes on options that have no effect or would help."""
    notes = []
    without = [name for name in names if not models.claims(name).attention]
    if job.spec.attention is not None and without:
        notes.append(f"{', '.join(without)}: no attention to replace, so the one asked for does not concern it.")
    negative = any(
        (panel.original(slice(a, b), s)[:, : panel.targets] < 0).any() for s, (a, b) in enumerate(panel.bounds())
    )
    finals = [result.final for result in results if result.final is not None]
    below = any((low < 0).any() for final in finals for low, _ in final.forecasts.intervals.values())
    if below and not job.spec.nonnegative and not negative:
        notes.append("No value so far is below 0, but some bounds are; --nonnegative cuts them off there.")
    if job.spec.nonnegative and negative:
        notes.append("Some values so far are below 0, where --nonnegative cuts forecasts and bounds off; leave it out.")
    return notes


def _portfolio_results(name: str, auto_fit: portfolio.AutoFit, final: FinalForecast) -> list[ModelResult]:
    """The backtest of a portfolio, with its forecast, before those of its members."""
    scores = None if auto_fit.backtest is None else auto_fit.backtest.scores()
    tests = {one: trim_levels(test, final.forecaster.spec.levels) for one, test in auto_fit.members.items()}
    members = [ModelResult(one, test, test.scores(), None) for one, test in tests.items()]
    return [ModelResult(name, auto_fit.backtest, scores, final), *(members if name == AUTO else ())]


def evaluate(forecaster: Forecaster, panel: Panel, *, future: Frame, windows: int | None, started: float) -> Outcome:
    """The outcome of a forecaster that was fitted in Python: its forecast after the rows of a panel, and its backtest.

    The backtest of a portfolio is that of its fit; another model is backtested here, beside the baselines.
    """
    fitted, spec = forecaster.fitted, forecaster.spec
    with collect_warnings() as warnings, TemporaryDirectory() as folder:
        ahead = forecaster.forecast(forecaster.tail if panel is forecaster.rows else panel, future=future)
        final = FinalForecast(forecaster, *ahead)
        learns = not spec.is_portfolio and not uses_shipped_weights(spec)
        spec = replace(spec, model=fitted.name, lookback=fitted.lookback if learns else spec.lookback)
        reading = forecaster.reading_of_new
        job = Job(file=panel.layout.source, spec=spec, reading=reading, windows=windows, future=future)
        made = forecaster.portfolio if windows != 0 else None
        if made is not None:
            count = 0 if made.backtest is None else len(made.backtest.cutoffs)
        else:
            count = 0 if spec.is_portfolio else _choose_extent(panel, job, (fitted.name,) if learns else ())[1]
        context = _JobContext(job, panel, None, Path(folder), count, fitted.lookback, started)
        results = [] if made is None else _portfolio_results(fitted.name, made, final)
        if made is None and count:
            (tested,) = _Task._with(context, spec, final=False).run()
            results = [replace(tested, final=final)]
        results = results or [ModelResult(fitted.name, None, None, final)]
        if fitted.name != AUTO and count:
            for name in BASELINES if learns else BASELINES[:1]:
                results += _Task.baseline(context, name).run() if name != fitted.name else []
    judged = _compare(results, job, panel, count)
    if spec.is_portfolio and forecaster.portfolio is None:
        judged = "The backtest of a portfolio is not saved with it; its leaderboard tells how good its members were."
    return Outcome(
        job=job,
        panel=panel,
        results=tuple(results),
        lookback=fitted.plan.lookback if isinstance(fitted, Fitted) else Choice(fitted.lookback, "as far as it reads"),
        model=None,
        verdict=" ".join([judged, *_describe_members(tuple(results))]),
        notes=tuple(dict.fromkeys(_notes(tuple(results)))),
        findings=forecaster.findings,
        left_out=(),
        interrupted=fitted.interrupted,
        seconds=forecaster.seconds + time.perf_counter() - started,
        warnings=tuple(warnings),
    )
