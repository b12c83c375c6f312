"""Leaderboards: rows by protocol, data set and horizon, each candidate with mean and spread over seeds and its cost."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime

import numpy as np

from rearview.bench.analysis.candidates import Candidate, name_candidates
from rearview.bench.rows.identity import key_without
from rearview.bench.rows.row import RunRow
from rearview.bench.tasks import Task
from rearview.core.grouping import group_by

COSTS = ("parameters", "train_seconds", "latency_ms", "peak_memory_bytes")
_CHECKSUMS = ("values_sha256", "train_sha256", "test_sha256")
"""The columns of a configuration that only reading the data fills."""
RESOLUTION = 1.0
"""Seconds to which a row's stamp is exact: runs one after another can seem to overlap by so much."""


@dataclass(frozen=True, slots=True)
class Score:
    """A measure over seeds."""

    mean: float
    std: float | None
    """None with fewer than two seeds."""
    count: int


@dataclass(frozen=True, slots=True)
class Entry(Candidate):
    """One candidate on one block."""

    task: Task
    protocol: str
    horizon: int | None
    model: str
    attention: str
    lookback: int
    scores: Mapping[str, Score]
    """By measure, and by the columns of what guessing gets."""
    costs: Mapping[str, float]
    """Means over seeds, of what was measured."""
    rows: tuple[RunRow, ...]

    @property
    def score(self) -> Score | None:
        """By the measure that decides; None where no run has it."""
        return self.scores.get(self.task.deciding_measure(self.protocol))


@dataclass(frozen=True, slots=True)
class Board:
    """Every candidate on one block, the best first."""

    task: Task
    protocol: str
    dataset: str
    horizon: int | None
    entries: tuple[Entry, ...]

    @property
    def title(self) -> str:
        return self.dataset if self.horizon is None else f"{self.dataset}, horizon {self.horizon}"


@dataclass(frozen=True, slots=True)
class Repeats:
    """Runs that were made more than once."""

    count: int
    spare: int
    """Rows of theirs that don't count."""
    widest: tuple[RunRow, RunRow] | None
    """The two rows of one run that lie furthest apart by the measure that decides, the lower first; None where no run
    has two finite numbers."""
    share: float
    """By how much the second exceeds the first, in percent."""


def latest_runs(rows: Iterable[RunRow]) -> list[RunRow]:
    """The rows of finished runs, one that was made again by its latest row alone."""
    return [_latest(same) for same in _group_runs(rows).values()]


def find_repeats(task: Task, rows: Iterable[RunRow]) -> Repeats:
    """Runs that were made again, and the two rows of one run that lie furthest apart; a row in two files is one."""
    again = [same for same in _group_runs(dict.fromkeys(rows)).values() if len(same) > 1]
    pairs = [pair for same in again if (pair := _furthest(task, same))]
    spare = sum(len(same) - 1 for same in again)
    if not pairs:
        return Repeats(len(again), spare, None, 0.0)
    share, low, high = max(pairs, key=lambda pair: pair[0])
    return Repeats(len(again), spare, (low, high), share)


def failed_runs(rows: Sequence[RunRow]) -> list[RunRow]:
    """The latest failure of every run that never finished."""
    done = {_key(row) for row in latest_runs(rows)}
    lost = group_by((row for row in rows if row.status == "failed"), _key)
    return [_latest(same) for key, same in lost.items() if key not in done]


def build_boards(task: Task, rows: Sequence[RunRow]) -> list[Board]:
    """A board for each protocol, data set and horizon among the rows of `latest_runs`."""

    def key(run: tuple[Candidate, RunRow]) -> tuple[object, ...]:
        candidate, row = run
        return candidate, row.protocol, getattr(row, "horizon", None), row.model, row.attention, row.lookback

    usable = latest_runs(rows)
    runs = group_by(zip(name_candidates(usable), usable, strict=True), key).values()
    entries = [_entry(task, same[0][0], [row for _, row in same]) for same in runs]
    blocks = group_by(entries, lambda entry: (entry.protocol, entry.dataset, entry.horizon))
    return [
        Board(task, *block, tuple(sorted(blocks[block], key=_rank_key)))
        for block in sorted(blocks, key=lambda block: (*block[:2], block[2] or 0))
    ]


def read_measure(task: Task, row: RunRow, metric: str) -> float | None:
    """A row's measure, on the scale that its protocol reports."""
    value = getattr(row, f"original_{metric}" if task.in_original_units(row.protocol) else metric)
    return None if value is None else float(value)


def _group_runs(rows: Iterable[RunRow]) -> dict[tuple[object, ...], list[RunRow]]:
    """The rows of every finished run."""
    return group_by((row for row in rows if row.status == "done"), lambda row: key_without(row.configuration))


def _latest(same: Sequence[RunRow]) -> RunRow:
    """By their time stamps, as files have no order; of equal ones the last."""
    return max(enumerate(same), key=lambda one: (parse_time(one[1].created) or -math.inf, one[0]))[1]


def _furthest(task: Task, same: Sequence[RunRow]) -> tuple[float, RunRow, RunRow] | None:
    """(difference in percent of the lower, the lower, the higher) of two rows of one run."""
    measured = [(read_measure(task, row, task.deciding_measure(row.protocol)), row) for row in same]
    known = sorted(((value, row) for value, row in measured if value and math.isfinite(value)), key=lambda one: one[0])
    if len(known) < 2:
        return None
    (low, first), (high, last) = known[0], known[-1]
    return 100 * (high / low - 1), first, last


def _key(row: RunRow) -> tuple[object, ...]:
    """The identity of a row's run; one that failed before its data was read has no checksum of it."""
    return key_without(row.configuration, _CHECKSUMS)


def _entry(task: Task, candidate: Candidate, rows: Sequence[RunRow]) -> Entry:
    columns = (*task.metrics, *task.chance.values())
    measured = {metric: [read_measure(task, row, metric) for row in rows] for metric in columns}
    costs = {cost: [getattr(row, cost, None) for row in rows] for cost in COSTS}
    first = rows[0]
    return Entry(
        task=task,
        protocol=first.protocol,
        horizon=getattr(first, "horizon", None),
        model=first.model,
        attention=first.attention,
        lookback=first.lookback,
        **{field.name: getattr(candidate, field.name) for field in fields(candidate)},
        scores={metric: score for metric, values in measured.items() if (score := _score(values))},
        costs={cost: score.mean for cost, values in costs.items() if (score := _score(values))},
        rows=tuple(rows),
    )


def _score(values: Sequence[float | None]) -> Score | None:
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    if not known:
        return None
    return Score(float(np.mean(known)), float(np.std(known, ddof=1)) if len(known) > 1 else None, len(known))


def _rank_key(entry: Entry) -> tuple[bool, float]:
    """A key that sorts the best first, and those without a number last."""
    value = entry.score.mean if entry.score else math.nan
    return math.isnan(value), value if entry.task.lower_is_better else -value


def find_overlapping(rows: Iterable[RunRow]) -> frozenset[RunRow]:
    """The rows whose time overlaps that of another on a device of the same name; a row of unknown time has none.

    Their results are what they would be alone, but their times include waiting for one another: a sweep with several
    workers on one chip measures the queue. A row does not say on which of several equal machines it was made, so runs
    on equal machines count as well, and so may the sessions of a run that was resumed.
    """
    spans = [
        (ended - row.total_seconds, ended, row)
        for row in dict.fromkeys(rows)  # one row can stand in two files
        if (ended := parse_time(row.created)) is not None and math.isfinite(row.total_seconds)
    ]
    overlapping: set[RunRow] = set()
    for own in group_by(spans, lambda span: span[2].device).values():
        latest: tuple[float, RunRow | None] = (-math.inf, None)
        for began, ended, row in sorted(own, key=lambda span: span[:2]):
            if min(latest[0], ended) - began > RESOLUTION:
                overlapping |= {row, latest[1]} if latest[1] is not None else {row}
            latest = max(latest, (ended, row), key=lambda end: end[0])
    return frozenset(overlapping)


def parse_time(text: str) -> float | None:
    """When a row was made, in seconds; None where it does not say."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
