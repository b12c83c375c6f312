"""Rows of measurements: facts that every one carries, a CSV they are added to, a table on the screen."""

import csv
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def origin() -> Row:
    """When and where a row was made, and of which code."""
    from rearview import __version__
    from rearview.bench.runs.provenance import commit

    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def append(path: Path | None, rows: Sequence[Row]) -> None:
    """Add rows to a CSV, which is made if it is not there; rows of other columns than its own are refused.

    Without a path nothing is written.
    """
    if path is None:
        return
    columns = list(rows[0])
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            header = next(csv.reader(file))
        if header != columns:
            raise SystemExit(f"{path} has other columns than these rows; give another --out.")
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerows(rows)


def show(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> None:
    """Print rows as a table, all of their columns or some: names left, numbers right."""
    columns = list(columns or rows[0])
    cells = [[_text(row[column]) for column in columns] for row in rows]
    widths = [max(len(column), *(len(line[at]) for line in cells)) for at, column in enumerate(columns)]
    right = [isinstance(rows[0][column], int | float) for column in columns]
    for line in [columns, *cells]:
        aligned = (text.rjust(w) if r else text.ljust(w) for text, w, r in zip(line, widths, right, strict=True))
        print("  ".join(aligned).rstrip())


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
