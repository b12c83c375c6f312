"""From two files of cases to a tested classifier: read, train on the one, test once on the other.

Or from a saved classifier and a file of new cases to their classes.
"""

import hashlib
import math
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rearview.commands import benchmark_sets
from rearview.core.errors import InputError, UsageError, collect_warnings
from rearview.core.wording import listing, quantity
from rearview.data.cases.case_reader import as_cases, find_label_column, label_column, mask_marks
from rearview.data.cases.case_set import Cases, Labels
from rearview.data.io import ts
from rearview.data.io.files import STDIN
from rearview.data.io.several_files import SUFFIXES
from rearview.data.panel import Finding
from rearview.estimators.base import Session, resolve_device
from rearview.estimators.classify.classifier import Classifier, is_among, predict, prepare, unknown_classes
from rearview.estimators.classify.fit import Prepared
from rearview.estimators.classify.portfolio.portfolio import Portfolio, PreparedPortfolio, Standing
from rearview.estimators.classify.spec import AUTO, CaseColumns, ClassifySpec
from rearview.tasks.confusion import Confusion, commonest_accuracy
from rearview.train import History, Progress

UNSURE = 0.6
"""The probability of the likeliest class below which a case is unsure."""
MOST_NAMED = 6
"""Classes that the verdict on cases without classes counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A classification request of the command line."""

    train: str | None = None
    """The cases to train on; None where a saved classifier is used."""
    test: str
    """The cases to test on; for a saved classifier new ones, whose classes need not be known."""
    model: Path | None = None
    """The folder of a saved classifier, which is used as it is."""
    resume: bool = False
    spec: ClassifySpec = field(default_factory=ClassifySpec)
    labels: str | None = None
    """The column of long files that holds the class; None: one of the usual names."""
    columns: CaseColumns = field(default_factory=CaseColumns)
    """How long files are read."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a finished run."""

    job: Job
    train: Cases | None
    """None where a saved classifier was used."""
    test: Cases
    classifier: Classifier
    probabilities: NDArray[np.float64]
    """[test case, class]."""
    notes: tuple[str, ...]
    seconds: float
    warnings: tuple[str, ...]
    """What rearview warned of during the run."""

    @property
    def predicted(self) -> Labels:
        """The likeliest class of each test case."""
        return self.classifier.classes_[self.probabilities.argmax(axis=1)]

    @property
    def labelled(self) -> bool:
        """Whether the true classes of the cases are known."""
        return self.test.labels is not None

    @property
    def truth(self) -> Labels:
        assert self.test.labels is not None
        return self.test.labels

    @property
    def confusion(self) -> Confusion:
        """Numbers in the names of classes stand in their order: 2 before 10, gesture 2 before gesture 10."""
        classes = self.classifier.classes_
        order = sorted(range(len(classes)), key=lambda place: _natural_key(classes[place]))
        return Confusion.of(self.truth, self.predicted, classes[order])

    @property
    def commonest(self) -> float | None:
        """The accuracy of always predicting the commonest class of training; None where either is not known."""
        if self.train is None or self.train.labels is None or self.test.labels is None:
            return None
        return commonest_accuracy(self.train.labels, self.test.labels)

    @property
    def counts(self) -> list[tuple[str, int]]:
        """How often each class was predicted, the commonest first."""
        counts = Counter(str(label) for label in self.predicted)
        return sorted(((str(label), counts[str(label)]) for label in self.classifier.classes_), key=lambda one: -one[1])

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.classifier.findings

    @property
    def interrupted(self) -> bool:
        return self.train is not None and self.classifier.fitted_.interrupted

    @property
    def standings(self) -> tuple[Standing, ...]:
        """The leaderboard of a portfolio; of one network none."""
        fitted = self.classifier.fitted_
        return fitted.standings if isinstance(fitted, Portfolio) else ()

    @property
    def histories(self) -> dict[str, History]:
        """How networks were trained, by their names."""
        fitted = self.classifier.fitted_
        return fitted.histories if isinstance(fitted, Portfolio) else {fitted.spec.model: fitted.history}

    @property
    def verdict(self) -> str:
        """How good it is, beside always predicting the commonest class; or what was predicted, and how surely."""
        subject = "The portfolio" if self.classifier.model == AUTO else self.classifier.model
        if not self.labelled:
            named = [f"{label} ({count:,})" for label, count in self.counts if count]
            listed = ", ".join([*named[:MOST_NAMED], *(["..."] if len(named) > MOST_NAMED else [])])
            highest = self.probabilities.max(axis=1)
            unsure = int((highest < UNSURE).sum())
            sure = f"less than {100 * UNSURE:.0f} % sure of {quantity(unsure, 'case')}"
            sure = sure if unsure else f"at least {math.floor(100 * highest.min())} % sure of every case"
            return f"{subject} predicts {listed} for {quantity(len(self.test), 'case')}; it is {sure}."
        confusion, commonest = self.confusion, self.commonest
        right = round(confusion.accuracy * len(self.test))
        cases = quantity(len(self.test), "case" if self.train is None else "test case")
        sentence = f"{subject} classifies {right:,} of {cases} correctly ({100 * confusion.accuracy:.1f} %)"
        if commonest is None:
            return f"{sentence}."
        sentence += f"; always predicting the commonest training class would get {100 * commonest:.1f} %."
        return sentence if confusion.accuracy > commonest else f"{sentence} It has learned nothing of use."


def run(
    job: Job, folder: Path, *, progress: Progress | None = None, say: Callable[[str], None] = lambda _: None
) -> Outcome:
    """Do the job; a checkpoint lies in `folder` while it runs, so that it can be resumed."""
    started = time.perf_counter()
    with collect_warnings() as warnings:
        if job.model is not None:
            train, (classifier, test) = None, read_new(job, job.model)
        else:
            train, test, prepared = read_pair(job)
            checkpoint = folder / "checkpoints" / f"{_fingerprint(job, train)}.safetensors"
            if job.resume and not checkpoint.exists():
                say("there is no checkpoint of this run to resume, so it starts afresh")
            say(f"training on {quantity(len(train), 'case')} of {quantity(train.channels, 'channel')}")
            classifier = Classifier(**{**job.spec.to_dict(), **vars(job.columns)}, progress=progress)
            classifier.adopt(prepared.train(Session(checkpoint, job.resume, progress)))
        likelihoods = predict(classifier.fitted_, test)
        unknown = unknown_classes(test, classifier.classes_) if test.labels is not None else []
    return Outcome(
        job=job,
        train=train,
        test=test,
        classifier=classifier,
        probabilities=likelihoods.probabilities,
        notes=(*_note_same_cases(job, train, test), *unknown, *likelihoods.notes),
        seconds=time.perf_counter() - started,
        warnings=tuple(warnings),
    )


def read_pair(job: Job) -> tuple[Cases, Cases, Prepared | PreparedPortfolio]:
    """The cases to train and to test on, and what is to be trained; what can't be is refused."""
    assert job.train is not None
    benchmark_sets.refuse_set_names(job.train, job.test)
    resolve_device(job.spec.device)
    train = _read_cases(job.train, job)
    test = _read_cases(job.test, job, train.columns)
    _check_pair(job, train, test)
    return train, test, prepare(train, job.spec)


def read_new(job: Job, model: Path) -> tuple[Classifier, Cases]:
    """A saved classifier and new cases as it reads them, with their classes where the file says them."""
    benchmark_sets.refuse_set_names(job.test)
    classifier = Classifier.load(model, device=job.spec.device)
    usual = vars(CaseColumns())
    classifier.set_params(**{name: value for name, value in vars(job.columns).items() if value != usual[name]})
    if is_long(job.test):
        channels = classifier.fitted_.columns
        labels = label_column(job.test, job.labels) if job.labels else find_label_column(job.test, channels)
        cases = classifier.read(job.test, labels)
    else:
        cases = _read_cases(job.test, job)
    _refuse_empty(cases)
    return classifier, cases


def is_long(file: str) -> bool:
    """Whether a file, or standard input, is a long table rather than a .ts file."""
    return file in STDIN or Path(file.removesuffix(".gz")).suffix.casefold() in (*SUFFIXES, ".pq")


def _read_cases(file: str, job: Job, columns: tuple[str, ...] = ()) -> Cases:
    """The cases of a file with their classes; of a long one the channels that training had."""
    named = job.columns
    if is_long(file):
        labels = label_column(file, job.labels)
        return as_cases(file, labels, columns=columns, **vars(named))
    if job.labels or named.id_col or named.time_col:
        raise UsageError(f"--labels, --id-col and --time-col name columns of a long file, which {file} is not.")
    return mask_marks(ts.read(file), named.sentinels)


def _check_pair(job: Job, train: Cases, test: Cases) -> None:
    """Refuse a test that can't be scored, before anything is trained for it."""
    if test.labels is None:
        raise InputError(
            f"The cases of {job.test} have no class, so nothing can be scored; test on cases that have one, and then "
            f"classify these with the saved classifier: rearview classify --model DIR {job.test}."
        )
    if train.channels != test.channels:
        raise InputError(
            f"{job.train} has {quantity(train.channels, 'channel')}, but {job.test} has {test.channels}; "
            "bring files of the same channels."
        )
    if train.labels is not None and not is_among(test.labels, train.labels).any():
        ours, theirs = (listing([str(label) for label in np.unique(labels)]) for labels in (train.labels, test.labels))
        raise InputError(
            f"{job.train} and {job.test} have no class in common: the one has {ours}, the other {theirs}; bring two "
            "files of the same classes, spelt alike."
        )
    _refuse_empty(test)


def _refuse_empty(test: Cases) -> None:
    for name, one in zip(test.names, test.series, strict=True):
        if np.isnan(one).all():
            raise InputError(f"{test.source}, {name} has no value at all, so nothing can be said of it; leave it out.")


def _note_same_cases(job: Job, train: Cases | None, test: Cases) -> list[str]:
    """A sentence where the test is the training: the same file, or a copy of it."""
    if train is None or len(train) != len(test):
        return []
    if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(train.series, test.series, strict=True)):
        return []
    return [
        f"{job.test} holds the same cases as {job.train}: the score says how well they are remembered, not how well "
        "new ones are classified."
    ]


def _natural_key(label: object) -> tuple[float, list[tuple[int, float, str]]]:
    """What classes are sorted by: those that are numbers by their value, others by text and whole numbers in turn."""
    text = str(label)
    if re.fullmatch(r"[+-]?\d+(\.\d*)?", text):
        return float(text), []
    parts = re.findall(r"\d+|\D+", text)
    return math.inf, [(0, float(part), "") if part.isdecimal() else (1, 0.0, part) for part in parts]


def _fingerprint(job: Job, train: Cases) -> str:
    """Name a run by its data and settings, so that a checkpoint is never resumed on other data."""
    digest = hashlib.sha256(repr((job.spec, train.classes)).encode())
    for one in train.series:
        digest.update(np.ascontiguousarray(one).data)
    return digest.hexdigest()[:12]
