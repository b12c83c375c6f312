"""What `rearview forecast` says and refuses before it trains, and about what it trained on."""

import subprocess
import sys
from pathlib import Path

import pytest
from runs import forecast, rows
from samples import long, wide

from rearview.cli import main


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--train", "epochz=3"], "Did you mean 'epochs'"),
        (["--set", "width=abc"], "must be a whole number"),
        (["--set", "heads=3"], "3 heads"),
        (["--attention", "softmx"], "Did you mean 'softmax'"),
        (["--attention", "linear:epz=3"], "has no setting 'epz'"),
        (["--device", "tpu9"], "no device"),
        (["--model", "dlinear,patchtst", "--attention", "mica:share=7"], "mica"),
    ],
)
def test_mistakes_are_refused_before_anything_is_trained(
    arguments: list[str], words: str, sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = [] if "--model" in arguments else ["--model", "patchtst"]
    assert forecast(sales, tmp_path / "out", *model, *arguments) == 1
    said = capsys.readouterr()
    assert words in said.err
    assert "backtest over" not in said.out


def test_a_wrong_model_is_refused_before_anything_is_said(
    sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert forecast(sales, tmp_path / "out", "--model", "patchtts") == 1
    said = capsys.readouterr()
    assert "Did you mean 'patchtst'" in said.err
    assert said.out == ""


def test_a_series_that_is_never_trained_on_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "shops.csv"
    long({"old": 160, "second": 160, "third": 160, "fourth": 160, "new": 8}).to_csv(path, index=False)
    assert forecast(path, tmp_path / "out", "--model", "dlinear", "--windows", "0") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "dlinear: 1 of 5 series has too few rows before those held out to be trained on ('new')" in said


def test_a_column_of_text_and_an_empty_one_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "sales.csv", tmp_path / "out"
    wide().assign(weather="rain", unused="").to_csv(path, index=False)
    assert forecast(path, out, "--model", "dlinear", "--windows", "1") == 0
    said = capsys.readouterr().out
    assert "Column 'weather' has text, not numbers, and was left out." in said
    assert "Column 'unused' has no value in any row: it is left out and has no forecast." in said
    assert {row["unique_id"] for row in rows(out / "forecast.csv")} == {"load", "wind"}
    assert main(["predict", str(out / "model"), str(path)]) == 0
    assert capsys.readouterr().out == (out / "forecast.csv").read_text(encoding="utf-8")


def test_a_run_that_was_never_begun_is_no_missing_checkpoint(
    sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the network's training, a run has no checkpoint of its baselines, and need not."""
    from rearview.commands.forecast import job

    monkeypatch.setattr(job._Task, "has_checkpoint", lambda task: task.name == "patchtst")
    assert forecast(sales, tmp_path / "out", "--model", "patchtst", "--resume") == 0
    assert "no checkpoint" not in capsys.readouterr().out


def test_a_file_that_is_too_short_is_not_called_a_series(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sales.csv"
    wide(12).to_csv(path, index=False)
    assert forecast(path, tmp_path / "out") == 1
    assert f"{path} is not long enough: lookback 24 + horizon 5 need 29 rows, but there are 12;" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("arguments", [["forecast", "nothing.csv", "--horizon", "5"], ["predict", ".", "nothing.csv"]])
def test_a_missing_file_is_reported_without_torch(arguments: list[str], tmp_path: Path) -> None:
    script = (
        f"import sys; from rearview.cli import main; assert main({arguments!r}) == 1; assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "nothing.csv does not exist" in done.stderr


def test_a_set_to_forecast_is_not_taken_for_one_to_classify(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", "ETTh1"]) == 2
    assert "benchmark set" not in capsys.readouterr().err


def test_no_worker_at_all_is_refused(sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--model", "dlinear", "--horizon", "4", "--lookback", "16", "--results", str(tmp_path / "rows.csv")]
    assert main(["bench", "--dataset", str(sales), *sizes, "--workers", "0"]) == 2
    assert "--workers is 0; it must be at least 1." in capsys.readouterr().err
