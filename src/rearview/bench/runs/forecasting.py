"""One run: a model trained on one benchmark set and tested once, as one row."""

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rearview import __version__, models, train
from rearview.attention import Spec
from rearview.bench.protocols import FORECASTING
from rearview.bench.rows import result_file as files
from rearview.bench.rows.identity import same
from rearview.bench.rows.row import Row, as_json
from rearview.bench.runs import measure, provenance, search
from rearview.bench.runs.run_spec import Around, Asked, ask, digest
from rearview.bench.runs.splits import Parts, cut
from rearview.bench.runs.tuning import Tuning
from rearview.core.errors import RearviewWarning, SettingsError
from rearview.data.datasets import catalogue
from rearview.data.panel import Panel
from rearview.data.panel_checks import check_targets
from rearview.data.windows import Source
from rearview.estimators.base import resolve_device
from rearview.models.contract import Model
from rearview.tasks import losses
from rearview.tasks.forecast import Forecast
from rearview.train import parallel

_PREPARING_WINDOWS = 256
_UNTRAINED_BATCH = 256


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
    settings: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    device: str = "auto",
    results: Path | str | None = None,
    progress: train.Progress | None = None,
    checkpoint: Path | str | None = None,
    resume: bool = False,
    presets: str | None = None,
    loss: losses.Spec | None = None,
    adapters: Around = (),
    candidates: Sequence[Mapping[str, Any]] = (),
    tuning: Tuning | None = None,
) -> Row:
    """Train a model on a data set of the catalogue, test it once, and return the row, which `results` keeps.

    `settings` of the network and of the `training` go on top of the published ones for the data set. A network with a
    place for calendar features gets those the field feeds it, past only, unless settings say `calendar=False`.
    `checkpoint` is a folder in which the run is kept while it trains, under a name made from all that was asked for, so
    that many runs can share it. With `resume` a run that `results` holds already is not made again (its row is
    returned), and one that was cut off goes on from its checkpoint. Ctrl-C leaves no row.

    `presets` names whose published settings these are and `loss` what training minimises (the protocol's unless
    given), by name or with settings as {"name": "fredf", "time_share": 0.3}; `adapters` stand around the network, and
    can be one of its `settings` as well. With `candidates`, settings that are tried one after the other, or `tuning`,
    which draws them (`rearview.bench.runs.search` tells their names), each is trained alike, the one with the lowest
    validation loss is tested, and the row's budget says so.
    """
    started = time.perf_counter()
    code = provenance.commit()
    results, folder = _path(results), _path(checkpoint)
    if resume and results is None and folder is None:
        raise SettingsError("resume=True needs something to go on from; give results, checkpoint or both.")
    asked = ask(
        dataset,
        model,
        lookback=lookback,
        horizon=horizon,
        attention=attention,
        seed=seed,
        protocol=protocol,
        settings=settings,
        training=training,
        presets=presets,
        loss=loss,
        adapters=adapters,
        budget=search.budget(candidates, tuning),
    )
    rows = [] if results is None else files.kept(results)
    place = torch.device(resolve_device(device))
    parallel.begin(place)
    memory = measure.PeakMemory(place)
    panel = _read(asked, data_dir)
    configuration = asked.configuration(provenance.values_checksum(panel))

    def there(rows: Sequence[Row]) -> list[Row]:
        return same(rows, configuration)

    saved = None if folder is None else folder / f"{digest(configuration)}.safetensors"
    if resume and (made := there(rows)):
        if saved is not None:
            saved.unlink(missing_ok=True)  # left behind by a run that was killed just after its row was written
        return made[-1]
    parts = cut(panel, asked.dataset, lookback, horizon)

    def tried(asked: Asked) -> tuple["_Trial", _Fitted]:
        trial = _Trial.begin(asked, panel, parts, place)
        return trial, trial.fit(None if saved is None or asked.budget else saved, resume, progress)

    found = search.best(asked, candidates, tuning, tried, lambda pair: pair[1].validation_loss)
    trial, fitted = found.outcome
    chosen = replace(trial.asked, budget=found.budget)
    configuration |= chosen.configuration(configuration["values_sha256"])
    row = Row(
        **configuration,
        **_facts(trial, data_dir, panel, place),
        commit=code,
        **trial.test(fitted),
        **measure.training_facts(fitted.history),
        habits=chosen.protocol.told(FORECASTING, chosen.presets),
        peak_memory_bytes=memory.read(),
        total_seconds=time.perf_counter() - started + fitted.earlier_seconds,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    if results is not None and not parallel.rank():
        row = files.append(results, row, unless=there if resume else None)
        if saved is not None:
            saved.unlink(missing_ok=True)
    return row


@dataclass(frozen=True, slots=True)
class _Fitted:
    """What training left behind; no history where there was nothing to train."""

    history: train.History | None
    validation_loss: float
    earlier_seconds: float
    """What sessions before this one took, if the run was resumed."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """A network with the windows it learns from, is selected on and is tested on."""

    asked: Asked
    network: Model
    task: Forecast
    source: Source
    parts: Parts
    learned: Tensor
    """Training windows, by their place in the source; the next two likewise."""
    selected: Tensor
    tested: Tensor

    @staticmethod
    def begin(asked: Asked, panel: Panel, parts: Parts, device: torch.device) -> "_Trial":
        """Data on the device and a network with its first weights."""
        task = Forecast(asked.horizon, asked.loss)
        which = parts.train + parts.validation + parts.test
        source = Source(
            panel, parts.scaler, which, asked.lookback, asked.horizon, device=device, calendar=asked.calendar
        )
        counts = [len(parts.train), len(parts.validation), len(parts.test)]
        learned, selected, tested = torch.split(torch.arange(len(which)), counts)
        batch = _UNTRAINED_BATCH if asked.training is None else asked.training.batch
        selected = selected[: asked.protocol.windows(len(selected), batch, "validation", asked.model)]
        tested = tested[: asked.protocol.windows(len(tested), batch, "test", asked.model)]
        network = built(asked, source.channels, source.mark_count).to(device)
        return _Trial(asked, network, task, source, parts, learned, selected, tested)

    def fit(self, checkpoint: Path | None, resume: bool, progress: train.Progress | None) -> _Fitted:
        """Train to the best epoch on validation, or measure there what has nothing to train."""
        settings = self.asked.training
        if settings is None:
            self.network.eval()
            loss = train.evaluate(self.network, self.task, self.source, self.selected, batch=self.batch)
            return _Fitted(None, loss, 0.0)
        self.network.prepare(self.source.pasts(self.learned[:: max(1, len(self.learned) // _PREPARING_WINDOWS)]).past)
        started = time.perf_counter()
        history = train.fit(
            self.network,
            self.task,
            self.source,
            self.learned,
            self.selected,
            settings,
            checkpoint=checkpoint,
            resume=resume and checkpoint is not None,
            progress=progress,
        )
        if history.ended == "interrupted" or history.best_epoch is None:
            # Training ends well on Ctrl-C, but a row of a run cut short would pass for a whole one.
            raise KeyboardInterrupt
        best = history.epochs[history.best_epoch - 1].validation_loss
        assert best is not None
        return _Fitted(history, best, max(0.0, history.seconds - (time.perf_counter() - started)))

    def test(self, fitted: _Fitted) -> dict[str, Any]:
        """The columns that the one pass over the test windows fills, and what the network costs to use."""
        precision = "float32" if self.asked.training is None else self.asked.training.precision
        std = self.parts.scaler.std[0, : self.source.targets]
        self.network.remark()  # on validation windows: of no interest here
        found = measure.errors(
            self.network, self.task, self.source, self.tested, std, batch=self.batch, precision=precision
        )
        return {
            **asdict(found),
            "problem": self.network.remark(),
            "validation_loss": fitted.validation_loss,
            "latency_ms": measure.latency(self.network, self.source, precision),
            "parameters": sum(weight.numel() for weight in self.network.parameters() if weight.requires_grad),
        }

    @property
    def batch(self) -> int:
        """Windows at once where nothing is learned."""
        settings = self.asked.training
        return _UNTRAINED_BATCH if settings is None else settings.validation_batch or 4 * settings.batch


def built(asked: Asked, channels: int, marks: int) -> Model:
    """The network of a run with its first weights, for windows of so many channels with so many calendar features."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(asked.seed)
        return models.create(
            asked.model,
            channels=channels,
            lookback=asked.lookback,
            steps=asked.horizon,
            attention=asked.attention,
            marks=marks,
            future=asked.horizon if marks and models.claims(asked.model).reads_ahead else 0,
            **{**asked.settings, **({"adapters": asked.adapters} if asked.adapters else {})},
        )


def _read(asked: Asked, data_dir: Path | str | None) -> Panel:
    panel = catalogue.load(asked.dataset, data_dir)
    check_targets(panel)
    for finding in panel.findings:
        if finding.kind == "warning":
            warnings.warn(finding.message, RearviewWarning, stacklevel=3)
    return panel


def _facts(trial: _Trial, data_dir: Path | str | None, panel: Panel, device: torch.device) -> dict[str, Any]:
    """The columns on data, library and device."""
    file = catalogue.find(trial.asked.dataset, data_dir)
    return {
        "file_sha256": "" if file is None else catalogue.checksum(file),
        "rows": panel.values.shape[0],
        "channels": panel.values.shape[1],
        "borders": as_json(asdict(trial.parts.borders)),
        "train_windows": len(trial.learned),
        "validation_windows": len(trial.selected),
        "test_windows": len(trial.tested),
        "version": __version__,
        "device": provenance.device_words(device),
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
    }


def _path(path: Path | str | None) -> Path | None:
    return None if path is None else Path(path)
