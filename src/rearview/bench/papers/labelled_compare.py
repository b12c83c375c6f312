"""Classification and detection beside the printed numbers: run by run, and in means over sets as a table has them."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rearview.bench.analysis import budget
from rearview.bench.analysis.candidates import candidates
from rearview.bench.analysis.leaderboard import failed, once
from rearview.bench.papers.catalogue import Experiment, LabelledCell
from rearview.bench.papers.compare import Comparison, alike, as_asked
from rearview.bench.papers.published import Number
from rearview.bench.rows import tasks
from rearview.bench.rows.row import as_json
from rearview.bench.rows.tasks import Task


def compare(experiment: Experiment, rows: Sequence[Any], protocol: str | None = None) -> list[Comparison]:
    """Every printed number of an experiment beside our rows of the protocol (the experiment's own unless given)."""
    task = tasks.get(experiment.task)
    wanted = protocol or experiment.protocol
    usable = [row for row in once(rows) if row.protocol == wanted]
    lost = [row for row in failed(rows) if row.protocol == wanted]
    found = []
    for cell in experiment.labelled:
        made, broken = own(cell, usable), bool(own(cell, lost))
        apart = {id(row): named.differences for row, named in zip(made, candidates(made), strict=True)}
        for ours in alike(made):
            numbers: list[Number | None] = [number for number in cell.numbers if number.metric in task.printed]
            for number in numbers or [None]:
                own_measures = dict.fromkeys((task.decides(wanted), *task.printed.values()))
                measures = own_measures if number is None else (task.column(number.metric),)
                words = apart[id(ours[0])] if ours else ()
                beside = [_comparison(task, cell, number, each, ours) for each in measures]
                found += [replace(one, broken=broken, apart=words) for one in beside]
    return found


def own(cell: LabelledCell, rows: Sequence[Any]) -> list[Any]:
    """The rows of what a cell asks for; what it leaves open, the mechanism's settings aside, may be anything."""
    return [
        row
        for row in rows
        if (row.dataset, row.model) == (cell.dataset, cell.model)
        and cell.protocol in ("", row.protocol)
        and as_asked(row, cell.attention)
        and _has(row, cell.options)
    ]


def means(found: Sequence[Comparison]) -> list[Comparison]:
    """For a table of means: every arm's mean over the sets that all arms with rows have, beside the printed mean.

    The printed one is over the same sets too, so that it compares with ours before every set of the paper was run.
    """
    arms: dict[str, dict[str, Comparison]] = defaultdict(dict)
    for one in sorted(found, key=lambda one: one.count):
        arms[one.cell.label][one.cell.dataset] = one  # of several budgets, the one with the most seeds
    sets = list(dict.fromkeys(one.cell.dataset for one in found))
    begun = [arm for arm in arms.values() if any(one.rows for one in arm.values())]
    shared = [name for name in sets if begun and all(name in arm and arm[name].rows for arm in begun)]
    order = dict.fromkeys(one.cell.label for one in found)
    return [_mean(arms[label], shared, len(sets)) for label in order]


def shortfall(task: Task, rows: Sequence[Any]) -> str:
    """How much less runs of classification or detection were trained than those of the paper that prints numbers."""
    from rearview.bench.runs import classification, detection
    from rearview.data.datasets import detection_sets

    row = rows[0]
    if task is tasks.CLASSIFICATION:
        return budget.shortfall(rows, classification.TRAINING, row.train_cases)
    known = detection_sets.get(row.dataset)
    windows = (row.train_rows - row.lookback) // known.step + 1
    return budget.shortfall(rows, {**detection.TRAINING, "epochs": known.epochs}, windows)


def _comparison(
    task: Task, cell: LabelledCell, number: Number | None, measure: str, rows: tuple[Any, ...]
) -> Comparison:
    values = _known(rows, measure)
    return Comparison(
        cell,
        number,
        measure,
        rows,
        float(np.mean(values)) if values else None,
        float(np.std(values, ddof=1)) if len(values) > 1 else None,
        shortfall="" if number is None or not rows else shortfall(task, rows),
        lower_is_better=task.lower_is_better,
        chance=float(np.mean(guessed)) if (guessed := _known(rows, task.chance.get(measure, ""))) else None,
    )


def _mean(arm: Mapping[str, Comparison], shared: Sequence[str], every: int) -> Comparison:
    """One arm over the sets that are shared; over all of them, with nothing of ours, where it was not run."""
    first = next(iter(arm.values()))
    ours = [arm[name] for name in shared if arm[name].rows]
    over = ours or list(arm.values())
    rows = tuple(row for one in ours for row in one.rows)
    seeds = set.intersection(*({row.seed for row in one.rows} for one in ours)) if ours else set()
    by_seed = [np.mean([getattr(row, first.metric) for row in rows if row.seed == seed]) for seed in sorted(seeds)]
    values = [one.number.value for one in over if one.number is not None and one.number.value is not None]
    doubtful = next((one.number.note for one in over if one.number is not None and one.number.doubtful), "")
    return replace(
        first,
        cell=replace(first.cell, dataset=f"mean of {len(over)} of {every} sets"),
        number=None if first.number is None else replace(first.number, value=float(np.mean(values)), note=doubtful),
        rows=rows,
        broken=any(one.broken for one in arm.values()),
        mean=float(np.mean([one.mean for one in ours])) if ours else None,
        std=float(np.std(by_seed, ddof=1)) if len(by_seed) > 1 else None,
        shortfall=next((one.shortfall for one in ours if one.shortfall), ""),
    )


def _known(rows: Sequence[Any], column: str) -> list[float]:
    return [float(value) for row in rows if (value := getattr(row, column, None)) is not None]


def _has(row: Any, options: Mapping[str, Any]) -> bool:
    """Whether a row has what a cell asks for beside network and mechanism."""
    given = dict(options)
    settings = json.loads(as_json(given.pop("settings", {})))
    if any(getattr(row, name) != value for name, value in given.items()):
        return False
    return bool(settings.items() <= json.loads(row.settings).items())
