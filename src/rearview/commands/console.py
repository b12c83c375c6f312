"""What commands print: answers on standard output, progress on standard error, text tables."""

import sys
from collections.abc import Sequence


def print_lines(lines: Sequence[str]) -> None:
    """Print an answer; nothing where there are no lines."""
    if lines:
        sys.stdout.write("\n".join(lines) + "\n")


def say(sentence: str) -> None:
    """Print a line of progress."""
    sys.stderr.write(f"{sentence}\n")


def align(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Rows of equally many words as lines, each column one below the other, those of `right` flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            word.rjust(width) if place in right else word.ljust(width)
            for place, (word, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
