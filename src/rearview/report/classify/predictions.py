"""The page of cases whose true classes nobody knows: how often each class was predicted, and how surely."""

from dataclasses import dataclass

from rearview.core.wording import quantity
from rearview.report.classify.page import Example, encode_examples
from rearview.report.common import text
from rearview.report.common.page import fill
from rearview.report.common.summary import BUDGET, Content, Summary, Tile
from rearview.report.common.tables import Cell, Table

SCRIPTS = ("figures.js", "plots.js", "classes.js", "copy.js")


@dataclass(frozen=True, slots=True)
class PredictedClass:
    """How often a class was predicted."""

    label: str
    cases: int
    share: float
    """Mean probability of the class among these cases."""


@dataclass(frozen=True, slots=True)
class UnsureCase:
    """A case with its two likeliest classes and their probabilities."""

    name: str
    first: str
    first_share: float
    second: str
    second_share: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PredictionSummary(Summary):
    """Everything on the page of cases without classes."""

    classes: tuple[PredictedClass, ...]
    """Those of training; the commonest prediction first."""
    unsure: tuple[UnsureCase, ...]
    """The least certain first."""
    examples: tuple[Example, ...]
    """Cases to look at, whose label is the predicted one."""

    def content(self, budget: int = BUDGET) -> Content:
        data, left_off = encode_examples(self.examples, budget)
        return Content(
            template="predictions.html",
            parts={
                "classes": self._class_table().html("Predictions of each class"),
                "unsure": self._unsure_table().html("The least certain cases"),
                "examples": fill("examples.html", {"class_word": "Predicted class"}),
            },
            tiles=self._tiles(),
            scripts=SCRIPTS,
            data={**data, "curves": {}, "labelled": False},
            left_off=left_off,
            skip="classes",
        )

    def tables(self) -> list[Table]:
        return [self._class_table(), *([self._unsure_table()] if self.unsure else [])]

    def _class_table(self) -> Table:
        rows = []
        for one in self.classes:
            share = text.percent(one.share) if one.cases else text.ABSENT
            rows.append((Cell(one.label), Cell(f"{one.cases:,}"), Cell(share)))
        meanings = {
            "Cases": "cases that were predicted to be of this class",
            "Mean probability": "of this class among them",
        }
        return Table("Predictions of each class.", ("Class", *meanings), tuple(rows), meanings=meanings)

    def _unsure_table(self) -> Table:
        rows = []
        for one in self.unsure:
            shares = text.percent(one.first_share), text.percent(one.second_share)
            rows.append(tuple(map(Cell, (one.name, one.first, shares[0], one.second, shares[1]))))
        heads = ("Case", "Predicted", "Probability", "Next", "Probability")
        return Table("The least certain cases.", heads, tuple(rows), {1, 3})

    def _tiles(self) -> list[Tile]:
        cases, first = sum(one.cases for one in self.classes), self.classes[0]
        sure = sum(one.cases * one.share for one in self.classes if one.cases) / cases
        return [
            ("Cases", f"{cases:,}", f"of {quantity(len(self.classes), 'class', 'classes')}"),
            ("Commonest prediction", first.label, f"{quantity(first.cases, 'case')}"),
            ("Mean certainty", text.percent(sure), "probability of the predicted class"),
            self.run_time,
        ]
