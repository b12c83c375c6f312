"""The command that makes a grid of one's own: every network x mechanism x data set x horizon x look-back x seed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from rearview.commands.compatibility import fitting, mechanism
from rearview.commands.reproduce.command import ended, late, print_lines, say
from rearview.core.errors import RearviewError, SettingsError, did_you_mean


def grid_command(
    *,
    datasets: Sequence[str],
    models: Sequence[str],
    attentions: Sequence[Any],
    horizons: Sequence[int],
    lookbacks: Sequence[int],
    seeds: Sequence[int],
    plan: Mapping[str, Any],
    settings: Mapping[str, Any],
    training: Mapping[str, Any],
    workers: int,
    seconds: float | None,
    loss: str | Mapping[str, Any] | None,
    over: Any,
    tried: Mapping[str, Any],
    trials: int | None = None,
) -> int:
    """Every combination of what is listed, each once, kept as rows and printed as a table.

    `settings` go to the networks that have them and `training` to those that train. `tried` settings are listed, or
    drawn in so many `trials`: see `rearview bench`.
    """
    from rearview import bench
    from rearview.bench.papers.catalogue import Cell
    from rearview.bench.runs.sweep import Plan, first_process, sweep
    from rearview.train import Line

    specs = {repr(spec): {"name": spec} if isinstance(spec, str) else spec for spec in attentions}
    sizes = product(dict.fromkeys(lookbacks), dict.fromkeys(horizons))
    wanted = [
        Cell(dataset, lookback, horizon, model, spec, loss)
        for dataset, (lookback, horizon), model, spec in product(
            _sets(datasets), sizes, dict.fromkeys(models), specs.values()
        )
    ]
    cells = _trained(_set(_tried(fitting(wanted, say), tried, trials), settings), training)
    _tell_trials(cells)
    asked = Plan(seeds=tuple(seeds), **plan)
    _check_first(cells, asked)
    first = first_process(asked.device)
    rows = sweep(cells, asked, workers=workers, seconds=seconds, say=say, over=over, progress=Line())
    if first:
        done = [row for row in rows if row.status == "done"]
        print_lines([*(bench.table(done) if done else []), *([f"Rows in {asked.results}"] if rows else [])])
        print_lines(late(rows, len(cells) * len(seeds), seconds))
    return ended(rows, first)


def _sets(names: Sequence[str]) -> list[str]:
    """Data sets by the names given, each once, whatever it goes by; what is none to forecast is refused."""
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(_to_forecast(name).name, name)
    return list(found.values())


def _set(cells: Sequence[Any], settings: Mapping[str, Any]) -> list[Any]:
    """Cells with those of the settings that their networks have; what only some have is told, what none has refused."""
    from rearview.bench.runs.run_spec import known

    has = {cell.model: known(cell.model) for cell in cells}
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


def _trained(cells: Sequence[Any], training: Mapping[str, Any]) -> list[Any]:
    """Cells with the settings of the training; those that have nothing to train without, unless none has."""
    from rearview import models

    trains = {cell.model: models.claims(cell.model).trains for cell in cells}
    if not training or not any(trains.values()):
        return [replace(cell, training=training) for cell in cells]
    without = [model for model, learns in trains.items() if not learns]
    if without:
        say(f"--train leaves {', '.join(without)} as published: nothing to train there.")
    return [replace(cell, training=training if trains[cell.model] else {}) for cell in cells]


def _check_first(cells: Sequence[Any], plan: Any) -> None:
    """Refuse what no run could begin with, a name or a file that is not there, before any row tells it."""
    from rearview.bench.rows.failed_row import settled
    from rearview.data.datasets import catalogue
    from rearview.estimators.base import resolve_device

    resolve_device(plan.device)
    for cell in cells:
        settled(plan.arguments(cell, plan.seeds[0]))
    for name in dict.fromkeys(cell.dataset for cell in cells):
        catalogue.find(name, plan.data_dir)
    _refuse_impossible(cells, plan)


def _refuse_impossible(cells: Sequence[Any], plan: Any) -> None:
    """Refuse a grid of which some run could not be made, by name where there are several; rows that are there stay."""
    from rearview.bench.rows import result_file
    from rearview.bench.runs import preflight
    from rearview.bench.runs.sweep import made

    known = [] if plan.again else result_file.kept(plan.results)
    for cell in cells:
        runs = [plan.arguments(cell, seed) for seed in plan.seeds]
        if all(made(run, known) for run in runs):
            continue
        try:
            preflight.check(runs[0])
        except RearviewError as problem:
            if len(cells) == 1:
                raise
            raise type(problem)(f"{cell.title}: {problem}") from None


def _to_forecast(name: str) -> Any:
    """A data set; whoever names a benchmark set that is not one to forecast is told which command runs it."""
    from rearview.commands.benchmark_sets import about
    from rearview.data.datasets import catalogue

    try:
        return catalogue.get(name)
    except SettingsError:
        if told := about(name):
            raise SettingsError(f"`rearview bench` runs sets to forecast. {told}") from None
        raise


def _tried(cells: Sequence[Any], tried: Mapping[str, Any], trials: int | None) -> list[Any]:
    """Cells with those of the settings tried that their networks, mechanisms and trainings have."""
    from rearview.bench.papers.catalogue import combinations
    from rearview.bench.runs import search, tuning

    if not tried:
        if trials is not None:
            raise SettingsError(
                "--tune needs --try, which says what to draw, such as --try learning_rate=1e-4..1e-2:log."
            )
        return list(cells)
    if trials is not None:
        tuning.require()
    spaces = [search.routed(cell.model, cell.attention, tried) for cell in cells]
    _refuse_untried(cells, spaces, tried)
    if trials is not None:
        return [
            replace(cell, tuning=tuning.Tuning(trials, space)) if space else cell
            for cell, space in zip(cells, spaces, strict=True)
        ]
    grids = [{name: _listed(name, values) for name, values in space.items()} for space in spaces]
    return [
        replace(cell, candidates=combinations(grid)) if grid else cell for cell, grid in zip(cells, grids, strict=True)
    ]


def _tell_trials(cells: Sequence[Any]) -> None:
    """Say so where what is compared gets unlike numbers of trials; what has nothing to train needs none."""
    from rearview import models

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
            f"trials differ, as not everything has every setting tried: {listed}; whoever has more has an advantage, "
            "which the rows tell as their budget."
        )


def _listed(name: str, values: Any) -> Sequence[Any]:
    listed = values if isinstance(values, tuple) else values.listed()
    if listed is None:
        raise SettingsError(
            f"{name.rpartition('.')[2]}={values} is a range of any number within, and only --tune draws from one; add "
            "--tune, give it a step, or list some values."
        )
    return listed


def _refuse_untried(cells: Sequence[Any], spaces: Sequence[Mapping[str, Any]], tried: Mapping[str, Any]) -> None:
    """What none of the cells has is a mistake; what some of them have is tried in those."""
    from rearview.bench.runs import search

    for name in tried:
        if any(name == full.rpartition(".")[2] for space in spaces for full in space):
            continue
        parts = dict.fromkeys(part for cell in cells for part in (cell.model, mechanism(cell)) if part)
        known = list(dict.fromkeys(name for cell in cells for name in search.known(cell.model, cell.attention)))
        raise SettingsError(
            f"--try names {name!r}, which is no setting of {', '.join(parts)} or the training."
            f"{did_you_mean(name, known)} Known: {', '.join(sorted(known))}."
        )
