"""The command that makes a paper's experiment again, and the list of all experiments."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rearview.commands.reproduce.table import compared
from rearview.commands.reproduce.table_filter import Chosen, matching, wanted
from rearview.core.errors import InputError, SettingsError, UsageError, did_you_mean


def reproduce_command(
    chosen: Chosen,
    *,
    results: Path,
    seeds: int,
    protocol: str | None,
    presets: str | None,
    data_dir: Path | None,
    device: str,
    training: dict[str, Any] | None,
    workers: int,
    seconds: float | None,
    only_compare: bool,
    over: Any,
) -> int:
    """Make what is missing of an experiment and print ours beside the printed numbers."""
    from rearview.bench import protocols
    from rearview.bench.papers import catalogue as experiments
    from rearview.bench.papers import cost_tables
    from rearview.bench.rows import tasks as kinds
    from rearview.bench.runs.sweep import Plan, first_process
    from rearview.commands.reproduce.costs import costs, refuse_training

    first = only_compare or first_process(device)
    show = print_lines if first else _keep_quiet
    until = None if seconds is None else time.monotonic() + seconds
    found = [experiments.get(chosen.paper, table) for table in _tables(chosen)]
    if not any(cost_tables.parts(experiment) for experiment in found):
        raise SettingsError(_elsewhere(found))
    asked = matching(found, chosen)
    refuse_training(asked, _given(seeds, protocol, presets, data_dir, device, training, workers, seconds, over))
    _check_presets(presets, asked, only_compare)
    places = _places(results, asked)
    if only_compare and places and not any(place.exists() for place in places.values()):
        raise InputError(f"There is no results file {results} to compare; name one with --results.")
    reached = False
    made: list[Any] = []
    count = 0
    for experiment in asked:
        if experiment.task == cost_tables.COST:
            reached = True
            counted = [cell for cell in cost_tables.parts(experiment) if wanted(cell, chosen)]
            show(costs(experiment, counted, results))
            continue
        place, task = places[experiment.task], kinds.get(experiment.task)
        declared = protocols.get(protocol or experiment.protocol)
        kinds.rows_of(task, place)
        show([f"{experiment.name}: {experiment.title}", f"protocol {declared.name}: {declared.summary}"])
        show(_presets_lines(experiment, presets))
        if only_compare:
            cells, out_of_reach = _to_compare(experiment, chosen, place)
        else:
            cells, out_of_reach = _reachable(experiment, chosen, data_dir)
        if cells and (reason := _hindrance(experiment, declared.name, over)):
            cells, out_of_reach = [], Counter({reason: len(cells)})
        show(_reasons(out_of_reach))
        if not cells:
            continue
        reached = True
        if not only_compare:
            plan = Plan(
                results=place,
                seeds=tuple(range(experiment.first_seed, experiment.first_seed + seeds)),
                protocol=declared.name,
                presets=presets,
                data_dir=data_dir,
                device=device,
                training=training,
            )
            left = None if until is None else max(0.0, until - time.monotonic())
            made += _make(experiment, cells, plan, workers, left, over)
            count += len(cells) * seeds
        show(compared(experiment, cells, kinds.rows_of(task, place), declared.name))
    if not reached:
        raise InputError(
            "Nothing of that can be run here, for the reasons above; see `rearview list datasets`, and name the folder "
            "of the data with --data-dir."
        )
    show(late(made, count, seconds))
    return ended(made, first)


def _given(
    seeds: int,
    protocol: str | None,
    presets: str | None,
    data_dir: Path | None,
    device: str,
    training: Mapping[str, Any] | None,
    workers: int,
    seconds: float | None,
    over: Any,
) -> dict[str, bool]:
    """By flag: whether an option of training is other than it is by itself."""
    return {
        "--seeds": seeds != 1,
        "--protocol": protocol is not None,
        "--presets": presets is not None,
        "--data-dir": data_dir is not None,
        "--device": device != "auto",
        "--train": bool(training),
        "--workers": workers != 1,
        "--seconds": seconds is not None,
        "--ray": over == "ray",
    }


def _check_presets(presets: str | None, asked: Sequence[Any], only_compare: bool) -> None:
    """Refuse presets that nobody has, and any where no network is trained to forecast, or none at all."""
    from rearview.bench import presets as known

    if presets is None:
        return
    known.entries(presets)
    if not any(experiment.cells for experiment in asked):
        names = " and ".join(experiment.name for experiment in asked)
        raise UsageError(f"{names}: presets are settings of networks that forecast; leave out --presets.")
    if only_compare:
        raise UsageError("--compare runs nothing, so that no run can get other presets; leave out --presets.")


def _presets_lines(experiment: Any, presets: str | None) -> list[str]:
    """Whose settings the numbers of a table rest on, and whose its runs get instead where others are asked for; what
    training its runs have on top."""
    if not experiment.cells:
        return []
    return [
        f"presets: {experiment.settings()}",
        *training_lines(experiment),
        *([f"presets of these runs, as asked for: {presets}"] if presets else []),
    ]


def _places(results: Path, asked: Sequence[Any]) -> dict[str, Path]:
    """By task: the file of its rows, which hold other columns than those of other tasks; none of what is counted."""
    from rearview.bench.papers.cost_tables import COST

    asked = [experiment for experiment in asked if experiment.task != COST]
    tasks = list(dict.fromkeys(experiment.task for experiment in asked if experiment.runs))
    places = dict.fromkeys(tasks, results)
    if len(tasks) > 1:
        places |= {task: results.with_stem(f"{results.stem}-{task}") for task in tasks if task != "forecasting"}
    return {experiment.task: places.get(experiment.task, results) for experiment in asked}


def _to_compare(experiment: Any, chosen: Chosen, place: Path) -> tuple[list[Any], Counter[str]]:
    """The cells whose rows may be in a file, wherever they were made; all are without one where there is no file."""
    cells = [cell for cell in experiment.runs if wanted(cell, chosen)]
    return (cells, Counter()) if place.exists() else ([], Counter({f"there is no file {place}": len(cells)}))


def _hindrance(experiment: Any, protocol: str, over: Any) -> str:
    """Why nothing of an experiment can be run as it is asked for; empty: some can."""
    from rearview.bench.runs import labelled_sweep

    if not experiment.labelled:
        return ""
    if over == "ray":
        return (
            f"--ray spreads runs of forecasting, and runs of {experiment.task} share a machine: use --workers instead"
        )
    return labelled_sweep.hindrance(experiment.task, protocol)


def _make(
    experiment: Any, cells: Sequence[Any], plan: Any, workers: int, seconds: float | None, over: Any
) -> Sequence[Any]:
    """Runs of the cells, each with a `status`."""
    from rearview.bench.runs import labelled_sweep, sweep
    from rearview.train import Line

    if experiment.labelled:
        return labelled_sweep.sweep(
            experiment.task, cells, plan, workers=workers, seconds=seconds, say=say, progress=Line()
        )
    # A table's own training gives way to what is asked for, as presets do.
    cells = [replace(cell, training={**cell.training, **(plan.training or {})}) for cell in cells]
    _check_some(cells, plan)
    return sweep.sweep(cells, plan, workers=workers, seconds=seconds, say=say, over=over, progress=Line())


def training_lines(experiment: Any) -> list[str]:
    """The training that a table gives its runs on top of the presets; nothing where it gives none."""
    from rearview.bench.papers.catalogue import spoken

    return [f"training: {spoken(experiment.training)}, the rest as in the presets"] if experiment.training else []


def late(rows: Sequence[Any], count: int, seconds: float | None) -> list[str]:
    """How many of so many runs there was no time for, where time was given."""
    from rearview.bench.runs.pool import not_begun

    return [not_begun(count - len(rows), count)] if seconds is not None and len(rows) < count else []


def ended(rows: Sequence[Any], first: bool) -> int:
    """How a command ends that made these rows: badly where every run failed, which the first process alone tells."""
    if not rows or any(row.status != "failed" for row in rows):
        return 0
    if not first:
        return InputError.exit_code
    raise InputError(f"No run came to an end; the first: {rows[0].problem}")


def _check_some(cells: Sequence[Any], plan: Any) -> None:
    """Refuse what no run of a table could begin with; where some can, the others become rows that tell why not."""
    from rearview.bench.rows.failed_row import settled

    problems = []
    for cell in cells:
        try:
            settled(plan.arguments(cell, plan.seeds[0]))
        except SettingsError as problem:
            problems.append(problem)
        else:
            return
    raise problems[0]


def list_experiments(data_dir: Path | None) -> int:
    """Every experiment, and how much of it runs with the data at hand."""
    from rearview.bench.papers import catalogue as experiments
    from rearview.bench.papers.cost_tables import COST
    from rearview.commands.reproduce.costs import in_short

    lines = []
    for experiment in experiments.every():
        cells, _ = _reachable(experiment, Chosen(experiment.paper), data_dir)
        if experiment.task == COST:
            runs = in_short(experiment)
        else:
            runs = f"{len(cells)} of {len(experiment.runs)} runs" if experiment.runs else _kind_words(experiment)
        lines.append((experiment.name, runs, experiment.title))
    from rearview.bench import synthetic

    lines += [(name, "generated", f"Synthetic study: rearview reproduce {name}") for name in synthetic.NAMES]
    widths = [max(len(line[column]) for line in lines) for column in (0, 1)]
    print_lines([f"{name:<{widths[0]}}  {runs:>{widths[1]}}  {title}" for name, runs, title in lines])
    return 0


def _tables(chosen: Chosen) -> list[str]:
    from rearview.bench.papers import catalogue as experiments
    from rearview.bench.synthetic import NAMES

    papers = [*experiments.papers(), *NAMES]
    if chosen.paper not in papers:
        raise SettingsError(
            f"There is no paper or synthetic study {chosen.paper!r}.{did_you_mean(chosen.paper, papers)} "
            f"Known: {', '.join(papers)}."
        )
    known = experiments.tables(chosen.paper)
    if chosen.table is not None:
        return [chosen.table]
    # A table of averages is a view of another one's cells: run those once.
    own = [table for table in known if not experiments.get(chosen.paper, table).source]
    return own or known


def _reachable(experiment: Any, chosen: Chosen, data_dir: Path | None) -> tuple[list[Any], Counter[str]]:
    """The cells that can be run here, and why the others can't."""
    from rearview import models

    known, here = _data(experiment, data_dir)
    networks = {*models.names(), *models.borrowed(installed=True)}
    cells, reasons = [], Counter[str]()
    for cell in experiment.runs:
        if not wanted(cell, chosen):
            continue
        if cell.dataset.casefold() not in known:
            reasons[f"{cell.dataset} is not in the catalogue"] += 1
        elif cell.dataset.casefold() not in here:
            reasons[f"{cell.dataset} is not at hand; get it from {_origin(experiment, cell.dataset)}"] += 1
        elif cell.model not in networks:
            reasons[f"{cell.model} comes with another package (rearview[baselines])"] += 1
        else:
            cells.append(cell)
    return cells, reasons


def _data(experiment: Any, data_dir: Path | None) -> tuple[set[str], set[str]]:
    """The data sets that an experiment may ask for, and those of them that are there, in lower case."""
    from rearview.data.datasets import archives, catalogue, detection_sets

    if experiment.task == "classification":
        known: Iterable[str] = {cell.dataset for cell in experiment.runs}
        here = archives.available(known, data_dir)
    elif experiment.task == "detection":
        known, here = detection_sets.names(), detection_sets.available(data_dir)
    else:
        known, here = catalogue.names(), catalogue.available(data_dir)
    return {name.casefold() for name in known}, {name.casefold() for name in here}


def _origin(experiment: Any, dataset: str) -> str:
    """Where the world gets a data set."""
    from rearview.data.datasets import archives, catalogue, detection_sets

    if experiment.task == "classification":
        return archives.SOURCE
    return detection_sets.get(dataset).source if experiment.task == "detection" else catalogue.get(dataset).source


def _reasons(reasons: Counter[str]) -> list[str]:
    return [f"not run: {count} cells, {reason}" for reason, count in reasons.items()]


def _kind_words(experiment: Any) -> str:
    return ", ".join(kind for kind in experiment.kinds if kind not in ("summary", "elsewhere")) or "-"


def _elsewhere(found: Sequence[Any]) -> str:
    names = ", ".join(experiment.name for experiment in found)
    synthetic = any("synthetic" in experiment.kinds for experiment in found)
    way = "`rearview reproduce harmonic`" if synthetic else "other commands"
    return f"{names} holds no runs of networks; it is made by {way}."


def say(sentence: str) -> None:
    """A line of progress."""
    sys.stderr.write(f"{sentence}\n")


def _keep_quiet(lines: Sequence[str]) -> None:
    """For the processes of torchrun beside the first, which alone speaks."""


def print_lines(lines: Sequence[str]) -> None:
    """Lines of an answer; nothing where there are none."""
    if lines:
        sys.stdout.write("\n".join(lines) + "\n")
