"""What a step costs: measured on the run that `bench` would make, and found by the page beside that run alone."""

import csv
import sys
from pathlib import Path

import pytest
from small import HORIZON, LOOKBACK

from rearview import bench, train
from rearview.bench.analysis import step_costs

KEPT = Path(__file__).parents[2] / "results" / "step_cost.csv"
SIZES = {"width": 8, "heads": 2, "depth": 1, "feed_forward": 8}


def test_a_measured_step_is_that_of_the_run(folder, tmp_path, benchmark_scripts, monkeypatch, capsys):
    import step_cost

    out = tmp_path / "step_cost.csv"
    place = ["--dataset", "Small", "--model", "itransformer", "--data-dir", str(folder), "--device", "cpu"]
    sizes = ["--lookback", str(LOOKBACK), "--horizon", str(HORIZON), "--set", "width=8,heads=2,depth=1,feed_forward=8"]
    arms = ["--attention", "softmax; toa:kind=relu", "--rounds", "1", "--steps", "2", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["step_cost.py", *place, *sizes, *arms])
    step_cost.main()
    assert "toa_relu" in capsys.readouterr().out
    with KEPT.open(encoding="utf-8", newline="") as kept, out.open(encoding="utf-8", newline="") as made:
        assert next(csv.reader(made)) == next(csv.reader(kept))
    softmax, relu = costs = step_costs.read(out)
    assert [cost.arm for cost in costs] == ["softmax", "toa_relu"]
    assert all(cost.milliseconds > 0 for cost in costs)
    rows = [
        bench.run(
            "Small", "itransformer", attention=attention, horizon=HORIZON, lookback=LOOKBACK, data_dir=folder,
            device="cpu", progress=train.Silent(), settings=SIZES, training={"epochs": 1, "batch": 64},
        )
        for attention in ("softmax", {"name": "toa", "kind": "relu"}, {"name": "toa", "kind": "softmax"})
    ]  # fmt: skip
    assert [[cost.is_of(row) for cost in costs] for row in rows] == [[True, False], [False, True], [False, False]]
    assert step_costs.find(costs, rows[1:]) == relu.milliseconds != softmax.milliseconds


@pytest.mark.parametrize(
    ("attention", "settings", "arm"),
    [
        ("softmax", {"rotary": False}, "softmax"),
        ("softmax", {"rotary": True}, "softmax_rotary"),
        ("caps", {"normaliser": "linear", "paths": ["riemann", "prefix", "clock"]}, "caps"),
        ("caps", {"normaliser": "softmax", "paths": ["riemann", "prefix", "clock"]}, "caps_softmax"),
        ("caps", {"normaliser": "linear", "paths": ["riemann", "clock"]}, "caps_riemann_clock"),
        ("toa", {"kind": "gated", "score_norm": "mean", "bias": None}, "toa_gated_mean"),
        ("toa", {"kind": "softmax", "score_norm": "none", "bias": {"name": "rbca"}}, "toa_softmax_rbca"),
        ("rbca", {"bias": "causal"}, "causal"),
        ("mica", {"local": {"name": "rbca"}}, "mica_rbca"),
    ],
)
def test_arms_that_cost_differently_have_names_of_their_own(attention, settings, arm):
    assert step_costs.arm_of(attention, settings) == arm
