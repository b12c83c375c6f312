"""What rows say beside the leaderboards, as tables: the papers' numbers, protocols, failures, what was not run."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from rearview.bench import protocols
from rearview.bench.analysis.candidates import spell_mechanism
from rearview.bench.analysis.coverage import Coverage, PaperComparison
from rearview.bench.analysis.paper_comparison import RULE
from rearview.bench.analysis.standings import Sided
from rearview.bench.papers.catalogue import Cell as Run
from rearview.bench.papers.published import Number
from rearview.bench.tasks import METRICS
from rearview.report.common import text
from rearview.report.common.tables import Cell, Table
from rearview.report.results.tables import by_chance, candidate

VERDICTS = ("reproduced", "better", "worse", "not comparable")


def tally(besides: Sequence[PaperComparison]) -> Table:
    """How many printed numbers of each table ours agree with, under each protocol of ours."""
    gathered: dict[tuple[str, str], list[PaperComparison]] = defaultdict(list)
    for one in besides:
        gathered[one.table, one.protocol].append(one)
    rows = []
    for (table, protocol), found in gathered.items():
        counts = Counter(one.verdict for one in found)
        off = [abs(one.difference) for one in found if one.difference is not None]
        cells = [Cell(protocol), Cell(str(len(found))), *(Cell(str(counts[verdict])) for verdict in VERDICTS)]
        short = sum(bool(one.shortfall) for one in found)
        rows.append((Cell(table), *cells, Cell(str(short)), Cell(f"{median(off):.1f} %" if off else text.ABSENT)))
    verdicts = (verdict.capitalize() for verdict in VERDICTS)
    heads = ("Table", "Our protocol", "Numbers", *verdicts, "Smaller budget", "Median distance")
    return Table(f"{RULE[0].upper()}{RULE[1:]}.", heads, tuple(rows), frozenset({1}))


def papers(besides: Sequence[PaperComparison]) -> Table:
    """Ours beside every printed number that a run stands beside, and what guessing gets where that is something."""
    guessed = any(one.chance for one in besides)
    rows = tuple(
        (
            candidate(one.label),
            Cell(one.table),
            Cell(_block(one.number), measure(one)),
            Cell(text.number(one.ours.mean), f"±{one.ours.std:.4f}" if one.ours.std is not None else ""),
            Cell(str(one.ours.count)),
            *([Cell(text.number(one.chance.mean) if one.chance else text.ABSENT)] if guessed else []),
            Cell(text.ABSENT if one.number.value is None else f"{one.number.value:g}"),
            Cell(text.ABSENT if one.difference is None else text.change(one.difference)),
            Cell(one.verdict, "(smaller budget)" if one.shortfall else ""),
            Cell(one.protocol),
        )
        for one in besides
    )
    chance = ("By chance",) if guessed else ()
    heads = ("Run", "Table", "Block", "Ours", "Seeds", *chance, "Printed", "Difference", "Verdict", "Our protocol")
    told = by_chance({column for one in besides if one.chance for column in one.task.chance.values()}, "By chance")
    words = frozenset({1, 2, len(heads) - 2, len(heads) - 1})
    return Table(f"Every printed number that a run stands beside.{told}", heads, rows, words)


def measure(one: PaperComparison) -> str:
    """What is compared, in words."""
    return METRICS.get(one.metric, one.metric.upper())


def sides(found: Sequence[Sided]) -> Table:
    """The same run under several protocols: a habit's share of a number."""
    names = list(dict.fromkeys(sorted((p for one in found for p in one.scores), key=lambda p: (p != "clean", p))))
    rows = []
    for one in found:
        base = one.scores.get("clean")
        cells = []
        for protocol in names:
            score = one.scores.get(protocol)
            change = ""
            if score and base and score is not base and base.mean:  # no number is any share of a zero
                change = text.change(100 * (score.mean / base.mean - 1))
            cells.append(Cell(text.number(score.mean) if score else text.ABSENT, change))
        where = one.dataset if one.horizon is None else f"{one.dataset} {one.horizon}"
        rows.append((candidate(one.name), Cell(where), Cell(METRICS[one.metric]), *cells))
    caption = "The same run under several protocols, each on its own scale; beside a number, how far it is from clean."
    return Table(caption, ("Candidate", "Block", "Measure", *names), tuple(rows), frozenset({1, 2}))


def failures(rows: Sequence[Any]) -> Table:
    """Runs that never came to an end, and why."""
    cells = tuple(
        tuple(map(Cell, (_who(row), row.dataset, _ahead(row), str(row.seed), row.protocol, row.problem)))
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
    gathered: dict[tuple[str, str, int | None], list[Run]] = defaultdict(list)
    for cell in one.missing:
        if cell.horizon is not None:
            gathered[cell.label, cell.dataset, cell.lookback].append(cell)
    return [
        *(
            f"{dataset}, {label}, look-back {lookback}: horizon {', '.join(str(cell.horizon) for cell in cells)}"
            for (label, dataset, lookback), cells in gathered.items()
        ),
        *_absent_sets([cell for cell in one.missing if cell.horizon is None]),
    ]


def _absent_sets(cells: Sequence[Run]) -> list[str]:
    """Runs of classification or detection, those together that lack the same data sets."""
    sets: dict[str, list[str]] = defaultdict(list)
    for cell in cells:
        sets[cell.label].append(cell.dataset)
    arms: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for label, names in sets.items():
        arms[tuple(names)].append(label)
    return [f"{'; '.join(labels)}: {', '.join(names)}" for names, labels in arms.items()]


def habits(used: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """(protocol in a task and what it is, its habits) for every protocol and task that are known."""
    found = []
    for name, task in used:
        if name in protocols.names() and task in protocols.get(name).habits:
            known = protocols.get(name)
            found.append((f"{name} in {task}: {known.summary}", list(known.habits[task])))
    return found


def _block(number: Number) -> str:
    return number.dataset if number.horizon is None else f"{number.dataset} {number.horizon}"


def _who(row: Any) -> str:
    return f"{row.model} + {spell_mechanism(row)}" if row.attention else str(row.model)


def _ahead(row: Any) -> str:
    """A row's horizon, which classification and detection have none of."""
    return str(row.horizon) if hasattr(row, "horizon") else text.ABSENT
