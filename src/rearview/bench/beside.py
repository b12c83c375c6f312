"""All printed numbers at once: those that rows stand beside, and the cells of the papers' tables that nobody ran."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rearview.bench import budget, experiments, published
from rearview.bench.boards import Board, Entry, Score, once
from rearview.bench.candidates import Candidate, candidates
from rearview.bench.compare import as_asked, compare, judged, own
from rearview.bench.experiments import Cell, Experiment
from rearview.bench.kinds import CLASSIFICATION, DETECTION, Task
from rearview.bench.published import Number
from rearview.bench.row import Row

PRINTED = {CLASSIFICATION.name: {"accuracy": "accuracy"}, DETECTION.name: {"f1": "adjusted_f1"}}
"""By task: the papers' name of a measure -> our column. The field's F1 of detection is the point-adjusted one."""


@dataclass(frozen=True, slots=True)
class Beside:
    """One printed number and ours under one protocol."""

    number: Number
    protocol: str
    """Ours; the table's paper has habits of its own, told by `published:<paper>`."""
    label: str
    rows: tuple[Any, ...]
    """Ours, one by one."""
    ours: Score
    difference: float | None
    """Ours against theirs, in percent."""
    verdict: str
    shortfall: str = ""
    """By how much ours was trained for less than the paper's own settings allow; empty where it was not."""

    @property
    def table(self) -> str:
        return f"{self.number.paper}:{self.number.table}"


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of an experiment was run."""

    experiment: Experiment
    by_protocol: Mapping[str, int]
    """Cells with at least one finished run, under each protocol that has some."""
    missing: tuple[Cell, ...]
    """Cells without a finished run under any protocol."""


def forecasts(rows: Sequence[Row]) -> list[Beside]:
    """Every printed forecasting error that finished rows stand beside, the paper's own protocol first.

    Runs that differ in anything but the seed are different candidates, and each stands beside the number by itself.
    """
    usable = [row for row in once(rows) if math.isfinite(row.mse + row.mae)]
    names = {id(row): _called(row, candidate) for row, candidate in zip(usable, candidates(usable), strict=True)}
    by_place = _by_place(usable)
    seen: set[int] = set()
    found = []
    for experiment in experiments.every():
        for cell in experiment.cells:
            # A table of averages holds the numbers of another one; each is told once.
            fresh = tuple(number for number in cell.numbers if id(number) not in seen)
            seen |= {id(number) for number in fresh}
            made = own(cell, by_place.get(_place(cell), ()))
            if fresh and made:
                one = replace(experiment, cells=(replace(cell, numbers=fresh),))
                found += [_beside(one, group) for group in _groups(made, names, experiment.protocol)]
    return [each for several in found for each in several]


def _called(row: Row, candidate: Candidate) -> str:
    return candidate.name if candidate.dataset == row.dataset else f"{candidate.name} on {candidate.dataset}"


def _groups(rows: Sequence[Row], names: Mapping[int, str], first: str) -> list[tuple[str, list[Row]]]:
    """(name, rows) of every candidate under every protocol; the name is empty where a protocol has but one."""
    gathered: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        gathered[row.protocol][names[id(row)]].append(row)
    return [
        (name if len(gathered[protocol]) > 1 else "", group)
        for protocol in sorted(gathered, key=lambda name: (name != first, name))
        for name, group in gathered[protocol].items()
    ]


def others(task: Task, boards: Sequence[Board]) -> list[Beside]:
    """Every printed accuracy or F1 that entries of classification or detection boards stand beside."""
    columns = PRINTED[task.name]
    numbers = [n for n in published.numbers() if n.kind == task.name and n.metric in columns and n.value is not None]
    entries = [entry for board in boards for entry in board.entries]
    found = []
    for number in numbers:
        for entry in entries:
            score = entry.scores.get(columns[number.metric])
            if score is not None and _matches(entry, number):
                difference = 100 * (score.mean / number.value - 1) if number.value else None
                verdict = judged(score, number, lower_is_better=task.lower_is_better)
                short = _shortfall(task, entry.rows)
                found.append(Beside(number, entry.protocol, entry.name, entry.rows, score, difference, verdict, short))
    return found


def _shortfall(task: Task, rows: Sequence[Any]) -> str:
    """How much less runs of classification or detection were trained than those of the paper that prints numbers."""
    from rearview.bench import classification, detection
    from rearview.data import labelled

    row = rows[0]
    if task is CLASSIFICATION:
        return budget.shortfall(rows, classification.TRAINING, row.train_cases)
    known = labelled.get(row.dataset)
    windows = (row.train_rows - row.lookback) // known.step + 1
    return budget.shortfall(rows, {**detection.TRAINING, "epochs": known.epochs}, windows)


def coverage(rows: Sequence[Row]) -> list[Coverage]:
    """Every experiment that holds forecasting runs of its own, with the cells that were not run."""
    by_place = _by_place(once(rows))
    return [_coverage(experiment, by_place) for experiment in experiments.every() if _has_cells_of_its_own(experiment)]


def _has_cells_of_its_own(experiment: Experiment) -> bool:
    """Tables of averages are views of another table's cells."""
    tables = {number.table for cell in experiment.cells for number in cell.numbers}
    return bool(experiment.cells) and tables <= {experiment.table}


def _coverage(experiment: Experiment, by_place: Mapping[tuple[Any, ...], Sequence[Row]]) -> Coverage:
    counts: dict[str, int] = defaultdict(int)
    missing = []
    for cell in experiment.cells:
        made = {row.protocol for row in own(cell, by_place.get(_place(cell), ()))}
        for protocol in made:
            counts[protocol] += 1
        if not made:
            missing.append(cell)
    return Coverage(experiment, dict(sorted(counts.items())), tuple(missing))


def _by_place(rows: Sequence[Row]) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[_place(row)].append(row)
    return found


def _place(one: Row | Cell) -> tuple[Any, ...]:
    return one.dataset, one.lookback, one.horizon, one.model


def _beside(experiment: Experiment, group: tuple[str, list[Row]]) -> list[Beside]:
    name, rows = group
    found = []
    for one in compare(experiment, rows, rows[0].protocol):
        assert one.number is not None
        assert one.mean is not None
        score = Score(one.mean, one.std, len(one.rows))
        label, protocol = name or one.cell.label, rows[0].protocol
        found.append(Beside(one.number, protocol, label, one.rows, score, one.difference, one.verdict, one.shortfall))
    return found


def _matches(entry: Entry, number: Number) -> bool:
    if (entry.dataset, entry.model) != (number.dataset, number.model):
        return False
    return as_asked(entry.rows[0], number.attention if isinstance(number.attention, Mapping) else None)
