"""Forecasting runs: a model trained on a data set of the catalogue under one protocol and tested once."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rearview import attention as mechanisms
from rearview import models, train
from rearview.attention import Spec
from rearview.bench import protocols
from rearview.bench.presets import preset
from rearview.bench.rows.row import Facts, Row, as_json
from rearview.bench.runs import measurement, provenance, run_spec, search
from rearview.bench.runs.request import Part, Request
from rearview.bench.runs.run_spec import Execution, ForecastingSpec
from rearview.bench.runs.runner import make_one
from rearview.bench.runs.tuning import Tuning
from rearview.core.errors import RearviewWarning, SettingsError
from rearview.core.settings import settings_from
from rearview.data import calendar
from rearview.data.datasets import catalogue
from rearview.data.datasets.borders import Borders
from rearview.data.datasets.catalogue import Dataset
from rearview.data.panel import Panel
from rearview.data.panel_checks import check_targets
from rearview.data.scale import Scaler
from rearview.data.windows import Source, Windows, list_windows
from rearview.estimators.base import Session, train_network
from rearview.estimators.options import check_whole
from rearview.models import adapters as shelf
from rearview.models.contract import Model
from rearview.tasks import losses
from rearview.tasks.objectives import Forecast

_UNTRAINED_BATCH = 256
"""Windows at once of a network with nothing to train."""


def run(
    dataset: str,
    model: str,
    *,
    horizon: int,
    lookback: int,
    attention: Spec = None,
    seed: int = 0,
    protocol: str = "clean",
    data_dir: Path | str | None = None,
    settings: Facts | None = None,
    training: Facts | None = None,
    device: str = "auto",
    results: Path | str | None = None,
    progress: train.Progress | None = None,
    checkpoint: Path | str | None = None,
    resume: bool = False,
    presets: str | None = None,
    loss: losses.Spec | None = None,
    adapters: Part | Sequence[Part] = (),
    candidates: Sequence[Facts] = (),
    tuning: Tuning | None = None,
) -> Row:
    """Train a model on a data set of the catalogue, test it once, and return the row, which `results` keeps.

    `settings` of the network and of the `training` go on top of the published ones for the data set. A network that
    reads calendar features gets those the field feeds it, past only, unless settings say `calendar=False`.
    `checkpoint` is a folder that keeps the run while it trains, under a name made from its whole configuration, so that
    many runs can share it. With `resume` a run that `results` holds already is not made again (its row is returned),
    and one that was cut off continues from its checkpoint. Ctrl-C leaves no row.

    `presets` names whose published settings these are and `loss` what training minimises (the protocol's unless
    given), by name or with settings as {"name": "fredf", "time_share": 0.3}; `adapters` wrap the network, and can be
    one of its `settings` as well. With `candidates`, settings that are tried one after the other, or `tuning`, which
    draws them (`rearview.bench.runs.search` explains their names), each is trained alike, the one with the lowest
    validation loss is tested, and the row's budget says so.
    """
    if resume and results is None and checkpoint is None:
        raise SettingsError("resume=True needs something to go on from; give results, checkpoint or both.")
    request = Request(
        dataset,
        model,
        attention,
        lookback,
        horizon,
        protocol=protocol,
        seed=seed,
        settings=settings or {},
        training=training or {},
        presets=presets,
        loss=loss,
        adapters=adapters,
        candidates=candidates,
        tuning=tuning,
    )
    place, folder = (None if path is None else Path(path) for path in (results, checkpoint))
    return make_one(request, Execution(data_dir, device, place, folder, resume=resume, progress=progress), Row)


def resolve(request: Request) -> ForecastingSpec:
    """The published settings with the protocol's and the caller's on top; unknown names are refused."""
    protocol = protocols.get(request.protocol)
    model, lookback, horizon = request.model, request.lookback, request.horizon
    check_whole("horizon", horizon, "the number of steps to forecast")
    check_whole("lookback", lookback, "the number of steps the network sees")
    assert lookback is not None
    assert horizon is not None
    if "seed" in request.training:
        raise SettingsError("The seed is no setting of the training alone: it also draws the first weights; use seed=.")
    claims = models.claims(model)
    if request.training and not claims.trains:
        raise SettingsError(f"{model} has nothing to train; leave out training={dict(request.training)!r}.")
    dataset = catalogue.get(request.dataset)
    source = request.presets or protocol.presets
    published = preset(model, dataset, lookback=lookback, horizon=horizon, source=source)
    given: dict[str, Any] = {**published.settings, **protocol.settings.get(model, {}), **request.settings}
    wants_calendar = given.pop("calendar", True) if claims.uses_marks else False
    if not isinstance(wants_calendar, bool):
        raise SettingsError(f"calendar is {wants_calendar!r}; it must be True or False.")
    if request.adapters and "adapters" in given:
        raise SettingsError(f"adapters are given twice, {request.adapters!r} and among the settings; give them once.")
    adapters = shelf.resolve(given.pop("adapters", request.adapters) or ())
    settings = settings_from(models.settings_of(model), model, given)
    training = {**published.training, **protocol.training, **request.training, "seed": request.seed}
    attention = models.attention_of(model, settings, request.attention)
    if attention is not None and protocol.attention:  # below what the caller gives
        name, own = mechanisms.split(attention)
        attention = {"name": name, **protocol.attention.get(name, {}), **own}
    return ForecastingSpec(
        task=protocols.FORECASTING,
        dataset=dataset.name,
        data=dataset,
        protocol=protocol,
        model=model,
        attention=attention,
        settings=asdict(settings),
        training=settings_from(train.Settings, "training", training) if claims.trains else None,
        seed=request.seed,
        lookback=lookback,
        horizon=horizon,
        presets=source,
        loss=losses.simplify(protocol.loss if request.loss is None else request.loss),
        adapters=adapters,
        calendar=dataset.calendar if wants_calendar else None,
        candidates=tuple(request.candidates),
        tuning=request.tuning,
        budget=request.budget,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Data(run_spec.Data):
    """A data set and its checksums."""

    panel: Panel
    file: Path | None
    """None: the set is generated."""


def read(spec: ForecastingSpec, data_dir: Path | str | None) -> Data:
    """Read a data set of the catalogue, and warn of what is odd about it."""
    panel = catalogue.load(spec.data, data_dir)
    check_targets(panel)
    for finding in panel.findings:
        if finding.kind == "warning":
            warnings.warn(finding.message, RearviewWarning, stacklevel=4)
    columns = {"values_sha256": provenance.values_checksum(panel)}
    return Data(panel=panel, file=catalogue.find(spec.data, data_dir), columns=columns)


@dataclass(frozen=True, slots=True)
class Parts:
    """Every window of each part; none is dropped."""

    borders: Borders
    train: Windows
    validation: Windows
    test: Windows
    scaler: Scaler
    """Fitted on training rows alone."""


def split(panel: Panel, dataset: Dataset, lookback: int, horizon: int) -> Parts:
    """The parts of a benchmark set; a part too short for one window is refused."""
    if horizon < 1:
        raise SettingsError(f"horizon is {horizon}; it must be at least 1.")
    if panel.series != 1:
        raise SettingsError(
            f"{dataset.name} holds {panel.series:,} series, but published borders are rows of one; a benchmark set "
            "must be wide: one series, a column for each channel."
        )
    borders = borders_for(dataset, panel.values.shape[0], lookback, horizon)
    first, last = borders.train
    rows = panel.between(np.array([first]), np.array([last]))
    train, validation, test = (
        list_windows(panel, lookback, horizon, np.array([begin + lookback]), np.array([end]))
        for begin, end in (borders.train, borders.validation, borders.test)
    )
    return Parts(borders, train, validation, test, Scaler.fit(rows))


def borders_for(dataset: Dataset, rows: int, lookback: int, horizon: int) -> Borders:
    """The borders of a benchmark set of so many rows; a part too short for one window is refused."""
    borders = catalogue.borders(dataset, rows, lookback)
    parts = {"training": borders.train, "validation": borders.validation, "test": borders.test}
    for part, (first, last) in parts.items():
        if last - first < lookback + horizon:
            raise SettingsError(
                f"A lookback of {lookback:,} and a horizon of {horizon:,} need {lookback + horizon:,} rows, but the "
                f"{part} part has {last - first:,} (context included); use a shorter horizon."
            )
    return borders


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit(run_spec.Fit[ForecastingSpec]):
    """A network with the windows it learns from, is selected on and is tested on."""

    task: Forecast
    source: Source
    parts: Parts
    learned: Tensor
    """Training windows, by their place in the source; the next two likewise."""
    selected: Tensor
    tested: Tensor
    validation_loss: float = 0.0

    @staticmethod
    def begin(spec: ForecastingSpec, panel: Panel, parts: Parts, device: torch.device) -> "Fit":
        """Put the data on the device and draw the network's first weights."""
        which = parts.train + parts.validation + parts.test
        source = Source(panel, parts.scaler, which, spec.lookback, spec.horizon, device=device, calendar=spec.calendar)
        counts = [len(parts.train), len(parts.validation), len(parts.test)]
        learned, selected, tested = torch.split(torch.arange(len(which)), counts)
        batch = _UNTRAINED_BATCH if spec.training is None else spec.training.batch
        selected = selected[: spec.protocol.windows(len(selected), batch, "validation", spec.model)]
        tested = tested[: spec.protocol.windows(len(tested), batch, "test", spec.model)]
        network = build(spec, source.channels, source.mark_count, device)
        return Fit(
            spec=spec, network=network, task=Forecast(spec.horizon, spec.loss), source=source, parts=parts,
            learned=learned, selected=selected, tested=tested,
        )  # fmt: skip

    def fit(self, session: Session) -> "Fit":
        """Train to the best epoch on validation, or measure there a network with nothing to train."""
        settings = self.spec.training
        if settings is None:
            self.network.eval()
            loss = train.evaluate(self.network, self.task, self.source, self.selected, batch=self.batch)
            return replace(self, validation_loss=loss)
        started = time.perf_counter()
        shown = session if session.progress is not None else replace(session, progress=True)
        history = train_network(self.network, self.task, self.source, self.learned, self.selected, settings, shown)
        assert history is not None
        best = measurement.best_epoch(history)
        assert best.validation_loss is not None
        earlier = max(0.0, history.seconds - (time.perf_counter() - started))
        return replace(self, history=history, validation_loss=best.validation_loss, earlier_seconds=earlier)

    @property
    def batch(self) -> int:
        """Windows at once where nothing is learned."""
        settings = self.spec.training
        return _UNTRAINED_BATCH if settings is None else settings.validation_batch or 4 * settings.batch


def build(spec: ForecastingSpec, channels: int, marks: int, device: torch.device | str = "cpu") -> Model:
    """The network of a run with its first weights, for windows of so many channels with so many calendar features."""
    return spec.build(
        device,
        channels=channels,
        lookback=spec.lookback,
        steps=spec.horizon,
        marks=marks,
        future=spec.horizon if marks and models.claims(spec.model).reads_ahead else 0,
        adapters=spec.adapters,
    )


def check(spec: ForecastingSpec, _: Path | str | None = None) -> None:
    """Refuse a run that could not be made, in the sentence that its failed row would state, before it begins.

    No data is read for it: a data set has the rows and channels that the catalogue says, or is refused when it is read.
    """
    borders_for(spec.data, spec.data.rows, spec.lookback, spec.horizon)
    marks = 0 if spec.calendar is None else len(calendar.names(spec.calendar))
    # Drawn settings that don't go together lose the search; of listed settings each must be possible.
    installed = spec.model in models.names() or spec.model in models.external_names(installed=True)
    if spec.tuning is None or not installed:
        for candidate in spec.candidates or ({},):
            tried = search.apply_candidate(spec, candidate)
            run_spec.try_build(spec.model, partial(build, tried, spec.data.channels, marks))


def fit(spec: ForecastingSpec, data: Data, device: torch.device, session: Session) -> Fit:
    """Train the network, or of its candidates the best on validation."""
    parts = split(data.panel, spec.data, spec.lookback, spec.horizon)

    def attempt(spec: ForecastingSpec) -> Fit:
        # A checkpoint holds one training, and a search has several.
        own = Session(progress=session.progress) if spec.budget else session
        return Fit.begin(spec, data.panel, parts, device).fit(own)

    trial, budget = search.find_best(spec, attempt, lambda trial: trial.validation_loss)
    return replace(trial, spec=replace(trial.spec, budget=budget))


def measure(trial: Fit, data: Data) -> Facts:
    """The columns that the one pass over the test windows fills, and what the network costs to use."""
    training = trial.spec.training
    precision = "float32" if training is None else training.precision
    std = trial.parts.scaler.std[0, : trial.source.targets]
    trial.network.remark()  # on validation windows: of no interest here
    errors = measurement.errors(
        trial.network, trial.task, trial.source, trial.tested, std, batch=trial.batch, precision=precision
    )
    return {
        **asdict(errors),
        "problem": trial.network.remark(),
        "validation_loss": trial.validation_loss,
        "latency_ms": measurement.latency(trial.network, trial.source, precision),
        "file_sha256": "" if data.file is None else catalogue.checksum(data.file),
        "rows": data.panel.values.shape[0],
        "channels": data.panel.values.shape[1],
        "borders": as_json(asdict(trial.parts.borders)),
        "train_windows": len(trial.learned),
        "validation_windows": len(trial.selected),
        "test_windows": len(trial.tested),
    }
