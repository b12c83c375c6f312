"""From two files of cases to a tested classifier: read, train on the one, test once on the other."""

import hashlib
import json
import platform
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rearview
from rearview import report
from rearview.commands import benchmark_sets
from rearview.commands.forecast.files import csv
from rearview.commands.forecast.page import attention_setting, curve, device_words
from rearview.commands.forecast.verdict import counted
from rearview.commands.warned import warned
from rearview.core.errors import InputError, UsageError
from rearview.core.files import write_atomically
from rearview.core.wording import listing
from rearview.data.cases.case_reader import as_cases, label_column
from rearview.data.cases.case_set import Cases, Labels
from rearview.data.io import ts
from rearview.data.panel import Finding
from rearview.estimators.base import resolve_device
from rearview.estimators.classify.classifier import Classifier, had, unknown_classes
from rearview.estimators.classify.fit import prepare
from rearview.tasks.confusion import Confusion, commonest_accuracy
from rearview.tasks.plan import Choice
from rearview.train import Progress

EXAMPLES = 2
"""Cases of each class to look at, of those told right and of those told wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A classification as the command line asks for it."""

    train: str
    test: str
    resume: bool = False
    request: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the classifier: model, attention, fill, seed ..."""
    labels: str | None = None
    """The column of long files that holds the class; None: one of the usual names."""
    reading: Mapping[str, Any] = field(default_factory=dict)
    """How long files are read: id_col, time_col."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything a finished run has to show."""

    job: Job
    train: Cases
    test: Cases
    classifier: Classifier
    probabilities: NDArray[np.float64]
    """[test case, class]."""
    notes: tuple[str, ...]
    seconds: float
    warnings: tuple[str, ...] = ()
    """What rearview warned of while the job was made."""

    @property
    def said(self) -> Labels:
        """The likeliest class of each test case."""
        return self.classifier.classes_[self.probabilities.argmax(axis=1)]

    @property
    def truth(self) -> Labels:
        assert self.test.labels is not None
        return self.test.labels

    @property
    def confusion(self) -> Confusion:
        """Classes that are numbers stand in their order: 2 before 10."""
        classes = self.classifier.classes_
        return Confusion.of(self.truth, self.said, classes[np.argsort(_values(classes), kind="stable")])

    @property
    def commonest(self) -> float:
        """The accuracy of always saying the commonest class of training."""
        assert self.train.labels is not None
        return commonest_accuracy(self.train.labels, self.truth)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.classifier.findings

    @property
    def interrupted(self) -> bool:
        return self.classifier.fitted_.interrupted

    @property
    def verdict(self) -> str:
        """How good it is, beside what needs no network."""
        found = self.confusion
        right = round(found.accuracy * len(self.test))
        sentence = (
            f"{self.classifier.model} tells {right:,} of {counted(len(self.test), 'test case')} right "
            f"({100 * found.accuracy:.1f} %); always saying the commonest training class would get "
            f"{100 * self.commonest:.1f} %."
        )
        return sentence if found.accuracy > self.commonest else f"{sentence} It has learned nothing of use."


def _values(classes: Labels) -> NDArray[np.float64]:
    """What classes are sorted by: the numbers they read as, or, where one is no number, their present order."""
    try:
        return classes.astype(np.float64)
    except ValueError:
        return np.arange(len(classes), dtype=np.float64)


@warned
def run(
    job: Job, folder: Path, *, progress: Progress | None = None, say: Callable[[str], None] = lambda _: None
) -> Outcome:
    """Do the job; a checkpoint lies in `folder` while it runs, so that it can be resumed."""
    started = time.perf_counter()
    benchmark_sets.refuse(job.train, job.test)
    classifier = Classifier(**job.request, **job.reading, progress=progress)
    resolve_device(classifier.device)
    train = _cases(job.train, job)
    test = _cases(job.test, job, train.columns)
    if test.labels is None:
        raise InputError(f"The cases of {job.test} have no class, so nothing can be scored; use Classifier.predict.")
    if train.channels != test.channels:
        raise InputError(
            f"{job.train} has {counted(train.channels, 'channel')}, but {job.test} has {test.channels}; "
            "bring files of the same channels."
        )
    _check_classes(job, train, test)
    _check_values(test)
    prepare(train, classifier.spec)
    checkpoint = folder / "checkpoints" / f"{_fingerprint(job, train)}.safetensors"
    if job.resume and not checkpoint.exists():
        say("there is no checkpoint of this run to resume, so it starts afresh")
    say(f"training on {counted(len(train), 'case')} of {counted(train.channels, 'channel')}")
    classifier.fit(train, checkpoint=checkpoint, resume=job.resume)
    answer = classifier.likelihoods(test)
    return Outcome(
        job=job,
        train=train,
        test=test,
        classifier=classifier,
        probabilities=answer.probabilities,
        notes=(*_remembered(job, train, test), *unknown_classes(test, classifier.classes_), *answer.notes),
        seconds=time.perf_counter() - started,
    )


def _cases(file: str, job: Job, columns: tuple[str, ...] = ()) -> Cases:
    """The cases of a file with their classes; of a long one the channels that training had."""
    if _is_long(file):
        return as_cases(file, label_column(file, job.labels), columns=columns, **job.reading)
    if job.labels or job.reading:
        raise UsageError(f"--labels, --id-col and --time-col name columns of a long file, which {file} is not.")
    return ts.read(file)


def _is_long(file: str) -> bool:
    """Whether a name is that of a table, packed or not."""
    path = Path(file.removesuffix(".gz"))
    return path.suffix.casefold() in (".csv", ".tsv", ".txt", ".parquet", ".pq")


def _check_classes(job: Job, train: Cases, test: Cases) -> None:
    """Refuse a test none of whose cases can be told right."""
    if train.labels is None or test.labels is None or had(test.labels, train.labels).any():
        return
    ours, theirs = (listing([str(label) for label in np.unique(labels)]) for labels in (train.labels, test.labels))
    raise InputError(
        f"{job.train} and {job.test} have no class in common: the one has {ours}, the other {theirs}; bring two files "
        "of the same classes, spelt alike."
    )


def _check_values(test: Cases) -> None:
    """Refuse a test with a case of which nothing can be said, before anything is trained for it."""
    for name, one in zip(test.names, test.series, strict=True):
        if np.isnan(one).all():
            raise InputError(f"{test.source}, {name} has no value at all, so nothing can be said of it; leave it out.")


def _remembered(job: Job, train: Cases, test: Cases) -> list[str]:
    """A sentence where the test is the training: the same file, or a copy of it."""
    if len(train) != len(test):
        return []
    if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(train.series, test.series, strict=True)):
        return []
    return [
        f"{job.test} holds the very cases of {job.train}: this tells how well they are remembered, not how well new "
        "ones are told apart."
    ]


def write(outcome: Outcome, folder: Path, command: str) -> list[Path]:
    """Write predictions.csv, model/, report.html and run.json, each whole or not at all, and return them."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "predictions.csv", csv(_predictions(outcome)))
    outcome.classifier.save(folder / "model")
    report.write(folder / "report.html", _summary(outcome, command))
    write_atomically(folder / "run.json", json.dumps(_run(outcome, command), indent=1) + "\n")
    if not outcome.interrupted:
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return [folder / name for name in ("predictions.csv", "model", "report.html", "run.json")]


def _fingerprint(job: Job, train: Cases) -> str:
    """Names a run by its data and settings, so that a checkpoint is never resumed on other data."""
    digest = hashlib.sha256(repr((sorted(job.request.items()), train.classes)).encode())
    for one in train.series:
        digest.update(np.ascontiguousarray(one).data)
    return digest.hexdigest()[:12]


def _predictions(outcome: Outcome) -> dict[str, Any]:
    """A row for each test case: where it stands, its class, what was said, and how likely each class is."""
    columns: dict[str, Any] = {
        "case": list(outcome.test.names),
        "class": [str(label) for label in outcome.truth],
        "predicted": [str(label) for label in outcome.said],
    }
    for column, label in enumerate(outcome.classifier.classes_):
        columns[f"probability of {label}"] = outcome.probabilities[:, column].round(6)
    return columns


def _summary(outcome: Outcome, command: str) -> report.ClassificationSummary:
    fitted = outcome.classifier.fitted_
    return report.ClassificationSummary(
        title=f"Classification of {outcome.job.test}",
        verdict=outcome.verdict,
        command=command,
        device=device_words(fitted.device),
        seconds=outcome.seconds,
        data=_facts(outcome),
        curves={outcome.classifier.model: curve(fitted.history)},
        findings=outcome.findings,
        settings=_settings(outcome),
        notes=(*outcome.notes, *outcome.warnings),
        confusion=outcome.confusion,
        commonest=outcome.commonest,
        examples=tuple(_examples(outcome)),
    )


def _settings(outcome: Outcome) -> dict[str, dict[str, tuple[object, str]]]:
    fitted = outcome.classifier.fitted_
    sections = fitted.plan.sections()
    request = fitted.spec
    named = {
        "network": Choice(request.model, ""),
        **attention_setting(request.model, fitted.plan.model, request.attention),
    }
    sections["model"] = {**named, **sections["model"]}
    return {
        section: {name: (choice.value, choice.reason) for name, choice in choices.items()}
        for section, choices in sections.items()
    }


def _facts(outcome: Outcome) -> report.CaseFacts:
    lengths = np.concatenate([outcome.train.lengths, outcome.test.lengths])
    both = (*outcome.train.series, *outcome.test.series)
    shortest, longest = int(lengths.min()), int(lengths.max())
    return report.CaseFacts(
        train=outcome.job.train,
        test=outcome.job.test,
        trained=outcome.classifier.fitted_.cases["train"],
        validated=outcome.classifier.fitted_.cases["validation"],
        tested=len(outcome.test),
        channels=outcome.test.channels,
        lengths=f"{longest:,}" if shortest == longest else f"{shortest:,} to {longest:,}",
        missing_share=(outcome.train.missing + outcome.test.missing) / sum(one.size for one in both),
    )


def _examples(outcome: Outcome) -> list[report.Example]:
    """Of each class the cases told right and wrong with the greatest certainty."""
    sure = outcome.probabilities.max(axis=1)
    said, truth = outcome.said, outcome.truth
    chosen: list[int] = []
    for label in outcome.confusion.labels:
        for right in (True, False):
            members = np.flatnonzero((truth == label) & ((said == truth) == right))
            chosen += members[np.argsort(-sure[members], kind="stable")][:EXAMPLES].tolist()
    return [
        report.Example(
            name=outcome.test.names[case],
            label=str(truth[case]),
            said=str(said[case]),
            share=float(sure[case]),
            values=outcome.test.series[case],
        )
        for case in chosen
    ]


def _run(outcome: Outcome, command: str) -> dict[str, Any]:
    """The run as plain data: what was asked, found, chosen and measured."""
    import torch

    fitted, found = outcome.classifier.fitted_, outcome.confusion
    return {
        "rearview": rearview.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": device_words(fitted.device),
        "command": command,
        "protocol": "clean",
        "train": outcome.job.train,
        "test": outcome.job.test,
        "request": fitted.spec.to_dict(),
        "plan": fitted.plan.to_dict(),
        "cases": {**fitted.cases, "test": len(outcome.test)},
        "classes": [str(label) for label in found.labels],
        "accuracy": found.accuracy,
        "macro_f1": found.macro_f1,
        "commonest_class_accuracy": outcome.commonest,
        "confusion": found.counts.tolist(),
        "by_class": [asdict(one) for one in found.by_class()],
        "parameters": sum(weight.numel() for weight in fitted.network.parameters()),
        "history": fitted.history.to_dict(),
        "findings": [asdict(finding) for finding in outcome.findings],
        "notes": list(outcome.notes),
        "warnings": list(outcome.warnings),
        "verdict": outcome.verdict,
        "interrupted": outcome.interrupted,
        "seconds": round(outcome.seconds, 3),
    }
