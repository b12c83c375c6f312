"""`rearview check`: what would be read and repaired, every problem at once, the command to run; nothing is trained."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from rearview.cli import main
from rearview.data.io import files

DAYS = pd.date_range("2020-01-01", periods=40).strftime("%Y-%m-%d").tolist()


def written(folder: Path, *lines: str) -> Path:
    path = folder / "sales.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_readable_file_is_described_with_its_repairs_and_the_command_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f'{day},"$1,{number}"' for number, day in enumerate(DAYS, start=100)]
    path = written(tmp_path, "date,sold", ",[USD]", *rows, "Total,1")
    assert main(["check", str(path)]) == 0
    said = capsys.readouterr().out
    assert f"{path}: 40 rows, every day, from 2020-01-01 to 2020-02-09." in said
    assert "To forecast: 'sold'." in said
    for words in ("Line 2 holds units", "Line 43 holds totals", "'$1,100' as 1100"):
        assert words in said
    assert said.endswith(f"To run:\n  rearview forecast {path} --horizon 8\n")


def test_all_problems_are_listed_with_the_flags_that_settle_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{day},{number}" for number, day in enumerate(DAYS)]
    rows[4], rows[9] = f"{DAYS[4]},closed", f"{DAYS[9]},shut down"
    path = written(tmp_path, "date,sold", *rows, f"{DAYS[0]},77")
    assert main(["check", str(path)]) == 1
    said = capsys.readouterr().out
    assert f"{path} can't be read as it is: 3 problems.\n  1. line 6, column 'sold' holds 'closed'" in said
    command = said.splitlines()[-1].strip()
    assert command == f"rearview check {path} --missing 'closed,shut down' --duplicates mean"
    assert main(shlex.split(command)[1:]) == 0


def test_json_says_the_same_in_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{store},{day},{number}" for store in "ab" for number, day in enumerate(DAYS)]
    path = written(tmp_path, "store,date,units", *rows)
    assert main(["check", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["readable"], told["layout"], told["series"], told["targets"]) == (True, "long", ["a", "b"], ["units"])
    assert (told["rows"], told["step"], told["first"], told["last"]) == (80, "D", DAYS[0], DAYS[-1])
    assert (told["problems"], told["command"]) == ([], f"rearview forecast {path} --horizon 8")
    path = written(tmp_path, "date,sold", *(f"{day},{day[-1]}" for day in DAYS), f"{DAYS[0]},oops")
    assert main(["check", "--json", str(path)]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["readable"] is False
    (number, _) = told["problems"]
    expected = {"what": "number", "place": "line 42", "column": "sold", "value": "oops", "flag": "--missing oops"}
    assert expected.items() <= number.items()


def test_a_check_needs_no_torch(tmp_path: Path) -> None:
    path = written(tmp_path, "date,sold", *(f"{day},1" for day in DAYS))
    script = (
        f"import sys; from rearview.cli import main; assert main(['check', {str(path)!r}]) == 0; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_a_file_that_is_no_table_is_a_problem_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path / "none.csv")]) == 1
    assert "none.csv can't be read as it is: 1 problem.\n  1. It does not exist" in capsys.readouterr().out


def test_standard_input_and_several_files_are_checked_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n".join(["date,sold", *(f"{day},{number}" for number, day in enumerate(DAYS))])
    monkeypatch.setattr(files, "_spool_stdin", lambda: written(tmp_path, text))
    assert main(["check", "-"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("standard input: 40 rows, every day")
    assert said.endswith("rearview forecast - --horizon 8\n")
    other = tmp_path / "other.csv"
    other.write_text(text)
    assert main(["check", str(tmp_path / "sales.csv"), str(other), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["series"] == ["sales", "other"]
