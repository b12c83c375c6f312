"""A fitted classifier as a figure, and as the page of the command line."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rearview.commands.classify.job import Job, Outcome
from rearview.commands.classify.page import confused_cases, summary
from rearview.core.errors import SettingsError, did_you_mean
from rearview.data.cases.case_set import Cases
from rearview.estimators.classify.classifier import Classifier, predict, unknown_classes
from rearview.estimators.classify.fit import Likelihoods
from rearview.estimators.classify.portfolio.portfolio import Portfolio
from rearview.report.classify.figure import draw_cases, draw_confusion
from rearview.report.common.page import write

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

KINDS = ("confusion", "cases")


def plot(classifier: Classifier, X: object, y: object, kind: str) -> "Figure":
    """The confusion of classes, or the cases most often confused (see `Classifier.plot`)."""
    if kind not in KINDS:
        raise SettingsError(f"kind is {kind!r}; it is one of {', '.join(KINDS)}.{did_you_mean(kind, KINDS)}")
    outcome = _judge_left_out(classifier) if X is None else _judge(classifier, X, y)
    if kind == "confusion":
        of = "cases" if X is not None else "training cases, by fits that did not see them,"
        return draw_confusion(outcome.confusion, of)
    examples = [one for pair in confused_cases(outcome) for one in pair.cases]
    if not examples:
        raise SettingsError("No case was misclassified, so there is none to draw; kind='confusion' draws the classes.")
    return draw_cases(examples)


def report(classifier: Classifier, path: Path | str, X: object, y: object) -> Path:
    """Write the page (see `Classifier.report`)."""
    words = f"{classifier.origin}.report({str(path)!r}, X_test, y_test)"
    return write(Path(path), summary(_judge(classifier, X, y), words))


def _judge(classifier: Classifier, X: object, y: object) -> Outcome:
    """The answers to cases whose classes are known."""
    started = time.perf_counter()
    cases = classifier.read(X, y)
    if cases.labels is None:
        raise SettingsError("The true classes of the cases are missing; give y.")
    answers = predict(classifier.fitted_, cases)
    notes = (*unknown_classes(cases, classifier.classes_), *answers.notes)
    return _outcome(classifier, cases, Likelihoods(answers.probabilities, notes), started)


def _judge_left_out(classifier: Classifier) -> Outcome:
    """The answers of a portfolio to training cases, by fits that did not see them."""
    fitted = classifier.fitted_
    train = classifier.trained_on
    if train is None or not isinstance(fitted, Portfolio) or fitted.left_out is None:
        raise SettingsError("This classifier holds no predictions of cases that it did not see; give X and y.")
    known = np.flatnonzero(np.isfinite(fitted.left_out).all(axis=1))
    cases = train.take(known)
    return _outcome(classifier, cases, Likelihoods(fitted.left_out[known], ()), time.perf_counter())


def _outcome(classifier: Classifier, cases: Cases, answers: Likelihoods, started: float) -> Outcome:
    train = classifier.trained_on
    return Outcome(
        job=Job(train=train.source if train else None, test=cases.source, spec=classifier.spec),
        train=train,
        test=cases,
        classifier=classifier,
        probabilities=answers.probabilities,
        notes=answers.notes,
        seconds=classifier.seconds + time.perf_counter() - started,
        warnings=(),
    )
