"""Every figure and table of the five papers is a line of `rearview list experiments` that says what stands for it."""

import argparse
import csv
import re
import shlex
import sys
from importlib import import_module
from pathlib import Path

import pytest
from small import row

from rearview.bench import synthetic
from rearview.bench.papers import catalogue
from rearview.bench.rows.result_file import append
from rearview.cli import main
from rearview.cli.parse import app
from rearview.commands.figure.command import KINDS, find
from rearview.data.datasets import catalogue as datasets

FIGURES = {"caps": 2, "mica": 16, "toa": 3, "rbca": 4, "prime": 10}
TABLES = {"caps": 7, "mica": 15, "toa": 11, "rbca": 1, "prime": 6}
SUPPLEMENT = {"figures": 24, "tables": 10}
"""Of RBCA, whose numbers there begin with S."""


def labels(paper: str) -> list[str]:
    """Every figure and table, as the paper counts them."""
    found = [f"F{n + 1}" for n in range(FIGURES[paper])] + [f"T{n + 1}" for n in range(TABLES[paper])]
    if paper == "rbca":
        found += [f"FS{n + 1}" for n in range(SUPPLEMENT["figures"])]
        found += [f"S{n + 1}" for n in range(SUPPLEMENT["tables"])]
    return found


@pytest.mark.parametrize("paper", FIGURES)
def test_no_figure_and_no_table_is_left_out(paper: str) -> None:
    exhibits = [one.label for one in catalogue.exhibits() if one.paper == paper]
    assert len(exhibits) == len(set(exhibits))
    assert set(labels(paper)) <= {*catalogue.tables(paper), *exhibits}
    assert not set(catalogue.tables(paper)) & set(exhibits), "an experiment needs no second line"


def test_an_exhibit_is_made_or_says_why_not() -> None:
    experiments = {one.name for one in catalogue.every()} | set(synthetic.NAMES)
    for one in catalogue.exhibits():
        # A drawing may go with the experiment whose rows it shows.
        assert sum(map(bool, (one.of or one.draw, one.command, one.why))) == 1, one.name
        assert not one.draw or one.draw["kind"] in KINDS
        for name in one.datasets:
            assert datasets.get(name).name == name
        assert not one.of or one.of in experiments


COMMANDS = sorted({command for one in catalogue.exhibits() for command in re.findall(r"`([^`]+)`", one.source)})


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_of_an_exhibit_is_one_that_the_command_line_takes(command, benchmark_scripts, monkeypatch) -> None:
    program, *words = shlex.split(command)
    if program == "rearview":
        function, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
        assert bound.signature.bind(*bound.args, **bound.kwargs)
        assert function.__name__
        if words[0] == "figure":
            assert find(words[1]).name == words[1]
        return
    assert program == "python"
    script = Path(words[0])
    assert script.parent.name == "benchmarks"
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", read_and_stop)
    with pytest.raises(Parsed):
        import_module(script.stem).main()


class Parsed(Exception):
    """Raised in the place of what a script would do next."""


PARSE = argparse.ArgumentParser.parse_args


def read_and_stop(parser: argparse.ArgumentParser) -> None:
    PARSE(parser)
    raise Parsed


def test_commands_of_exhibits_are_of_every_kind() -> None:
    kinds = {tuple(shlex.split(command)[:2]) for command in COMMANDS}
    assert kinds == {("rearview", "figure"), ("rearview", "list"), ("python", "benchmarks/scaling.py")}


def test_the_list_has_a_line_for_each(tmp_path, capsys) -> None:
    assert main(["list", "experiments", "--data-dir", str(tmp_path)]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert {f"{paper}:{label}" for paper in FIGURES for label in labels(paper)} <= set(lines)
    assert "not run" in lines["rbca:F1"]
    assert lines["rbca:F1"].endswith("The mechanism in a block: a drawing of the method; there is nothing to run")
    assert "0 of 63 runs" in lines["prime:F2"]
    assert lines["prime:F2"].endswith("see prime:sparsity")
    assert "generated" in lines["toa:F3"]
    assert "by command" in lines["mica:T4"]
    assert "by command" in lines["rbca:FS1"]
    assert lines["rbca:FS1"].endswith("Power-law masks: `rearview figure rbca:FS1`")
    assert "data missing" in lines["prime:F7"]
    assert lines["prime:F7"].endswith("`rearview figure prime:F7`, which needs Exchange; --dataset names another")
    assert lines["prime:F4"].endswith("see prime:density, then `rearview figure prime:F4`")


def test_a_table_names_the_data_that_its_runs_lack(tmp_path, capsys) -> None:
    assert main(["list", "experiments", "--data-dir", str(tmp_path)]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert lines["toa:T9"].endswith("0 of 128 runs  Traffic flow; missing here: PEMS03, PEMS04, PEMS07, PEMS08")
    assert lines["toa:T7"].endswith("; missing here: Weather, Solar, Electricity, ETTh1 and 5 more")


def test_the_list_counts_the_runs_that_rows_hold(tmp_path, capsys) -> None:
    rows = tmp_path / "rows.csv"
    append(rows, row(dataset="ETTh1", model="itransformer", lookback=96, horizon=96))
    assert main(["list", "experiments", "--data-dir", str(tmp_path), "--results", str(rows)]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert "0 of 48 runs, 1 made" in lines["prime:lookback"]
    assert "0 of 48 runs, 1 made" in lines["prime:F1"]
    assert "0 of 63 runs, 0 made" in lines["prime:sparsity"]
    assert main(["list", "models", "--results", str(rows)]) == 2


def test_the_list_counts_the_runs_of_all_files_that_a_shell_names(tmp_path, capsys) -> None:
    files = [tmp_path / f"{lookback}.csv" for lookback in (80, 96)]
    for file, lookback in zip(files, (80, 96), strict=True):
        append(file, row(dataset="ETTh1", model="itransformer", lookback=lookback, horizon=96))
    both = list(map(str, files))
    for results in (both, [both[0], "--results", both[1]]):
        assert main(["list", "experiments", "--data-dir", str(tmp_path), "--results", *results]) == 0
        assert "0 of 48 runs, 2 made" in capsys.readouterr().out


def test_the_list_counts_the_arms_of_a_study_that_rows_hold(tmp_path, capsys) -> None:
    with (Path(__file__).parents[2] / "results" / "operators.csv").open(encoding="utf-8", newline="") as file:
        first, second, third, *_ = lines = list(csv.DictReader(file))
    assert {line["ended"] for line in lines} == {"steps"}
    study, runs = tmp_path / "study.csv", tmp_path / "runs.csv"
    with study.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(first), lineterminator="\n")
        writer.writeheader()
        writer.writerows([first, first, second, {**third, "ended": "seconds"}])
    append(runs, row(dataset="ETTh1", model="itransformer", lookback=96, horizon=96))
    for results, made in (([study], 0), ([study, runs], 1)):
        assert main(["list", "experiments", "--data-dir", str(tmp_path), "--results", *map(str, results)]) == 0
        lines_of = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
        for name in ("operators", "toa:D"):
            assert "generated, 2 of 25 arms made" in lines_of[name]
        assert "generated, 0 of 28 arms made" in lines_of["caps:F1"]
        assert f"0 of 48 runs, {made} made" in lines_of["prime:lookback"]


def test_every_line_of_the_list_can_be_described(capsys) -> None:
    assert main(["describe", "prime:LagTS"]) == 0
    assert "neither its code nor its formulas could be found" in capsys.readouterr().out
    for one in catalogue.exhibits():
        assert main(["describe", one.name]) == 0
        assert one.source in capsys.readouterr().out


def test_runs_that_differ_in_their_network_alone_are_told_apart() -> None:
    cells = catalogue.get("prime", "density").cells
    assert len({cell.title for cell in cells}) == len(cells) == 22
    assert cells[0].title == "gat, density=0.1, primed=False, Weather 96-96"
