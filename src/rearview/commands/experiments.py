"""The papers' experiments as commands show them: which runs are possible here, and why others are not."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

from rearview import models
from rearview.bench import synthetic
from rearview.bench.papers import costs
from rearview.bench.papers.catalogue import Cell, Experiment
from rearview.bench.papers.costs import COST, CostCell
from rearview.bench.protocols import FORECASTING
from rearview.bench.rows import result_file
from rearview.bench.runs.request import spell
from rearview.commands.benchmark_sets import collection

AnyCell = Cell | CostCell


def possible_runs(
    experiment: Experiment, data_dir: Path | None, wanted: Callable[[AnyCell], bool] = lambda cell: True
) -> tuple[list[Cell], Counter[str]]:
    """The wanted cells that can be run here, and how many others can't be, by reason."""
    sets = collection(experiment.task)
    known, here = ({name.casefold() for name in names} for names in (sets.names(), sets.available(data_dir)))
    networks = {*models.names(), *models.external_names(installed=True)}
    cells, reasons = [], Counter[str]()
    for cell in filter(wanted, experiment.cells):
        if cell.dataset.casefold() not in known:
            reasons[f"{cell.dataset} is not in the catalogue"] += 1
        elif cell.dataset.casefold() not in here:
            reasons[f"{cell.dataset} is not at hand; get it from {sets.source(cell.dataset)}"] += 1
        elif cell.model not in networks:
            reasons[f"{cell.model} comes with another package (rearview[baselines])"] += 1
        else:
            cells.append(cell)
    return cells, reasons


def missing_parts(experiment: Experiment, data_dir: Path | None) -> list[str]:
    """The data sets and other packages' networks that some runs of an experiment need and that are not at hand."""
    here = {name.casefold() for name in collection(experiment.task).available(data_dir)}
    networks = {*models.names(), *models.external_names(installed=True)}
    missing = [cell.dataset for cell in experiment.cells if cell.dataset.casefold() not in here]
    missing += [cell.model for cell in experiment.cells if cell.model not in networks]
    return list(dict.fromkeys(missing))


def count_runs(experiment: Experiment, data_dir: Path | None, made: int | None = None) -> str:
    """Count the runs of an experiment that can be made with the data at hand, and those that were made, if given."""
    if experiment.task == COST:
        return count_costs(experiment)
    if experiment.cells:
        possible = f"{len(possible_runs(experiment, data_dir)[0])} of {len(experiment.cells)} runs"
        return possible if made is None else f"{possible}, {made} made"
    return ", ".join(kind for kind in experiment.kinds if kind not in ("summary", "elsewhere")) or "-"


def count_costs(experiment: Experiment) -> str:
    """The part of a table of costs that can be counted, which needs no data."""
    cells = costs.cells(experiment.paper, experiment.table)
    counted = sum(cell.counts for cell in cells)
    return f"{counted} of {len(cells)} counts" if counted else "times alone"


def training_lines(experiment: Experiment) -> list[str]:
    """The training that a table gives its runs on top of the presets; nothing where it gives none."""
    return [f"training: {spell(experiment.training)}, the rest as in the presets"] if experiment.training else []


def describe_experiment(experiment: Experiment) -> list[str]:
    """Describe an experiment: its question, its settings and its runs."""
    command = f"rearview reproduce {experiment.paper} --table {experiment.table}"
    if experiment.task == COST:
        cells = costs.cells(experiment.paper, experiment.table)
        return [
            f"{experiment.name}: {experiment.title}",
            f"task: {experiment.task}; no data are needed",
            f"published numbers: {sum(len(cell.numbers) for cell in cells)}",
            f"arms: {', '.join(dict.fromkeys(cell.label for cell in cells))}",
            f"networks: {count_costs(experiment)}, made by `{command}`",
        ]
    forecasts = experiment.cells and experiment.task == FORECASTING
    lines = [
        f"{experiment.name}: {experiment.title}",
        f"protocol: {experiment.protocol} (`rearview describe protocol:{experiment.protocol}`)",
        *([f"presets: {experiment.settings()} (`rearview list presets`)"] if forecasts else []),
        *training_lines(experiment),
        f"task: {experiment.task}",
        f"published numbers: {', '.join(f'{count} {kind}' for kind, count in experiment.kinds.items()) or 'none'}",
    ]
    if not experiment.cells:
        return [*lines, "runs: none that `rearview reproduce` makes; see `rearview list experiments`"]
    for what, of in (("data sets", "dataset"), ("look-backs", "lookback"), ("horizons", "horizon"), ("arms", "label")):
        values = dict.fromkeys(str(each) for cell in experiment.cells if (each := getattr(cell, of)) is not None)
        lines += [f"{what}: {', '.join(values)}"] if values else []
    return [*lines, f"runs: {len(experiment.cells)} a seed, made by `{command}`"]


def count_arms(paths: Iterable[Path]) -> dict[Path, tuple[str, set[str]]]:
    """Of the files that hold rows of a synthetic study: the study, and its arms with a run that came to its end."""
    studies = [synthetic.get(name) for name in synthetic.NAMES]
    made = {}
    for path in paths:
        header = result_file.read_header(path)
        if study := next((one for one in studies if header in result_file.headers(one.row)), None):
            known = {*study.arms(False), *study.arms(True)}
            done = {row.arm for row in result_file.read(path, study.row) if row.ended == "steps"}
            made[path] = study.name, done & known
    return made


def describe_study(name: str) -> list[str]:
    """Describe a synthetic study: its arms, its two sizes, and what its paper says of it."""
    study = synthetic.get(name)
    few, every = study.arms(False), study.arms(True)
    larger = [arm for arm in every if arm not in few]
    direction = "larger" if study.more_is_better else "smaller"
    published = "; ".join(f"{arm} {said}" for arm, said in study.published.items())
    more = f"; {len(every)} with --full" if larger else ""
    return [
        f"{name}: {study.title}",
        "task: generated samples; no data are needed",
        f"judged by: {study.metric} (a {direction} one is better)",
        f"arms: {', '.join(few)}",
        *([f"arms of the full size alone: {', '.join(larger)}"] if larger else []),
        *(f"{size} size: {spell(asdict(getattr(study, size)))}" for size in ("reduced", "full")),
        *([f"published: {published}"] if published else []),
        f"runs: {len(few)} a seed, made by `rearview reproduce {name}`{more}",
    ]
