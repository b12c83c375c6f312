"""`rearview detect` in this process: files, exit codes, and sentences for what can't be used."""

import csv
import json
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "detecting"))

from sensors import SHIFT, SPIKE, broken, fleet, ordinary

from rearview.cli import main
from rearview.jobs.detect import _judgement
from rearview.tasks.assess import Assessment

FILES = ["anomalies.csv", "model", "report.html", "run.json", "scores.csv"]
TINY = ["--lookback", "24", "--set", "width=8,heads=2,feed_forward=16,depth=1", "--train", "epochs=3"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sensors")
    ordinary().to_csv(folder / "train.csv", index=False)
    broken().to_csv(folder / "test.csv", index=False)
    fleet().to_csv(folder / "fleet.csv", index=False)
    return folder


def detect(file: Path, out: Path, *arguments: str) -> int:
    return main(["detect", str(file), "--out", str(out), "--device", "cpu", *arguments])


@pytest.fixture(scope="module")
def done(files: Path) -> Path:
    out = files / "out"
    assert detect(files / "test.csv", out, "--fit", str(files / "train.csv"), "--labels", "label", *TINY) == 0
    return out


def flat(text: str) -> str:
    """What a terminal shows, without its line ends."""
    return " ".join(text.split())


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_file_is_written_and_says_the_same(done: Path) -> None:
    assert sorted(path.name for path in done.iterdir()) == FILES
    run = json.loads((done / "run.json").read_text())
    anomalies, scores = rows(done / "anomalies.csv"), rows(done / "scores.csv")
    assert len(anomalies) == run["segments"]
    assert len(scores) == run["rows"] == 200
    assert sum(row["anomaly"].lower() == "true" for row in scores) == run["flagged"]
    assert run["assessment"]["event_recall"] == 1.0
    assert run["verdict"] in (done / "report.html").read_text().replace("&#x27;", "'")
    best = {row["channels"].split("; ")[0] for row in sorted(anomalies, key=lambda row: -float(row["score"]))[:2]}
    assert best == {"heat", "load"}


def test_a_saved_model_is_used_as_it_is(done: Path, files: Path, tmp_path: Path) -> None:
    assert detect(files / "test.csv", tmp_path, "--model", str(done / "model"), "--labels", "label") == 0
    assert rows(tmp_path / "scores.csv") == rows(done / "scores.csv")
    assert not (tmp_path / "model").exists()


def test_without_ordinary_rows_it_learns_from_the_file_and_warns(files: Path, tmp_path: Path, capsys) -> None:
    assert detect(files / "test.csv", tmp_path, "--drop", "label", *TINY) == 0
    assert "learned from the rows it judges" in capsys.readouterr().out
    run = json.loads((tmp_path / "run.json").read_text())
    assert run["request"]["threshold"] == "robust"
    assert 0 < run["flagged"] < 60


def test_machines_of_a_long_file_are_told_apart(files: Path, tmp_path: Path) -> None:
    assert detect(files / "fleet.csv", tmp_path, "--id-col", "machine", *TINY) == 0
    assert {row["unique_id"] for row in rows(tmp_path / "scores.csv")} == {"small", "large"}


def test_an_archive_brings_training_rows_and_labels(tmp_path: Path) -> None:
    columns = ["load", "heat", "noise"]
    np.savez(
        tmp_path / "pumps.npz",
        train=ordinary()[columns].to_numpy(),
        test=broken()[columns].to_numpy(),
        test_label=broken()["label"].to_numpy(),
    )
    assert detect(tmp_path / "pumps.npz", tmp_path / "out", *TINY) == 0
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["assessment"]["anomalous"] == SPIKE[1] - SPIKE[0] + SHIFT[1] - SHIFT[0]
    assert detect(tmp_path / "pumps.npz", tmp_path / "out", "--labels", "x", *TINY) == 2


def change(files: Path, **columns) -> Path:
    path = files / "changed.csv"
    broken().assign(**columns).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--labels", "truth"], 1, "has no column of numbers 'truth' to take labels from"),
        (["--labels", "load"], 1, "a label is 1 (anomaly) or 0 (ordinary)"),
        (["--fit", "train.csv", "--model", "somewhere/model"], 2, "give one of the two"),
        (["--model", "somewhere/model"], 1, "holds no saved detector"),
        (["--model", "somewhere/model", "--lookback", "7"], 2, "leave out the setting lookback"),
        (["--fit", "train.csv"], 1, "has no column 'label', which"),
        (["--fit", "train.csv"], 1, "If 'label' marks anomalies, say --labels label."),
        (["--fit", "train.csv", "--drop", "label", "--lookback", "900"], 1, "a window takes 900 rows"),
        (["--fit", "train.csv", "--drop", "lable"], 1, "has the column 'lable', which --drop names"),
        (["--drop", "label", "--threshold", "often"], 1, "threshold is 'often'"),
        (["--drop", "label", "--model", "itransfomer"], 1, "Did you mean 'itransformer'"),
    ],
)
def test_what_can_not_be_done_is_said_in_one_sentence(
    files: Path, tmp_path: Path, monkeypatch, capsys, arguments: list[str], code: int, words: str
) -> None:
    monkeypatch.chdir(files)
    assert detect(files / "test.csv", tmp_path / "out", *arguments) == code
    error = capsys.readouterr().err
    assert words in error
    assert error.startswith("rearview: ")
    assert "Traceback" not in error


def test_an_all_missing_channel_and_labels_of_nothing(files: Path, tmp_path: Path, capsys) -> None:
    empty = change(files, heat=np.nan)
    assert detect(empty, tmp_path, "--labels", "label", *TINY) == 1
    assert "'heat'" in capsys.readouterr().err
    assert detect(empty, tmp_path, "--labels", "label", "--fit", str(files / "train.csv"), *TINY) == 0
    assert "no value of 'heat': its scores rest on 2 of 3 channels." in flat(capsys.readouterr().out)
    unmarked = change(files, label=0)
    assert detect(unmarked, tmp_path, "--fit", str(files / "train.csv"), "--labels", "label", *TINY) == 0
    assert "The labels mark no anomaly" in capsys.readouterr().out
    assert json.loads((tmp_path / "run.json").read_text())["assessment"]["auc_pr"] is None


def test_a_column_that_looks_like_labels_is_pointed_at(files: Path, tmp_path: Path, capsys) -> None:
    assert detect(files / "test.csv", tmp_path, *TINY) == 0
    assert "if it marks anomalies, say --labels label." in flat(capsys.readouterr().out)
    assert detect(change(files, label=np.arange(200)), tmp_path, *TINY) == 0
    assert "--labels" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("events", "recall", "words"),
    [
        (76, 37 / 76, "The alarms touch 37 of 76 marked anomalies; 88 % of the alarms are right."),
        (76, 0.0, "The alarms touch none of 76 marked anomalies;"),
        (1, 1.0, "The alarms touch the one marked anomaly;"),
        (1, 0.0, "No alarm touches the one marked anomaly;"),
    ],
)
def test_the_judgement_counts_what_alarms_touch(events: int, recall: float, words: str) -> None:
    numbers = dict.fromkeys((field.name for field in fields(Assessment)), 0.5)
    counts = {"rows": 900, "anomalous": 90, "events": events, "flagged": 50}
    found = Assessment(**{**numbers, **counts, "event_recall": recall, "event_precision": 0.88})
    assert _judgement(found).startswith(words)


def test_frames_read_from_disk_and_memory_agree(done: Path) -> None:
    from rearview import Detector

    flags = Detector.load(done / "model").predict(broken()).flags
    scores = pd.read_csv(done / "scores.csv")
    np.testing.assert_allclose(flags["score"], scores["score"], rtol=1e-5)
