"""Words for messages: lists of names, singular or plural, numbers of things, rows of words as lines."""

from collections.abc import Collection, Sequence


def listing(names: Sequence[object], most: int = 8) -> str:
    """'a', 'b' and 'c'; a long list is cut after `most`."""
    shown = [repr(name) for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def plural(count: int, one: str, several: str) -> str:
    """The word that goes with a number: 'row is' or 'rows are'."""
    return one if count == 1 else several


def name_with_verb(noun: str, names: Sequence[str], one: str = "has", several: str = "have") -> str:
    """'Column 'a' has' or 'Columns 'a' and 'b' have'."""
    return f"{noun}{plural(len(names), '', 's')} {listing(names)} {plural(len(names), one, several)}"


def quantity(number: int, word: str, several: str | None = None) -> str:
    """'1 step', '2,000 steps'; `several` where the plural is another word."""
    return f"{number:,} {word if number == 1 else several or word + 's'}"


def align(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Rows of equally many words as lines, each column one below the other, those of `right` flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            word.rjust(width) if place in right else word.ljust(width)
            for place, (word, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
