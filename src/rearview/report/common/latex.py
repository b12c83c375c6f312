"""Tables for LaTeX: text made safe, words broken into lines where a page is too narrow, long tables over pages.

Needs packages that come with every LaTeX. Widths are reckoned for the page of a one-column article, upright or, where
that is too narrow, on its side; columns that break are shares of the line at hand.
"""

import math
import re
import textwrap
from collections.abc import Sequence
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
"""Lines of a table that a page holds; a longer one goes on over pages."""
_CAPITAL, _SMALLER = 1.4, 0.8
"""How wide capitals and smaller type are, in letters of middling width."""
_ROUNDING = 1e-6
_READABLE = 24.0
"""Letters below which a column of words is broken too often to be read."""
_BREAKS = re.compile(r"(?<=[\s=_:+/])|(?<=\w\()")
"""Where words may go on in the next line."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in a table, in LaTeX and as it is read, and plain text that stands beside it in smaller type."""

    code: str
    read: str
    beside: str = ""

    @property
    def length(self) -> float:
        """In letters of middling width."""
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


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a table is set."""

    size: _Size
    line: float
    columns: str
    lines: int
    """What its rows take."""


def tex(words: str) -> str:
    """Text, on one line, in which LaTeX reads nothing but text."""
    safe = "".join(_SIGNS.get(character, character) for character in " ".join(words.split()))
    # Two hyphens are drawn as a dash, which some texts mean and others don't.
    return re.sub("-(?=-)", "-{}", safe).replace("–", "--")


def breakable(words: str) -> str:
    """The same, free to go on in the next line within names and settings."""
    return " ".join(r"\allowbreak{}".join(map(tex, filter(None, _BREAKS.split(word)))) for word in words.split())


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]], words: frozenset[int]) -> str:
    """A table of cells below heads, which are plain text; columns of `words` may be broken into lines."""
    headed = [_head(head, [row[place] for row in rows], place in words) for place, head in enumerate(heads)]
    layout = _layout([[head, *(row[place] for row in rows)] for place, head in enumerate(headed)], words)
    top = [r"\toprule", _row(headed, layout.size), r"\midrule"]
    body = [*(_row(row, layout.size) for row in rows), r"\bottomrule"]
    named = rf"\caption{{{tex(caption)}}}"
    if layout.line > _UPRIGHT or layout.lines > _LINES:
        upright = layout.line == _UPRIGHT
        begin, end = (r"\begingroup", r"\endgroup") if upright else (r"\begin{landscape}", r"\end{landscape}")
        opening = [begin + layout.size.switch, rf"\begin{{longtable}}{{{layout.columns}}}", rf"{named} \\"]
        return "\n".join([*opening, *top, r"\endhead", *body, r"\end{longtable}", end])
    opening = [r"\begin{table}", rf"\centering{layout.size.switch}", named, rf"\begin{{tabular}}{{{layout.columns}}}"]
    return "\n".join([*opening, *top, *body, r"\end{tabular}", r"\end{table}"])


def _row(cells: Sequence[Cell], size: _Size) -> str:
    beside = [f" {{{size.smaller} {tex(cell.beside)}}}" if cell.beside else "" for cell in cells]
    return " & ".join(cell.code + small for cell, small in zip(cells, beside, strict=True)) + r" \\"


def _head(head: str, below: Sequence[Cell], breaks: bool) -> Cell:
    """The head of a column; above numbers in as many lines as it takes to be little wider than they are."""
    widest = math.ceil(max((cell.length for cell in below), default=0))
    lines = textwrap.wrap(head, max(widest, 9), break_long_words=False, break_on_hyphens=False)
    if breaks or len(lines) < 2:
        return Cell(tex(head), head)
    stacked = r" \\ ".join(map(tex, lines))
    return Cell(rf"\begin{{tabular}}[b]{{@{{}}r@{{}}}}{stacked}\end{{tabular}}", max(lines, key=_length))


def _layout(columns: Sequence[Sequence[Cell]], words: frozenset[int]) -> _Layout:
    """The largest type in which columns of cells fit a page upright, else on its side, or the smallest there is."""
    whole = [max(cell.length for cell in column) for column in columns]
    least = [min(max(_longest_word(column), _READABLE), length) for column, length in zip(columns, whole, strict=True)]
    for line, size in product((_UPRIGHT, _SIDEWAYS), _SIZES):
        room = (line - len(columns) * size.gap) / size.letter
        room -= sum(length for place, length in enumerate(whole) if place not in words)
        shares = _shares({place: (least[place], whole[place]) for place in sorted(words)}, room)
        if sum(shares.values()) <= room + _ROUNDING:
            break
    broken = {place: share for place, share in shares.items() if share < whole[place]}
    plain = ["l" if place in words else "r" for place in range(len(columns))]
    for place, share in broken.items():
        plain[place] = rf">{{\raggedright\arraybackslash}}p{{{share * size.letter / line:.3f}\linewidth}}"
    taken = [[math.ceil(cell.length / share) for cell in columns[place]] for place, share in broken.items()]
    lines = sum(map(max, zip(*taken, strict=True))) if taken else len(columns[0])
    return _Layout(size, line, "".join(plain), lines)


def _length(text: str) -> float:
    return sum(_CAPITAL if letter.isupper() else 1.0 for letter in text)


def _longest_word(cells: Sequence[Cell]) -> float:
    return max(_length(part.strip()) for cell in cells for part in _BREAKS.split(cell.read))


def _shares(lengths: dict[int, tuple[float, float]], room: float) -> dict[int, float]:
    """The letters that columns get of a room, none less than its longest word nor more than its longest text."""
    found: dict[int, float] = {}
    left = dict(lengths)
    while left:
        share = (room - sum(found.values())) / len(left)
        settled = {place: whole for place, (_, whole) in left.items() if whole <= share}
        settled = settled or {place: least for place, (least, _) in left.items() if least >= share}
        settled = settled or dict.fromkeys(left, share)
        found |= settled
        left = {place: ends for place, ends in left.items() if place not in settled}
    return found
