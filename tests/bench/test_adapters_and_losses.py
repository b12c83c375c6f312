"""Adapters among the settings of a benchmark run: put around the network, told in the row, refused where unknown."""

import json
from functools import partial

import pytest
from small import HORIZON, LOOKBACK

from rearview import bench, train
from rearview.bench.analysis.candidates import name_candidates
from rearview.bench.papers.catalogue import Cell
from rearview.bench.runs.run_spec import resolve
from rearview.bench.runs.sweep import SweepPlan
from rearview.cli.parse import pairs
from rearview.core.errors import SettingsError

FAST = {"epochs": 1, "batch": 64, "windows_per_epoch": 64}
run = partial(
    bench.run, "Small", "dlinear", horizon=HORIZON, lookback=LOOKBACK, device="cpu", progress=train.Silent(),
    training=FAST,
)  # fmt: skip


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("adapters=decorrelate", ["decorrelate"]),
        ("adapters=[decorrelate,channel_heads]", ["decorrelate", "channel_heads"]),
        ("adapters={'name':'lift','leaders':2}", [{"name": "lift", "leaders": 2}]),
        ("adapters=['decorrelate',{'name':'channel_heads'}]", ["decorrelate", "channel_heads"]),
        ("adapters=none", []),
    ],
)
def test_what_stands_around_a_network_is_one_of_its_settings(folder, written, told):
    row = run(settings=pairs(written, "--set"), data_dir=folder)
    assert json.loads(row.adapters) == told
    assert "adapters" not in json.loads(row.settings)
    assert row.mse == run(adapters=told, data_dir=folder).mse
    assert (row.mse == run(data_dir=folder).mse) == (not told)


def test_a_run_with_adapters_is_known_again(folder):
    asked = {"data_dir": folder, "results": folder / "rows.csv", "resume": True}
    first = run(settings={"adapters": "decorrelate"}, **asked)
    assert run(adapters=["decorrelate"], **asked) == first
    run(adapters=[{"name": "lift", "leaders": 2}], **asked)
    run(adapters=["lift"], **asked)
    rows = bench.read(folder / "rows.csv")
    assert [found.name for found in name_candidates(rows)] == [
        "dlinear + decorrelate", "dlinear + lift(leaders=2)", "dlinear + lift"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"adapters": "decorelate"}, "no adapter called 'decorelate'. Did you mean 'decorrelate'"),
        ({"adapters": [{"name": "lift", "leader": 2}]}, "lift has no setting 'leader'. Did you mean 'leaders'"),
        ({"adapters": [{"leaders": 2}]}, "needs a 'name'"),
    ],
)
def test_an_adapter_that_does_not_exist_is_refused_before_data_is_read(settings, sentence, tmp_path):
    plan = SweepPlan(results=tmp_path / "rows.csv", settings=settings)
    with pytest.raises(SettingsError, match=sentence):
        resolve(plan.request(Cell("ETTh1", "dlinear", None, 96, 96), 0))


def test_adapters_are_given_once(folder):
    with pytest.raises(SettingsError, match="adapters are given twice"):
        run(settings={"adapters": "lift"}, adapters=["decorrelate"], data_dir=folder)
