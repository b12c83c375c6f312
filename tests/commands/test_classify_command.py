"""`rearview classify` from start to end: what it prints, what it writes, what it refuses."""

import csv
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "estimators/classify"))
from small_sets import unequal, waves, write_ts

from rearview.cli import main
from rearview.estimators.classify.classifier import Classifier

QUICK = ["--set", "width=16,heads=2,depth=1,feed_forward=32", "--train", "epochs=25,learning_rate=0.01"]
BRIEF = [*QUICK[:2], "--train", "epochs=1"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cases")
    X, y = waves()
    X_test, y_test = waves(45, seed=7)
    train = write_ts(folder / "Waves_TRAIN.ts", unequal(X), y)
    test = write_ts(folder / "Waves_TEST.ts", unequal(X_test, seed=8), y_test)
    return str(train), str(test)


@pytest.fixture(scope="module")
def done(files, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "run"
    assert main(["classify", *files, "--out", str(out), *QUICK]) == 0
    return out


def test_it_prints_accuracy_confusion_and_classes(files, tmp_path, capsys):
    assert main(["classify", *files, "--out", str(tmp_path / "run"), *QUICK]) == 0
    text = capsys.readouterr().out
    accuracy = float(next(line for line in text.splitlines() if line.startswith("accuracy ")).split()[1])
    assert accuracy > 0.85
    assert "macro F1 0." in text or "macro F1 1." in text
    assert "Confusion (true classes down, predicted across)" in text
    assert "precision" in text
    assert "test cases correctly" in text


def test_it_writes_predictions_model_page_and_run(files, done):
    written = ["model", "predictions.csv", "report.html", "run.json", "summary.md"]
    assert sorted(path.name for path in done.iterdir()) == written
    with (done / "predictions.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    run = json.loads((done / "run.json").read_text())
    assert len(rows) == 45 == run["cases"]["test"]
    right = sum(row["class"] == row["predicted"] for row in rows)
    assert run["accuracy"] == pytest.approx(right / 45)
    assert np.trace(run["confusion"]) == right
    shares = [[float(value) for name, value in row.items() if name.startswith("probability")] for row in rows]
    np.testing.assert_allclose(np.sum(shares, axis=1), 1, atol=1e-5)
    again = Classifier.load(done / "model")
    from rearview.data.io import ts

    assert again.predict(ts.read(files[1])).tolist() == [row["predicted"] for row in rows]


def test_the_default_is_a_portfolio_with_a_leaderboard(files, tmp_path, capsys, monkeypatch):
    from rearview.estimators.classify.portfolio import blocks, portfolio

    monkeypatch.setattr(portfolio, "LARGE", blocks.FeatureCounts(biases=84 * 2, groups=8, shapelets=128))
    monkeypatch.setattr(portfolio, "MOST_NETWORK_SERIES", 0)
    assert main(["classify", *files, "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert "The portfolio classifies 45 of 45 test cases correctly (100.0 %)" in said
    assert "nearest neighbour" in said
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["request"]["model"] == "auto"
    assert [one["name"] for one in run["leaderboard"]][-1] == "vote"
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert '<th scope="row">convolutions and shapelets</th>' in page
    assert Classifier.load(tmp_path / "run" / "model").predict(files[1]).tolist() == [
        row["predicted"] for row in csv.DictReader((tmp_path / "run" / "predictions.csv").read_text().splitlines())
    ]


def test_the_page_shows_the_classes(done):
    page = (done / "report.html").read_text(encoding="utf-8")
    assert page.count("<table") == 2
    for label in ("slow", "quick", "flat"):
        assert f'<th scope="row">{label}</th>' in page


def test_the_page_names_network_and_attention(done):
    page = (done / "report.html").read_text(encoding="utf-8")
    settings = page[page.index('<dl class="settings">') :]
    assert "network" in settings
    assert "attention" in settings


def test_a_class_seen_only_in_the_test_is_reported(files, tmp_path, capsys):
    X, y = waves(9, seed=3)
    y = y.astype("U10")
    y[0] = "unheard"
    test = write_ts(tmp_path / "strange.ts", X, y)
    assert main(["classify", files[0], str(test), "--out", str(tmp_path / "run"), *QUICK]) == 0
    assert "1 of 9 cases of strange.ts is of a class that training did not have ('unheard')" in capsys.readouterr().out
    assert json.loads((tmp_path / "run" / "run.json").read_text())["classes"][-1] == "unheard"


def test_many_classes_seen_only_in_the_test_are_counted(files, tmp_path, capsys):
    X, y = waves(9, seed=3)
    test = write_ts(tmp_path / "strange.ts", X, [y[0], *(f"new{number}" for number in range(8))])
    assert main(["classify", files[0], str(test), "--out", str(tmp_path / "run"), *BRIEF]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "8 of 9 cases of strange.ts are" in told
    assert "('new0', 'new1', 'new2', 'new3', 'new4' and 3 more): it can't be predicted" in told


def test_files_without_a_class_in_common_are_refused_before_training(files, tmp_path, capsys):
    X, y = waves(9, seed=3)
    test = write_ts(tmp_path / "strange.ts", X, np.char.upper(y))
    assert main(["classify", files[0], str(test), "--out", str(tmp_path / "run"), *QUICK]) == 1
    said = capsys.readouterr()
    assert (
        f"{files[0]} and {test} have no class in common: the one has 'flat', 'quick' and 'slow', the other 'FLAT', "
        "'QUICK' and 'SLOW'; bring two files of the same classes, spelt alike."
    ) in said.err
    assert "training" not in said.out
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--validation", "1"], "validation is 1.0"),
        (["--model", "patchtsd"], "Did you mean 'patchtst'"),
        (["--model", "dlinear", "--attention", "toa"], "dlinear"),
        (["--set", "heads=3,width=16"], "3 heads"),
        (["--train", "epochz=3"], "Did you mean 'epochs'"),
    ],
)
def test_what_can_not_be_trained_is_refused_before_training_is_said_to_begin(files, tmp_path, capsys, arguments, words):
    assert main(["classify", *files, "--out", str(tmp_path / "run"), *arguments]) == 1
    said = capsys.readouterr()
    assert words in said.err
    assert "training on" not in said.out


def test_a_test_case_without_any_value_is_refused_before_training(files, tmp_path, capsys):
    X, y = waves(9, seed=3)
    X[4] = np.nan
    test = write_ts(tmp_path / "gaps.ts", X, y)
    assert main(["classify", files[0], str(test), "--out", str(tmp_path / "run"), *BRIEF]) == 1
    said = capsys.readouterr()
    assert re.search(r"gaps.ts, line \d+ has no value at all, so nothing can be said of it; leave it out.", said.err)
    assert "training" not in said.out


def test_a_table_is_refused_with_the_format_it_takes(files, tmp_path, capsys):
    table = tmp_path / "cases.dat"
    table.write_text("id,time,a,class\n1,1,0.5,up\n1,2,0.7,up\n")
    assert main(["classify", str(table), files[1], "--out", str(tmp_path / "run"), *BRIEF]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"rearview: {table} is no .ts file")
    assert "Write the cases as .ts (@classLabel true and the classes, @data, then a case a line" in said
    assert not (tmp_path / "run").exists()


def write_long(path, X, y):
    """The cases as a long table: a row a case and step, a column a channel, stamps whose letters are not in order."""
    import polars as pl

    lines = [
        {"id": case, "date": f"{step + 1}.3.2024", "kind": label, **{f"c{n}": one[n, step] for n in range(len(one))}}
        for case, (one, label) in enumerate(zip(X, y, strict=True))
        for step in range(one.shape[1])
    ]
    frame = pl.DataFrame(lines)
    frame.write_parquet(path) if path.suffix == ".parquet" else frame.write_csv(path)
    return str(path)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_long_files_give_what_ts_files_give(tmp_path, ending):
    sets = {"train": waves(30, steps=25), "test": waves(15, steps=25, seed=7)}
    known = [str(write_ts(tmp_path / f"{name}.ts", *one)) for name, one in sets.items()]
    rounded = {name: (np.round(X, 6), y) for name, (X, y) in sets.items()}
    long = [write_long(tmp_path / f"{name}.{ending}", *one) for name, one in rounded.items()]
    for files, more in ((known, []), (long, ["--labels", "kind", "--id-col", "id", "--time-col", "date"])):
        out = tmp_path / f"run-{Path(files[0]).suffix}"
        assert main(["classify", *files, *more, "--out", str(out), "--device", "cpu", *BRIEF]) == 0
    theirs, ours = (
        list(csv.DictReader((tmp_path / f"run-{end}" / "predictions.csv").read_text().splitlines()))
        for end in (".ts", f".{ending}")
    )
    assert [row["case"] for row in ours] == [str(case) for case in range(15)]
    assert [{**row, "case": ""} for row in ours] == [{**row, "case": ""} for row in theirs]


def test_columns_of_long_files_are_refused_by_name(files, tmp_path, capsys):
    long = write_long(tmp_path / "train.csv", *waves(6, steps=9))
    assert main(["classify", long, long, "--out", str(tmp_path / "run"), *BRIEF]) == 1
    assert (
        "train.csv has no column called label or class; say with labels (--labels) which of" in capsys.readouterr().err
    )
    assert main(["classify", *files, "--labels", "kind", "--out", str(tmp_path / "run"), *BRIEF]) == 2
    assert "name columns of a long file, which" in capsys.readouterr().err


def test_a_test_that_is_the_training_is_reported(files, tmp_path, capsys):
    copy = tmp_path / "copy.ts"
    copy.write_bytes(Path(files[0]).read_bytes())
    for test in (files[0], str(copy)):
        assert main(["classify", files[0], test, "--out", str(tmp_path / "run"), *BRIEF]) == 0
        notes = json.loads((tmp_path / "run" / "run.json").read_text())["notes"]
        assert any(note.startswith(f"{test} holds the same cases as {files[0]}: ") for note in notes)
        assert "holds the same cases as" in capsys.readouterr().out


def test_a_test_of_its_own_is_not_taken_for_the_training(done):
    assert not any("same cases" in note for note in json.loads((done / "run.json").read_text())["notes"])


def test_the_folder_is_named_after_command_and_file(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["classify", *files, *BRIEF]) == 0
    assert (tmp_path / "rearview-classify-Waves_TRAIN" / "predictions.csv").exists()


def test_a_channel_without_values_in_the_test_is_reported(files, tmp_path, capsys):
    X, y = waves(9, seed=3)
    X[4, 1] = np.nan
    test = write_ts(tmp_path / "gaps.ts", X, y)
    assert main(["classify", files[0], str(test), "--out", str(tmp_path / "run"), *QUICK]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "1 of 9 cases of gaps.ts has a channel without any value (channel 2): the training mean stands there" in told


@pytest.mark.parametrize("word", ["", "wave_"])
def test_classes_with_numbers_stand_in_their_order(word, tmp_path, capsys):
    X, y = waves(30)
    y = np.array([f"{word}2.0", f"{word}10.0", f"{word}1.0"])[np.unique(y, return_inverse=True)[1]]
    files = [str(write_ts(tmp_path / f"{part}.ts", X, y)) for part in ("a", "b")]
    assert main(["classify", *files, "--out", str(tmp_path / "run"), *BRIEF]) == 0
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (
        run["classes"]
        == [one["label"] for one in run["by_class"]]
        == [f"{word}{number}" for number in ("1.0", "2.0", "10.0")]
    )
    head = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("true "))
    assert re.findall(r"[\d.]+", head) == ["1.0", "2.0", "10.0"]


def test_a_longer_test_is_reported(files, tmp_path, capsys):
    X, y = waves(9, steps=50, seed=3)
    test = write_ts(tmp_path / "long.ts", X, y)
    assert main(["classify", files[0], str(test), "--out", str(tmp_path / "run"), *QUICK]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "only their last 40 steps count" in told
    assert re.search(r"Train with lookback=(\d+) \(--lookback \1\) to read them whole", told)


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ("one class", "are of one class, 'flat'"),
        ("empty channel", "channel 2 has no value in any"),
        ("channels", "has 2 channels, but"),
        ("no classes", "have no class, so nothing can be scored"),
        ("no data", "no .ts file"),
        ("too large", "line 11: channel 1, step 1 is too large for float32 (1e+300)"),
    ],
)
def test_bad_files_are_refused_in_a_sentence(files, tmp_path, capsys, broken, sentence):
    X, y = waves(12)
    train, test = files
    path = tmp_path / "broken.ts"
    if broken == "one class":
        train = write_ts(path, X, ["flat"] * 12)
    elif broken == "empty channel":
        X[:, 1] = np.nan
        train = write_ts(path, X, y)
    elif broken == "channels":
        test = write_ts(path, X[:, :1], y)
    elif broken == "no classes":
        path.write_text("@classLabel false\n@data\n1,2:3,4\n")
        test = path
    elif broken == "too large":
        text = write_ts(path, X, y).read_text()
        path.write_text(re.sub(r"(@data\n)[^,]+", r"\g<1>1e300", text))
        train = path
    else:
        path.write_text("@problemName none\n")
        train = path
    assert main(["classify", str(train), str(test), "--out", str(tmp_path / "run"), *QUICK]) == 1
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_saved_classifier_tells_new_cases_apart(done, tmp_path, capsys):
    X, _ = waves(45, seed=7)
    rows = "".join(
        f"{case},{t},{','.join(map(repr, X[case, :, t].tolist()))}\n" for case in range(45) for t in range(X.shape[2])
    )
    names = ",".join(f"c{channel}" for channel in range(X.shape[1]))
    new, model, out = tmp_path / "new.csv", str(done / "model"), tmp_path / "run"
    new.write_text(f"id,t,{names}\n{rows}")
    assert main(["classify", "--model", model, str(new), "--out", str(out)]) == 0
    assert re.search(r"patchtst predicts \w+ \(\d+\), \w+ \(\d+\).* for 45 cases", capsys.readouterr().out)
    assert sorted(path.name for path in out.iterdir()) == ["predictions.csv", "report.html", "run.json", "summary.md"]
    predicted = list(csv.DictReader((out / "predictions.csv").read_text().splitlines()))
    assert "class" not in predicted[0]
    assert [row["predicted"] for row in predicted] == Classifier.load(model).predict(X).tolist()
    run = json.loads((out / "run.json").read_text())
    assert "accuracy" not in run
    assert sum(run["predicted"].values()) == 45
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Least certain" in page
    assert "Confusion" not in page


def test_a_saved_classifier_is_scored_where_the_file_says_the_classes(files, done, tmp_path, capsys):
    assert main(["classify", files[1], "--model", str(done), "--out", str(tmp_path / "run"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["accuracy"] == json.loads((done / "run.json").read_text())["accuracy"]
    assert answer["commonest_class_accuracy"] is None
    assert len(answer["predictions"]) == 45
    assert "Commonest training class" not in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a.ts", "b.ts", "--model", "{model}"], "is used on one file of new cases; leave out b.ts"),
        (["a.ts", "--model", "{model}", "--lookback", "9"], "is used as it was saved; leave out the setting lookback"),
        (["{file}"], "A file to test on is missing"),
    ],
)
def test_a_saved_classifier_takes_one_file_and_no_settings(files, done, capsys, arguments, sentence):
    given = [one.format(model=done / "model", file=files[0]) for one in arguments]
    assert main(["classify", *given]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(("given", "code"), [(["Libras"], 2), (["libras", "Libras"], 1)])
def test_the_name_of_a_benchmark_set_is_answered_with_the_command_that_runs_it(
    tmp_path, monkeypatch, capsys, given, code
):
    monkeypatch.chdir(tmp_path)
    assert main(["classify", *given]) == code
    told = capsys.readouterr().err
    assert "Libras is a benchmark set of classification: `rearview reproduce rearview --table classification " in told
    assert "takes its files (Libras_TRAIN.ts and Libras_TEST.ts)" in told


def test_a_page_can_not_be_broken_by_a_name(tmp_path):
    """Class names are text of the data: nothing in them may become part of the page."""
    X, y = waves(12)
    y = np.array(["<script>alert(1)</script>", "b&amp;", '"c"'])[np.unique(y, return_inverse=True)[1]]
    files = [str(write_ts(tmp_path / f"{part}.ts", X, y)) for part in ("a", "b")]
    assert main(["classify", *files, "--out", str(tmp_path / "run"), *BRIEF]) == 0
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


@pytest.mark.slow
def test_real_cases_are_classified(real_data, tmp_path):
    folder = real_data / "uea" / "BasicMotions"
    files = [str(folder / f"BasicMotions_{part}.ts") for part in ("TRAIN", "TEST")]
    assert main(["classify", *files, "--out", str(tmp_path / "run")]) == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["accuracy"] >= 0.9
