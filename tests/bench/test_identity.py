"""Which run a row is: networks name their own mechanism, old rows are known again, and speed makes no other run."""

import csv
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from small import HORIZON, LOOKBACK, row

from rearview import bench, models, train
from rearview.bench.analysis import standings
from rearview.bench.analysis.candidates import name_candidates
from rearview.bench.analysis.coverage import compare_all
from rearview.bench.analysis.leaderboard import build_boards, latest_runs
from rearview.bench.analysis.paper_comparison import compare, find_rows, matches
from rearview.bench.papers import catalogue
from rearview.bench.papers.catalogue import Cell, Experiment
from rearview.bench.papers.published import numbers
from rearview.bench.rows import result_file
from rearview.bench.rows.identity import SPEED, find_same, identity
from rearview.bench.rows.row import as_json
from rearview.bench.runs import forecasting
from rearview.bench.runs.request import Request
from rearview.bench.runs.run_spec import resolve
from rearview.bench.runs.sweep import SweepPlan
from rearview.bench.tasks import FORECASTING
from rearview.core.errors import InputError, SettingsError

FAST = {"epochs": 1, "batch": 64, "windows_per_epoch": 64}
SIZES = {"width": 8, "heads": 2, "feed_forward": 8, "depth": 1}
run = partial(bench.run, "Small", horizon=HORIZON, lookback=LOOKBACK, device="cpu", progress=train.Silent())


def settle(model: str, attention=None, lookback: int = 96, horizon: int = 96, **given):
    return resolve(Request("ETTh1", model, attention, lookback, horizon, **given))


def configured(model: str, attention=None, **asked) -> dict:
    return {**settle(model, attention, **asked).columns(), "values_sha256": "0f"}


@pytest.mark.parametrize(
    ("model", "name"),
    [("powerformer", "rbca"), ("caps_net", "caps"), ("gat", "gat"), ("patchtst", "softmax"), ("dlinear", "")],
)
def test_a_row_names_the_networks_own_mechanism(model, name):
    assert configured(model)["attention"] == name


def test_a_networks_own_mechanism_comes_with_the_networks_settings():
    settings = json.loads(configured("powerformer")["attention_settings"])
    assert (settings["bias"], settings["alpha"], settings["residual_mask"]) == ("power_law", 0.5, "accumulate")
    assert configured("powerformer") != configured("powerformer", "softmax")
    primed = configured("gat", settings={"primed": True})
    assert json.loads(primed["attention_settings"])["primed"]
    assert primed == configured("gat", "gat", settings={"primed": True})


def test_what_is_named_is_what_is_built():
    for model in ("powerformer", "caps_net", "gat"):
        asked = settle(model)
        sizes = {"channels": 7, "lookback": 96, "steps": 96, **asked.settings}
        own_one = models.create(model, **sizes)
        named = models.create(model, attention=asked.attention, **sizes)
        assert {k: v.shape for k, v in own_one.state_dict().items()} == {
            k: v.shape for k, v in named.state_dict().items()
        }
        plain = models.create(model, attention="softmax", **sizes)
        assert type(own_one.stack.blocks[0].attend) is type(named.stack.blocks[0].attend)
        assert type(own_one.stack.blocks[0].attend) is not type(plain.stack.blocks[0].attend)


def test_a_protocol_has_its_say_on_a_networks_own_mechanism():
    own_one = configured("caps_net", protocol="published:caps")
    assert own_one == configured("caps_net", "caps", protocol="published:caps")
    assert json.loads(own_one["attention_settings"])["numerics"] == "released"


def test_own_mechanism_and_softmax_are_two_runs(folder):
    asked = {"settings": SIZES, "training": FAST, "data_dir": folder, "results": folder / "rows.csv", "resume": True}
    rows = [run("powerformer", **asked), run("powerformer", attention="softmax", **asked)]
    assert [one.attention for one in rows] == ["rbca", "softmax"]
    assert bench.read(asked["results"]) == rows


def test_an_attention_that_has_no_place_is_refused_though_a_row_is_there(folder):
    asked = {"training": FAST, "data_dir": folder, "results": folder / "rows.csv", "resume": True}
    run("dlinear", **asked)
    with pytest.raises(SettingsError, match="dlinear has no attention to replace"):
        run("dlinear", attention="rbca", **asked)


def test_what_bears_on_speed_alone_is_not_made_again(folder, monkeypatch):
    results_file = folder / "rows.csv"
    first = run("dlinear", training=FAST, data_dir=folder, results=results_file)
    plan = SweepPlan(results=results_file, data_dir=folder, device="cpu", training={**FAST, "capture": False})
    cell = Cell("Small", "dlinear", None, LOOKBACK, HORIZON)
    assert plan.run(cell, 0).find_finished([first]) == [first]
    assert replace(plan, training={**FAST, "tf32": False}).run(cell, 0).find_finished([first]) == []
    monkeypatch.setattr(forecasting.train, "fit", lambda *_, **__: pytest.fail("it was trained again"))
    quick = {"capture": False, "compile": True, "memory": 1.0, "validation_batch": 13, "checkpoint_every": 7}
    assert set(quick) == set(SPEED)
    for name, value in quick.items():
        given = {**FAST, name: value}
        assert run("dlinear", training=given, data_dir=folder, results=results_file, resume=True) == first


def test_whole_numbers_and_decimals_are_one_run():
    one, other = {"name": "rbca", "alpha": 1}, {"name": "rbca", "alpha": 1.0}
    given = {"settings": {"dropout": 0}, "training": {"learning_rate": 1}}
    same = {"settings": {"dropout": 0.0}, "training": {"learning_rate": 1.0}}
    assert configured("patchtst", one, **given) == configured("patchtst", other, **same)
    today = configured("patchtst", other, **same)
    columns = ("attention_settings", "settings", "training")
    older = row(
        **{**today, **{column: today[column].replace("1.0,", "1,").replace("0.0,", "0,") for column in columns}}
    )
    assert older.attention_settings != today["attention_settings"]
    assert find_same([older], today) == [older]
    assert len({one.name for one in name_candidates([older, row(**today)])}) == 1


def test_a_row_of_an_older_version_is_known_by_todays_defaults():
    today = configured("patchtst")

    def without(column: str, *names: str) -> str:
        return as_json({key: value for key, value in json.loads(today[column]).items() if key not in names})

    older = row(
        **{
            **today,
            "training": without("training", "ties_improve", "memory", "capture"),
            "settings": without("settings", "pool", "positions"),
            "attention_settings": "{}",
        }
    )
    assert find_same([older], today) == [older]
    assert latest_runs([older, row(**today)]) == [row(**today)]
    assert len({one.name for one in name_candidates([older, row(**today)])}) == 1
    assert find_same([older], configured("patchtst", training={"ties_improve": True})) == []
    assert find_same([replace(older, status="failed")], today) == []


def test_the_kept_rows_are_known_again():
    place = Path(__file__).parents[2] / "results" / "etth1.csv"
    kept = result_file.read(place)
    assert len(kept) == 7
    for one in kept:
        asked = settle(one.model, lookback=one.lookback, horizon=one.horizon, seed=one.seed)
        assert one in find_same(kept, {**asked.columns(), "values_sha256": one.values_sha256})


def test_the_kept_row_of_gat_says_what_ran():
    place = Path(__file__).parents[2] / "results" / "hosts.csv"
    with place.open(newline="") as lines:
        [line] = [line for line in csv.DictReader(lines) if (line["model"], line["dataset"]) == ("gat", "ETTh1")]
    sizes = {"channels": 7, "lookback": 96, "steps": 96, "marks": 4, **json.loads(line["settings"])}
    spec = {"name": line["attention"], **json.loads(line["attention_settings"])}
    network = models.create("gat", attention=spec, **sizes)
    assert line["attention"] == "gat"
    assert sum(weight.numel() for weight in network.parameters()) == int(line["parameters"])


def test_a_training_that_is_no_json_is_named():
    with pytest.raises(InputError, match=r"patchtst on Small, seed 3, has 'fast' as its training"):
        latest_runs([row(training="fast")])


NUMBER = replace(next(n for n in numbers() if n.kind == "forecast" and n.metric == "mse"), value=0.5, note="")
TRIED = ({"alpha": 0.5}, {"alpha": 1.0})
SEARCHED = Cell("Small", "patchtst", {"name": "rbca"}, 29, 7, candidates=TRIED, numbers=(NUMBER,))
PLAIN = Cell("Small", "patchtst", {"name": "softmax"}, 29, 7, numbers=(NUMBER,))


def asked_of(cell: Cell) -> Experiment:
    return Experiment("rbca", "T0", "", "clean", "official", (cell,), {"forecast": 1})


def chosen(alpha: float, tried=TRIED, **changes):
    budget = as_json({"candidates": list(tried), "chosen_by": "validation loss"})
    settings = as_json({"alpha": alpha, "bias": "power_law"})
    return row(attention="rbca", attention_settings=settings, budget=budget, **changes)


def test_seeds_of_a_search_are_one_mean_whatever_they_chose():
    [found] = compare(asked_of(SEARCHED), [chosen(0.5, seed=0, mse=0.4), chosen(1.0, seed=1, mse=0.6)])
    assert (len(found.rows), found.mean) == (2, pytest.approx(0.5))


def test_searches_among_other_candidates_are_not_averaged():
    rows = [chosen(0.5, seed=0), chosen(0.5, ({"alpha": 0.5}, {"alpha": 2.0}), seed=1)]
    assert [len(found.rows) for found in compare(asked_of(SEARCHED), rows)] == [1, 1]
    assert len({one.name for one in name_candidates(rows)}) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"values_sha256": "aa"}, {"values_sha256": "bb"}),
        ({"loss": '{"loss":"mse","time_share":0.2}'}, {"loss": "mse"}),
        ({"calendar": "h"}, {"calendar": ""}),
        ({"training": '{"batch":32}'}, {"training": '{"batch":64}'}),
    ],
)
def test_rows_that_differ_in_more_than_the_seed_are_not_averaged(first, second):
    found = compare(asked_of(PLAIN), [row(seed=0, **first), row(seed=1, **second)])
    assert [len(one.rows) for one in found] == [1, 1]


def test_rows_that_differ_in_speed_alone_are_averaged():
    rows = [row(seed=0, training='{"batch":32,"capture":true}'), row(seed=1, training='{"batch":32,"memory":null}')]
    [found] = compare(asked_of(PLAIN), rows)
    assert len(found.rows) == 2


def test_a_repeated_run_is_compared_once():
    [found] = compare(asked_of(PLAIN), [row(mse=0.9), row(mse=0.5), row(mse=0.6, seed=4)])
    assert (len(found.rows), found.mean) == (2, pytest.approx(0.55))


def test_versions_of_the_data_stand_beside_a_number_apart():
    facts = {"dataset": "ETTh1", "lookback": 336, "horizon": 96, "mse": 0.37, "mae": 0.4}
    found = compare_all(FORECASTING, [row(**facts, values_sha256="aaaaaaaa"), row(**facts, values_sha256="bbbbbbbb")])
    mine = [one for one in found if one.table == "rbca:T1" and one.number.metric == "mse"]
    assert [(one.label, one.count) for one in mine] == [
        ("patchtst + softmax on ETTh1 (aaaaaa)", 1),
        ("patchtst + softmax on ETTh1 (bbbbbb)", 1),
    ]


def test_a_cell_that_names_no_mechanism_is_the_networks_own():
    cell = replace(PLAIN, model="powerformer", attention=None)
    own_row = row(model="powerformer", **_attention(configured("powerformer")))
    softmax = row(model="powerformer")
    assert find_rows(cell, [own_row, softmax]) == [own_row]
    other = row(model="powerformer", **_attention(configured("powerformer", {"name": "rbca", "alpha": 2.0})))
    assert find_rows(cell, [other]) == []
    turned = row(attention_settings='{"rotary":true}')
    assert find_rows(replace(PLAIN, attention=None), [row(), turned]) == [row()]
    assert find_rows(replace(PLAIN, model="dlinear", attention=None), [row(model="dlinear", attention="")])


def _attention(configuration: dict) -> dict:
    return {name: configuration[name] for name in ("attention", "attention_settings")}


def test_adapters_and_losses_are_compared_by_what_they_say():
    cell = replace(PLAIN, adapters=("lift", "decorrelate"))
    for words in ('["lift","decorrelate"]', '["lift", "decorrelate"]'):
        assert matches(row(adapters=words), cell)
    assert not matches(row(adapters='["decorrelate","lift"]'), cell)
    fredf = replace(PLAIN, loss={"name": "fredf", "time_share": 0.2})
    assert matches(row(loss='{"loss":"fredf","time_share":0.2}'), fredf)
    assert not matches(row(loss="fredf"), fredf)  # half of it, the default
    assert matches(row(loss="fredf"), replace(PLAIN, loss={"name": "fredf", "time_share": 0.5}))
    assert matches(row(loss='{"loss":"fredf","time_share":0.2}'), replace(PLAIN, loss="fredf"))
    assert not matches(row(loss="fredf"), PLAIN)
    spelt_out = row(loss='{"loss":"fredf","time_share":0.5}')
    assert find_same([spelt_out], row(loss="fredf").configuration) == [spelt_out]
    assert find_same([spelt_out], row(loss='{"loss":"fredf","time_share":0.2}').configuration) == []
    assert not matches(row(loss="rmse"), PLAIN)  # mse is but a part of its name


def grid(*arms: tuple[str, str, float], **changes):
    """Networks with mechanisms on seven blocks, each with its error."""
    return [
        row(model=model, attention=attention, horizon=horizon, mse=error + horizon / 1000, **changes)
        for model, attention, error in arms
        for horizon in range(7, 14)
    ]


def against(rows) -> dict[str, str]:
    [standing] = [one for one in standings.build_standings(build_boards(FORECASTING, rows)) if not one.model]
    return {one.name: one.against for one in standings.build_contrasts(standing)}


def test_every_candidate_is_held_against_its_own_networks_softmax():
    rows = grid(
        ("patchtst", "softmax", 1.0),
        ("patchtst", "toa", 0.9),
        ("itransformer", "softmax", 0.8),
        ("itransformer", "toa", 0.7),
        ("dlinear", "", 1.2),
    )
    assert against(rows) == {
        "patchtst + toa": "patchtst + softmax",
        "itransformer + toa": "itransformer + softmax",
        "dlinear": "itransformer + toa",
    }


def test_softmax_is_known_however_its_name_goes_on():
    rows = grid(("patchtst", "softmax", 1.0), ("patchtst", "toa", 0.9), training='{"batch":32}')
    rows += grid(("patchtst", "softmax", 0.8), ("patchtst", "toa", 1.1), training='{"batch":64}')
    rows += grid(("dlinear", "", 1.2))
    best = "patchtst + softmax, training batch=64"
    assert against(rows) == {
        "dlinear": best,
        "patchtst + softmax, training batch=32": best,
        "patchtst + toa, training batch=32": best,
        "patchtst + toa, training batch=64": best,
    }


def test_what_a_search_chose_is_no_part_of_the_identity():
    first, second = chosen(0.5).configuration, chosen(1.0).configuration
    assert first != second
    assert identity(first) == identity(second)
    assert catalogue.combinations({"alpha": [0.5, 1.0]}) == TRIED
