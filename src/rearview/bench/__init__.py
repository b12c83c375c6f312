"""Benchmarks: one run on one catalogue set under one protocol, kept as one self-contained row.

    from pathlib import Path
    from rearview import bench

    row = bench.run("ETTh1", "itransformer", lookback=96, horizon=96, results=Path("results.csv"))
    print("\\n".join(bench.table(bench.read(Path("results.csv")))))

Rows are read without torch; running imports it, and so does a table, to tell settings from defaults.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rearview.bench.classification import classify as classify
    from rearview.bench.classification_row import ClassificationRow as ClassificationRow
    from rearview.bench.detection import detect as detect
    from rearview.bench.detection_row import DetectionRow as DetectionRow
    from rearview.bench.results import append as append
    from rearview.bench.results import find as find
    from rearview.bench.results import read as read
    from rearview.bench.row import Row as Row
    from rearview.bench.runner import run as run
    from rearview.bench.tables import table as table

_HOMES = {
    "ClassificationRow": "classification_row",
    "DetectionRow": "detection_row",
    "Row": "row",
    "append": "results",
    "classify": "classification",
    "detect": "detection",
    "find": "results",
    "read": "results",
    "run": "runner",
    "table": "tables",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(f"rearview.bench.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'rearview.bench' has no attribute {name!r}")


__all__ = ["ClassificationRow", "DetectionRow", "Row", "append", "classify", "detect", "find", "read", "run", "table"]
