"""Which runs had company: others that ran at the same time on a device of the same name, told by the rows themselves.

Their results are what they would be alone, but their times include waiting for one another: a sweep with several
workers on one chip measures the queue. A row says when it was made and how long it took; that its device was the very
same one can't be told, so runs on equal machines count as well, and so may the sessions of a run that was resumed.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

RESOLUTION = 1.0
"""Seconds to which a row's stamp is exact: runs one after another can seem to overlap by so much."""


def in_company(rows: Iterable[Any]) -> frozenset[Any]:
    """The rows whose time overlaps that of another on a device of the same name; a row of unknown time has none."""
    by_device: dict[str, list[tuple[float, float, Any]]] = defaultdict(list)
    for row in dict.fromkeys(rows):  # one row can stand in two files
        if (ended := stamp(row.created)) is not None and math.isfinite(row.total_seconds):
            by_device[row.device].append((ended - row.total_seconds, ended, row))
    return frozenset(row for spans in by_device.values() for row in _overlapping(spans))


def _overlapping(spans: list[tuple[float, float, Any]]) -> set[Any]:
    found = set()
    latest: tuple[float, Any] = (-math.inf, None)
    for began, ended, row in sorted(spans, key=lambda span: span[:2]):
        if min(latest[0], ended) - began > RESOLUTION:
            found |= {row, latest[1]}
        latest = max(latest, (ended, row), key=lambda end: end[0])
    return found


def stamp(words: str) -> float | None:
    """When a row was made, in seconds; None where it does not say."""
    try:
        return datetime.fromisoformat(words).timestamp()
    except ValueError:
        return None
