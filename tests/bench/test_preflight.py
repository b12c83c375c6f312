"""What is known wrong of a run before it begins: refused in the words of the row that it would have become."""

import warnings
from dataclasses import replace

import pytest
import torch
from small import HORIZON, LOOKBACK, ROWS

from rearview import models
from rearview.bench.papers.catalogue import Cell
from rearview.bench.runs import forecasting
from rearview.bench.runs.sweep import SweepPlan, sweep
from rearview.bench.runs.tuning import Range, Tuning
from rearview.core.errors import RearviewError, RearviewWarning, SettingsError

PATCHTST = Cell("Small", "patchtst", {"name": "softmax"}, LOOKBACK, HORIZON, settings={"width": 8, "heads": 2})


@pytest.fixture
def plan(folder):
    return SweepPlan(results=folder / "rows.csv", data_dir=folder, device="cpu", training={"epochs": 1})


IMPOSSIBLE = {
    "too few rows": replace(PATCHTST, horizon=ROWS // 2),
    "no row of a part left": replace(PATCHTST, lookback=ROWS),
    "a value of a mechanism": replace(PATCHTST, attention={"name": "rbca", "alpha": "x"}),
    "sizes that don't go together": replace(PATCHTST, settings={"width": 8, "heads": 3}),
    "one of several candidates": replace(PATCHTST, candidates=({"network.heads": 2}, {"network.heads": 3})),
    "an edge of a graph, which is a value": Cell("Small", "gat", {"name": "gat", "edges": [[0, 9]]}, LOOKBACK, HORIZON),
    "an adapter": replace(PATCHTST, attention={"name": "mica"}, settings={"adapters": ["decorrelate"]}),
}


@pytest.mark.parametrize("cell", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_refusal_is_what_the_row_would_tell(cell, plan):
    [row] = sweep([cell], plan)
    assert row.status == "failed"
    with pytest.raises(RearviewError) as refused:
        forecasting.check(plan.run(cell, 0).spec)
    assert row.problem == f"{type(refused.value).__name__}: {refused.value}"
    assert str(refused.value).endswith(".")


def test_the_shortest_set_that_a_run_can_have_is_let_pass(plan):
    """The validation part is the shortest: as many rows as lie between training and test."""
    longest = 51
    forecasting.check(plan.run(replace(PATCHTST, horizon=longest), 0).spec)
    with pytest.raises(SettingsError, match="the validation part has"):
        forecasting.check(plan.run(replace(PATCHTST, horizon=longest + 1), 0).spec)


def test_a_package_that_is_missing_is_named(plan, monkeypatch):
    from rearview.models import baselines

    borrowed = replace(PATCHTST, model="timesnet", attention=None, settings={})
    monkeypatch.setattr(baselines, "find_spec", lambda package: None)
    monkeypatch.setattr(models, "find_spec", lambda package: None)
    for cell in (borrowed, replace(borrowed, tuning=Tuning(2, {"network.dropout": Range(0.0, 0.5)}))):
        with pytest.raises(SettingsError, match="timesnet is a network of neuralforecast, which is not installed"):
            forecasting.check(plan.run(cell, 0).spec)


def test_settings_that_are_drawn_are_left_to_the_search(plan):
    drawn = replace(PATCHTST, settings={"heads": 3}, tuning=Tuning(2, {"network.width": (9, 8)}))
    forecasting.check(plan.run(drawn, 0).spec)


def test_a_network_that_breaks_in_another_way_is_left_to_the_run(plan, monkeypatch):
    def broken(*sizes):
        raise TypeError("a bug of somebody's")

    monkeypatch.setattr(forecasting, "build", broken)
    forecasting.check(plan.run(PATCHTST, 0).spec)


def test_nothing_is_read_drawn_or_warned_of(plan, monkeypatch):
    from rearview.data.datasets import catalogue

    build = forecasting.build

    def warns(*sizes):
        warnings.warn("it tends to collapse", RearviewWarning, stacklevel=1)
        return build(*sizes)

    monkeypatch.setattr(catalogue, "load", lambda *given: pytest.fail("data were read"))
    monkeypatch.setattr(forecasting, "build", warns)
    state = torch.random.get_rng_state()
    forecasting.check(plan.run(PATCHTST, 0).spec)
    assert torch.equal(torch.random.get_rng_state(), state)
