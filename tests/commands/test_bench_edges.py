"""The edges of `rearview bench` and `reproduce`: time that is up, what is named twice, what can't run, own budgets."""

import shutil
from pathlib import Path

import pytest

from rearview.bench import read
from rearview.bench.papers import catalogue
from rearview.bench.runs import forecasting, sweep
from rearview.cli import main

REPOSITORY = Path(__file__).parents[2]
STANDIN = ["bench", "--dataset", "PEMS08-standin:150", "--lookback", "12", "--device", "cpu"]
QUICK = ["--train", "epochs=1,windows_per_epoch=16"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A folder that results may fall into."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("seconds", ["-1", "0", "nan"])
@pytest.mark.parametrize(
    "command", [[*STANDIN, "--model", "dlinear"], ["reproduce", "rbca"], ["reproduce", "harmonic"]]
)
def test_time_is_given_above_nothing(command, seconds, capsys):
    assert main([*command, "--seconds", seconds]) == 2
    assert f"--seconds is {seconds}; it must be above 0. Omit it for no limit." in capsys.readouterr().err


def test_rows_of_a_file_of_ones_own_tell_what_was_set(tmp_path, capsys):
    lines = [f"2024-01-01T{hour:02}:{minute:02},{hour * minute}" for hour in range(6) for minute in range(0, 60, 5)]
    (tmp_path / "mine.csv").write_text("date,a\n" + "\n".join(lines) + "\n")
    grid = ["bench", "--dataset", "mine.csv", "--model", "dlinear", "--lookback", "5", "--horizon", "3"]
    assert main([*grid, *QUICK, "--set", "kernel=3", "--device", "cpu"]) == 0
    said = capsys.readouterr()
    assert "; kernel=3, epochs=1, windows_per_epoch=16" in said.err
    assert "  kernel=3, epochs=1, windows_per_epoch=16  " in said.out


def test_runs_that_there_was_no_time_for_are_counted(capsys, monkeypatch):
    grid = [*STANDIN, "--model", "dlinear,seasonal_naive", "--horizon", "3", *QUICK]
    assert main([*grid, "--results", "rows.csv"]) == 0
    said = capsys.readouterr()
    assert "run 1 of 2: dlinear, PEMS08-standin:150 12-3, seed 0\n" in said.err
    assert "time was up" not in said.err + said.out
    assert "epoch 1/1" not in said.err  # no terminal, no line that is rewritten
    monkeypatch.setattr(sweep, "has_time", lambda until: False)
    late = [*grid, "--seeds", "2", "--seconds", "5"]
    assert main([*late, "--results", "rows.csv"]) == 0
    said = capsys.readouterr()
    sentence = "time was up: 2 of 4 runs were not begun; the same command goes on with them"
    assert said.err.count(sentence) == 1
    assert said.out.splitlines()[-2:] == ["Rows in rows.csv", sentence]
    assert len(read(Path("rows.csv"))) == 2
    assert main([*late, "--results", "none.csv"]) == 0
    assert capsys.readouterr().out == "time was up: 4 of 4 runs were not begun; the same command goes on with them\n"


def test_runs_of_all_tables_are_counted_together(swept, capsys):
    assert main(["reproduce", "rbca", "--dataset", "ETTh1", "--seeds", "2", "--seconds", "5", "--device", "cpu"]) == 0
    assert len(swept) > 1
    count = sum(len(asked.cells) for asked in swept)
    told = f"time was up: {count} of {count} runs were not begun; the same command goes on with them"
    assert capsys.readouterr().out.splitlines()[-1] == told
    assert all(asked.progress is not None for asked in swept)


@pytest.mark.parametrize("tried", [[""], [" , "], ["learning_rate=1e-3|1e-4", ""]])
def test_a_search_of_nothing_is_refused(tried, swept, capsys):
    flags = [word for values in tried for word in ("--try", values)]
    assert main([*STANDIN, "--model", "dlinear", *flags]) == 2
    assert f"--try is {tried[-1]!r}; it takes settings with values, such as alpha=0.5|1" in capsys.readouterr().err
    assert swept == []


@pytest.mark.parametrize("flag", ["--dataset", "--model"])
def test_no_name_is_none_to_run(flag, swept, capsys):
    given = {"--dataset": "ETTh1", "--model": "dlinear", flag: ","}
    assert main(["bench", *(word for pair in given.items() for word in pair)]) == 2
    assert f"{flag} is ','; it takes one name, or several separated by commas." in capsys.readouterr().err
    assert swept == []


def test_what_is_named_twice_is_run_once(swept):
    command = ["bench", "--dataset", "ECL,ETTh1,etth1,electricity", "--model", "patchtst,dlinear,patchtst"]
    sizes = ["--horizon", "24,96,24", "--lookback", "96,48,96", "--attention", "rbca;softmax;rbca", "--device", "cpu"]
    assert main([*command, *sizes]) == 0
    cells = swept[0].cells
    assert len(cells) == 2 * 2 * 2 * (2 + 1)
    assert [cells.index(cell) for cell in cells] == list(range(len(cells)))
    assert list(dict.fromkeys(cell.dataset for cell in cells)) == ["ECL", "ETTh1"]
    assert [(cell.lookback, cell.horizon) for cell in cells[::3]][:4] == [(96, 24), (96, 96), (48, 24), (48, 96)]
    assert main(["bench", "--dataset", "ETTh1", "--model", "dlinear,dlinear", "--horizon", "24,24"]) == 0
    assert len(swept[1].cells) == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--model patchtst --attention rbca:alpha=x", "alpha is 'x'; it must be a number"),
        (
            "--model dlinear --horizon 3,900",
            "rearview: dlinear, PEMS08-standin:150 12-900: A lookback of 12 and a horizon of 900 need 912 rows, but "
            "the training part has 90 (context included); use a shorter horizon.",
        ),
        (
            "--model dlinear --dataset Traffic-standin:10",
            "rearview: A lookback of 12 leaves no target row in the train part (rows 0 to 7 of 10); use a shorter "
            "lookback or a longer series.",
        ),
        ("--model dlinear,patchtst --try heads=3|4", "rearview: patchtst + best of network.heads=3/network.heads=4, "),
        ("--model autoets,dlinear", "autoets is a network of statsforecast, which is not installed"),
    ],
)
def test_what_can_not_be_run_is_refused_before_anything_trains(options, sentence, capsys, monkeypatch, tmp_path):
    from rearview.models import baselines

    monkeypatch.setattr(baselines, "find_spec", lambda package: None)
    given = {"--dataset": "PEMS08-standin:150", "--lookback": "12", "--horizon": "3"}
    asked = dict(zip(options.split()[::2], options.split()[1::2], strict=True))
    words = [word for pair in {**given, **asked}.items() for word in pair]
    monkeypatch.setattr(sweep, "attempt", lambda run, execution: pytest.fail("a run began"))
    assert main(["bench", *words, "--device", "cpu"]) == 1
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.glob("*.csv"))


def test_rows_that_are_there_are_shown_though_they_could_not_be_made_here(capsys, monkeypatch):
    from rearview.bench.runs import forecasting

    command = [*STANDIN, "--model", "dlinear", "--horizon", "3", *QUICK]
    assert main(command) == 0
    monkeypatch.setattr(forecasting, "check", lambda spec: pytest.fail("a row is there"))
    assert main(command) == 0
    assert capsys.readouterr().out.count("Rows in results.csv") == 2


def test_a_table_has_the_training_that_it_is_asked_with(swept, capsys):
    table = ["reproduce", "rearview", "--table", "mechanisms", "--device", "cpu"]
    assert main(table) == 0
    assert "training: epochs=30, patience=5, the rest as in the presets\n" in capsys.readouterr().out
    assert main([*table, "--train", "epochs=2"]) == 0
    asked = [{repr(dict(cell.training)) for cell in one.cells} for one in swept]
    assert asked == [{"{'epochs': 30, 'patience': 5}"}, {"{'epochs': 2, 'patience': 5}"}]


@pytest.mark.parametrize(
    ("table", "file"),
    [("mechanisms", "mechanisms"), ("combinations", "mechanisms"), ("mechanisms-channels", "channels")],
)
def test_our_own_tables_are_those_of_the_repository(table, file):
    plan = sweep.SweepPlan(Path("rows.csv"), seeds=(0, 1, 2))
    rows = read(REPOSITORY / "results" / f"{file}.csv")
    runs = plan.runs(catalogue.get("rearview", table).cells)
    assert [run.title for run in runs if not run.find_finished(rows)] == []


@pytest.mark.slow
def test_a_table_of_the_repository_is_shown_without_a_run(real_data, capsys, monkeypatch):
    monkeypatch.setattr(forecasting.Fit, "begin", lambda *given: pytest.fail("a run began"))
    shutil.copy(REPOSITORY / "results" / "mechanisms.csv", "rows.csv")
    table = ["reproduce", "rearview", "--table", "mechanisms", "--seeds", "3", "--results", "rows.csv"]
    assert main([*table, "--device", "cpu", "--data-dir", str(real_data)]) == 0
    said = capsys.readouterr()
    assert said.err.count(": mse ") == 84
    assert "run 1 of" not in said.err
    assert said.out.count("30 epochs of batch 128") == 56


def test_an_experiment_is_described_with_and_without_its_kind(capsys):
    assert main(["describe", "rbca:S5"]) == 0
    plain = capsys.readouterr().out
    assert main(["describe", "experiment:rbca:S5"]) == 0
    assert capsys.readouterr().out == plain
    assert main(["describe", "experiment:rbca:S55"]) == 1
    assert "rbca has no table 'S55'. Did you mean 'S5'?" in capsys.readouterr().err
    assert main(["describe", "rearview:combinations"]) == 0
    assert "training: epochs=30, patience=5, the rest as in the presets" in capsys.readouterr().out
