"""The classes of new cases, which nobody knows, as their page shows them."""

import numpy as np

from rearview.commands.classify.job import Outcome
from rearview.commands.classify.page import EXAMPLES, case_facts, list_settings
from rearview.commands.page_data import describe_device
from rearview.report.classify.page import Example
from rearview.report.classify.predictions import PredictedClass, PredictionSummary, UnsureCase

MOST_UNSURE = 10
"""Cases that are listed as the least certain."""


def summary(outcome: Outcome, command: str) -> PredictionSummary:
    """The content of the page."""
    sure, said = outcome.probabilities.max(axis=1), np.array([str(label) for label in outcome.predicted])
    return PredictionSummary(
        title=f"Classes of {outcome.job.test}",
        verdict=outcome.verdict,
        command=command,
        device=describe_device(outcome.classifier.fitted_.device),
        seconds=outcome.seconds,
        data=case_facts(outcome),
        findings=outcome.findings,
        settings=list_settings(outcome),
        notes=(*outcome.notes, *outcome.warnings),
        classes=tuple(
            PredictedClass(label, count, float(sure[said == label].mean()) if count else 0.0)
            for label, count in outcome.counts
        ),
        unsure=tuple(_unsure_cases(outcome)),
        examples=tuple(
            Example(outcome.test.names[case], label, label, float(sure[case]), outcome.test.series[case])
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
