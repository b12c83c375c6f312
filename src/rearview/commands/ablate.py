"""The `ablate` command: mechanisms and controls on equal terms, and whether attention earns its place."""

from collections.abc import Sequence
from dataclasses import replace

from rearview import attention, bench, models
from rearview.bench.analysis import ablation
from rearview.bench.papers import catalogue
from rearview.bench.papers.catalogue import Cell
from rearview.commands.bench import Grid, Spec, list_cells, preview_cells, run_cells
from rearview.commands.console import output, print_lines
from rearview.commands.sweep import AblationOptions, exit_code
from rearview.core.errors import SettingsError
from rearview.models import pairs


def ablate_command(grid: Grid, options: AblationOptions) -> int:
    """Make the runs, keep their rows, and print a table and a sentence for each network on each data set."""
    options.check()
    _refuse_archive_sets(grid.datasets)
    cells: list[Cell] = []
    for model in dict.fromkeys(grid.models):
        if not models.claims(model).attention:
            raise SettingsError(
                f"{model} has no attention to compare with controls; `rearview bench` runs it as it is."
            )
        # Softmax and the five; toa in the form that trains in this network.
        toa: Spec = {"name": "toa", "score_norm": "l2"} if pairs.try_pair(model, "toa").caution else "toa"
        arms = (*(grid.attentions or ("softmax", "rbca", "caps", "mica", toa, "prime")), *ablation.CONTROL_ARMS)
        own = list_cells(replace(grid, models=(model,), attentions=arms))
        if all(cell.mechanism in ablation.CONTROLS for cell in own):
            named = [attention.split(spec)[0] for spec in grid.attentions if spec is not None]
            reasons = [pair.reason for name in named if (pair := pairs.try_pair(model, name)).reason]
            raise SettingsError(
                f"{model} would be run with controls alone, which is no comparison; name a mechanism that it can take "
                f"with --attention, or leave it out. {' '.join(reasons)}".rstrip()
            )
        cells += own
    if output.get().dry_run:
        return preview_cells(cells, grid, options)
    outcome = run_cells(cells, grid, options)
    if outcome.first:
        done = [row for row in outcome.rows if isinstance(row, bench.Row)]
        made = ablation.compare_arms(done)
        for one in made:
            print_lines([str(one.place), *ablation.table(one), *_remarks(one), one.verdict, ""])
        print_lines([*_lost(done), *_explain(made), *outcome.lines])
    return exit_code(outcome.rows, outcome.first)


def _refuse_archive_sets(names: Sequence[str]) -> None:
    """Refuse sets of classification by the command that runs the same comparison on them."""
    known = {
        cell.dataset.casefold(): cell.dataset for cell in catalogue.get("rearview", "classification-controls").cells
    }
    for name in names:
        if dataset := known.get(name.casefold()):
            tables = " and ".join(
                f"`rearview reproduce rearview --table {table} --dataset {dataset}`"
                for table in ("classification", "classification-controls")
            )
            raise SettingsError(
                f"`rearview ablate` compares forecasts, and {dataset} is a set of classification: {tables} run "
                "mechanisms and controls on it with the same settings."
            )


def _remarks(one: ablation.Ablation) -> list[str]:
    lines = [f"Budgets differ ({', '.join(one.uneven)}): no difference is the mechanism's alone."] if one.uneven else []
    runs = sum(arm.seeds for arm in one.arms)
    if 2 * one.unfinished > runs:
        lines.append(
            f"In {one.unfinished} of {runs} runs the last epoch was the best on validation: train for longer before "
            "going by this (--train epochs=...)."
        )
    return lines


def _lost(rows: list[bench.Row]) -> list[str]:
    """Runs that did not end with a number, which no comparison has."""
    unfinished = [row for row in rows if not ablation.has_error(row)]
    titles = dict.fromkeys(f"{row.model} with {row.attention} on {row.dataset}" for row in unfinished)
    return [f"Left out, {len(unfinished)} runs without a test error: {', '.join(titles)}."] if unfinished else []


def _explain(made: list[ablation.Ablation]) -> list[str]:
    if not made:
        return ["No control and other arm have ended; there is nothing to compare."]
    return [
        "Differences are of the test error in percent of the yardstick's, seed by seed; below 0 the arm is better. "
        f"The {made[0].comparisons} intervals are corrected to hold together with a chance of {ablation.LEVEL:.0%}. "
        "They speak of other seeds of the same network, settings and split, not of other data."
    ]
