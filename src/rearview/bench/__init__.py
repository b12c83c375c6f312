"""Benchmarks: one run on one catalogue set under one protocol, kept as one self-contained row.

    from pathlib import Path
    from rearview import bench

    row = bench.run("ETTh1", "itransformer", lookback=96, horizon=96, results=Path("results.csv"))
    print("\\n".join(bench.table(bench.read(Path("results.csv")))))

Rows are read without torch; running imports it, and so does a table, to tell settings from defaults.
"""

from typing import TYPE_CHECKING

from rearview.core.registry import import_lazily

if TYPE_CHECKING:
    from rearview.bench.analysis.candidates import table
    from rearview.bench.rows.result_file import append, find, read
    from rearview.bench.rows.row import ClassificationRow, DetectionRow, Row
    from rearview.bench.runs.classification import classify
    from rearview.bench.runs.detection import detect
    from rearview.bench.runs.forecasting import run

_HOMES = {
    "analysis.candidates": ("table",),
    "rows.result_file": ("append", "find", "read"),
    "rows.row": ("ClassificationRow", "DetectionRow", "Row"),
    "runs.classification": ("classify",),
    "runs.detection": ("detect",),
    "runs.forecasting": ("run",),
}
__getattr__ = import_lazily(__name__, _HOMES)


__all__ = ["ClassificationRow", "DetectionRow", "Row", "append", "classify", "detect", "find", "read", "run", "table"]
