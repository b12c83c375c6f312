"""A table once, as HTML, Markdown and LaTeX: the same cells, the same marks for best and second."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from rearview.report.common import latex, text

Mark = Literal["", "best", "second"]


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in a table: a text, something smaller beside it, and whether it leads its column."""

    text: str
    beside: str = ""
    mark: Mark = ""
    whole: str = ""
    """Where the text is cut short on a page: all of it, shown under the pointer and in print."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells below heads; the first column names its row."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    words: frozenset[int] = frozenset()
    """Columns of words, which are set to the left and may break; the first one is always so."""
    sentences: frozenset[int] = frozenset()
    """Those of them that need room."""
    tags: tuple[str, ...] = ()
    """A word for each row that a page's script picks rows by; none: no row is picked."""

    def html(self) -> str:
        """The table in a box that scrolls sideways where the page is narrow."""
        head = "".join(
            f'<th scope="col"{self._class(place)}>{escape(name)}</th>' for place, name in enumerate(self.heads)
        )
        tags = [f' data-tag="{escape(tag)}"' for tag in self.tags] or [""] * len(self.rows)
        body = "".join(
            f'<tr{tag}><th scope="row">{_html_name(row[0])}</th>{self._cells(row)}</tr>'
            for tag, row in zip(tags, self.rows, strict=True)
        )
        return (
            f'<div class="scroll" role="region" aria-label="{escape(self.caption)}" tabindex="0"><table class="named">'
            f"<caption>{escape(self.caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def markdown(self) -> str:
        """A table of GitHub's Markdown, best bold, second underlined."""
        rules = [":--" if place == 0 or place in self.words else "--:" for place in range(len(self.heads))]
        lines = [list(map(_markdown, self.heads)), rules]
        lines += [[_markdown_cell(cell) for cell in row] for row in self.rows]
        return "\n".join([_markdown(self.caption), "", *(f"| {' | '.join(line)} |" for line in lines)])

    def tex(self) -> str:
        """A table for LaTeX (`rearview.report.common.latex`), best bold, second underlined."""
        words = self.words | {0}
        rows = [[_tex_cell(cell, place in words) for place, cell in enumerate(row)] for row in self.rows]
        return latex.table(self.caption, self.heads, rows, words)

    def _cells(self, row: tuple[Cell, ...]) -> str:
        return "".join(f"<td{self._class(place)}>{_html_cell(cell)}</td>" for place, cell in enumerate(row) if place)

    def _class(self, place: int) -> str:
        if place not in self.words:
            return ""
        return ' class="words long"' if place in self.sentences else ' class="words"'


def measured(means: Sequence[float], stds: Sequence[float | None], *, lower_is_better: bool) -> list[Cell]:
    """A column of numbers with their spreads; NaN for what is absent. Equal to the last digit shown is equal."""
    shown = text.column(means)
    known = sorted(
        {mean: word for mean, word in zip(means, shown, strict=True) if mean == mean}.items(),
        reverse=not lower_is_better,
    )
    order = list(dict.fromkeys(word for _, word in known))
    marks: dict[str, Mark] = {}
    if len(order) > 1:
        marks = {order[1]: "second", order[0]: "best"}
    return [
        Cell(word, _spread(std, word), marks.get(word, "") if mean == mean else "")
        for mean, std, word in zip(means, stds, shown, strict=True)
    ]


def _spread(std: float | None, beside: str) -> str:
    """A standard deviation to as many decimals as the mean that it stands beside."""
    if std is None or beside == text.ABSENT:
        return ""
    if "e" in beside:
        return f"±{std:.1e}"
    return f"±{std:,.{len(beside.partition('.')[2])}f}"


def _breakable(name: str) -> str:
    """A name that may go on in the next line within its settings."""
    words = escape(name)
    for mark in "(=_":
        words = words.replace(mark, f"{mark}<wbr>")
    return words


def _html_name(cell: Cell) -> str:
    name = _breakable(cell.text)
    return f'<abbr title="{escape(cell.whole)}">{name}</abbr>' if cell.whole else name


def _html_cell(cell: Cell) -> str:
    inner = escape(cell.text)
    inner = {"best": f"<b>{inner}</b>", "second": f"<u>{inner}</u>", "": inner}[cell.mark]
    return f"{inner} <small>{escape(cell.beside)}</small>" if cell.beside else inner


def _markdown(words: str) -> str:
    for mark in "\\`*_|<>[]":
        words = words.replace(mark, f"\\{mark}")
    return " ".join(words.split())


def _markdown_cell(cell: Cell) -> str:
    inner = _markdown(cell.whole or cell.text)
    inner = {"best": f"**{inner}**", "second": f"<u>{inner}</u>", "": inner}[cell.mark]
    return f"{inner} {_markdown(cell.beside)}" if cell.beside else inner


def _tex_cell(cell: Cell, breaks: bool) -> latex.Cell:
    words = cell.whole or cell.text
    inner = latex.breakable(words) if breaks else latex.tex(words)
    inner = {"best": rf"\textbf{{{inner}}}", "second": rf"\underline{{{inner}}}", "": inner}[cell.mark]
    return latex.Cell(inner, words, cell.beside)
