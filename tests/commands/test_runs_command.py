"""The runs of a folder are listed with what they made, and their pages are opened."""

import json
import os
import webbrowser
from pathlib import Path

import pytest
from runs import forecast

from rearview.cli import main


@pytest.fixture
def folder(sales: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a forecast, and of two runs that an earlier version wrote down."""
    monkeypatch.chdir(sales.parent)
    assert forecast(sales, Path("week"), "--model", "dlinear", "-q") == 0
    for name, facts in {
        "old/alarms": {"command": "rearview detect pumps.csv", "file": "pumps.csv", "model": "dlinear", "segments": 3},
        "waves": {
            "command": "rearview classify a.ts b.ts",
            "test": "b.ts",
            "request": {"model": "auto"},
            "accuracy": 0.9,
        },
    }.items():
        Path(name).mkdir(parents=True)
        (Path(name) / "run.json").write_text(json.dumps(facts))
        os.utime(Path(name) / "run.json", (1_700_000_000, 1_700_000_000 + len(name)))
    Path("strange").mkdir()
    (Path("strange") / "run.json").write_text("{}")
    return sales.parent


@pytest.mark.usefixtures("folder")
def test_runs_are_listed_newest_first(capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["runs", "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [(run["command"], run["model"], run["folder"]) for run in runs] == [
        ("forecast", "dlinear", "week"),
        ("detect", "dlinear", "old/alarms"),
        ("classify", "auto", "waves"),
    ]
    mase = json.loads(Path("week/run.json").read_text())["models"]["dlinear"]["backtest"]["mase"]
    assert [run["score"] for run in runs] == [f"MASE {mase:.3g}", "3 anomalies", "accuracy 0.900"]
    assert runs[0]["arguments"].startswith("rearview forecast ")
    assert main(["runs", "old"]) == 0
    heads, line = capsys.readouterr().out.splitlines()
    assert heads.split() == ["when", "command", "file", "model", "score", "folder"]
    assert line.split()[2:] == ["detect", "pumps.csv", "dlinear", "3", "anomalies", "old/alarms"]
    assert main(["runs", "strange"]) == 0
    assert capsys.readouterr().out == "No run was made in strange.\n"
    assert main(["runs", "nowhere"]) == 1


def test_a_page_is_opened_or_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    opened: list[str] = []

    class Browser:
        def open(self, address: str) -> bool:
            opened.append(address)
            return True

    monkeypatch.setattr(webbrowser, "get", Browser)
    page = folder / "week" / "report.html"
    for arguments in (["week"], ["week/report.html"], []):
        assert main(["open", *arguments]) == 0
        assert capsys.readouterr().out == f"{page}\n"
    assert opened == [page.as_uri()] * 3

    def none() -> None:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "get", none)
    assert main(["open", "week"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{page}\n"
    assert "no browser" in printed.err
    assert main(["open", "old"]) == 1
    assert "there is one in old/alarms" in capsys.readouterr().err
    assert main(["open", "nowhere"]) == 1
    assert "`rearview runs` lists" in capsys.readouterr().err
