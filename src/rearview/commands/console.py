"""What commands print: answers on standard output, progress on standard error, tables, and how a run ended."""

import io
import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.console import Console

    from rearview.data.panel import Finding
    from rearview.estimators.frames import Columns
    from rearview.tasks.plan import Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How a command prints; the text below a field is its help on the command line."""

    json: bool = False
    """Print one JSON object to standard output, and everything else to standard error."""
    quiet: bool = False
    """Print the result alone: no progress, no tables."""
    verbose: bool = False
    """Print a line for every stage and every epoch, with its time."""
    dry_run: bool = False
    """Read, check and plan; print what would be done and written, but train and write nothing."""


output: ContextVar[Output] = ContextVar("output", default=Output())  # noqa: B039
"""How the command that is running prints."""


class Outcome(Protocol):
    """The end of a run of any kind, as commands print and write it."""

    @property
    def verdict(self) -> str: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def interrupted(self) -> bool: ...
    @property
    def findings(self) -> "Sequence[Finding]": ...
    @property
    def warnings(self) -> Sequence[str]: ...
    @property
    def seconds(self) -> float: ...


def print_lines(lines: Sequence[str]) -> None:
    """Print an answer for a person to read; nothing where there are no lines."""
    if lines:
        (sys.stderr if output.get().json else sys.stdout).write("\n".join(lines) + "\n")


def print_json(facts: Mapping[str, object]) -> None:
    """Print an answer for a program to read, where one is asked for."""
    from rearview.commands.run_files import plain

    if output.get().json:
        escaped = (sys.stdout.encoding or "utf-8").casefold() not in ("utf-8", "utf8")
        sys.stdout.write(json.dumps(plain(facts), indent=1, ensure_ascii=escaped, default=str) + "\n")


def print_answer(lines: Sequence[str], facts: Callable[[], Mapping[str, object]]) -> None:
    """Print an answer as JSON or as text."""
    if output.get().json:
        print_json(facts())
    else:
        print_lines(lines)


def warn(sentence: str) -> None:
    """Print a sentence to standard error, also for a quiet command."""
    sys.stderr.write(f"{sentence}\n")


def say(sentence: str) -> None:
    """Print a line of progress."""
    if not output.get().quiet:
        warn(sentence)


def progress_stream() -> TextIO:
    """The stream for lines of progress; a quiet command discards them."""
    return io.StringIO() if output.get().quiet else sys.stderr


def number_or_dash(number: float, shape: str, unit: str = "") -> str:
    """A number of a table, or a dash for one that does not exist."""
    return "-" if math.isnan(number) else f"{number:{shape}}{unit}"


def new_console() -> "Console":
    """A terminal to print to."""
    from rich.console import Console

    # File and column names are printed as they are: nothing in them is markup.
    shown = output.get()
    return Console(soft_wrap=True, markup=False, highlight=False, emoji=False, stderr=shown.json, quiet=shown.quiet)


def print_table(
    console: "Console", title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[str]
) -> None:
    """Print a table below an empty line; the columns `right` are flush right."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in heads:
        table.add_column(name, justify="right" if name in right else "left")
    for row in rows:
        table.add_row(*row)
    console.print()
    console.print(table)


def print_dim(console: "Console") -> Callable[[str], None]:
    """A printer for lines of progress."""
    return lambda sentence: console.print(sentence, style="dim")


def print_choices(console: "Console", choices: "Mapping[str, Choice[object]]") -> None:
    """Print what was chosen, each with its reason."""
    for line in list_choices(choices):
        console.print(line, style="dim")


def list_choices(*sections: "Mapping[str, Choice[object]]") -> list[str]:
    """A line for each choice, with its reason."""
    chosen = [choice for section in sections for choice in section.items()]
    return [f"{name} = {choice.value}  ({choice.reason})" for name, choice in chosen]


def print_end(
    console: "Console", outcome: Outcome, out: Path, written: Sequence[Path], table: "Mapping[str, Columns]"
) -> int:
    """Print how a run ended and what it left; returns the command's exit code.

    `table` holds the rows of the main file by name, which JSON output has in addition to the facts of the run.
    """
    where = f"Written to {out}: {', '.join(path.name for path in written)}"
    if output.get().quiet and not output.get().json:
        print_lines([outcome.verdict, where])
    console.print(f"\n{outcome.verdict}", style="bold")
    for note in outcome.notes:
        console.print(f"- {note}")
    console.print(f"\n{where}")
    if output.get().json:
        from rearview.commands.run_files import list_records

        facts = json.loads((out / "run.json").read_text(encoding="utf-8"))
        print_json({**facts, "folder": str(out), **{name: list_records(columns) for name, columns in table.items()}})
    if not outcome.interrupted:
        return 0
    resumable = any((out / "checkpoints").glob("*"))
    sentence = f"Interrupted: this is the best model so far{'; --resume takes the run up again' if resumable else ''}."
    (warn if output.get().quiet else console.print)(sentence)
    return 130


def print_preview(lines: Sequence[str], facts: Mapping[str, object], out: Path, files: Sequence[str]) -> int:
    """Print the plan of a run that is not made; returns the command's exit code.

    `files` are those that it would write beside the ones of every run.
    """
    files = [*files, "report.html", "summary.md", "run.json"]
    where = f"Would write to {out}: {', '.join(files)}"
    every = {"dry_run": True, **facts, "folder": str(out), "would_write": files}
    print_answer([*lines, where], lambda: every)
    return 0
