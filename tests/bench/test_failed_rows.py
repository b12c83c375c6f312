"""Runs of classification and detection that fail: rows that say so, counted nowhere, and made again."""

import shutil
from dataclasses import fields, replace
from pathlib import Path

import pytest
from small_labelled import classified, detected

from rearview import bench
from rearview.bench import tasks
from rearview.bench.analysis.coverage import compare_all, measure_coverage
from rearview.bench.analysis.leaderboard import build_boards, failed_runs
from rearview.bench.analysis.paper_comparison import compare
from rearview.bench.papers import catalogue
from rearview.bench.papers.catalogue import Cell
from rearview.bench.rows.identity import find_same
from rearview.bench.runs import classification, detection, pool
from rearview.bench.runs.pool import KILLED
from rearview.bench.runs.request import Request
from rearview.bench.runs.run_spec import resolve
from rearview.bench.runs.runner import failed_row
from rearview.bench.runs.sweep import SweepPlan, sweep
from rearview.bench.tasks import CLASSIFICATION, DETECTION
from rearview.train import Silent
from rearview.train.contract import Diverged

REPOSITORY = Path(__file__).parents[2]
OPTIONS = {"lookback": 20, "settings": {"width": 8, "heads": 2, "feed_forward": 8, "depth": 1}}
OPTIONS_TOLD = "lookback=20, width=8, heads=2, feed_forward=8, depth=1"
CELL = Cell("Pumps", "transformer", {"name": "toa", "kind": "relu"}, task="detection", **OPTIONS)
PROBLEM = "The validation loss of epoch 1 is nan."


@pytest.fixture
def plan(pumps: Path) -> SweepPlan:
    return SweepPlan(pumps / "rows.csv", data_dir=pumps, device="cpu", training={"epochs": 1, "batch": 32})


def diverge(*rest):
    raise Diverged(PROBLEM)


def test_a_run_that_diverges_is_a_row_without_measures(plan):
    far = {**plan.training, "learning_rate": 1e30}
    told = []
    [row] = sweep([CELL], replace(plan, training=far), say=told.append)
    assert row.status == "failed"
    assert row.problem.startswith("Diverged: The ")
    run = f"transformer + toa(kind=relu), {OPTIONS_TOLD}, Pumps, seed 0"
    assert told == [f"run 1 of 1: {run}", f"{run}: failed: {row.problem}"]
    assert bench.read(plan.results, bench.DetectionRow) == [row]
    assert (row.schema, row.dataset, row.model, row.attention, row.lookback) == (3, "Pumps", "transformer", "toa", 20)
    empty = [field.name for field in fields(row) if field.type == float | None]
    assert {"f1", "auc_pr", "adjusted_f1_by_chance", "threshold", "validation_loss"} <= set(empty)
    assert {getattr(row, name) for name in empty} == {None}


def test_a_failed_run_is_tried_again_until_it_comes_to_an_end(plan, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(detection, "_fit_clean", diverge)
        first, second = (sweep([CELL], plan)[0] for _ in range(2))
    assert (first.status, second.problem) == ("failed", f"Diverged: {PROBLEM}")
    [done] = sweep([CELL], plan)
    assert (done.status, done.problem) == ("done", "")
    rows = bench.read(plan.results, bench.DetectionRow)
    assert rows == [first, second, done]
    assert failed_runs(rows[:2]) == [second]
    assert failed_runs(rows) == []  # known again, though its data were not read for the row
    monkeypatch.setattr(detection, "_fit_clean", diverge)
    assert sweep([CELL], plan) == [done]
    assert len(bench.read(plan.results, bench.DetectionRow)) == 3


def test_rows_that_are_there_need_no_time_and_are_not_begun(plan, monkeypatch):
    followed = []
    monkeypatch.setattr(Silent, "begin", lambda self, *sizes: followed.append(sizes))
    [done] = sweep([CELL], plan, progress=Silent())
    assert len(followed) == 1
    told = []
    assert sweep([CELL], plan, say=told.append) == [done]
    assert len(told) == 1
    seeds = replace(plan, seeds=(0, 1))
    assert sweep([CELL], seeds, seconds=0.0, say=told.append) == [done]
    assert told[1:] == [told[0], "time was up: 1 of 2 runs were not begun; the same command goes on with it"]


def test_a_killed_process_is_a_failed_row(plan, monkeypatch):
    monkeypatch.setattr(pool, "spread", lambda work, runs, workers, until: [(run, None) for run in runs])
    [row] = sweep([CELL], plan, workers=2)
    assert row.problem == f"RuntimeError: {KILLED}"
    assert bench.read(plan.results, bench.DetectionRow) == [row]


@pytest.mark.parametrize(
    ("task", "run"),
    [
        (CLASSIFICATION, {"attention": {"name": "toaa", "kind": "relu"}}),
        (DETECTION, {"attention": {"name": "toaa", "kind": "relu"}, "training": {"epochs": 2}, "balance": False}),
        (DETECTION, {"attention": "toaa", "stride": None, "lookback": 7}),
        (DETECTION, {"attention": None, "threshold": "no such rule"}),
    ],
)
def test_a_request_that_could_not_be_resolved_is_stated_as_given(tmp_path, task, run):
    request = Request("ASD", "itransformer", task=task.name, seed=5, **run)
    row = failed_row(request, "cpu", ValueError("no such\n thing"))
    assert (row.dataset, row.model, row.seed, row.status) == ("ASD", "itransformer", 5, "failed")
    assert row.attention == ("toaa" if run["attention"] else "")
    assert row.attention_settings == ('{"kind":"relu"}' if isinstance(run["attention"], dict) else "{}")
    assert row.problem == "ValueError: no such thing"
    assert bench.append(tmp_path / "rows.csv", row) == row
    assert bench.read(tmp_path / "rows.csv", task.row) == [row]


def lost(row):
    """The row as it would be had its run failed."""
    blank = {field.name: None for field in fields(row) if field.type == float | None}
    sums = {name: "" for name in ("values_sha256", "train_sha256", "test_sha256") if hasattr(row, name)}
    return replace(row, **blank, **sums, status="failed", problem="no memory")


@pytest.mark.parametrize(("task", "make"), [(CLASSIFICATION, classified), (DETECTION, detected)])
def test_failed_runs_count_nowhere(task, make):
    settings = {"toa": '{"kind":"relu"}', "softmax": "{}"}
    done = [make(attention=name, attention_settings=settings[name], seed=seed) for name in settings for seed in (0, 1)]
    broken = [lost(make(seed=2)), lost(make(attention="hyperglu", attention_settings="{}")), lost(done[0])]
    every = [*done, *broken]
    assert build_boards(task, every) == build_boards(task, done)
    assert compare_all(task, every) == compare_all(task, done)
    assert measure_coverage({task: every}) == measure_coverage({task: done})
    assert failed_runs(every) == broken[:2]
    table = catalogue.get("toa", "T8" if task is CLASSIFICATION else "T5")
    ours, alone = (compare(table, rows, "clean") for rows in (every, done))
    assert [replace(one, broken=False) for one in ours] == alone
    assert {one.cell.attention["name"] for one in ours if one.broken} <= {"toa", "hyperglu"}
    assert "failed" in {one.verdict for one in compare(table, broken, "clean")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "tables"), [(CLASSIFICATION, ("classification",)), (DETECTION, ("detection", "detection-hidden"))]
)
def test_the_runs_of_the_repository_are_known_again(task, tables):
    """But for those on ASD whose training was written down afterwards, which today's protocol would not ask for."""
    found, every = tasks.read(REPOSITORY / "results" / f"{task.name}.csv")
    assert found is task
    rows = [row for row in every if row.schema == 1]
    known = set()
    for cell in (cell for table in tables for cell in catalogue.get("rearview", table).cells):
        for protocol in ("clean", "published:tslib"):
            asked = resolve(replace(cell, protocol=protocol)).columns()
            del asked["seed"]
            known |= set(find_same(rows, asked))
    strange = [row for row in rows if row not in known and '"windows_per_epoch":6400' not in row.training]
    assert strange == []
    assert len(known) > 100


@pytest.mark.parametrize("name", ["BasicMotions", "ASD"])
def test_a_run_of_the_repository_is_not_made_again(name, real_data, tmp_path, monkeypatch):
    task = DETECTION if name == "ASD" else CLASSIFICATION
    home = detection if task is DETECTION else classification
    monkeypatch.setattr(home, "_fit_clean", lambda *rest: pytest.fail("a run began"))
    path = tmp_path / "rows.csv"
    shutil.copy(REPOSITORY / "results" / f"{task.name}.csv", path)
    before = path.read_bytes()
    rows = bench.read(path, task.row)
    table = catalogue.get("rearview", task.name)
    cells = [cell for cell in table.cells if cell.dataset == name and cell.model == "patchtst_tslib"]
    plan = SweepPlan(path, seeds=(table.first_seed,), data_dir=real_data, device="cpu")
    made = sweep(cells, plan)
    assert len(made) == len(cells) > 1
    assert all(row in rows for row in made)
    assert path.read_bytes() == before
