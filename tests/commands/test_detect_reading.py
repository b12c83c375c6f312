"""What `rearview detect` makes of the rows it is given: anomalies apart, machines apart, rows learned from twice."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "estimators/detect"))

from runs import rows
from sensors import SHIFT, SPIKE, broken, fleet, ordinary

from rearview.cli import main

TINY = ["--lookback", "24", "--set", "width=8,heads=2,feed_forward=16,depth=1", "--train", "epochs=2"]
LEARNING = "Learning what is ordinary"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sensors")
    ordinary().to_csv(folder / "train.csv", index=False)
    broken().to_csv(folder / "test.csv", index=False)
    return folder


def detect(file: Path, out: Path, *arguments: str) -> dict:
    """The notes and figures of a run."""
    assert main(["detect", str(file), "--out", str(out), "--device", "cpu", *arguments]) == 0
    return json.loads((out / "run.json").read_text())


def test_anomalies_around_rows_without_a_label_are_two(files: Path, tmp_path: Path) -> None:
    frame = broken()
    between = (frame.index >= SPIKE[1]) & (frame.index < SHIFT[0])
    frame["label"] = frame["label"].astype(float).mask(between)
    frame.to_csv(tmp_path / "gap.csv", index=False)
    arguments = ["--fit", str(files / "train.csv"), "--labels", "label", *TINY]
    run = detect(tmp_path / "gap.csv", tmp_path / "out", *arguments)
    assert (run["assessment"]["events"], run["assessment"]["rows"]) == (2, 200 - int(between.sum()))
    assert "2 of 2 marked anomalies are found" in run["verdict"]


@pytest.mark.parametrize("names", [["north", "south"], [1, 2]])
@pytest.mark.parametrize("overlap", [True, False])
def test_machines_of_a_long_file_without_y_are_distinguished(
    names: list, overlap: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = fleet(150).rename(columns={"machine": "unique_id", "date": "ds"})
    frame["unique_id"] = np.repeat(names, 150)
    if not overlap:
        frame["ds"] = ordinary(300)["date"]
    frame.to_csv(tmp_path / "fleet.csv", index=False)
    run = detect(tmp_path / "fleet.csv", tmp_path / "out", *TINY)
    assert (run["series"], run["channels"]) == (2, ["load", "heat"])
    assert {row["unique_id"] for row in rows(tmp_path / "out" / "scores.csv")} == set(map(str, names))
    assert "Long layout: 2 entities told apart by 'unique_id', one row for each and stamp." in capsys.readouterr().out


@pytest.mark.parametrize("copied", [True, False])
def test_learning_from_the_rows_that_are_judged_is_reported_whatever_their_file_is_called(
    files: Path, tmp_path: Path, copied: bool
) -> None:
    fit = Path(shutil.copy(files / "test.csv", tmp_path / "copy.csv")) if copied else files / "test.csv"
    run = detect(files / "test.csv", tmp_path / "out", "--fit", str(fit), "--labels", "label", *TINY)
    marked = SPIKE[1] - SPIKE[0] + SHIFT[1] - SHIFT[0]
    assert run["notes"][0].startswith("The detector learned from the rows it judges")
    assert run["notes"][1] == (
        f"{marked} rows of {fit} are marked as anomalies and were learned from; --fit is for rows without anomalies."
    )
    assert run["request"]["threshold"] == "robust"


def test_marked_rows_among_others_that_are_learned_from_are_counted(files: Path, tmp_path: Path) -> None:
    learned = ordinary().assign(label=0)
    learned.loc[7, "label"] = 1
    learned.to_csv(tmp_path / "train.csv", index=False)
    run = detect(files / "test.csv", tmp_path / "out", "--fit", str(tmp_path / "train.csv"), "--labels", "label", *TINY)
    assert run["notes"][0] == (
        f"1 row of {tmp_path / 'train.csv'} is marked as an anomaly and was learned from; --fit is for rows without "
        "anomalies."
    )
    assert run["request"]["threshold"] == "quantile"


def test_arrays_that_are_judged_by_what_was_learned_from_them_are_reported(tmp_path: Path) -> None:
    values = broken()[["load", "heat", "noise"]].to_numpy()
    np.savez(tmp_path / "pumps.npz", train=values, test=values, test_label=broken()["label"].to_numpy())
    run = detect(tmp_path / "pumps.npz", tmp_path / "out", *TINY)
    assert run["notes"][0].startswith("The detector learned from the rows it judges")
    assert run["request"]["threshold"] == "robust"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "itransfomer"], "Did you mean 'itransformer'"),
        (["--model", "caps_net"], "score rows by its forecasts with mode='forecast' (--mode forecast), or use one of"),
        (["--attention", "rbca"], "rbca"),
        (["--model", "dlinear", "--attention", "toa"], "dlinear has no attention to replace"),
        (["--set", "width=abc"], "must be a whole number"),
        (["--train", "epochz=3"], "Did you mean 'epochs'"),
    ],
)
def test_what_can_not_be_trained_is_refused_before_it_is_said_to_learn(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["detect", str(files / "train.csv"), "--out", str(tmp_path), "--device", "cpu", *arguments]) == 1
    said = capsys.readouterr()
    assert words in said.err
    assert LEARNING not in said.out


def test_the_stamps_hold_no_labels(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["detect", str(files / "test.csv"), "--out", str(tmp_path), "--labels", "date"]) == 1
    told = capsys.readouterr().err
    assert "column 'date' holds the stamps and no labels; name a column of 1 (anomaly) and 0." in told
    assert "Did you mean" not in told
