"""From a file to a forecast: read, backtest beside naive baselines, train on everything, forecast."""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview import models
from rearview.commands.forecast.verdict import Scored, counted, verdict
from rearview.commands.warned import warned
from rearview.core.errors import SettingsError, did_you_mean
from rearview.core.wording import listing
from rearview.data.panel import Finding, Panel
from rearview.data.panel_checks import check_length
from rearview.estimators.forecast.as_of import AsOf
from rearview.estimators.forecast.backtest import Backtest, Scores
from rearview.estimators.forecast.fit import prepare
from rearview.estimators.forecast.forecaster import Forecaster, stamps_ahead
from rearview.estimators.forecast.known_inputs import read_known
from rearview.estimators.forecast.prediction import Forecasts, variables
from rearview.tasks import plan as planning
from rearview.tasks.plan import Choice
from rearview.train import Progress

BASELINES = ("seasonal_naive", "dlinear")
MOST_WINDOWS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A forecast as the command line asks for it."""

    file: str
    horizon: int
    models: tuple[str, ...] = ()
    """Empty: one network is chosen."""
    lookback: int | None = None
    windows: int | None = None
    """Backtest windows; None: as many as fit, five at most."""
    refit: bool = False
    future: str | None = None
    resume: bool = False
    request: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of the forecaster: attention, level, seed, device, loss ..."""
    reading: Mapping[str, Any] = field(default_factory=dict)
    """How the file is read: target, id_col, freq ..."""


@dataclass(frozen=True, slots=True)
class ModelResult:
    """One network's backtest and, unless it is a baseline, its forecast."""

    name: str
    baseline: bool
    backtest: Backtest | None
    scores: Scores | None
    forecaster: Forecaster | None
    answer: Forecasts | None
    stamps: NDArray[np.generic] | None
    """[series, step] of the forecast."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything a finished run has to show."""

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
    warnings: tuple[str, ...] = ()
    """What rearview warned of while the job was made."""

    @property
    def chosen(self) -> tuple[ModelResult, ...]:
        """The networks that were asked for."""
        return tuple(result for result in self.results if not result.baseline)

    @property
    def windows(self) -> int:
        return next((len(r.backtest.cutoffs) for r in self.results if r.backtest is not None), 0)


@warned
def run(
    job: Job, folder: Path, *, progress: Progress | None = None, say: Callable[[str], None] = lambda _: None
) -> Outcome:
    """Do the job; checkpoints lie in `folder` while it runs, so that it can be resumed."""
    started = time.perf_counter()
    first = Forecaster(horizon=job.horizon, lookback=job.lookback, **job.request, **job.reading)
    whole = first.read(job.file)
    panel = first.read_to_fit(whole)
    for finding in panel.findings:
        say(finding.message)
    chosen = planning.choose_model(panel, None)
    names = tuple(dict.fromkeys(job.models)) or (chosen.value,)
    settings = _settings_of_each(names, job.request.get("settings", {}))
    _check_attention(names, job.request.get("attention"))
    lookback, windows = _extent(panel, job)
    check_length(panel, lookback.value, job.horizon)
    # Read now, because a future that can't be used must not be found out after the training.
    read_known(panel, stamps_ahead(panel, job.horizon), job.future, first.reading)
    known_at = AsOf.of(job.file, panel, first.reading) if windows else None
    asked = [_Task(job, panel, name, lookback, windows, known_at, folder, False, settings[name]) for name in names]
    baselines = [_baseline(asked[0], name) for name in BASELINES if name not in names]
    for task in asked:
        task.check()
    if job.resume and not any(task.begun() for task in (*asked, *baselines)):
        say("there is no checkpoint of this run to resume, so it starts afresh")
    results: list[ModelResult] = []
    interrupted = False
    for task in (*asked, *baselines):
        if interrupted and (not task.baseline or models.claims(task.name).trains):
            continue
        try:
            results.append(task.run(progress, say))
        except KeyboardInterrupt:
            # What is finished is worth keeping; with nothing finished there is nothing to write.
            if not any(not result.baseline for result in results):
                raise
            interrupted = True
        interrupted = interrupted or _stopped(results[-1])
    done = tuple(results)
    forecast = set(variables(panel))
    return Outcome(
        job=job,
        panel=panel,
        results=done,
        lookback=lookback,
        model=None if job.models else chosen,
        verdict=verdict(scored(done), windows, job.horizon, skipped=job.windows == 0, known=bool(panel.known)),
        notes=tuple(
            dict.fromkeys((*_notes(done), *_missing_parts(job, panel, windows), *_hints(names, job, panel, done)))
        ),
        findings=_findings(panel, done),
        left_out=tuple(name for name in variables(whole) if name not in forecast),
        interrupted=interrupted,
        seconds=time.perf_counter() - started,
    )


def _settings_of_each(names: tuple[str, ...], given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings of each network: all of them for one network, those it has for one of several."""
    if len(names) == 1:
        models.claims(names[0])
        return {names[0]: dict(given)}
    known = {name: {"adapters", *(field.name for field in fields(models.settings_of(name)))} for name in names}
    for setting in given:
        everything = sorted(set().union(*known.values()))
        if setting not in everything:
            near = did_you_mean(setting, everything)
            raise SettingsError(f"None of {', '.join(names)} has a setting {setting!r}.{near}")
    return {name: {key: value for key, value in given.items() if key in known[name]} for name in names}


def _extent(panel: Panel, job: Job) -> tuple[Choice[int], int]:
    """Look-back and number of backtest windows, chosen together so that both leave rows for training."""
    longest = int(panel.lengths.max())
    if job.windows is not None and job.windows < 0:
        raise SettingsError(f"windows is {job.windows}; give 0 to skip the backtest, or how many windows to use.")
    wanted = MOST_WINDOWS if job.windows is None else job.windows
    for windows in range(wanted, -1, -1):
        rows = longest - windows * job.horizon
        lookback = planning.choose_lookback(panel, job.horizon, job.lookback, rows)
        # The backtest's own training needs look-back and horizon, and as much again to stop and to calibrate.
        if windows == 0 or job.windows is not None or rows >= lookback.value + 3 * job.horizon:
            return lookback, windows
    return planning.choose_lookback(panel, job.horizon, job.lookback, longest), 0


@dataclass(frozen=True, slots=True)
class _Task:
    """One network's part of a job."""

    job: Job
    panel: Panel
    name: str
    lookback: Choice[int]
    windows: int
    known_at: AsOf | None
    folder: Path
    baseline: bool
    settings: Mapping[str, Any]

    def check(self) -> None:
        """Refuse now what the training would refuse."""
        prepare(self.panel, self._forecaster(None).spec)

    def begun(self) -> bool:
        """Whether there is a checkpoint to resume it from."""
        stem = self._stem()
        return any(stem.parent.glob(f"{stem.name}-*"))

    def run(self, progress: Progress | None, say: Callable[[str], None]) -> ModelResult:
        """Backtest and, unless it is a baseline, train for the forecast and make it."""
        forecaster, stem = self._forecaster(progress), self._stem()
        result = self._backtest(forecaster, stem, say) if self.windows else None
        scores = None if result is None else result.scores()
        if self.baseline:
            return ModelResult(self.name, True, result, scores, None, None, None)
        if result is not None and result.fitted.interrupted:
            forecaster.adopt(result.fitted, self.panel)
        else:
            say(f"{self.name}: training for the forecast")
            path = stem.with_name(f"{stem.name}-final.safetensors")
            forecaster.fit(self.panel, checkpoint=path, resume=self.job.resume)
            for finding in forecaster.fitted.findings:
                say(f"{self.name}: {finding.message}")
        answer, stamps = forecaster.forecast(forecaster.tail, future=self.job.future)
        return ModelResult(self.name, False, result, scores, forecaster, answer, stamps)

    def _stem(self) -> Path:
        """What the checkpoints of this network's part are called."""
        asked = self._forecaster(None).spec
        return self.folder / "checkpoints" / f"{self.name}-{fingerprint(self.panel, asked, self.windows)}"

    def _backtest(self, forecaster: Forecaster, stem: Path, say: Callable[[str], None]) -> Backtest:
        say(f"{self.name}: backtest over {counted(self.windows, 'window')}")
        return forecaster.backtest(
            self.panel,
            self.windows,
            refit=self.job.refit,
            known_at=self.known_at,
            checkpoint=stem.with_name(f"{stem.name}-backtest"),
            resume=self.job.resume,
        )

    def _forecaster(self, progress: Progress | None) -> Forecaster:
        claims = models.claims(self.name)
        request = {**self.job.request, "settings": self.settings}
        if self.baseline or not claims.attention:
            request.pop("attention", None)
        if self.baseline:
            request.pop("training", None)
        if request.get("intervals") == "quantile" and not claims.trains:
            request["intervals"] = "conformal"  # nothing to learn quantiles with
        # The baseline that repeats a season looks back on a whole one, however far the networks look.
        lookback = None if self.baseline and not claims.trains else self.lookback.value
        return Forecaster(
            self.name, horizon=self.job.horizon, lookback=lookback, progress=progress, **request, **self.job.reading
        )


def _baseline(beside: _Task, name: str) -> _Task:
    """A baseline beside a network that was asked for: without inputs known in the future, which it has no place for."""
    panel = beside.panel
    if panel.known:
        panel = replace(panel.select(range(len(panel.columns) - panel.known)), known=0)
    known_at = None if beside.known_at is None else replace(beside.known_at, panel=panel)
    return replace(beside, panel=panel, name=name, known_at=known_at, baseline=True, settings={})


def _stopped(result: ModelResult) -> bool:
    fits = [result.backtest.fitted] if result.backtest is not None else []
    fits += [result.forecaster.fitted] if result.forecaster is not None else []
    return any(fitted.interrupted for fitted in fits)


def fingerprint(panel: Panel, *asked: Any) -> str:
    """Names a run by its data and what was asked, so that a checkpoint is never resumed on other data."""
    digest = hashlib.sha256(repr((*asked, panel.columns, panel.targets, panel.known)).encode())
    for array in (panel.values, panel.observed, panel.centre, panel.offsets, panel.stamps):
        if array is not None:
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()[:12]


def _notes(results: tuple[ModelResult, ...]) -> list[str]:
    parts: list[str] = []
    for result in results:
        if result.forecaster is not None:
            parts += result.forecaster.fitted.notes
        if result.answer is not None:
            parts += result.answer.notes
        if result.backtest is not None and not result.baseline:
            parts += [f"Backtest: {note}" for note in result.backtest.notes]
    return parts


def _missing_parts(job: Job, panel: Panel, windows: int) -> list[str]:
    """What a reader might look for in vain, and why it is not there."""
    parts = []
    if not windows and job.windows is None:
        parts.append(f"Too short to hold out a backtest window of {counted(job.horizon, 'step')}.")
    if panel.known and windows:
        known = listing(panel.known_names)
        parts.append(f"The baselines forecast without {known}, known in the future, for which they have no place.")
    return parts


def _hints(names: tuple[str, ...], job: Job, panel: Panel, results: tuple[ModelResult, ...]) -> list[str]:
    """What a person would want to know but did not ask for."""
    parts = []
    without = [name for name in names if not models.claims(name).attention]
    if job.request.get("attention") is not None and without:
        parts.append(f"{', '.join(without)}: no attention to replace, so the one asked for does not concern it.")
    answers = [result.answer for result in results if result.answer is not None]
    below = any((low < 0).any() for one in answers for low, _ in one.intervals.values())
    cut_off = job.request.get("nonnegative")
    if below and not cut_off and _never_negative(panel):
        parts.append("No value so far is below 0, but some bounds are; --nonnegative cuts them off there.")
    if cut_off and not _never_negative(panel):
        parts.append("Some values so far are below 0, where --nonnegative cuts forecasts and bounds off; leave it out.")
    return parts


def _never_negative(panel: Panel) -> bool:
    return all(
        (panel.original(slice(a, b), s)[:, : panel.targets] < 0).sum() == 0 for s, (a, b) in enumerate(panel.bounds())
    )


def _check_attention(names: tuple[str, ...], attention: Any) -> None:
    if attention is not None and not any(models.claims(name).attention for name in names):
        raise SettingsError(f"{', '.join(names)} has no attention to replace; leave --attention out, or use patchtst.")


def scored(results: tuple[ModelResult, ...]) -> tuple[Scored, ...]:
    """The results that the verdict weighs."""
    return tuple(Scored(r.name, r.baseline, r.scores) for r in results if r.scores is not None)


def _findings(panel: Panel, results: tuple[ModelResult, ...]) -> tuple[Finding, ...]:
    trained = [f for r in results if r.forecaster is not None for f in r.forecaster.fitted.findings]
    return tuple(dict.fromkeys((*panel.findings, *trained)))
