"""The page of cases whose true classes nobody knows: how often each class was predicted, and how surely."""

from dataclasses import dataclass
from html import escape

from rearview.core.wording import quantity
from rearview.report.classify.page import Example, encode_examples
from rearview.report.common import text
from rearview.report.common.summary import BUDGET, Content, Summary, Tile
from rearview.report.common.tables import Cell, Table, html_table

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
            parts={"classes": self._class_table(), "unsure": self._unsure_table()},
            tiles=self._tiles(),
            scripts=SCRIPTS,
            data={**data, "curves": {}, "labelled": False},
            left_off=left_off,
            skip="classes",
        )

    def tables(self) -> list[Table]:
        shares = [text.percent(one.share) if one.cases else text.ABSENT for one in self.classes]
        classes = tuple(
            (Cell(one.label), Cell(f"{one.cases:,}"), Cell(share))
            for one, share in zip(self.classes, shares, strict=True)
        )
        unsure = tuple(
            (Cell(one.name), Cell(one.first), Cell(text.percent(one.first_share)),
             Cell(one.second), Cell(text.percent(one.second_share)))
            for one in self.unsure
        )  # fmt: skip
        tables = [Table("Predictions of each class.", ("Class", "Cases", "Mean probability"), classes)]
        heads = ("Case", "Predicted", "Probability", "Next", "Probability")
        return [*tables, Table("The least certain cases.", heads, unsure, {1, 3})] if unsure else tables

    def _tiles(self) -> list[Tile]:
        cases, first = sum(one.cases for one in self.classes), self.classes[0]
        sure = sum(one.cases * one.share for one in self.classes if one.cases) / cases
        return [
            ("Cases", f"{cases:,}", f"of {quantity(len(self.classes), 'class', 'classes')}"),
            ("Commonest prediction", first.label, f"{quantity(first.cases, 'case')}"),
            ("Mean certainty", text.percent(sure), "probability of the predicted class"),
            self.run_time,
        ]

    def _class_table(self) -> str:
        heads = (
            "Class",
            ("Cases", "cases that were predicted to be of this class"),
            ("Mean probability", "of this class among them"),
        )
        rows = "".join(
            f'<tr><th scope="row">{escape(one.label)}</th><td>{one.cases:,}</td>'
            f"<td>{text.percent(one.share) if one.cases else text.ABSENT}</td></tr>"
            for one in self.classes
        )
        return html_table("Predictions of each class", heads, rows)

    def _unsure_table(self) -> str:
        rows = "".join(
            f'<tr><th scope="row">{escape(one.name)}</th><td>{escape(one.first)}</td>'
            f"<td>{text.percent(one.first_share)}</td><td>{escape(one.second)}</td>"
            f"<td>{text.percent(one.second_share)}</td></tr>"
            for one in self.unsure
        )
        return html_table("The least certain cases", ("Case", "Predicted", "Probability", "Next", "Probability"), rows)
