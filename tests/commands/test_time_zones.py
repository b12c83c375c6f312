"""`rearview forecast` and `predict` of stamps with the offsets of summer and winter."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs import rows

from rearview.cli import main
from rearview.estimators.auto import deadline

CHANGES = {"spring": "2024-03-31", "autumn": "2024-10-27"}
PROFILE = np.random.default_rng(8).normal(50, 9, 24)


@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.parametrize("model", ["seasonal_naive", "auto"])
def test_a_file_over_a_change_of_clocks_goes_on_by_the_clock(
    model: str, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deadline, "MANY", 2)
    day, path, out = pd.Timestamp(CHANGES[change], tz="Europe/Berlin"), tmp_path / "load.csv", tmp_path / "out"
    stamps = pd.date_range(day - pd.Timedelta(days=15), periods=17 * 24, freq="h")
    noise = np.random.default_rng(1).normal(0, 0.5, (2, len(stamps)))
    parts = [
        pd.DataFrame({"unique_id": name, "ds": [one.isoformat() for one in stamps], "y": PROFILE[stamps.hour] + own})
        for name, own in zip("ab", noise, strict=True)
    ]
    frame = pd.concat(parts)
    frame.groupby("unique_id").head(len(stamps) - 24).to_csv(path, index=False)
    how = ["--quick"] if model == "auto" else ["--model", model, "--season", "24"]
    assert main(["forecast", str(path), "--out", str(out), "--horizon", "24", "--windows", "2", *how]) == 0
    told = capsys.readouterr().out
    assert "forecasts are given in Europe/Berlin, whose clocks have these offsets" in told
    assert "models read the rows by the clock on the wall" in told
    made = [row for row in rows(out / "forecast.csv") if row["unique_id"] == "b"]
    assert [row["ds"] for row in made] == [one.isoformat() for one in stamps[-24:]]
    error = np.abs(np.array([float(row[model]) for row in made]) - PROFILE[stamps[-24:].hour])
    assert error[stamps[-24:].hour != 2].max() < 3
    tested = {row["ds"] for row in rows(out / "backtest.csv")}
    assert tested == {one.isoformat() for one in stamps[-72:-24]}

    capsys.readouterr()
    new = tmp_path / "new.csv"
    frame.groupby("unique_id").tail(24 * 14).to_csv(new, index=False)
    assert main(["predict", str(out / "model"), str(new), "--json"]) == 0
    after = pd.DataFrame(json.loads(capsys.readouterr().out)["forecast"])
    after = after[after["unique_id"] == "a"]
    ahead = pd.date_range(stamps[-1], periods=25, freq="h")[1:]
    assert after["ds"].tolist() == [one.isoformat() for one in ahead]
    known = (ahead.hour != 2) | (change == "autumn")
    assert np.abs(after[model].to_numpy(dtype=float) - PROFILE[ahead.hour])[known].max() < 3
