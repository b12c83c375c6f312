"""Published settings: known where they are published, fit for the networks and the loop, and below the caller's."""

import json
from pathlib import Path

import pytest
from small import HORIZON, LOOKBACK, SMALL

from rearview import models, train
from rearview.bench import presets, read
from rearview.bench.presets import entries, preset
from rearview.bench.rows.identity import find_same
from rearview.bench.runs.request import Request
from rearview.bench.runs.run_spec import resolve
from rearview.core.errors import SettingsError
from rearview.data.datasets import catalogue
from rearview.train.optimisation import rate

NETWORKS = sorted(set(entries()) & set(models.names()))
NAMED = [(source, model) for source in presets.names() for model in entries(source) if model != "any"]


def ask(dataset: str, model: str, **given):
    return resolve(Request(dataset, model, **given))


def published(model: str, dataset: str, horizon: int = 96, source: str = "official"):
    return preset(model, catalogue.get(dataset), lookback=96, horizon=horizon, source=source)


def test_patchtst_on_etth1_is_the_published_one():
    found = published("patchtst", "ETTh1")
    assert found.settings == {
        "width": 16, "heads": 4, "depth": 3, "feed_forward": 128, "dropout": 0.3, "patch": 16, "stride": 8
    }  # fmt: skip
    assert found.training == {
        "optimiser": "adam", "learning_rate": 1e-4, "batch": 128, "epochs": 100, "patience": 100, "schedule": "type3"
    }  # fmt: skip


def test_patchtst_differs_by_data_set():
    assert published("patchtst", "ETTm1").training["pct_start"] == 0.4
    assert published("patchtst", "Weather").training["schedule"] == "type3"
    assert published("patchtst", "Weather").settings["width"] == 128
    assert published("patchtst", "Traffic").training["batch"] == 24
    assert published("patchtst", "ILI").settings["patch"] == 24


def test_itransformer_differs_by_data_set_and_horizon():
    assert published("itransformer", "ETTh1").settings == {
        "width": 256, "feed_forward": 256, "depth": 2, "heads": 8, "dropout": 0.1
    }  # fmt: skip
    assert published("itransformer", "ETTh1").training == {
        "optimiser": "adam", "learning_rate": 1e-4, "batch": 32, "epochs": 10, "patience": 3, "schedule": "type1"
    }  # fmt: skip
    widths = [published("itransformer", "ETTh1", horizon).settings["width"] for horizon in (96, 192, 336, 720)]
    assert widths == [256, 256, 512, 512]
    assert published("itransformer", "ETTm2").settings["width"] == 128
    assert "normalise" not in published("itransformer", "PEMS08", 24).settings
    assert published("itransformer", "PEMS08", 48).settings["normalise"] == "none"
    assert published("itransformer", "PEMS08", 48).training["learning_rate"] == 1e-3


def test_a_mended_set_has_the_settings_of_the_original():
    for model in NETWORKS:
        assert published(model, "Weather-repaired") == published(model, "Weather")


def test_moment_has_the_dropout_of_micas_release_under_its_protocol_alone():
    place = {"lookback": 96, "horizon": 48}
    assert ask("ETT1_H", "moment", protocol="published:mica", **place).settings["dropout"] == 0.1
    assert ask("ETT1_H", "moment", presets="mica", **place).settings["dropout"] == 0.0
    assert ask("ETT1_H", "patchtst", protocol="published:mica", **place).settings["dropout"] == 0.0


def test_mica_is_trained_by_updates_as_published():
    asked = ask("ETT1_W", "patchtst", lookback=16, horizon=8, protocol="published:mica")
    settings = asked.training
    assert (settings.epochs * settings.updates_per_epoch, settings.batch, settings.patience) == (12_000, 64, 20)
    places = [0, 3_999, 4_000, 7_999, 8_000, 11_999]
    rates = [rate(settings, place // 500 + 1, place % 500, 500).learning_rate for place in places]
    assert rates == [1e-3, 1e-3, 5e-4, 5e-4, 2.5e-4, 2.5e-4]


def test_seasonal_naive_takes_the_season_that_fits():
    assert published("seasonal_naive", "ETTh1").settings == {"period": 24}
    assert published("seasonal_naive", "Weather").settings == {"period": 1}


def test_table_s2_of_the_recency_bias_has_its_rates_and_decays():
    trained = {
        name: published("powerformer", name, source="rbca").training
        for name in ("ETTh1", "ETTh2", "ETTm1", "ETTm2", "Weather", "Electricity", "Traffic")
    }
    assert [one["learning_rate"] for one in trained.values()] == [1e-3, 1e-4, 1e-5, 1e-4, 1e-4, 1e-4, 1e-4]
    assert [one.get("weight_decay", 0.0) for one in trained.values()] == [1.0, 1.0, 0.0, 0.05, 0.0, 0.0, 0.0]
    assert [one["patience"] for one in trained.values()] == [None, None, 20, 20, 20, 10, 10]
    assert [one["batch"] for one in trained.values()] == [128, 128, 128, 128, 128, 32, 24]
    assert {one["epochs"] for one in trained.values()} == {100}
    decayed = {name for name, one in trained.items() if one["optimiser"] == "adamw"}
    assert decayed == {name for name, one in trained.items() if "weight_decay" in one} == {"ETTh1", "ETTh2", "ETTm2"}
    assert published("patchtst", "ETTh1", source="rbca") == published("powerformer", "ETTh1", source="rbca")
    assert published("powerformer", "ETTh1", source="rbca").settings == published("powerformer", "ETTh1").settings
    assert published("transformer", "Weather", source="rbca").training["patience"] is None


def test_the_text_of_caps_has_other_widths_and_decays_than_its_release():
    told = {
        name: published("caps_net", name, source="caps") for name in ("ETTh1", "ETTm2", "Weather", "Solar", "PEMS08")
    }
    assert [one.settings["width"] for one in told.values()] == [16, 128, 128, 128, 128]
    assert [one.training["weight_decay"] for one in told.values()] == [0.1, 1e-5, 1e-5, 0.0, 0.0]
    assert {one.settings["channel_dropout"] for one in told.values()} == {"printed"}
    assert published("caps_net", "Solar").settings["channel_dropout"] is False
    assert {one.training["patience"] for one in told.values()} == {12}
    assert "width" not in published("caps_net", "Weather").settings
    assert published("caps_net", "Weather").training["weight_decay"] == 0.1


def test_the_librarys_scripts_differ_by_data_set_and_horizon():
    def sizes(name, *wanted):
        found = [published("patchtst_tslib", name, horizon, "tslib").settings for horizon in (96, 192, 336, 720)]
        return [[one[key] for one in found] for key in wanted]

    assert sizes("ETTh1", "heads", "depth") == [[2, 8, 8, 16], [1, 1, 1, 1]]
    assert sizes("ETTm1", "heads", "depth") == [[2, 2, 4, 4], [1, 3, 1, 3]]
    assert sizes("ETTm2", "heads", "depth") == [[16, 2, 4, 4], [3, 3, 1, 3]]
    assert sizes("Weather", "heads", "depth") == [[4, 16, 4, 4], [2, 2, 2, 2]]
    batches = [published("patchtst_tslib", "ETTm2", horizon, "tslib").training["batch"] for horizon in (96, 192, 336)]
    assert batches == [32, 128, 32]
    assert published("crossformer", "Exchange", 336, "tslib").settings["width"] == 32
    assert published("crossformer", "ETTm1", source="tslib").settings["routers"] == 1
    assert published("tsmixer", "Traffic", source="tslib").training["learning_rate"] == 1e-3


def test_rows_of_networks_without_official_settings_are_found_again():
    """What other presets have for these networks must not change which run a row is."""
    rows = [row for row in read(Path(__file__).parents[2] / "results" / "hosts.csv") if row.dataset == "ETTh1"]
    for model in ("crossformer", "timer_xl", "tsmixer"):
        [row] = [row for row in rows if row.model == model]
        assert find_same(
            rows, {**ask("ETTh1", model, lookback=96, horizon=96).columns(), "values_sha256": row.values_sha256}
        ) == [row]


@pytest.mark.parametrize("source", presets.names())
def test_a_source_of_presets_is_described_in_full(source):
    head, *lines = presets.lines(source)
    assert head == f"{source}: {presets.summary(source)}"
    assert ("on top of: official (`rearview describe presets:official`)" in lines) == (source != "official")
    for model, found in entries(source).items():
        told = lines[lines.index("any other network:" if model == "any" else f"{model}:") + 1 :]
        assert told[: len(found)] == [f"- {entry}" for entry in found]


@pytest.mark.parametrize(("source", "model"), NAMED)
def test_every_preset_is_understood_and_clean(source, model):
    assert model in models.names()
    named = {name for entry in entries(source)[model] for name in entry.datasets}
    assert named <= set(catalogue.names())
    for name in catalogue.names() if source == "official" else {*named, "Solar"}:
        for horizon in catalogue.get(name).horizons:
            asked = ask(name, model, lookback=96, horizon=horizon, presets=source)
            assert asked.training is not None
            assert not asked.training.patchtst_compat
            assert not asked.training.drop_last
            assert set(asked.settings) == set(models.settings_of(model).__dataclass_fields__)


def test_a_model_without_presets_trains_as_most_of_the_field_does():
    assert preset("newcomer", SMALL, lookback=LOOKBACK, horizon=HORIZON).settings == {}
    assert preset("newcomer", SMALL, lookback=LOOKBACK, horizon=HORIZON).training["epochs"] == 10


def test_what_the_caller_gives_wins():
    asked = ask("ETTh1", "patchtst", lookback=96, horizon=96, settings={"width": 32}, training={"epochs": 3})
    assert (asked.settings["width"], asked.settings["heads"]) == (32, 4)
    assert asked.training == train.Settings(
        epochs=3, optimiser="adam", learning_rate=1e-4, batch=128, patience=100, schedule="type3"
    )


def test_all_settings_of_a_mechanism_are_reported():
    plain = ask("ETTh1", "patchtst", lookback=96, horizon=96)
    assert plain.columns()["attention"] == "softmax"
    linear = ask("ETTh1", "patchtst", lookback=96, horizon=96, attention="linear").columns()
    defaults = json.loads(linear["attention_settings"])
    assert linear["attention"] == "linear"
    assert defaults
    for name, value in defaults.items():
        spelled = ask("ETTh1", "patchtst", lookback=96, horizon=96, attention={"name": "linear", name: value})
        assert spelled.columns() == linear


def test_calendar_goes_by_the_data_set():
    assert ask("ETTm1", "itransformer", lookback=96, horizon=96).calendar == "h"
    assert ask("Solar", "itransformer", lookback=96, horizon=96).calendar is None
    assert ask("ETTm1", "patchtst", lookback=96, horizon=96).calendar is None


def test_an_unknown_data_set_is_refused():
    with pytest.raises(SettingsError, match="no data set 'ETTx1'"):
        ask("ETTx1", "dlinear", lookback=96, horizon=96)


@pytest.mark.parametrize(
    ("dataset", "horizon", "settings", "training"),
    [
        (
            "ETTh1",
            96,
            {"width": 512, "used": 1, "experts": 2, "head_dropout": 0.1},
            {"batch": 32, "learning_rate": 5e-4},
        ),
        (
            "ETTh1",
            336,
            {"feed_forward": 1024, "used": 3, "heads": 2, "depth": 1},
            {"batch": 128, "learning_rate": 1e-4},
        ),
        ("ETTh1", 720, {"feed_forward": 512, "used": 2, "heads": 1, "depth": 2}, {"batch": 32, "learning_rate": 5e-4}),
        ("ETTm2", 192, {"feed_forward": 2048, "router": 64}, {"batch": 32, "learning_rate": 1e-4}),
        ("Exchange", 192, {"width": 1024, "experts": 5}, {"schedule": "type3", "learning_rate": 5e-5}),
        ("Exchange", 720, {"width": 2048, "router": 256, "dropout": 0.4}, {"schedule": "type1"}),
        ("Traffic", 336, {"feed_forward": 512, "dropout": 0.1, "depth": 4}, {"epochs": 10, "patience": 3}),
    ],
)
def test_duet_has_the_settings_of_its_scripts(dataset, horizon, settings, training):
    found = presets.preset("duet", catalogue.get(dataset), lookback=96, horizon=horizon)
    assert settings.items() <= found.settings.items()
    assert training.items() <= found.training.items()


def test_duet_in_toa_trains_as_its_text_says():
    found = presets.preset("duet", catalogue.get("ETTh2"), lookback=96, horizon=192, source="toa")
    assert {"optimiser": "adamw", "learning_rate": 5e-4, "batch": 32}.items() <= found.training.items()
    assert found.settings["width"] == 512
