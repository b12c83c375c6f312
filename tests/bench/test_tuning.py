"""Settings drawn by optuna: seeded, the same number for every candidate, chosen on validation, tested once, told."""

import json
import sys
from dataclasses import replace

import pytest
from small import HORIZON, LOOKBACK, row

from rearview import bench
from rearview.bench.analysis.candidates import name_candidates
from rearview.bench.analysis.paper_comparison import matches
from rearview.bench.papers.catalogue import Cell
from rearview.bench.runs import measurement, search, tuning
from rearview.bench.runs.request import Request
from rearview.bench.runs.sweep import SweepPlan, sweep
from rearview.bench.runs.tuning import Range, Tuning
from rearview.core.errors import SettingsError
from rearview.train import TrainingError

optuna = pytest.importorskip("optuna", reason="optuna (rearview[tune]) is not installed")

QUICK = {"epochs": 1, "windows_per_epoch": 32}
SPACE = {
    "training.learning_rate": Range(1e-4, 1e-2, log=True),
    "network.dropout": Range(0.0, 0.5),
    "network.depth": Range(1, 2, whole=True),
    "alpha": (0.25, 0.5, 1.0),
}
SETTINGS = {"width": 8, "heads": 2, "feed_forward": 8}
CELL = Cell("Small", "patchtst", {"name": "rbca"}, LOOKBACK, HORIZON, tuning=Tuning(4, SPACE))


@pytest.fixture
def plan(folder):
    return SweepPlan(results=folder / "rows.csv", data_dir=folder, device="cpu", settings=SETTINGS, training=QUICK)


def drawn(asked: Tuning, seed: int = 0, judge=lambda candidate: 1.0) -> list[dict]:
    found = []

    def judged(candidate):
        found.append(candidate)
        return judge(candidate)

    tuning.search(asked, seed, judged)
    return found


def test_the_best_of_the_draws_is_tested_once_and_reported(plan, monkeypatch):
    tests = []
    errors = measurement.errors
    monkeypatch.setattr(measurement, "errors", lambda *given, **rest: tests.append(1) or errors(*given, **rest))
    [made] = sweep([CELL], plan)
    assert made.status == "done", made.problem
    assert tests == [1]
    budget = json.loads(made.budget)
    assert (budget["tuner"], budget["sampler"], budget["chosen_by"]) == ("optuna:4", "TPE", "validation loss")
    assert budget["space"] == {
        "training.learning_rate": "0.0001..0.01:log",
        "network.dropout": "0..0.5",
        "network.depth": "1..2",
        "alpha": [0.25, 0.5, 1.0],
    }
    assert len(budget["candidates"]) == len(budget["losses"]) == 4
    best = budget["candidates"][budget["losses"].index(min(budget["losses"]))]
    assert made.validation_loss == min(budget["losses"])
    assert json.loads(made.training)["learning_rate"] == best["training.learning_rate"]
    assert json.loads(made.attention_settings)["alpha"] == best["alpha"]
    settings = json.loads(made.settings)
    assert (settings["dropout"], settings["depth"]) == (best["network.dropout"], best["network.depth"])
    # The same run with these settings alone is the same run.
    alone = replace(CELL, tuning=None, attention={"name": "rbca", "alpha": best["alpha"]})
    given = {"dropout": best["network.dropout"], "depth": best["network.depth"]}
    rate = {"learning_rate": best["training.learning_rate"]}
    [again] = sweep([alone], replace(plan, settings={**SETTINGS, **given}, training={**QUICK, **rate}))
    assert (again.mse, again.validation_loss) == (made.mse, made.validation_loss)


def test_a_search_that_is_there_is_not_made_again_and_another_is(plan):
    first = sweep([CELL], plan)
    assert sweep([CELL], plan) == first
    sweep([replace(CELL, tuning=Tuning(3, SPACE))], plan)
    sweep([replace(CELL, tuning=Tuning(4, {**SPACE, "network.dropout": Range(0.0, 0.4)}))], plan)
    sweep([CELL], replace(plan, settings={**SETTINGS, "width": 10}))
    rows = bench.read(plan.results)
    assert len(rows) == 4
    # Whatever a setting was given before it is searched for makes no other run.
    sweep([CELL], replace(plan, settings={**SETTINGS, "dropout": 0.4}))
    assert len(bench.read(plan.results)) == 4


def test_seeds_draw_settings_of_their_own_and_are_one_candidate(plan):
    rows = sweep([CELL], replace(plan, seeds=(0, 1)))
    drawn = [json.loads(made.budget)["candidates"] for made in rows]
    assert drawn[0] != drawn[1]
    assert [found.name for found in name_candidates(rows)] == ["patchtst + rbca + optuna:4"] * 2


def test_one_seed_is_one_list_of_draws_and_ranges_are_kept():
    asked = Tuning(30, {"a": Range(1e-4, 1e-1, log=True), "b": Range(1, 5, whole=True), "c": ("x", None, (1, 2))})
    found = drawn(asked, 3)
    assert found == drawn(asked, 3)
    assert found[0] != drawn(asked, 4)[0]
    assert all(1e-4 <= each["a"] <= 1e-1 for each in found)
    assert {each["b"] for each in found} == {1, 2, 3, 4, 5}
    assert {each["c"] for each in found} == {"x", None, (1, 2)}
    assert sum(each["a"] < 1e-2 for each in found) > 10  # two of three decades


def test_a_range_with_a_step_gives_its_steps_alone():
    space = {"width": Range(64, 256, whole=True, step=32), "dropout": Range(0.0, 0.5, step=0.1)}
    found = drawn(Tuning(60, space), 1)
    assert {each["width"] for each in found} == set(range(64, 257, 32))
    assert all(isinstance(each["width"], int) for each in found)
    assert {each["dropout"] for each in found} == {0.0, 0.1, 0.2, 0.3, 0.4, 0.5}
    assert Tuning(60, space).budget()["space"] == {"width": "64..256:32", "dropout": "0..0.5:0.1"}


def test_draws_learn_from_the_ones_before():
    asked = Tuning(40, {"a": Range(0.0, 1.0)})
    values = [each["a"] for each in drawn(asked, judge=lambda candidate: abs(candidate["a"] - 0.3))]
    late, early = values[-15:], values[:10]
    assert sum(abs(a - 0.3) for a in late) / 15 < 0.5 * sum(abs(a - 0.3) for a in early) / 10


def test_what_was_drawn_before_is_not_trained_again():
    assert len(drawn(Tuning(20, {"a": (1, 2, 3)}))) == 3


def test_optuna_says_nothing_and_keeps_its_own_level(capsys):
    level = optuna.logging.get_verbosity()
    drawn(Tuning(3, {"a": (1, 2)}))
    assert optuna.logging.get_verbosity() == level
    assert capsys.readouterr().err == ""


def test_settings_that_do_not_go_together_lose_and_only_all_of_them_are_a_problem(plan):
    heads = {"network.heads": (2, 3)}  # a width of 8 has no three heads
    [made] = sweep([replace(CELL, tuning=Tuning(6, heads))], plan)
    assert made.status == "done", made.problem
    budget = json.loads(made.budget)
    assert [loss is None for loss in budget["losses"]] == [each["network.heads"] == 3 for each in budget["candidates"]]
    assert json.loads(made.settings)["heads"] == 2
    [failed] = sweep([replace(CELL, tuning=Tuning(3, {"network.heads": (3, 5)}))], plan)
    assert failed.status == "failed"
    assert failed.problem.startswith(f"{TrainingError.__name__}: None of the 2 candidates could be trained; the last: ")


def test_a_network_that_does_not_train_has_no_training_to_tune(folder):
    with pytest.raises(TrainingError, match="seasonal_naive has nothing to train; leave out learning_rate"):
        bench.run(
            "Small", "seasonal_naive", lookback=LOOKBACK, horizon=HORIZON, device="cpu", data_dir=folder,
            tuning=Tuning(2, {"training.learning_rate": Range(0.1, 0.2)}),
        )  # fmt: skip


def test_names_go_to_mechanism_network_and_training():
    tried = {"alpha": (1, 2), "dropout": Range(0, 1), "depth": Range(1, 3), "batch": (8, 16), "unheard": (1,)}
    assert search.route("patchtst", {"name": "rbca"}, tried) == {
        "alpha": (1, 2),
        "network.dropout": Range(0, 1),
        "network.depth": Range(1, 3, whole=True),
        "training.batch": (8, 16),
    }
    assert search.route("patchtst", None, {"alpha": (1, 2)}) == {}  # its own mechanism has none
    assert search.route("powerformer", None, {"alpha": (1, 2)}) == {"alpha": (1, 2)}  # its own has
    assert search.route("seasonal_naive", None, {"period": Range(1, 24), "batch": (8,)}) == {
        "network.period": Range(1, 24, whole=True)
    }
    # A name that both have is the mechanism's.
    assert search.route("caps_net", {"name": "toa"}, {"causal": (True, False)}) == {"causal": (True, False)}
    with pytest.raises(SettingsError, match=r"precision takes no numbers, so 0\.\.1 is no range"):
        search.route("patchtst", None, {"precision": Range(0, 1)})


def test_listed_settings_of_network_and_training_are_chosen_too(plan):
    listed = tuple({"training.learning_rate": rate, "network.dropout": 0.1} for rate in (1e-7, 1e-2))
    cell = replace(CELL, tuning=None, candidates=listed)
    [made] = sweep([cell], plan)
    assert json.loads(made.training)["learning_rate"] == 1e-2
    assert json.loads(made.settings)["dropout"] == 0.1
    assert sweep([cell], plan) == [made]


def test_a_tuned_row_stands_beside_no_printed_number():
    cell = Cell("Small", "patchtst", {"name": "softmax"}, 29, 7)
    assert matches(row(), cell)
    tuned = row(budget=json.dumps({**Tuning(4, SPACE).budget(), "candidates": [{"alpha": 1}], "losses": [0.5]}))
    assert not matches(tuned, cell)
    assert not matches(tuned, replace(cell, candidates=({"alpha": 1},)))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: Range(2, 1), r"2\.\.1 is no range to draw from"),
        (lambda: Range(0, 1, log=True), "above 0 on the logarithmic scale"),
        (lambda: Range(0.5, 3, whole=True), "begins and ends with one"),
        (lambda: Range(1, 3, whole=True, step=0.5), "and so is its step"),
        (lambda: Range(64, 250, step=32), r"Steps of 32 from 64 don't end at 250; end at 224 or 256"),
        (lambda: Range(64, 250, step=-1), "64..250:-1 has no step that leads"),
        (lambda: Range(1, 3, step=4), "1..3:4 has no step that leads"),
        (lambda: Range(1, 9, log=True, step=2), "on the logarithmic scale has no step"),
        (lambda: Tuning(0, SPACE), "trials is 0; it must be at least 1"),
        (lambda: Tuning(3, {}), "needs settings to draw"),
        (lambda: Tuning(3, {"a": ()}), "at least one value"),
        (lambda: Request("ETTh1", "patchtst", candidates=[{"alpha": 1}], tuning=Tuning(3, SPACE)).budget, "not both"),
    ],
)
def test_what_can_not_be_searched_is_refused(wrong, sentence):
    with pytest.raises(SettingsError, match=sentence):
        wrong()


def test_a_range_with_steps_can_be_listed():
    assert Range(5, 25, whole=True, step=4).list_numbers() == (5, 9, 13, 17, 21, 25)
    assert Range(1, 4, whole=True).list_numbers() == (1, 2, 3, 4)
    assert Range(0, 0.5, step=0.1).list_numbers() == (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    assert Range(0, 0.5).list_numbers() is None
    assert Range(1, 8, whole=True, log=True).list_numbers() is None


def test_optuna_is_asked_for_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"pip install .*\[tune\]'"):
        tuning.search(Tuning(2, SPACE), 0, lambda candidate: 1.0)
