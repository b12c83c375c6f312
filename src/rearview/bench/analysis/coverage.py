"""All printed numbers at once: those that our rows compare with, and the cells of the tables that nobody ran."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rearview.bench.analysis.candidates import name_candidates, spell_suffix
from rearview.bench.analysis.leaderboard import latest_runs
from rearview.bench.analysis.paper_comparison import Comparison, compare, find_all_rows, find_rows, has_numbers
from rearview.bench.papers import catalogue
from rearview.bench.papers.catalogue import Cell, Experiment
from rearview.bench.rows.row import RunRow
from rearview.bench.tasks import Task
from rearview.core.grouping import group_by


@dataclass(frozen=True, slots=True)
class Coverage:
    """The cells of an experiment that were run, and those that were not."""

    experiment: Experiment
    by_protocol: Mapping[str, int]
    """Cells with at least one finished run, under each protocol that has some."""
    missing: tuple[Cell, ...]
    """Cells without a finished run under any protocol."""


def compare_all(task: Task, rows: Sequence[RunRow]) -> list[Comparison]:
    """Every printed number that finished rows of a task compare with, the paper's own protocol first.

    Runs that differ in anything but the seed are different candidates, and each is compared by itself.
    """
    usable = [row for row in latest_runs(rows) if has_numbers(row)]
    names = {}
    for row, named in zip(usable, name_candidates(usable), strict=True):
        names[id(row)] = named.name if named.dataset == row.dataset else f"{named.name} on {named.dataset}"
    by_place = group_by(usable, _place)
    shown: set[int] = set()
    comparisons = []
    for experiment in (experiment for experiment in catalogue.every() if experiment.task == task.name):
        for cell in experiment.cells:
            # A table of averages holds the numbers of another one; each is shown once.
            fresh = tuple(
                number
                for number in cell.numbers
                if id(number) not in shown and (not task.printed or (number.metric in task.printed and number.value))
            )
            shown |= {id(number) for number in fresh}
            places = [row for each in (cell, *cell.among) for row in by_place.get(_place(each), ())]
            made = find_all_rows(cell, places)
            if fresh and made:
                one = replace(experiment, cells=(replace(cell, numbers=fresh),))
                # The rows of a search are one candidate, at whichever look-backs it was made.
                labels = {id(row): cell.label for row in made} if cell.candidates else names
                for label, group in _group_candidates(made, labels, experiment.protocol):
                    for each in compare(one, group, group[0].protocol):
                        comparisons.append(replace(each, label=label or f"{cell.label}{spell_suffix(each.apart)}"))
    return comparisons


def _group_candidates(rows: Sequence[RunRow], labels: Mapping[int, str], first: str) -> list[tuple[str, list[RunRow]]]:
    """(name, rows) of every candidate under every protocol; the name is empty where a protocol has but one."""
    groups = []
    by_protocol = group_by(rows, lambda row: row.protocol)
    for protocol in sorted(by_protocol, key=lambda name: (name != first, name)):
        candidates = group_by(by_protocol[protocol], lambda row: labels[id(row)])
        groups += [(name if len(candidates) > 1 else "", group) for name, group in candidates.items()]
    return groups


def measure_coverage(rows: Mapping[Task, Sequence[RunRow]]) -> list[Coverage]:
    """Every experiment of a task that has rows, with those of its cells that were not run."""
    finished = {task.name: latest_runs(made) for task, made in rows.items() if made}
    by_place = {name: group_by(made, _place) for name, made in finished.items()}
    coverage = []
    for experiment in catalogue.every():
        # Tables of averages are views of another table's cells.
        tables = {number.table for cell in experiment.cells for number in cell.numbers}
        if experiment.task in finished and experiment.cells and tables <= {experiment.table}:
            made = [find_rows(cell, by_place[experiment.task].get(_place(cell), ())) for cell in experiment.cells]
            counts = Counter(protocol for some in made for protocol in {row.protocol for row in some})
            missing = tuple(cell for cell, some in zip(experiment.cells, made, strict=True) if not some)
            coverage.append(Coverage(experiment, dict(sorted(counts.items())), missing))
    return coverage


def count_made(rows: Mapping[Task, Sequence[RunRow]]) -> dict[str, int]:
    """By experiment: its cells with a finished run, under whichever protocol."""
    by_place = {task.name: group_by(latest_runs(made), _place) for task, made in rows.items()}
    return {
        one.name: sum(bool(find_rows(cell, by_place.get(one.task, {}).get(_place(cell), ()))) for cell in one.cells)
        for one in catalogue.every()
    }


def _place(one: RunRow | Cell) -> tuple[str, str, int | None, int | None]:
    """The key under which rows of a cell are looked up; look-backs matter in forecasting alone."""
    horizon = getattr(one, "horizon", None)
    return one.dataset, one.model, horizon, None if horizon is None else one.lookback
