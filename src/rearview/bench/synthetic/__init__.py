"""Synthetic studies that isolate what a mechanism can do: flip-flop, harmonic demixing, operator cases, components.

    from pathlib import Path
    from rearview.bench import synthetic

    rows = synthetic.run("flipflop", out=Path("results"))

A study is trained arm by arm. `out` receives a row of each run (flipflop.csv), its curve as training goes
(flipflop-looks.csv) and the numbers behind its figures (flipflop/<run>.npz). The names are known without torch; only
the rest imports it.
"""

from typing import TYPE_CHECKING

from rearview.core.registry import import_lazily

if TYPE_CHECKING:
    from rearview.bench.synthetic.runner import StoredRun, curves_file, get, plan, read_runs, rows_file, run

NAMES = ("flipflop", "harmonic", "operators", "components")
"""The studies."""


__getattr__ = import_lazily(
    __name__, {"runner": ("StoredRun", "get", "curves_file", "plan", "read_runs", "rows_file", "run")}
)
__all__ = ["NAMES", "StoredRun", "curves_file", "get", "plan", "read_runs", "rows_file", "run"]
