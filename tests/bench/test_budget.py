"""What runs were granted, who had less than whom, and which of them waited for one another."""

import json
from dataclasses import replace

import pytest
from small import row

from rearview.bench.analysis import budget, coverage, standings
from rearview.bench.analysis.leaderboard import build_boards, find_overlapping
from rearview.bench.analysis.paper_comparison import compare
from rearview.bench.papers import catalogue
from rearview.bench.rows.row import ClassificationRow, DetectionRow
from rearview.bench.runs.tuning import Range, Tuning
from rearview.bench.tasks import CLASSIFICATION, DETECTION, FORECASTING


def trained(seeds: int = 1, **training: object) -> list:
    return [row(seed=seed, training=json.dumps(training)) for seed in range(seeds)]


def test_a_budget_has_defaults_draws_and_updates():
    assert budget.budget_of(trained(3, epochs=7)) == budget.Budget(3, 0, 7, None, 10)
    assert budget.budget_of(trained(batch=8, updates_per_epoch=50, accumulate=2, patience=None)).epoch_windows == 800
    assert budget.budget_of(trained(windows_per_epoch=31)).epoch_windows == 31
    listed = row(budget=json.dumps({"candidates": [{"alpha": 1}, {"alpha": 2}]}))
    assert budget.budget_of([listed]).tried == 2
    drawn = Tuning(20, {"alpha": Range(0, 1), "training.epochs": (3, 5)}).budget()
    tuned = row(budget=json.dumps({**drawn, "candidates": [{"alpha": 0.5}]}), training='{"epochs":5}')
    assert (budget.budget_of([tuned]).tried, budget.budget_of([tuned]).epochs) == (20, 5)
    assert budget.budget_of([row(model="seasonal_naive", attention="", training="{}")]).epochs is None
    assert budget.budget_of(trained(epochs="many")).epochs is None


def test_unlike_budgets_on_one_block_are_reported_and_from_block_to_block_they_are_not():
    long, short = (
        budget.budget_of(trained(3, epochs=100, patience=None)),
        budget.budget_of(trained(1, epochs=10, patience=3)),
    )
    assert budget.describe_differences([[long, long], [short, short]]) == ()
    assert budget.describe_differences([[long, short], [short, short]]) == (
        "epochs 10 to 100",
        "patience 3 to any",
        "seeds 1 to 3",
    )
    plain = budget.budget_of([row(training="{}")])
    assert budget.describe_differences([[long, plain]]) == ()


def test_a_standing_says_where_budgets_differ():
    rows = [row(attention=name, seed=seed) for name in ("softmax", "toa") for seed in (0, 1)]
    [equal] = standings.build_standings(build_boards(FORECASTING, rows))
    assert equal.uneven == ()
    [unlike] = standings.build_standings(build_boards(FORECASTING, rows[1:]))
    assert unlike.uneven == ("seeds 1 to 2",)
    searched = json.dumps({"candidates": [{"alpha": 0.5}, {"alpha": 1.0}]})
    [found] = standings.build_standings(build_boards(FORECASTING, [row(), row(attention="rbca", budget=searched)]))
    assert found.uneven == ("settings tried 0 to 2",)


@pytest.mark.parametrize(
    ("training", "ran", "told"),
    [
        ({"epochs": 100, "patience": 20}, 30, ""),
        ({"epochs": 200, "patience": 20}, 30, ""),
        ({"epochs": 30, "patience": 20}, 30, "30 of 100 epochs"),
        ({"epochs": 100, "patience": 5}, 100, ""),
        ({"epochs": 100, "patience": 5}, 17, "patience 5 instead of 20"),
        ({"epochs": 100, "patience": 20, "windows_per_epoch": 500}, 100, "50,000 of 100,000 windows"),
        ({"epochs": 400, "patience": 20, "windows_per_epoch": 500}, 400, ""),
        ({"epochs": 100, "patience": None}, 100, ""),
        ({}, 0, ""),
    ],
)
def test_what_trained_for_less_than_published_says_by_how_much(training, ran, told):
    rows = [row(training=json.dumps(training), epochs=ran)]
    assert budget.shortfall(rows, {"epochs": 100, "patience": 20, "batch": 32}, 1000) == told


def etth1(**changes: object):
    facts = {"dataset": "ETTh1", "lookback": 336, "horizon": 96, "mse": 0.5, "mae": 0.5, "train_windows": 8209}
    return row(**{**facts, **changes})


def test_a_verdict_carries_a_smaller_budget_than_the_papers():
    experiment = catalogue.get("rbca", "T1")
    whole, part = '{"batch":128,"epochs":100,"patience":100}', '{"batch":128,"epochs":30,"patience":100}'

    def found(*rows):
        made = [one for one in compare(experiment, rows, "clean") if one.rows and one.metric == "mse"]
        return [(one.verdict, one.shortfall) for one in made]

    assert found(etth1(training=whole, epochs=100)) == [("worse", "")]
    assert found(etth1(training=part, epochs=30)) == [("worse", "30 of 100 epochs")]
    assert {one.shortfall for one in coverage.compare_all(FORECASTING, [etth1(training=part)])} == {"30 of 100 epochs"}
    # Of a network that no shelf has any more the paper's own training is not known.
    strange = etth1(training=part, model="gone")
    cell = replace(
        experiment.cells[0], dataset="ETTh1", lookback=336, horizon=96, model="gone", attention={"name": "softmax"}
    )
    [told, *_] = compare(replace(experiment, cells=(cell,)), [strange], "clean")
    assert told.shortfall == ""


def test_a_run_without_a_finite_number_is_a_failed_one():
    experiment = catalogue.get("rbca", "T1")
    lost = etth1(mse=float("nan"))
    found = {one.verdict for one in compare(experiment, [lost], "clean")}
    assert found == {"failed", "not run"}
    [kept, *_] = [one for one in compare(experiment, [lost, etth1(seed=9)], "clean") if one.rows]
    assert (kept.mean, len(kept.rows)) == (0.5, 1)


def test_a_schedule_that_patience_cut_is_part_of_a_budget():
    cycle = '{"batch":32,"epochs":30,"patience":3,"schedule":"onecycle"}'
    whole, short = row(training=cycle, epochs=30), row(training=cycle, epochs=9, seed=1)
    assert (budget.budget_of([whole]).cut, budget.budget_of([whole, short]).cut) == (0, 1)
    steady = cycle.replace("onecycle", "constant")
    assert budget.budget_of([row(training=steady, epochs=9)]).cut == 0
    differences = budget.describe_differences([[budget.budget_of([whole]), budget.budget_of([short])]])
    assert differences == ("schedule cut by patience in 1 of 2 runs",)
    assert budget.is_unfair(differences)
    assert not budget.is_unfair(("seeds 1 to 3", "settings tried 1 to 9"))
    assert budget.is_unfair(("seeds 1 to 3", "epochs 10 to 30"))


def test_classification_and_detection_carry_it_too():
    shared = {
        "protocol": "clean", "settings": "{}", "seed": 0, "channels": 3, "version": "", "commit": "", "device": "cpu",
        "torch": "", "threads": 1, "parameters": 1, "best_epoch": 1, "train_seconds": 1.0, "total_seconds": 1.0,
        "created": "2026-01-02T03:04:05+00:00", "attention": "softmax", "attention_settings": "{}",
    }  # fmt: skip
    classified = ClassificationRow(
        dataset="Epilepsy", train_sha256="", test_sha256="", habits="", model="patchtst_tslib", lookback=9, classes=2,
        training='{"epochs":40,"patience":10}', train_cases=100, validation_cases=20, test_cases=9, epochs=40,
        accuracy=0.5, macro_f1=0.5, validation_criterion=0.5, loop="eager", **shared,
    )  # fmt: skip
    found = coverage.compare_all(CLASSIFICATION, [classified])
    assert {one.shortfall for one in found} == {"40 of 100 epochs"}
    detected = DetectionRow(
        dataset="SMAP", values_sha256="", entities=1, train_rows=135_183, test_rows=9, mode="reconstruct", lookback=100,
        stride=1, threshold_rule="", balance=1, model="itransformer", epochs=3, validation_loss=1.0, rows=9,
        training='{"epochs":3,"patience":3,"windows_per_epoch":102400}', anomalous=1, flagged=1, threshold=1.0,
        precision=0.5, recall=0.5, f1=0.5, adjusted_precision=0.5, adjusted_recall=0.5, adjusted_f1=0.5,
        adjusted_f1_by_chance=0.5, score_seconds=1.0, **shared,
    )  # fmt: skip
    found = coverage.compare_all(DETECTION, [detected])
    assert {one.shortfall for one in found} == {"307,200 of 405,252 windows"}


def at(minute: int, second: int, seconds: float, **changes: object):
    return row(created=f"2026-01-02T03:{minute:02}:{second:02}+00:00", total_seconds=seconds, **changes)


def test_runs_that_overlap_on_a_device_had_company():
    first, second, after = at(1, 0, 60.0), at(1, 30, 60.0, seed=1), at(2, 0, 30.9, seed=2)
    assert find_overlapping([first, second, after]) == {first, second}
    elsewhere = at(1, 30, 60.0, device="NVIDIA H200")
    assert find_overlapping([first, elsewhere, after]) == set()
    # A long run has company of short ones that follow one another, and of none that touches its end.
    long, short = at(9, 0, 400.0), [at(minute, 0, 50.0, seed=minute) for minute in (4, 5, 6)]
    beyond = at(10, 0, 60.0, seed=10)
    assert find_overlapping([*short, beyond, long]) == {long, *short}


def test_a_row_of_two_files_is_no_company_of_its_own_and_one_of_unknown_time_has_none():
    assert find_overlapping([at(1, 0, 60.0), at(1, 0, 60.0)]) == set()
    unknown = [row(created=words, seed=seed) for seed, words in enumerate(("", "yesterday"))]
    assert find_overlapping([*unknown, at(1, 0, 60.0), at(1, 0, float("nan"))]) == set()
