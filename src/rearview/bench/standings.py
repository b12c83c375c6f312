"""Over all blocks: average ranks with significance, one mechanism against softmax, one protocol against another."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview.bench import budget, footing, statistics
from rearview.bench.boards import Board, Entry, Score
from rearview.bench.boards import boards as remade
from rearview.bench.kinds import METRICS, Task

Block = tuple[Any, ...]

FEWEST = 4
"""Blocks that an interval of 95 % needs: of fewer, draws can give no more than the lowest and the highest block."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Candidates over the blocks that all of them have."""

    task: Task
    protocol: str
    model: str
    """The network whose mechanisms are compared; empty: every candidate."""
    judgement: statistics.Judgement
    blocks: tuple[str, ...]
    left_out: tuple[str, ...]
    """Candidates that lack some of these blocks."""
    scores: NDArray[np.float64]
    """[block, candidate], in the order of the judgement's names."""
    plain: Mapping[str, str]
    """By candidate: its network with softmax, the best where there are several; networks without one are left out."""
    uneven: tuple[str, ...]
    """In what candidates had unlike budgets, in words; empty: all had the same."""
    footing: str = ""
    """What sets these runs of a network apart from others of it, which are compared by themselves."""

    @property
    def measure(self) -> str:
        """What candidates are ranked by, in words."""
        return METRICS[self.task.decides(self.protocol)]

    @property
    def title(self) -> str:
        who = f"mechanisms in {self.model}" if self.model else "every candidate"
        footing = f", {self.footing}" if self.footing else ""
        return f"{self.task.name.capitalize()}, {self.protocol}, by {self.measure}: {who}{footing}"


@dataclass(frozen=True, slots=True)
class Contrast:
    """One candidate against the one that it is measured by, over the same blocks."""

    name: str
    against: str
    record: statistics.Record
    change: float
    """Mean relative difference of the deciding measure, in percent."""
    interval: statistics.Interval | None
    """Of the change, by a paired bootstrap over blocks; None where there are too few."""
    p_value: float
    corrected: float
    """After Holm's correction over the candidates of the standing."""


@dataclass(frozen=True, slots=True)
class Sided:
    """One candidate on one block under several protocols, by one measure."""

    task: Task
    dataset: str
    horizon: int | None
    name: str
    metric: str
    scores: Mapping[str, Score]
    """By protocol, `clean` first."""


def standings(boards: Sequence[Board]) -> list[Standing]:
    """For each task and protocol: every candidate, then the mechanisms of each network that has several.

    Mechanisms are compared on an equal footing: runs of a network that differ in anything else make another standing.
    """
    found = []
    for task, protocol in dict.fromkeys((board.task, board.protocol) for board in boards):
        entries = [e for b in boards if (b.task, b.protocol) == (task, protocol) for e in b.entries if e.score]
        models = list(dict.fromkeys(entry.model for entry in entries))
        if len(models) > 1:
            found.append(_standing(task, protocol, "", entries, lambda e: ((e.dataset, e.horizon), e.name)))
        for model in models:
            found += _mechanisms(task, protocol, model, [entry for entry in entries if entry.model == model])
    return [standing for standing in found if standing is not None]


def _mechanisms(task: Task, protocol: str, model: str, entries: Sequence[Entry]) -> list[Standing | None]:
    found = []
    for study in footing.studies(entries):
        # Among themselves these runs differ in less, and need shorter names.
        again = remade(task, [row for entry in study.entries for row in entry.rows])
        own = [entry for board in again for entry in board.entries]
        standing = _standing(task, protocol, model, own, lambda e: ((e.dataset, e.horizon, e.lookback), e.label))
        found.append(None if standing is None else replace(standing, footing=study.footing))
    return found


def contrasts(standing: Standing) -> list[Contrast]:
    """Every candidate of a standing against its own network with softmax, or against the best where there is none."""
    names = standing.judgement.names
    scores = dict(zip(names, standing.scores.T, strict=True))
    pairs = [(name, standing.plain.get(name, names[0])) for name in names]
    pairs = [(name, against) for name, against in pairs if name != against]
    p_values = [statistics.signed_rank(scores[name], scores[against]).p_value for name, against in pairs]
    corrected = statistics.holm(p_values)
    found = []
    for place, (name, against) in enumerate(pairs):
        column, base = scores[name], scores[against]
        change = 100 * (column / base - 1)
        won = statistics.record(column, base, lower_is_better=standing.task.lower_is_better)
        interval = statistics.paired_interval(change, np.zeros_like(change)) if len(change) >= FEWEST else None
        found.append(Contrast(name, against, won, float(change.mean()), interval, p_values[place], corrected[place]))
    return found


def sided(boards: Sequence[Board]) -> list[Sided]:
    """Every candidate that was run on one block under more than one protocol, by the measures that decide under them.

    A measure that only one of the protocols has is left out: there is nothing to compare.
    """
    gathered: dict[Block, dict[str, Entry]] = defaultdict(dict)
    for board in boards:
        for entry in board.entries:
            key = (entry.task, entry.dataset, entry.horizon, entry.label, entry.lookback)
            gathered[key][entry.protocol] = entry
    found = []
    for (task, dataset, horizon, label, lookback), entries in gathered.items():
        for metric in dict.fromkeys(task.decides(protocol) for protocol in entries):
            scores = {one: entry.scores[metric] for one, entry in sorted(entries.items()) if metric in entry.scores}
            if len(scores) > 1:
                found.append(Sided(task, dataset, horizon, f"{label}, lookback={lookback}", metric, scores))
    return found


def _standing(
    task: Task, protocol: str, model: str, entries: Sequence[Entry], place: Callable[[Entry], tuple[Block, str]]
) -> Standing | None:
    table: dict[str, dict[Block, float]] = defaultdict(dict)
    granted: dict[str, dict[Block, budget.Budget]] = defaultdict(dict)
    who: dict[str, Entry] = {}
    for entry in entries:
        block, name = place(entry)
        who[name] = entry
        granted[name][block] = budget.of(entry.rows)
        assert entry.score is not None
        # Means of the same numbers in another order differ in the last digit; that is no difference.
        table[name][block] = float(f"{entry.score.mean:.12g}")
    names, blocks = _complete(table)
    if len(names) < 2:
        return None
    scores = np.array([[table[name][block] for name in names] for block in blocks])
    judgement = statistics.judge(scores, names, lower_is_better=task.lower_is_better)
    ordered = scores[:, [names.index(name) for name in judgement.names]]
    told = tuple(_told(block, len({block[2:] for block in blocks}) > 1) for block in blocks)
    left_out = tuple(name for name in table if name not in names)
    plain = _plain({name: who[name] for name in judgement.names})
    uneven = budget.uneven([granted[name][block] for name in names] for block in blocks)
    return Standing(task, protocol, model, judgement, told, left_out, ordered, plain, uneven)


def _plain(candidates: dict[str, Entry]) -> dict[str, str]:
    """By candidate, in the order of their ranks: the best softmax of its network, at its look-back where names tell."""
    hosts = {name: (entry.model, name.removeprefix(entry.label)) for name, entry in candidates.items()}
    best = {hosts[name]: name for name in reversed(candidates) if candidates[name].attention == "softmax"}
    return {name: best[host] for name, host in hosts.items() if host in best}


def _told(block: Block, with_lookback: bool) -> str:
    dataset, horizon, *lookback = block
    name = dataset if horizon is None else f"{dataset} {horizon}"
    return f"{name} (look-back {lookback[0]})" if with_lookback else str(name)


def _complete(table: Mapping[str, Mapping[Block, float]]) -> tuple[list[str], list[Block]]:
    """Candidates and blocks without a hole, those that leave a test the most freedom.

    Many candidates on one block leave none, however many cells they make.
    """
    own = list(dict.fromkeys(frozenset(blocks) for blocks in table.values()))
    best: tuple[list[str], list[Block]] = ([], [])
    most = (-1, 0)
    for shared in dict.fromkeys(first & second for first in own for second in own):
        names = [name for name, blocks in table.items() if shared <= blocks.keys()]
        worth = ((len(names) - 1) * (len(shared) - 1), len(names) * len(shared))
        if len(names) > 1 and shared and worth > most:
            best, most = (names, [block for block in table[names[0]] if block in shared]), worth
    return best
