"""Detection runs: a network trained on one labelled set under one protocol and judged once on the test rows.

How the protocols `clean`, `published:tslib` and `published:tsb-ad` proceed is explained by `rearview.bench.protocols`.

Without settings from the caller, network and training are those of TOA's detection runs: 3 layers, 8 heads, width 128,
Adam at 1e-4, batches of 128, patience 3, and the epochs of the field's scripts.
"""

import hashlib
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rearview import models, train
from rearview.attention import Spec
from rearview.bench import protocols, tasks
from rearview.bench.rows.row import DetectionRow, Facts
from rearview.bench.runs import measurement, provenance, run_spec
from rearview.bench.runs.request import Request
from rearview.bench.runs.run_spec import DetectionSpec, Execution
from rearview.bench.runs.runner import make_one
from rearview.core.errors import RearviewWarning, SettingsError
from rearview.core.settings import settings_from
from rearview.data.datasets import detection_sets, tsb_ad
from rearview.data.datasets.labelled_arrays import LabelledArrays
from rearview.data.scale import Scaler
from rearview.estimators.base import Session, train_network
from rearview.estimators.detect import detection as detecting
from rearview.estimators.detect import fit as fitting
from rearview.estimators.detect import tslib
from rearview.estimators.detect.scoring import source_of
from rearview.estimators.detect.spec import DetectSpec, Mode
from rearview.tasks import rankings
from rearview.tasks.assessment import assess
from rearview.tasks.objectives import Detect
from rearview.tasks.thresholds import Rule

TSB_AD = "published:tsb-ad"
SIZES: Facts = {"width": 128, "heads": 8, "depth": 3, "feed_forward": 128, "dropout": 0.1}
TRAINING: Facts = {
    "optimiser": "adam",
    "learning_rate": 1e-4,
    "batch": 128,
    "patience": 3,
    "schedule": "type1",
}
_QUICK_BATCH = 1024
_MOST_WINDOWS = 102_400
"""Windows an epoch visits at most under the clean protocol, drawn anew each time: neighbouring windows are alike."""
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
    threshold: Rule | float = "quantile",
    balance: bool = True,
    seed: int = 0,
    settings: Facts | None = None,
    training: Facts | None = None,
    device: str = "auto",
    data_dir: Path | str | None = None,
    results: Path | str | None = None,
    resume: bool = True,
    progress: train.Progress | None = None,
) -> DetectionRow:
    """Train a network on a labelled set, judge it once on the test rows, and return the row, which `results` keeps.

    With `resume` a run that `results` holds already is not made again: its row is returned. Ctrl-C leaves no row.
    """
    request = Request(
        dataset,
        model,
        attention,
        lookback,
        task=protocols.DETECTION,
        protocol=protocol,
        seed=seed,
        settings=settings or {},
        training=training or {},
        mode=mode,
        stride=stride,
        threshold=threshold,
        balance=balance,
    )
    place = None if results is None else Path(results)
    return make_one(request, Execution(data_dir, device, place, resume=resume, progress=progress), DetectionRow)


def resolve(request: Request) -> DetectionSpec:
    """TOA's settings with the caller's on top."""
    model, protocol, known = request.model, request.protocol, tasks.DETECTION.protocols
    if protocol not in known:
        raise SettingsError(f"There is no detection protocol {protocol!r}; known: {', '.join(known)}.")
    clean = protocol in ("clean", TSB_AD)
    given = request.detection
    own = given.get("mode", "reconstruct"), given.get("threshold", "quantile"), request.stride
    if not clean and own != ("reconstruct", "quantile", None):
        raise SettingsError(f"{protocol} gives windows back and has its own threshold and step; leave them out.")
    dataset = detection_sets.get(request.dataset)
    defaults = {field.name: field.default for field in fields(models.settings_of(model))}
    sizes = {name: value for name, value in SIZES.items() if name in defaults}
    if "normalise" in defaults:
        sizes["normalise"] = defaults["normalise"]  # as published, whatever detection would choose by itself
    # What an estimator would choose by the device has to stand in the row, and be the same on every device.
    capped = {"windows_per_epoch": _MOST_WINDOWS if dataset.train_rows > _MOST_WINDOWS else None, "clip": _CLIP}
    training = {**TRAINING, "epochs": dataset.epochs, **(capped if clean else {}), **request.training}
    estimator = DetectSpec(
        model=model,
        attention=request.attention,
        seed=request.seed,
        settings={**sizes, **request.settings},
        training=training if models.claims(model).trains else {},
        device="cpu",
        **dict[str, Any](given),
    )
    settings = settings_from(models.settings_of(model), model, estimator.settings)
    published_rule = f"percentile {100 - dataset.ratio:g} of train and test"
    return DetectionSpec(
        task=protocols.DETECTION,
        dataset=dataset.name,
        data=dataset,
        protocol=protocols.get(protocol),
        model=model,
        attention=models.attention_of(model, settings, request.attention),
        settings=asdict(settings),
        training=None,
        seed=request.seed,
        estimator=estimator,
        stride=estimator.step if clean else dataset.step,
        threshold_rule=str(estimator.threshold) if clean else published_rule,
        balance=clean and estimator.balance,
    )


def check(spec: DetectionSpec, _: Path | str | None = None) -> None:
    """Refuse a run that could not be made, in the sentence that its failed row would state, before it begins.

    No data is read for it: a set has the channels that the catalogue says, or is refused when it is read.
    """
    settings_from(train.Settings, "training", spec.estimator.training)
    output: Facts = {"asks": "window"} if spec.estimator.mode == "reconstruct" else {"steps": 1}
    shape: Facts = {"channels": spec.data.channels, "lookback": spec.estimator.lookback, **output}
    run_spec.try_build(spec.model, partial(spec.build, "cpu", **dict[str, Any](shape)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Data(run_spec.Data):
    """A labelled set and its checksum."""

    arrays: LabelledArrays


@lru_cache(maxsize=1)
def _load(dataset: detection_sets.LabelledSet, data_dir: Path | str | None) -> Data:
    arrays = detection_sets.load(dataset, data_dir)
    for finding in arrays.train.findings:
        if finding.kind == "warning":
            warnings.warn(finding.message, RearviewWarning, stacklevel=5)
    digest = hashlib.sha256(arrays.labels.tobytes())
    for panel in (arrays.train, arrays.test):
        digest.update(provenance.values_checksum(panel).encode())
    return Data(arrays=arrays, columns={"values_sha256": digest.hexdigest()})


def read(spec: DetectionSpec, data_dir: Path | str | None) -> Data:
    """Read a labelled set; the runs of a sweep, one after another on one set, read it once."""
    data = _load(spec.data, data_dir)
    return replace(data, arrays=tsb_ad.cut(data.arrays)) if spec.protocol.name == TSB_AD else data


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit(run_spec.Fit[DetectionSpec]):
    """A trained network, and what scores the test rows with it."""

    judge: Callable[[], Facts]
    """The columns that the test rows fill."""


def fit(spec: DetectionSpec, data: Data, device: torch.device, session: Session) -> Fit:
    """Train a network on the training rows."""
    spec = replace(spec, estimator=replace(spec.estimator, device=str(device)))
    make_fit = _fit_clean if spec.protocol.name in ("clean", TSB_AD) else _fit_published
    return make_fit(spec, data.arrays, session)


def measure(fit: Fit, data: Data) -> Facts:
    """Score and judge the test rows."""
    judged, arrays, history = fit.judge(), data.arrays, fit.history
    best = None if history is None or history.best_epoch is None else history.epochs[history.best_epoch - 1]
    return {
        **judged,
        "entities": arrays.test.series,
        "train_rows": len(arrays.train.values),
        "test_rows": len(arrays.test.values),
        "channels": len(arrays.test.columns),
        "validation_loss": None if best is None else best.validation_loss,
        "latency_ms": measurement.latency_of_zeros(fit.network),
    }


def _fit_clean(spec: DetectionSpec, arrays: LabelledArrays, session: Session) -> Fit:
    # Rows compare networks by their errors on every channel; a rule for some of them would make it another measure.
    fitted = fitting.fit(arrays.train, spec.estimator, session, hold_constants=False)
    if fitted.interrupted:
        raise KeyboardInterrupt

    def judge() -> Facts:
        started = time.perf_counter()
        detection = detecting.detect(fitted, arrays.test)
        seconds = time.perf_counter() - started
        slack, offsets = spec.estimator.lookback, arrays.test.offsets
        judged = asdict(
            assess(arrays.labels == 1, detection.scores.rows, detection.flags, slack=slack, offsets=offsets)
        )
        for counted in ("events", "false_alarms"):
            del judged[counted]
        if spec.protocol.name == TSB_AD:
            judged |= _means_over_files(arrays, detection.scores.rows)
        measured = {
            name: None if isinstance(value, float) and math.isnan(value) else value for name, value in judged.items()
        }
        return {**measured, "threshold": fitted.calibration.threshold_elsewhere, "score_seconds": seconds}

    return Fit(spec=spec, network=fitted.network, history=fitted.history, judge=judge)


def _means_over_files(arrays: LabelledArrays, scores: NDArray[np.float64]) -> dict[str, float]:
    """The measures of scores [row] that TSB-AD has, each file by itself; one without an anomaly does not count."""
    each = []
    for series, (a, b) in enumerate(arrays.test.bounds()):
        truth, rows = arrays.labels[a:b] == 1, scores[a:b]
        if truth.any():
            reach = tsb_ad.find_period(arrays.test.original_column(slice(a, b), series, 0))
            each.append(
                (rankings.vus_pr(truth, rows, reach), rankings.auc_pr(truth, rows), rankings.auc_roc(truth, rows))
            )
    means = np.mean(each, axis=0).tolist() if each else [math.nan] * 3
    return dict(zip(("vus_pr", "auc_pr", "auc_roc"), means, strict=True))


def _fit_published(spec: DetectionSpec, arrays: LabelledArrays, session: Session) -> Fit:
    request, step = spec.estimator, spec.data.step
    learned, tested = tslib.join_series(arrays.train), tslib.join_series(arrays.test)
    scaler = Scaler.fit(learned)
    size, device, rows = request.lookback, request.device, len(learned.values)
    windows = tslib.stride_windows(rows, size, step)
    stopping = tslib.stride_windows(rows, size, step, tslib.validation_begin(rows))
    source = source_of(learned, scaler, windows + stopping, size, "reconstruct", device)
    network = spec.build(device, channels=source.channels, lookback=size, asks="window")
    order = torch.arange(len(windows) + len(stopping))
    first, rest = order[: len(windows)], order[len(windows) :]
    training = settings_from(train.Settings, "Training", {**request.training, "seed": request.seed})
    history = train_network(network, Detect(), source, first, rest, training, session)
    assert history is not None
    if history.ended == "interrupted":
        raise KeyboardInterrupt

    def judge() -> Facts:
        started = time.perf_counter()
        fitted = source_of(learned, scaler, windows, size, "reconstruct", device)
        which = tslib.stride_windows(len(tested.values), size, step)
        shifted = Scaler(scaler.mean + learned.centre - tested.centre, scaler.std)
        new = source_of(tested, shifted, which, size, "reconstruct", device)
        old_errors, new_errors = (tslib.energies(network, part, _QUICK_BATCH) for part in (fitted, new))
        seconds = time.perf_counter() - started
        judged = tslib.judge(old_errors, new_errors, tslib.window_labels(arrays.labels, which, size), spec.data.ratio)
        return {
            **{name: getattr(judged, name) for name in ("rows", "anomalous", "flagged", "threshold")},
            **asdict(judged.raw),
            **{f"adjusted_{name}": value for name, value in asdict(judged.adjusted).items()},
            "adjusted_f1_by_chance": judged.by_chance,
            "score_seconds": seconds,
        }

    return Fit(spec=spec, network=network, history=history, judge=judge)
