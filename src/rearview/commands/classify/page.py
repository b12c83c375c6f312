"""A finished classification, or the classes of new cases, as their pages show them."""

import numpy as np

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
    fitted = outcome.classifier.fitted_
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
        leaderboard=outcome.standings,
        examples=tuple(_examples(outcome)),
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
    sure, predicted, truth = outcome.probabilities.max(axis=1), outcome.predicted, outcome.truth
    labels, counts = outcome.confusion.labels, outcome.confusion.counts.copy()
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
    label, classes = outcome.truth.tolist()[case], outcome.classifier.classes_.tolist()
    chances = outcome.probabilities[case]
    return Example(
        name=outcome.test.names[case],
        label=str(label),
        said=str(outcome.predicted[case]),
        share=float(chances.max()),
        values=outcome.test.series[case],
        truth=float(chances[classes.index(label)]) if label in classes else 0.0,
        channels=outcome.test.columns,
    )


def _examples(outcome: Outcome) -> list[Example]:
    """Of each class the cases predicted right and wrong with the greatest certainty."""
    sure = outcome.probabilities.max(axis=1)
    predicted, truth = outcome.predicted, outcome.truth
    chosen: list[int] = []
    for label in outcome.confusion.labels:
        for right in (True, False):
            members = np.flatnonzero((truth == label) & ((predicted == truth) == right))
            chosen += members[np.argsort(-sure[members], kind="stable")][:EXAMPLES].tolist()
    return [_example(outcome, case) for case in chosen]


def prediction_summary(outcome: Outcome, command: str) -> PredictionSummary:
    """The content of the page of new cases, whose classes nobody knows."""
    sure, said = outcome.probabilities.max(axis=1), np.array([str(label) for label in outcome.predicted])
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
            PredictedClass(label, count, float(sure[said == label].mean()) if count else 0.0)
            for label, count in outcome.counts
        ),
        unsure=tuple(_unsure_cases(outcome)),
        examples=tuple(
            Example(
                outcome.test.names[case],
                label,
                label,
                float(sure[case]),
                outcome.test.series[case],
                channels=outcome.test.columns,
            )
            for label, _ in outcome.counts
            for case in sorted(np.flatnonzero(said == label), key=lambda case: -sure[case])[: 2 * EXAMPLES]
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
