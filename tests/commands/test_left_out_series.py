"""Files in which one series has no value: the commands go on with the others and tell."""

import json
from pathlib import Path

import pytest
from runs import TINY, forecast, rows
from samples import long

from rearview.cli import main


@pytest.fixture
def gappy(tmp_path: Path) -> Path:
    """A long file whose second series has no value."""
    frame = long({"north": 160, "south": 130, "west": 130})
    path = tmp_path / "gappy.csv"
    frame.assign(y=frame["y"].mask(frame["unique_id"] == "south")).to_csv(path, index=False)
    return path


@pytest.fixture
def silent(tmp_path: Path) -> Path:
    """A long file without any value."""
    path = tmp_path / "silent.csv"
    long().assign(y=float("nan")).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("together", [(), ("--together",)], ids=["apart", "together"])
def test_forecast_goes_on_and_tells(
    gappy: Path, tmp_path: Path, together: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    told = "Series 'south' has no value in any row: it is left out and has no forecast."
    assert forecast(gappy, out, "--model", "dlinear", *together) == 0
    assert told in capsys.readouterr().out
    for name in ("forecast.csv", "backtest.csv"):
        assert {row["unique_id"] for row in rows(out / name)} == {"north", "west"}
    run = json.loads((out / "run.json").read_text())
    assert run["left_out"] == ["south"]
    assert told in [finding["message"] for finding in run["findings"] if finding["kind"] == "warning"]
    assert told.replace("'", "&#x27;") in (out / "report.html").read_text(encoding="utf-8")


def test_a_run_that_leaves_nothing_out_says_so(shops: Path, tmp_path: Path) -> None:
    assert forecast(shops, tmp_path / "out", "--model", "seasonal_naive") == 0
    assert json.loads((tmp_path / "out" / "run.json").read_text())["left_out"] == []


def test_the_saved_model_takes_the_same_file(gappy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert forecast(gappy, tmp_path / "out", "--model", "seasonal_naive") == 0
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "out" / "model"), str(gappy)]) == 0
    printed = capsys.readouterr()
    assert "Series 'south' has no value in any row: its forecast is left empty." in printed.err
    assert printed.out.count("\nsouth,") == 5


def test_detect_goes_on_and_tells(gappy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    tiny = [part for pair in TINY.items() for part in pair]
    assert main(["detect", str(gappy), "--out", str(out), "--lookback", "24", *tiny]) == 0
    told = "Series 'south' has no value in any row, so no score."
    assert told in capsys.readouterr().out
    found = rows(out / "scores.csv")
    assert all((row["score"] == "") == (row["unique_id"] == "south") for row in found)
    run = json.loads((out / "run.json").read_text())
    assert told in run["notes"]
    learned = "Series 'south' has no value in any row: nothing is learned from it."
    assert learned in [finding["message"] for finding in run["findings"]]
    assert learned.replace("'", "&#x27;") in (out / "report.html").read_text(encoding="utf-8")
    assert not any("not seen in training" in note for note in run["notes"])


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("forecast", "series 'north' and 'south' have no value in any row, so there is nothing to forecast"),
        ("detect", "has no value of any channel in any row, so there is nothing to look at"),
    ],
)
def test_a_file_without_any_value_is_refused(
    silent: Path, tmp_path: Path, command: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--horizon", "5"] if command == "forecast" else []
    assert main([command, str(silent), "--out", str(tmp_path / "out"), *asked]) == 1
    refused = capsys.readouterr().err
    assert words in refused
    assert not (tmp_path / "out").exists()
