"""Tables: one set of cells, with marks for best and second, as HTML, Markdown and LaTeX."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from rearview.report.common import latex, text

Mark = Literal["", "best", "second"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: a text, something smaller beside it, and whether it leads its column."""

    text: str
    beside: str = ""
    mark: Mark = ""
    whole: str = ""
    """The whole text where a page cuts it short, shown under the pointer and in print."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells below heads; the first column names its row."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    words: Set[int] = frozenset()
    """Columns of words, which are set to the left and may break, as the first one always may."""
    sentences: Set[int] = frozenset()
    """Those of them that need room."""
    tags: tuple[str, ...] = ()
    """A word for each row by which a page's script picks rows; empty: it picks none."""
    stacks: bool = False
    """Whether a narrow screen shows the cells of a row one below the other, each with its head."""
    meanings: Mapping[str, str] = field(default_factory=dict)
    """What a head means, shown under the pointer."""

    def html(self, label: str = "") -> str:
        """The table for a page, in a box that scrolls sideways; a `label` for readers' aids stands for the caption."""
        kinds = [
            "" if place not in self.words else "words long" if place in self.sentences else "words"
            for place in range(len(self.heads))
        ]
        tags = [f' data-tag="{escape(tag)}"' for tag in self.tags] or [""] * len(self.rows)
        body = "".join(
            f'<tr{tag}><th scope="row">{_html_name(row[0])}{_html_beside(row[0])}</th>'
            f"{_html_cells(row[1:], kinds[1:], self.heads[1:] if self.stacks else ())}</tr>"
            for tag, row in zip(tags, self.rows, strict=True)
        )
        heads = [(head, self.meanings.get(head, "")) for head in self.heads]
        if label:
            return html_table(label, heads, body, kinds=kinds)
        kind = "named stacks" if self.stacks else "named"
        return html_table(self.caption, heads, body, self.caption, kind=kind, kinds=kinds)

    def markdown(self) -> str:
        """A table of GitHub's Markdown, best bold, second underlined."""
        rules = [":--" if place == 0 or place in self.words else "--:" for place in range(len(self.heads))]
        lines = [list(map(escape_markdown, self.heads)), rules]
        lines += [[_markdown_cell(cell) for cell in row] for row in self.rows]
        caption = [escape_markdown(self.caption), ""] if self.caption else []
        return "\n".join([*caption, *(f"| {' | '.join(line)} |" for line in lines)])

    def tex(self) -> str:
        """A table for LaTeX (`rearview.report.common.latex`), best bold, second underlined."""
        words = frozenset({*self.words, 0})
        rows = [[_tex_cell(cell, place in words) for place, cell in enumerate(row)] for row in self.rows]
        return latex.table(self.caption, self.heads, rows, words)


def html_table(
    label: str,
    heads: Sequence[str | tuple[str, str]],
    body: str,
    caption: str = "",
    *,
    kind: str = "",
    kinds: Sequence[str] = (),
) -> str:
    """Rows of HTML below heads, in a box that scrolls sideways where the page is narrow.

    A head may have a meaning, shown under the pointer; `kind` and `kinds` are classes of the table and its columns.
    """
    cells = []
    for place, head in enumerate(heads):
        name, meaning = (head, "") if isinstance(head, str) else head
        words = f'<abbr title="{escape(meaning)}">{escape(name)}</abbr>' if meaning else escape(name)
        cells.append(f'<th scope="col"{_class(kinds[place] if kinds else "")}>{words}</th>')
    return (
        f'<div class="scroll" role="region" aria-label="{escape(label)}" tabindex="0"><table{_class(kind)}>'
        f"{f'<caption>{escape(caption)}</caption>' if caption else ''}<thead><tr>{''.join(cells)}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def score_cells(means: Sequence[float], stds: Sequence[float | None], *, lower_is_better: bool) -> list[Cell]:
    """A column of numbers with their spreads; NaN for what is absent. Equal to the last digit shown is equal."""
    numbers = text.column(means)
    known = {mean: number for mean, number in zip(means, numbers, strict=True) if mean == mean}
    order = list(dict.fromkeys(number for _, number in sorted(known.items(), reverse=not lower_is_better)))
    marks: dict[str, Mark] = {order[1]: "second", order[0]: "best"} if len(order) > 1 else {}
    cells = []
    for mean, std, number in zip(means, stds, numbers, strict=True):
        # A standard deviation has as many decimals as the mean that it stands beside.
        form = ".1e" if "e" in number else f",.{len(number.partition('.')[2])}f"
        spread = "" if std is None or number == text.ABSENT else f"±{std:{form}}"
        cells.append(Cell(number, spread, marks.get(number, "") if mean == mean else ""))
    return cells


def _class(names: str) -> str:
    return f' class="{names}"' if names else ""


def _html_name(cell: Cell) -> str:
    name = escape(cell.text)
    for mark in "(=_":  # a name may go on in the next line within its settings
        name = name.replace(mark, f"{mark}<wbr>")
    return f'<abbr title="{escape(cell.whole)}">{name}</abbr>' if cell.whole else name


def _html_beside(cell: Cell) -> str:
    return f" <small>{escape(cell.beside)}</small>" if cell.beside else ""


def _html_cells(cells: Sequence[Cell], kinds: Sequence[str] = (), heads: Sequence[str] = ()) -> str:
    """Cells of a row; `kinds` are classes of the columns, `heads` names that the cells carry with them."""
    parts = []
    nothing = [""] * len(cells)
    for cell, kind, head in zip(cells, kinds or nothing, heads or nothing, strict=True):
        inner = escape(cell.text)
        inner = {"best": f"<b>{inner}</b>", "second": f"<u>{inner}</u>", "": inner}[cell.mark]
        named = f' data-head="{escape(head)}"' if head else ""
        parts.append(f"<td{_class(kind)}{named}>{inner}{_html_beside(cell)}</td>")
    return "".join(parts)


def escape_markdown(words: str) -> str:
    """Words in one line, nothing in them a mark of Markdown."""
    for mark in "\\`*_|<>[]":
        words = words.replace(mark, f"\\{mark}")
    return " ".join(words.split())


def _markdown_cell(cell: Cell) -> str:
    inner = escape_markdown(cell.whole or cell.text)
    inner = {"best": f"**{inner}**", "second": f"<u>{inner}</u>", "": inner}[cell.mark]
    return f"{inner} {escape_markdown(cell.beside)}" if cell.beside else inner


def _tex_cell(cell: Cell, breaks: bool) -> latex.TexCell:
    words = cell.whole or cell.text
    inner = latex.breakable(words) if breaks else latex.tex(words)
    inner = {"best": rf"\textbf{{{inner}}}", "second": rf"\underline{{{inner}}}", "": inner}[cell.mark]
    return latex.TexCell(inner, words, cell.beside)
