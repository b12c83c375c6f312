"""Every generated file through the command line: refused with the fault named, or repaired with the right counts."""

import json
from pathlib import Path

import pytest
from broken import refused, repaired
from drafts import Case
from runs import start

from rearview.cli import main

REFUSED, REPAIRED = refused(200, seed=0), repaired(50, seed=0)
QUICK = ["--model", "dlinear", "--train", "epochs=1", "--windows", "1"]


def check_refusal(case: Case, path: Path, code: int, said: str, out: Path) -> None:
    assert code == 1, said
    assert said.startswith("rearview: ")
    assert "Traceback" not in said
    assert all(part in said for fragments in case.expected for part in fragments), said
    assert path.name in said or case.horizon == 0
    assert not out.exists()


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_refused(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = case.write(tmp_path), tmp_path / "out"
    code = main([*case.command_line(path), "--out", str(out)])
    check_refusal(case, path, code, capsys.readouterr().err, out)


def check_repairs(case: Case, code: int, said: str, out: Path) -> None:
    assert code == 0, said
    run = json.loads((out / "run.json").read_text())
    found = {finding["what"]: finding["count"] for finding in run["findings"] if finding["kind"] != "inferred"}
    assert found == case.counts
    report = (out / "report.html").read_text(encoding="utf-8")
    for finding in run["findings"]:
        assert finding["message"].split("'")[0].split("&")[0] in report
    series = {line.split(",")[0] for line in (out / "forecast.csv").read_text().splitlines()[1:]}
    assert len(series) == len(run["targets"]) * run["series"]


@pytest.mark.parametrize("case", REPAIRED, ids=lambda case: case.name)
def test_repaired(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    code = main([*case.command_line(case.write(tmp_path)), "--out", str(out), *QUICK])
    check_repairs(case, code, capsys.readouterr().err, out)


@pytest.mark.slow
@pytest.mark.parametrize("case", [*REFUSED[::40], *REPAIRED[::10]], ids=lambda case: case.name)
def test_as_a_process(case: Case, tmp_path: Path) -> None:
    path, out = case.write(tmp_path), tmp_path / "out"
    process = start(*case.command_line(path), "--out", str(out), *([] if case.expected else QUICK))
    _, said = process.communicate()
    if case.expected:
        check_refusal(case, path, process.returncode, said, out)
    else:
        check_repairs(case, process.returncode, said, out)
        assert "Traceback" not in said
