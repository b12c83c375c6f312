"""`rearview report`: from results files to a page and tables, refusals in sentences."""

import shlex
import sys
from pathlib import Path

import pytest

from rearview.bench.synthetic.flipflop import FlipFlopRow
from rearview.cli import main

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))

import small_results


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return small_results.write(tmp_path)[0]


def test_files_and_patterns_become_a_page_and_tables(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "deep" / "report"
    assert main(["report", str(study), str(tmp_path / "*.csv"), "--out", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == [".rearview.json", "report.html", "tables.md", "tables.tex"]
    said = capsys.readouterr().out
    assert "In none of 2 networks is an attention significantly better than softmax" in said
    assert "Written to" in said
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.count('download="study.csv.gz"') == 1
    assert "rearview report" in page


def test_half_a_last_line_is_reported_and_left_out(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    study.write_bytes(study.read_bytes()[:-40])
    assert main(["report", str(study), "--out", str(tmp_path / "out")]) == 0
    assert "ends in half a line" in capsys.readouterr().err
    assert "ends in half a line" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "There is no results file"),
        ("", "is empty and holds no rows"),
        ("date,a\n1,2\n", "holds no rows of forecasting"),
        (",".join(small_results.row().columns()) + "\n", "There are no rows in some.csv"),
        (",".join(small_results.row().columns()) + "\n1,2,3\n", "line 2 is no result row"),
    ],
)
def test_what_is_no_results_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, message: str
):
    path = tmp_path / "some.csv"
    if content is not None:
        path.write_text(content)
    assert main(["report", str(path), "--out", str(tmp_path / "out")]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_is_refused_with_the_way_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["report", str(tmp_path)]) == 1
    assert f"{tmp_path}/*.csv" in capsys.readouterr().err


def test_other_files_among_several_are_left_out_with_a_warning(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "speed.csv").write_text("what,seconds\na,1\n")
    assert main(["report", str(tmp_path / "*.csv"), "--out", str(tmp_path / "out")]) == 0
    assert "speed.csv holds no rows" in capsys.readouterr().err
    (tmp_path / "flipflop.csv").write_text(",".join(FlipFlopRow.columns()) + "\n")
    assert main(["report", str(tmp_path / "*.csv"), "--out", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().err.splitlines()
    assert [line for line in told if "left out" in line] == [
        "flipflop.csv, speed.csv hold no rows of forecasting, classification or detection and are left out."
    ]
    assert 'download="speed.csv"' not in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_the_command_that_makes_the_page_again_names_no_file_that_was_left_out(study: Path, tmp_path: Path):
    (tmp_path / "speed.csv").write_text("what,seconds\na,1\n")
    out = ["--out", str(tmp_path / "out")]
    assert main(["report", str(study), str(tmp_path / "speed.csv"), *out]) == 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert shlex.join(["rearview", "report", str(study), *out]) in page
    assert str(tmp_path / "speed.csv") not in page
