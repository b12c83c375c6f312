"""`rearview forecast` with the network that comes with its weights: named, in a portfolio, and where there are none."""

import json
from pathlib import Path

import pytest
from runs import FILES, forecast, rows

from rearview.cli import main
from rearview.pretrained import weights

pytestmark = pytest.mark.usefixtures("glance_weights")


def test_a_named_network_forecasts_without_training(sales: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["forecast", str(sales), "--model", "glance", "--horizon", "5", "--out", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir() if path.name in FILES) == FILES
    facts = json.loads((out / "run.json").read_text())
    assert facts["models"]["glance"]["history"] is None
    assert [*facts["models"]] == ["glance", "seasonal_naive"]
    assert "Where glance looks can't be shown" not in (out / "report.html").read_text()
    assert len(rows(out / "forecast.csv")) == 2 * 5
    assert main(["predict", str(out / "model"), str(sales), "--out", str(tmp_path / "next.csv")]) == 0


def test_a_short_file_is_forecast(tmp_path: Path) -> None:
    path = tmp_path / "short.csv"
    path.write_text("date,y\n" + "".join(f"2024-01-0{day},{day * day}\n" for day in range(1, 9)))
    assert main(["forecast", str(path), "--model", "glance", "--horizon", "4", "--out", str(tmp_path / "out")]) == 0
    assert len(rows(tmp_path / "out" / "forecast.csv")) == 4


def test_it_is_beside_trained_networks_where_both_are_named(sales: Path, tmp_path: Path) -> None:
    assert forecast(sales, tmp_path / "out", "--model", "glance,dlinear") == 0
    models = json.loads((tmp_path / "out" / "run.json").read_text())["models"]
    assert [*models] == ["glance", "dlinear", "seasonal_naive"]


def test_quick_portfolios_hold_it(sales: Path, tmp_path: Path) -> None:
    assert main(["forecast", str(sales), "--quick", "--horizon", "5", "--out", str(tmp_path / "out")]) == 0
    board = json.loads((tmp_path / "out" / "run.json").read_text())["models"]["auto"]["leaderboard"]
    assert "glance" in [one["name"] for one in board]


def test_a_build_without_weights_says_so(
    sales: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(weights, "FOLDER", tmp_path)
    assert main(["forecast", str(sales), "--model", "glance", "--horizon", "5", "--out", str(tmp_path / "out")]) == 1
    assert "no weights of glance" in " ".join(capsys.readouterr().err.split())
