"""What a new user does with real files: forecast, look, predict new rows."""

import csv
import json
from pathlib import Path

import pandas as pd
import pytest

from rearview import Forecaster
from rearview.cli import main

QUICK = ["--windows", "2", "--set", "width=8,heads=2,feed_forward=16,depth=1", "--train"]


def session(file: Path, new: Path, out: Path, *arguments: str) -> list[dict[str, str]]:
    """Forecast from a file, then from new rows with the saved model; the rows of the second forecast."""
    quick = [*QUICK, "epochs=2,windows_per_epoch=256"]
    assert main(["forecast", str(file), "--out", str(out), *quick, *arguments]) == 0
    assert main(["predict", str(out / "model"), str(new), "--out", str(out / "next.csv")]) == 0
    with (out / "next.csv").open() as lines:
        return list(csv.DictReader(lines))


def test_air_passengers(real_data: Path, tmp_path: Path) -> None:
    file, new = real_data / "small" / "AirPassengers.csv", tmp_path / "new.csv"
    pd.read_csv(file).tail(40).assign(Month=pd.date_range("1961-01", periods=40, freq="MS").strftime("%Y-%m")).to_csv(
        new, index=False
    )
    found = session(file, new, tmp_path / "out", "--horizon", "12", "--transform", "log1p")
    assert found[0]["ds"] == "1964-05"
    assert found[0]["unique_id"] == "#Passengers"
    assert all(50 < float(row["patchtst"]) < 2000 for row in found)


def test_bike_sharing(real_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hourly counts with weather; the first column of dates is not the time of a row, which is seen."""
    file, short = real_data / "small" / "bike_sharing_hourly.csv", tmp_path / "short.csv"
    pd.read_csv(file).tail(1500).to_csv(short, index=False)
    assert main(["check", str(short), "--target", "count"]) == 0
    assert (
        "The time column is 'ts': stamps of 'date', which is left out, stand several times." in capsys.readouterr().out
    )
    asked = ["--horizon", "24", "--target", "count", "--nonnegative"]
    found = session(short, short, tmp_path / "out", *asked)
    assert {row["unique_id"] for row in found} == {"count"}
    assert found[0]["ds"] == "2019-09-01 01:00:00"
    assert all(float(row["itransformer-lo-95"]) >= 0 for row in found)


def test_walmart(real_data: Path, tmp_path: Path) -> None:
    file = real_data / "small" / "walmart_mini.csv"
    asked = ["--horizon", "4", "--id-col", "Store,Dept", "--target-col", "Weekly_Sales", "--model", "itransformer"]
    found = session(file, file, tmp_path / "out", *asked)
    assert len({row["unique_id"] for row in found}) == 20
    assert found[0]["unique_id"] == "1/1"
    assert [row["ds"] for row in found[:2]] == ["2012-11-02", "2012-11-09"]
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    missing = next(finding for finding in run["findings"] if finding["what"] == "missing")
    assert missing["count"] == 9400
    assert run["models"]["seasonal_naive"]["plan"]["model"]["period"]["value"] == 52


def test_stallion(real_data: Path) -> None:
    file = real_data / "small" / "stallion.parquet"
    settings = {"width": 8, "heads": 2, "feed_forward": 16, "depth": 1}
    forecaster = Forecaster(
        "patchtst",
        horizon=3,
        settings=settings,
        training={"epochs": 1, "windows_per_epoch": 256},
        id_col=["agency", "sku"],
        target_col="volume",
        nonnegative=True,
    )
    future = forecaster.fit(pd.read_parquet(file)).predict(level=[80])
    assert list(future.columns) == ["agency/sku", "date", "patchtst", "patchtst-lo-80", "patchtst-hi-80"]
    assert len(future) == 350 * 3
    assert future["date"].unique().tolist() == list(pd.date_range("2018-01-01", periods=3, freq="MS"))
    assert (future["patchtst"] >= 0).all()
