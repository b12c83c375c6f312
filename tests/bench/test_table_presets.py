"""Whose published settings each table of a paper rests on, and runs with others beside its numbers."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small import HORIZON, LOOKBACK, row

from rearview import bench
from rearview.bench import presets
from rearview.bench.analysis import coverage
from rearview.bench.analysis.paper_comparison import compare, matches
from rearview.bench.papers import catalogue, published
from rearview.bench.papers.catalogue import Cell
from rearview.bench.runs.request import Request
from rearview.bench.runs.run_spec import RunSpec, resolve
from rearview.bench.runs.sweep import SweepPlan, sweep
from rearview.bench.tasks import FORECASTING
from rearview.core.errors import SettingsError

PLAN = SweepPlan(results=Path("rows.csv"))


def cell(table: str, model: str, attention: str | None, dataset: str = "ETTh1", paper: str = "rbca") -> Cell:
    """The first one at horizon 96."""
    return next(
        one
        for one in catalogue.get(paper, table).cells
        if (one.dataset, one.model, one.horizon) == (dataset, model, 96)
        and (one.attention or {}).get("name") == attention
    )


def trained(one: Cell, plan: SweepPlan = PLAN) -> dict:
    return json.loads(plan.run(one, 0).spec.columns()["training"])


def test_every_table_goes_by_the_presets_that_its_numbers_rest_on():
    found = {one.name: one.presets for one in catalogue.every() if one.paper in ("rbca", "caps") and one.cells}
    assert found == {
        "rbca:T1": "rbca", "rbca:S4": "rbca", "rbca:S5": "official", "rbca:S6": "official", "rbca:S7": "official",
        "rbca:S8": "official", "rbca:S9": "rbca", "rbca:S10": "official",
        "rbca:transformer-similarity": "rbca", "rbca:transformer-butterworth": "rbca",
        "caps:T1": "caps", "caps:T2": "caps",
        "caps:T3": "caps", "caps:clipping": "official", "caps:sizes": "caps",
        "caps:T5": "caps", "caps:T6": "caps", "caps:T7": "caps",
    }  # fmt: skip


def printed(table: str, *variants: str) -> dict[tuple, float]:
    """The smallest number of some variants, by place and metric; of numbers with a look-back, at each by itself."""
    found: dict[tuple, float] = {}
    for number in published.select("rbca", table):
        if number.kind == "forecast" and number.variant in variants:
            place = (number.dataset, number.horizon, number.metric, number.lookback)
            found[place] = min(number.value, found.get(place, number.value))
    return found


def test_what_the_recency_bias_prints_tells_which_of_its_tables_are_of_one_training():
    best, again = printed("T1", "rbca_best"), printed("S9", "rbca_best")
    assert again
    assert again.items() <= best.items()  # table S9 has the numbers of table 1,
    released = [printed(f"S{place}", "rbca_pl", "rbca_spl", "rbca_bw1", "rbca_bw2") for place in (5, 6, 7, 8)]
    lowest = min(values.get(("ETTh1", 96, "mse", lookback), 1.0) for values in released for lookback in (336, 512))
    assert best["ETTh1", 96, "mse", None] < lowest  # which no table of the release reaches,
    constant = {
        (n.dataset, n.horizon, n.metric, n.lookback): n.value
        for n in published.select("rbca", "S10")
        if "constant" in n.setting
    }
    assert constant
    assert constant.items() <= printed("S5", "rbca_pl").items()  # and table S10 has those of S5


def test_a_run_gets_the_settings_of_its_table():
    assert trained(cell("T1", "patchtst", "rbca"))["weight_decay"] == 1.0
    assert trained(cell("S5", "patchtst", "rbca"))["weight_decay"] == 0.0
    assert trained(cell("S4", "transformer", "rbca"))["patience"] is None
    widths = {
        dataset: json.loads(PLAN.run(cell("T5", "caps_net", "caps", dataset, "caps"), 0).spec.columns()["settings"])
        for dataset in ("ETTh1", "ETTm1")
    }
    assert [one["width"] for one in widths.values()] == [16, 128]


def test_a_network_that_presets_do_not_name_has_the_official_ones():
    other = cell("T5", "itransformer", None, paper="caps")
    assert other.presets == "caps"
    assert presets.source_of("itransformer", "caps") == presets.source_of("nosuch", "caps") == "official"
    assert trained(other) == trained(replace(other, presets="official"))
    assert catalogue.get("caps", "T5").settings().startswith("caps for caps_net; official for ")


def test_a_quoted_number_rests_on_what_the_authors_of_the_network_published():
    for table in ("T1", "S9"):
        experiment = catalogue.get("rbca", table)
        quoted = [one for one in experiment.cells if one.numbers and all(number.quoted for number in one.numbers)]
        assert quoted
        assert {one.presets for one in quoted} == {"official"}
        assert {one.presets for one in experiment.cells if one not in quoted} == {"rbca"}
        assert "official for patchtst + softmax (quoted)" in experiment.settings()
    assert trained(cell("T1", "patchtst", "softmax"))["weight_decay"] == 0.0


def test_presets_of_a_sweep_go_before_those_of_its_cells():
    one = cell("T1", "patchtst", "rbca")
    assert trained(one, replace(PLAN, presets="official")) == trained(replace(one, presets="official"))
    assert trained(one, replace(PLAN, presets="toa"))["betas"] == [0.9, 0.95]


def made(source: str, **changes: object):
    """A row of the causal mask alone on ETTh1 at horizon 96."""
    causal = {"name": "rbca", "bias": "causal"}
    training = changes.pop("training", {})
    spec = resolve(Request("ETTh1", "patchtst", causal, 336, 96, training=training, presets=source))
    return row(
        **{
            **spec.columns(),
            "values_sha256": "0f",
            "mse": 0.4,
            "mae": 0.4,
            "epochs": 100,
            "train_windows": 8209,
            **changes,
        }
    )


OFFICIAL = ("learning_rate=0.0001", "optimiser=adam", "weight_decay=0.0", "decay_all=True", "decay_head=True")


def test_runs_with_other_settings_stand_beside_a_number_and_are_distinguished():
    experiment = catalogue.get("rbca", "S9")
    rows = [made("rbca"), made("official"), made("official", seed=1)]
    found = [one for one in compare(experiment, rows, "clean") if one.rows and one.metric == "mse"]
    assert [(one.apart, one.count) for one in found] == [((), 1), (OFFICIAL, 2)]
    wider = made("rbca", settings='{"width":64}')
    [one, _] = [one for one in compare(experiment, [wider], "clean") if one.rows]
    assert "width=64" in one.apart
    [label] = {one.label for one in coverage.compare_all(FORECASTING, rows[1:]) if one.table == "rbca:S9"}
    shown, _, others = label.partition(", 2 more (")
    assert (shown, bool(others)) == (", ".join(["patchtst + rbca(bias=causal)", *OFFICIAL[:3]]), True)


@pytest.mark.parametrize(
    ("source", "training", "ran", "told"),
    [
        ("rbca", {}, 100, ""),
        ("rbca", {"epochs": 30}, 30, "30 of 100 epochs"),
        ("rbca", {"patience": 20}, 40, "patience 20 instead of any"),
        ("official", {}, 100, ""),
    ],
)
def test_a_smaller_budget_is_one_beside_the_tables_own_presets(source, training, ran, told):
    one = made(source, training=training, epochs=ran)
    found = [each for each in compare(catalogue.get("rbca", "S9"), [one], "clean") if each.rows]
    assert {each.shortfall for each in found} == {told}
    assert {each.apart for each in found} == {() if source == "rbca" else OFFICIAL}


def test_a_row_says_whose_settings_it_has(folder):
    plan = SweepPlan(results=folder / "rows.csv", data_dir=folder, device="cpu", training={"epochs": 1, "batch": 64})
    one = Cell("Small", "dlinear", None, LOOKBACK, HORIZON, presets="rbca")
    sweep([one], plan)
    sweep([replace(one, horizon=HORIZON + 1)], replace(plan, presets="tslib"))
    sweep([replace(one, presets=None)], replace(plan, protocol="published:toa"))
    told = [made.habits.partition("settings: ")[2].partition(".")[0] for made in bench.read(plan.results)]
    assert told == ["rbca presets", "tslib presets", "toa presets"]


def test_toa_runs_in_the_form_that_trains_and_without_calendar_tokens():
    cells = catalogue.get("toa", "T7").cells
    norms = {(one.model, one.attention.get("kind", "")): one.attention.get("score_norm", "none") for one in cells}
    assert {key for key, norm in norms.items() if norm == "mean"} == {("patchtst", "relu"), ("patchtst", "gated")}
    assert {key for key, norm in norms.items() if norm == "none"} >= {("itransformer", "gated"), ("duet", "relu")}
    one = next(one for one in cells if one.model == "itransformer" and one.dataset == "ETTh1")
    assert SweepPlan(results=Path("rows.csv"), protocol="published:toa").run(one, 0).spec.calendar is None
    assert SweepPlan(results=Path("rows.csv")).run(replace(one, presets="official"), 0).spec.calendar == "h"


def test_weight_decay_of_powerformer_spares_the_head():
    assert trained(cell("T1", "patchtst", "rbca", "ETTh2"))["decay_head"] is False
    assert trained(cell("S5", "patchtst", "rbca", "ETTh2"))["decay_head"] is True


@pytest.mark.parametrize("table", ["transformer-similarity", "transformer-butterworth"])
def test_every_bias_has_its_place_in_the_transformer(table):
    from rearview import models

    for spec in {repr(one.attention): one.attention for one in catalogue.get("rbca", table).cells}.values():
        sizes = {"width": 16, "heads": 2, "depth": 1, "feed_forward": 8}
        model = models.create("transformer", channels=3, lookback=24, steps=6, attention=spec, **sizes)
        assert model(torch.randn(2, 3, 24)).isfinite().all()


def test_caps_is_clipped_as_released_on_request_alone():
    assert trained(catalogue.get("caps", "T5").cells[0])["clip_halve_every"] is None
    clipped = trained(catalogue.get("caps", "clipping").cells[0])
    assert (clipped["clip"], clipped["clip_halve_every"]) == (1.5e-5, 2000)


def test_caps_has_the_size_that_table_4_counts():
    one = catalogue.get("caps", "sizes").cells[0]
    spec = PLAN.run(one, 0).spec
    assert (spec.settings["width"], spec.settings["depth"], spec.settings["channel_dropout"]) == (96, 4, "printed")
    assert one.only_under == ""


def test_a_row_of_another_size_or_clipping_is_no_run_of_a_cell():
    [size, *_], [clipped, *_] = (catalogue.get("caps", table).cells for table in ("sizes", "clipping"))
    facts = {"dataset": "ETTh1", "model": "caps_net", "attention": "caps", "lookback": 96, "horizon": 96}
    small = row(**facts, settings='{"width":32,"depth":3}', training='{"clip":1.0,"clip_halve_every":null}')
    assert not matches(small, size)
    assert not matches(small, clipped)
    assert matches(replace(small, settings='{"width":96,"depth":4}'), size)
    assert matches(replace(small, training='{"clip":1.5e-5,"clip_halve_every":2000,"epochs":3}'), clipped)


def resolved(cells) -> RunSpec:
    """The first cell of MICA's on a set that is in the catalogue, with its numbers, as a run."""
    plan = SweepPlan(results=Path("rows.csv"), protocol="published:mica")
    return next(spec for one in cells if one.numbers and (spec := plan.run(one, 1).spec) is not None)


def test_mica_is_trained_as_its_release_does():
    columns = resolved(catalogue.get("mica", "T2").cells).columns()
    training = json.loads(columns["training"])
    assert columns["loss"] == "window_mae"
    assert (training["keep_last"], training["epochs"] * training["updates_per_epoch"]) == (True, 12_000)
    models = {each.model for each in catalogue.get("mica", "T2").cells}
    assert {"mlp_joint", "tsmixer"} <= models
    assert "mlp" not in models


def test_gates_that_are_perceptrons_are_drawn_on_request():
    table = catalogue.get("mica", "T13")
    tuned = catalogue.tune(table)
    gates = {one.attention.get("gate") for one in tuned.cells if one.tuning}
    assert gates == {"mlp", "mlp_query"}
    [search] = {one.tuning.name for one in tuned.cells if one.tuning}
    assert search == "optuna:5"
    assert not any(one.tuning for one in table.cells)
    assert {one.attention.get("gate") for one in tuned.cells if not one.tuning} >= {"shared", "channelwise"}
    with pytest.raises(SettingsError, match="prime:T6 has nothing that its authors tuned by chance; leave out --tune"):
        catalogue.tune(catalogue.get("prime", "T6"))


def test_a_tuned_run_stands_beside_a_number_where_tuning_was_asked_for():
    table = catalogue.get("mica", "T13")
    spec = resolved(one for one in catalogue.tune(table).cells if one.tuning)
    drawn = {**json.loads(spec.columns()["attention_settings"]), "mlp_width": 384}
    facts = {**spec.columns(), "attention_settings": json.dumps(drawn), "train_windows": 9000}
    made = row(**facts)
    assert next(each.rows for each in compare(catalogue.tune(table), [made]) if each.rows) == (made,)
    assert not any(each.rows for each in compare(table, [made]))


def test_a_run_of_mica_with_another_loss_says_so():
    table = catalogue.get("mica", "T2")
    spec = resolved(one for one in table.cells if one.attention is not None)
    made = row(**spec.columns(), train_windows=9000)
    assert next(each.apart for each in compare(table, [made]) if each.rows) == ()
    assert next(each.apart for each in compare(table, [replace(made, loss="mae")]) if each.rows) == ("loss=mae",)
    assert not any(each.rows for each in compare(table, [replace(made, loss="mse")]))


def test_prime_as_released_is_trained_with_the_loss_of_fredf_too():
    table = catalogue.get("prime", "released")
    assert table.first_seed == 2025
    arms = [one for one in table.cells if (one.dataset, one.horizon) == ("Exchange", 720)]
    plain, weighted = ([one for one in arms if bool(one.loss) is fredf] for fredf in (False, True))
    assert {one.mechanism for one in plain} == {"softmax", "differential", "prime"}
    assert {one.mechanism for one in weighted} == {"softmax", "prime"}
    assert [repr(one.attention) for one in weighted] == [
        repr(one.attention) for one in plain if one.mechanism != "differential"
    ]
    plan = SweepPlan(results=Path("rows.csv"), protocol=table.protocol)
    for one, other in zip(weighted, [one for one in plain if one.mechanism != "differential"], strict=True):
        made = row(**plan.run(one, table.first_seed).spec.columns())
        assert json.loads(made.loss) == {"loss": "fredf", "time_share": 0.2}  # which the paper's tables have set by set
        assert made.seed == 2025
        assert matches(made, one)
        assert not matches(made, other)
        assert one.only_under == ""
