"""Over data sets: average ranks with significance, one mechanism against softmax, one protocol against another.

What is counted is data sets. Horizons, look-backs and resolutions of one recording are no replication: within a data
set the scores of its blocks, each over the mean of the candidates there, are averaged first.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rearview.bench.analysis import budget, comparable, significance
from rearview.bench.analysis.ablation import CONTROLS
from rearview.bench.analysis.comparable import Block, Rectangle
from rearview.bench.analysis.leaderboard import Board, Entry, Score, build_boards
from rearview.bench.rows.row import RunRow
from rearview.bench.tasks import Task
from rearview.core.grouping import group_by
from rearview.data.datasets.catalogue import recording_of

FEWEST = 4
"""Data sets that an interval of 95 % needs: of fewer, draws give no more than the lowest and the highest of them."""
SEEDS = 3
"""Seeds that a comparison should have; more make it little surer than another data set does."""
RULE = (
    "Experiments of ours on mechanisms that were run whole, with the training they name, come first, each with its own "
    "arms and blocks, and softmax beside them. "
    "After them, for each network: the largest groups of candidates and blocks without a hole, at most "
    f"{comparable.MOST_RECTANGLES} on one footing, each with a candidate or a block that those before it lack. "
    "Candidates of several networks are ranked together only where all had the same budget and every network with "
    "attention is there with softmax, too."
)
HEADLINE = (
    "The headline counts the networks in which an attention is significantly better than softmax. Of a single network "
    "it is the comparison over the most data sets; those that hold an experiment of ours whole go before others, then "
    "those on equal budgets, then those under the clean protocol."
)


@dataclass(frozen=True, slots=True)
class Standing:
    """Candidates over the blocks that all of them have."""

    task: Task
    protocol: str
    model: str
    """The network whose mechanisms are compared; empty: candidates of several networks."""
    judgement: significance.Judgement
    """Its blocks are data sets."""
    blocks: tuple[str, ...]
    """The data sets, each with its horizons and look-backs."""
    left_out: tuple[str, ...]
    """Candidates that lack some of these blocks."""
    scores: NDArray[np.float64]
    """[data set, candidate], in the order of the judgement's names: over the mean of the candidates, averaged over the
    blocks of a data set."""
    entries: Mapping[str, tuple[Entry, ...]] = field(repr=False)
    """By candidate, in that order: its runs, block by block."""
    plain: Mapping[str, str]
    """By candidate: its network with softmax, the best where there are several; networks without one are left out."""
    uneven: tuple[str, ...]
    """In what candidates had unlike budgets, in words; empty: all had the same."""
    rows: frozenset[RunRow] = field(repr=False)
    """The rows behind the scores."""
    footing: str = ""
    """The settings that set these runs of a network apart from others of it, which are compared by themselves."""
    question: str = ""
    """The title of the experiment of ours that it answers; empty: none."""
    holds: tuple[str, ...] = ()
    """The experiments of ours that it holds whole."""
    extent: str = ""
    """Its size in words, where there are others of the same runs."""
    rates: tuple[float, ...] = ()
    """The learning rates of which each candidate has the one that validation chose; empty: each was run at one."""

    @property
    def measure(self) -> str:
        """The measure that ranks candidates, in words."""
        return self.task.describe_measure(self.protocol)

    @property
    def is_ablation(self) -> bool:
        """Whether all but softmax are one mechanism of one network with differing settings."""
        others = [same[0].attention for same in self.entries.values() if same[0].attention != "softmax"]
        return bool(self.model) and len(others) > 1 and len(set(others)) == 1

    @property
    def seeds(self) -> int:
        """The fewest seeds of a candidate on a block."""
        return min(len(entry.rows) for same in self.entries.values() for entry in same)

    @property
    def significant(self) -> tuple[significance.PairTest, ...]:
        """The pairs that differ significantly; none where some were trained for longer than others."""
        return () if budget.is_unfair(self.uneven) else self.judgement.significant

    @property
    def title(self) -> str:
        who = f"mechanisms in {self.model}" if self.model else "every candidate"
        more = [*(self.holds if self.question else ()), *filter(None, (self.footing, self.extent))]
        return f"{self.task.name.capitalize()}, {self.protocol}, by {self.measure}: {', '.join([who, *more])}"


@dataclass(frozen=True, slots=True)
class Contrast:
    """One candidate against the one that it is measured by, over the same data sets."""

    name: str
    against: str
    record: significance.Record
    """Data sets won, tied and lost."""
    change: float
    """Mean relative difference of the deciding measure, in percent."""
    parameters: float
    """Its number of parameters over the other's, the median over blocks."""
    interval: significance.Interval | None
    """Of the change, by a paired bootstrap over data sets; None where there are too few."""
    p_value: float
    corrected: float
    """After Holm's correction over the candidates of the standing."""
    validation: float | None = None
    """Mean relative difference of the validation loss, in percent; None where rows keep none."""
    points: float | None = None
    """Mean difference of accuracy, in points of a hundred; None for other measures, whose sets differ in scale."""

    @property
    def size(self) -> float:
        """The difference as it is given: of accuracy in points, else in percent."""
        return self.change if self.points is None else self.points


@dataclass(frozen=True, slots=True)
class Answer:
    """The mechanism of a network that does best against its softmax, and how sure that is."""

    standing: Standing
    best: Contrast
    comparisons: int
    """The number of mechanisms compared with softmax; it is the best of them on the test rows."""

    @property
    def gains(self) -> bool:
        """Whether it does better than softmax at all."""
        return self.best.size < 0 if self.standing.task.lower_is_better else self.best.size > 0

    @property
    def needed(self) -> int:
        """The data sets that a test of so many comparisons needs."""
        return significance.fewest_blocks(self.comparisons)

    @property
    def outcome(self) -> Literal["budgets differ", "too few data sets", "significant", "not significant"]:
        """The outcome of the test against softmax, or the reason why there is none."""
        if budget.is_unfair(self.standing.uneven):
            return "budgets differ"
        if len(self.standing.blocks) < self.needed:
            return "too few data sets"
        return "significant" if self.best.corrected < significance.ALPHA else "not significant"


@dataclass(frozen=True, slots=True)
class ProtocolContrast:
    """One candidate on one block under several protocols, by one measure."""

    task: Task
    dataset: str
    horizon: int | None
    name: str
    metric: str
    scores: Mapping[str, Score]
    """By protocol, `clean` first."""


def build_standings(boards: Sequence[Board]) -> list[Standing]:
    """For each task: the experiments of ours that were run whole, then for each protocol the mechanisms of each network
    that has several, then the candidates of several networks.

    Mechanisms are compared on an equal footing: runs of a network that differ in anything else make another standing.
    """
    standings: list[Standing] = []
    for task, protocol in dict.fromkeys((board.task, board.protocol) for board in boards):
        entries = [e for b in boards if (b.task, b.protocol) == (task, protocol) for e in b.entries if e.score]
        models = group_by(entries, lambda entry: entry.model)
        for own in models.values():
            answers = _answer_experiments(own)
            standings += [*answers, *_compare_at_best_rates(own), *_compare_mechanisms(own, answers)]
        standings += _compare_networks(entries) if len(models) > 1 else []
    tasks = list(dict.fromkeys(board.task for board in boards))
    return sorted(standings, key=lambda one: (tasks.index(one.task), not one.question))


def _answer_experiments(entries: Sequence[Entry]) -> list[Standing]:
    """The experiments of ours that one network's entries answer."""
    standings = []
    for answer in comparable.find_answers(entries[0].task, entries):
        cells = {name: {comparable.block_of(entry): entry for entry in made} for name, made in answer.arms.items()}
        for whole in comparable.find_rectangles(cells):  # one, or none of a single arm
            standing = _build_standing(cells, whole, entries[0].model)
            standings.append(replace(standing, question=answer.experiment.title, holds=(answer.experiment.name,)))
    return standings


def _compare_at_best_rates(entries: Sequence[Entry]) -> list[Standing]:
    """The mechanisms of a network that were run at the same learning rates, each at the one that validation chose."""
    standings = []
    for rates, cells in comparable.choose_rates(entries).items():
        for widest in comparable.find_rectangles(cells)[:1]:
            listed = ", ".join(f"{rate:g}" for rate in rates)
            standing = _build_standing(cells, widest, entries[0].model)
            standings.append(replace(standing, rates=rates, footing=f"learning rate of {listed} chosen on validation"))
    return standings


def _compare_mechanisms(entries: Sequence[Entry], answers: Sequence[Standing]) -> list[Standing]:
    """The mechanisms of a network, footing by footing; what an experiment of ours compares anyway is left out."""
    standings: list[Standing] = []
    for group in comparable.group_by_footing(entries):
        # Among themselves entries differ in less, and need shorter names.
        cells: dict[str, dict[Block, Entry]] = defaultdict(dict)
        for board in build_boards(entries[0].task, [row for entry in group.entries for row in entry.rows]):
            for entry in board.entries:
                cells[entry.label][comparable.block_of(entry)] = entry
        rectangles = comparable.find_rectangles(cells)
        fresh = [one for one in rectangles if not any(_rows(cells, one) <= other.rows for other in answers)]
        made = [_build_standing(cells, one, entries[0].model) for one in comparable.pick_rectangles(fresh)]
        for one in made:
            size = f"{len(one.judgement.names)} candidates over {', '.join(one.blocks)}" if len(made) > 1 else ""
            holds = tuple(name for other in answers if other.rows <= one.rows for name in other.holds)
            standings.append(replace(one, footing=group.footing, holds=holds, extent=size))
    return standings


def _compare_networks(entries: Sequence[Entry]) -> list[Standing]:
    """The widest ranking of candidates of several networks on equal budgets, each network's softmax among them."""
    cells: dict[str, dict[Block, Entry]] = defaultdict(dict)
    for entry in entries:
        cells[entry.name][entry.dataset, entry.horizon] = entry
    several = len({block for own in cells.values() for block in own}) > 1
    for rectangle in comparable.find_rectangles(cells):
        if several and len(rectangle.blocks) == 1:
            continue  # of which a leaderboard says all
        who = {name: cells[name][rectangle.blocks[0]] for name in rectangle.names}
        attending = {name for name, entry in who.items() if entry.attention}
        if len({entry.model for entry in who.values()}) > 1 and attending <= _find_softmax(who).keys():
            standing = _build_standing(cells, rectangle, "")
            if not standing.uneven:
                return [standing]
    return []


def pick_headline(standings: Sequence[Standing]) -> Standing:
    """The standing that a page is summed up by, of the first task.

    A lead over a mechanism's own variants, or one that a larger budget or a paper's habits bought, is none where there
    is something better to say.
    """
    pool = [one for one in standings if one.task is standings[0].task]
    preferences: tuple[Callable[[Standing], bool], ...] = (
        lambda one: not one.is_ablation,
        lambda one: bool(one.holds) or bool(one.rates),
        lambda one: not budget.is_unfair(one.uneven),
        lambda one: one.protocol == "clean",
    )
    for preferred in preferences:
        pool = [one for one in pool if preferred(one)] or pool
    return max(pool, key=_certainty)


def pick_answers(standings: Sequence[Standing]) -> list[Answer]:
    """For each task and network the best mechanism of the comparison with softmax that says the most: under the clean
    protocol, on equal budgets, with several seeds, over the most data sets."""
    against_softmax = [
        one for one in standings if one.model and "softmax" in {same[0].attention for same in one.entries.values()}
    ]
    pools = group_by(against_softmax, lambda one: (one.task, one.model))
    widest = [
        max(pool, key=lambda one: (one.protocol == "clean", not budget.is_unfair(one.uneven), *_certainty(one)))
        for pool in pools.values()
    ]
    return [answer for one in widest if (answer := _answer(one))]


def _answer(standing: Standing) -> Answer | None:
    """None where no attention stands against softmax: controls are held against it apart (`analysis.ablation`)."""
    contrasts = [one for one in build_contrasts(standing) if standing.entries[one.against][0].attention == "softmax"]
    attending = [one for one in contrasts if standing.entries[one.name][0].attention not in CONTROLS]
    if not attending:
        return None
    sign = 1 if standing.task.lower_is_better else -1
    return Answer(standing, min(attending, key=lambda one: sign * one.size), len(contrasts))


def _certainty(one: Standing) -> tuple[int, int, bool, int]:
    """A key that sorts comparisons by certainty: a few seeds, data sets, a rate of each candidate's own, then runs."""
    return min(one.seeds, SEEDS), len(one.blocks), bool(one.rates), len(one.rows)


def build_contrasts(standing: Standing) -> list[Contrast]:
    """Every candidate of a standing against its own network with softmax, or against the best where there is none."""
    names = standing.judgement.names
    scores = dict(zip(names, standing.scores.T, strict=True))
    pairs = [(name, standing.plain.get(name, names[0])) for name in names]
    pairs = [(name, against) for name, against in pairs if name != against]
    p_values = [significance.signed_rank(scores[name], scores[against]) for name, against in pairs]
    corrected = significance.holm(p_values)
    contrasts = []
    for place, (name, against) in enumerate(pairs):
        column, base = scores[name], scores[against]
        change = 100 * (column / base - 1)
        won = significance.record(column, base, lower_is_better=standing.task.lower_is_better)
        interval = significance.bootstrap_interval(change) if len(change) >= FEWEST else None
        both = list(zip(standing.entries[name], standing.entries[against], strict=True))
        times = np.median([ours.costs["parameters"] / (theirs.costs["parameters"] or 1.0) for ours, theirs in both])
        tests = p_values[place], corrected[place], _validation_change(both), _points(standing, both)
        contrasts.append(Contrast(name, against, won, float(change.mean()), float(times), interval, *tests))
    return contrasts


def _points(standing: Standing, pairs: Sequence[tuple[Entry, Entry]]) -> float | None:
    """Mean difference of accuracy over data sets, in points; None for other measures."""
    if standing.task.deciding_measure(standing.protocol) != "accuracy":
        return None
    differences: dict[str, list[float]] = defaultdict(list)
    for ours, theirs in pairs:
        if ours.score and theirs.score:
            differences[recording_of(ours.dataset)].append(100 * (ours.score.mean - theirs.score.mean))
    return float(np.mean([np.mean(own) for own in differences.values()]))


def _validation_change(pairs: Sequence[tuple[Entry, Entry]]) -> float | None:
    """Mean change of the validation loss over data sets, in percent; None where some rows keep none."""
    changes: dict[str, list[float]] = defaultdict(list)
    for ours, theirs in pairs:
        loss, base = (comparable.mean_validation(entry) for entry in (ours, theirs))
        if loss is None or not base:
            return None
        changes[recording_of(ours.dataset)].append(100 * (loss / base - 1))
    return float(np.mean([np.mean(own) for own in changes.values()]))


def compare_protocols(boards: Sequence[Board]) -> list[ProtocolContrast]:
    """Every candidate that was run on one block under more than one protocol, by the measures that decide under them.

    A measure that only one of the protocols has is left out: there is nothing to compare.
    """
    gathered: dict[tuple[Task, str, int | None, str, int, bool], dict[str, Entry]] = defaultdict(dict)
    for board in boards:
        for entry in board.entries:
            # Errors in the data's units have none beside them that are standardised.
            scale = entry.task.in_original_units(entry.protocol)
            key = (entry.task, entry.dataset, entry.horizon, entry.label, entry.lookback, scale)
            gathered[key][entry.protocol] = entry
    contrasts = []
    for (task, dataset, horizon, label, lookback, _), entries in gathered.items():
        for metric in dict.fromkeys(task.deciding_measure(protocol) for protocol in entries):
            scores = {one: entry.scores[metric] for one, entry in sorted(entries.items()) if metric in entry.scores}
            if len(scores) > 1:
                contrasts.append(
                    ProtocolContrast(task, dataset, horizon, f"{label}, lookback={lookback}", metric, scores)
                )
    return contrasts


def _build_standing(cells: Mapping[str, Mapping[Block, Entry]], rectangle: Rectangle, model: str) -> Standing:
    names, blocks = rectangle.names, rectangle.blocks
    grid = [[cells[name][block] for name in names] for block in blocks]
    task, protocol = grid[0][0].task, grid[0][0].protocol
    relative = np.array([[entry.score.mean if entry.score else np.nan for entry in line] for line in grid])
    middle = relative.mean(axis=1, keepdims=True)
    relative = np.divide(relative, middle, out=relative, where=middle != 0)
    sets = group_by(range(len(blocks)), lambda place: recording_of(blocks[place][0]))
    # Means of the same numbers in another order differ in the last digit; that is no difference.
    scores = np.array([relative[places].mean(axis=0) for places in sets.values()]).round(12)
    judgement = significance.judge(scores, names, lower_is_better=task.lower_is_better)
    who = {name: cells[name][blocks[0]] for name in judgement.names}
    return Standing(
        task=task,
        protocol=protocol,
        model=model,
        judgement=judgement,
        blocks=tuple(_spell_set([blocks[place] for place in places]) for places in sets.values()),
        left_out=tuple(name for name in cells if name not in names),
        scores=scores[:, [names.index(name) for name in judgement.names]],
        entries={name: tuple(cells[name][block] for block in blocks) for name in judgement.names},
        plain=_find_softmax(who),
        uneven=budget.describe_differences([budget.budget_of(entry.rows) for entry in line] for line in grid),
        rows=_rows(cells, rectangle),
    )


def _rows(cells: Mapping[str, Mapping[Block, Entry]], rectangle: Rectangle) -> frozenset[RunRow]:
    entries = (cells[name][block] for name in rectangle.names for block in rectangle.blocks)
    return frozenset(row for entry in entries for row in entry.rows)


def _find_softmax(candidates: dict[str, Entry]) -> dict[str, str]:
    """By candidate, in the order of their ranks: the best softmax of its network at its look-back."""
    hosts = {name: (entry.model, entry.lookback) for name, entry in candidates.items()}
    best = {hosts[name]: name for name in reversed(candidates) if candidates[name].attention == "softmax"}
    return {name: best[host] for name, host in hosts.items() if host in best}


def _spell_set(blocks: Sequence[Block]) -> str:
    """A data set with the horizons and the number of look-backs that it was run at."""
    words = []
    for dataset in dict.fromkeys(block[0] for block in blocks):
        same = [block for block in blocks if block[0] == dataset]
        horizons = "/".join(dict.fromkeys(str(block[1]) for block in same if block[1] is not None))
        lookbacks = len({block[2:] for block in same})
        words.append(f"{dataset} {horizons}".strip() + (f" ({lookbacks} look-backs)" if lookbacks > 1 else ""))
    return " + ".join(words)
