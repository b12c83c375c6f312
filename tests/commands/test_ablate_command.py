"""`rearview ablate`: the arms of a network, their rows, the table and the sentence, and what it refuses."""

from pathlib import Path

import pytest

from rearview.bench import read
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


def test_a_set_of_classification_is_refused_with_the_tables_that_run_it(capsys):
    assert main(["ablate", "--dataset", "ETTh1,basicmotions", "--model", "patchtst_tslib"]) == 1
    refusal = capsys.readouterr().err
    for table in ("classification", "classification-controls"):
        assert f"`rearview reproduce rearview --table {table} --dataset BasicMotions`" in refusal
