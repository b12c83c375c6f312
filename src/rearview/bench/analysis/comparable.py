"""Groups of runs that can be compared: on an equal footing, over the same blocks, or because an experiment asks for it.

Runs of a network share a footing where all that was requested is the same, the mechanism aside: a mechanism that
trained for longer, or with another loss, shows what that is worth and not what the mechanism is.

Not everything is run everywhere, so many candidates share few blocks and few share many. One rectangle without a hole
in the table of runs can't show both, so the largest are shown side by side.

Which candidates share which blocks changes with every row that is added; what an experiment of ours asks does not. One
that was run whole is therefore compared by itself, with the arms and blocks that its file names.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from rearview.bench.analysis.candidates import facets_of, spell_mechanism, spell_settings
from rearview.bench.analysis.leaderboard import Entry, parse_time
from rearview.bench.analysis.paper_comparison import find_rows
from rearview.bench.papers import catalogue
from rearview.bench.papers.catalogue import Cell, Experiment
from rearview.bench.rows.identity import parse_column
from rearview.bench.rows.row import Facts, Row, as_json
from rearview.bench.tasks import Task
from rearview.core.grouping import group_by
from rearview.data.datasets.catalogue import recording_of

Block = tuple[str, int | None, int] | tuple[str, int | None]
"""Data set, horizon and, among the runs of one network, look-back."""
MOST_RECTANGLES = 3
"""Rectangles that are shown of one table."""
MOST_SHOWN = 3
OURS = "rearview"
"""The file of experiments that no paper has."""
SOFTMAX = {"name": "softmax"}
RATE = "training learning_rate"
_OF_MECHANISMS = ("attention ", "searched")


@dataclass(frozen=True, slots=True)
class Rectangle:
    """Candidates that all have the same blocks, to which none can be added."""

    names: tuple[str, ...]
    blocks: tuple[Block, ...]

    @property
    def worth(self) -> tuple[int, int, int]:
        """The freedom that it leaves a test over data sets, then over blocks, then its cells."""
        sets, others = len({recording_of(block[0]) for block in self.blocks}), len(self.names) - 1
        return others * (sets - 1), others * (len(self.blocks) - 1), len(self.names) * len(self.blocks)


def find_rectangles(table: Mapping[str, Collection[Block]]) -> list[Rectangle]:
    """Every rectangle that two candidates span by the blocks they share (`table`: each one's own), the largest first.

    All of them are maximal: any other candidate with these blocks is in it, and the two have no other block in common.
    """
    own = list(dict.fromkeys(frozenset(blocks) for blocks in table.values()))
    rectangles = []
    for shared in dict.fromkeys(first & second for first in own for second in own):
        names = tuple(name for name, blocks in table.items() if shared <= set(blocks))
        if shared and len(names) > 1:
            rectangles.append(Rectangle(names, tuple(block for block in table[names[0]] if block in shared)))
    return sorted(rectangles, key=lambda rectangle: rectangle.worth, reverse=True)


def pick_rectangles(rectangles: Sequence[Rectangle]) -> list[Rectangle]:
    """The first, and a few after it that have several blocks and a candidate or a block that those before lack."""
    picked: list[Rectangle] = []
    for one in rectangles:
        names = {name for each in picked for name in each.names}
        blocks = {block for each in picked for block in each.blocks}
        fresh = not names.issuperset(one.names) or not blocks.issuperset(one.blocks)
        if not picked or (fresh and len(one.blocks) > 1):
            picked.append(one)
    return picked[:MOST_RECTANGLES]


@dataclass(frozen=True, slots=True)
class FootingGroup:
    """Entries of one network that can be compared mechanism by mechanism."""

    entries: tuple[Entry, ...]
    footing: str
    """The settings that set it apart from the other groups of the network; empty where there is none."""


def group_by_footing(entries: Sequence[Entry]) -> list[FootingGroup]:
    """Entries of one network under one protocol, those together that share a footing on some block; the largest first.

    Settings are published per data set, so a group has a footing on each block. Of entries that share none of it on a
    block, but some on another, the larger part is kept.
    """
    facets = {id(entry): footing_of(entry) for entry in entries}
    footings = {key: as_json(own) for key, own in facets.items()}
    groups = [_keep_commonest(group, footings) for group in _connect(entries, footings)]
    groups.sort(key=lambda group: -len(group))
    shared: list[Facts] = []
    for group in groups:
        first, *others = (facets[id(entry)] for entry in group)
        same = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
        shared.append(same)
    return [FootingGroup(tuple(group), _spell(own, shared)) for group, own in zip(groups, shared, strict=True)]


Rates = tuple[float, ...]


def choose_rates(entries: Sequence[Entry]) -> dict[Rates, dict[str, dict[Block, Entry]]]:
    """Mechanisms of one network that were run at the same learning rates and are alike in all else: by rates, mechanism
    and block the entry whose rate has the least mean validation loss.

    One rate for all favours whoever it suits; test rows choose nothing here. Of several footings on a block, the one
    with the most mechanisms counts.
    """
    tried: dict[tuple[Rates, Block], dict[str, dict[str, Entry]]] = defaultdict(lambda: defaultdict(dict))
    alike: dict[tuple[Block, str, str], dict[float, Entry]] = defaultdict(dict)
    for entry in entries:
        footing = footing_of(entry)
        rate = footing.pop(RATE, None)
        if isinstance(rate, float) and isinstance(entry.rows[0], Row):
            alike[block_of(entry), as_json(footing), spell_mechanism(entry.rows[0])][rate] = entry
    for (block, footing_text, mechanism), by_rate in alike.items():
        if len(by_rate) > 1:
            best = min(by_rate.values(), key=lambda entry: mean_validation(entry) or 0.0)
            tried[tuple(sorted(by_rate)), block][footing_text][f"{best.model} + {mechanism}"] = best
    chosen: dict[Rates, dict[str, dict[Block, Entry]]] = defaultdict(lambda: defaultdict(dict))
    for (rates, block), footings in tried.items():
        for name, entry in max(footings.values(), key=len).items():
            chosen[rates][name][block] = entry
    return chosen


def mean_validation(entry: Entry) -> float | None:
    """The mean validation loss of an entry's runs; None where its rows keep none."""
    losses = [row.validation_loss for row in entry.rows if isinstance(row, Row)]
    return sum(losses) / len(losses) if losses else None


def footing_of(entry: Entry) -> dict[str, object]:
    """All that was requested, block and mechanism aside."""
    row = entry.rows[0]
    facets = {key: value for key, value in facets_of(row).items() if not key.startswith(_OF_MECHANISMS)}
    return {**facets, "adapters": getattr(row, "adapters", "[]")}


def block_of(entry: Entry) -> Block:
    """The block of an entry: mechanisms of one network are compared within it."""
    return entry.dataset, entry.horizon, entry.lookback


def _connect(entries: Sequence[Entry], footings: Mapping[int, str]) -> list[list[Entry]]:
    """Candidates that share a footing on some block, and any that share one with them."""
    together: dict[str, set[str]] = defaultdict(set)
    for entry in entries:
        together[as_json([block_of(entry), footings[id(entry)]])].add(entry.label)
    components: list[set[str]] = []
    for labels in together.values():
        touched = [component for component in components if component & labels]
        components = [component for component in components if not component & labels]
        components.append(labels.union(*touched))
    return [[entry for entry in entries if entry.label in component] for component in components]


def _keep_commonest(group: Sequence[Entry], footings: Mapping[int, str]) -> list[Entry]:
    """Of each block the entries that share its most common footing."""
    counts: dict[Block, Counter[str]] = defaultdict(Counter)
    for entry in group:
        counts[block_of(entry)][footings[id(entry)]] += 1
    return [entry for entry in group if counts[block_of(entry)].most_common(1)[0][0] == footings[id(entry)]]


def _spell(own: Facts, every: Sequence[Facts]) -> str:
    differing = {key: value for key, value in own.items() if any(other.get(key) != value for other in every)}
    training_first = sorted(spell_settings(differing), key=lambda word: not word.startswith("training "))
    words = [word.removeprefix("training ") for word in training_first]
    more = f" and {len(words) - MOST_SHOWN} more" if len(words) > MOST_SHOWN else ""
    return ", ".join(words[:MOST_SHOWN]) + more


@dataclass(frozen=True, slots=True)
class AnsweredExperiment:
    """The runs of one network that an experiment of ours asks for."""

    experiment: Experiment
    arms: Mapping[str, tuple[Entry, ...]]
    """By the experiment's name for them: their entries, the blocks in the same order."""


def find_answers(task: Task, entries: Sequence[Entry]) -> list[AnsweredExperiment]:
    """The experiments of ours that one network's entries under one protocol answer: every arm ran on every block.

    Those whose arms differ in their mechanisms are meant; a run counts where its training is the experiment's. The arms
    of a block share a footing; of several, the one with the most runs counts, the latest where they are equal. Softmax
    joins them where it ran on all blocks, as they are measured by it.
    """
    answers = []
    for table in catalogue.tables(OURS):
        experiment = catalogue.get(OURS, table)
        cells = [cell for cell in experiment.cells if cell.model == entries[0].model]
        if experiment.task == task.name and cells:
            with_softmax = list(cells)
            for cell in (replace(cell, attention=SOFTMAX) for cell in cells):
                with_softmax += [] if cell in with_softmax else [cell]
            arms = _complete_arms(with_softmax, entries) or _complete_arms(cells, entries)
            answers += [AnsweredExperiment(experiment, arms)] if arms else []
    return answers


def _complete_arms(cells: Sequence[Cell], entries: Sequence[Entry]) -> dict[str, tuple[Entry, ...]]:
    """The entries of each arm, those of a block on one footing; none where some block has no footing with every arm."""
    blocks = group_by(cells, lambda cell: (cell.dataset, cell.horizon, cell.lookback if cell.horizon else None))
    chosen: dict[str, tuple[Entry, ...]] = defaultdict(tuple)
    for arms in blocks.values():
        complete = [made for made in _arms_by_footing(arms, entries) if len(made) == len(arms)]
        if not complete:
            return {}
        runs = [[row for entry in made.values() for row in entry.rows] for made in complete]
        worth = [(len(rows), max(parse_time(row.created) or 0.0 for row in rows)) for rows in runs]
        for label, entry in complete[worth.index(max(worth))].items():
            chosen[label] += (entry,)
    return chosen


def _arms_by_footing(arms: Sequence[Cell], entries: Sequence[Entry]) -> list[dict[str, Entry]]:
    """The entries of a block's arms, together those on one footing; versions of a data set are kept apart."""
    footings: dict[tuple[str, str], dict[str, Entry]] = defaultdict(dict)
    for arm in arms:
        for entry in entries:
            first = entry.rows[:1]  # the others differ in their seeds alone
            training = parse_column(first[0].configuration, "training")
            if find_rows(arm, first) and all(training.get(key) == value for key, value in arm.training.items()):
                footings[entry.dataset, as_json(footing_of(entry))][arm.label] = entry
    return list(footings.values())
