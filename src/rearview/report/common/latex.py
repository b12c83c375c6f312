"""Tables for LaTeX: text made safe, words broken into lines where a page is too narrow, long tables over pages.

Needs packages that come with every LaTeX. Widths are estimated for the page of a one-column article, upright or, where
that is too narrow, on its side; columns that break are shares of the line at hand.
"""

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

PACKAGES = ("array", "booktabs", "longtable", "lscape")

_SIGNS = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "±": r"$\pm$", "−": "$-$", "×": r"$\times$", "…": r"\ldots{}",
    # The end of a row reads a star or an opening bracket behind it as its own.
    "[": "{[}", "*": "{*}",
}  # fmt: skip

_UPRIGHT, _SIDEWAYS = 345.0, 550.0
"""Points of a line."""
_LINES = 45
"""Lines of a table on a page; a longer table goes on over pages."""
_CAPITAL, _SMALLER = 1.4, 0.8
"""Widths of capitals and of smaller type, in letters of average width."""
_ROUNDING = 1e-6
_READABLE = 24.0
"""Letters below which a column of words is broken too often to be read."""
_BREAKS = re.compile(r"(?<=[\s=_:+/])|(?<=\w\()")
"""Places at which words may go on in the next line."""


@dataclass(frozen=True, slots=True)
class TexCell:
    """One cell: its LaTeX, the text a reader sees, and plain text beside it in smaller type."""

    code: str
    read: str
    beside: str = ""

    @property
    def length(self) -> float:
        """In letters of average width."""
        return _length(self.read) + (1.0 + _SMALLER * _length(self.beside) if self.beside else 0.0)


@dataclass(frozen=True, slots=True)
class _Size:
    """A size of type: what switches to it and to a smaller one, and the points of a letter and between two columns."""

    switch: str
    smaller: str
    letter: float
    gap: float


_SIZES = (
    _Size("", r"\scriptsize", 5.2, 12.0),
    _Size(r"\footnotesize\setlength{\tabcolsep}{3pt}", r"\tiny", 4.7, 6.0),
    _Size(r"\scriptsize\setlength{\tabcolsep}{2pt}", r"\tiny", 4.3, 4.0),
)


def tex(words: str) -> str:
    """Text, on one line, in which LaTeX reads nothing but text."""
    safe = "".join(_SIGNS.get(character, character) for character in " ".join(words.split()))
    # Two hyphens are drawn as a dash, which some texts mean and others don't.
    return re.sub("-(?=-)", "-{}", safe).replace("–", "--")


def breakable(words: str) -> str:
    """The same, free to go on in the next line within names and settings."""
    return " ".join(r"\allowbreak{}".join(map(tex, filter(None, _BREAKS.split(word)))) for word in words.split())


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[TexCell]], words: frozenset[int]) -> str:
    """A table of cells below heads, which are plain text; columns of `words` may be broken into lines."""
    columns = [[row[place] for row in rows] for place in range(len(heads))]
    first = [
        TexCell(tex(head), head) if place in words else _stack(head, columns[place]) for place, head in enumerate(heads)
    ]
    size, line, form, lines = _lay_out([[head, *column] for head, column in zip(first, columns, strict=True)], words)

    def row(cells: Sequence[TexCell]) -> str:
        beside = [f" {{{size.smaller} {tex(cell.beside)}}}" if cell.beside else "" for cell in cells]
        return " & ".join(cell.code + small for cell, small in zip(cells, beside, strict=True)) + r" \\"

    top = [r"\toprule", row(first), r"\midrule"]
    body = [*map(row, rows), r"\bottomrule"]
    title = rf"\caption{{{tex(caption)}}}"
    if line > _UPRIGHT or lines > _LINES:
        upright = line == _UPRIGHT
        begin, end = (r"\begingroup", r"\endgroup") if upright else (r"\begin{landscape}", r"\end{landscape}")
        opening = [begin + size.switch, rf"\begin{{longtable}}{{{form}}}", rf"{title} \\"]
        return "\n".join([*opening, *top, r"\endhead", *body, r"\end{longtable}", end])
    opening = [r"\begin{table}", rf"\centering{size.switch}", title, rf"\begin{{tabular}}{{{form}}}"]
    return "\n".join([*opening, *top, *body, r"\end{tabular}", r"\end{table}"])


def _stack(head: str, below: Sequence[TexCell]) -> TexCell:
    """The head of a column of numbers, in as many lines as it takes to be little wider than they are."""
    widest = math.ceil(max((cell.length for cell in below), default=0))
    lines = textwrap.wrap(head, max(widest, 9), break_long_words=False, break_on_hyphens=False)
    if len(lines) < 2:
        return TexCell(tex(head), head)
    stack = r" \\ ".join(map(tex, lines))
    return TexCell(rf"\begin{{tabular}}[b]{{@{{}}r@{{}}}}{stack}\end{{tabular}}", max(lines, key=_length))


def _lay_out(columns: Sequence[Sequence[TexCell]], words: frozenset[int]) -> tuple[_Size, float, str, int]:
    """(type, points of a line, form of the columns, lines of the rows): the largest type in which the cells fit a page
    upright, else on its side, or the smallest there is."""
    whole = [max(cell.length for cell in column) for column in columns]
    least = []
    for column, length in zip(columns, whole, strict=True):
        longest = max(_length(part.strip()) for cell in column for part in _BREAKS.split(cell.read))
        least.append(min(max(longest, _READABLE), length))
    for line, size in product((_UPRIGHT, _SIDEWAYS), _SIZES):
        room = (line - len(columns) * size.gap) / size.letter
        room -= sum(length for place, length in enumerate(whole) if place not in words)
        shares = _share_room({place: (least[place], whole[place]) for place in sorted(words)}, room)
        if sum(shares.values()) <= room + _ROUNDING:
            break
    narrow = {place: share for place, share in shares.items() if share < whole[place]}
    forms = ["l" if place in words else "r" for place in range(len(columns))]
    for place, share in narrow.items():
        forms[place] = rf">{{\raggedright\arraybackslash}}p{{{share * size.letter / line:.3f}\linewidth}}"
    heights = [[math.ceil(cell.length / share) for cell in columns[place]] for place, share in narrow.items()]
    lines = sum(map(max, zip(*heights, strict=True))) if heights else len(columns[0])
    return size, line, "".join(forms), lines


def _length(text: str) -> float:
    return sum(_CAPITAL if letter.isupper() else 1.0 for letter in text)


def _share_room(lengths: Mapping[int, tuple[float, float]], room: float) -> dict[int, float]:
    """The letters that each column gets, none less than its longest word nor more than its longest text."""
    shares: dict[int, float] = {}
    while left := {place: ends for place, ends in lengths.items() if place not in shares}:
        share = (room - sum(shares.values())) / len(left)
        shares |= (
            {place: whole for place, (_, whole) in left.items() if whole <= share}
            or {place: least for place, (least, _) in left.items() if least >= share}
            or dict.fromkeys(left, share)
        )
    return shares
