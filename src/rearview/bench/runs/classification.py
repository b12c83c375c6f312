"""Classification runs: a network trained on one set of the UEA and UCR archives under one protocol.

Both protocols train the same network in the same way (TOA's settings, in the Time-Series-Library); they differ in what
the network is shown and in what picks its weights, as `rearview.bench.protocols` explains.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch

from rearview import models, train
from rearview.attention import Spec
from rearview.bench import protocols, tasks
from rearview.bench.rows.row import ClassificationRow, Facts
from rearview.bench.runs import measurement, run_spec
from rearview.bench.runs.request import Request
from rearview.bench.runs.run_spec import Execution, RunSpec
from rearview.bench.runs.runner import make_one
from rearview.core.errors import SettingsError
from rearview.core.settings import settings_from
from rearview.data.cases.case_set import Cases, Labels
from rearview.data.cases.padding import CaseTensors, ChannelScaler, pad_cases
from rearview.data.datasets import archives, catalogue
from rearview.data.io import ts
from rearview.estimators.base import Session, train_network
from rearview.estimators.classify import fit as fitting
from rearview.estimators.classify.spec import ClassifySpec
from rearview.tasks.confusion import Confusion
from rearview.tasks.objectives import Classify

CLEAN = "clean"
TSLIB = "published:tslib"
SETTINGS: Facts = {"width": 128, "heads": 8, "depth": 3, "feed_forward": 256, "dropout": 0.1}
TRAINING: Facts = {
    "optimiser": "radam",
    "learning_rate": 1e-3,
    "batch": 16,
    "epochs": 100,
    "patience": 10,
    "clip": 4.0,
}


def classify(
    dataset: str,
    model: str = "patchtst_tslib",
    *,
    attention: Spec = None,
    seed: int = 0,
    protocol: str = CLEAN,
    data_dir: Path | str | None = None,
    settings: Facts | None = None,
    training: Facts | None = None,
    device: str = "auto",
    results: Path | str | None = None,
    progress: train.Progress | None = None,
    resume: bool = False,
) -> ClassificationRow:
    """Train a network on an archive set, test it as the protocol says, and return the row, which `results` keeps.

    `settings` of the network and of the `training` go on top of TOA's. With `resume` a run that `results` holds already
    is not made again. Ctrl-C leaves no row.
    """
    request = Request(
        dataset,
        model,
        attention,
        task=protocols.CLASSIFICATION,
        protocol=protocol,
        seed=seed,
        settings=settings or {},
        training=training or {},
    )
    place = None if results is None else Path(results)
    return make_one(request, Execution(data_dir, device, place, resume=resume, progress=progress), ClassificationRow)


def resolve(request: Request) -> RunSpec:
    """TOA's settings with the caller's on top."""
    model, known = request.model, tasks.CLASSIFICATION.protocols
    if request.protocol not in known:
        raise SettingsError(f"There is no protocol {request.protocol!r} for classification; known: {', '.join(known)}.")
    kind = models.settings_of(model)
    given = {name: value for name, value in SETTINGS.items() if name in kind.__dataclass_fields__}
    settings = settings_from(kind, model, {**given, **request.settings})
    training = {**TRAINING, "ties_improve": request.protocol == TSLIB, **request.training, "seed": request.seed}
    return RunSpec(
        task=protocols.CLASSIFICATION,
        dataset=request.dataset,
        protocol=protocols.get(request.protocol),
        model=model,
        attention=models.attention_of(model, settings, request.attention),
        settings=asdict(settings),
        training=settings_from(train.Settings, "training", training),
        seed=request.seed,
    )


def check(spec: RunSpec, data_dir: Path | str | None) -> None:
    """Refuse a run that could not be made, in the sentence that its failed row would state, before it begins.

    The training cases are read for their channels, steps and classes.
    """
    path = archives.find(spec.dataset, data_dir).train
    channels, steps, classes = _count_cases(path, path.stat().st_mtime_ns)
    shape = {"channels": channels, "lookback": steps, "classes": classes}
    run_spec.try_build(spec.model, partial(spec.build, "cpu", asks="classes", **shape))


@lru_cache(maxsize=64)
def _count_cases(path: Path, _: int) -> tuple[int, int, int]:
    """Channels, most steps and classes of the cases of a file, as it was at a time."""
    cases = ts.read(path)
    return cases.channels, int(cases.lengths.max()), len(fitting.code_classes(cases)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Data(run_spec.Data):
    """The files of a set; their cases are read by `fit`, as a run whose row is there needs the checksums alone."""

    files: archives.ArchiveFiles


def read(spec: RunSpec, data_dir: Path | str | None) -> Data:
    """Find the files of a set and take their checksums."""
    files = archives.find(spec.dataset, data_dir)
    checksums = {"train_sha256": catalogue.checksum(files.train), "test_sha256": catalogue.checksum(files.test)}
    return Data(files=files, columns={"dataset": files.name, **checksums})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit(run_spec.Fit[RunSpec]):
    """A trained network and its answers to the test cases."""

    truth: Labels
    answers: Labels
    classes: Labels
    channels: int
    lookback: int
    cases: Mapping[str, int]
    """By part: how many."""


def fit(spec: RunSpec, data: Data, device: torch.device, session: Session) -> Fit:
    """Train a network and let it answer the test cases."""
    learned, tested = ts.read(data.files.train), ts.read(data.files.test)
    return (_fit_clean if spec.protocol.name == CLEAN else _fit_tslib)(spec, learned, tested, str(device), session)


def measure(fit: Fit, data: Data) -> Facts:
    """The columns that training and testing fill."""
    assert fit.history is not None
    confusion = Confusion.of(fit.truth, fit.answers, fit.classes)
    return {
        "lookback": fit.lookback,
        "channels": fit.channels,
        "classes": len(fit.classes),
        "train_cases": fit.cases["train"],
        "validation_cases": fit.cases["validation"],
        "test_cases": len(fit.truth),
        "accuracy": confusion.accuracy,
        "macro_f1": confusion.macro_f1,
        "validation_criterion": measurement.best_epoch(fit.history).validation_loss,
        "latency_ms": measurement.latency_of_zeros(fit.network),
    }


def _fit_clean(spec: RunSpec, learned: Cases, tested: Cases, device: str, session: Session) -> Fit:
    assert spec.training is not None
    estimator = ClassifySpec(
        model=spec.model,
        attention=spec.attention,
        settings=spec.settings,
        training={key: value for key, value in spec.training.to_dict().items() if key != "seed"},
        seed=spec.seed,
        device=device,
    )
    fitted = fitting.fit(learned, estimator, session)
    measurement.best_epoch(fitted.history)
    answers = fitted.classes[fitting.predict(fitted, tested).probabilities.argmax(1)]
    assert tested.labels is not None
    return Fit(
        spec=spec, network=fitted.network, history=fitted.history, truth=tested.labels, answers=answers,
        classes=fitted.classes, channels=learned.channels, lookback=fitted.lookback, cases=fitted.cases,
    )  # fmt: skip


def _fit_tslib(spec: RunSpec, learned: Cases, tested: Cases, device: str, session: Session) -> Fit:
    assert spec.training is not None
    classes, codes = fitting.code_classes(learned)
    _, truth = fitting.code_classes(tested)
    length = int(max(learned.lengths.max(), tested.lengths.max()))
    parts = [
        pad_cases(cases, ChannelScaler.fit(cases), numbers, length, side="end", masked=False, device=device)
        for cases, numbers in ((learned, codes), (tested, truth))
    ]
    both = CaseTensors(torch.cat([part.values for part in parts]), None, torch.cat([part.labels for part in parts]))
    network = spec.build(
        both.values.device,
        channels=both.values.shape[1],
        lookback=both.values.shape[2],
        asks="classes",
        classes=len(classes),
    )
    order = torch.arange(len(both))
    first, rest = order[: len(learned)], order[len(learned) :]
    history = train_network(network, Classify(tie_break=0.0), both, first, rest, spec.training, session)
    assert history is not None
    measurement.best_epoch(history)
    answers = fitting.logits(network, parts[1]).argmax(-1).numpy()
    cases = {"train": len(learned), "validation": len(tested)}
    return Fit(
        spec=spec, network=network, history=history, truth=truth, answers=answers, classes=np.arange(len(classes)),
        channels=learned.channels, lookback=length, cases=cases,
    )  # fmt: skip
