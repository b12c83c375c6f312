"""Published settings: known where they are published, fit for the networks and the loop, and below the caller's."""

import json
from functools import partial

import pytest
from small import HORIZON, LOOKBACK, SMALL

from rearview import models, train
from rearview.bench.asked import ask as settle
from rearview.bench.presets import entries, preset
from rearview.data import catalogue
from rearview.errors import SettingsError
from rearview.train.schedules import rate

NETWORKS = sorted(set(entries()) & set(models.names()))

ask = partial(settle, attention=None, seed=0, protocol="clean", settings=None, training=None)


def published(model: str, dataset: str, horizon: int = 96):
    return preset(model, catalogue.get(dataset), lookback=96, horizon=horizon)


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


@pytest.mark.parametrize("model", NETWORKS)
def test_every_preset_is_understood_and_clean(model):
    assert {name for entry in entries()[model] for name in entry.datasets} <= set(catalogue.names())
    for name in catalogue.names():
        for horizon in catalogue.get(name).horizons:
            asked = ask(name, model, lookback=96, horizon=horizon)
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


def test_all_settings_of_a_mechanism_are_told():
    plain = ask("ETTh1", "patchtst", lookback=96, horizon=96)
    assert plain.configuration("0f")["attention"] == "softmax"
    linear = ask("ETTh1", "patchtst", lookback=96, horizon=96, attention="linear").configuration("0f")
    defaults = json.loads(linear["attention_settings"])
    assert linear["attention"] == "linear"
    assert defaults
    for name, value in defaults.items():
        spelled = ask("ETTh1", "patchtst", lookback=96, horizon=96, attention={"name": "linear", name: value})
        assert spelled.configuration("0f") == linear


def test_calendar_goes_by_the_data_set():
    assert ask("ETTm1", "itransformer", lookback=96, horizon=96).calendar == "h"
    assert ask("Solar", "itransformer", lookback=96, horizon=96).calendar is None
    assert ask("ETTm1", "patchtst", lookback=96, horizon=96).calendar is None


def test_an_unknown_data_set_is_refused():
    with pytest.raises(SettingsError, match="no data set 'ETTx1'"):
        ask("ETTx1", "dlinear", lookback=96, horizon=96)
