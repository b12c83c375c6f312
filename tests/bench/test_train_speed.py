"""The networks whose training step `benchmarks/train_speed.py` times at a paper's sizes."""

import csv
from importlib import import_module

import pytest

from rearview.bench.papers import costs
from rearview.bench.papers.costs import CostMeasurement
from rearview.cli import main
from rearview.data.datasets import stand_ins
from rearview.data.step import Step

pytestmark = pytest.mark.usefixtures("benchmark_scripts")


def test_every_network_of_micas_table_can_be_timed() -> None:
    loop = import_module("_loop_modes")
    hosts, cells = loop.mica_hosts(), costs.cells("mica", "T15")
    assert {cell.host for cell in cells} == set(hosts)
    tried = [cell for cell in cells if cell.dataset == "ETT1_W"]
    for cell in tried:
        plain = "none" if cell.model in ("tsmixer", "mlp_joint") else "softmax"
        attention = "mica-mlp-query" if cell.mechanism == "mica" else plain
        assert loop.fits(hosts[cell.host], attention), cell.label
        timed = CostMeasurement("ms_train_step", f"{cell.host} {attention}", (), 1.5, "")
        assert [other for other in cells if timed.is_of(other)] == [cell]
    assert len(tried) == 10


def test_a_timed_step_fills_its_cell(tmp_path, capsys) -> None:
    loop = import_module("_loop_modes")
    host = loop.mica_hosts()["mica-tsmixer-ETT1_W"]
    assert (host.channels, host.lookback, host.horizon, host.batch) == (7, 16, 8, 64)
    assert not loop.fits(host, "softmax")
    panel = stand_ins.make(100, 1, Step(1, "h"), of="Traffic")
    row = loop.measure_mode(host, "none", "plain", panel, loop.Timing("cpu", 1, 1))
    rows = tmp_path / "steps.csv"
    with rows.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerow(row)
    assert main(["reproduce", "mica", "--table", "T15", "--dataset", "ETT1_W", "--results", str(rows)]) == 0
    told = capsys.readouterr().out
    assert "\n9 not measured here\n" in told
    assert told.count("plain, tsmixer") == 1
