"""The `reproduce` command: run what is missing of a paper's experiments, print ours beside the published numbers."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rearview.bench import presets, protocols, synthetic, tasks
from rearview.bench.papers import catalogue, costs
from rearview.bench.papers.catalogue import Cell, Experiment
from rearview.bench.papers.costs import COST
from rearview.bench.rows.row import Facts, RunRow
from rearview.bench.runs import tuning
from rearview.bench.runs.sweep import Run, SweepPlan, first_process
from rearview.commands.console import output, print_lines
from rearview.commands.experiments import AnyCell, possible_runs, training_lines
from rearview.commands.reproduce.table import comparison_table, cost_table
from rearview.commands.sweep import RunOptions, exit_code, late_lines, make_runs, preview
from rearview.core.errors import InputError, SettingsError, UsageError, did_you_mean, unknown


@dataclass(frozen=True, slots=True)
class Selection:
    """One part of a paper: a table, data sets, horizons, mechanisms, networks, or several of these together.

    Of each, any of the values that are listed; an empty list stands for all.
    """

    paper: str
    table: str | None = None
    datasets: tuple[str, ...] = ()
    horizons: tuple[int, ...] = ()
    attentions: tuple[str, ...] = ()
    models: tuple[str, ...] = ()

    @property
    def words(self) -> dict[str, tuple[str, ...]]:
        """The values that are listed, by the name of their option."""
        lists = {"dataset": self.datasets, "horizon": self.horizons, "attention": self.attentions, "model": self.models}
        return {name: tuple(map(str, values)) for name, values in lists.items() if values}

    def matches(self, cell: AnyCell) -> bool:
        """Whether a cell is of the part; runs of classification and detection have no horizon."""
        return all(_word(cell, name).casefold() in map(str.casefold, words) for name, words in self.words.items())

    def tables(self) -> list[Experiment]:
        """The tables of the paper that have runs of their own, or the one that is named."""
        papers = [*catalogue.papers(), *synthetic.NAMES]
        if self.paper not in papers:
            raise unknown("paper or synthetic study", self.paper, papers)
        if self.table is not None:
            return [catalogue.get(self.paper, self.table)]
        every = [catalogue.get(self.paper, table) for table in catalogue.tables(self.paper)]
        # A table of averages is a view of another one's cells: run those once.
        return [experiment for experiment in every if not experiment.source] or every

    def filter(self, experiments: Sequence[Experiment]) -> list[Experiment]:
        """The experiments that hold a cell of the part; a value that no cell has is refused, and so is a part that none
        of them holds."""
        if self == Selection(self.paper, self.table):
            return list(experiments)
        self._refuse_unknown([cell for experiment in experiments for cell in costs.parts(experiment)])
        having = [experiment for experiment in experiments if any(map(self.matches, costs.parts(experiment)))]
        if not having:
            flags = " ".join(f"--{name} {','.join(words)}" for name, words in self.words.items())
            raise SettingsError(
                f"{self.name} has no run with {flags} together, though it has each of them; leave one of them out."
            )
        return having

    @property
    def name(self) -> str:
        return self.paper if self.table is None else f"{self.paper}:{self.table}"

    def _refuse_unknown(self, cells: Sequence[AnyCell]) -> None:
        """Name the first value that no cell has."""
        for name, words in self.words.items():
            known = list(dict.fromkeys(word for cell in cells if (word := _word(cell, name))))
            for word in words:
                if word.casefold() not in map(str.casefold, known):
                    raise SettingsError(
                        f"{self.name} has no run with --{name} {word}.{did_you_mean(word, known)} "
                        f"Known: {', '.join(known) or 'none'}."
                    )


def _word(cell: AnyCell, name: str) -> str:
    """What an option says of a cell; empty where it says nothing."""
    return str((cell.mechanism if name == "attention" else getattr(cell, name, None)) or "")


def reproduce_command(
    selection: Selection,
    options: RunOptions,
    *,
    protocol: str | None = None,
    training: Facts | None = None,
    only_compare: bool = False,
    tune: bool = False,
) -> int:
    """Make what is missing of an experiment and print ours beside the printed numbers."""
    options.check()
    first = only_compare or first_process(options.device)

    def show(lines: Sequence[str]) -> None:
        if first:  # of the processes of torchrun, one prints
            print_lines(lines)

    until = None if options.seconds is None else time.monotonic() + options.seconds
    flags = [*(["--protocol"] if protocol else []), *options.changed_flags(), *(["--train"] if training else [])]
    experiments = _select(selection, flags, options.presets, only_compare)
    if tune:
        tuning.require()
        experiments = [catalogue.tune(experiment) for experiment in experiments]
    places = _places(options.results, experiments)
    if only_compare and places and not any(place.exists() for place in places.values()):
        raise InputError(f"There is no results file {options.results} to compare; name one with --results.")
    reached = False
    made: list[RunRow] = []
    count = 0
    for experiment in experiments:
        if experiment.task == COST:
            reached = True
            counted = [cell for cell in costs.cells(experiment.paper, experiment.table) if selection.matches(cell)]
            show(cost_table(experiment, counted, options.results))
            continue
        place, task = places[experiment.task], tasks.get(experiment.task)
        declared = protocols.get(protocol or experiment.protocol)
        tasks.read_rows(task, place)
        show([f"{experiment.name}: {experiment.title}", f"protocol {declared.name}: {declared.summary}"])
        if task is tasks.FORECASTING and experiment.cells:
            show([f"presets: {experiment.settings()}", *training_lines(experiment)])
            show([f"presets of these runs, as asked for: {options.presets}"] if options.presets else [])
        cells, reasons = _select_cells(experiment, selection, options, declared.name, place if only_compare else None)
        show([f"not run: {number} cells, {reason}" for reason, number in reasons.items()])
        if not cells:
            continue
        reached = True
        if not only_compare:
            plan = options.plan(declared.name, experiment.first_seed, results=place, training=training)
            runs = _plan_runs(plan, cells)
            if output.get().dry_run:
                show(preview(runs, tasks.read_rows(task, place), place)[1])
                continue
            left = None if until is None else max(0.0, until - time.monotonic())
            made += make_runs(runs, plan, options, left)
            count += len(runs)
        show(comparison_table(experiment, cells, tasks.read_rows(task, place), declared.name))
    if not reached:
        raise InputError(
            "Nothing of that can be run here, for the reasons above; see `rearview list datasets`, and name the folder "
            "of the data with --data-dir."
        )
    show(late_lines(made, count, options.seconds))
    return exit_code(made, first)


def _plan_runs(plan: SweepPlan, cells: Sequence[Cell]) -> list[Run]:
    """The runs of some cells, refused where none can begin; where some can, the others become rows that say why not."""
    # A table's own training gives way to what is asked for, as presets do.
    runs = plan.runs(replace(cell, training={**cell.training, **(plan.training or {})}) for cell in cells)
    problems = [run.problem for run in runs if run.problem is not None]
    if len(problems) == len(runs) and isinstance(problems[0], SettingsError):
        raise problems[0]
    return runs


def _select(selection: Selection, flags: Sequence[str], source: str, only_compare: bool) -> list[Experiment]:
    """The experiments to make; flags and presets that no run of them can have are refused."""
    tables = selection.tables()
    names = ", ".join(experiment.name for experiment in tables)
    if not any(costs.parts(experiment) for experiment in tables):
        study = any("synthetic" in experiment.kinds for experiment in tables)
        way = "`rearview reproduce harmonic`" if study else "other commands"
        raise SettingsError(f"{names} holds no runs of networks; it is made by {way}.")
    experiments = selection.filter(tables)
    names = " and ".join(experiment.name for experiment in experiments)
    if flags and all(experiment.task == COST for experiment in experiments):
        raise UsageError(f"{names}: costs are counted and nothing is trained; leave out {' and '.join(flags)}.")
    if source:
        presets.entries(source)
        if not any(experiment.task == protocols.FORECASTING for experiment in experiments):
            raise UsageError(f"{names}: presets are settings of networks that forecast; leave out --presets.")
        if only_compare:
            raise UsageError("--compare runs nothing, so no run can get other presets; leave out --presets.")
    return experiments


def _places(results: Path, experiments: Sequence[Experiment]) -> dict[str, Path]:
    """The file of each task's rows, which have other columns than those of other tasks; none for what is counted."""
    trained = [experiment for experiment in experiments if experiment.task != COST]
    running = {experiment.task for experiment in trained if experiment.cells}
    places = dict.fromkeys((experiment.task for experiment in trained), results)
    if len(running) > 1:
        places |= {task: results.with_stem(f"{results.stem}-{task}") for task in running - {"forecasting"}}
    return places


def _select_cells(
    experiment: Experiment, selection: Selection, options: RunOptions, protocol: str, compared: Path | None
) -> tuple[Sequence[Cell], Mapping[str, int]]:
    """The cells to run, or whose rows to compare in a file, and how many others there are by reason."""
    if compared is None:
        cells, reasons = possible_runs(experiment, options.data_dir, selection.matches)
    else:
        cells, reasons = [cell for cell in experiment.cells if selection.matches(cell)], Counter()
        if not compared.exists():
            return [], {f"there is no file {compared}": len(cells)}
    if cells and (reason := options.obstacle(tasks.get(experiment.task), protocol)):
        return [], {reason: len(cells)}
    return cells, reasons
