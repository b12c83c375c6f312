"""A finished classification as its page shows it."""

from collections.abc import Iterable
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from rearview.commands.classify.job import Outcome
from rearview.commands.page_data import Settings, attention_choice, describe_device, page_settings, training_curve
from rearview.report.classify.page import Candidate, ClassificationSummary, ConfusedPair, Example
from rearview.report.classify.predictions import PredictedClass, PredictionSummary, UnsureCase
from rearview.report.common import text
from rearview.report.common.summary import FactList, Summary
from rearview.tasks.confusion import Confusion
from rearview.tasks.plan import Choice

MOST_PAIRS = 4
"""Pairs of classes whose confused cases are drawn."""
EXAMPLES = 2
"""Cases of each class that are shown, of those predicted right and of those predicted wrong."""
MOST_UNSURE = 10
"""Cases without classes that are listed as the least certain."""


def summary(outcome: Outcome, command: str) -> Summary:
    """The content of the page."""
    fitted, confusion = outcome.classifier.fitted_, outcome.confusion
    if confusion is None:
        return _prediction_summary(outcome, command)
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
        confusion=confusion,
        commonest=outcome.commonest,
        leaderboard=tuple(Candidate(**asdict(standing)) for standing in outcome.standings),
        examples=tuple(_examples(outcome, confusion.labels)),
        confused=confused_cases(outcome, confusion),
    )


def _prediction_summary(outcome: Outcome, command: str) -> PredictionSummary:
    """The page of cases without classes."""
    likely, classes = outcome.probabilities, [str(label) for label in outcome.classifier.classes_]
    best, said = likely.max(axis=1), np.array([str(label) for label in outcome.predicted])
    order = np.argsort(-likely, axis=1, kind="stable")
    margin = best - (np.sort(likely, axis=1)[:, -2] if len(classes) > 1 else 0)
    closest = np.argsort(margin, kind="stable")[:MOST_UNSURE].tolist() if len(classes) > 1 else []
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
            PredictedClass(label, count, float(best[said == label].mean()) if count else 0.0)
            for label, count in outcome.counts
        ),
        unsure=tuple(
            UnsureCase(
                outcome.test.names[case],
                *(classes[order[case, 0]], float(best[case])),
                *(classes[order[case, 1]], float(likely[case, order[case, 1]])),
            )
            for case in closest
        ),
        examples=tuple(_examples(outcome, outcome.classifier.classes_)),
    )


def _settings(outcome: Outcome) -> Settings:
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
    read = [cases for cases in (outcome.train, outcome.test) if cases is not None]
    lengths = np.concatenate([cases.lengths for cases in read])
    shortest, longest = int(lengths.min()), int(lengths.max())
    missing = sum(cases.missing for cases in read) / sum(one.size for cases in read for one in cases.series)
    cases = outcome.classifier.fitted_.cases
    sources = [("Classifier", str(outcome.job.model)), ("File", outcome.job.test)]
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


def confused_cases(outcome: Outcome, confusion: Confusion) -> tuple[ConfusedPair, ...]:
    """The pairs of classes that were confused most often, each with the cases that the answer was surest of."""
    sure, predicted, truth = outcome.probabilities.max(axis=1), outcome.predicted, _classes(outcome)
    labels, counts = confusion.labels, confusion.counts.copy()
    np.fill_diagonal(counts, 0)
    pairs = []
    for place in np.argsort(-counts, axis=None, kind="stable")[:MOST_PAIRS].tolist():
        row, column = divmod(place, len(labels))
        if counts[row, column]:
            members = np.flatnonzero((truth == labels[row]) & (predicted == labels[column]))
            chosen = members[np.argsort(-sure[members], kind="stable")][:EXAMPLES].tolist()
            cases = tuple(_example(outcome, case) for case in chosen)
            pairs.append(ConfusedPair(str(labels[row]), str(labels[column]), int(counts[row, column]), cases))
    return tuple(pairs)


def _example(outcome: Outcome, case: int) -> Example:
    label, classes = _classes(outcome).tolist()[case], outcome.classifier.classes_.tolist()
    chances = outcome.probabilities[case]
    return Example(
        name=outcome.test.names[case],
        label=str(label),
        said=str(outcome.predicted[case]),
        share=float(chances.max()),
        values=outcome.test.series[case],
        truth=float(chances[classes.index(label)]) if label in classes else 0.0,
    )


def _classes(outcome: Outcome) -> NDArray[np.generic]:
    """The true classes, or where nobody knows them the predicted ones."""
    return outcome.predicted if outcome.test.labels is None else outcome.test.labels


def _examples(outcome: Outcome, labels: Iterable[object]) -> list[Example]:
    """Of each class the cases predicted right and wrong with the greatest certainty."""
    sure = outcome.probabilities.max(axis=1)
    predicted, truth = outcome.predicted, _classes(outcome)
    chosen: list[int] = []
    for label in labels:
        for right in (True, False):
            members = np.flatnonzero((truth == label) & ((predicted == truth) == right))
            chosen += members[np.argsort(-sure[members], kind="stable")][:EXAMPLES].tolist()
    return [_example(outcome, case) for case in chosen]
