"""Stand-ins on the bench: run at the full width of the real sets, with their settings, and beside no printed number."""

import json
from dataclasses import replace

import pytest

from rearview.bench import run as make
from rearview.bench import tasks
from rearview.bench.analysis import coverage
from rearview.bench.analysis.paper_comparison import compare
from rearview.bench.papers import catalogue as experiments
from rearview.bench.presets import entries, preset
from rearview.bench.tasks import FORECASTING
from rearview.data.datasets import catalogue, stand_ins
from rearview.train import Silent

SMALL = {
    "itransformer": {"width": 8, "heads": 2, "feed_forward": 8, "depth": 1},
    "patchtst": {"width": 8, "heads": 2, "feed_forward": 8, "depth": 1, "patch": 8, "stride": 8},
}
QUICK = {"epochs": 1, "batch": 4, "windows_per_epoch": 8, "validation_batch": 16}


def run(of: str, model: str, attention: str, rows: int = 300):
    return make(
        f"{of}-standin:{rows}", model, lookback=24, horizon=12, attention=attention, settings=SMALL[model],
        training=QUICK, device="cpu", progress=Silent(),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("model", "attention"), [("itransformer", "toa"), ("patchtst", "rbca")])
@pytest.mark.parametrize("of", [name for name in stand_ins.SETS if catalogue.get(name).rows >= 300])
def test_a_training_runs_at_full_width(of, model, attention):
    row = run(of, model, attention)
    assert (row.dataset, row.channels, row.rows) == (f"{of}-standin:300", catalogue.get(of).channels, 300)
    assert (row.status, row.epochs) == ("done", 1)
    assert 0 < row.mse < 10


def test_a_row_of_a_stand_in_is_distinguished_and_made_alike():
    first, again = run("PEMS08", "itransformer", "softmax", 200), run("PEMS08", "itransformer", "softmax", 200)
    assert first.dataset == "PEMS08-standin:200"
    assert first.file_sha256 == ""
    assert (first.values_sha256, first.mse) == (again.values_sha256, again.mse)
    assert json.loads(first.borders)["test"] == [160, 200]


@pytest.mark.parametrize("of", stand_ins.SETS)
def test_a_stand_in_is_run_with_the_settings_of_its_set(of):
    for model in entries():
        for horizon in catalogue.get(of).horizons:
            published = preset(model, catalogue.get(of), lookback=96, horizon=horizon)
            assert preset(model, catalogue.get(f"{of}-standin"), lookback=96, horizon=horizon) == published
            assert preset(model, catalogue.get(f"{of}-standin:50"), lookback=96, horizon=horizon) == published


def test_no_printed_number_stands_beside_a_stand_in():
    """A row that would stand beside a number of Traffic does not under the name of the stand-in, however much alike."""
    experiment = experiments.get("toa", "T3")
    wanted = ("Traffic", "itransformer", {"name": "softmax"})
    cell = next(cell for cell in experiment.cells if (cell.dataset, cell.model, cell.attention) == wanted)
    made = replace(run("PEMS08", "itransformer", "softmax", 200), lookback=cell.lookback, horizon=cell.horizon)
    for name, stands in (("Traffic", True), ("Traffic-standin", False), ("Traffic-standin:200", False)):
        row = replace(made, dataset=name)
        assert any(one.rows for one in compare(experiment, [row], "clean")) == stands
        assert bool(coverage.compare_all(FORECASTING, [row])) == stands
        assert any(one.by_protocol for one in coverage.measure_coverage({tasks.get("forecasting"): [row]})) == stands
    assert not [one for e in experiments.every() for one in e.cells if "standin" in one.dataset.casefold()]
