"""Sweeps on a real Ray: rows as made here, one writer, skipping what is there, and a run whose process dies."""

import importlib.util
import os
from dataclasses import replace

import pytest

from rearview import bench
from rearview.bench.papers.catalogue import Cell
from rearview.bench.runs import sweep as sweeping
from rearview.bench.runs.sweep import SweepPlan, attempt, sweep

pytestmark = [
    pytest.mark.slow,
    pytest.mark.baselines,
    pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="Ray (rearview[ray]) is not installed"),
    pytest.mark.filterwarnings("ignore"),  # Ray's remarks on its own inside
]

# Generated, so that workers, which know the catalogue as it stands in the package only, have it too.
CELL = Cell("Solar-standin:300", "dlinear", None, 24, 6)


@pytest.fixture
def plan(tmp_path):
    training = {"epochs": 1, "windows_per_epoch": 32}
    return SweepPlan(results=tmp_path / "rows.csv", seeds=(0, 1), device="cpu", training=training)


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    """A cluster of two processors, without a page of its own."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_rows_are_those_made_here_and_are_made_once(plan, tmp_path):
    unfit = replace(CELL, model="itransformer", attention={"name": "rbca"})
    told = []
    made = {(row.model, row.seed): row for row in sweep([CELL, unfit], plan, over="ray", say=told.append)}
    here = sweep([CELL], replace(plan, results=tmp_path / "here.csv"))
    assert [made["dlinear", seed].mse for seed in (0, 1)] == [row.mse for row in here]
    assert [made["itransformer", seed].status for seed in (0, 1)] == ["failed"] * 2
    assert len(told) == len(bench.read(plan.results)) == 4
    again = sweep([CELL], replace(plan, seeds=(0, 1)), over="ray")
    assert again == [made["dlinear", 0], made["dlinear", 1]]
    assert len(bench.read(plan.results)) == 4


def test_a_run_whose_process_dies_is_a_failed_row_and_not_the_end(plan, monkeypatch):
    def dying(run, execution):  # a function of a function, which Ray sends whole
        return os._exit(9) if run.cell.seed == 1 else attempt(run, execution)

    monkeypatch.setattr(sweeping, "attempt", dying)
    found = {row.seed: row for row in sweep([CELL], plan, over="ray")}
    assert (found[0].status, found[1].status) == ("done", "failed")
    assert "Ray lost this run" in found[1].problem
    assert sorted(row.status for row in bench.read(plan.results)) == ["done", "failed"]
