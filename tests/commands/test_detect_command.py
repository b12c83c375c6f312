"""`rearview detect` in this process: files, exit codes, and sentences for what can't be used."""

import json
import re
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "estimators/detect"))

from runs import rows
from sensors import SHIFT, SPIKE, broken, fleet, ordinary

from rearview.cli import main
from rearview.commands.detect.job import _compare_with_labels, _height
from rearview.estimators.detect.portfolio import portfolio
from rearview.tasks.alarms import Hits, find_runs
from rearview.tasks.assessment import Assessment

FILES = ["anomalies.csv", "model", "report.html", "run.json", "scores.csv", "summary.md"]
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


def test_by_default_several_members_speak(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare = portfolio.network_fit.prepare
    quick = {"training": {"epochs": 2}, "settings": {"width": 8, "heads": 2, "feed_forward": 16, "depth": 1}}
    monkeypatch.setattr(portfolio.network_fit, "prepare", lambda panel, spec: prepare(panel, replace(spec, **quick)))
    monkeypatch.setattr(portfolio, "LEAST_NETWORK", 0)
    fit = ("--fit", str(files / "train.csv"))
    assert detect(files / "test.csv", tmp_path / "one", *fit, "--labels", "label", "--lookback", "24") == 0
    assert "False alarms a day" in flat(capsys.readouterr().out)
    run = json.loads((tmp_path / "one" / "run.json").read_text())
    assert run["model"] == "auto"
    assert {one["name"] for one in run["members"]} == {
        *("clusters", "neighbours", "components", "shapes", "itransformer")
    }
    anomalies = rows(tmp_path / "one" / "anomalies.csv")
    assert all("clusters" in row["members"] for row in anomalies)
    page = (tmp_path / "one" / "report.html").read_text()
    assert '<h2 id="members-title">Members</h2>' in page
    assert detect(files / "test.csv", tmp_path / "two", "--model", str(tmp_path / "one" / "model")) == 0
    assert rows(tmp_path / "two" / "scores.csv") == rows(tmp_path / "one" / "scores.csv")


def test_every_file_is_written_and_says_the_same(done: Path) -> None:
    assert sorted(path.name for path in done.iterdir()) == FILES
    run = json.loads((done / "run.json").read_text())
    anomalies, scores = rows(done / "anomalies.csv"), rows(done / "scores.csv")
    assert len(anomalies) == run["segments"]
    assert len(scores) == run["rows"] == 200
    assert sum(row["anomaly"].lower() == "true" for row in scores) == run["flagged"]
    assert run["assessment"]["event_recall"] == 1.0
    page = (done / "report.html").read_text().replace("&#x27;", "'").replace("&nbsp;", " ")
    lead = re.search(r'<p class="verdict">(.*?)</p>\s*<p class="judgement">(.*?)</p>', page)
    assert lead is not None
    assert f"{lead[1]} {lead[2]}" == run["verdict"]
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


@pytest.mark.parametrize(("setting", "rule"), [("--quantile", "quantile"), ("--risk", "pot")])
def test_a_setting_of_a_threshold_asks_for_it(files: Path, tmp_path: Path, setting: str, rule: str) -> None:
    assert detect(files / "test.csv", tmp_path, "--drop", "label", setting, "0.2", *TINY) == 0
    run = json.loads((tmp_path / "run.json").read_text())
    assert (run["request"]["threshold"], run["request"][rule.replace("pot", "risk")]) == (rule, 0.2)


def test_a_machine_without_any_value_is_named(files: Path, tmp_path: Path, capsys) -> None:
    frame = fleet()
    path = tmp_path / "dead.csv"
    values = [name for name in frame.columns if frame[name].dtype.kind == "f"]
    frame.assign(**{name: frame[name].where(frame["machine"] == "small") for name in values}).to_csv(path, index=False)
    assert detect(path, tmp_path / "out", "--id-col", "machine", *TINY) == 0
    assert "Series 'large' has no value in any row, so no score." in capsys.readouterr().out
    assert {row["unique_id"] for row in rows(tmp_path / "out" / "scores.csv") if row["score"]} == {"small"}


def test_a_constant_channel_is_reported_once_and_carries_nothing(files: Path, tmp_path: Path, capsys) -> None:
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    pd.read_csv(files / "train.csv").assign(valve=1.0).to_csv(train, index=False)
    broken().assign(valve=1.0).to_csv(test, index=False)
    assert detect(test, tmp_path / "out", "--labels", "label", "--fit", str(train), *TINY) == 0
    told = flat(capsys.readouterr().out)
    assert "Channel 'valve' never varies in the rows to train on" in told
    assert "nothing can be learned" not in told
    found = json.loads((tmp_path / "out" / "run.json").read_text())["findings"]
    assert [(one["kind"], one["what"]) for one in found if "valve" in one["message"]] == [("warning", "flat_channels")]
    assert "<h3>Repaired</h3>" not in (tmp_path / "out" / "report.html").read_text()
    assert "valve" not in (tmp_path / "out" / "anomalies.csv").read_text()


def test_machines_of_a_long_file_are_distinguished(files: Path, tmp_path: Path) -> None:
    assert detect(files / "fleet.csv", tmp_path, "--id-col", "machine", *TINY) == 0
    assert {row["unique_id"] for row in rows(tmp_path / "scores.csv")} == {"small", "large"}


def test_an_archive_brings_training_rows_and_labels(tmp_path: Path, capsys) -> None:
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
    assert "brings its own training rows and labels" in capsys.readouterr().err
    assert detect(tmp_path / "pumps.npz", tmp_path / "out", "--freq", "h", *TINY) == 2
    assert "leave out --freq" in capsys.readouterr().err
    assert detect(tmp_path / "pumps.npz", tmp_path / "out", "--drop", "load", *TINY) == 1
    assert "has no channel 'load', which --drop names" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--drop", "channel 0"], ["--channels", "channel 1,channel 2"]])
def test_some_channels_of_an_archive_can_be_looked_at(tmp_path: Path, arguments: list[str]) -> None:
    columns = ["load", "heat", "noise"]
    parts = {"train": ordinary()[columns].to_numpy(), "test": broken()[columns].to_numpy()}
    np.savez(tmp_path / "pumps.npz", **parts, test_label=broken()["label"].to_numpy())
    assert detect(tmp_path / "pumps.npz", tmp_path / "out", *arguments, *TINY) == 0
    assert json.loads((tmp_path / "out" / "run.json").read_text())["channels"] == ["channel 1", "channel 2"]


def change(files: Path, **columns) -> Path:
    path = files / "changed.csv"
    broken().assign(**columns).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--labels", "truth"], 1, "has no column of numbers 'truth' to take labels from"),
        (["--labels", "truth"], 1, "'noise' and 'label'. If 'label' marks anomalies, say --labels label."),
        (["--labels", "label", "--drop", "label"], 1, "train with --labels label in place of --drop"),
        (["--fit", "smap", "--labels", "label"], 1, "There is no file smap. SMAP is a benchmark set of detection"),
        (["--labels", "load"], 1, "a label is 1 (anomaly) or 0 (ordinary)"),
        (["--fit", "train.csv", "--model", "somewhere/model"], 2, "give one of the two"),
        (["--model", "somewhere/model"], 1, "holds no saved detector"),
        (["--model", "somewhere/model", "--lookback", "7"], 2, "leave out the setting lookback"),
        (["--fit", "train.csv"], 1, "has no column 'label', which"),
        (["--fit", "train.csv"], 1, "If 'label' marks anomalies, say --labels label."),
        (["--fit", "train.csv", "--drop", "label", "--lookback", "900"], 1, "a window takes 900 rows"),
        (["--fit", "train.csv", "--drop", "lable"], 1, "has the column 'lable', which --drop names"),
        (["--drop", "label", "--threshold", "often"], 1, "threshold is 'often'"),
        (
            ["--threshold", "pot", "--quantile", "0.9"],
            2,
            "--quantile belongs to --threshold quantile, but the",
        ),
        (["--threshold", "3", "--risk", "0.1"], 2, "--risk belongs to --threshold pot, but the threshold is 3.0"),
        (["--quantile", "0.9", "--risk", "0.1"], 2, "--quantile belongs to --threshold quantile, but"),
        (["--drop", "label", "--channels", "tilt"], 1, "has no column of numbers 'tilt', which the detector looks at"),
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


def test_a_saved_model_warns_of_the_column_that_is_called_like_labels(
    done: Path, files: Path, tmp_path: Path, capsys
) -> None:
    assert detect(files / "test.csv", tmp_path, "--model", str(done / "model"), "--labels", "nope") == 1
    told = capsys.readouterr().err
    assert "It has 'date', 'load', 'heat', 'noise' and 'label'. If 'label' marks anomalies, say --labels label." in told
    assert detect(change(files, note="good"), tmp_path, "--model", str(done / "model"), "--labels", "note") == 1
    assert "column 'note', which is to hold the labels, holds text" in capsys.readouterr().err


def test_the_name_of_a_benchmark_set_is_answered_with_the_command_that_runs_it(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["detect", "SMAP"]) == 1
    assert capsys.readouterr().err == (
        "rearview: There is no file SMAP. SMAP is a benchmark set of detection: `rearview reproduce rearview --table "
        "detection --dataset SMAP` runs it, and `rearview detect` takes its file (SMAP.npz).\n"
    )
    (tmp_path / "MSL").write_text("date,a\n")  # a file of its own, whatever it is called
    assert main(["detect", "MSL"]) == 1
    assert "benchmark set" not in capsys.readouterr().err


def test_an_all_missing_channel_and_labels_of_nothing(files: Path, tmp_path: Path, capsys) -> None:
    empty = change(files, heat=np.nan)
    assert detect(empty, tmp_path, "--labels", "label", *TINY) == 1
    assert "'heat'" in capsys.readouterr().err
    assert detect(empty, tmp_path, "--labels", "label", "--fit", str(files / "train.csv"), *TINY) == 0
    assert "no value of 'heat': its scores rest on 2 of 3 channels." in flat(capsys.readouterr().out)
    nothing = change(files, heat=np.nan, load=np.nan, noise=np.nan)
    assert detect(nothing, tmp_path, "--labels", "label", "--fit", str(files / "train.csv"), *TINY) == 1
    assert "has no value of any channel in any row" in capsys.readouterr().err
    unlabelled = change(files, label=np.nan)
    assert detect(unlabelled, tmp_path, "--labels", "label", "--fit", str(files / "train.csv"), *TINY) == 1
    assert "the label column 'label' is empty" in capsys.readouterr().err
    unmarked = change(files, label=0)
    assert detect(unmarked, tmp_path, "--fit", str(files / "train.csv"), "--labels", "label", *TINY) == 0
    assert "The labels mark no anomaly" in capsys.readouterr().out
    assert json.loads((tmp_path / "run.json").read_text())["assessment"]["auc_pr"] is None


def test_a_channel_that_falls_silent_is_named_also_by_a_saved_model(
    files: Path, done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = broken()
    rows.loc[170:, "load"] = np.nan
    rows.loc[10:20, "heat"] = np.nan  # shorter than a window
    rows.to_csv(tmp_path / "silent.csv", index=False)
    assert detect(tmp_path / "silent.csv", tmp_path / "out", "--labels", "label", "--model", str(done / "model")) == 0
    told = flat(capsys.readouterr().out)
    assert "41 cells are missing" in told
    assert f"Where a channel has no value it is not judged: 'load' for 30 rows from {rows['date'][170]}." in told


def test_the_order_of_columns_changes_nothing(files: Path, done: Path, tmp_path: Path) -> None:
    turned = files / "turned.csv"
    broken()[["noise", "label", "heat", "date", "load"]].to_csv(turned, index=False)
    arguments = ["--fit", str(files / "train.csv"), "--labels", "label", *TINY]
    assert detect(turned, tmp_path, *arguments) == 0
    one, two = (json.loads((folder / "run.json").read_text())["assessment"] for folder in (done, tmp_path))
    assert two["auc_pr"] == pytest.approx(one["auc_pr"], abs=0.1)
    assert two["event_recall"] == 1


def test_rows_of_another_step_are_refused_and_few_rows_need_not_tell_theirs(
    files: Path, tmp_path: Path, capsys
) -> None:
    arguments = ["--fit", str(files / "train.csv"), "--labels", "label", *TINY]
    daily = change(files, date=pd.date_range("2024-01-01", periods=200))
    assert detect(daily, tmp_path, *arguments) == 1
    assert "has a row every day (D), but the model was trained on steps of h" in capsys.readouterr().err
    few = files / "few.csv"
    broken().iloc[:2].to_csv(few, index=False)
    assert detect(few, tmp_path, *arguments) == 0
    assert len(rows(tmp_path / "scores.csv")) == 2


def test_labels_of_rows_without_a_score_do_not_cost_the_run(files: Path, tmp_path: Path, capsys) -> None:
    """A forecast needs rows before it, and here only the first ones are labelled."""
    first = change(files, label=np.where(np.arange(200) < 3, 0, np.nan))
    arguments = ["--fit", str(files / "train.csv"), "--labels", "label", "--mode", "forecast", *TINY]
    assert detect(first, tmp_path, *arguments) == 0
    assert "has both a label and a score, so there is nothing to compare." in flat(capsys.readouterr().out)
    assert json.loads((tmp_path / "run.json").read_text())["assessment"] is None


@pytest.mark.parametrize(
    ("score", "threshold", "words"),
    [
        (12.0, 5.0, "2.4 times the threshold"),
        (1000.0, 0.5, "2,000 times the threshold"),
        (1e30, 2.0, "more than 10,000 times the threshold"),
        (3.25, 0.0, "with a score of 3.25"),
    ],
)
def test_a_height_is_put_in_words(score: float, threshold: float, words: str) -> None:
    assert _height(score, threshold) == words


def test_a_column_that_looks_like_labels_is_pointed_at(files: Path, tmp_path: Path, capsys) -> None:
    assert detect(files / "test.csv", tmp_path, *TINY) == 0
    assert "if it marks anomalies, say --labels label." in flat(capsys.readouterr().out)
    assert detect(change(files, label=np.arange(200)), tmp_path, *TINY) == 0
    assert "--labels" not in capsys.readouterr().out


def assessment(**given: float) -> Assessment:
    return Assessment(**{**dict.fromkeys((field.name for field in fields(Assessment)), 0.5), **given})


@pytest.mark.parametrize(
    ("events", "touched", "labelled", "right", "words"),
    [
        (76, 37, 40, 35, "35 of the 40 found are right; 37 of 76 marked anomalies are found."),
        (76, 1, 40, 1, "1 of the 40 found is right; 1 of 76 marked anomalies is found."),
        (76, 0, 2000, 0, "None of the 2,000 found is right; none of 76 marked anomalies is found."),
        (1, 1, 1, 1, "The one found is right; the one marked anomaly is found."),
        (1, 0, 1, 0, "The one found is a false alarm; the one marked anomaly is not found."),
        (2, 0, 0, 0, "None of 2 marked anomalies is found."),
    ],
)
def test_the_judgement_counts_anomalies(events: int, touched: int, labelled: int, right: int, words: str) -> None:
    found = assessment(rows=900, anomalous=90, events=events, event_recall=touched / events)
    assert (
        _compare_with_labels(found, labelled, Hits(labelled, right))
        == f"{words} AUC-PR 0.500, where chance gets 0.100."
    )


@pytest.mark.parametrize(
    ("found", "labelled", "words"),
    [
        (0, 0, "The labels mark no anomaly either."),
        (1, 1, "The labels mark no anomaly, so the one found is a false alarm."),
        (22, 22, "The labels mark no anomaly, so all 22 found are false alarms."),
        (22, 2, "The labels mark no anomaly, so all 2 found in labelled rows are false alarms."),
        (22, 0, "The labels mark no anomaly."),
    ],
)
def test_what_is_found_where_nothing_is_marked_is_a_false_alarm(found: int, labelled: int, words: str) -> None:
    assert _compare_with_labels(assessment(rows=90, anomalous=0, events=0), found, Hits(labelled, 0)) == words


def test_verdict_tile_and_table_count_the_same_anomalies(files: Path, tmp_path: Path) -> None:
    """Flags that are joined count as one, also where they are held against labels."""
    arguments = ["--fit", str(files / "train.csv"), "--labels", "label", "--quantile", "0.8", *TINY]
    assert detect(files / "test.csv", tmp_path, *arguments) == 0
    run, found = json.loads((tmp_path / "run.json").read_text()), pd.read_csv(tmp_path / "anomalies.csv")
    flags = pd.read_csv(tmp_path / "scores.csv")["anomaly"].to_numpy()
    assert len(found) < len(find_runs(flags))
    marked = pd.to_datetime(broken()["date"])[(broken()["label"] == 1) & flags]
    right = sum(
        marked.between(start, end).any()
        for start, end in zip(pd.to_datetime(found["start"]), pd.to_datetime(found["end"]), strict=True)
    )
    assert 1 < right < len(found)
    assert run["verdict"].startswith(f"{len(found)} anomalies in 200 rows.")
    assert f" {right} of the {len(found)} found are right; 2 of 2 marked anomalies are found." in run["verdict"]
    assert run["assessment"]["event_precision"] == pytest.approx(right / len(found))
    assert f"<dt>Anomalies</dt><dd><b>{len(found)}</b>" in (tmp_path / "report.html").read_text()


def test_anomalies_in_rows_without_a_label_are_neither_right_nor_wrong(done: Path, files: Path, tmp_path: Path) -> None:
    labels = broken()["label"].where(np.arange(200) < SHIFT[0] - 20)
    assert detect(change(files, label=labels), tmp_path, "--model", str(done / "model"), "--labels", "label") == 0
    run, whole = (json.loads((folder / "run.json").read_text()) for folder in (tmp_path, done))
    starts = pd.to_datetime(pd.read_csv(tmp_path / "anomalies.csv")["start"])
    labelled = int((starts < pd.to_datetime(broken()["date"])[SHIFT[0] - 20]).sum())
    assert labelled < run["segments"] == whole["segments"]
    assert run["assessment"]["event_precision"] == pytest.approx(1 / labelled)
    words = "the one found" if labelled == 1 else f"1 of the {labelled} found"
    assert (
        f". {words[0].upper()}{words[1:]} in labelled rows is right; the one marked anomaly is found." in run["verdict"]
    )


def test_the_folder_is_not_that_of_a_forecast(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["detect", str(files / "test.csv"), "--device", "cpu", *TINY]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["rearview-detect-test"]


def test_frames_read_from_disk_and_memory_agree(done: Path) -> None:
    from rearview import Detector

    flags = Detector.load(done / "model").predict(broken()).flags
    scores = pd.read_csv(done / "scores.csv")
    np.testing.assert_allclose(flags["score"], scores["score"], rtol=1e-5)
