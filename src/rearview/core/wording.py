"""Words for messages: lists of names, singular or plural, numbers of things."""

from collections.abc import Sequence


def listing(names: Sequence[object], most: int = 8) -> str:
    """'a', 'b' and 'c'; a long list is cut after `most`."""
    shown = [repr(name) for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def plural(count: int, one: str, several: str) -> str:
    """The word that goes with a number: 'row is' or 'rows are'."""
    return one if count == 1 else several


def quantity(number: int, word: str, several: str | None = None) -> str:
    """'1 step', '2,000 steps'; `several` where the plural is another word."""
    return f"{number:,} {word if number == 1 else several or word + 's'}"
