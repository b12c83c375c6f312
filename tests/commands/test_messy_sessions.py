"""Messy files through whole commands: what training inferred holds for new rows, and flags settle new problems."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs import forecast, rows

from rearview.cli import main

QUICK = ("--model", "dlinear", "--train", "epochs=1", "--windows", "0")
DAYS = pd.date_range("2020-01-01", periods=80)


def lines(path: Path, *text: str) -> Path:
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return path


def test_inferred_series_and_order_of_dates_hold_for_new_rows_of_one_series(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = [f'{shop},{day:%d/%m/%Y},"$1,{100 + n}"' for shop in ("a", "b") for n, day in enumerate(DAYS)]
    sales, out = lines(tmp_path / "sales.csv", "store,day,sold", *body, "Total,,9"), tmp_path / "out"
    assert forecast(sales, out, *QUICK) == 0
    assert {row["unique_id"] for row in rows(out / "forecast.csv")} == {"a", "b"}
    capsys.readouterr()
    # Ten days of January leave day and month open, and one store does not repeat a stamp.
    new = lines(tmp_path / "new.csv", "store,day,sold", *(f"b,{n:02d}/01/2021,{n}" for n in range(1, 11)))
    assert main(["predict", str(out / "model"), str(new)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split(",")[:2] == ["b", "11/01/2021"]
    new = lines(tmp_path / "new.csv", "store,day,sold", *(f"b,{day:%d/%m/%Y},{n}" for n, day in enumerate(DAYS)))
    assert main(["predict", str(out / "model"), str(new)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert {line.split(",")[0] for line in told[1:]} == {"b"}
    assert told[1].split(",")[1] == "21/03/2020"


def test_flags_of_reading_settle_new_rows(sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert forecast(sales, out, *QUICK) == 0
    text = sales.read_text().splitlines()
    cells = text[-1].split(",")
    new = lines(tmp_path / "new.csv", *text, ",".join([cells[0], "closed", *cells[2:]]))
    capsys.readouterr()
    assert main(["predict", str(out / "model"), str(new)]) == 1
    said = capsys.readouterr().err
    assert "(say missing, --missing closed)" in said
    assert main(["predict", str(out / "model"), str(new), "--missing", "closed", "--duplicates", "first"]) == 0
    assert capsys.readouterr().out == (out / "forecast.csv").read_text(encoding="utf-8")


def test_a_saved_detector_takes_flags_of_reading(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    body = [f"{day:%Y-%m-%d},{value:.3f}" for day, value in zip(DAYS, rng.normal(size=80), strict=True)]
    old, new = (
        lines(tmp_path / "old.csv", "date,v", *body),
        lines(tmp_path / "new.csv", "date,v", *body, body[-1] + "1"),
    )
    tiny = ["--lookback", "10", "--set", "width=8,depth=1", "--train", "epochs=1"]
    assert main(["detect", str(old), *tiny, "--out", str(tmp_path / "out")]) == 0
    again = ["detect", str(new), "--model", str(tmp_path / "out" / "model"), "--out", str(tmp_path / "more")]
    assert main(again) == 1
    assert "--duplicates" in capsys.readouterr().err
    assert main([*again, "--duplicates", "mean"]) == 0
