"""The `classify` command as a person sees it in a terminal."""

from pathlib import Path
from typing import TYPE_CHECKING

from rearview.commands.classify.files import write
from rearview.commands.classify.job import Job, run
from rearview.commands.console import new_console, new_table, print_choices, print_dim, print_end
from rearview.core.output_folder import OutputFolder
from rearview.tasks.confusion import Confusion
from rearview.train import Line

if TYPE_CHECKING:
    from rich.console import Console


BOARD = ("weight", "accuracy", "log loss", "seconds")


def classify_command(job: Job, out: Path, command: str, *, overwrite: bool = False) -> int:
    """Run a classification, write its files and print the result; `command` repeats the run."""
    console = new_console()
    with OutputFolder.claim(out, "classify", inputs=(job.train, job.test), overwrite=overwrite) as folder:
        outcome = run(job, out, progress=Line(), say=print_dim(console))
        written = folder.publish(lambda place: write(outcome, place, command), finished=not outcome.interrupted)
    for finding in outcome.findings:
        console.print(finding.message, style="dim")
    for choices in outcome.classifier.fitted_.plan.sections().values():
        print_choices(console, choices)
    if outcome.standings:
        board = new_table("Leaderboard (training cases, by fits that did not see them)", ["member"], BOARD)
        for member in outcome.standings:
            scores = (f"{member.weight:.2f}", f"{member.accuracy:.3f}", f"{member.log_loss:.3f}")
            board.add_row(member.name, *scores, f"{member.seconds:.1f}")
        console.print()
        console.print(board)
    confusion = outcome.confusion
    console.print(f"\naccuracy {confusion.accuracy:.3f}\nmacro F1 {confusion.macro_f1:.3f}", style="bold")
    _print_confusion(console, confusion)
    table = new_table("Classes", ["class"], ["precision", "recall", "F1", "cases"])
    for one in confusion.by_class():
        table.add_row(one.label, f"{one.precision:.3f}", f"{one.recall:.3f}", f"{one.f1:.3f}", f"{one.cases:,}")
    console.print()
    console.print(table)
    return print_end(console, outcome, out, written)


def _print_confusion(console: "Console", confusion: Confusion) -> None:
    """True classes down, predicted ones across: as plain columns, which many classes fit as well."""
    names = [str(label) for label in confusion.labels]
    first = max(len("true"), *(len(name) for name in names))
    width = max(2, len(str(confusion.counts.max())), *(len(name) for name in names)) + 1
    console.print("\nConfusion (true classes down, predicted across)")
    console.print("true".ljust(first) + "".join(name.rjust(width) for name in names), style="dim")
    for name, counts in zip(names, confusion.counts.tolist(), strict=True):
        console.print(name.ljust(first) + "".join((str(count) if count else ".").rjust(width) for count in counts))
