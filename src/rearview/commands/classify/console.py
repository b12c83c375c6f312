"""The terminal output of the `classify` command."""

from pathlib import Path
from typing import TYPE_CHECKING

from rearview.commands.classify.files import prediction_columns, write
from rearview.commands.classify.job import Job, Outcome, read_new, read_pair, run
from rearview.commands.console import (
    list_choices,
    new_console,
    output,
    print_choices,
    print_dim,
    print_end,
    print_preview,
    print_table,
    progress_stream,
)
from rearview.core.output_folder import OutputFolder, check_folder
from rearview.core.wording import quantity
from rearview.estimators.classify.fit import Prepared
from rearview.estimators.classify.portfolio.portfolio import PreparedPortfolio
from rearview.tasks.confusion import Confusion
from rearview.train import Line

if TYPE_CHECKING:
    from rich.console import Console


BOARD = ("weight", "accuracy", "log loss", "seconds")
SCORES = ("precision", "recall", "F1", "cases")


def classify_command(job: Job, out: Path, command: str, *, overwrite: bool = False) -> int:
    """Run a classification, write its files and print the result; `command` repeats the run."""
    if output.get().dry_run:
        return _preview(job, out, overwrite)
    console = new_console()
    with OutputFolder.claim(out, "classify", inputs=(job.train, job.test, job.model), overwrite=overwrite) as folder:
        outcome = run(job, out, progress=Line(progress_stream(), log=output.get().verbose), say=print_dim(console))
        written = folder.publish(lambda place: write(outcome, place, command), finished=not outcome.interrupted)
    if outcome.train is not None:
        _print_training(console, outcome)
    if outcome.labelled:
        _print_scores(console, outcome.confusion)
    return print_end(console, outcome, out, written, {"predictions": prediction_columns(outcome)})


def _preview(job: Job, out: Path, overwrite: bool) -> int:
    """Print what a job would do and write."""
    check_folder(out, "classify", inputs=(job.train, job.test, job.model), overwrite=overwrite)
    files = ["predictions.csv", *(["model"] if job.model is None else [])]
    if job.model is not None:
        classifier, cases = read_new(job, job.model)
        lines = [
            f"Plan: classify {quantity(len(cases), 'case')} of {job.test} with the {classifier.model} of {job.model}."
        ]
        facts: dict[str, object] = {"model": str(job.model), "test": job.test, "cases": len(cases)}
        return print_preview(lines, {**facts, "plan": lines}, out, files)
    train, test, prepared = read_pair(job)
    name = "a portfolio" if isinstance(prepared, PreparedPortfolio) else job.spec.model
    lines = [
        f"Plan: train {name} on {quantity(len(train), 'case')} of {quantity(train.channels, 'channel')} and "
        f"{quantity(len(prepared.classes), 'class', 'classes')}, test once on {quantity(len(test), 'case')}."
    ]
    if isinstance(prepared, Prepared):
        lines += list_choices(*prepared.plan.sections().values())
    facts = {"train": job.train, "test": job.test, "cases": {"train": len(train), "test": len(test)}}
    facts |= {"classes": [str(label) for label in prepared.classes], "plan": lines}
    return print_preview(lines, facts, out, files)


def _print_training(console: "Console", outcome: Outcome) -> None:
    for finding in outcome.findings:
        console.print(finding.message, style="dim")
    for choices in outcome.classifier.fitted_.plan.sections().values():
        print_choices(console, choices)
    if outcome.standings:
        title = "Leaderboard (training cases, by fits that did not see them)"
        rows = (
            (one.name, f"{one.weight:.2f}", f"{one.accuracy:.3f}", f"{one.log_loss:.3f}", f"{one.seconds:.1f}")
            for one in outcome.standings
        )
        print_table(console, title, ("member", *BOARD), rows, right=BOARD)


def _print_scores(console: "Console", confusion: Confusion) -> None:
    console.print(f"\naccuracy {confusion.accuracy:.3f}\nmacro F1 {confusion.macro_f1:.3f}", style="bold")
    _print_confusion(console, confusion)
    rows = (
        (one.label, f"{one.precision:.3f}", f"{one.recall:.3f}", f"{one.f1:.3f}", f"{one.cases:,}")
        for one in confusion.by_class()
    )
    print_table(console, "Classes", ("class", *SCORES), rows, right=SCORES)


def _print_confusion(console: "Console", confusion: Confusion) -> None:
    """True classes down, predicted ones across: as plain columns, which many classes fit as well."""
    names = [str(label) for label in confusion.labels]
    first = max(len("true"), *(len(name) for name in names))
    width = max(2, len(str(confusion.counts.max())), *(len(name) for name in names)) + 1
    console.print("\nConfusion (true classes down, predicted across)")
    console.print("true".ljust(first) + "".join(name.rjust(width) for name in names), style="dim")
    for name, counts in zip(names, confusion.counts.tolist(), strict=True):
        console.print(name.ljust(first) + "".join((str(count) if count else ".").rjust(width) for count in counts))
