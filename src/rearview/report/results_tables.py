"""Everything that rows say, as tables: leaderboards, ranks, contrasts, the papers, protocols, failures, gaps."""

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from rearview.bench import protocols
from rearview.bench.beside import Beside, Coverage
from rearview.bench.boards import Board, Entry
from rearview.bench.compare import RULE
from rearview.bench.experiments import Cell as Run
from rearview.bench.kinds import Task
from rearview.bench.standings import Sided, Standing, contrasts
from rearview.report import text
from rearview.report.tables import Cell, Table, measured

METRICS = {
    "mse": "MSE", "mae": "MAE", "accuracy": "Accuracy", "macro_f1": "Macro F1", "f1": "F1",
    "adjusted_f1": "Adjusted F1", "auc_pr": "AUC-PR", "vus_pr": "VUS-PR", "range_f1": "Range F1",
    "event_f1": "Event F1",
}  # fmt: skip
_OUTSIDE_BRACKETS = re.compile(r", (?![^()\[\]]*[)\]])")
_DIGEST = re.compile(r"more \(([0-9a-f]{4})\)$")


def leaderboard(board: Board, besides: Sequence[Beside] = ()) -> Table:
    """One block: place, measures, seeds, cost, and what papers print for the same run."""
    entries = board.entries
    metrics = _metrics(board.task, entries)
    printed = _printed(board.task, entries, besides)
    heads = ["Candidate", "Look-back", *(METRICS[metric] for metric in metrics), "Seeds", "Parameters", "Training"]
    columns = [
        [_candidate(entry.name) for entry in entries],
        [Cell(str(entry.lookback)) for entry in entries],
        *(_column(entries, metric) for metric in metrics),
        [Cell(_seeds(entry)) for entry in entries],
        [Cell(_cost(entry, "parameters", lambda value: f"{value:,.0f}")) for entry in entries],
        [Cell(_cost(entry, "train_seconds", text.duration)) for entry in entries],
    ]
    if any("latency_ms" in entry.costs for entry in entries):
        heads.append("Latency")
        columns.append([Cell(_cost(entry, "latency_ms", lambda value: f"{value:.2f} ms")) for entry in entries])
    if any(printed):
        heads.append(f"Printed {METRICS[board.task.metrics[0]]}")
        columns.append([Cell(words or text.ABSENT) for words in printed])
    words = frozenset({len(heads) - 1}) if any(printed) else frozenset()
    caption = f"{board.title}; protocol {board.protocol}{_judged_on(entries)}."
    return Table(caption, tuple(heads), tuple(zip(*columns, strict=True)), words)


def by_dataset(boards: Sequence[Board]) -> list[Table]:
    """For print: a table for each protocol and data set, candidates down, horizons and measures across."""
    found = []
    for (task, protocol, dataset), group in groupby(boards, key=lambda b: (b.task, b.protocol, b.dataset)):
        same = list(group)
        entries = {(entry.name, entry.lookback) for board in same for entry in board.entries}
        order = sorted(entries, key=lambda who: _place(same, who))
        columns: list[Sequence[Cell]] = [[Cell(f"{name} (L={lookback})") for name, lookback in order]]
        heads = ["Candidate"]
        for board in same:
            by_name = {(entry.name, entry.lookback): entry for entry in board.entries}
            for metric in _metrics(task, board.entries):
                heads.append(METRICS[metric] if board.horizon is None else f"{board.horizon} {METRICS[metric]}")
                columns.append(_measured([by_name.get(who) for who in order], metric, task))
        caption = (
            f"{dataset}, protocol {protocol}: mean and standard deviation over seeds, best bold, second underlined."
        )
        found.append(Table(caption, tuple(heads), tuple(zip(*columns, strict=True))))
    return found


def ranks(standing: Standing) -> Table:
    """Average ranks of a standing, and how often each candidate beat the best."""
    judgement = standing.judgement
    best = judgement.names[0]
    against = {pair.second: pair for pair in judgement.pairs if pair.first == best}
    rows = []
    for name, rank in zip(judgement.names, judgement.ranks, strict=True):
        pair = against.get(name)
        beaten = (
            (f"{pair.record.losses}/{pair.record.ties}/{pair.record.wins}", _p(pair.p_value), _p(pair.corrected))
            if pair
            else (text.ABSENT,) * 3
        )
        rows.append((_candidate(name), Cell(f"{rank:.2f}"), *map(Cell, beaten)))
    heads = ("Candidate", "Average rank", "Win/tie/loss against the best", "p", "p after Holm")
    return Table(f"Over {text.counted(judgement.blocks, 'block')}: {_listed(standing.blocks)}.", heads, tuple(rows))


def ablation(standing: Standing) -> Table:
    """Every mechanism of a network against softmax, over the blocks that all have."""
    found = contrasts(standing)
    rows = tuple(
        (
            _candidate(one.name),
            Cell(f"{one.change:+.2f} %".replace("-", "−")),
            Cell(_interval(one.interval)),
            Cell(str(one.record)),
            Cell(_p(one.p_value)),
            Cell(_p(one.corrected)),
        )
        for one in found
    )
    metric = METRICS[standing.task.metrics[0]]
    heads = ("Candidate", f"{metric}, mean change", "95 % interval", "Win/tie/loss", "p", "p after Holm")
    better = "negative" if standing.task.lower_is_better else "positive"
    caption = (
        f"{standing.title}: against {found[0].against} over {text.counted(standing.judgement.blocks, 'block')}; "
        f"{better} is better. The interval is a paired bootstrap over blocks."
    )
    return Table(caption, heads, rows)


def papers(besides: Sequence[Beside]) -> Table:
    """Ours beside every printed number that a run stands beside."""
    rows = tuple(
        (
            Cell(one.label),
            Cell(one.table),
            Cell(one.number.dataset if one.number.horizon is None else f"{one.number.dataset} {one.number.horizon}"),
            Cell(one.number.metric.upper()),
            Cell(text.number(one.ours.mean), f"±{one.ours.std:.4f}" if one.ours.std is not None else ""),
            Cell(str(one.ours.count)),
            Cell(text.ABSENT if one.number.value is None else f"{one.number.value:g}"),
            Cell(text.ABSENT if one.difference is None else f"{one.difference:+.1f} %".replace("-", "−")),
            Cell(one.verdict),
            Cell(one.protocol),
        )
        for one in besides
    )
    heads = ("Run", "Table", "Block", "Measure", "Ours", "Seeds", "Printed", "Difference", "Verdict", "Our protocol")
    return Table(f"{RULE[0].upper()}{RULE[1:]}.", heads, rows, frozenset({1, 2, 3, 8, 9}))


def sides(found: Sequence[Sided]) -> Table:
    """The same run under several protocols: a habit's share of a number."""
    names = list(dict.fromkeys(sorted((p for one in found for p in one.scores), key=lambda p: (p != "clean", p))))
    rows = []
    for one in found:
        base = one.scores.get("clean")
        cells = []
        for protocol in names:
            score = one.scores.get(protocol)
            change = f"{100 * (score.mean / base.mean - 1):+.1f} %" if score and base and score is not base else ""
            cells.append(Cell(text.number(score.mean) if score else text.ABSENT, change.replace("-", "−")))
        where = one.dataset if one.horizon is None else f"{one.dataset} {one.horizon}"
        rows.append((_candidate(one.name), Cell(where), Cell(METRICS[one.task.metrics[0]]), *cells))
    caption = "The same run under several protocols, each on its own scale; beside a number, how far it is from clean."
    return Table(caption, ("Candidate", "Block", "Measure", *names), tuple(rows), frozenset({1, 2}))


def failures(rows: Sequence[Any]) -> Table:
    """Runs that never came to an end, and why."""
    cells = tuple(
        tuple(map(Cell, (_who(row), row.dataset, str(row.horizon), str(row.seed), row.protocol, row.problem)))
        for row in rows
    )
    heads = ("Run", "Data set", "Horizon", "Seed", "Protocol", "Why")
    return Table(
        "Runs that broke off; no number above counts them.", heads, cells, frozenset({1, 4, 5}), frozenset({5})
    )


def covered(found: Sequence[Coverage]) -> Table:
    """How much of every experiment was run, and under which protocols."""
    rows = tuple(
        (
            Cell(one.experiment.name),
            Cell(one.experiment.title),
            Cell(f"{len(one.experiment.cells):,}"),
            Cell(f"{len(one.experiment.cells) - len(one.missing):,}"),
            Cell(f"{len(one.missing):,}"),
            Cell(", ".join(f"{count} {protocol}" for protocol, count in one.by_protocol.items()) or text.ABSENT),
        )
        for one in found
    )
    heads = ("Experiment", "What", "Cells", "Run", "Not run", "Under")
    return Table(
        "Cells of the papers' tables, and of questions of our own.", heads, rows, frozenset({1, 5}), frozenset({1})
    )


def absent(one: Coverage) -> list[str]:
    """The cells of an experiment that were not run, those of one run on one data set in one line."""
    gathered: dict[tuple[str, str, int], list[Run]] = defaultdict(list)
    for cell in one.missing:
        gathered[cell.label, cell.dataset, cell.lookback].append(cell)
    return [
        f"{dataset}, {label}, look-back {lookback}: horizon {', '.join(str(cell.horizon) for cell in cells)}"
        for (label, dataset, lookback), cells in gathered.items()
    ]


def significance(standing: Standing) -> str:
    """What can be said of the differences, in sentences."""
    found = standing.judgement
    said = []
    if found.too_few:
        said.append(
            f"{text.counted(found.blocks, 'block')} can't settle it: with {len(found.names)} candidates at least "
            f"{found.needed} are needed before any difference could be significant at {found.alpha:g}."
        )
    elif found.significant:
        pairs = [f"{pair.first} beats {pair.second} ({_p_words(pair.corrected)})" for pair in found.significant[:3]]
        more = len(found.significant) - len(pairs)
        said.append(f"After Holm's correction {'; '.join(pairs)}{f'; and {more} more' if more else ''}.")
    else:
        said.append(f"No two candidates differ significantly at {found.alpha:g}.")
    if found.friedman is not None:
        said.append(f"Friedman: chi-squared {found.friedman.statistic:.2f}, {_p_words(found.friedman.p_value)}.")
    if standing.left_out:
        said.append(f"Left out, as some blocks lack them: {', '.join(standing.left_out)}.")
    return " ".join(said)


def habits(names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """(protocol and what it is, its habits) of every protocol that is known."""
    known = [protocols.get(name) for name in names if name in protocols.names()]
    return [(f"{protocol.name}: {protocol.summary}", list(protocol.habits)) for protocol in known]


def _candidate(name: str) -> Cell:
    """A candidate; where it has many settings beside the mechanism's, a mark stands in their place."""
    head, *others = _OUTSIDE_BRACKETS.split(name)
    kept = [part for part in others if part.startswith("lookback=")]
    if len(others) - len(kept) < 2:
        return Cell(name)
    digest = _DIGEST.search(others[-len(kept) - 1])
    mark = digest[1] if digest else hashlib.sha256(name.encode()).hexdigest()[:4]
    return Cell(", ".join([head, *kept, f"settings {mark}"]), whole=name)


def _metrics(task: Task, entries: Sequence[Entry]) -> list[str]:
    return [metric for metric in task.metrics if any(metric in entry.scores for entry in entries)]


def _column(entries: Sequence[Entry], metric: str) -> list[Cell]:
    return _measured(entries, metric, entries[0].task)


def _measured(entries: Sequence[Entry | None], metric: str, task: Task) -> list[Cell]:
    scores = [entry.scores.get(metric) if entry else None for entry in entries]
    means = [score.mean if score else math.nan for score in scores]
    return measured(means, [score.std if score else None for score in scores], lower_is_better=task.lower_is_better)


def _printed(task: Task, entries: Sequence[Entry], besides: Sequence[Beside]) -> list[str]:
    """What papers print for each entry, by the measure that decides."""
    metric = "f1" if task.name == "detection" else task.metrics[0]
    by_row: dict[int, list[Beside]] = defaultdict(list)
    for one in besides:
        if one.number.metric == metric and one.number.value is not None:
            by_row[id(one.rows[0])].append(one)
    found = []
    for entry in entries:
        beside = {f"{one.number.value:g}\u00a0{one.table}": None for row in entry.rows for one in by_row[id(row)]}
        found.append(", ".join(beside))
    return found


def _place(boards: Sequence[Board], who: tuple[str, int]) -> tuple[float, ...]:
    """By the mean place over the boards that have it, those on more boards first."""
    places = [place for board in boards for place, e in enumerate(board.entries) if (e.name, e.lookback) == who]
    return -len(places), sum(places) / len(places)


def _cost(entry: Entry, cost: str, show: Callable[[float], str]) -> str:
    return show(entry.costs[cost]) if cost in entry.costs else text.ABSENT


def _seeds(entry: Entry) -> str:
    """How many runs; of how many, where some ended without a number."""
    runs, counted = len(entry.rows), entry.score.count if entry.score else 0
    return str(runs) if counted == runs else f"{counted} of {runs}"


def _judged_on(entries: Sequence[Entry]) -> str:
    counts = {row.test_windows for entry in entries for row in entry.rows if hasattr(row, "test_windows")}
    if not counts:
        return ""
    low, high = min(counts), max(counts)
    return (
        f"; {low:,} test windows" if low == high else f"; {low:,} to {high:,} test windows, which are not quite alike"
    )


def _interval(interval: Any) -> str:
    if interval is None:
        return text.ABSENT
    return f"{interval.low:+.2f} to {interval.high:+.2f} %".replace("-", "−")


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _p_words(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def _who(row: Any) -> str:
    return f"{row.model} + {row.attention}" if row.attention else str(row.model)


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
