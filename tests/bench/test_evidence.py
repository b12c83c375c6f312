"""The lines of `benchmarks/evidence.py`: every run resolves, and lines share the time of a call."""

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from rearview import cli
from rearview.commands import bench
from rearview.commands.reproduce import command as reproduce


@pytest.fixture
def evidence(benchmark_scripts, monkeypatch):
    """The script, with every data set at hand."""
    import evidence

    def possible_runs(experiment, data_dir, wanted):
        return [cell for cell in experiment.cells if wanted(cell)], Counter()

    monkeypatch.setattr(reproduce, "possible_runs", possible_runs)
    monkeypatch.setattr(bench, "_check_first", lambda cells, plan: plan.runs(cells))
    return evidence


def test_every_grid_resolves_and_is_a_rectangle_of_three_seeds(evidence, tmp_path):
    for name, line in evidence.LINES.items():
        if not name.startswith("published-"):
            missing, finished = evidence.count_runs(line, tmp_path, "cpu")
            assert (missing % 3, finished) == (0, 0), name
            assert missing >= 24, name
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("paper", ["caps", "mica", "prime", "rbca", "toa"])
def test_every_printed_cell_of_a_set_resolves(paper, evidence, tmp_path):
    missing, _ = evidence.count_runs(evidence.LINES[f"published-{paper}"], tmp_path, "cpu")
    assert missing >= 100
    assert missing % 3 == 0


def test_a_command_that_can_not_be_made_is_told(evidence, tmp_path):
    line = evidence.Line("?", "rows.csv", ("bench --dataset ETTh1 --model patchtst --train epohs=3",), 1)
    with pytest.raises(SystemExit):
        evidence.count_runs(line, tmp_path, "cpu")


def test_commands_share_the_time_that_is_left(evidence, tmp_path, monkeypatch):
    calls = []
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(evidence, "time", SimpleNamespace(monotonic=lambda: clock.now))

    def rearview(words):
        clock.now += 200
        calls.append(words)
        return 0

    monkeypatch.setattr(cli, "main", rearview)
    asked = SimpleNamespace(run=["patchtst-rates", "flipflop"], out=tmp_path, seconds=450.0, workers=8, device="cpu")
    monkeypatch.setattr(evidence, "_arguments", lambda: asked)
    evidence.main()
    assert [words[words.index("--seconds") + 1] for words in calls] == ["450", "250", "50"]
    assert {words[words.index("--results") + 1] for words in calls} == {str(Path(tmp_path) / "mechanisms_rates.csv")}
    calls.clear()
    clock.now, asked.run = 0.0, ["flipflop"]
    evidence.main()
    assert calls[0][:5] == ["reproduce", "flipflop", "--full", "--seeds", "3"]
    assert calls[0][calls[0].index("--out") + 1] == str(tmp_path)


def test_the_code_of_a_command_that_fails_ends_the_call(evidence, tmp_path, monkeypatch):
    commands = []

    def fail(line, command, *_):
        commands.append(command)
        return 2

    options = SimpleNamespace(run=["patchtst-rates"], out=tmp_path, workers=1, seconds=60.0, device="cpu")
    monkeypatch.setattr(evidence, "call", fail)
    monkeypatch.setattr(evidence, "_arguments", lambda: options)
    with pytest.raises(SystemExit) as ended:
        evidence.main()
    assert ended.value.code == 2
    assert len(commands) == 1


def test_the_findings_name_every_line(evidence):
    page = (Path(__file__).parents[2] / "docs" / "findings.md").read_text(encoding="utf-8")
    told = []
    for line in page.split("## Still to be run")[1].split("\n## ")[0].splitlines():
        first, *others = re.findall(r"`([^`]+)`", line.split(" | ")[0]) if line.startswith("| `") else [""]
        # `published-prime`, `-toa` are published-prime and published-toa.
        told += [first, *(f"{first.partition('-')[0]}{one}" if one[0] == "-" else one for one in others)]
    assert set(filter(None, told)) == set(evidence.LINES)
