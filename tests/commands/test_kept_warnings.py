"""What rearview warns of while a command runs: a plain line once, in run.json, and on the page."""

import json
import sys
import warnings
from html import escape
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "estimators/classify"))
from runs import TINY, forecast
from small_sets import waves, write_ts

from rearview.bench.synthetic import runner
from rearview.cli import main
from rearview.core.errors import RearviewWarning

WARY = ["--model", "patchtst", "--attention", "toa:kind=relu"]
ALARMED = "toa tends to learn no more than a mean in PatchTST"
QUICK = [part for pair in TINY.items() for part in pair]

pytestmark = pytest.mark.filterwarnings("default::rearview.core.errors.RearviewWarning")


def cases(folder: Path) -> list[str]:
    return [str(write_ts(folder / name, *waves(30, seed=seed))) for seed, name in enumerate(("a.ts", "b.ts"))]


@pytest.mark.parametrize("command", ["forecast", "detect", "classify"])
def test_a_warning_is_shown_once_and_kept(
    command: str, sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    if command == "forecast":  # trains twice: for the backtest and for the forecast
        assert forecast(sales, out, *WARY) == 0
    else:
        given = cases(tmp_path) if command == "classify" else [str(sales)]
        assert main([command, *given, "--out", str(out), "--lookback", "24", *QUICK, *WARY]) == 0
    printed = capsys.readouterr().err
    assert printed.count(ALARMED) == 1
    assert "RearviewWarning" not in printed
    run = json.loads((out / "run.json").read_text())
    [sentence] = run["warnings"]
    assert sentence.startswith(ALARMED)
    assert f"{sentence}\n" in printed
    page = (out / "report.html").read_text(encoding="utf-8")
    notes = page[page.index('<section id="notes"') :].split("</section>")[0]
    assert notes.count(escape(sentence)) == 1


def test_a_quiet_run_has_no_warnings(sales: Path, tmp_path: Path) -> None:
    assert forecast(sales, tmp_path / "out", "--model", "seasonal_naive") == 0
    assert json.loads((tmp_path / "out" / "run.json").read_text())["warnings"] == []


def test_a_study_shows_them_on_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = runner.make

    def warns(*args: object, **kwargs: object) -> object:
        warnings.warn("its arms are few.", RearviewWarning, stacklevel=1)
        return made(*args, **kwargs)

    monkeypatch.setattr(runner, "make", warns)
    sizes = "length=22,width=8,steps=4,stretch=2,batch=3,tested=7"
    arguments = ["reproduce", "flipflop", "--attention", "mha,power_law", "--out", str(tmp_path), "--train", sizes]
    assert main([*arguments, "--device", "cpu"]) == 0
    assert capsys.readouterr().err.count("its arms are few.") == 1
    assert "<li>its arms are few.</li>" in (tmp_path / "flipflop.html").read_text(encoding="utf-8")
