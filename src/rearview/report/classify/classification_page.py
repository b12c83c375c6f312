"""The page of a classification: how often each class was taken for each, class by class, and cases to look at."""

import json
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.report.common import sections, text
from rearview.report.common.page import filled, put, shell
from rearview.report.common.payload import BUDGET, rounded, script_safe
from rearview.report.common.summary import Facts
from rearview.tasks.confusion import Confusion

SCRIPTS = ("figures.js", "plots.js", "classes.js", "copy.js")
MOST_STEPS = 1_000
"""Steps drawn of a case; a longer one is thinned evenly."""
MOST_CHANNELS = 12
MANY_CLASSES = 16
"""Classes from which the cells of the confusion table are set close, so that it fits a screen."""
STRONG = 0.55
"""Share from which a cell is so dark that its number is set light."""


@dataclass(frozen=True, slots=True)
class CaseFacts:
    """What was read, in numbers."""

    train: str
    test: str
    trained: int
    validated: int
    tested: int
    channels: int
    lengths: str
    """Steps of a case, in words."""
    missing_share: float
    """From 0 to 1, over all cells of both files."""

    def lines(self) -> list[tuple[str, str]]:
        """The facts in words."""
        return [
            ("Training file", self.train),
            ("Test file", self.test),
            ("Cases to train on", f"{self.trained:,}"),
            ("Cases to validate by", f"{self.validated:,}"),
            ("Test cases", f"{self.tested:,}"),
            ("Channels", f"{self.channels:,}"),
            ("Steps", self.lengths),
            ("Missing cells", text.percent(self.missing_share) if self.missing_share else "none"),
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """A test case to look at."""

    name: str
    label: str
    said: str
    share: float
    """How likely the network holds what it said."""
    values: NDArray[np.float64]
    """[channel, time] in original units, NaN where a value is missing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassificationSummary(Facts):
    """Everything on the page of a classification."""

    confusion: Confusion
    commonest: float
    """The accuracy of always saying the commonest class of training."""
    examples: tuple[Example, ...]

    def __post_init__(self) -> None:
        if not self.examples:
            raise InputError("A classification report needs at least one case to show, but the summary has none.")


def write(path: Path, summary: ClassificationSummary) -> Path:
    """Writes the page to `path` (folders are made as needed) and returns it; no half-written page can be seen."""
    return put(path, render(summary))


def render(summary: ClassificationSummary) -> str:
    """The page as text; the same summary gives the same page."""
    data, left_off = encode(summary)
    body = filled(
        "classification.html",
        confusion=_confusion_table(summary.confusion),
        classes=_class_table(summary.confusion),
        training=sections.training(summary),
    )
    return shell(
        summary,
        headline=sections.tiled(_tiles(summary)),
        body=body,
        notes=(*summary.notes, *left_off),
        data=data,
        scripts=SCRIPTS,
        skip="confusion",
    )


def encode(summary: ClassificationSummary, budget: int = BUDGET) -> tuple[str, tuple[str, ...]]:
    """(the page's data as JSON text, sentences about what was left off to keep the page small)."""
    notes = []
    steps = max(example.values.shape[1] for example in summary.examples)
    channels = len(summary.examples[0].values)
    if steps > MOST_STEPS:
        notes.append(f"Long cases are drawn at about {MOST_STEPS:,} of their steps, evenly spaced.")
    if channels > MOST_CHANNELS:
        notes.append(f"Of {channels} channels the first {MOST_CHANNELS} are drawn.")
    fit = max(1, budget // (min(steps, MOST_STEPS) * min(channels, MOST_CHANNELS)))
    if fit < len(summary.examples):
        notes.append(f"To stay small, the page draws {fit} of {len(summary.examples)} chosen cases.")
    payload = {
        "examples": [_example(example) for example in summary.examples[:fit]],
        "curves": {
            model: {"train": rounded(curve.train), "validation": rounded(curve.validation), "best": curve.best_epoch}
            for model, curve in summary.curves.items()
        },
    }
    return script_safe(json.dumps(payload, separators=(",", ":"), allow_nan=False)), tuple(notes)


def _example(example: Example) -> dict[str, Any]:
    every = -(-example.values.shape[1] // MOST_STEPS)
    return {
        "name": example.name,
        "label": example.label,
        "said": example.said,
        "share": round(example.share, 4),
        "every": every,
        "channels": [rounded(channel[::every]) for channel in example.values[:MOST_CHANNELS]],
    }


def _tiles(summary: ClassificationSummary) -> list[sections.Tile]:
    found = summary.confusion
    cases = int(found.counts.sum())
    return [
        ("Accuracy", text.percent(found.accuracy), f"of {text.counted(cases, 'test case')}"),
        ("Macro F1", f"{found.macro_f1:.3f}", "mean over classes"),
        ("Commonest training class", text.percent(summary.commonest), "accuracy of always saying it"),
        _hardest(found),
        sections.run_time(summary),
    ]


def _hardest(found: Confusion) -> sections.Tile:
    worst = min((one for one in found.by_class() if one.cases), key=lambda one: one.recall)
    if worst.recall == 1:
        return "Hardest class", "none", "all cases were told right"
    return "Hardest class", worst.label, f"{text.percent(worst.recall)} of its cases told right"


def _confusion_table(found: Confusion) -> str:
    """True classes down, predicted ones across, each cell shaded by its share of its row."""
    names = [escape(str(label)) for label in found.labels]
    head = "".join(f'<th scope="col" title="{name}">{name}</th>' for name in names)
    rows = []
    for name, counts in zip(names, found.counts.tolist(), strict=True):
        total = max(1, sum(counts))
        cells = "".join(_shaded(count, count / total) for count in counts)
        rows.append(f'<tr><th scope="row">{name}</th>{cells}</tr>')
    words = "True classes down, predicted classes across; the darker a cell, the larger its share of its row."
    return (
        f'<p class="subject" id="confusion-key">{words}</p>'
        '<div class="scroll" role="region" aria-label="Confusion table" aria-describedby="confusion-key" tabindex="0">'
        f'<table class="confusion{" many" if len(names) > MANY_CLASSES else ""}">'
        f'<thead><tr><th scope="col">true class</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _shaded(count: int, share: float) -> str:
    strong = ' class="strong"' if share >= STRONG else ""
    return f'<td{strong} style="--share:{share:.3f}">{count or ""}</td>'


def _class_table(found: Confusion) -> str:
    heads = (
        ("Precision", "share of the cases taken for this class that are of it"),
        ("Recall", "share of the cases of this class that were taken for it"),
        ("F1", "harmonic mean of precision and recall"),
        ("Cases", "test cases of this class"),
        ("Most often taken for", "the commonest wrong answer to cases of this class"),
    )
    head = "".join(f'<th scope="col"><abbr title="{meaning}">{name}</abbr></th>' for name, meaning in heads)
    rows = "".join(
        f'<tr><th scope="row">{escape(one.label)}</th><td>{one.precision:.3f}</td><td>{one.recall:.3f}</td>'
        f"<td>{one.f1:.3f}</td><td>{one.cases:,}</td><td>{_mistaken(found, row)}</td></tr>"
        for row, one in enumerate(found.by_class())
    )
    return (
        '<div class="scroll" role="region" aria-label="Scores of each class" tabindex="0"><table>'
        f'<thead><tr><th scope="col">Class</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _mistaken(found: Confusion, row: int) -> str:
    wrong = found.counts[row].copy()
    wrong[row] = 0
    if not wrong.any():
        return text.ABSENT
    other = int(wrong.argmax())
    return f"{escape(str(found.labels[other]))} <small>{text.counted(int(wrong[other]), 'time')}</small>"
