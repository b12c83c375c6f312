"""Which candidates can be compared over which blocks: the rectangles without a hole in a table of what was run.

Not everything is run everywhere, so many candidates share few blocks and few share many. One rectangle can't show both:
whoever adds runs of some candidates would push others off the page. So the largest are shown side by side.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

Block = tuple[str, int | None, int] | tuple[str, int | None]

MOST = 3
"""Rectangles that are shown of one table."""


@dataclass(frozen=True, slots=True)
class Rectangle:
    """Candidates that all have the same blocks, to which none can be added."""

    names: tuple[str, ...]
    blocks: tuple[Block, ...]

    @property
    def worth(self) -> tuple[int, int]:
        """The freedom that it leaves a test, then its cells; many candidates on one block leave none."""
        return (len(self.names) - 1) * (len(self.blocks) - 1), len(self.names) * len(self.blocks)


def rectangles(table: Mapping[str, Collection[Block]]) -> list[Rectangle]:
    """Every rectangle that two candidates span by the blocks they share (`table`: each one's own), the largest first.

    All of them are maximal: whoever else has the blocks is in it, and the two have no other block in common.
    """
    own = list(dict.fromkeys(frozenset(blocks) for blocks in table.values()))
    found = []
    for shared in dict.fromkeys(first & second for first in own for second in own):
        names = tuple(name for name, blocks in table.items() if shared <= set(blocks))
        if shared and len(names) > 1:
            found.append(Rectangle(names, tuple(block for block in table[names[0]] if block in shared)))
    return sorted(found, key=lambda rectangle: rectangle.worth, reverse=True)


def telling(found: Sequence[Rectangle]) -> list[Rectangle]:
    """The first, and a few after it that have several blocks and a candidate or a block that those before lack."""
    chosen: list[Rectangle] = []
    for one in found:
        names = {name for each in chosen for name in each.names}
        blocks = {block for each in chosen for block in each.blocks}
        fresh = not names.issuperset(one.names) or not blocks.issuperset(one.blocks)
        if not chosen or (fresh and len(one.blocks) > 1):
            chosen.append(one)
    return chosen[:MOST]
