"""What commands print: answers on standard output, progress on standard error, tables, and how a run ended."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from rearview.tasks.plan import Choice


class Outcome(Protocol):
    """The end of a run of any kind, as commands print it."""

    @property
    def verdict(self) -> str: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def interrupted(self) -> bool: ...


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


def number_or_dash(number: float, shape: str, unit: str = "") -> str:
    """A number of a table, or a dash for one that does not exist."""
    return "-" if math.isnan(number) else f"{number:{shape}}{unit}"


def new_console() -> "Console":
    """A terminal to print to."""
    from rich.console import Console

    # File and column names are printed as they are: nothing in them is markup.
    return Console(soft_wrap=True, markup=False, highlight=False, emoji=False)


def new_table(title: str, left: Sequence[str], right: Sequence[str] = ()) -> "Table":
    """A table whose columns `right` are flush right."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    return table


def print_dim(console: "Console") -> Callable[[str], None]:
    """A printer for lines of progress."""
    return lambda sentence: console.print(sentence, style="dim")


def print_choices(console: "Console", choices: "Mapping[str, Choice[object]]") -> None:
    """Print what was chosen, each with its reason."""
    for name, choice in choices.items():
        console.print(f"{name} = {choice.value}  ({choice.reason})", style="dim")


def print_end(console: "Console", outcome: Outcome, out: Path, written: Sequence[Path]) -> int:
    """Print how a run ended and what it left; returns the command's exit code."""
    console.print(f"\n{outcome.verdict}", style="bold")
    for note in outcome.notes:
        console.print(f"- {note}")
    console.print(f"\nWritten to {out}: {', '.join(path.name for path in written)}")
    if not outcome.interrupted:
        return 0
    kept = any((out / "checkpoints").glob("*"))
    console.print(f"Interrupted: this is the best model so far{'; --resume takes the run up again' if kept else ''}.")
    return 130
