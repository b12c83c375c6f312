"""What goes wrong in a sweep, and what is made of it: failures, killed processes, clusters, other commands."""

import sys
import warnings
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from small import HORIZON, LOOKBACK, row

from rearview import bench
from rearview.bench.papers.catalogue import Cell
from rearview.bench.rows import result_file
from rearview.bench.runs import forecasting, pool, runner, search, sweep
from rearview.bench.runs.pool import KILLED
from rearview.bench.runs.request import Request
from rearview.bench.runs.run_spec import resolve
from rearview.bench.runs.runner import failed_row
from rearview.bench.runs.sweep import SweepPlan
from rearview.core.errors import InputError, RearviewWarning, SettingsError
from rearview.train import TrainingError, parallel
from rearview.train.contract import Diverged

QUICK = {"epochs": 1, "windows_per_epoch": 32}
DLINEAR = Cell("Small", "dlinear", None, LOOKBACK, HORIZON)


@pytest.fixture
def plan(folder):
    return SweepPlan(results=folder / "rows.csv", data_dir=folder, device="cpu", training=QUICK)


def test_any_failure_is_a_row_but_not_the_keyboard(plan, monkeypatch):
    def broken(spec, execution):
        raise TypeError("a bug of somebody's")

    monkeypatch.setattr(runner, "make", broken)
    [found] = sweep.sweep([DLINEAR], plan)
    assert (found.status, found.problem) == ("failed", "TypeError: a bug of somebody's")

    def interrupted(spec, execution):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "make", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep.sweep([DLINEAR], plan)
    assert len(bench.read(plan.results)) == 1


def test_warnings_of_our_own_alone_come_through(plan, monkeypatch):
    made = runner.make

    def warns(spec, execution):
        warnings.warn("somebody else's", UserWarning, stacklevel=1)
        warnings.warn("it tends to collapse", RearviewWarning, stacklevel=1)
        return made(spec, execution)

    monkeypatch.setattr(runner, "make", warns)
    with pytest.warns(RearviewWarning, match="collapse") as told:
        sweep.sweep([DLINEAR], plan)
    assert [str(one.message) for one in told] == ["it tends to collapse"]


def test_cells_may_be_a_stream(plan):
    rows = sweep.sweep(iter([DLINEAR]), replace(plan, seeds=(0, 1)))
    assert [found.seed for found in rows] == [0, 1]


def test_a_file_that_takes_no_rows_is_refused_before_anything_is_made(plan, monkeypatch):
    monkeypatch.setattr(sweep, "attempt", lambda run, execution: pytest.fail("a run began"))
    bench.append(plan.results, row(schema=bench.Row.SCHEMA + 1))
    with pytest.raises(InputError, match="a newer version"):
        sweep.sweep([DLINEAR], plan)


def test_of_several_processes_the_first_alone_writes_and_speaks(plan, monkeypatch):
    wrong = replace(DLINEAR, model="itransformer", attention={"name": "rbca"})
    told = []
    monkeypatch.setattr(parallel, "rank", lambda: 1)
    [found] = sweep.sweep([wrong], plan, say=told.append)
    assert found.status == "failed"
    assert told == []
    assert not plan.results.exists()
    monkeypatch.setattr(parallel, "size", lambda: 2)
    with pytest.raises(SettingsError, match="torchrun shares each run"):
        sweep.sweep([wrong], plan, workers=2)


def test_a_killed_process_is_a_failed_row(plan, monkeypatch):
    done = row(dataset="Small", seed=1)

    def spread(work, runs, workers, until):
        yield runs[0], None
        yield runs[1], done

    monkeypatch.setattr(pool, "spread", spread)
    told = []
    rows = sweep.sweep([DLINEAR], replace(plan, seeds=(0, 1)), workers=2, say=told.append)
    assert [found.status for found in rows] == ["failed", "done"]
    assert KILLED in rows[0].problem
    assert bench.read(plan.results)[0].problem == rows[0].problem
    assert "failed" in told[0]


def test_two_commands_make_one_row(plan, monkeypatch):
    """While the second trains, the first finishes."""
    first = sweep.sweep([DLINEAR], plan)
    content = plan.results.read_bytes()
    plan.results.unlink()
    measure = forecasting.measure

    def measured(trial, data):
        plan.results.write_bytes(content)
        return measure(trial, data)

    monkeypatch.setattr(forecasting, "measure", measured)
    assert sweep.sweep([DLINEAR], plan) == first
    assert bench.read(plan.results) == first
    # Asked for again, it is made again.
    assert sweep.sweep([DLINEAR], replace(plan, again=True)) != first


def test_a_run_in_other_hands_leaves_the_checkpoint_to_them(plan, monkeypatch):
    seen = []

    @contextmanager
    def elsewhere(folder, name):
        yield False

    monkeypatch.setattr(pool, "hold_run", elsewhere)
    monkeypatch.setattr(runner, "make", lambda spec, execution: seen.append(execution.checkpoint) or row())
    sweep.sweep([DLINEAR], plan)
    monkeypatch.undo()
    monkeypatch.setattr(runner, "make", lambda spec, execution: seen.append(execution.checkpoint) or row())
    sweep.sweep([replace(DLINEAR, dataset="ETTh1")], plan)
    assert seen == [None, plan.results.with_suffix(".checkpoints")]


class Ray:
    """A cluster of two processors that makes a run when its row is asked for, and loses some."""

    class exceptions:
        class RayError(Exception):
            pass

    def __init__(self, lost=()):
        self.lost = lost
        self.begun = []
        self.ended = 0
        self.most = 0

    def is_initialized(self):
        return True

    def cluster_resources(self):
        return {"CPU": 2.0}

    def remote(self, num_gpus):
        assert num_gpus == 0
        return lambda work: SimpleNamespace(remote=lambda run: self.begin(work, run))

    def begin(self, work, run):
        self.begun.append((work, run))
        self.most = max(self.most, len(self.begun) - self.ended)
        return len(self.begun) - 1

    def wait(self, references, num_returns):
        return references[:num_returns], references[num_returns:]

    def get(self, reference):
        self.ended += 1
        work, run = self.begun[reference]
        if run.cell.seed in self.lost:
            raise self.exceptions.RayError("the node is gone")
        return work(run)


@pytest.fixture
def on_ray(plan, monkeypatch):
    """Runs a sweep of some seeds on a cluster."""

    def on(ray, seeds, **options):
        monkeypatch.setitem(sys.modules, "ray", ray)
        return sweep.sweep([DLINEAR], replace(plan, seeds=seeds), over="ray", **options)

    return on


def test_a_cluster_gets_no_more_runs_than_it_has_room_for(plan, on_ray):
    ray = Ray(lost=(1,))
    rows = on_ray(ray, (0, 1, 2, 3))
    assert [(found.seed, found.status) for found in rows] == [(0, "done"), (1, "failed"), (2, "done"), (3, "done")]
    assert "Ray lost this run: the node is gone" in rows[1].problem
    assert ray.most == 2
    assert [found.status for found in bench.read(plan.results)] == [found.status for found in rows]


def test_warnings_of_a_cluster_are_reported_once(on_ray, monkeypatch):
    made = runner.make

    def warns(spec, execution):
        warnings.warn("it tends to collapse", RearviewWarning, stacklevel=1)
        return made(spec, execution)

    monkeypatch.setattr(runner, "make", warns)
    with pytest.warns(RearviewWarning, match="collapse") as told:
        assert len(on_ray(Ray(), (0, 1, 2))) == 3
    assert len(told) == 1


def test_rows_that_a_cluster_need_not_make_are_returned_too(plan, on_ray):
    first = on_ray(Ray(), (0, 1))
    ray = Ray()
    assert on_ray(ray, (0, 1, 2))[:2] == first
    assert len(ray.begun) == 1
    assert len(bench.read(plan.results)) == 3
    assert on_ray(Ray(), (0, 7), seconds=0.0) == first[:1]


def test_what_can_not_be_settled_fails_on_a_cluster_too(plan, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", Ray())
    [found] = sweep.sweep([replace(DLINEAR, dataset="Nowhere")], plan, over="ray")
    assert found.status == "failed"


def test_time_stops_new_runs_and_not_those_under_way(plan, on_ray, monkeypatch):
    ray = Ray()
    # The clock strikes as soon as both places are taken.
    monkeypatch.setattr(sweep, "has_time", lambda until: len(ray.begun) < 2)
    told = []
    rows = on_ray(ray, (0, 1, 2, 3), seconds=60.0, say=told.append)
    assert [found.seed for found in rows] == [0, 1]
    assert told[-1] == "time was up: 2 of 4 runs were not begun; the same command goes on with them"


def trained(losses):
    """What makes a candidate of its alpha: its loss, or a divergence where that is infinite."""

    def tried(spec):
        loss = losses[spec.attention["alpha"]]
        if loss == float("inf"):
            raise Diverged("The training loss of epoch 1 is nan.")
        return loss

    return tried


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 1, 3)])
def test_a_candidate_that_diverges_is_the_worst(plan, order):
    spec = _spec()
    candidates = [{"alpha": alpha} for alpha in order]
    losses = {1: float("inf"), 2: 0.5, 3: 0.4}
    spec = replace(spec, candidates=candidates, budget={"candidates": candidates})
    assert search.find_best(spec, trained(losses), float)[0] == 0.4
    with pytest.raises(TrainingError, match="None of the 3 candidates could be trained; the last: The training loss"):
        search.find_best(spec, trained(dict.fromkeys(order, float("inf"))), float)


def test_other_problems_of_a_candidate_are_no_verdict_on_it(plan):
    def tried(spec):
        raise TrainingError("out of memory")

    with pytest.raises(TrainingError, match="out of memory"):
        search.find_best(_spec(candidates=({"alpha": 1},)), tried, float)


def _spec(**given):
    return resolve(Request("Small", "patchtst", "rbca", LOOKBACK, HORIZON, **given))


def test_a_finished_run_whose_row_has_no_place_is_no_failed_one(plan, monkeypatch):
    def full(*given):
        raise OSError("no space left")

    monkeypatch.setattr(result_file, "_write", full)
    with pytest.raises(InputError, match=r"can't be added .*no space left.*add this line: .*,done,"):
        sweep.sweep([DLINEAR], plan)


def test_a_failed_run_keeps_its_loss_as_rows_write_it():
    request = replace(DLINEAR, loss={"name": "fredf", "time_share": 0.2}, training={"epoch": 1})
    broken = failed_row(request, "cpu", ValueError("no setting 'epoch'"))
    assert broken.loss == '{"loss":"fredf","time_share":0.2}'
