"""The `ablate` command: mechanisms and controls on equal terms, and whether attention earns its place."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rearview import attention, models
from rearview.bench import protocols, tasks
from rearview.bench.analysis import ablation
from rearview.bench.papers.catalogue import Cell
from rearview.bench.rows.row import RunRow
from rearview.bench.tasks import FORECASTING, Task
from rearview.commands.bench import Grid, Spec, list_cells, preview_cells, run_cells
from rearview.commands.benchmark_sets import find_task
from rearview.commands.console import output, print_lines
from rearview.commands.sweep import AblationOptions, exit_code
from rearview.core.errors import SettingsError, UsageError
from rearview.core.grouping import group_by
from rearview.models import pairs

_STEPS = 96
"""The horizon and the look-back of a forecast that is asked for without."""


def ablate_command(grid: Grid, options: AblationOptions) -> int:
    """Make the runs, keep their rows, and print a table and a sentence for each network on each data set."""
    options.check()
    grid = _settle_task(grid, options)
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
        made = ablation.compare_arms(outcome.rows)
        for one in made:
            print_lines([str(one.place), *ablation.table(one), *_remarks(one), one.verdict, ""])
        print_lines([*_lost(outcome.rows), *_explain(made), *outcome.lines])
    return exit_code(outcome.rows, outcome.first)


def _settle_task(grid: Grid, options: AblationOptions) -> Grid:
    """The grid with the task of its data sets and the sizes of its windows; sets of several tasks are refused, and so
    are options that runs of the task don't have."""
    task, datasets = _find_task(grid.datasets, options.data_dir)
    if task is FORECASTING:
        return replace(grid, horizons=grid.horizons or (_STEPS,), lookbacks=grid.lookbacks or (_STEPS,))
    flags = {
        "--horizon": grid.horizons,
        "--lookback": grid.lookbacks if task is tasks.CLASSIFICATION else (),
        "--try": grid.tried,
        "--tune": grid.trials,
        "--presets": options.presets,
    }
    if given := [flag for flag, value in flags.items() if value]:
        raise UsageError(
            f"Runs of {task.name} have no {', '.join(given)}; leave {'it' if len(given) == 1 else 'them'} out."
        )
    if reason := options.obstacle(task, grid.protocol):
        raise SettingsError(f"{reason[0].upper()}{reason[1:]}.")
    if choice := protocols.get(grid.protocol).test_chooses.get(task.name):
        raise SettingsError(
            f"Under {grid.protocol} {choice}, but in a comparison of controls test rows may choose nothing: leave out "
            "--protocol."
        )
    return replace(grid, task=task.name, datasets=datasets, horizons=(None,), lookbacks=grid.lookbacks or (None,))


def _find_task(names: Sequence[str], data_dir: Path | None) -> tuple[Task, list[str]]:
    """(the task of all data sets, their names)."""
    sets = group_by([find_task(name, data_dir) for name in names], lambda found: found[0])
    if len(sets) > 1:
        listed = ", ".join(f"{task} ({', '.join(name for _, name in found)})" for task, found in sets.items())
        raise SettingsError(f"The data sets are of several tasks: {listed}. Run `rearview ablate` once for each task.")
    [(task, found)] = sets.items()
    return tasks.get(task), [name for _, name in found]


def _remarks(one: ablation.Ablation) -> list[str]:
    lines = [f"Budgets differ ({', '.join(one.uneven)}): no difference is the mechanism's alone."] if one.uneven else []
    runs = sum(arm.seeds for arm in one.arms)
    if 2 * one.unfinished > runs:
        lines.append(
            f"In {one.unfinished} of {runs} runs the last epoch was the best on validation: train for longer before "
            "going by this (--train epochs=...)."
        )
    return lines


def _lost(rows: Sequence[RunRow]) -> list[str]:
    """Runs that did not end with numbers, which no comparison has."""
    unfinished = [row for row in rows if not ablation.has_score(row)]
    titles = dict.fromkeys(f"{row.model} with {row.attention} on {row.dataset}" for row in unfinished)
    what = "a test error" if not rows or tasks.task_of(rows[0]) is FORECASTING else "a score"
    return [f"Left out, {len(unfinished)} runs without {what}: {', '.join(titles)}."] if unfinished else []


_DIFFERENCES = {
    tasks.FORECASTING: "Differences are of the test error in percent of the yardstick's, seed by seed; below 0 the arm "
    "is better.",
    tasks.CLASSIFICATION: "Differences are of the test accuracy in points of a hundred, seed by seed; above 0 the arm "
    "is better. Validation is the share of held-out cases that are classified wrong.",
    tasks.DETECTION: "Differences are of the score on the test rows in points of a hundred, seed by seed; above 0 the "
    "arm is better. Validation is the error on held-out rows, which have no labels: the control that is best by it "
    "need not be the one that detects best.",
}


def _explain(made: Sequence[ablation.Ablation]) -> list[str]:
    if not made:
        return ["No control and other arm have ended; there is nothing to compare."]
    return [
        f"{_DIFFERENCES[made[0].task]} The {made[0].comparisons} intervals are corrected to hold together with a "
        f"chance of {ablation.LEVEL:.0%}. They speak of other seeds of the same network, settings and split, not of "
        "other data."
    ]
