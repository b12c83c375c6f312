"""The page of a classification: the confusion of classes, scores of each class, and example cases."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import cast

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.core.wording import quantity
from rearview.estimators.classify.portfolio.portfolio import Standing
from rearview.report.common import text
from rearview.report.common.page import fill
from rearview.report.common.payload import encode_curves, round_digits
from rearview.report.common.summary import BUDGET, Content, Summary, Tile
from rearview.report.common.tables import Cell, Table
from rearview.tasks.confusion import Confusion

SCRIPTS = ("figures.js", "plots.js", "classes.js", "confused.js", "copy.js")
MOST_STEPS = 1_000
"""Steps drawn of a case; a longer one is thinned evenly."""
MOST_CHANNELS = 12
MANY_CLASSES = 16
"""Classes from which the cells of the confusion table are set close, so that it fits a screen."""
CROWDED = 30
"""Classes from which its numbers are set smaller, too, and its heads upright."""
STRONG = 0.55
"""Share from which a cell is so dark that its number is set light."""
SCORES = {
    "Precision": "share of the cases predicted as this class that are of it",
    "Recall": "share of the cases of this class that were predicted as it",
    "F1": "harmonic mean of precision and recall",
    "Cases": "test cases of this class",
    "Most often taken for": "the commonest wrong answer to cases of this class",
}
"""Columns of the table of classes, with their meanings."""
BOARD = {
    "Weight": "in the vote; none: it would change next to nothing",
    "Accuracy": "share of training cases classified correctly by fits that did not see them",
    "Log loss": "minus the logarithm of the true class's probability, mean over the same cases",
    "Seconds": "to fit and cross-validate; features that members share count for the first of them",
}
"""Columns of the leaderboard, with their meanings."""


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """A test case to look at."""

    name: str
    label: str
    said: str
    share: float
    """The probability that the network gives to its answer."""
    values: NDArray[np.float64]
    """[channel, time] in original units, NaN where a value is missing."""
    truth: float = math.nan
    """The probability that it gives to the true class."""
    channels: tuple[str, ...] = ()
    """The names of the channels, where the data have any."""

    def channel_name(self, place: int) -> str:
        """What a channel is called."""
        return self.channels[place] if self.channels else f"channel {place + 1}"


@dataclass(frozen=True, slots=True)
class ConfusedPair:
    """A class that was taken for another, and cases of that."""

    label: str
    said: str
    count: int
    cases: tuple[Example, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassificationSummary(Summary):
    """Everything on the page of a classification."""

    confusion: Confusion
    commonest: float | None
    """The accuracy of always predicting the commonest training class; None where training is not at hand."""
    certainty: float
    """The mean probability of the predicted classes."""
    examples: tuple[Example, ...]
    confused: tuple[ConfusedPair, ...] = ()
    """The commonest confusions first."""
    leaderboard: tuple[Standing, ...] = ()
    """Members of a portfolio, the best first, then their vote; none for one network."""

    def __post_init__(self) -> None:
        if not self.examples:
            raise InputError("A classification report needs at least one case to show, but the summary has none.")

    def content(self, budget: int = BUDGET) -> Content:
        data, left_off = encode(self, budget)
        return Content(
            template="classification.html",
            parts={
                "confusion": _confusion_table(self.confusion),
                "classes": self._class_table().html("Scores of each class"),
                "no_confused": not self.confused,
                "leaderboard": self._leaderboard().html("Leaderboard of the members") if self.leaderboard else "",
                "no_leaderboard": not self.leaderboard,
                "no_training": not self.curves,
                "examples": fill("examples.html", {"class_word": "True class"}),
            },
            tiles=self._tiles(),
            scripts=SCRIPTS,
            data={**data, "confused": [self._encode_pair(pair) for pair in self.confused]},
            left_off=left_off,
            skip="confusion",
        )

    def _encode_pair(self, pair: ConfusedPair) -> dict[str, object]:
        """A pair for the page's scripts; its few cases are encoded as examples are."""
        data, _ = encode_examples(pair.cases)
        shown = cast(list[dict[str, object]], data["examples"])
        chances = round_digits(np.array([one.truth for one in pair.cases]), 4)
        return {"count": pair.count, "cases": [{**one, "truth": t} for one, t in zip(shown, chances, strict=True)]}

    def tables(self) -> list[Table]:
        pairs = tuple((Cell(one.label), Cell(one.said), Cell(f"{one.count:,}")) for one in self.confused)
        confused = [Table("Most often confused.", ("Class", "Taken for", "Times"), pairs, {1})] if pairs else []
        return [self._class_table(), *confused, *([self._leaderboard()] if self.leaderboard else [])]

    def _class_table(self) -> Table:
        """The scores of each class, and its commonest wrong answer."""
        rows = []
        for one, (taken, times) in zip(self.confusion.by_class(), _list_mistakes(self.confusion), strict=True):
            scores = (f"{one.precision:.3f}", f"{one.recall:.3f}", f"{one.f1:.3f}", f"{one.cases:,}")
            rows.append((Cell(one.label), *map(Cell, scores), Cell(taken, times)))
        caption = f"Accuracy {text.percent(self.confusion.accuracy)}, macro F1 {self.confusion.macro_f1:.3f}."
        return Table(caption, ("Class", *SCORES), tuple(rows), {len(SCORES)}, meanings=SCORES)

    def _leaderboard(self) -> Table:
        """The members of a portfolio."""
        rows = []
        for one in self.leaderboard:
            weight = f"{one.weight:.2f}" if one.weight else text.ABSENT
            numbers = (weight, text.percent(one.accuracy), f"{one.log_loss:.3f}", f"{one.seconds:.1f}")
            rows.append((Cell(one.name), *map(Cell, (*numbers, one.meaning))))
        caption, heads = "Members on training cases that their fits did not see.", ("Member", *BOARD, "What it reads")
        return Table(caption, heads, tuple(rows), {len(heads) - 1}, meanings=BOARD)

    def _tiles(self) -> list[Tile]:
        confusion = self.confusion
        worst = min((one for one in confusion.by_class() if one.cases), key=lambda one: one.recall)
        hardest = (worst.label, f"{text.percent(worst.recall)} of its cases predicted right")
        commonest: list[Tile] = []
        if self.commonest is not None:
            share = text.percent(self.commonest)
            commonest = [("Commonest training class", share, "accuracy of always predicting it")]
        return [
            (
                "Accuracy",
                text.percent(confusion.accuracy),
                f"of {quantity(int(confusion.counts.sum()), 'test case')}",
            ),
            ("Mean certainty", text.percent(self.certainty), "probability of the predicted class"),
            ("Macro F1", f"{confusion.macro_f1:.3f}", "mean over classes"),
            *commonest,
            ("Hardest class", *(("none", "all cases were predicted right") if worst.recall == 1 else hardest)),
            self.run_time,
        ]


def encode(summary: ClassificationSummary, budget: int = BUDGET) -> tuple[dict[str, object], tuple[str, ...]]:
    """(the data of the page, sentences about what was left off to keep the page small)."""
    data, notes = encode_examples(summary.examples, budget)
    return {**data, "curves": encode_curves(summary.curves)}, notes


def encode_examples(shown: Sequence[Example], budget: int = BUDGET) -> tuple[dict[str, object], tuple[str, ...]]:
    """(cases to look at for a page's scripts, sentences about what was left off)."""
    notes = []
    steps = max(example.values.shape[1] for example in shown)
    channels = len(shown[0].values)
    if steps > MOST_STEPS:
        notes.append(f"Long cases are drawn at about {MOST_STEPS:,} of their steps, evenly spaced.")
    if channels > MOST_CHANNELS:
        notes.append(f"Of {channels} channels the first {MOST_CHANNELS} are drawn.")
    fit = max(1, budget // (min(steps, MOST_STEPS) * min(channels, MOST_CHANNELS)))
    if fit < len(shown):
        notes.append(f"To stay small, the page draws {fit} of {len(shown)} chosen cases.")
    examples = []
    for example in shown[:fit]:
        every = -(-example.values.shape[1] // MOST_STEPS)
        examples.append(
            {
                "name": example.name,
                "label": example.label,
                "said": example.said,
                "share": round(example.share, 4),
                "every": every,
                "channels": [round_digits(channel[::every]) for channel in example.values[:MOST_CHANNELS]],
                "names": [example.channel_name(place) for place in range(min(channels, MOST_CHANNELS))],
            }
        )
    return {"examples": examples}, tuple(notes)


def _confusion_table(confusion: Confusion) -> str:
    """True classes down, predicted ones across, each cell shaded by its share of its row."""
    names = [escape(str(label)) for label in confusion.labels]
    head = "".join(f'<th scope="col" title="{name}">{name}</th>' for name in names)
    rows = []
    for name, counts in zip(names, confusion.counts.tolist(), strict=True):
        shares = [count / max(1, sum(counts)) for count in counts]
        cells = "".join(
            f'<td class="{"strong" if share >= STRONG else ""}" style="--share:{share:.3f}">{count or ""}</td>'
            for count, share in zip(counts, shares, strict=True)
        )
        rows.append(f'<tr><th scope="row">{name}</th>{cells}</tr>')
    words = "True classes down, predicted classes across; the darker a cell, the larger its share of its row."
    return (
        f'<p class="subject" id="confusion-key">{words}</p>'
        '<div class="scroll" role="region" aria-label="Confusion table" aria-describedby="confusion-key" tabindex="0">'
        f'<table class="confusion{" many" * (len(names) > MANY_CLASSES)}{" crowded" * (len(names) > CROWDED)}">'
        f'<thead><tr><th scope="col">true class</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _list_mistakes(confusion: Confusion) -> list[tuple[str, str]]:
    """The commonest wrong answer to the cases of each class, and how often it was given."""
    mistaken = []
    for row, counts in enumerate(confusion.counts):
        wrong = counts.copy()
        wrong[row] = 0
        other = int(wrong.argmax())
        times = (str(confusion.labels[other]), quantity(int(wrong[other]), "time"))
        mistaken.append(times if wrong.any() else (text.ABSENT, ""))
    return mistaken
