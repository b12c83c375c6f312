"""`rearview reproduce flipflop` and its like: a table, a verdict, files and a page."""

import json
import re

import pytest

from rearview.bench import synthetic
from rearview.bench.synthetic.components import ComponentsRow
from rearview.bench.synthetic.harmonic import HarmonicRow
from rearview.bench.synthetic.operators import OperatorsRow
from rearview.cli import main
from rearview.commands.reproduce.study import select, study_command, verdict
from rearview.commands.sweep import RunOptions
from rearview.core.errors import InputError

QUICK = {
    "flipflop": "length=22,width=8,steps=4,stretch=2,batch=3,tested=7",
    "harmonic": "length=28,width=6,steps=4,stretch=2,batch=3,tested=13",
    "operators": "length=28,width=6,steps=4,stretch=2,batch=3,tested=13",
    "components": "lookback=17,horizon=5,width=8,steps=4,stretch=2,batch=3,tested=7",
}
ARMS = {
    "flipflop": "mha,power_law",
    "harmonic": "softmax,toa_relu",
    "operators": "residual/softmax,demixing/fixed",
    "components": "all/all,season/clock",
}
FIGURES = {
    "flipflop": ["Last reads answered right", "Training loss", "Where the last read looks"],
    "harmonic": [
        "Error on the test signals", "Effective operators", "Learned operators M2", "Frequency responses",
        "Signals restored",
    ],
    "operators": ["Error on the test samples", "Effective operators", "One sample"],
    "components": ["Weight by age", "A forecast", "Error on the test windows"],
}  # fmt: skip


@pytest.mark.parametrize("name", synthetic.NAMES)
def test_a_study_is_one_command(name, tmp_path, capsys):
    arguments = ["reproduce", name, "--attention", ARMS[name], "--out", str(tmp_path), "--train", QUICK[name]]
    assert main([*arguments, "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    for arm in ARMS[name].split(","):
        assert re.search(rf"^{arm} ", printed, re.MULTILINE)
    assert {path.name for path in tmp_path.iterdir()} == {name, f"{name}.csv", f"{name}-looks.csv", f"{name}.html"}
    text = (tmp_path / f"{name}.html").read_text(encoding="utf-8")
    found = json.loads(re.search(r'id="report-data">(.*?)</script>', text, re.DOTALL)[1])
    assert [figure["title"] for figure in found] == FIGURES[name]
    assert f"rearview reproduce {name}" in text
    assert printed.endswith(f"Written to {tmp_path}: {name}.csv, {name}-looks.csv, {name}.html\n")
    said = printed.replace(f"{name}.csv, {name}-looks.csv, ", "")
    for more in (["--compare"], ["--device", "cpu"]):  # nothing is left to be run
        (tmp_path / f"{name}.html").unlink()
        assert main([*arguments, *more]) == 0
        assert capsys.readouterr().out == said
        assert (tmp_path / f"{name}.html").exists()


def test_nothing_to_show_is_said(tmp_path):
    with pytest.raises(InputError, match="holds no reduced run of harmonic; leave out --compare"):
        study_command("harmonic", RunOptions(), out=tmp_path, only_show=True)


def row(arm, mse, **changes):
    facts = dict.fromkeys(HarmonicRow.columns(), 0)
    facts |= {"schema": 1, "study": "harmonic", "arm": arm, "mse": mse, "linear_floor": 0.002, "size": "full"}
    return HarmonicRow(**{**facts, **changes})


def test_the_last_run_of_an_arm_counts_in_the_order_of_arms():
    study = synthetic.get("harmonic")
    rows = [row("toa_gated", 0.5), row("softmax", 0.1), row("toa_gated", 0.004), row("softmax", 0.2, size="reduced")]
    runs = [synthetic.StoredRun(each, (), {}) for each in rows]
    found = select(study, runs, "full", (), 1)
    assert [(run.row.arm, run.row.mse) for run in found] == [("softmax", 0.1), ("toa_gated", 0.004)]
    assert verdict(study, found) == (
        "toa_gated leaves a mean squared error of 0.0040, softmax 0.1000, 25.0 times as much; the best operator that "
        "is linear and fixed would leave 0.0020."
    )
    assert [run.row.arm for run in select(study, runs, "full", ("softmax",), 1)] == ["softmax"]


def test_a_later_run_that_is_shorter_does_not_take_the_place_of_the_longest(tmp_path):
    study = synthetic.get("harmonic")
    asked = {"full": False, "arms": ["softmax"], "changes": {"length": 28, "width": 6, "batch": 3, "tested": 13}}
    asked["changes"] |= {"steps": 4, "stretch": 2}
    [whole] = synthetic.run("harmonic", out=tmp_path, device="cpu", **asked)
    [kept] = synthetic.read_runs("harmonic", tmp_path)
    figures = (tmp_path / "harmonic").iterdir().__next__().read_bytes()
    # A run that is cut off is made again; here, the one that came to its end is taken for such a one.
    path = synthetic.rows_file(tmp_path, "harmonic")
    path.write_text(
        path.read_text().replace(",steps,", ",seconds,").replace(",size,seconds,ended", ",size,steps,ended")
    )
    [cut] = synthetic.run("harmonic", out=tmp_path, device="cpu", seconds=0, **asked)
    assert (whole.steps, cut.steps) == (4, 2)
    [again] = synthetic.read_runs("harmonic", tmp_path)
    assert (again.row.steps, again.row.mse, again.curve) == (4, whole.mse, kept.curve)
    assert (tmp_path / "harmonic").iterdir().__next__().read_bytes() == figures
    rows = [row("softmax", 0.1, steps=11), row("softmax", 0.3, steps=7), row("softmax", 0.2, steps=11)]
    [found] = select(study, [synthetic.StoredRun(each, (), {}) for each in rows], "full", (), 1)
    assert found.row.mse == 0.2


def of_paths(arm, mse, **lost):
    """A run of some paths; `lost` are errors without one."""
    paths = arm.partition("/")[2].replace("all", "riemann+prefix+clock")
    facts = dict.fromkeys(ComponentsRow.columns(), 0) | dict.fromkeys(f"without_{path}" for path in paths.split("+"))
    facts |= {"arm": arm, "paths": paths, "mse": mse, **{f"without_{path}": error for path, error in lost.items()}}
    return synthetic.StoredRun(ComponentsRow(**facts), (), {})


@pytest.mark.parametrize(
    ("riemann", "said"),
    [
        (3.0, "With every path, the forecast rests: for all parts most on riemann (error 1.0000, 3.0000 without)."),
        (None, "all/all has an error of 1.0000."),
    ],
)
def test_a_path_is_called_the_most_needed_only_beside_all_others(riemann, said):
    run = of_paths("all/all", 1.0, riemann=riemann, prefix=1.5, clock=2.0)
    assert verdict(synthetic.get("components"), [run]) == said


def test_where_no_path_can_be_called_the_most_needed_the_best_choice_is_reported_part_by_part():
    runs = [
        of_paths("trend/all", 0.5, riemann=0.75, prefix=1.5, clock=1.0),
        of_paths("trend/clock", 0.25),
        of_paths("season/prefix", 0.5),
        of_paths("season/clock", 0.125),
        of_paths("shocks/riemann", 0.5),
        of_paths("shocks/riemann", 0.25),  # of another seed: the mean counts
        of_paths("shocks/prefix+clock", 0.3125),
        of_paths("shocks/all", 0.625, clock=1.0),
        of_paths("all/riemann", 2.0),
        of_paths("all/all", 1.0),
    ]
    assert verdict(synthetic.get("components"), runs) == (
        "With every path, the forecast rests: for trend most on prefix (error 0.5000, 1.5000 without). Of the choices "
        "of paths that were trained, the best is: for season clock (error 0.125); for shocks prefix+clock (error "
        "0.312, all paths 0.625); for all parts all paths (error 1)."
    )
    assert verdict(synthetic.get("components"), runs[3:4]) == "season/clock has an error of 0.1250."


def test_the_best_of_each_operator_case_stands_beside_softmax():
    facts = dict.fromkeys(OperatorsRow.columns(), 0) | {"schema": 1, "study": "operators", "size": "full"}
    cells = [("residual/softmax", 0.2, 0.0), ("residual/toa_relu", 0.01, 0.0), ("residual/toa_relu", 0.03, 0.0)]
    cells += [("demixing/softmax", 0.1, 0.05), ("demixing/fixed", 0.3, 0.05)]
    rows = [OperatorsRow(**{**facts, "arm": arm, "mse": mse, "linear_floor": floor}) for arm, mse, floor in cells]
    runs = [synthetic.StoredRun(each, (), {}) for each in rows]
    assert verdict(synthetic.get("operators"), runs) == (
        "Least error of each case: residual toa_relu 0.0200, softmax 0.2000 (fixed linear 0.0000); "
        "demixing softmax 0.1000 (fixed linear 0.0500)."
    )


def test_a_dry_run_lists_the_arms_that_are_missing(tmp_path, capsys):
    made = ["reproduce", "harmonic", "--train", QUICK["harmonic"], "--out", str(tmp_path), "--device", "cpu"]
    assert main([*made, "--attention", "softmax"]) == 0
    capsys.readouterr()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert main([*made, "--attention", "softmax,toa_relu", "--seeds", "2", "--dry-run"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-2] == f"1 of 4 runs are in {tmp_path} already."
    listed = [line for line in printed if line.startswith("would run: ")]
    assert [line.removeprefix("would run: harmonic ") for line in listed] == [
        "toa_relu seed 0", "softmax seed 1", "toa_relu seed 1",
    ]  # fmt: skip
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
