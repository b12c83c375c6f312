"""The papers' numbers: none is lost, each has our names, and their experiments hold together."""

from collections import Counter
from functools import cache

import pytest

from rearview import attention, models
from rearview.bench import presets, protocols
from rearview.bench.papers import catalogue as experiments
from rearview.bench.papers import published
from rearview.core.errors import SettingsError
from rearview.data.datasets import catalogue

ELSEWHERE = {"timemixer", "timesnet", "fedformer", "autoformer", "informer", "chronos2", "autoets", "harmonic"}
"""Networks of other packages, and the synthetic task's own."""


def test_every_printed_number_is_mapped():
    found = published.numbers()
    assert len(found) == 8596
    assert Counter(number.kind for number in found) == {
        "forecast": 6648, "summary": 1138, "cost": 448, "elsewhere": 88, "classification": 196, "detection": 75,
        "synthetic": 3,
    }  # fmt: skip
    for number in found:
        assert bool(number.model) != (number.kind == "elsewhere" or number.backbone in published.ELSEWHERE)
        assert number.value is not None or "UNREADABLE" in number.note


@cache
def known_settings(name):
    return {setting.name for setting in attention.describe(name).settings}


def test_our_names_exist():
    known = set(models.names()) | ELSEWHERE
    assert {number.model for number in published.numbers()} - {""} <= known
    specs = {repr(number.attention): number.attention for number in published.numbers() if number.attention}
    assert len(specs) == 57
    for spec in specs.values():
        name, settings = attention.split(dict(spec))
        assert set(settings) <= known_settings(name), (name, settings)


@pytest.mark.parametrize(
    ("table", "variant", "setting", "spec"),
    [
        ("S5", "rbca_pl", "Powerformer; alpha=0.25", {"name": "rbca", "bias": "power_law", "alpha": 0.25}),
        ("S8", "rbca_bw2", "Powerformer; t_c=15", {"name": "rbca", "bias": "butterworth", "order": 2, "scale": 15.0}),
        (
            "S10",
            "rbca_pl",
            "Powerformer; learnable alpha, init=0.75",
            {"name": "rbca", "bias": "power_law", "alpha": 0.75, "learnable": True},
        ),
    ],
)
def test_settings_in_words_become_settings(table, variant, setting, spec):
    found = [n for n in published.select("rbca", table) if n.variant == variant and n.setting == setting]
    assert found
    assert all(number.attention == spec for number in found)


def test_doubtful_cells_are_marked():
    doubtful = [number for number in published.numbers() if number.doubtful]
    assert 0 < len(doubtful) < 200
    assert all(any(mark in number.note for mark in published.DOUBTS) for number in doubtful)


def test_every_table_of_the_papers_is_an_experiment():
    papers = {number.paper for number in published.numbers()}
    assert papers == {"rbca", "caps", "toa", "mica", "prime"}
    for paper in papers:
        assert {number.table for number in published.select(paper)} <= set(experiments.tables(paper))


def test_cells_hold_every_number_that_a_run_can_meet():
    for experiment in experiments.every():
        source = {number.table for cell in experiment.cells for number in cell.numbers}
        held = sum(len(cell.numbers) for cell in experiment.cells)
        kind = "forecast" if experiment.task == "forecasting" else experiment.task
        assert held == (experiment.kinds.get(kind, 0) if experiment.cells else 0), experiment.name
        assert len(source) <= 1
        assert experiment.protocol in protocols.names()
        assert experiment.presets in presets.names()
        if experiment.task == "forecasting":
            assert all(cell.lookback > 0 and cell.horizon > 0 for cell in experiment.cells)


def test_the_best_of_a_grid_is_chosen_from_candidates():
    for table, numbers in (("T1", 28), ("S9", 10)):
        best = [cell for cell in experiments.get("rbca", table).cells if cell.candidates]
        told = [cell for cell in best if cell.numbers]
        assert len(told) == numbers
        assert [other for cell in told for other in cell.among] == [cell for cell in best if not cell.numbers]
        assert {(cell.lookback, *(other.lookback for other in cell.among)) for cell in told} == {(336, 512)}
        assert {(c.attention["name"], *c.attention) for c in best} == {("rbca", "name")}  # the bias is searched for
        tried = {(c.dataset, c.lookback): len(c.candidates) for c in best}
        assert (tried["ETTh1", 336], tried["ETTh1", 512]) == (5 + 4 + 2 * 5, 5 + 4)
        assert tried.get(("Traffic", 336), 9) == 9  # no filters on the larger sets
    printed = {(n.attention["bias"], n.attention.get("order"), n.attention.get("alpha", n.attention.get("scale")))
               for table in ("S5", "S6", "S7", "S8") for n in published.select("rbca", table)
               if n.kind == "forecast"}  # fmt: skip
    candidates = experiments.get("rbca", "S9").cells[2].candidates
    assert {(c["bias"], c.get("order"), c.get("alpha", c.get("scale"))) for c in candidates} == printed
    constant = [cell for cell in experiments.get("rbca", "S10").cells if cell.candidates]
    assert {tuple(candidate["alpha"] for candidate in cell.candidates) for cell in constant} == {
        (0.1, 0.25, 0.5, 0.75, 1.0)
    }


def test_a_number_taken_over_from_another_table_is_as_doubtful_as_there():
    there = {(n.dataset, n.horizon, n.metric): n for n in published.select("rbca", "T1") if n.variant == "rbca_best"}
    taken = [n for n in published.select("rbca", "S9") if n.variant == "rbca_best"]
    assert [n.doubtful for n in taken] == [there[n.dataset, n.horizon, n.metric].doubtful for n in taken]
    assert [n.value for n in taken] == [there[n.dataset, n.horizon, n.metric].value for n in taken]
    assert {n.value for n in taken if n.doubtful and n.metric == "mse"} >= {0.361}
    assert not any(n.doubtful for n in published.select("rbca", "S9") if n.variant != "rbca_best")


def test_grids_are_spread_out():
    cells = experiments.get("prime", "sparsity").cells
    assert len(cells) == 3 * 21
    assert [cell.attention["sparsity"] for cell in cells[:21]] == pytest.approx([step / 20 for step in range(21)])


def test_every_data_set_is_in_the_catalogue():
    known = {name.casefold() for name in catalogue.names()}
    forecasts = [experiment for experiment in experiments.every() if experiment.task == "forecasting"]
    assert not {c.dataset for e in forecasts for c in e.cells if c.dataset.casefold() not in known}


@pytest.mark.parametrize(("paper", "table"), [("rbac", "T1"), ("rbca", "T99")])
def test_what_there_is_not_is_refused(paper, table):
    with pytest.raises(SettingsError, match="Known"):
        experiments.get(paper, table)


def test_protocols_say_what_they_drop():
    published_rbca = protocols.get("published:rbca")
    assert published_rbca.windows(2785, 128, "test", "patchtst") == 2688
    assert protocols.get("clean").windows(2785, 128, "test", "patchtst") == 2785
    assert protocols.get("published:prime").windows(2785, 128, "test", "itransformer") == 2785
    assert protocols.get("published:toa").windows(2785, 128, "test", "itransformer") == 2785
    assert protocols.get("published:toa").windows(2785, 128, "test", "patchtst") == 2688
    assert any("last partial batch of test" in line for line in published_rbca.lines())
    with pytest.raises(SettingsError, match="published:rbca"):
        protocols.get("published:rbac")
