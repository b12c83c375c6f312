"""A finished classification, or the classes of new cases, as their pages show them."""

import numpy as np
from numpy.typing import NDArray

from rearview.commands.classify.job import Outcome
from rearview.commands.page_data import Settings, attention_choice, describe_device, page_settings, training_curve
from rearview.report.classify.page import ClassificationSummary, ConfusedPair, Example
from rearview.report.classify.predictions import PredictedClass, PredictionSummary, UnsureCase
from rearview.report.common import text
from rearview.report.common.summary import FactList
from rearview.tasks.plan import Choice

MOST_PAIRS = 4
"""Pairs of classes whose confused cases are drawn."""
EXAMPLES = 2
"""Cases of each class that are shown, of those predicted right and of those predicted wrong."""
MOST_UNSURE = 10
"""New cases that are listed as the least certain."""


def summary(outcome: Outcome, command: str) -> ClassificationSummary:
    """The content of the page."""
    fitted, truth, right = outcome.classifier.fitted_, outcome.truth, outcome.predicted == outcome.truth
    return ClassificationSummary(
        title=f"Classification of {outcome.job.test}",
        verdict=outcome.verdict,
        command=command,
        device=describe_device(fitted.device),
        seconds=outcome.seconds,
        data=_case_facts(outcome),
        curves={name: training_curve(history) for name, history in outcome.histories.items()},
        findings=outcome.findings,
        settings=_settings(outcome),
        notes=(*outcome.notes, *outcome.warnings),
        confusion=outcome.confusion,
        commonest=outcome.commonest,
        certainty=float(outcome.probabilities.max(axis=1).mean()),
        leaderboard=outcome.standings,
        examples=tuple(
            example
            for label in outcome.confusion.labels
            for answered in (right, ~right)
            for example in _surest(outcome, (truth == label) & answered)
        ),
        confused=confused_cases(outcome),
    )


def _settings(outcome: Outcome) -> Settings:
    """What was chosen, each with its reason."""
    fitted = outcome.classifier.fitted_
    sections = fitted.plan.sections()
    if outcome.standings:
        cases = {**sections["data"], **sections["training"]}
        return {"cases": page_settings(cases), "weights of members": page_settings(sections["model"])}
    network: dict[str, Choice[object]] = {"network": Choice(fitted.spec.model, "")}
    network |= attention_choice(fitted.spec.model, fitted.plan.model, fitted.spec.attention)
    return {
        "cases": page_settings(sections["data"]),
        "model": page_settings({**network, **sections["model"]}),
        "training": page_settings(sections["training"]),
    }


def _case_facts(outcome: Outcome) -> FactList:
    """The cases in numbers."""
    read = [cases for cases in (outcome.train, outcome.test) if cases is not None]
    lengths = np.concatenate([cases.lengths for cases in read])
    shortest, longest = int(lengths.min()), int(lengths.max())
    missing = sum(cases.missing for cases in read) / sum(one.size for cases in read for one in cases.series)
    cases = outcome.classifier.fitted_.cases
    sources = [("Classifier", str(outcome.job.model or outcome.classifier.origin)), ("File", outcome.job.test)]
    if outcome.job.train is not None:
        sources = [("Training file", outcome.job.train), ("Test file", outcome.job.test)]
    return FactList(
        (
            *sources,
            ("Cases to train on", f"{cases['train']:,}"),
            ("Cases to validate by", f"{cases['validation']:,}"),
            ("Test cases" if outcome.train is not None else "Cases", f"{len(outcome.test):,}"),
            ("Channels", f"{outcome.test.channels:,}"),
            ("Steps", f"{longest:,}" if shortest == longest else f"{shortest:,} to {longest:,}"),
            ("Missing cells", text.percent(missing) if missing else "none"),
        )
    )


def confused_cases(outcome: Outcome) -> tuple[ConfusedPair, ...]:
    """The pairs of classes that were confused most often, each with the cases that the answer was surest of."""
    predicted, truth = outcome.predicted, outcome.truth
    labels, counts = outcome.confusion.labels, outcome.confusion.counts.copy()
    np.fill_diagonal(counts, 0)
    pairs = []
    for place in np.argsort(-counts, axis=None, kind="stable")[:MOST_PAIRS].tolist():
        row, column = divmod(place, len(labels))
        if counts[row, column]:
            cases = tuple(_surest(outcome, (truth == labels[row]) & (predicted == labels[column])))
            pairs.append(ConfusedPair(str(labels[row]), str(labels[column]), int(counts[row, column]), cases))
    return tuple(pairs)


def _surest(outcome: Outcome, wanted: NDArray[np.bool_], count: int = EXAMPLES) -> list[Example]:
    """The cases that the answer was surest of, among those wanted; without true classes the answers stand for them."""
    sure, members = outcome.probabilities.max(axis=1), np.flatnonzero(wanted)
    labels = (outcome.truth if outcome.labelled else outcome.predicted).tolist()
    classes = outcome.classifier.classes_.tolist()
    return [
        Example(
            name=outcome.test.names[case],
            label=str(labels[case]),
            said=str(outcome.predicted[case]),
            share=float(sure[case]),
            values=outcome.test.series[case],
            truth=float(outcome.probabilities[case, classes.index(labels[case])]) if labels[case] in classes else 0.0,
            channels=outcome.test.columns,
        )
        for case in members[np.argsort(-sure[members], kind="stable")][:count].tolist()
    ]


def prediction_summary(outcome: Outcome, command: str) -> PredictionSummary:
    """The content of the page of new cases, whose classes nobody knows."""
    sure, predicted = outcome.probabilities.max(axis=1), np.array([str(label) for label in outcome.predicted])
    return PredictionSummary(
        title=f"Classes of {outcome.job.test}",
        verdict=outcome.verdict,
        command=command,
        device=describe_device(outcome.classifier.fitted_.device),
        seconds=outcome.seconds,
        data=_case_facts(outcome),
        findings=outcome.findings,
        settings=_settings(outcome),
        notes=(*outcome.notes, *outcome.warnings),
        classes=tuple(
            PredictedClass(label, count, float(sure[predicted == label].mean()) if count else 0.0)
            for label, count in outcome.counts
        ),
        unsure=tuple(_unsure_cases(outcome)),
        examples=tuple(
            example for label, _ in outcome.counts for example in _surest(outcome, predicted == label, 2 * EXAMPLES)
        ),
    )


def _unsure_cases(outcome: Outcome) -> list[UnsureCase]:
    """The cases whose two likeliest classes lie closest together, the closest first."""
    likely, classes = outcome.probabilities, [str(label) for label in outcome.classifier.classes_]
    if len(classes) < 2:
        return []
    order = np.argsort(-likely, axis=1, kind="stable")
    best, next_best = (np.take_along_axis(likely, order[:, place : place + 1], axis=1)[:, 0] for place in (0, 1))
    return [
        UnsureCase(
            outcome.test.names[case],
            classes[order[case, 0]],
            float(best[case]),
            classes[order[case, 1]],
            float(next_best[case]),
        )
        for case in np.argsort(best - next_best, kind="stable")[:MOST_UNSURE].tolist()
    ]
