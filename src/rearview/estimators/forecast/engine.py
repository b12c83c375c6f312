"""Fit one network to a panel: plan, split, scale, train, calibrate."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rearview import models, train
from rearview.core.errors import InputError, SettingsError
from rearview.core.settings import settings_from
from rearview.data.panel import Finding, Panel
from rearview.data.panel_checks import check_length
from rearview.data.scale import Scaler
from rearview.data.split import Split, short_series, split
from rearview.data.windows import Batch, Source, Windows
from rearview.estimators.forecast.spec import Request
from rearview.estimators.forecast.transform import applied
from rearview.models.contract import Model
from rearview.tasks import plan as planning
from rearview.tasks.conformal import Residuals
from rearview.tasks.forecast import Forecast
from rearview.tasks.plan import Choice, Plan, Reasoned

MOST_RESIDUALS = 4_000_000  # 16 MiB: what a saved model carries for its intervals, at most
TRAINING_RESIDUALS = 500  # training windows that stand in for calibration where nothing could be held out
LEAST_STOPPING = 1_000  # windows that early stopping looks at, at least, where there are as many
SOFTENING = 0.01  # added to a window's variance on the scaled axis, so that flat windows keep a finite interval


class Asked(Protocol):
    """Any request."""

    @property
    def device(self) -> str: ...


class Trained:
    """What every fitted model says of itself, whatever it was asked for."""

    __slots__ = ()
    request: Asked
    plan: Reasoned
    history: train.History | None

    @property
    def lookback(self) -> int:
        """Steps the network sees."""
        return int(self.plan.lookback.value)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the training."""
        return self.history is not None and self.history.ended == "interrupted"

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return torch.device(device_named(self.request.device))


@dataclass(frozen=True, slots=True)
class Fitted(Trained):
    """A trained network and everything needed to use it on new rows."""

    request: Request
    plan: Plan
    name: str
    network: Model
    task: Forecast
    ids: tuple[str, ...]
    columns: tuple[str, ...]
    """Columns the network reads: targets, past inputs, known inputs."""
    targets: int
    known: int
    mean: NDArray[np.float64]
    """[series, column] in (transformed) original units."""
    std: NDArray[np.float64]
    step: str
    calendar: str | None
    residuals: Residuals | None
    history: train.History | None
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    windows: dict[str, int]
    """Windows that trained, stopped and calibrated."""

    def scaler(self, panel: Panel) -> Scaler:
        """Training statistics for series that were seen in training, their own for others."""
        return Scaler.known(panel, self.ids, self.mean, self.std)

    def source(self, panel: Panel, which: Windows) -> Source:
        """The windows of a panel as this network reads them."""
        return Source(
            panel,
            self.scaler(panel),
            which,
            self.lookback,
            self.request.horizon,
            device=self.device,
            inputs=len(self.columns) > self.targets,
            calendar=self.calendar,
        )


def device_named(name: str) -> str:
    """cpu or cuda for auto; a device that is not there is refused."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise SettingsError(f"There is no device {name!r}; use auto, cpu or cuda.") from None
    count = torch.cuda.device_count()
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingsError(f"device is {name!r}, but torch sees no CUDA device here; use device='auto' or 'cpu'.")
    if device.type == "cuda" and (device.index or 0) >= count:
        seen = "cuda:0 alone" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise SettingsError(f"device is {name!r}, but torch sees {seen} here; use one of these or device='auto'.")
    if device.type not in ("cpu", "cuda") and not _holds_numbers(device):
        raise SettingsError(f"device is {name!r}, which torch can't use here; use device='auto', 'cpu' or 'cuda'.")
    return name


def _holds_numbers(device: torch.device) -> bool:
    """Whether torch can put a number on a device and read it back."""
    try:
        return bool(torch.ones((), device=device).item() == 1)
    except (RuntimeError, NotImplementedError, AssertionError, ImportError):
        return False


@dataclass(frozen=True, slots=True)
class _Made:
    """A network before it is trained, and the windows to train it on."""

    panel: Panel
    plan: Plan
    name: str
    network: Model
    task: Forecast
    source: Source
    cut: Split
    scaler: Scaler
    calendar: str | None
    training: train.Settings | None
    """None where there is nothing to train."""
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]


def check(panel: Panel, request: Request) -> None:
    """Refuse at once what `fit` would refuse: settings, a pair that does not fit, a device, too few rows."""
    _made(panel, request)


def fit(
    panel: Panel,
    request: Request,
    *,
    checkpoint: Path | None = None,
    resume: bool = False,
    progress: train.Progress | bool | None = None,
) -> Fitted:
    """Train a network on a panel and calibrate its intervals; with a checkpoint the run can be resumed."""
    made = _made(panel, request)
    panel, source, plan, cut = made.panel, made.source, made.plan, made.cut
    order = torch.arange(len(source))
    a, b = len(cut.train), len(cut.train) + len(cut.validation)
    stopping, fewer = thinned(order[a:b], plan, a)
    history = None
    if made.training is not None:
        made.network.prepare(source.pasts(order[:a][:: max(1, a // 256)]).past)
        history = train.fit(
            made.network,
            made.task,
            source,
            order[:a],
            stopping if len(stopping) else None,
            made.training,
            checkpoint=checkpoint,
            resume=resume,
            progress=train.follower(progress),
        )
    fitted = Fitted(
        request=request,
        plan=plan,
        name=made.name,
        network=made.network.eval(),
        task=made.task,
        ids=panel.ids,
        columns=panel.columns,
        targets=panel.targets,
        known=panel.known,
        mean=made.scaler.mean + panel.centre,
        std=made.scaler.std,
        step=str(panel.step),
        calendar=made.calendar,
        residuals=None,
        history=history,
        notes=(*made.notes, f"Of each series, {cut.note}.", *fewer),
        findings=made.findings,
        windows={"train": a, "validation": len(stopping), "calibration": len(source) - b},
    )
    if request.intervals != "conformal":
        return fitted
    residuals, warning = _calibrate(fitted, source, order, a, b, panel.series > 1)
    return replace(fitted, residuals=residuals, notes=fitted.notes + warning)


def _made(panel: Panel, request: Request) -> _Made:
    """Plan, split, scale, and make the network."""
    panel = applied(panel, request)
    name = planning.choose_model(panel, request.model).value
    claims = models.claims(name)
    panel, notes = _usable(panel, name, claims)
    longest = int(panel.lengths.max())
    season = planning.choose_season(panel, request.season, longest)
    lookback = planning.choose_lookback(panel, request.horizon, request.lookback, longest)
    if name == "seasonal_naive" and request.lookback is None:
        lookback = planning.naive_lookback(season, lookback, request.horizon, longest)
    check_length(panel, lookback.value, request.horizon)
    cut = split(panel, lookback.value, request.horizon, calibrate=request.intervals == "conformal")
    if not len(cut.train):
        raise InputError(
            f"{panel.layout.source}: none of the rows to train on is followed by an observed value of "
            f"{', '.join(panel.target_names[:5])}, so there is nothing to learn from; bring more history."
        )
    task = Forecast(request.horizon, request.loss, _quantiles(request) if claims.trains else ())
    calendar = str(panel.step) if claims.uses_marks and request.calendar and panel.step.unit != "int" else None
    scaler = Scaler.fit(panel, cut.rows)
    device = device_named(request.device)
    source = Source(
        panel,
        scaler,
        cut.train + cut.validation + cut.calibration,
        lookback.value,
        request.horizon,
        device=device,
        inputs=len(panel.columns) > panel.targets,
        calendar=calendar,
    )
    plan = _plan(request, name, season, lookback, cut, source, on_gpu=device.startswith("cuda"))
    chosen = {key: choice.value for key, choice in plan.training.items()}
    training = {**chosen, "seed": request.seed} if claims.trains else None
    return _Made(
        panel=panel,
        plan=plan,
        name=name,
        network=_network(name, plan, task, source, request).to(device),
        task=task,
        source=source,
        cut=cut,
        scaler=scaler,
        calendar=calendar,
        training=None if training is None else settings_from(train.Settings, "Training", training),
        notes=notes,
        findings=short_series(panel, cut, lookback.value, request.horizon),
    )


def outputs(fitted: Fitted, batches: list[Batch]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Scaled forecasts [window, target, step, quantile] and each window's own scale [window, target]."""
    answers, scales = [], []
    with torch.inference_mode():
        for batch in batches:
            answers.append(fitted.task.forecasts(fitted.network, batch).float().cpu().numpy())
            scales.append(window_scale(batch.past[:, : fitted.targets], batch.mask).float().cpu().numpy())
    return np.concatenate(answers), np.concatenate(scales)


def window_scale(past: Tensor, mask: Tensor | None) -> Tensor:
    """[batch, target]: how much each window varies, softened so that a flat one keeps a scale.

    Steps that are padding count with the variance of the training rows, which is 1: a few rows vary little, whatever
    their series does.
    """
    if mask is None:
        return (past.var(-1, correction=0) + SOFTENING).sqrt()
    real = mask[:, None].to(past.dtype)
    count = real.sum(-1)
    mean = (past * real).sum(-1) / count.clamp(min=1)
    seen = ((past - mean[..., None]).square() * real).sum(-1)
    return ((seen + past.shape[-1] - count) / past.shape[-1] + SOFTENING).sqrt()


def _usable(panel: Panel, name: str, claims: models.ModelClaims) -> tuple[Panel, tuple[str, ...]]:
    """The panel as far as a network can read it; known inputs that it can't use are refused, others named."""
    if panel.known and not claims.uses_marks:
        raise SettingsError(
            f"{name} has no place for columns known in the future ({', '.join(panel.known_names)}); "
            "use itransformer, or leave them out."
        )
    inputs = panel.input_names
    if not inputs or claims.mixes_channels:
        return panel, ()
    unused = f"{', '.join(inputs)} {'is' if len(inputs) == 1 else 'are'} not used"
    note = f"{name} forecasts each column from itself alone: {unused}; itransformer would."
    keep = [c for c, column in enumerate(panel.columns) if column not in inputs]
    return panel.select(keep), (note,)


def _quantiles(request: Request) -> tuple[float, ...]:
    if request.intervals != "quantile":
        return ()
    tails = {round((1 - level / 100) / 2, 9) for level in request.level}
    return tuple(sorted({0.5, *tails, *(round(1 - tail, 9) for tail in tails)}))


def _plan(
    request: Request, name: str, season: Choice, lookback: Choice, cut: Split, source: Source, *, on_gpu: bool
) -> Plan:
    samples = len(cut.train) * (source.targets if not models.claims(name).mixes_channels else 1)
    chosen = planning.model_settings(name, lookback.value, season.value, samples, on_gpu)
    chosen = planning.with_given(chosen, request.settings)
    training: dict[str, Choice] = {}
    if models.claims(name).trains:
        training = planning.training_settings(len(cut.train), source.channels, len(cut.validation), on_gpu)
        training = planning.with_given(training, request.training)
        if not len(cut.validation) and "patience" not in request.training:
            training["patience"] = Choice(None, "no rows are held out for early stopping")
    return Plan(lookback=lookback, season=season, model=chosen, training=training)


def _network(name: str, plan: Plan, task: Forecast, source: Source, request: Request) -> Model:
    arguments: dict[str, Any] = {key: choice.value for key, choice in plan.model.items()}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(request.seed)
        return models.create(
            name,
            channels=source.channels,
            lookback=source.lookback,
            steps=task.steps,
            attention=request.attention,
            marks=source.mark_count,
            future=request.horizon if source.mark_count else 0,
            **arguments,
        )


def thinned(validation: Tensor, plan: Plan, trained: int) -> tuple[Tensor, tuple[str, ...]]:
    """Evenly spaced validation windows, no more than an epoch trains on: looking must not cost more than learning."""
    epoch = plan.training.get("windows_per_epoch")
    most = max(LEAST_STOPPING, trained if epoch is None else epoch.value or trained)
    if len(validation) <= most:
        return validation, ()
    some = validation[:: -(-len(validation) // most)]
    return some, (f"Early stopping looks at {len(some):,} of {len(validation):,} windows, evenly spaced.",)


def _calibrate(
    fitted: Fitted, source: Source, order: Tensor, a: int, b: int, pooled: bool
) -> tuple[Residuals | None, tuple[str, ...]]:
    warning: tuple[str, ...] = ()
    chosen = order[b:]
    if not len(chosen):
        chosen = order[:a][:: -(-a // TRAINING_RESIDUALS)]
        warning = ("The intervals rest on rows the model trained on, for want of others: they are likely too narrow.",)
    most = max(1, MOST_RESIDUALS // (fitted.targets * fitted.request.horizon))
    chosen = chosen[:: -(-len(chosen) // most)]
    size = 4 * int(fitted.plan.training["batch"].value) if fitted.plan.training else 256
    parts = []
    for index in torch.split(chosen, size):
        batch = source.batch(index)
        yhat, scale = outputs(fitted, [batch])
        y = batch.future.float().cpu().numpy().copy()
        if batch.observed is not None:
            y[~batch.observed.cpu().numpy()] = np.nan
        parts.append((y - yhat[..., 0]) / scale[..., None])
    residuals = np.concatenate(parts).transpose(1, 0, 2)  # [target, window, step]
    if pooled:
        residuals = residuals.reshape(1, -1, residuals.shape[-1])
    return Residuals.of(residuals), warning
