"""What commands print: one object for a program, little or much for a person, and a plan instead of a run."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from runs import forecast

from rearview.cli import main
from rearview.cli.parse import app


@pytest.fixture
def cases(tmp_path: Path) -> list[str]:
    """A file of cases to train on and one to test on."""
    draw, steps = np.random.default_rng(0), np.arange(16)
    every = [
        pd.DataFrame({"case": case, "t": steps, "x": np.sin(steps / (2 + 3 * (case % 2))), "label": "ab"[case % 2]})
        for case in range(16)
    ]
    for one in every:
        one["x"] += draw.normal(0, 0.1, len(steps))
    paths = [tmp_path / "train.csv", tmp_path / "test.csv"]
    for path, part in zip(paths, (every[:10], every[10:]), strict=True):
        pd.concat(part).to_csv(path, index=False)
    return [str(path) for path in paths]


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, object]:
    """The one object that a command prints to standard output."""
    assert main([*arguments, "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_a_forecast_answers_with_its_run_and_its_rows(
    sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert forecast(sales, out, "--model", "dlinear", "--json") == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    written = (out / "forecast.csv").read_text(encoding="utf-8").splitlines()
    assert told["folder"] == str(out)
    assert {**json.loads((out / "run.json").read_text()), "folder": str(out), "forecast": told["forecast"]} == told
    assert [",".join(row) for row in told["forecast"][:1]] == [written[0]]
    assert [str(one["ds"]) for one in told["forecast"]] == [line.split(",")[1] for line in written[1:]]
    assert all(isinstance(one["dlinear"], float) for one in told["forecast"])
    assert "dlinear: backtest over 2 windows" in printed.err
    assert "--json" not in told["command"]


def test_quiet_prints_the_result_alone_and_verbose_every_epoch(
    sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert forecast(sales, tmp_path / "out", "--model", "dlinear", "-q") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert [line.split(":")[0] for line in printed.out.splitlines()[1:]] == [f"Written to {tmp_path / 'out'}"]
    assert forecast(sales, tmp_path / "out", "--model", "dlinear", "--verbose") == 0
    said = capsys.readouterr().err
    assert re.findall(r"^epoch (\d)/2: loss [\d.e-]+, validation [\d.e-]+, [\d.]+ s$", said, re.MULTILINE) == [*"1212"]
    assert "  backtest of dlinear; left: dlinear on all rows" in said
    assert main(["list", "models", "-q", "-v"]) == 2


@pytest.mark.parametrize("model", [[], ["--model", "patchtst"]])
def test_a_dry_run_of_a_forecast_writes_nothing(
    model: list[str], sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rearview import train

    monkeypatch.setattr(train, "fit", lambda *_, **__: pytest.fail("it trains"))
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    plan = answer(capsys, "forecast", str(sales), "--horizon", "5", "--dry-run", *model)
    assert plan["dry_run"] is True
    assert plan["models"] == [model[-1] if model else "auto"]
    assert plan["would_write"] == ["forecast.csv", "backtest.csv", "model", "report.html", "summary.md", "run.json"]
    assert main(["forecast", str(sales), "--horizon", "5", "--dry-run", *model]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("Would write to rearview-sales: forecast.csv")
    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    refused = answer(capsys, "forecast", str(sales), "--horizon", "5", "--dry-run", "--out", "mine", code=1)
    assert "mine is not empty" in str(refused["error"])


def test_dry_runs_of_the_other_tasks(
    sales: Path, cases: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    detection = answer(capsys, "detect", str(sales), "--lookback", "24", "--dry-run")
    assert detection["would_write"] == ["anomalies.csv", "scores.csv", "model", "report.html", "summary.md", "run.json"]
    classification = answer(capsys, "classify", *cases, "--dry-run")
    assert classification["cases"] == {"train": 10, "test": 6}
    assert classification["classes"] == ["a", "b"]
    grid = ["--dataset", str(sales), "--model", "dlinear,seasonal_naive", "--lookback", "24", "--horizon", "4"]
    bench = answer(capsys, "bench", *grid, "--dry-run", "--seeds", "2")
    assert len(bench["runs"]) == 4  # type: ignore[arg-type]
    assert sorted(tmp_path.rglob("*")) == before
    done = answer(capsys, "bench", *grid, "--train", "epochs=1")
    assert [row["model"] for row in done["rows"]] == ["dlinear", "seasonal_naive"]  # type: ignore[attr-defined]
    again = answer(capsys, "bench", *grid, "--train", "epochs=1", "--dry-run")
    assert (again["runs"], again["finished"]) == ([], 2)


def test_problems_reach_a_program_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert "missing.csv does not exist" in str(answer(capsys, "forecast", "missing.csv", "--horizon", "3", code=1))
    assert answer(capsys, "forecast", code=2)["exit_code"] == 2
    assert main(["forecast", "missing.csv", "--horizon", "3"]) == 1
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("attentions", {"softmax", "rbca"}), ("models", {"patchtst", "timesnet"}), ("adapters", {"lift"}),
        ("datasets", {"ETTh1", "MSL", "Libras"}), ("protocols", {"clean"}), ("presets", {"rbca"}),
        ("experiments", {"flipflop"}),
    ],
)  # fmt: skip
def test_lists_for_a_program(what: str, names: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entries = answer(capsys, "list", what, "--data-dir", str(tmp_path))[what]
    assert names <= {one["name"] for one in entries}  # type: ignore[attr-defined]


def test_a_description_for_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    told = answer(capsys, "describe", "patchtst")
    (part,) = told["parts"]  # type: ignore[misc]
    assert part["kind"] == "model"
    assert "width" in {setting["name"] for setting in part["settings"]}


@pytest.mark.parametrize("command", ["forecast", "detect", "classify"])
def test_help_shows_ten_options_first(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_console", Console(width=240))
    assert main([command, "--help"]) == 0
    groups = re.split(r"╭─ ([\w ]+?) ─+╮", capsys.readouterr().out)[1:]
    titles, bodies = groups[::2], groups[1::2]
    assert titles[:3] == ["Arguments", "Most used", "In detail"]
    assert titles[-1] == "What is printed"
    assert len(re.findall(r"^│[ *]+--", bodies[1], re.MULTILINE)) == 10
    assert "--dry-run" in bodies[-1]


def test_every_command_takes_the_options_of_printing() -> None:
    from rearview.cli.command import FLAGS

    names = [name for name in app if not name.startswith("-")]
    assert len(names) >= 14
    for name in names:
        flags = {flag for argument in app[name].assemble_argument_collection() for flag in argument.names}
        assert {*FLAGS["quiet"], *FLAGS["verbose"]} <= flags, name


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(word in script for word in ("forecast", "horizon", "dry-run", "conformal"))


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash to try its script in")
def test_bash_completes_files_options_and_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    (tmp_path / "rearview.bash").write_text(capsys.readouterr().out)
    (tmp_path / "sales.csv").touch()
    for words, wanted in {
        "forecast sal": "sales.csv",
        "forecast sales.csv --hor": "--horizon",
        "forecast sales.csv --intervals q": "quantile",
        "forecast sales.csv --future sal": "sales.csv",
        "compl": "completion",
    }.items():
        typed = ["rearview", *words.split()]
        script = (
            f"source ./rearview.bash; COMP_WORDS=({' '.join(typed)}); COMP_CWORD={len(typed) - 1}; _rearview; "
            'echo "${COMPREPLY[@]}"'
        )
        done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout.split() == [wanted], words
