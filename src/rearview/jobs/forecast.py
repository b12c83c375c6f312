"""From a file to a forecast: read, backtest beside naive baselines, train on everything, forecast."""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview import models
from rearview.data.checks import check_length
from rearview.data.panel import Finding, Panel
from rearview.errors import SettingsError
from rearview.forecaster import Forecaster
from rearview.forecasting.answer import Answer
from rearview.forecasting.backtest import Backtest, Scores
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
    answer: Answer | None
    stamps: NDArray[np.generic] | None
    """[series, step] of the forecast."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything a finished run has to show."""

    job: Job
    panel: Panel
    results: tuple[ModelResult, ...]
    lookback: Choice
    verdict: str
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    interrupted: bool
    seconds: float

    @property
    def chosen(self) -> tuple[ModelResult, ...]:
        """The networks that were asked for."""
        return tuple(result for result in self.results if not result.baseline)

    @property
    def windows(self) -> int:
        return next((len(r.backtest.cutoffs) for r in self.results if r.backtest is not None), 0)


def run(
    job: Job, folder: Path, *, progress: Progress | None = None, say: Callable[[str], None] = lambda _: None
) -> Outcome:
    """Do the job; checkpoints lie in `folder` while it runs, so that it can be resumed."""
    started = time.perf_counter()
    first = Forecaster(horizon=job.horizon, lookback=job.lookback, **job.request, **job.reading)
    panel = first.read(job.file)
    for finding in panel.findings:
        say(finding.message)
    names = job.models or (planning.choose_model(panel, None).value,)
    for name in names:
        models.claims(name)
    lookback, windows = _extent(panel, job)
    check_length(panel, lookback.value, job.horizon)
    baselines = [name for name in BASELINES if name not in names and not panel.known]
    results: list[ModelResult] = []
    notes: dict[str, None] = {}
    interrupted = False
    for name in (*names, *baselines):
        if interrupted and name in names:
            continue
        result, stopped = _one(job, panel, name, lookback, windows, folder, progress, say, baseline=name in baselines)
        interrupted = interrupted or stopped
        results.append(result)
        notes |= dict.fromkeys(_notes(result))
    if not windows:
        notes[f"Too short to hold out a backtest window of {job.horizon} steps: the forecast is untested."] = None
    if panel.known and windows:
        notes["No naive baselines: they have no place for inputs known in the future."] = None
    done = tuple(results)
    return Outcome(
        job=job,
        panel=panel,
        results=done,
        lookback=lookback,
        verdict=verdict(done, windows, job.horizon),
        notes=tuple(notes),
        findings=_findings(panel, done),
        interrupted=interrupted,
        seconds=time.perf_counter() - started,
    )


def verdict(results: tuple[ModelResult, ...], windows: int, horizon: int) -> str:
    """One sentence: does the model beat the naive forecast?"""
    scored = {r.name: r.scores for r in results if r.scores is not None}
    asked = [r.name for r in results if not r.baseline and r.name != "seasonal_naive"]
    naive = scored.get("seasonal_naive")
    asked = [name for name in asked if name in scored and np.isfinite(scored[name].mase)]
    over = f"{windows} backtest window{'s' if windows != 1 else ''} of {horizon} step{'s' if horizon != 1 else ''}"
    if not windows:
        return "The data is too short for a backtest, so nothing is known about how good this forecast is."
    if naive is None or not asked:
        listed = (
            ", ".join(f"{name} has MASE {scored[name].mase:.3g}" for name in asked) or "there is nothing to compare"
        )
        return f"Without a naive baseline there is no verdict: over {over}, {listed}."
    best = min(asked, key=lambda name: scored[name].mase)
    ours, theirs = scored[best].mase, naive.mase
    change = abs(1 - ours / theirs) * 100 if theirs else 0.0
    numbers = (
        f"MASE {ours:.3g} against {theirs:.3g}, {change:.0f} % {'lower' if ours < theirs else 'higher'}, over {over}"
    )
    if ours < theirs:
        return f"{best} beats the seasonal naive forecast: {numbers}."
    return f"{best} does not beat the seasonal naive forecast: {numbers}; use the naive one, or bring more data."


def _extent(panel: Panel, job: Job) -> tuple[Choice, int]:
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


def _one(
    job: Job,
    panel: Panel,
    name: str,
    lookback: Choice,
    windows: int,
    folder: Path,
    progress: Progress | None,
    say: Callable[[str], None],
    *,
    baseline: bool,
) -> tuple[ModelResult, bool]:
    claims = models.claims(name)
    request = dict(job.request)
    if baseline or not claims.attention:
        request.pop("attention", None)
    if baseline:
        request.pop("settings", None)
        request.pop("training", None)
    if request.get("intervals") == "quantile" and not claims.trains:
        request["intervals"] = "conformal"  # nothing to learn quantiles with
    forecaster = Forecaster(
        name, horizon=job.horizon, lookback=lookback.value, progress=progress, **request, **job.reading
    )
    stem = folder / "checkpoints" / f"{name}-{_fingerprint(panel, forecaster)}"
    result, stopped = None, False
    if windows:
        say(f"{name}: backtest over {windows} window{'s' if windows > 1 else ''}")
        result = forecaster.backtest(
            panel, windows, refit=job.refit, checkpoint=stem.with_name(f"{stem.name}-backtest"), resume=job.resume
        )
        stopped = _stopped(result.fitted.history)
    scores = None if result is None else result.scores()
    if baseline:
        return ModelResult(name, True, result, scores, None, None, None), stopped
    if stopped and result is not None:
        forecaster.adopt(result.fitted, panel)
    else:
        say(f"{name}: training on all rows")
        forecaster.fit(panel, checkpoint=stem.with_name(f"{stem.name}-final.safetensors"), resume=job.resume)
        stopped = _stopped(forecaster.fitted.history)
    answer, stamps = forecaster.forecast(_seen(panel, forecaster), future=job.future)
    return ModelResult(name, False, result, scores, forecaster, answer, stamps), stopped


def _seen(panel: Panel, forecaster: Forecaster) -> Panel:
    """The rows a forecast starts from, with the findings left out: they stand elsewhere."""
    return replace(forecaster.tail, findings=())


def _stopped(history: Any) -> bool:
    return history is not None and history.ended == "interrupted"


def _fingerprint(panel: Panel, forecaster: Forecaster) -> str:
    """Names a run by its data and settings, so that a checkpoint is never resumed on other data."""
    digest = hashlib.sha256(repr(forecaster.request).encode())
    for array in (panel.values, panel.centre, panel.offsets, panel.stamps):
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()[:12]


def _notes(result: ModelResult) -> tuple[str, ...]:
    parts: list[str] = []
    if result.forecaster is not None:
        parts += result.forecaster.fitted.notes
    if result.answer is not None:
        parts += result.answer.notes
    if result.backtest is not None and not result.baseline:
        parts += [f"Backtest: {note}" for note in result.backtest.notes]
    return tuple(dict.fromkeys(parts))


def _findings(panel: Panel, results: tuple[ModelResult, ...]) -> tuple[Finding, ...]:
    trained = [f for r in results if r.forecaster is not None for f in r.forecaster.fitted.findings]
    return tuple(dict.fromkeys((*panel.findings, *trained)))
