"""Many runs and what is made of them: skipping, failing, choosing on validation, standing beside printed numbers."""

import json
import math
from dataclasses import replace

import pytest
from small import HORIZON, LOOKBACK, row

from rearview import bench
from rearview.bench.analysis.paper_comparison import compare, matches
from rearview.bench.papers.catalogue import Cell, Experiment
from rearview.bench.papers.published import numbers
from rearview.bench.rows.row import RunRow
from rearview.bench.runs import pool
from rearview.bench.runs import sweep as sweep_module
from rearview.bench.runs.request import spell
from rearview.bench.runs.run_spec import Execution
from rearview.bench.runs.sweep import Run, SweepPlan, sweep
from rearview.core.errors import SettingsError
from rearview.train import Silent

QUICK = {"epochs": 1, "windows_per_epoch": 32}
DLINEAR = Cell("Small", "dlinear", None, LOOKBACK, HORIZON)
SETTINGS = {"width": 8, "heads": 2, "feed_forward": 8, "depth": 1}


@pytest.fixture
def plan(folder):
    return SweepPlan(results=folder / "rows.csv", data_dir=folder, device="cpu", training=QUICK)


def test_a_sweep_makes_every_seed_once_and_skips_what_is_there(plan):
    told = []
    first = sweep([DLINEAR], replace(plan, seeds=(0, 1)), say=told.append)
    again = sweep([DLINEAR], replace(plan, seeds=(0, 1, 2)), say=told.append)
    assert [row.seed for row in first] == [0, 1]
    assert again[:2] == first
    assert len(bench.read(plan.results)) == 3
    begun = [line for line in told if line.startswith("run ")]
    assert begun == [
        f"run {place} of {of}: dlinear, Small 29-7, seed {place - 1}" for place, of in [(1, 2), (2, 2), (3, 3)]
    ]
    assert told[0] == begun[0]
    assert sum(line.startswith("dlinear, Small 29-7, seed ") and ": mse " in line for line in told) == 5
    assert len(told) == 8


def test_the_line_of_a_run_names_what_its_search_chose(plan: SweepPlan) -> None:
    told: list[str] = []
    tried = replace(DLINEAR, candidates=({"network.kernel": 3}, {"network.kernel": 5}))
    [row] = sweep([tried], plan, say=told.append)
    kernel = json.loads(row.settings)["kernel"]
    assert told[-1].endswith(f"; epochs=1, windows_per_epoch=32, best of 2 (kernel={kernel})")


def test_a_failure_is_a_row_and_not_the_end(plan):
    wrong = replace(DLINEAR, model="itransformer", attention={"name": "rbca"})
    rows = sweep([wrong, DLINEAR], plan)
    assert [row.status for row in rows] == ["failed", "done"]
    assert "tokens are channels" in rows[0].problem
    assert math.isnan(rows[0].mse)
    kept = bench.read(plan.results)
    assert [row.status for row in kept] == ["failed", "done"]
    # It is tried again next time.
    assert [row.status for row in sweep([wrong, DLINEAR], plan)] == ["failed", "done"]
    assert len(bench.read(plan.results)) == 3


def test_no_run_begins_after_the_time_is_up(plan):
    told = []
    assert sweep([DLINEAR], plan, seconds=0.0, say=told.append) == []
    assert told == ["time was up: 1 of 1 run was not begun; the same command goes on with it"]


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_that_are_there_need_no_time(plan, workers):
    first = sweep([DLINEAR], replace(plan, seeds=(0, 1)))
    told = []
    options = {"seconds": 0.0, "workers": workers, "say": told.append}
    assert sweep([DLINEAR], replace(plan, seeds=(2, 0, 3, 1)), **options) == first
    assert told[-1] == "time was up: 2 of 4 runs were not begun; the same command goes on with them"
    assert [line.partition(":")[0][-6:] for line in told[:-1]] == ["seed 0", "seed 1"]
    # Asked for again, a row stands for nothing.
    assert sweep([DLINEAR], replace(plan, seeds=(0, 1), again=True), **options) == []
    assert told[-1].startswith("time was up: 2 of 2 runs were not begun")


@pytest.mark.parametrize("again", [False, True])
def test_a_sweep_that_is_stopped_says_what_goes_on(
    plan: SweepPlan, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    whole = sweep_module.attempt

    def attempt(run: Run, execution: Execution) -> RunRow:
        if run.cell.seed == 2:
            raise KeyboardInterrupt
        return whole(run, execution)

    told: list[str] = []
    monkeypatch.setattr(sweep_module, "attempt", attempt)
    with pytest.raises(KeyboardInterrupt):
        sweep([DLINEAR], replace(plan, seeds=(0, 1, 2, 3, 4), again=again), say=told.append)
    assert told[-1] == "stopped after 2 of 5 runs" + ("" if again else "; the same command goes on from here")
    assert [row.seed for row in bench.read(plan.results)] == [0, 1]


class Followed(Silent):
    """What follows runs, and counts them."""

    def __init__(self):
        self.runs = 0

    def begin(self, epochs, windows, done):
        self.runs += 1


def test_one_worker_is_followed_while_it_trains(plan):
    progress = Followed()
    sweep([DLINEAR], replace(plan, seeds=(0, 1)), progress=progress)
    assert progress.runs == 2
    # What is there already is not trained.
    sweep([DLINEAR], replace(plan, seeds=(0, 1)), progress=progress)
    assert progress.runs == 2


def test_a_row_that_was_there_is_told_from_a_run_that_was_made(plan):
    told: list[str] = []
    [row] = sweep([DLINEAR], plan, say=told.append)
    assert "--again" not in told[-1]
    sweep([DLINEAR], plan, say=told.append)
    assert told[-1].endswith(f"; a row of {row.created}, --again makes it anew")


def test_several_workers_are_not_followed(plan, monkeypatch):
    works = []
    monkeypatch.setattr(pool, "spread", lambda work, runs, workers, until: works.append(work) or iter(()))
    told = []
    sweep([DLINEAR], plan, workers=2, progress=Followed(), say=told.append)
    assert [work.keywords["execution"].progress for work in works] == [None]
    assert not any(line.startswith("run ") for line in told)
    assert not plan.results.exists()


@pytest.mark.slow
def test_processes_share_the_work(plan, monkeypatch):
    # Spawned processes know the catalogue as it stands in the package only.
    rows = sweep([replace(DLINEAR, dataset="Nowhere")], replace(plan, seeds=(0, 1, 2)), workers=2)
    assert [row.status for row in rows] == ["failed"] * 3
    assert len(bench.read(plan.results)) == 3


def test_ray_is_asked_for_by_name(plan, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(SettingsError, match=r"pip install .*\[ray\]"):
        sweep([DLINEAR], plan, over="ray")


def test_candidates_are_chosen_on_validation_and_reported(plan):
    cell = Cell("Small", "patchtst", {"name": "rbca"}, LOOKBACK, HORIZON, candidates=({"alpha": 0.1}, {"alpha": 2.0}))
    [chosen] = sweep([cell], replace(plan, settings=SETTINGS))
    assert chosen.status == "done", chosen.problem
    assert json.loads(chosen.budget)["candidates"] == [{"alpha": 0.1}, {"alpha": 2.0}]
    alone = [
        sweep(
            [replace(cell, candidates=(), attention={"name": "rbca", "alpha": alpha})], replace(plan, settings=SETTINGS)
        )
        for alpha in (0.1, 2.0)
    ]
    losses = {json.loads(row.attention_settings)["alpha"]: row.validation_loss for [row] in alone}
    best = min(losses, key=losses.get)
    assert json.loads(chosen.attention_settings)["alpha"] == best
    assert chosen.validation_loss == losses[best]
    # Known by its candidates, it is not made again.
    assert sweep([cell], replace(plan, settings=SETTINGS)) == [chosen]


def test_published_habits_are_repeated(plan):
    [clean] = sweep([DLINEAR], replace(plan, training={**QUICK, "batch": 32}))
    [habit] = sweep([DLINEAR], replace(plan, protocol="published:rbca", training={**QUICK, "batch": 32}))
    assert habit.status == "done", habit.problem
    assert clean.test_windows % 32 != 0
    assert habit.test_windows == clean.test_windows - clean.test_windows % 32
    assert json.loads(habit.training)["patchtst_compat"]
    assert habit.protocol == "published:rbca"


def test_a_loss_is_reported(plan):
    [found] = sweep([replace(DLINEAR, loss="fredf")], plan)
    assert found.status == "done", found.problem
    assert found.loss == "fredf"


def test_a_loss_is_reported_with_those_of_its_settings_that_are_no_defaults(plan):
    share = {"name": "fredf", "time_share": 0.2}
    [plain] = sweep([replace(DLINEAR, loss={"name": "fredf", "time_share": 0.5})], plan)
    [shared] = sweep([replace(DLINEAR, loss=share)], plan)
    assert (plain.loss, shared.loss) == ("fredf", '{"loss":"fredf","time_share":0.2}')
    assert plain.mse != shared.mse
    again = sweep([replace(DLINEAR, loss="fredf"), replace(DLINEAR, loss=share)], plan)
    assert again == [plain, shared] == bench.read(plan.results)
    [same] = sweep([replace(DLINEAR, loss={"name": "fredf", "time_share": 1.0})], plan)
    assert same.loss == '{"loss":"fredf","time_share":1.0}'
    assert same.mse == pytest.approx(sweep([DLINEAR], plan)[0].mse)  # of squared errors alone


NUMBER = next(n for n in numbers() if n.kind == "forecast" and n.metric == "mse")
CELL = Cell("Small", "patchtst", {"name": "softmax"}, 29, 7, numbers=(replace(NUMBER, value=0.5, note=""),))
ASKED = Experiment("rbca", "T0", "", "clean", "official", (CELL,), {"forecast": 1})


def made(**changes):
    return row(model="patchtst", attention="softmax", attention_settings="{}", **changes)


@pytest.mark.parametrize(
    ("errors", "verdict"),
    [
        ([0.505], "reproduced"),
        ([0.45], "better"),
        ([0.55], "worse"),
        ([0.4, 0.6], "reproduced"),
        ([0.54, 0.56], "worse"),
        ([], "not run"),
    ],
)
def test_verdicts_follow_the_rule(errors, verdict):
    [found] = compare(ASKED, [made(mse=error, seed=seed) for seed, error in enumerate(errors)])
    assert found.verdict == verdict
    if errors:
        assert found.mean == pytest.approx(sum(errors) / len(errors))
        assert found.difference == pytest.approx(100 * (found.mean / 0.5 - 1))


def test_a_doubtful_number_is_not_compared():
    doubtful = replace(CELL, numbers=(replace(CELL.numbers[0], note="DOUBTFUL digit"),))
    [found] = compare(replace(ASKED, cells=(doubtful,)), [made(mse=0.5)])
    assert found.verdict == "not comparable"


def test_rows_of_another_kind_stand_beside_nothing():
    assert matches(made(), CELL)
    others = (
        {"horizon": 8}, {"lookback": 30}, {"dataset": "Other"}, {"model": "dlinear"}, {"attention": "rbca"},
        {"loss": "fredf"}, {"adapters": '["lift"]'}, {"budget": '{"candidates":[]}'},
    )  # fmt: skip
    for change in others:
        assert not matches(replace(made(), **change), CELL)
    assert compare(ASKED, [made(protocol="published:rbca")])[0].verdict == "not run"
    assert compare(ASKED, [made(status="failed")])[0].verdict == "failed"


def test_a_mechanism_is_named_in_short():
    spec = {"name": "mica", "local": {"name": "rbca", "alpha": 0.5}, "gate": "shared"}
    assert spell(spec) == "mica(local=rbca(alpha=0.5), gate=shared)"
