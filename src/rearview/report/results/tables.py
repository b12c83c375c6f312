"""Tables of results: leaderboards, ranks, one mechanism against another."""

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from itertools import groupby

from rearview.bench.analysis import budget
from rearview.bench.analysis.ablation import BETTER, LEVEL, UNTOLD, WORSE, Ablation
from rearview.bench.analysis.leaderboard import Board, Entry
from rearview.bench.analysis.paper_comparison import Comparison
from rearview.bench.analysis.significance import ALPHA, Interval
from rearview.bench.analysis.standings import Answer, Contrast, Standing, build_contrasts
from rearview.bench.analysis.step_costs import StepCost
from rearview.bench.analysis.step_costs import find as find_step
from rearview.bench.rows.row import RunRow
from rearview.bench.tasks import METRICS, Task
from rearview.core.grouping import group_by
from rearview.core.wording import quantity
from rearview.report.common import text
from rearview.report.common.tables import Cell, Table, score_cells

MOST_NAMED = 3
CUT = "; cut: patience ended so many runs before the rate of their schedule had fallen"
_OUTSIDE_BRACKETS = re.compile(r", (?![^()\[\]]*[)\]])")
_DIGEST = re.compile(r"more \(([0-9a-f]{4})\)$")


def leaderboard_table(
    board: Board, comparisons: Sequence[Comparison] = (), overlapping: Set[RunRow] = frozenset()
) -> Table:
    """One block: place, measures, seeds, cost, and what papers print for the same run.

    Times of `overlapping` rows are marked.
    """
    entries = board.entries
    metrics = _metrics(board)
    # The measure that stands beside the papers' numbers.
    compared = next(iter(board.task.printed.values()), board.task.deciding_measure(board.protocol))
    printed = _printed_numbers(compared, entries, comparisons)
    waited = ["\u00a0*" if overlaps(entry, overlapping) else "" for entry in entries]
    durations = [_cost(entry, "train_seconds", text.duration) for entry in entries]
    columns = {
        "Candidate": [candidate(entry.name) for entry in entries],
        "Look-back": [Cell(str(entry.lookback)) for entry in entries],
        **{METRICS[metric]: _score_cells(entries, metric, board.task) for metric in metrics},
        "Budget": [Cell(_budget(entry)) for entry in entries],
        "Parameters": [Cell(_cost(entry, "parameters", lambda value: f"{value:,.0f}")) for entry in entries],
        "Training": [Cell(duration + mark) for duration, mark in zip(durations, waited, strict=True)],
    }
    if any("latency_ms" in entry.costs for entry in entries):
        latencies = [_cost(entry, "latency_ms", lambda value: f"{value:.2f} ms") for entry in entries]
        columns["Latency"] = [Cell(latency + mark) for latency, mark in zip(latencies, waited, strict=True)]
    if any(printed):
        columns[f"Printed {METRICS[compared]}"] = [Cell(words or text.ABSENT) for words in printed]
    words = {len(columns) - 1} if any(printed) else set[int]()
    granted = [budget.budget_of(entry.rows) for entry in entries]
    caption = (
        f"{board.title}; protocol {board.protocol}{_judged_on(entries)}{_units(board)}. Budget: seeds × "
        f"{'settings tried × ' if any(one.tried for one in granted) else ''}epochs"
        f"{CUT if any(one.cut for one in granted) else ''}."
        f"{' * Other runs shared the device: the time includes waiting.' if any(waited) else ''}{chance_note(metrics)}"
    )
    tags = tuple(entry.model for entry in entries)
    return Table(caption, tuple(columns), tuple(zip(*columns.values(), strict=True)), words, tags=tags)


def overlaps(entry: Entry, overlapping: Set[RunRow]) -> bool:
    """Whether other runs shared the device with one of an entry's, so that its times include waiting."""
    return any(row in overlapping for row in entry.rows)


def mark_lines(board: Board) -> list[str]:
    """All settings of every candidate on a leaderboard that has a mark in their place."""
    cells = [(candidate(entry.name), entry) for entry in board.entries]
    return [f"{cell.text}: {', '.join(entry.differences)}" for cell, entry in cells if cell.whole]


def dataset_tables(boards: Sequence[Board]) -> list[Table]:
    """For print: a table for each protocol and data set, candidates down, horizons and measures across."""
    tables = []
    for (task, protocol, dataset), group in groupby(boards, key=lambda b: (b.task, b.protocol, b.dataset)):
        same = list(group)
        entries = dict.fromkeys((entry.name, entry.lookback) for board in same for entry in board.entries)
        order = sorted(entries, key=lambda who: _place(same, who))
        columns = {"Candidate": [Cell(f"{name} (L={lookback})") for name, lookback in order]}
        for board in same:
            by_name = {(entry.name, entry.lookback): entry for entry in board.entries}
            for metric in _metrics(board):
                head = METRICS[metric] if board.horizon is None else f"{board.horizon} {METRICS[metric]}"
                columns[head] = _score_cells([by_name.get(who) for who in order], metric, task)
        caption = (
            f"{dataset}, protocol {protocol}{_units(same[0])}: mean and standard deviation over seeds, best bold, "
            f"second underlined.{chance_note([metric for board in same for metric in _metrics(board)])}"
        )
        tables.append(Table(caption, tuple(columns), tuple(zip(*columns.values(), strict=True))))
    return tables


TUNED = "; learning rate chosen on validation"


def answer_table(answers: Sequence[Answer], steps: Sequence[StepCost]) -> Table:
    """For every network: the best mechanism beside softmax, by how much, how sure that is, and at what cost."""
    rows = []
    for answer in answers:
        standing, best = answer.standing, answer.best
        name = answered_mechanism(answer)
        rows.append(
            (
                Cell(
                    answered_place(answer),
                    _enumerate(standing.blocks, MOST_NAMED + 1) + (TUNED if standing.rates else ""),
                ),
                Cell(name if answer.gains else f"softmax, then {name}", mark="best"),
                Cell(answered_difference(answer), _beside_change(best)),
                Cell(_certainty(answer)),
                Cell(_spell_cost(standing, best, steps)),
            )
        )
    heads = ("Where", "Best attention", "Against softmax", "How sure", "At what cost")
    caption = (
        "Of each network the comparison on equal budgets over the most data sets, and the attention that is best on "
        "test rows there. Data sets are counted, not seeds, horizons or look-backs."
    )
    if any(step_times(answer.standing, answer.best, steps) for answer in answers):
        caption += " Steps were timed one at a time, apart from the runs."
    return Table(caption, heads, tuple(rows), frozenset({1, 2, 3, 4}), stacks=True)


def answered_place(answer: Answer) -> str:
    """Task and network of an answer, and the protocol where it is a paper's."""
    standing = answer.standing
    where = f"{standing.task.name.capitalize()}, {standing.model}"
    return where if standing.protocol == "clean" else f"{where}, {standing.protocol}"


def answered_mechanism(answer: Answer) -> str:
    """The best mechanism of an answer without its network."""
    return candidate(answer.best.name).text.removeprefix(f"{answer.standing.model} + ")


def answered_difference(answer: Answer) -> str:
    """By how much it differs from softmax: accuracy in points, other measures in percent."""
    best, measure = answer.best, answer.standing.measure
    return f"{text.change(best.change, 1) if best.points is None else text.points(best.points)} {measure}"


def _beside_change(contrast: Contrast) -> str:
    """The interval of a change and what validation says, as far as there are any; of accuracy, the change first."""
    relative = "" if contrast.points is None else f"relative {text.change(contrast.change, 1)}"
    change = " ".join(filter(None, (relative, _spell_interval(contrast.interval))))
    validation = "" if contrast.validation is None else f"validation {text.change(contrast.validation, 1)}"
    return "; ".join(filter(None, (change, validation)))


def _certainty(answer: Answer) -> str:
    """How sure a difference is: on how many data sets, over how many seeds, and what a test says of it."""
    standing, best = answer.standing, answer.best
    sets = quantity(len(standing.blocks), "data set")
    how = f"better on {best.record.wins} of {sets}, {quantity(standing.seeds, 'seed')}"
    match answer.outcome:
        case "budgets differ":
            return f"{how}; not judged, as budgets differ: {', '.join(standing.uneven)}"
        case "too few data sets":
            return f"{how}; too few data sets for a test, which needs {answer.needed}"
        case _:
            return f"{how}; {_p_words(best.corrected)}, corrected for {quantity(answer.comparisons, 'comparison')}"


def control_table(ablations: Sequence[Ablation]) -> Table:
    """For every network on a data set with controls: whether attention is better than the best of them."""
    rows = []
    for one in ablations:
        first, *others = one.mechanisms
        difference = f"{first.name} {text.change(first.against.mean, 1)}" if first.against else first.name
        calls = {call: [arm.name for arm in (first, *others) if arm.call == call] for call in (BETTER, WORSE, UNTOLD)}
        listed = "; ".join(f"{call}: {', '.join(names)}" for call, names in calls.items() if names)
        unfair = f"budgets differ: {', '.join(one.uneven)}" if budget.is_unfair(one.uneven) else ""
        rows.append(
            (
                Cell(str(one.place), one.footing),
                Cell(one.yardstick.name, f"{one.metric.upper()} {one.yardstick.score:.4f}"),
                Cell(difference, _spell_interval(first.against)),
                Cell(listed or "fewer than two seeds in common", unfair),
                Cell(quantity(min(arm.seeds for arm in one.arms), "seed")),
            )
        )
    heads = ("Where", "Best control", "Against it", "How sure", "Seeds")
    comparisons = ablations[0].comparisons if ablations else 0
    caption = (
        "Controls do not look at what tokens hold (zero: no attention; identity: each token alone; uniform: the mean; "
        "fixed: one learned matrix for all windows; positional: attention by place alone); the best is chosen on "
        f"validation. Differences are of the test error, seed by seed; {quantity(comparisons, 'interval')} hold "
        f"together with a chance of {100 * LEVEL:.0f} %, and speak of other seeds, not of other data."
    )
    return Table(caption, heads, tuple(rows), frozenset({1, 2, 3, 4}), stacks=True)


def _spell_cost(standing: Standing, contrast: Contrast, steps: Sequence[StepCost]) -> str:
    """Parameters and time of a training step, as multiples."""
    same = abs(contrast.parameters - 1) < 0.005
    parameters = "as many parameters" if same else f"{contrast.parameters:.2f} times the parameters"
    time = step_times(standing, contrast, steps)
    return parameters if time is None else f"{parameters}, {time:.2f} times the step"


def step_times(standing: Standing, contrast: Contrast, steps: Sequence[StepCost]) -> float | None:
    """How many times as long a training step takes, on a block where both were timed; None: on none."""
    pairs = zip(standing.entries[contrast.name], standing.entries[contrast.against], strict=True)
    timed = ((find_step(steps, ours.rows), find_step(steps, theirs.rows)) for ours, theirs in pairs)
    return next((ours / theirs for ours, theirs in timed if ours and theirs), None)


def _spell_interval(interval: Interval | None) -> str:
    return "" if interval is None else f"({text.change(interval.low, 1)} to {text.change(interval.high, 1)})"


def leader_table(standings: Sequence[Standing], steps: Sequence[StepCost]) -> Table:
    """The leader of each comparison, whether its lead is significant, and what it costs beside softmax."""
    rows = []
    for standing in standings:
        judgement = standing.judgement
        names = judgement.names
        beaten = sum(pair.first == names[0] for pair in standing.significant)
        outcome = f"better than {beaten} of {len(names) - 1}" if beaten else "no"
        gains = build_contrasts(standing) if names[0] in standing.plain else []
        if budget.is_unfair(standing.uneven):
            outcome = "not judged, as budgets differ"
        elif judgement.too_few:
            outcome = f"too few data sets, {judgement.needed} needed"
        rows.append(
            (
                Cell(standing.title),
                replace(candidate(names[0]), mark="best"),
                Cell(f"{judgement.ranks[0]:.2f} of {len(names)}"),
                Cell(str(judgement.blocks), beside=_enumerate(standing.blocks, MOST_NAMED + 1)),
                Cell(outcome),
                Cell(next((_spell_cost(standing, one, steps) for one in gains if one.name == names[0]), text.ABSENT)),
                Cell(", ".join(standing.uneven) or "equal"),
            )
        )
    heads = ("Comparison", "Leader", "Average rank", "Data sets", "Significant", "Cost", "Budgets")
    caption = (
        "Of every comparison: who leads it, and its cost as multiples of the same network with softmax. Where budgets "
        "are not equal, they may be what decides."
    )
    return Table(caption, heads, tuple(rows), frozenset({1, 3, 4, 5, 6}))


def rank_table(standing: Standing) -> Table:
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
        rows.append((candidate(name), Cell(f"{rank:.2f}"), *map(Cell, beaten)))
    heads = ("Candidate", "Average rank", "Win/tie/loss against the best", "p", "p after Holm")
    return Table(f"{standing.title}. {_over(standing)}", heads, tuple(rows))


def ablation_table(standing: Standing, contrasts: Sequence[Contrast], steps: Sequence[StepCost]) -> Table:
    """Every mechanism of a network against softmax, over the data sets that all have, with what it costs."""
    several = standing.judgement.blocks > 1
    rows = tuple(
        (
            candidate(one.name),
            Cell(text.change(one.change, 2)),
            Cell(_spell_interval(one.interval) or text.ABSENT),
            Cell(text.ABSENT if one.validation is None else text.change(one.validation, 2)),
            Cell(str(one.record)),
            Cell(_p(one.p_value) if several else text.ABSENT),
            Cell(_p(one.corrected) if several else text.ABSENT),
            Cell(f"{one.parameters:.2f} ×"),
            Cell(f"{time:.2f} ×" if (time := step_times(standing, one, steps)) else text.ABSENT),
        )
        for one in contrasts
    )
    heads = (
        "Candidate", f"{standing.measure}, mean change", "95 % interval", "Validation loss", "Win/tie/loss", "p",
        "p after Holm", "Parameters", "Step time",
    )  # fmt: skip
    return Table(f"{standing.title}. {describe_contrasts(standing, contrasts)}", heads, rows)


def describe_contrasts(standing: Standing, contrasts: Sequence[Contrast]) -> str:
    """The meaning of the numbers of an ablation."""
    against = candidate(contrasts[0].against).text
    better = "negative" if standing.task.lower_is_better else "positive"
    interval = " The interval is a paired bootstrap over data sets." if contrasts[0].interval else ""
    unfair = f" Budgets differ ({', '.join(standing.uneven)})." if standing.uneven else ""
    return (
        f"Mean change of {standing.measure} and of the validation loss against {against}, with parameters and step "
        f"time as multiples of its own; {better} is better. {_over(standing)}{interval}{unfair}"
    )


def significance(standing: Standing) -> str:
    """The question of a standing, its data sets, and which differences are significant, in sentences."""
    judgement = standing.judgement
    sentences = [f"{standing.question}.", _over(standing)] if standing.question else [_over(standing)]
    if budget.is_unfair(standing.uneven):
        sentences.append(f"Budgets differ ({', '.join(standing.uneven)}), so no difference is called significant.")
    elif judgement.too_few:
        sentences.append(
            f"{quantity(judgement.blocks, 'data set')} can't settle it: with {len(judgement.names)} candidates at "
            f"least {judgement.needed} are needed before any difference could be significant at {ALPHA:g}."
        )
    elif judgement.significant:
        pairs = [
            f"{candidate(pair.first).text} beats {candidate(pair.second).text} ({_p_words(pair.corrected)})"
            for pair in judgement.significant[:3]
        ]
        more = len(judgement.significant) - len(pairs)
        sentences.append(f"After Holm's correction {'; '.join(pairs)}{f'; and {more} more' if more else ''}.")
    else:
        sentences.append(f"No two candidates differ significantly at {ALPHA:g}.")
    if standing.uneven and not budget.is_unfair(standing.uneven):
        sentences.append(f"Budgets differ ({', '.join(standing.uneven)}).")
    if judgement.friedman is not None:
        sentences.append(
            f"Friedman: chi-squared {judgement.friedman.statistic:.2f}, {_p_words(judgement.friedman.p_value)}."
        )
    if len(standing.left_out) > MOST_NAMED:
        sentences.append(f"{len(standing.left_out):,} candidates that lack some of these runs are left out.")
    elif standing.left_out:
        names = ", ".join(candidate(name).text for name in standing.left_out)
        sentences.append(f"Left out, as some of these runs lack them: {names}.")
    return " ".join(sentences)


def candidate(name: str) -> Cell:
    """A candidate; where it has many settings beside the mechanism's, a mark stands in their place."""
    head, *others = _OUTSIDE_BRACKETS.split(name)
    lookbacks = [part for part in others if part.startswith("lookback=")]
    if len(others) - len(lookbacks) < 2:
        return Cell(name)
    digest = _DIGEST.search(others[-len(lookbacks) - 1])
    mark = digest[1] if digest else hashlib.sha256(name.encode()).hexdigest()[:4]
    return Cell(", ".join([head, *lookbacks, f"settings {mark}"]), whole=name)


def chance_note(columns: Iterable[str], heading: str = METRICS["adjusted_f1_by_chance"]) -> str:
    """A sentence on a column of what guessing gets; empty without one."""
    if "adjusted_f1_by_chance" not in columns:
        return ""
    return f" {heading}: the point-adjusted F1 of as many flags thrown at random."


def _metrics(board: Board) -> list[str]:
    """The columns that some entry has: measures, the one that decides first, and beside each what guessing gets."""
    task = board.task
    columns = [column for metric in task.measures(board.protocol) for column in (metric, task.chance.get(metric, ""))]
    return [column for column in columns if any(column in entry.scores for entry in board.entries)]


def _score_cells(entries: Sequence[Entry | None], metric: str, task: Task) -> list[Cell]:
    scores = [entry.scores.get(metric) if entry else None for entry in entries]
    means = [score.mean if score else math.nan for score in scores]
    stds = [score.std if score else None for score in scores]
    cells = score_cells(means, stds, lower_is_better=task.lower_is_better)
    # Guesses are no candidates: the best of them leads nothing.
    return [replace(cell, mark="") for cell in cells] if metric in task.chance.values() else cells


def _printed_numbers(metric: str, entries: Sequence[Entry], comparisons: Sequence[Comparison]) -> list[str]:
    """The papers' numbers for each entry, by the measure that is compared."""
    compared = (one for one in comparisons if one.metric == metric and one.printed is not None)
    by_row = group_by(compared, lambda one: id(one.rows[0]))
    printed = []
    for entry in entries:
        matches = [one for row in entry.rows for one in by_row.get(id(row), ())]
        by_value = group_by(matches, lambda one: f"{one.printed:g}").items()
        tables = {value: dict.fromkeys(one.table for one in same) for value, same in by_value}
        printed.append("; ".join(f"{value}\u00a0{', '.join(names)}" for value, names in tables.items()))
    return printed


def _place(boards: Sequence[Board], who: tuple[str, int]) -> tuple[float, ...]:
    """By the mean place over the boards that have it, those on more boards first."""
    places = [place for board in boards for place, e in enumerate(board.entries) if (e.name, e.lookback) == who]
    return -len(places), sum(places) / len(places)


def _cost(entry: Entry, cost: str, show: Callable[[float], str]) -> str:
    return show(entry.costs[cost]) if cost in entry.costs else text.ABSENT


def _budget(entry: Entry) -> str:
    """The number of runs (of how many, where some ended without a number), settings tried in each, epochs granted, and
    the runs that patience ended before the rate of their schedule had fallen."""
    runs, counted = len(entry.rows), entry.score.count if entry.score else 0
    granted = budget.budget_of(entry.rows)
    parts = [str(runs) if counted == runs else f"{counted} of {runs}"]
    amounts = (granted.tried or None, granted.epochs)
    words = " × ".join([*parts, *(str(amount) for amount in amounts if amount is not None)])
    return f"{words}, {granted.cut} cut" if granted.cut else words


def _units(board: Board) -> str:
    return ", errors in original units" if board.task.in_original_units(board.protocol) else ""


def _judged_on(entries: Sequence[Entry]) -> str:
    counts = sorted({row.test_windows for entry in entries for row in entry.rows if hasattr(row, "test_windows")})
    if len(counts) > 1:
        return f"; {counts[0]:,} to {counts[-1]:,} test windows, which are not quite alike"
    return f"; {counts[0]:,} test windows" if counts else ""


def _over(standing: Standing) -> str:
    return f"Over {quantity(len(standing.blocks), 'data set')}: {_enumerate(standing.blocks)}."


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _p_words(value: float) -> str:
    return f"p {_p(value)}" if value < 0.001 else f"p = {_p(value)}"


def _enumerate(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
