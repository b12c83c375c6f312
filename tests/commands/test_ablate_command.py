"""`rearview ablate`: the arms of a network, their rows, the table and the sentence, and what it refuses."""

from pathlib import Path

import pytest

from rearview.bench import ClassificationRow, DetectionRow, read
from rearview.bench.rows import result_file
from rearview.bench.rows.row import Row
from rearview.cli import main

STANDIN = ["ablate", "--dataset", "PEMS08-standin:150", "--lookback", "12", "--horizon", "3", "--device", "cpu"]
CONTROLS = ["zero", "identity", "uniform", "fixed", "positional"]
QUICK = ["--train", "epochs=1,windows_per_epoch=16", "--set", "width=8,heads=2,depth=1,feed_forward=8"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A folder that results may fall into."""
    monkeypatch.chdir(tmp_path)


def test_controls_and_mechanisms_are_run_alike_and_compared(capsys):
    command = [*STANDIN, *QUICK, "--model", "itransformer", "--attention", "softmax", "--seeds", "2"]
    assert main(command) == 0
    rows = read(Path("results.csv"))
    assert [row.attention for row in rows] == 2 * ["softmax", *CONTROLS]
    assert len({(row.training, row.settings) for row in rows}) == 1
    out = capsys.readouterr().out
    assert out.count("itransformer on PEMS08-standin:150, 12 steps to 3") == 2  # above the table, and in the sentence
    assert "the best control on validation" in out
    assert "In 12 of 12 runs the last epoch was the best on validation: train for longer" in out
    assert "The 5 intervals are corrected to hold together with a chance of 95%." in out
    assert main(command) == 0
    assert len(read(Path("results.csv"))) == len(rows)
    assert capsys.readouterr().out == out


def test_each_network_gets_what_it_can_take(swept, capsys):
    assert main(["ablate", "--dataset", "ETTh1", "--model", "itransformer,patchtst", "--device", "cpu"]) == 0
    (asked,) = swept
    arms = [(cell.model, cell.attention) for cell in asked.cells if cell.seed == 0]
    for model, fitting in {
        "itransformer": ["softmax", "toa", "prime", *CONTROLS],
        "patchtst": ["softmax", "rbca", "caps", "mica", "toa", "prime", *CONTROLS],
    }.items():
        assert [spec["name"] for name, spec in arms if name == model] == fitting
    assert {"name": "toa", "score_norm": "l2"} in [spec for _, spec in arms]
    assert asked.plan.seeds == (0, 1, 2, 3, 4)
    assert "left out: itransformer with rbca" in capsys.readouterr().err


def test_a_dry_run_lists_every_arm_and_makes_no_run(capsys):
    assert main([*STANDIN, *QUICK, "--model", "itransformer", "--attention", "softmax", "--dry-run"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert len([line for line in listed if line.startswith("would run: itransformer + ")]) == 6 * 5
    assert not Path("results.csv").exists()


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--model", "dlinear"], 1, "dlinear has no attention to compare with controls; `rearview bench` runs it"),
        (["--model", "patchtst", "--seeds", "1"], 2, "--seeds is 1; an interval needs at least 2 seeds, better 5."),
        (["--model", "patchtst", "--tune", "0"], 2, "--tune is 0; it must be at least 1."),
        (["--model", "itransformer", "--attention", "rbca"], 1, "alone, which is no comparison; name a mechanism"),
        (["--model", "itransformer", "--attention", "rbca"], 1, "rbca fades keys by age, but iTransformer's tokens"),
        (["--model", "patchtst", "--attention", "fixed:kind=softmax"], 1, "run with controls alone"),
        (
            ["--model", "patchtst,itransformer", "--attention", "caps,rbca"],
            1,
            "itransformer would be run with controls",
        ),
    ],
)
def test_what_can_not_be_compared_is_refused(options, code, sentence, capsys):
    assert main([*STANDIN, *options]) == code
    assert sentence in capsys.readouterr().err


CASES = ["ablate", "--dataset=basicmotions", "--model=patchtst_tslib", "--attention", "softmax", "--device", "cpu"]
SHORT = ["--train", "epochs=1"]


def test_a_set_of_the_archive_is_compared_by_accuracy(archive, capsys):
    command = [*CASES, *QUICK[2:], *SHORT, "--seeds", "2", "--data-dir", str(archive)]
    assert main([*command, "--dry-run"]) == 0
    assert "Would write 12 rows to results.csv" in capsys.readouterr().out
    assert main(command) == 0
    rows = result_file.read(Path("results.csv"), ClassificationRow)
    assert [row.attention for row in rows] == 2 * ["softmax", *CONTROLS]
    assert {(row.dataset, row.protocol, row.lookback) for row in rows} == {("BasicMotions", "clean", 40)}
    out = capsys.readouterr().out
    heading = next(line.split() for line in out.splitlines() if line.startswith("attention "))
    assert heading[1:3] == ["accuracy", "validation"]
    lines = [line.split() for line in out.splitlines() if " points  " in line or "  yardstick  " in line]
    by_arm = {arm: score for arm, score, *_ in lines}
    for arm in ("softmax", "zero", "positional"):
        own = [row.accuracy for row in rows if row.attention == arm]
        assert by_arm[arm] == f"{sum(own) / 2:.4f}"
    losses = {row.attention: 0.0 for row in rows if row.attention in CONTROLS}
    for row in rows:
        if row.attention in losses:
            losses[row.attention] += row.validation_criterion
    yardstick = min(losses, key=losses.__getitem__)
    assert "patchtst_tslib on BasicMotions: softmax " in out
    assert f" {yardstick.replace('fixed', 'fixed(kind=plain)')}, the best control on validation" in out
    assert "points over 2 seeds, corrected for 5 comparisons" in out
    assert "Differences are of the test accuracy in points of a hundred, seed by seed; above 0 the arm is" in out
    assert main(command) == 0
    assert len(result_file.read(Path("results.csv"), ClassificationRow)) == len(rows)
    assert capsys.readouterr().out == out


def test_rows_are_those_of_our_table(archive):
    there = ["--data-dir", str(archive), "--device", "cpu", "--seeds", "2", *SHORT]
    table = ["reproduce", "rearview", "--table", "classification-controls", "--dataset", "BasicMotions", *there]
    assert main(table) == 0
    made = result_file.read(Path("results.csv"), ClassificationRow)
    assert len(made) == 8
    assert main([*CASES, *there[:2], *there[4:], "--seed", "2027"]) == 0
    rows = result_file.read(Path("results.csv"), ClassificationRow)
    assert rows[:8] == made
    assert [row.attention for row in rows[8:]] == 2 * ["softmax", "uniform"]


def test_a_set_of_anomalies_is_compared_by_the_measure_that_needs_no_threshold(small_smap, capsys):
    command = ["ablate", "--dataset", "smap", "--model", "itransformer", "--attention", "softmax", "--device", "cpu"]
    command += [*QUICK[2:], *SHORT, "--seeds", "2", "--lookback", "20,24", "--data-dir", str(small_smap)]
    assert main(command) == 0
    rows = result_file.read(Path("results.csv"), DetectionRow)
    assert len(rows) == 2 * 2 * 6
    assert {(row.dataset, row.protocol) for row in rows} == {("SMAP", "clean")}
    out = capsys.readouterr().out
    for lookback in (20, 24):
        assert f"itransformer on SMAP, windows of {lookback}: softmax " in out
    assert "attention  " in out
    assert "  auc_pr  validation  " in out
    assert "the control that is best by it need not be the one that detects best. The 10 intervals" in out


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (
            ["--dataset=ETTh1,SMAP,basicmotions"],
            1,
            "The data sets are of several tasks: forecasting (ETTh1), detection (SMAP), classification (BasicMotions). "
            "Run `rearview ablate` once for each task.",
        ),
        (["--dataset=BasicMotion"], 1, "no data set 'BasicMotion', and no such file. Did you mean 'BasicMotions'?"),
        (["--dataset=Cricket"], 1, "Cricket_TRAIN.ts, the file of Cricket, was not found in "),
        (
            ["--horizon", "24", "--lookback", "5", "--try", "dropout=0|0.1", "--tune", "2", "--presets", "tslib"],
            2,
            "Runs of classification have no --horizon, --lookback, --try, --tune, --presets; leave them out.",
        ),
        (["--dataset=SMAP", "--horizon", "24"], 2, "Runs of detection have no --horizon; leave it out."),
        (["--protocol", "published:tslib"], 1, "Under published:tslib TEST picks the epoch, but in a comparison of"),
        (["--protocol", "published:tslib", "--dataset=SMAP"], 1, "test rows help to draw the threshold, and their"),
        (["--protocol", "published:rbca"], 1, "Runs of classification are not made under 'published:rbca', but under"),
        (["--ray"], 1, "--ray spreads runs of forecasting, and runs of classification share a machine: use --workers"),
        (["--seeds", "1"], 2, "--seeds is 1; an interval needs at least 2 seeds, better 5."),
        (["--model=glance"], 1, "glance forecasts and can't classify; use one of"),
        (["--model=dlinear"], 1, "dlinear has no attention to compare with controls"),
        (["--train", "epohs=1"], 1, "Did you mean 'epochs'?"),
        (["--set", "calendar=True"], 1, "--set names 'calendar', which is no setting of patchtst_tslib."),
        (["--set", "patch=0"], 1, "patchtst_tslib + softmax, patch=0, BasicMotions: patch is 0"),
        (
            ["--results", "forecasts.csv"],
            1,
            "forecasts.csv holds rows of forecasting, and those of classification need",
        ),
    ],
)
def test_what_runs_of_another_task_do_not_have_is_refused(options, code, sentence, archive, capsys):
    Path("forecasts.csv").write_text(",".join(Row.columns()) + "\n")
    flags = {option.split("=")[0] for option in options}
    others = [option for option in CASES if option.split("=")[0] not in flags]
    assert main([*others, "--data-dir", str(archive), *options]) == code
    assert sentence in capsys.readouterr().err
    assert not Path("results.csv").exists()
