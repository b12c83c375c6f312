"""The command that classifies, as a person sees it in a terminal."""

from pathlib import Path
from typing import Any

from rearview.commands.classify.job import Job, Outcome, run, write
from rearview.commands.forecast.console import ended, new_console
from rearview.commands.output_folder import check_folder
from rearview.tasks.confusion import Confusion
from rearview.train import Line


def classify_command(job: Job, out: Path, command: str) -> int:
    """Run a classification, write its files and print what came of it; `command` is how to make the run again."""
    check_folder(out, "classify")
    console = new_console()
    outcome = run(job, out, progress=Line(), say=lambda sentence: console.print(sentence, style="dim"))
    written = write(outcome, out, command)
    _print_choices(console, outcome)
    found = outcome.confusion
    console.print(f"\naccuracy {found.accuracy:.3f}\nmacro F1 {found.macro_f1:.3f}", style="bold")
    _print_confusion(console, found)
    _print_classes(console, found)
    return ended(console, outcome, out, written)


def _print_choices(console: Any, outcome: Outcome) -> None:
    for finding in outcome.findings:
        console.print(finding.message, style="dim")
    for section in outcome.classifier.fitted_.plan.sections().values():
        for name, choice in section.items():
            console.print(f"{name} = {choice.value}  ({choice.reason})", style="dim")


def _print_confusion(console: Any, found: Confusion) -> None:
    """True classes down, predicted ones across: as plain columns, which many classes fit as well."""
    names = [str(label) for label in found.labels]
    first = max(len("true"), *(len(name) for name in names))
    width = max(2, len(str(found.counts.max())), *(len(name) for name in names)) + 1
    console.print("\nConfusion (true classes down, predicted across)")
    console.print("true".ljust(first) + "".join(name.rjust(width) for name in names), style="dim")
    for name, counts in zip(names, found.counts.tolist(), strict=True):
        console.print(name.ljust(first) + "".join((str(count) if count else ".").rjust(width) for count in counts))


def _print_classes(console: Any, found: Confusion) -> None:
    from rich.table import Table

    table = Table(title="Classes", title_justify="left")
    table.add_column("class")
    for column in ("precision", "recall", "F1", "cases"):
        table.add_column(column, justify="right")
    for one in found.by_class():
        table.add_row(one.label, f"{one.precision:.3f}", f"{one.recall:.3f}", f"{one.f1:.3f}", f"{one.cases:,}")
    console.print()
    console.print(table)
