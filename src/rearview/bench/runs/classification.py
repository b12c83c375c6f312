"""Classification benchmarks: a network trained on one archive set under one protocol, kept as one row.

Both protocols train the same network in the same way (TOA's settings, in the Time-Series-Library); they differ in what
the network is shown and in what picks its weights, as `rearview.bench.protocols` tells.
"""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rearview import __version__, models, train
from rearview.attention import Spec
from rearview.bench import protocols
from rearview.bench.rows import result_file as files
from rearview.bench.rows.classification_row import ClassificationRow
from rearview.bench.rows.identity import same
from rearview.bench.rows.row import as_json
from rearview.bench.runs import measure, provenance
from rearview.bench.runs.run_spec import mechanism
from rearview.core.errors import SettingsError
from rearview.core.settings import settings_from
from rearview.data.cases.case_set import Cases, Labels
from rearview.data.cases.padding import CaseTensors, ChannelScaler, pad_cases
from rearview.data.datasets import archives, catalogue
from rearview.data.io import ts
from rearview.estimators.base import PREPARING, Session, create_network, resolve_device
from rearview.estimators.classify import fit as fitting
from rearview.estimators.classify.spec import ClassifySpec
from rearview.models.contract import Model
from rearview.tasks.classify import Classify
from rearview.tasks.confusion import Confusion

CLEAN = "clean"
TSLIB = "published:tslib"
PROTOCOLS = (CLEAN, TSLIB)
SETTINGS: Mapping[str, Any] = {"width": 128, "heads": 8, "depth": 3, "feed_forward": 256, "dropout": 0.1}
TRAINING: Mapping[str, Any] = {
    "optimiser": "radam",
    "learning_rate": 1e-3,
    "batch": 16,
    "epochs": 100,
    "patience": 10,
    "clip": 4.0,
}
_BESIDE_THE_POINT = ("checkpoint_every", "seed")


def classify(
    dataset: str,
    model: str = "patchtst_tslib",
    *,
    attention: Spec = None,
    seed: int = 0,
    protocol: str = CLEAN,
    data_dir: Path | str | None = None,
    settings: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    device: str = "auto",
    results: Path | str | None = None,
    progress: train.Progress | None = None,
    resume: bool = False,
) -> ClassificationRow:
    """Train a network on an archive set, test it as the protocol says, and return the row, which `results` keeps.

    `settings` of the network and of the `training` go on top of TOA's. With `resume` a run that `results` holds already
    is not made again. Ctrl-C leaves no row.
    """
    started = time.perf_counter()
    code = provenance.commit()
    if protocol not in PROTOCOLS:
        raise SettingsError(f"There is no protocol {protocol!r} for classification; known: {', '.join(PROTOCOLS)}.")
    place = None if results is None else Path(results)
    kept = [] if place is None else files.kept(place, ClassificationRow)
    pair = archives.find(dataset, data_dir)
    asked = _ask(model, attention, seed, protocol, settings, training, resolve_device(device))
    configuration = {
        "dataset": pair.name,
        "train_sha256": catalogue.checksum(pair.train),
        "test_sha256": catalogue.checksum(pair.test),
        **asked.configuration(),
    }
    if resume and (made := same(kept, configuration)):
        return made[-1]
    memory = measure.PeakMemory(torch.device(asked.device))
    learned, tested = ts.read(pair.train), ts.read(pair.test)
    trial = (_clean if protocol == CLEAN else _as_tslib)(learned, tested, asked, progress)
    row = ClassificationRow(
        **configuration,
        habits=protocols.get(protocol).told(protocols.CLASSIFICATION),
        channels=learned.channels,
        version=__version__,
        commit=code,
        device=provenance.device_words(torch.device(asked.device)),
        torch=str(torch.__version__),
        threads=torch.get_num_threads(),
        **trial.facts(tested),
        peak_memory_bytes=memory.read(),
        total_seconds=time.perf_counter() - started,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    if place is not None:
        return files.append(place, row, unless=(lambda rows: same(rows, configuration)) if resume else None)
    return row


def settled(
    dataset: str,
    model: str,
    attention: Spec,
    seed: int,
    protocol: str,
    settings: Mapping[str, Any] | None,
    training: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """What a run asks for, its data unread: the set as it was named, without checksums."""
    asked = _ask(model, attention, seed, protocol, settings, training, device="cpu")
    return {"dataset": dataset, "train_sha256": "", "test_sha256": "", **asked.configuration()}


@dataclass(frozen=True, slots=True)
class _Asked:
    model: str
    attention: Spec
    settings: Mapping[str, Any]
    training: train.Settings
    seed: int
    protocol: str
    device: str

    def configuration(self) -> dict[str, Any]:
        name, settings = ("", {}) if self.attention is None else mechanism(self.attention)
        training = {key: value for key, value in self.training.to_dict().items() if key not in _BESIDE_THE_POINT}
        return {
            "protocol": self.protocol,
            "model": self.model,
            "attention": name,
            "attention_settings": as_json(settings),
            "settings": as_json(self.settings),
            "training": as_json(training),
            "seed": self.seed,
        }


def _ask(
    model: str,
    attention: Spec,
    seed: int,
    protocol: str,
    settings: Mapping[str, Any] | None,
    training: Mapping[str, Any] | None,
    device: str,
) -> _Asked:
    known = models.settings_of(model)
    given = {name: value for name, value in SETTINGS.items() if name in known.__dataclass_fields__}
    chosen = settings_from(known, model, {**given, **(settings or {})})
    trained = {**TRAINING, "ties_improve": protocol == TSLIB, **(training or {}), "seed": seed}
    return _Asked(
        model=model,
        attention=models.attention_of(model, chosen, attention),
        settings=asdict(chosen),
        training=settings_from(train.Settings, "training", trained),
        seed=seed,
        protocol=protocol,
        device=device,
    )


@dataclass(frozen=True, slots=True)
class _Trial:
    """A trained network and its answers to the test cases."""

    network: Model
    history: train.History
    truth: Labels
    said: Labels
    classes: Labels
    lookback: int
    cases: Mapping[str, int]

    def facts(self, tested: Cases) -> dict[str, Any]:
        """The columns that training and testing fill."""
        if self.history.ended == "interrupted" or self.history.best_epoch is None:
            # Training ends well on Ctrl-C, but a row of a run cut short would pass for a whole one.
            raise KeyboardInterrupt
        found = Confusion.of(self.truth, self.said, self.classes)
        return {
            "lookback": self.lookback,
            "classes": len(self.classes),
            "train_cases": self.cases["train"],
            "validation_cases": self.cases["validation"],
            "test_cases": len(tested),
            "parameters": sum(weight.numel() for weight in self.network.parameters() if weight.requires_grad),
            "accuracy": found.accuracy,
            "macro_f1": found.macro_f1,
            "validation_criterion": self.history.epochs[self.history.best_epoch - 1].validation_loss,
            "latency_ms": measure.latency_of_zeros(self.network),
            **measure.training_facts(self.history),
        }


def _clean(learned: Cases, tested: Cases, asked: _Asked, progress: train.Progress | None) -> _Trial:
    training = {key: value for key, value in asked.training.to_dict().items() if key != "seed"}
    spec = ClassifySpec(
        model=asked.model,
        attention=asked.attention,
        settings=asked.settings,
        training=training,
        seed=asked.seed,
        device=asked.device,
    )
    fitted = fitting.fit(learned, spec, Session(progress=progress))
    said = fitted.classes[fitting.predict(fitted, tested).probabilities.argmax(1)]
    assert tested.labels is not None
    return _Trial(fitted.network, fitted.history, tested.labels, said, fitted.classes, fitted.lookback, fitted.cases)


def _as_tslib(learned: Cases, tested: Cases, asked: _Asked, progress: train.Progress | None) -> _Trial:
    classes, codes = fitting.code_classes(learned)
    _, truth = fitting.code_classes(tested)
    length = int(max(learned.lengths.max(), tested.lengths.max()))
    parts = [
        pad_cases(cases, ChannelScaler.fit(cases), numbers, length, side="end", masked=False, device=asked.device)
        for cases, numbers in ((learned, codes), (tested, truth))
    ]
    both = CaseTensors(torch.cat([part.values for part in parts]), None, torch.cat([part.labels for part in parts]))
    network = create_network(
        asked.model,
        seed=asked.seed,
        device=both.values.device,
        attention=asked.attention,
        settings=asked.settings,
        channels=both.values.shape[1],
        lookback=both.values.shape[2],
        asks="classes",
        classes=len(classes),
    )
    order = torch.arange(len(both))
    network.prepare(both.batch(order[: len(learned) : max(1, len(learned) // PREPARING)]).past)
    history = train.fit(
        network,
        Classify(tie_break=0.0),
        both,
        order[: len(learned)],
        order[len(learned) :],
        asked.training,
        progress=progress or train.Silent(),
    )
    said = fitting.logits(network, parts[1]).argmax(-1).numpy()
    cases = {"train": len(learned), "validation": len(tested)}
    return _Trial(network, history, truth, said, np.arange(len(classes)), length, cases)
