"""Flag runs whose timing overlaps another run on a device of the same name.

Their results are what they would be alone, but their times include waiting for one another: a sweep with several
workers on one chip measures the queue. A row says when it was made and how long it took, but not on which of several
equal machines, so runs on equal machines count as well, and so may the sessions of a run that was resumed.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from rearview.bench.rows.row import RunRow

RESOLUTION = 1.0
"""Seconds to which a row's stamp is exact: runs one after another can seem to overlap by so much."""


def find_overlapping(rows: Iterable[RunRow]) -> frozenset[RunRow]:
    """The rows whose time overlaps that of another on a device of the same name; a row of unknown time has none."""
    by_device: dict[str, list[tuple[float, float, RunRow]]] = defaultdict(list)
    for row in dict.fromkeys(rows):  # one row can stand in two files
        if (ended := parse_time(row.created)) is not None and math.isfinite(row.total_seconds):
            by_device[row.device].append((ended - row.total_seconds, ended, row))
    return frozenset(row for spans in by_device.values() for row in _find_overlapping_spans(spans))


def _find_overlapping_spans(spans: list[tuple[float, float, RunRow]]) -> set[RunRow]:
    overlapping = set()
    latest: tuple[float, RunRow | None] = (-math.inf, None)
    for began, ended, row in sorted(spans, key=lambda span: span[:2]):
        if min(latest[0], ended) - began > RESOLUTION:
            overlapping |= {row, latest[1]} if latest[1] is not None else {row}
        latest = max(latest, (ended, row), key=lambda end: end[0])
    return overlapping


def parse_time(text: str) -> float | None:
    """When a row was made, in seconds; None where it does not say."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
