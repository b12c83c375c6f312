"""How the arms of `tasks.py` compare on the tasks that all of them have.

python benchmarks/task_table.py results/portfolio_tests.csv [--arms auto,glance,ets] [--best-of ets,theta]

Errors are relative to seasonal naive's: geometric means over tasks, ranks by CRPS. `of the best` is the geometric mean
of an arm's MASE over that of the best arm of each task among `--best-of`; by default all arms that are not rearview's,
or all arms.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from _rows import read

Rows = Mapping[str, Mapping[str, dict[str, str]]]
"""Arm -> task -> row."""
OURS = ("auto", "auto_quick", "glance", "patchtst", "seasonal_naive")


def read_rows(paths: Sequence[Path], look: int | None = None) -> dict[str, dict[str, dict[str, str]]]:
    """The latest row of every arm and task, of looks up to one."""
    rows: dict[str, dict[str, dict[str, str]]] = {}
    for path in paths:
        for row in read(path):
            if look is None or int(row.get("look") or 1) <= look:
                rows.setdefault(row["arm"], {})[row["task"]] = row
    return rows


def ratio(row: Mapping[str, Any], measure: str) -> float:
    """The error of a row over seasonal naive's."""
    return float(row[measure]) / float(row[f"naive_{measure}"])


def geometric(values: Sequence[float]) -> float:
    return math.exp(mean(math.log(value) for value in values))


def make_table(rows: Rows, best_of: Sequence[str]) -> list[str]:
    """Lines of a Markdown table, the best mean rank first."""
    tasks = sorted(set.intersection(*(set(arm) for arm in rows.values())))
    crps = {task: sorted(ratio(arm[task], "crps") for arm in rows.values()) for task in tasks}
    best = {task: min(ratio(rows[name][task], "mase") for name in best_of) for task in tasks}
    lines = []
    for name, arm in rows.items():
        mase = [ratio(arm[task], "mase") for task in tasks]
        rank = mean(1 + crps[task].index(ratio(arm[task], "crps")) for task in tasks)
        values = (
            geometric(mase), geometric([ratio(arm[task], "crps") for task in tasks]), max(mase),
            geometric([one / best[task] for one, task in zip(mase, tasks, strict=True)]),
            mean(float(arm[task]["coverage"]) for task in tasks),
            geometric([float(arm[task]["interval_score"]) for task in tasks]),
        )  # fmt: skip
        seconds = mean(float(arm[task]["seconds"]) for task in tasks)
        cells = " | ".join(f"{value:.3f}" for value in values)
        lines.append((rank, f"| {name} | {rank:.2f} | {cells} | {seconds:.0f} |"))
    head = f"| {len(tasks)} tasks | mean rank | MASE | CRPS | worst MASE | of the best | in 80 % | score of 80 % | s |"
    return [head, "|" + "---|" * 9, *(line for _, line in sorted(lines))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--arms", default="", help="by commas; all by default")
    parser.add_argument("--best-of", default="", help="by commas")
    parser.add_argument("--look", type=int, help="leave out rows of later looks")
    options = parser.parse_args()
    rows = read_rows(options.results, options.look)
    chosen = options.arms.split(",") if options.arms else list(rows)
    rows = {name: rows[name] for name in chosen}
    best_of = (
        options.best_of.split(",") if options.best_of else [name for name in rows if name not in OURS] or list(rows)
    )
    print("\n".join(make_table(rows, best_of)))


if __name__ == "__main__":
    main()
