"""A small classification to report on, with a class whose name is no ordinary one."""

import numpy as np

from rearview.report.classify import page
from rearview.report.common.summary import Curve, FactList
from rearview.tasks.confusion import Confusion

LABELS = np.array(["up", "down", "<b>odd</b>"])


def summary(steps=30, channels=2, examples=None):
    truth = np.repeat(LABELS, [6, 3, 1])
    said = np.array(["up"] * 5 + ["down"] * 4 + ["up"])
    random = np.random.default_rng(0)
    shown = [
        page.Example(f"line {case}", str(truth[case]), str(said[case]), 0.5, random.standard_normal((channels, steps)))
        for case in range(10)
    ]
    return page.ClassificationSummary(
        title="Classification of small.ts",
        verdict="It classifies 8 of 10 correctly.",
        command="rearview classify a.ts b.ts",
        created="2026-01-01T00:00:00+00:00",
        version="0",
        device="CPU",
        seconds=3.0,
        data=FactList((("Training file", "a.ts"), ("Test file", "b.ts"), ("Steps", "30"))),
        curves={"patchtst": Curve(np.array([1.0, 0.5]), np.array([0.4, 0.2]), 2, "epochs")},
        confusion=Confusion.of(truth, said, LABELS),
        commonest=0.6,
        certainty=0.7,
        examples=tuple(shown if examples is None else examples),
    )
