"""Fit one network to a panel: plan, split, scale, train, calibrate."""

import copy
import time
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rearview import models, train
from rearview.core.errors import InputError, SettingsError
from rearview.data.calendar import names as calendar_names
from rearview.data.launch import cut_idle
from rearview.data.panel import Panel
from rearview.data.panel_checks import check_length
from rearview.data.scale import Scaler
from rearview.data.split import Split, find_short_series, split
from rearview.data.statics import StaticScale
from rearview.data.wall_clock import on_clock
from rearview.data.windows import Source
from rearview.estimators import base
from rearview.estimators.base import NO_CHECKPOINT, Session
from rearview.estimators.forecast.prediction import Fitted, outputs
from rearview.estimators.forecast.spec import ForecastSpec, check_model
from rearview.estimators.forecast.transform import list_counters, take_additions, transform_panel
from rearview.estimators.forecast.zero_shot import Pretrained, uses_shipped_weights
from rearview.models.contract import Model
from rearview.tasks import plan as planning
from rearview.tasks.conformal import Residuals
from rearview.tasks.objectives import Forecast
from rearview.tasks.plan import Plan
from rearview.train.checkpoint import read_length

MOST_RESIDUALS = 4_000_000  # 16 MiB: what a saved model carries for its intervals, at most
TRAINING_RESIDUALS = 500  # training windows that stand in for calibration where nothing could be held out
LEAST_EPOCHS = 8  # of a training that is cut short
CALIBRATING = 0.25  # of the time limit of a training, on top of it, to calibrate intervals
OVERHEAD = 1.4  # time of an update over that of its two passes, as there are also the optimiser and validation
NARROW = "The intervals rest on rows the model trained on, for want of others: they are likely too narrow."


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A planned network with its first weights, and the rows to train it on; it is trained once."""

    spec: ForecastSpec
    panel: Panel
    plan: Plan
    name: str
    network: Model
    task: Forecast
    cut: Split
    scaler: Scaler
    calendar: str | None
    training: train.Settings | None
    """None where there is nothing to train."""
    notes: tuple[str, ...]
    statics: StaticScale | None
    """What describes the series, where the network has a place for it."""
    adds_up: bool
    """Whether the targets of the panel are what is added to counters at each step."""

    def train(self, session: Session = NO_CHECKPOINT) -> Fitted:
        """Train the network and calibrate its intervals."""
        spec, panel, cut = self.spec, self.panel, self.cut
        source = Source(
            panel,
            self.scaler,
            cut.train + cut.validation + cut.calibration,
            self.plan.lookback.value,
            spec.horizon,
            device=base.resolve_device(spec.device),
            inputs=len(panel.columns) > panel.targets,
            calendar=self.calendar,
            statics=None if self.statics is None else self.statics.read(panel.statics, panel.series),
        )
        order = torch.arange(len(source))
        a, b = len(cut.train), len(cut.train) + len(cut.validation)
        training, most, affordable = self.training, None, None
        if training is not None and session.seconds is not None:
            began = time.perf_counter()
            an_update = self._time_update(source, order[:a])
            # A pass forward takes a third of an update.
            affordable = int(CALIBRATING * session.seconds * 3 * OVERHEAD * training.batch / an_update)
            left = session.seconds - (time.perf_counter() - began)
            session, training = replace(session, seconds=left), _shorten(training, a, left / an_update)
            if session.resume and session.checkpoint is not None and session.checkpoint.exists():
                # Keep the schedule that the run began with, however fast the machine is now.
                epochs, an_epoch = read_length(session.checkpoint)
                training = replace(training, epochs=epochs, windows_per_epoch=an_epoch)
            most = None if training == self.training else training.windows_per_epoch
        stopping, fewer = base.thin_validation(order[a:b], self.plan, a, most)
        history = base.train_network(self.network, self.task, source, order[:a], stopping, training, session)
        fitted = Fitted(
            spec=spec,
            plan=self.plan,
            name=self.name,
            network=self.network.eval(),
            task=self.task,
            ids=panel.ids,
            columns=panel.columns,
            targets=panel.targets,
            known=panel.known,
            mean=self.scaler.mean + panel.centre,
            std=self.scaler.std,
            step=str(panel.step),
            calendar=self.calendar,
            residuals=None,
            statics=self.statics,
            adds_up=self.adds_up,
            history=history,
            notes=(*self.notes, f"Of each series, {cut.note}.", *fewer),
            findings=find_short_series(panel, cut, self.plan.lookback.value, spec.horizon),
            windows={"train": a, "validation": len(stopping), "calibration": len(source) - b},
        )
        if spec.intervals != "conformal":
            return fitted
        residuals, warning = self._calibrate(fitted, source, order, affordable)
        return replace(fitted, residuals=residuals, notes=fitted.notes + warning)

    def _time_update(self, source: Source, learned: Tensor) -> float:
        """Seconds of one update, about; the network and the random state stay as they are."""
        assert self.training is not None
        network, batch = copy.deepcopy(self.network).train(), source.batch(learned[: self.training.batch])
        on_gpu = batch.past.is_cuda
        seconds = 0.0
        with torch.random.fork_rng(devices=[batch.past.device] if on_gpu else []):
            for _ in range(2):  # the first one warms up
                began = time.perf_counter()
                loss, count = self.task.loss(network, batch)
                (loss / count).backward()
                if on_gpu:
                    torch.cuda.synchronize()
                seconds = time.perf_counter() - began
        return OVERHEAD * max(seconds, 1e-6)  # a coarse clock may see no time go by

    def _calibrate(
        self, fitted: Fitted, source: Source, order: Tensor, affordable: int | None
    ) -> tuple[Residuals, tuple[str, ...]]:
        """(residuals of the calibration windows, or of training windows where there are none, a warning of the latter).

        Where time is short, `affordable` windows are used, evenly spaced.
        """
        a = len(self.cut.train)
        warning: tuple[str, ...] = ()
        windows = order[a + len(self.cut.validation) :]
        if not len(windows):
            windows, warning = order[:a][:: -(-a // TRAINING_RESIDUALS)], (NARROW,)
        most = max(1, MOST_RESIDUALS // (fitted.targets * self.spec.horizon))
        most = most if affordable is None else min(most, max(TRAINING_RESIDUALS, affordable))
        windows = windows[:: -(-len(windows) // most)]
        parts = []
        for index in torch.split(windows, 256 if self.training is None else 4 * self.training.batch):
            batch = source.batch(index)
            yhat, scale = outputs(fitted, [batch])
            y = batch.future.float().cpu().numpy().copy()
            if batch.observed is not None:
                y[~batch.observed.cpu().numpy()] = np.nan
            errors = y - yhat[..., 0]
            parts.append((errors.cumsum(axis=-1) if self.adds_up else errors) / scale[..., None])
        residuals = np.concatenate(parts).transpose(1, 0, 2)  # [target, window, step]
        if self.panel.series > 1:
            residuals = residuals.reshape(1, -1, residuals.shape[-1])
        return Residuals.of(residuals), warning


def _shorten(training: train.Settings, windows: int, updates: float) -> train.Settings:
    """Settings of a training of at most so many updates, with the schedule laid out over these."""
    an_epoch = -(-min(windows, training.windows_per_epoch or windows) // training.batch)
    possible = max(1, int(updates))
    if possible >= training.epochs * an_epoch:
        return training
    an_epoch = min(an_epoch, max(1, possible // LEAST_EPOCHS))
    return replace(training, epochs=max(1, possible // an_epoch), windows_per_epoch=an_epoch * training.batch)


def fit(panel: Panel, spec: ForecastSpec, session: Session = NO_CHECKPOINT, *, tune: bool = False) -> Fitted:
    """Train a network on a panel and calibrate its intervals; `tune` trains one further that came with weights."""
    prepared = prepare(panel, spec)
    if isinstance(prepared, Pretrained):
        return prepared.train(session, tune=tune)
    if tune:
        raise SettingsError(
            f"{prepared.name} is trained from nothing, so there is nothing to tune; leave tune out, or use "
            "model='glance' without settings of its own."
        )
    return prepared.train(session)


def begin_at_launches(panel: Panel, spec: ForecastSpec) -> Panel:
    """The rows that a network is trained on: those since launches, or all where these leave no series long enough."""
    return cut_idle(panel, (spec.lookback or planning.SHORTEST) + spec.horizon)


def prepare(panel: Panel, spec: ForecastSpec) -> Prepared | Pretrained:
    """Plan, split, scale, and create the network; what can't be trained is refused."""
    panel = on_clock(panel)
    if uses_shipped_weights(spec):
        return Pretrained.of(panel, spec)
    panel = transform_panel(panel, spec)
    name = planning.choose_model(panel, spec.model).value
    check_model(name)
    claims = models.claims(name)
    panel, notes = planning.select_usable(panel, name)
    since = begin_at_launches(panel, spec)
    if since is not panel:
        panel, notes = since, (*notes, "Trained on the rows since a launch alone: before, one value stood for long.")
    # Quantiles of sums are no sums of quantiles.
    adds_up = claims.trains and not spec.quantiles and bool(list_counters(panel).all())
    if adds_up:
        panel, notes = take_additions(panel), (*notes, "What is added at each step is forecast: values only ever rise.")
    longest = int(panel.lengths.max())
    season = planning.choose_season(panel, spec.season, longest)
    lookback = planning.choose_lookback(panel, spec.horizon, spec.lookback, longest)
    if name == "seasonal_naive" and spec.lookback is None:
        lookback = planning.naive_lookback(season, lookback, spec.horizon, longest)
    check_length(panel, lookback.value, spec.horizon)
    cut = split(panel, lookback.value, spec.horizon, calibrate=spec.intervals == "conformal")
    if not len(cut.train):
        raise InputError(
            f"{panel.layout.source}: none of the rows to train on is followed by an observed value of "
            f"{', '.join(panel.target_names[:5])}, so there is nothing to learn from; bring more history."
        )
    task = Forecast(spec.horizon, spec.loss, spec.quantiles if claims.trains else ())
    calendar = str(panel.step) if claims.uses_marks and spec.calendar and panel.step.unit != "int" else None
    scaler = Scaler.fit(panel, cut.rows)
    on_gpu = base.resolve_device(spec.device).startswith("cuda")
    channels = len(panel.columns) - panel.known
    samples = len(cut.train) * (1 if claims.mixes_channels else panel.targets)
    settings = planning.model_settings(name, lookback.value, season.value, samples, on_gpu)
    loop = planning.training_settings(len(cut.train), channels, len(cut.validation), on_gpu) if claims.trains else {}
    plan = Plan(
        lookback=lookback,
        season=season,
        model=planning.override(settings, spec.settings),
        training=planning.override(loop, spec.training) if claims.trains else {},
    )
    statics = StaticScale.of(panel.statics) if claims.uses_marks else None
    if panel.statics is not None and statics is None:
        notes = (*notes, f"{name} has no place for what describes the series ({', '.join(panel.layout.static)}).")
    marks = panel.known + (0 if statics is None else len(statics.names))
    marks += 0 if calendar is None else len(calendar_names(calendar))
    network, training = base.build_network(
        name,
        spec,
        plan,
        channels=channels,
        lookback=lookback.value,
        steps=task.steps,
        marks=marks,
        future=spec.horizon if marks else 0,
        statics=0 if statics is None else len(statics.names),
    )
    return Prepared(spec, panel, plan, name, network, task, cut, scaler, calendar, training, notes, statics, adds_up)
