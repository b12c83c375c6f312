"""Detection benchmarks: one network on one labelled set under one protocol, kept as one self-contained row.

How the protocols `clean` and `published:tslib` go about it is told by `rearview.bench.protocols`.

Without settings of the caller's, network and training are those of TOA's detection runs: 3 layers, 8 heads, width 128,
Adam at 1e-4, batches of 128, patience 3, and the epochs of the field's scripts.
"""

import hashlib
import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from rearview import __version__, models, train
from rearview import attention as mechanisms
from rearview.attention import Spec
from rearview.bench import protocols
from rearview.bench.rows import result_file as files
from rearview.bench.rows.detection_row import DetectionRow
from rearview.bench.rows.identity import same
from rearview.bench.rows.row import as_json
from rearview.bench.runs import measure, provenance
from rearview.core.errors import RearviewWarning, SettingsError
from rearview.core.settings import settings_from
from rearview.data.datasets import detection_sets
from rearview.data.datasets.detection_sets import LabelledSet
from rearview.data.datasets.labelled_arrays import LabelledArrays
from rearview.data.scale import Scaler
from rearview.estimators.base import Session, create_network, resolve_device
from rearview.estimators.detect import fit as fitting
from rearview.estimators.detect import tslib
from rearview.estimators.detect.scoring import source_of
from rearview.estimators.detect.spec import DetectSpec, Mode
from rearview.models.contract import Model
from rearview.tasks.assess import Assessment, assess
from rearview.tasks.detect import Detect

PROTOCOLS = ("clean", "published:tslib")
SIZES: Mapping[str, Any] = {"width": 128, "heads": 8, "depth": 3, "feed_forward": 128, "dropout": 0.1}
TRAINING: Mapping[str, Any] = {
    "optimiser": "adam",
    "learning_rate": 1e-4,
    "batch": 128,
    "patience": 3,
    "schedule": "type1",
}
_QUICK_BATCH = 1024
_MOST_WINDOWS = 102_400
"""What an epoch visits at most under the clean protocol, drawn anew each time: neighbouring windows are alike."""
_CLIP = 1.0
"""Largest norm of gradients under the clean protocol."""


def detect(
    dataset: str,
    model: str,
    *,
    attention: Spec = None,
    protocol: str = "clean",
    mode: Mode = "reconstruct",
    lookback: int = 100,
    stride: int | None = None,
    threshold: Any = "quantile",
    balance: bool = True,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    device: str = "auto",
    data_dir: Path | str | None = None,
    results: Path | str | None = None,
    resume: bool = True,
    progress: train.Progress | None = None,
) -> DetectionRow:
    """Train a network on a labelled set, judge it once on the test rows, and return the row, which `results` keeps.

    With `resume` a run that `results` holds already is not made again: its row is returned. Ctrl-C leaves no row.
    """
    started = time.perf_counter()
    if protocol not in PROTOCOLS:
        raise SettingsError(f"There is no detection protocol {protocol!r}; known: {', '.join(PROTOCOLS)}.")
    if protocol != "clean" and (mode != "reconstruct" or threshold != "quantile" or stride is not None):
        raise SettingsError(f"{protocol} gives windows back and has its own threshold and step; leave them out.")
    place = None if results is None else Path(results)
    kept = [] if place is None else files.kept(place, DetectionRow)
    found = detection_sets.get(dataset)
    request = _request(
        found, protocol, model, attention, mode, lookback, stride, threshold, balance, seed, settings, training, device
    )
    triple = _read(found.name, None if data_dir is None else str(data_dir))
    configuration = _configuration(found, request, protocol, _checksum(triple))
    if resume and (made := same(kept, configuration)):
        return made[-1]
    chip = torch.device(resolve_device(device))
    memory = measure.PeakMemory(chip)
    run = _clean if protocol == "clean" else _published
    row = DetectionRow(
        **configuration,
        entities=triple.test.series,
        train_rows=len(triple.train.values),
        test_rows=len(triple.test.values),
        channels=len(triple.test.columns),
        version=__version__,
        commit=provenance.commit(),
        device=provenance.device_words(chip),
        torch=str(torch.__version__),
        threads=torch.get_num_threads(),
        habits=protocols.get(protocol).told(protocols.DETECTION),
        **run(triple, request, found, progress or train.Silent()),
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
    protocol: str,
    mode: Mode,
    lookback: int,
    stride: int | None,
    threshold: Any,
    balance: bool,
    seed: int,
    settings: Mapping[str, Any] | None,
    training: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """What a run asks for, its data unread: without their checksum."""
    found = detection_sets.get(dataset)
    request = _request(
        found, protocol, model, attention, mode, lookback, stride, threshold, balance, seed, settings, training, "cpu"
    )
    return _configuration(found, request, protocol, "")


@lru_cache(maxsize=1)
def _read(name: str, data_dir: str | None) -> LabelledArrays:
    """A set as it stands on disk; the runs of a sweep, one after another on one set, read it once."""
    triple = detection_sets.load(detection_sets.get(name), data_dir)
    for finding in triple.train.findings:
        if finding.kind == "warning":
            warnings.warn(finding.message, RearviewWarning, stacklevel=3)
    return triple


def _checksum(triple: LabelledArrays) -> str:
    digest = hashlib.sha256(triple.labels.tobytes())
    for panel in (triple.train, triple.test):
        digest.update(provenance.values_checksum(panel).encode())
    return digest.hexdigest()


def _request(
    found: LabelledSet,
    protocol: str,
    model: str,
    attention: Spec,
    mode: Mode,
    lookback: int,
    stride: int | None,
    threshold: Any,
    balance: bool,
    seed: int,
    settings: Mapping[str, Any] | None,
    training: Mapping[str, Any] | None,
    device: str,
) -> DetectSpec:
    known = {field.name: field.default for field in fields(models.settings_of(model))}
    # What an estimator would choose by the device has to stand in the row, and be the same on every device.
    capped = {"windows_per_epoch": _MOST_WINDOWS if found.train_rows > _MOST_WINDOWS else None, "clip": _CLIP}
    sizes: dict[str, Any] = {name: value for name, value in SIZES.items() if name in known}
    if "normalise" in known:
        sizes["normalise"] = known["normalise"]  # as published, whatever detection would choose by itself
    learned = (
        {**TRAINING, "epochs": found.epochs, **(capped if protocol == "clean" else {}), **(training or {})}
        if models.claims(model).trains
        else {}
    )
    return DetectSpec(
        lookback=lookback,
        model=model,
        attention=attention,
        mode=mode,
        threshold=threshold,
        balance=balance,
        stride=stride,
        seed=seed,
        settings={**sizes, **(settings or {})},
        training=learned,
        device=device,
    )


def _configuration(found: LabelledSet, request: DetectSpec, protocol: str, values_sha256: str) -> dict[str, Any]:
    assert request.model is not None
    chosen = settings_from(models.settings_of(request.model), request.model, dict(request.settings))
    attention = models.attention_of(request.model, chosen, request.attention)
    name, given = ("", {}) if attention is None else mechanisms.split(attention)
    clean = protocol == "clean"
    return {
        "dataset": found.name,
        "values_sha256": values_sha256,
        "protocol": protocol,
        "mode": request.mode,
        "lookback": request.lookback,
        "stride": request.step if clean else found.step,
        "threshold_rule": str(request.threshold) if clean else f"percentile {100 - found.ratio:g} of train and test",
        "balance": int(clean and request.balance),
        "model": request.model,
        "attention": name,
        "attention_settings": as_json(given),
        "settings": as_json(asdict(chosen)),
        "training": as_json(request.training),
        "seed": request.seed,
    }


def _clean(triple: LabelledArrays, request: DetectSpec, found: LabelledSet, progress: train.Progress) -> dict[str, Any]:
    # Rows compare networks by their errors on every channel; a rule for some of them would make it another measure.
    fitted = fitting.fit(triple.train, request, Session(progress=progress), hold_constants=False)
    if fitted.interrupted:
        raise KeyboardInterrupt
    started = time.perf_counter()
    said = fitting.detect(fitted, triple.test)
    seconds = time.perf_counter() - started
    judged = assess(
        triple.labels == 1, said.scores.rows, said.flags, slack=request.lookback, offsets=triple.test.offsets
    )
    return {
        **_measures(judged),
        **_trained(fitted.network, fitted.history),
        "threshold": fitted.calibration.threshold_elsewhere,
        "score_seconds": seconds,
    }


def _measures(judged: Assessment) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in asdict(judged).items()
        if name != "events"
    }


def _published(
    triple: LabelledArrays, request: DetectSpec, found: LabelledSet, progress: train.Progress
) -> dict[str, Any]:
    learned, tested = tslib.joined(triple.train), tslib.joined(triple.test)
    scaler = Scaler.fit(learned)
    beside = Scaler(scaler.mean + learned.centre - tested.centre, scaler.std)
    size, device = request.lookback, resolve_device(request.device)
    rows = len(learned.values)
    windows = tslib.strided(rows, size, found.step)
    stopping = tslib.strided(rows, size, found.step, tslib.validation_begin(rows))
    source = source_of(learned, scaler, windows + stopping, size, "reconstruct", device)
    network = create_network(
        request.model or "",
        seed=request.seed,
        device=device,
        attention=request.attention,
        settings=request.settings,
        channels=source.channels,
        lookback=size,
        asks="window",
    )
    order = torch.arange(len(windows) + len(stopping))
    network.prepare(source.pasts(order[: len(windows)][:: max(1, len(windows) // 256)]).past)
    chosen = settings_from(train.Settings, "Training", {**request.training, "seed": request.seed})
    history = train.fit(
        network, Detect(), source, order[: len(windows)], order[len(windows) :], chosen, progress=progress
    )
    if history.ended == "interrupted":
        raise KeyboardInterrupt
    started = time.perf_counter()
    fitted = tslib.energies(network, source_of(learned, scaler, windows, size, "reconstruct", device), _QUICK_BATCH)
    which = tslib.strided(len(tested.values), size, found.step)
    said = tslib.energies(network, source_of(tested, beside, which, size, "reconstruct", device), _QUICK_BATCH)
    seconds = time.perf_counter() - started
    judged = tslib.judge(fitted, said, tslib.labels_of(triple.labels, which, size), found.ratio)
    return {
        **_trained(network, history),
        **{name: getattr(judged, name) for name in ("rows", "anomalous", "flagged", "threshold")},
        "precision": judged.raw.precision,
        "recall": judged.raw.recall,
        "f1": judged.raw.f1,
        "adjusted_precision": judged.adjusted.precision,
        "adjusted_recall": judged.adjusted.recall,
        "adjusted_f1": judged.adjusted.f1,
        "adjusted_f1_by_chance": judged.by_chance,
        "score_seconds": seconds,
    }


def _trained(network: Model, history: train.History | None) -> dict[str, Any]:
    best = None if history is None or history.best_epoch is None else history.epochs[history.best_epoch - 1]
    return {
        "parameters": sum(weight.numel() for weight in network.parameters() if weight.requires_grad),
        "validation_loss": None if best is None else best.validation_loss,
        "latency_ms": measure.latency_of_zeros(network),
        **measure.training_facts(history),
    }
