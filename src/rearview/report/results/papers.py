"""Tables that go with the leaderboards: the papers' numbers, protocols, failures, cells that were not run."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from rearview.bench import protocols
from rearview.bench.analysis.candidates import spell_mechanism
from rearview.bench.analysis.coverage import Coverage
from rearview.bench.analysis.paper_comparison import RULE, Comparison
from rearview.bench.analysis.standings import ProtocolContrast
from rearview.bench.rows.row import RunRow
from rearview.bench.tasks import METRICS
from rearview.core.grouping import group_by
from rearview.report.common import text
from rearview.report.common.tables import Cell, Table
from rearview.report.results.tables import candidate, chance_note

VERDICTS = ("reproduced", "better", "worse", "differs by run", "not comparable")


def judge_numbers(comparisons: Sequence[Comparison]) -> Counter[str]:
    """Distinct printed numbers by the verdict of every run that compares with them, or where runs disagree."""
    by_number = group_by(comparisons, lambda one: id(one.number))
    verdicts = [{one.verdict for one in same} for same in by_number.values()]
    return Counter(each.pop() if len(each) == 1 else "differs by run" for each in verdicts)


def tally_table(comparisons: Sequence[Comparison]) -> Table:
    """The distinct printed numbers of each table by verdict under each protocol of ours, and the runs behind it."""
    rows = []
    for (table, protocol), same in group_by(comparisons, lambda one: (one.table, one.protocol)).items():
        counts = judge_numbers(same)
        off = [abs(one.difference) for one in same if one.difference is not None]
        runs = len({row for one in same for row in one.rows})
        short = len({id(one.number) for one in same if one.shortfall})
        distance = f"{median(off):.1f} %" if off else text.ABSENT
        words = (table, protocol, counts.total(), *(counts[verdict] for verdict in VERDICTS), runs, short, distance)
        rows.append(tuple(Cell(str(word)) for word in words))
    verdicts = (verdict.capitalize() for verdict in VERDICTS)
    heads = ("Table", "Our protocol", "Numbers", *verdicts, "Runs", "Smaller budget", "Median distance")
    rule = f"{RULE[0].upper()}{RULE[1:]}."
    caption = f"Printed numbers, each counted once: reproduced is one that every run reproduces. {rule}"
    return Table(caption, heads, tuple(rows), frozenset({1}))


def number_table(comparisons: Sequence[Comparison]) -> Table:
    """Our number for every printed number that a run compares with, and the score by chance where there is one."""
    guessed = any(one.chance for one in comparisons)
    rows = tuple(
        (
            candidate(one.label),
            Cell(one.table),
            Cell(one.block, measure(one)),
            Cell(
                text.ABSENT if one.mean is None else text.number(one.mean),
                f"±{one.std:.4f}" if one.std is not None else "",
            ),
            Cell(str(one.count)),
            *([Cell(text.number(one.chance) if one.chance else text.ABSENT)] if guessed else []),
            Cell(text.ABSENT if one.printed is None else f"{one.printed:g}"),
            Cell(text.ABSENT if one.difference is None else text.change(one.difference)),
            Cell(one.verdict, "(smaller budget)" if one.shortfall else ""),
            Cell(one.protocol),
        )
        for one in comparisons
    )
    chance = ("By chance",) if guessed else ()
    heads = ("Run", "Table", "Block", "Ours", "Seeds", *chance, "Printed", "Difference", "Verdict", "Our protocol")
    note = chance_note(["adjusted_f1_by_chance"] if guessed else [], "By chance")
    words = frozenset({1, 2, len(heads) - 2, len(heads) - 1})
    return Table(f"Every printed number that a run stands beside.{note}", heads, rows, words)


def measure(one: Comparison) -> str:
    """The measure that is compared, in words."""
    return METRICS.get(one.metric, one.metric.upper())


def protocol_table(protocol_contrasts: Sequence[ProtocolContrast]) -> Table:
    """The same run under several protocols: how much of a number is a habit's."""
    names = list(
        dict.fromkeys(sorted((p for one in protocol_contrasts for p in one.scores), key=lambda p: (p != "clean", p)))
    )
    rows = []
    for one in protocol_contrasts:
        base = one.scores.get("clean")
        cells = []
        for protocol in names:
            score = one.scores.get(protocol)
            change = ""
            if score and base and score is not base and base.mean:  # no number is any share of a zero
                change = text.change(100 * (score.mean / base.mean - 1))
            cells.append(Cell(text.number(score.mean) if score else text.ABSENT, change))
        block = " ".join(map(str, filter(None, (one.dataset, one.horizon))))
        rows.append((candidate(one.name), Cell(block), Cell(METRICS[one.metric]), *cells))
    caption = "The same run under several protocols, each on its own scale; beside a number, how far it is from clean."
    return Table(caption, ("Candidate", "Block", "Measure", *names), tuple(rows), frozenset({1, 2}))


def failure_table(rows: Sequence[RunRow]) -> Table:
    """Failed runs, and why they failed."""
    cells = []
    for row in rows:
        who = f"{row.model} + {spell_mechanism(row)}" if row.attention else row.model
        horizon = getattr(row, "horizon", text.ABSENT)  # classification and detection have none
        words = (who, row.dataset, horizon, row.seed, row.protocol, row.problem)
        cells.append(tuple(Cell(str(word)) for word in words))
    heads = ("Run", "Data set", "Horizon", "Seed", "Protocol", "Why")
    caption = "Runs that broke off; no number above counts them."
    return Table(caption, heads, tuple(cells), frozenset({1, 4, 5}), frozenset({5}))


def coverage_table(coverage: Sequence[Coverage]) -> Table:
    """The cells of every experiment that were run, by protocol, and those that were not."""
    rows = []
    for one in coverage:
        runs, missing = len(one.experiment.cells), len(one.missing)
        counts = (f"{runs:,}", f"{runs - missing:,}", f"{missing:,}")
        under = ", ".join(f"{count} {protocol}" for protocol, count in one.by_protocol.items()) or text.ABSENT
        rows.append(tuple(map(Cell, (one.experiment.name, one.experiment.title, *counts, under))))
    heads = ("Experiment", "What", "Cells", "Run", "Not run", "Under")
    caption = "Cells of the papers' tables, and of questions of our own."
    return Table(caption, heads, tuple(rows), frozenset({1, 5}), frozenset({1}))


def missing_lines(one: Coverage) -> list[str]:
    """The cells of an experiment that were not run: forecasts by run and data set, others by the sets they lack."""
    forecasts = [cell for cell in one.missing if cell.horizon is not None]
    others = group_by((cell for cell in one.missing if cell.horizon is None), lambda cell: cell.label)
    arms = group_by(others, lambda label: tuple(cell.dataset for cell in others[label]))
    lines = []
    for place, cells in group_by(forecasts, lambda cell: (cell.dataset, cell.label, cell.lookback)).items():
        dataset, label, lookback = place
        horizons = ", ".join(str(cell.horizon) for cell in cells)
        lines.append(f"{dataset}, {label}, look-back {lookback}: horizon {horizons}")
    return [*lines, *(f"{'; '.join(labels)}: {', '.join(names)}" for names, labels in arms.items())]


def protocol_habits(used: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """(protocol in a task and what it is, its habits) for every protocol and task that are known."""
    habits = []
    for name, task in used:
        if name in protocols.names() and task in protocols.get(name).habits:
            known = protocols.get(name)
            habits.append((f"{name} in {task}: {known.summary}", list(known.habits[task])))
    return habits
