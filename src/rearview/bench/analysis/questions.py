"""Our own questions among the runs of a network: what an experiment of ours compares, whatever else was run beside it.

Which candidates share which blocks changes with every row that is added; what a question asks does not. An experiment
that was run whole is therefore compared by itself, with the arms and the blocks that its file names.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rearview.bench.analysis.comparable import footing
from rearview.bench.analysis.leaderboard import Entry
from rearview.bench.analysis.timing_overlap import parse_time
from rearview.bench.papers import catalogue
from rearview.bench.papers.catalogue import Cell, Experiment
from rearview.bench.papers.compare import find_rows
from rearview.bench.rows.row import as_json
from rearview.bench.tasks import Task

OURS = "rearview"
"""The file of questions that no paper asks."""
PLAIN = {"name": "softmax"}


@dataclass(frozen=True, slots=True)
class Answer:
    """The runs of one network that an experiment of ours asks for."""

    experiment: Experiment
    arms: Mapping[str, tuple[Entry, ...]]
    """By what the experiment calls them: their entries, the blocks in the same order."""


def answers(task: Task, entries: Sequence[Entry]) -> list[Answer]:
    """The experiments of ours that one network's entries under one protocol answer: every arm ran on every block.

    Those whose arms differ in their mechanisms are meant; a run counts where its training is what the experiment says.
    The arms of a block share a footing; of several, the one with the most runs counts, the latest where they are equal.
    Softmax joins them where it ran on all blocks, as they are measured by it.
    """
    found = []
    for table in catalogue.tables(OURS):
        experiment = catalogue.get(OURS, table)
        cells = [cell for cell in experiment.cells if cell.model == entries[0].model]
        if experiment.task == task.name and cells:
            made = _whole([*cells, *_plain(cells)], entries) or _whole(cells, entries)
            found += [Answer(experiment, made)] if made else []
    return found


def _plain(cells: Sequence[Cell]) -> list[Cell]:
    """Softmax in the place of every cell, those that are there already left out."""
    found: list[Cell] = []
    for plain in (replace(cell, attention=PLAIN) for cell in cells):
        if plain not in (*cells, *found):
            found.append(plain)
    return found


def _whole(cells: Sequence[Cell], entries: Sequence[Entry]) -> dict[str, tuple[Entry, ...]]:
    """The entries of each arm, those of a block on one footing; none where some block has no footing with every arm."""
    blocks: dict[tuple[object, ...], list[Cell]] = defaultdict(list)
    for cell in cells:
        blocks[_place(cell)].append(cell)
    chosen: dict[str, tuple[Entry, ...]] = defaultdict(tuple)
    for arms in blocks.values():
        complete = [made for made in _by_footing(arms, entries) if len(made) == len(arms)]
        if not complete:
            return {}
        for label, entry in max(complete, key=_weight).items():
            chosen[label] += (entry,)
    return chosen


def _by_footing(arms: Sequence[Cell], entries: Sequence[Entry]) -> list[dict[str, Entry]]:
    """The entries of a block's arms, together those on one footing; versions of a data set are kept apart."""
    found: dict[tuple[str, str], dict[str, Entry]] = defaultdict(dict)
    for arm in arms:
        for entry in entries:
            if _is_made_for(arm, entry):
                found[entry.dataset, as_json(footing(entry))][arm.label] = entry
    return list(found.values())


def _is_made_for(cell: Cell, entry: Entry) -> bool:
    first = entry.rows[:1]  # the others differ in their seeds alone
    trained = json.loads(first[0].training)
    return bool(find_rows(cell, first)) and all(trained.get(key) == value for key, value in cell.training.items())


def _place(cell: Cell) -> tuple[object, ...]:
    return (cell.dataset, cell.horizon, cell.lookback) if cell.horizon else (cell.dataset,)


def _weight(made: Mapping[str, Entry]) -> tuple[int, float]:
    rows = [row for entry in made.values() for row in entry.rows]
    return len(rows), max(parse_time(row.created) or 0.0 for row in rows)
