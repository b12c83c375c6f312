"""Networks of other packages make rows like any other: trained by our loop on our windows, tested once."""

import importlib.util
import json

import pytest
from small import CHANNELS, HORIZON, LOOKBACK

from rearview import bench, models, train
from rearview.bench import presets
from rearview.bench.papers.catalogue import Cell
from rearview.bench.runs.sweep import SweepPlan, sweep
from rearview.data.datasets import catalogue

pytestmark = [
    pytest.mark.baselines,
    pytest.mark.skipif(
        not all(importlib.util.find_spec(package) for package in ("neuralforecast", "statsforecast")),
        reason="the packages of rearview[baselines] are not installed",
    ),
]
SMALL = {
    "timesnet": {"width": 8, "feed_forward": 8, "depth": 1, "kernels": 2, "periods": 2},
    "autoformer": {"width": 16, "heads": 2},
    "fedformer": {"width": 16, "modes": 5},
    "timemixer": {"width": 8, "feed_forward": 8, "depth": 1, "coarser": 29},
}


@pytest.mark.parametrize("name", list(SMALL))
def test_a_network_is_trained_and_tested(name, folder, tmp_path):
    row = bench.run(
        "Small",
        name,
        horizon=HORIZON,
        lookback=LOOKBACK,
        data_dir=folder,
        device="cpu",
        progress=train.Silent(),
        settings=SMALL[name],
        training={"epochs": 2, "batch": 64, "learning_rate": 3e-3},
        results=tmp_path / "rows.csv",
    )
    assert (row.model, row.attention, row.epochs) == (name, "", 2)
    assert json.loads(row.settings).items() >= SMALL[name].items()
    assert bool(row.calendar) == models.claims(name).uses_marks
    assert row.parameters > 100
    assert row.mse < 1.5
    assert row.train_seconds > 0
    assert len(bench.read(tmp_path / "rows.csv")) == 1


def test_autoets_has_nothing_to_train(folder):
    row = bench.run(
        "Small", "autoets", horizon=HORIZON, lookback=LOOKBACK, data_dir=folder, device="cpu", settings={"form": "ANA"}
    )
    naive = bench.run("Small", "seasonal_naive", horizon=HORIZON, lookback=LOOKBACK, data_dir=folder, device="cpu")
    assert (row.model, row.parameters, row.epochs, row.channels) == ("autoets", 0, 0, CHANNELS)
    assert json.loads(row.settings) == {"period": 24, "form": "ANA", "damped": None}
    assert row.mse < naive.mse


def test_a_row_tells_how_often_autoets_gave_up(folder, tmp_path):
    told = []
    plan = SweepPlan(results=tmp_path / "rows.csv", data_dir=folder, device="cpu")
    [row] = sweep([Cell("Small", "autoets", None, 3, HORIZON)], plan, say=told.append)
    series = f"{row.test_windows * CHANNELS:,}"
    assert row.status == "done"
    assert row.problem.startswith(f"autoets repeated the last value of {series} of {series} series of windows")
    assert told[-1].endswith(row.problem)
    naive = bench.run(
        "Small", "seasonal_naive", horizon=HORIZON, lookback=3, data_dir=folder, device="cpu", settings={"period": 1}
    )
    assert row.mse == pytest.approx(naive.mse)
    assert bench.read(tmp_path / "rows.csv") == [row]
    [around] = sweep([Cell("Small", "autoets", None, LOOKBACK, HORIZON)], plan)
    assert around.problem == ""


def test_the_season_of_a_data_set_is_autoets_period():
    found = presets.preset("autoets", catalogue.get("ETTh1"), lookback=96, horizon=24)
    assert found.settings == {"period": 24}
