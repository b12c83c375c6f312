"""All printed numbers at once: those that rows stand beside, and the cells of the papers' tables that nobody ran."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rearview.bench.analysis.candidates import Candidate, candidates, suffix
from rearview.bench.analysis.leaderboard import Board, Entry, Score, once
from rearview.bench.papers import catalogue, labelled_compare, published
from rearview.bench.papers.catalogue import Cell, Experiment, LabelledCell
from rearview.bench.papers.compare import as_asked, compare, judged, own
from rearview.bench.papers.published import Number
from rearview.bench.rows.row import Row
from rearview.bench.rows.tasks import FORECASTING, Task


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
    task: Task = FORECASTING
    chance: Score | None = None
    """What guessing gets by the same measure, where that is more than nothing."""

    @property
    def metric(self) -> str:
        """What is compared, under our name."""
        return self.task.column(self.number.metric)

    @property
    def table(self) -> str:
        return f"{self.number.paper}:{self.number.table}"


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of an experiment was run."""

    experiment: Experiment
    by_protocol: Mapping[str, int]
    """Cells with at least one finished run, under each protocol that has some."""
    missing: tuple[Cell | LabelledCell, ...]
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
    for experiment in catalogue.every():
        for cell in experiment.cells:
            # A table of averages holds the numbers of another one; each is told once.
            fresh = tuple(number for number in cell.numbers if id(number) not in seen)
            seen |= {id(number) for number in fresh}
            made = [row for each in (cell, *cell.among) for row in own(each, by_place.get(_place(each), ()))]
            if fresh and made:
                one = replace(experiment, cells=(replace(cell, numbers=fresh),))
                # The rows of a search are one candidate, at whichever look-backs it was made.
                called = {id(row): cell.label for row in made} if cell.candidates else names
                found += [_beside(one, group) for group in _groups(made, called, experiment.protocol)]
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
    numbers = [n for n in published.numbers() if n.kind == task.name and n.metric in task.printed and n.value]
    entries = [entry for board in boards for entry in board.entries]
    found = []
    for number in numbers:
        for entry in entries:
            measure = task.column(number.metric)
            score = entry.scores.get(measure)
            if score is not None and _matches(entry, number):
                found.append(_other(entry, number, score, entry.scores.get(task.chance.get(measure, ""))))
    return found


def _other(entry: Entry, number: Number, score: Score, chance: Score | None) -> Beside:
    assert number.value is not None
    return Beside(
        number=number,
        protocol=entry.protocol,
        label=entry.name,
        rows=entry.rows,
        ours=score,
        difference=100 * (score.mean / number.value - 1),
        verdict=judged(score, number, lower_is_better=entry.task.lower_is_better),
        shortfall=labelled_compare.shortfall(entry.task, entry.rows),
        task=entry.task,
        chance=chance,
    )


def coverage(found: Mapping[Task, Sequence[Any]]) -> list[Coverage]:
    """Every experiment of a task that has rows, with those of its cells that were not run."""
    rows = {task.name: once(made) for task, made in found.items() if made}
    by_place = _by_place(rows.get(FORECASTING.name, ()))
    return [
        _coverage(one, [own(cell, by_place.get(_place(cell), ())) for cell in one.cells])
        if one.task == FORECASTING.name
        else _coverage(one, [labelled_compare.own(cell, rows[one.task]) for cell in one.labelled])
        for one in catalogue.every()
        if one.task in rows and _has_cells_of_its_own(one)
    ]


def _has_cells_of_its_own(experiment: Experiment) -> bool:
    """Tables of averages are views of another table's cells."""
    tables = {number.table for cell in experiment.runs for number in cell.numbers}
    return bool(experiment.runs) and tables <= {experiment.table}


def _coverage(experiment: Experiment, made: Sequence[Sequence[Any]]) -> Coverage:
    """`made`: the rows of each cell."""
    counts = Counter(protocol for rows in made for protocol in {row.protocol for row in rows})
    missing = tuple(cell for cell, rows in zip(experiment.runs, made, strict=True) if not rows)
    return Coverage(experiment, dict(sorted(counts.items())), missing)


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
        label, protocol = name or f"{one.cell.label}{suffix(one.apart)}", rows[0].protocol
        found.append(Beside(one.number, protocol, label, one.rows, score, one.difference, one.verdict, one.shortfall))
    return found


def _matches(entry: Entry, number: Number) -> bool:
    if (entry.dataset, entry.model) != (number.dataset, number.model):
        return False
    return as_asked(entry.rows[0], number.attention if isinstance(number.attention, Mapping) else None)
