"""`rearview reproduce` on tables of classification and detection, and what the shelves tell of them."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from rearview import models
from rearview.bench import protocols
from rearview.bench.analysis import leaderboard
from rearview.bench.analysis.paper_comparison import average_sets, compare, find_rows
from rearview.bench.papers import catalogue, published
from rearview.bench.papers.catalogue import Cell
from rearview.bench.rows.result_file import append, read
from rearview.bench.rows.row import ClassificationRow, DetectionRow
from rearview.bench.runs.sweep import SweepPlan, sweep
from rearview.bench.tasks import DETECTION
from rearview.cli import main
from rearview.commands.reproduce import command
from rearview.core.errors import SettingsError


def refused(arguments, capsys):
    assert main(arguments.split()) == 1
    return capsys.readouterr().err


def test_every_protocol_tells_its_habits_task_by_task(capsys):
    for name in protocols.names():
        assert main(["describe", f"protocol:{name}"]) == 0
        printed = capsys.readouterr().out
        for task, habits in protocols.get(name).habits.items():
            assert f"\n{task}:\n" in printed
            assert all(f"- {habit}" in printed for habit in habits)
    for name in ("clean", "published:tslib", "published:toa"):
        assert list(protocols.get(name).habits) == ["forecasting", "classification", "detection"]
    told = " ".join(protocols.get("published:tslib").habits["detection"])
    assert "Flags are point-adjusted" in told
    assert "thrown at random" in told


def test_a_table_of_classification_is_made_once_and_compared(archive, tmp_path, capsys):
    results = tmp_path / "rows.csv"
    arguments = ["reproduce", "toa", "--table", "T8", "--dataset", "basicmotions", "--attention", "hyperglu"]
    arguments += ["--results", str(results)]
    options = ["--data-dir", str(archive), "--device", "cpu", "--train", "epochs=1"]
    assert main([*arguments, *options]) == 0
    printed = capsys.readouterr()
    [row] = read(results, ClassificationRow)
    assert (row.dataset, row.protocol, row.seed, row.epochs) == ("BasicMotions", "published:tslib", 2024, 1)
    assert "protocol published:tslib: " in printed.out
    [line] = [line for line in printed.out.splitlines() if line.startswith("BasicMotions ")]
    assert line.split()[1:4] == ["patchtst_tslib", "+", "hyperglu"]
    assert f"Accuracy  {row.accuracy:.4g}" in line
    assert "0.6083" in line  # as printed
    assert "(smaller budget: 1 of 100 epochs)" in line
    assert "by chance" not in printed.out
    assert main([*arguments, *options, "--seeds", "2"]) == 0
    assert [one.seed for one in read(results, ClassificationRow)] == [2024, 2025]
    capsys.readouterr()
    assert main([*arguments, "--compare"]) == 0  # wherever the rows were made
    assert len([line for line in capsys.readouterr().out.splitlines() if line.startswith("BasicMotions ")]) == 1


def test_a_table_of_detection_stands_beside_what_guessing_gets(small_smap, capsys):
    results = small_smap / "rows.csv"
    arguments = ["reproduce", "toa", "--table", "T5", "--dataset", "SMAP", "--model", "itransformer", "--attention"]
    arguments += ["softmax", "--results", str(results), "--data-dir", str(small_smap), "--device", "cpu"]
    assert main([*arguments, "--train", "epochs=1"]) == 0
    [row] = read(results, DetectionRow)
    assert (row.dataset, row.protocol, row.seed) == ("SMAP", "published:tslib", 0)
    printed = capsys.readouterr().out
    head, line = (next(one for one in printed.splitlines() if one.startswith(word)) for word in ("dataset ", "SMAP "))
    assert "by chance" in head
    assert "Adjusted F1" in line
    assert f"{row.adjusted_f1_by_chance:.4g}" in line
    assert "0.668" in line
    assert "by chance: the adjusted F1 of as many flags thrown at random" in printed


def small_plan(archive, tmp_path):
    return SweepPlan(tmp_path / "rows.csv", seeds=(1,), data_dir=archive, device="cpu", training={"epochs": 1})


@pytest.mark.slow
def test_runs_are_shared_among_workers(archive, tmp_path):
    cells = [cell for cell in catalogue.get("toa", "T8").cells if cell.dataset == "BasicMotions"][:2]
    plan = small_plan(archive, tmp_path)
    told = []
    made = sweep(cells, plan, workers=2, say=told.append)
    assert sorted(row.attention for row in made) == sorted(cell.attention["name"] for cell in cells)
    assert len(read(tmp_path / "rows.csv", ClassificationRow)) == 2
    assert all("BasicMotions, seed 1: accuracy " in sentence for sentence in told)


def test_a_run_that_fails_is_reported_and_none_begins_late(archive, tmp_path):
    plan = small_plan(archive, tmp_path)
    told = []
    missing = Cell("Nowhere", "patchtst_tslib", {"name": "softmax"}, task="classification")
    assert sweep([missing], plan, seconds=0) == []
    assert not (tmp_path / "rows.csv").exists()
    [row] = sweep([missing], plan, say=told.append)
    assert (row.status, row.dataset, row.seed, row.accuracy) == ("failed", "Nowhere", 1, None)
    assert "Nowhere_TRAIN.ts" in row.problem
    run = "patchtst_tslib + softmax, Nowhere, seed 1"
    assert told == [f"run 1 of 1: {run}", f"{run}: failed: {row.problem}"]
    assert read(tmp_path / "rows.csv", ClassificationRow) == [row]


def test_a_run_that_failed_is_compared_as_such_until_it_comes_to_an_end(archive, tmp_path, capsys, monkeypatch):
    arguments = ["reproduce", "toa", "--table", "T8", "--dataset", "basicmotions", "--attention", "hyperglu"]
    arguments += ["--results", str(tmp_path / "rows.csv"), "--seeds", "1"]
    options = ["--data-dir", str(archive), "--device", "cpu", "--train", "epochs=1"]
    with monkeypatch.context() as patch:
        patch.setattr("rearview.bench.runs.classification.ts.read", lambda path: 1 / 0)
        assert main([*arguments, *options]) == 1
    capsys.readouterr()

    def told() -> str:
        assert main([*arguments, "--compare"]) == 0
        return next(line for line in capsys.readouterr().out.splitlines() if line.startswith("BasicMotions "))

    assert " failed " in told()
    assert main([*arguments, *options]) == 0
    [failed, done] = read(tmp_path / "rows.csv", ClassificationRow)
    assert (failed.status, failed.problem) == ("failed", "ZeroDivisionError: division by zero")
    assert leaderboard.failed_runs([failed]) == [failed]
    assert leaderboard.failed_runs([failed, done]) == []
    line = told()
    assert "failed" not in line
    assert f"Accuracy  {done.accuracy:.4g}  -" in line  # one seed
    monkeypatch.setattr("rearview.bench.runs.classification.ts.read", lambda path: 1 / 0)
    assert main([*arguments, *options]) == 0  # it is there
    assert len(read(tmp_path / "rows.csv", ClassificationRow)) == 2


def test_a_table_of_which_every_run_failed_ends_badly(archive, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("rearview.bench.runs.classification.ts.read", lambda path: 1 / 0)
    arguments = f"reproduce toa --table T8 --dataset BasicMotions --data-dir {archive} --results {tmp_path}/rows.csv"
    assert "Every run failed; the first: ZeroDivisionError" in refused(f"{arguments} --device cpu", capsys)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            "--table T8 --protocol published:toa",
            "are not made under 'published:toa', but under clean or published:tslib",
        ),
        ("--table T8 --ray", "not run: 7 cells, --ray spreads runs of forecasting, and runs of classification"),
        ("--table T8 --train epohs=2", "training has no setting 'epohs'. Did you mean 'epochs'?"),
        ("--table T8 --horizon 96", "toa:T8 has no run with --horizon 96. Known: none."),
        ("--table T8 --dataset Crickett", "toa:T8 has no run with --dataset Crickett. Did you mean 'Cricket'?"),
        ("--table T5", "Nothing of that can be run here"),
        ("--table text4.1", "toa:text4.1 holds no runs of networks; it is made by `rearview reproduce harmonic`"),
        ("--table T8 --results forecasts.csv", "forecasts.csv holds rows of detection, and those of classification"),
    ],
)
def test_what_can_not_begin_is_refused_in_a_sentence(options, sentence, archive, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("forecasts.csv").write_text(",".join(DetectionRow.columns()) + "\n")
    assert main(f"reproduce toa {options} --data-dir {archive} --device cpu".split()) == 1
    printed = capsys.readouterr()
    assert sentence in printed.out + printed.err
    assert not Path("results.csv").exists()


def test_tasks_of_one_paper_keep_their_rows_apart(tmp_path, capsys):
    asked = [catalogue.get("toa", table) for table in ("T5", "T7", "T8", "T11")]
    places = command._places(tmp_path / "rows.csv", asked)
    assert {task: place.name for task, place in places.items()} == {
        "detection": "rows-detection.csv", "forecasting": "rows.csv", "classification": "rows-classification.csv"
    }  # fmt: skip
    assert command._places(tmp_path / "rows.csv", asked[2:]) == {"classification": tmp_path / "rows.csv"}
    (tmp_path / "rows.csv").touch()
    assert main(["reproduce", "toa", "--compare", "--results", str(tmp_path / "rows.csv")]) == 0
    printed = capsys.readouterr().out
    assert f"not run: 75 cells, there is no file {tmp_path / 'rows-detection.csv'}" in printed
    assert "toa:T4: " not in printed  # a view of T8


def classified(cell, accuracy, seed=0):
    blank = {name: "1" for name in ClassificationRow.columns() if name not in ("schema", "status", "problem")}
    facts = {"dataset": cell.dataset, "model": cell.model, "attention": cell.attention["name"], "seed": seed}
    settings = {key: value for key, value in cell.attention.items() if key != "name"}
    texts = {"attention_settings": json.dumps(settings), "settings": "{}", "training": '{"epochs":100,"batch":16}'}
    numbers = {"accuracy": accuracy, "train_seconds": 1.0, "total_seconds": 1.0, "epochs": 100, "train_cases": 9}
    return ClassificationRow(**{**blank, **facts, **texts, **numbers, "protocol": "published:tslib"})


def test_a_table_of_means_is_compared_over_the_sets_that_all_arms_have(tmp_path, capsys):
    table = catalogue.get("toa", "T4")
    rows = [classified(cell, cell.numbers[0].value + 0.001 * seed, seed) for cell in table.cells for seed in (-1, 1)]
    found = average_sets(compare(table, rows))
    assert {one.cell.dataset for one in found} == {"mean of 28 of 28 sets"}
    assert {(one.verdict, one.count, round(one.std, 6)) for one in found} == {("reproduced", 2, 0.001414)}
    printed = {json.dumps(n.attention): n.value for n in published.select("toa", "T4") if n.metric == "accuracy"}
    ours = {json.dumps(one.cell.attention): one.mean for one in found}
    assert len(printed) == 4
    for arm, value in printed.items():
        assert ours[arm] == pytest.approx(value, abs=2e-4)
    part = [row for row in rows if row.dataset in ("Libras", "LSST") or row.attention == "softmax"]
    by_arm = {one.cell.label: one for one in average_sets(compare(table, part))}
    assert by_arm["patchtst_tslib + hyperglu"].cell.dataset == "mean of 2 of 28 sets"
    assert {one.verdict for one in by_arm.values()} == {"reproduced"}
    only = [row for row in rows if row.attention == "softmax"]
    by_arm = {one.cell.label: one for one in average_sets(compare(table, only))}
    assert by_arm["patchtst_tslib + softmax"].verdict == "reproduced"
    assert by_arm["patchtst_tslib + hyperglu"].verdict == "not run"
    nothing = {"status": "failed", "accuracy": None, "macro_f1": None}
    lost = [replace(row, **nothing) for row in rows if row.attention == "hyperglu"]
    by_arm = {one.cell.label: one for one in average_sets(compare(table, [*only, *lost]))}
    assert by_arm["patchtst_tslib + hyperglu"].verdict == "failed"
    assert by_arm["patchtst_tslib + softmax"].cell.dataset == "mean of 28 of 28 sets"  # as without them
    for row in rows:
        append(tmp_path / "rows.csv", row)
    assert main(["reproduce", "toa", "--table", "T4", "--compare", "--results", str(tmp_path / "rows.csv")]) == 0
    assert "\n7 reproduced\n" in capsys.readouterr().out


def test_runs_of_one_cell_that_differ_are_distinguished():
    table = catalogue.get("toa", "T8")
    cell = table.cells[0]
    rows = [classified(cell, 0.5), replace(classified(cell, 0.9), training='{"epochs":2,"batch":16}')]
    found = [one for one in compare(table, rows) if one.cell is cell]
    assert [(one.mean, one.apart) for one in found] == [(0.5, ("training epochs=100",)), (0.9, ("training epochs=2",))]
    assert [one.shortfall for one in found] == ["", "2 of 100 epochs"]
    # No paper says which measure: the one that decides under the protocol, and the field's.
    asked = catalogue.get("rearview", "detection")
    assert [one.metric for one in compare(asked, [])[:2]] == ["auc_pr", "adjusted_f1"]
    assert {one.metric for one in compare(asked, [], "published:tslib")} == {"adjusted_f1"}


def test_cells_ask_for_options_that_rows_must_have():
    table = catalogue.get("rearview", "detection-hidden")
    plain, unbalanced = table.cells[:2]
    assert plain.label == "itransformer + softmax, normalise=none"
    assert unbalanced.label == "itransformer + softmax, balance=False"
    shared = {"dataset": "SMAP", "model": "itransformer", "attention": "softmax", "attention_settings": "{}"}
    shared["protocol"] = "clean"
    rows = [
        SimpleNamespace(settings='{"normalise":"none","width":8}', balance=1, **shared),
        SimpleNamespace(settings='{"normalise":"instance"}', balance=0, **shared),
    ]
    assert find_rows(plain, rows) == rows[:1]
    assert find_rows(unbalanced, rows) == rows[1:]
    labels = [cell.label for cell in table.cells if cell.model == "transformer"]
    assert labels == 3 * ["transformer + softmax, balance=False"]  # it normalises no window as it is
    assert models.settings_of("transformer")().normalise == "none"
    rows[1].protocol = "published:tslib"  # which balances nothing, whatever is asked for
    assert find_rows(unbalanced, rows) == []


def test_a_protocol_without_a_task_is_refused(tmp_path):
    assert DETECTION.obstacle("clean") == ""
    with pytest.raises(SettingsError, match="Runs of detection are not made under 'published:rbca'"):
        sweep(
            [Cell("SMAP", "transformer", task="detection")], SweepPlan(tmp_path / "rows.csv", protocol="published:rbca")
        )


def test_the_shelves_tell_what_is_at_hand(archive, capsys):
    assert main(["list", "datasets", "--data-dir", str(archive)]) == 0
    forecasting, _, detected, classes, _ = capsys.readouterr().out.split("\n\n")
    assert forecasting.startswith("Forecasting, ")
    assert detected.startswith("Detection, ")
    assert {"SMD", "SMAP", "MSL", "PSM", "SWaT", "ASD"} <= {line.split()[0] for line in detected.splitlines()}
    assert classes.startswith("Classification, ")
    assert [line.split() for line in classes.splitlines()[1:] if line.endswith("found")] == [["BasicMotions", "found"]]
    assert len(classes.splitlines()) == 29
    assert main(["list", "experiments", "--data-dir", str(archive)]) == 0
    listed = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "7 of 196 runs" in listed["toa:T8"]
    assert "7 of 196 runs" in listed["toa:T4"]
    assert "0 of 75 runs" in listed["toa:T5"]
    assert main(["describe", "basicmotions"]) == 0
    assert "BasicMotions_TRAIN.ts" in capsys.readouterr().out
    assert main(["describe", "toa:T8"]) == 0
    printed = capsys.readouterr().out
    assert "task: classification\n" in printed
    assert "horizons" not in printed
