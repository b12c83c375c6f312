"""`rearview reproduce` and `rearview bench`: what is chosen, what is tried, how long, and what is printed."""

from collections import Counter
from types import SimpleNamespace

import pytest

from rearview.bench import experiments, sweep
from rearview.cli import main
from rearview.jobs import reproduce


@pytest.fixture
def swept(monkeypatch):
    """The sweeps that a command asks for: cells, plan and options; none of them is made."""
    asked = []

    def fake(cells, plan, **options):
        asked.append(SimpleNamespace(cells=list(cells), plan=plan, **options))
        return []

    monkeypatch.setattr(sweep, "sweep", fake)
    monkeypatch.setattr(
        reproduce, "_reachable", lambda experiment, chosen, data: (_chosen(experiment, chosen), Counter())
    )
    monkeypatch.setattr(reproduce, "_check_first", lambda cells, plan: None)
    return asked


def _chosen(experiment, chosen):
    return [cell for cell in experiment.cells if reproduce._wanted(cell, chosen)]


def refused(arguments, capsys):
    assert main(arguments) == 1
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--dataset ETTh3", "rbca has no run with --dataset ETTh3. Did you mean 'ETTh"),
        ("--horizon 97", "rbca has no run with --horizon 97. Known: 96, 192, 336, 720."),
        ("--model patchts", "rbca has no run with --model patchts. Did you mean 'patchtst'?"),
        ("--table S5 --attention rbc", "rbca:S5 has no run with --attention rbc. Did you mean 'rbca'? Known: "),
        ("--table S55", "rbca has no table 'S55'. Did you mean 'S5'?"),
    ],
)
def test_a_part_that_does_not_exist_is_refused(options, sentence, swept, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(["reproduce", "rbca", *options.split(), "--device", "cpu"], capsys)
    assert swept == []


def test_words_that_no_cell_has_together_are_refused(swept, capsys):
    arguments = ["reproduce", "toa", "--dataset", "PEMS03", "--horizon", "720", "--device", "cpu"]
    assert "toa has no run with --dataset PEMS03 --horizon 720 together" in refused(arguments, capsys)
    assert swept == []


def test_tables_without_the_part_chosen_are_left_out(swept, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "toa", "--dataset", "pems03", "--device", "cpu"]) == 0
    assert {cell.dataset for asked in swept for cell in asked.cells} == {"PEMS03"}
    printed = capsys.readouterr().out
    assert "toa:T9: " in printed
    assert "toa:T7: " not in printed


def test_seconds_are_one_deadline_over_all_tables(swept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(reproduce, "time", SimpleNamespace(monotonic=lambda: clock.now))
    told = sweep.sweep

    def slow(cells, plan, **options):
        clock.now += 7.0
        return told(cells, plan, **options)

    monkeypatch.setattr(sweep, "sweep", slow)
    assert main(["reproduce", "rbca", "--seconds", "10", "--device", "cpu"]) == 0
    assert len(swept) == len(reproduce._tables(reproduce.Chosen("rbca"))) > 2
    assert [asked.seconds for asked in swept[:3]] == [10.0, 3.0, 0.0]


def test_the_table_tells_the_memory(tmp_path, capsys):
    arguments = ["reproduce", "rbca", "--table", "S5", "--dataset", "ETTh1", "--horizon", "96"]
    (tmp_path / "empty.csv").touch()
    assert main([*arguments, "--compare", "--results", str(tmp_path / "empty.csv")]) == 0
    [head] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("dataset ")]
    assert head.split()[-2:] == ["seconds", "memory"]
    comparison = SimpleNamespace(
        cell=experiments.get("rbca", "S5").cells[0],
        number=None,
        rows=[
            SimpleNamespace(train_seconds=1.0, peak_memory_bytes=memory, training='{"epochs":1,"batch":2}')
            for memory in (3 * 2**20, None, 2**31)
        ],
        metric="mse", mean=0.5, std=0.1, difference=None, verdict=None,
    )  # fmt: skip
    assert reproduce._line(comparison)[-2:] == ("1", "2,048 MiB")


BENCH = ["bench", "--dataset", "ETTh1", "--model", "patchtst", "--device", "cpu"]


def test_settings_are_tried_where_a_mechanism_has_them(swept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tried = "alpha=0.25|0.5|1,bias=power_law|causal"
    assert main([*BENCH, "--attention", "softmax,rbca", "--try", tried]) == 0
    [asked] = swept
    plain, searched = asked.cells
    assert plain.candidates == ()
    assert len(searched.candidates) == 6
    assert searched.candidates[:2] == ({"alpha": 0.25, "bias": "power_law"}, {"alpha": 0.25, "bias": "causal"})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--try alpha=1|2", "--try needs --attention"),
        ("--attention softmax,rbca --try alpa=1|2", "no setting of softmax, rbca. Did you mean 'alpha'?"),
    ],
)
def test_what_can_not_be_tried_is_refused(options, sentence, swept, capsys):
    assert sentence in refused([*BENCH, *options.split()], capsys)
    assert swept == []


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ("bench --dataset ETTh9 --model patchtst", 1, "there is no data set 'ETTh9'"),
        ("bench --dataset ETTh1 --model patchtst", 1, "ETTh1.csv, the file of ETTh1, was not found"),
        ("bench --dataset ETTh1 --model patchtst --attention sofmax", 1, "Did you mean 'softmax'?"),
        ("reproduce rbca --table S5 --dataset ETTm2", 1, "Nothing of that can be run here"),
        ("reproduce rbca --table S5 --compare --results none.csv", 1, "There is no results file none.csv"),
        ("reproduce harmonic --table S5", 2, "harmonic is a synthetic study and takes no --table"),
    ],
)
def test_what_can_not_begin_leaves_no_row(arguments, code, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REARVIEW_DATA", raising=False)
    assert main([*arguments.split(), "--device", "cpu"]) == code
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.glob("*.csv"))
