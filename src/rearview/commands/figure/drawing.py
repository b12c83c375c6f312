"""A drawing: the table, the figures and the sentence that stand for a figure of a paper."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rearview.bench.rows.row import Facts
from rearview.core.files import read_yaml
from rearview.report.common.tables import Cell, Table
from rearview.report.results.study import Diagram, Figure, View


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureOptions:
    """The options of a figure."""

    dataset: str | None = None
    """Another data set than the paper's."""
    training: Facts | None = None
    """Settings of the training on top of the published ones."""
    seed: int = 0
    data_dir: Path | None = None
    device: str = "auto"
    results: tuple[str, ...] = ()
    """Files of rows, or patterns of their names."""

    def changed_flags(self, used: Sequence[str]) -> list[str]:
        """The flags that were given although a figure of the kind has no use for them."""
        given = {
            "--dataset": self.dataset, "--train": self.training, "--seed": self.seed, "--data-dir": self.data_dir,
            "--device": self.device != "auto", "--results": self.results,
        }  # fmt: skip
        return [flag for flag, value in given.items() if value and flag not in used]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawing:
    """The content drawn for a figure of a paper."""

    verdict: str
    """What it shows, in a sentence or two."""
    table: Table
    figures: tuple[Figure, ...]
    diagrams: tuple[Diagram, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    """Data and budget, for the page."""
    settings: Mapping[str, Mapping[str, tuple[object, str]]] | None = None
    notes: tuple[str, ...] = ()


FigureSpec = Mapping[str, Any]
"""What exhibits.yaml says of a figure: its kind, and what that kind needs."""


def draw_figure(name: str, views: Iterable[View], **facts: object) -> Figure:
    """A figure with the words that figures.yaml has for it."""
    words = read_yaml("rearview.commands.figure", "figures")[name]
    return Figure(**{**words, "about": words["about"].format(**facts)}, views=tuple(views))


def tabulate(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table of plain words."""
    return Table(caption, tuple(heads), tuple(tuple(map(Cell, row)) for row in rows))
