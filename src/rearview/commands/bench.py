"""The `bench` command: every network x mechanism x data set x horizon x look-back x seed of a grid."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any

from rearview import attention, bench, models
from rearview.bench import tasks
from rearview.bench.papers.catalogue import Cell, combinations
from rearview.bench.rows import result_file
from rearview.bench.rows.row import RunRow
from rearview.bench.runs import search, tuning
from rearview.bench.runs.run_spec import known_settings
from rearview.bench.runs.sweep import Run, SweepPlan, first_process
from rearview.bench.runs.tuning import Tuning, Values
from rearview.commands import benchmark_sets
from rearview.commands.console import output, print_answer, say
from rearview.commands.sweep import RunOptions, exit_code, late_lines, make_runs, preview
from rearview.core.errors import RearviewError, SettingsError, did_you_mean
from rearview.data.datasets import catalogue
from rearview.estimators.base import resolve_device
from rearview.models import pairs

Spec = str | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The axes of a grid, and what every run of it has."""

    datasets: Sequence[str]
    models: Sequence[str]
    attentions: Sequence[Spec]
    horizons: Sequence[int | None]
    """None, as of the look-backs: the task leaves none to choose, or has one of its own."""
    lookbacks: Sequence[int | None]
    task: str = tasks.FORECASTING.name
    seed: int = 0
    protocol: str = "clean"
    loss: Spec = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the networks that have them."""
    training: Mapping[str, Any] = field(default_factory=dict)
    tried: Mapping[str, Values] = field(default_factory=dict)
    """Settings to try, each with its values or the range to draw from."""
    trials: int | None = None
    """Combinations to draw; None: every one is tried."""
    again: bool = False


@dataclass(frozen=True, slots=True)
class GridOutcome:
    """The outcome of the runs of a grid."""

    rows: list[RunRow]
    """Of all runs that were begun, failed ones included."""
    first: bool
    """Whether this process is the one that speaks."""
    lines: list[str]
    """Lines on the file of the rows, and on runs that there was no time for."""


def bench_command(grid: Grid, options: RunOptions) -> int:
    """Make every run of a grid once, keep its row, and print a table."""
    if output.get().dry_run:
        return preview_cells(list_cells(grid), grid, options)
    outcome = run_cells(list_cells(grid), grid, options)
    if outcome.first:
        done = [row for row in outcome.rows if isinstance(row, bench.Row) and row.status == "done"]
        print_answer(
            [*(bench.table(done) if done else []), *outcome.lines],
            lambda: {
                "results": str(options.results),
                "rows": [asdict(row) for row in outcome.rows],
                "notes": outcome.lines,
            },
        )
    return exit_code(outcome.rows, outcome.first)


def preview_cells(cells: Sequence[Cell], grid: Grid, options: RunOptions) -> int:
    """Print which runs the cells of a grid would make, and which of them the results hold already."""
    _, runs, plan = plan_runs(cells, grid, options)
    known = _known_rows(tasks.get(grid.task), plan)
    left, lines = preview(runs, known, plan.results)
    facts = {"dry_run": True, "results": str(plan.results), "runs": left, "finished": len(runs) - len(left)}
    print_answer(lines, lambda: facts)
    return 0


def list_cells(grid: Grid) -> list[Cell]:
    """The cells of a grid whose network and mechanism go together."""
    specs = {repr(spec): {"name": spec} if isinstance(spec, str) else spec for spec in grid.attentions}
    sizes = product(dict.fromkeys(grid.lookbacks), dict.fromkeys(grid.horizons))
    return _compatible(
        [
            Cell(dataset, model, spec, lookback, horizon, grid.task, loss=grid.loss)
            for dataset, (lookback, horizon), model, spec in product(
                _list_sets(grid), sizes, dict.fromkeys(grid.models), specs.values()
            )
        ]
    )


def run_cells(cells: Sequence[Cell], grid: Grid, options: RunOptions) -> GridOutcome:
    """Make every run of these cells once, with what every run of their grid has, and keep its row."""
    cells, runs, plan = plan_runs(cells, grid, options)
    first = first_process(plan.device)
    rows = make_runs(runs, plan, options, options.seconds)
    late = late_lines(rows, len(cells) * options.seeds, options.seconds)
    return GridOutcome(rows, first, [*([f"Rows in {plan.results}"] if rows else []), *late])


def plan_runs(cells: Sequence[Cell], grid: Grid, options: RunOptions) -> tuple[list[Cell], list[Run], SweepPlan]:
    """The cells with what their grid says, and their runs; one that can't be made is refused."""
    options.check()
    cells = _add_trials(cells, grid.tried, grid.trials)
    cells = _add_training(_add_settings(cells, grid.settings), grid.training)
    _report_unequal_trials(cells)
    plan = options.plan(grid.protocol, grid.seed, results=options.results, again=grid.again)
    return cells, _check_first(cells, plan), plan


def _list_sets(grid: Grid) -> list[str]:
    """Data sets by the names given, each once; where forecasts are made, the refusal of a set of another task says
    which command runs it."""
    if grid.task != tasks.FORECASTING.name:
        return list(dict.fromkeys(grid.datasets))
    sets: dict[str, str] = {}
    for name in grid.datasets:
        try:
            sets.setdefault(catalogue.get(name).name, name)
        except SettingsError:
            if words := benchmark_sets.describe_set(name):
                raise SettingsError(f"`rearview bench` runs forecasting sets. {words}") from None
            raise
    return list(sets.values())


def _compatible(cells: Sequence[Cell]) -> list[Cell]:
    """The cells whose network and mechanism go together; why others don't is said, and they are left out.

    A network without attention beside others is run once, as it is. Where no pair is possible, the first is refused.
    """
    known = (*models.names(), *models.external_names())
    named = {(cell.model, name) for cell in cells if (name := cell.mechanism) in attention.names()}
    requested = sorted(pair for pair in named if pair[0] in known)
    plain = {model for model, _ in requested if not models.claims(model).attention}
    refusals = {pair: pairs.try_pair(*pair).reason for pair in requested if pair[0] not in plain}
    if not refusals:
        return list(cells)
    if all(refusals.values()) and not plain:
        raise SettingsError(next(iter(refusals.values())))
    for (model, name), reason in refusals.items():
        if reason:
            say(f"left out: {model} with {name}: {reason}")
    compatible: list[Cell] = []
    for cell in cells:
        if not refusals.get((cell.model, cell.mechanism)):
            cell = replace(cell, attention=None) if cell.model in plain else cell
            compatible += [] if cell in compatible else [cell]
    return compatible


def _add_settings(cells: Sequence[Cell], settings: Mapping[str, Any]) -> list[Cell]:
    """Cells with those of the settings that their networks have; a setting that only some have is named, one that none
    has is refused."""
    has = {cell.model: known_settings(cell.model, cell.task) for cell in cells}
    left: dict[str, list[str]] = {}
    for name, value in settings.items():
        without = [model for model in has if name not in has[model]]
        if len(without) == len(has):
            every = list(dict.fromkeys(each for names in has.values() for each in names))
            raise SettingsError(
                f"--set names {name!r}, which is no setting of {', '.join(has)}.{did_you_mean(name, every)} "
                f"Known: {', '.join(sorted(every))}."
            )
        if without:
            left.setdefault(", ".join(without), []).append(f"{name}={value}")
    for networks, given in left.items():
        say(f"--set {','.join(given)} leaves {networks} as published: no such setting there.")
    return [
        replace(cell, settings={name: settings[name] for name in settings if name in has[cell.model]}) for cell in cells
    ]


def _add_training(cells: Sequence[Cell], training: Mapping[str, Any]) -> list[Cell]:
    """Cells with the settings of the training; those that have nothing to train without, unless none has."""
    trains = {cell.model: models.claims(cell.model).trains for cell in cells}
    if not training or not any(trains.values()):
        return [replace(cell, training=training) for cell in cells]
    without = [model for model, learns in trains.items() if not learns]
    if without:
        say(f"--train leaves {', '.join(without)} as published: nothing to train there.")
    return [replace(cell, training=training if trains[cell.model] else {}) for cell in cells]


def _add_trials(cells: Sequence[Cell], tried: Mapping[str, Values], trials: int | None) -> list[Cell]:
    """Cells with those of the tried settings that their networks, mechanisms and trainings have."""
    if not tried:
        if trials is not None:
            raise SettingsError(
                "--tune needs --try, which says what to draw, such as --try learning_rate=1e-4..1e-2:log."
            )
        return list(cells)
    if trials is not None:
        tuning.require()
    spaces = [search.route(cell.model, cell.attention, tried) for cell in cells]
    for name in tried:
        if not any(name == full.rpartition(".")[2] for space in spaces for full in space):
            parts = dict.fromkeys(part for cell in cells for part in (cell.model, cell.mechanism) if part)
            known = list(
                dict.fromkeys(each for cell in cells for each in search.known_settings(cell.model, cell.attention))
            )
            raise SettingsError(
                f"--try names {name!r}, which is no setting of {', '.join(parts)} or the training."
                f"{did_you_mean(name, known)} Known: {', '.join(sorted(known))}."
            )
    if trials is not None:
        return [
            replace(cell, tuning=Tuning(trials, space)) if space else cell
            for cell, space in zip(cells, spaces, strict=True)
        ]
    grids = [{name: _list_values(name, values) for name, values in space.items()} for space in spaces]
    return [
        replace(cell, candidates=combinations(grid)) if grid else cell for cell, grid in zip(cells, grids, strict=True)
    ]


def _list_values(name: str, values: Values) -> Sequence[Any]:
    listed = values if isinstance(values, tuple) else values.list_numbers()
    if listed is None:
        raise SettingsError(
            f"{name.rpartition('.')[2]}={values} is a continuous range, which only --tune can draw from; add "
            "--tune, give it a step, or list some values."
        )
    return listed


def _report_unequal_trials(cells: Sequence[Cell]) -> None:
    """Say so where candidates get unequal numbers of trials; what has nothing to train needs none."""
    counts = {
        replace(cell, candidates=(), tuning=None).label: cell.tuning.trials
        if cell.tuning
        else len(cell.candidates) or 1
        for cell in cells
        if models.claims(cell.model).trains
    }
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{label} {count}" for label, count in counts.items())
        say(
            f"trials differ, as not everything has every setting tried: {listed}; more trials are an advantage, which "
            "the rows record as their budget."
        )


def _known_rows(task: tasks.Task, plan: SweepPlan) -> Sequence[RunRow]:
    """The rows that need not be made again; a file of another task's rows is refused."""
    tasks.refuse_other(task, plan.results)
    return [] if plan.again else result_file.known_rows(plan.results, task.row)


def _check_first(cells: Sequence[Cell], plan: SweepPlan) -> list[Run]:
    """The runs of a grid; one of which some run can't be made is refused, by name where there are several cells.

    Runs whose rows are there pass.
    """
    resolve_device(plan.device)
    runs = plan.runs(cells)
    for run in runs:
        if run.problem is not None:
            raise run.problem
    task = tasks.get(cells[0].task)
    sets = benchmark_sets.collection(task.name)
    for name in dict.fromkeys(cell.dataset for cell in cells):
        sets.find(name, plan.data_dir)
    known = _known_rows(task, plan)
    for place, first in enumerate(runs[: len(cells)]):
        if all(run.find_finished(known) for run in runs[place :: len(cells)]):  # with every seed
            continue
        try:
            assert first.spec is not None
            task.runner.check(first.spec, plan.data_dir)
        except RearviewError as problem:
            if len(cells) == 1:
                raise
            raise type(problem)(f"{first.cell.title}: {problem}") from None
    return runs
