"""`rearview predict`: forecasts of new rows with a saved model, and what is said of rows that do not fit it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs import forecast, header, rows
from samples import long, wide

import rearview as rv
from rearview.cli import main


def test_predict_prints_csv(sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert forecast(sales, out, "--model", "dlinear") == 0
    capsys.readouterr()
    assert main(["predict", str(out / "model"), str(sales)]) == 0
    printed = capsys.readouterr()
    assert printed.out == (out / "forecast.csv").read_text(encoding="utf-8")
    assert [line for line in printed.err.splitlines() if "were pooled" not in line and "was pooled" not in line] == []

    new = tmp_path / "new.csv"
    wide(30, start="2024-05-01").drop(index=4).to_csv(new, index=False)
    target = tmp_path / "next.csv"
    assert main(["predict", str(out / "model"), str(new), "--level", "90", "--out", str(target)]) == 0
    assert header(target) == ["unique_id", "ds", "dlinear", "dlinear-lo-90", "dlinear-hi-90"]
    assert rows(target)[0]["ds"] == "2024-05-02 06:00:00"
    said = capsys.readouterr()
    assert said.out == ""
    assert "1 step is missing" in said.err
    odd = tmp_path / "odd.csv"
    pd.concat([long().assign(shop=name).drop(columns="unique_id") for name in "ab"]).to_csv(odd, index=False)
    assert main(["predict", str(out / "model"), str(odd)]) == 1
    told = capsys.readouterr().err
    assert "trained on a wide file with the columns 'date', 'load' and 'wind'" in told
    assert "--" not in told
    assert main(["predict", str(out), str(new), "--level", "90"]) == 0  # the folder of the run will do
    assert capsys.readouterr().out == target.read_text(encoding="utf-8")
    assert main(["predict", str(tmp_path), str(new)]) == 1
    assert f"There is one in {out / 'model'}" in capsys.readouterr().err
    assert main(["predict", str(out / "model"), str(new), "--out", str(tmp_path)]) == 1
    assert "which is a folder; name a file" in capsys.readouterr().err
    assert main(["predict", str(out / "model"), str(new), "--out", str(new / "next.csv")]) == 1
    assert f"{new} is a file; name a folder." in capsys.readouterr().err
    assert main(["predict", str(new), str(out / "model")]) == 1
    assert "is a file; give the folder of a saved model first, then the file" in capsys.readouterr().err
    assert main(["predict", str(tmp_path / "nowhere"), str(new)]) == 1
    assert "does not exist; give the folder of a saved model first" in capsys.readouterr().err


def test_predict_leaves_a_series_without_values_empty_and_says_so(
    shops: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, new = tmp_path / "out", tmp_path / "new.csv"
    assert forecast(shops, out, "--model", "dlinear") == 0
    capsys.readouterr()
    frame = long()
    frame.assign(y=frame["y"].where(frame["unique_id"] == "north")).to_csv(new, index=False)
    assert main(["predict", str(out / "model"), str(new)]) == 0
    printed = capsys.readouterr()
    assert "Series 'south' has no value in any row: its forecast is left empty." in printed.err
    lines = printed.out.splitlines()[1:]
    assert [line.endswith(",,,,,") for line in lines] == [False] * 5 + [True] * 5
    frame.assign(y=np.nan).to_csv(new, index=False)
    assert main(["predict", str(out / "model"), str(new)]) == 1
    assert capsys.readouterr().err == (
        f"rearview: {new}: series 'north' and 'south' have no value in any row, so there is nothing to forecast from; "
        "bring rows with values.\n"
    )


def test_predict_of_empty_columns_asks_for_rows_with_values(
    sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, new = tmp_path / "out", tmp_path / "new.csv"
    assert forecast(sales, out, "--model", "dlinear") == 0
    capsys.readouterr()
    wide().assign(load=np.nan, wind=np.nan).to_csv(new, index=False)
    assert main(["predict", str(out / "model"), str(new)]) == 1
    assert capsys.readouterr().err == (
        f"rearview: {new}: columns 'load' and 'wind' have no value in any row, so there is nothing to forecast from; "
        "bring rows with values.\n"
    )


def test_predict_uses_whatever_model_the_folder_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sensors, cases = wide(120), []
    sensors.to_csv(tmp_path / "rows.csv", index=False)
    detector = rv.Detector(model="dlinear", mode="forecast", lookback=12, training={"epochs": 1}).fit(sensors)
    detector.save(tmp_path / "detector")
    assert main(["predict", str(tmp_path / "detector"), str(tmp_path / "rows.csv")]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "unique_id,ds,score,threshold,anomaly"
    assert len(printed) == 121
    for case in range(12):
        steps = np.arange(16)
        cases.append(
            pd.DataFrame({"case": case, "t": steps, "x": np.sin(steps / (2 if case % 2 else 5)), "label": case % 2})
        )
    frame = pd.concat(cases)
    network = {"settings": {"width": 8, "heads": 2, "depth": 1}, "training": {"epochs": 1}}
    rv.Classifier("patchtst", **network).fit(frame, "label").save(tmp_path / "classifier")
    frame.drop(columns="label").to_csv(tmp_path / "cases.csv", index=False)
    assert main(["predict", str(tmp_path / "classifier"), str(tmp_path / "cases.csv"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["kind"] == "classifier"
    assert len(answer["predictions"]) == 12
    for one in answer["predictions"]:
        likely = {name.removeprefix("probability of "): p for name, p in one.items() if name.startswith("probability")}
        assert sum(likely.values()) == pytest.approx(1, abs=2e-6)
        assert one["predicted"] == max(likely, key=likely.__getitem__)
    assert main(["predict", str(tmp_path / "classifier"), str(tmp_path / "cases.csv"), "--level", "80"]) == 2
    assert "holds a classifier; --future, --what-if and --level are for a forecaster" in capsys.readouterr().err
    assert main(["detect", str(tmp_path / "rows.csv"), "--model", str(tmp_path / "classifier")]) == 1
    assert "holds no saved detector: detector.json is missing. It holds a classifier" in capsys.readouterr().err
