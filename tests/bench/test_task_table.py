"""The table of forecasters on tasks: tasks that all have, ranks, means relative to seasonal naive."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

HEADER = "task,arm,mase,crps,naive_mase,naive_crps,coverage,interval_score,seconds"
ROWS = ["a,auto,1,1,2,4,0.8,2,30", "b,auto,4,1,2,2,0.6,8,10", "a,ets,4,2,2,4,0.9,4,1", "b,ets,1,4,2,2,0.9,1,1",
        "c,ets,9,9,1,1,0.9,1,1"]  # fmt: skip


@pytest.fixture
def script(benchmark_scripts: Path) -> ModuleType:
    return importlib.import_module("task_table")


def test_arms_are_compared_on_the_tasks_that_all_have(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("\n".join([HEADER, *ROWS]) + "\n", encoding="utf-8")
    head, _, first, second = script.make_table(script.read_rows([tmp_path / "rows.csv"]), ["ets"])
    assert head.startswith("| 2 tasks |")
    # MASE: (1/2, 4/2) and (4/2, 1/2), geometric means of 1; CRPS: (1/4, 1/2) against (1/2, 2).
    assert first == "| auto | 1.00 | 1.000 | 0.354 | 2.000 | 1.000 | 0.700 | 4.000 | 20 |"
    assert second == "| ets | 2.00 | 1.000 | 1.000 | 2.000 | 1.000 | 0.900 | 2.000 | 1 |"
