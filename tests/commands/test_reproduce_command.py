"""`rearview reproduce` and `rearview bench`: what is chosen, what is tried, how long, and what is printed."""

import json
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from rearview.bench import read
from rearview.bench.analysis.paper_comparison import Comparison
from rearview.bench.papers import catalogue
from rearview.bench.runs import sweep
from rearview.bench.runs.tuning import Range
from rearview.cli import main
from rearview.commands.reproduce import command as reproduce
from rearview.commands.reproduce import table
from rearview.commands.reproduce.command import Selection


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
        ("--dataset ETTh1,ETTh3", "rbca has no run with --dataset ETTh3. Did you mean 'ETTh"),
        ("--table S55", "rbca has no table 'S55'. Did you mean 'S5'?"),
    ],
)
def test_a_part_that_does_not_exist_is_refused(options, sentence, swept, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(["reproduce", "rbca", *options.split(), "--device", "cpu"], capsys)
    assert swept == []


@pytest.mark.parametrize("flag", ["--dataset", "--horizon", "--attention", "--model"])
def test_an_empty_value_is_refused_instead_of_running_everything(flag, swept, capsys):
    assert main(["reproduce", "rbca", flag, "", "--device", "cpu"]) == 2
    assert f"{flag} " in capsys.readouterr().err
    assert swept == []


def test_several_values_of_a_part_are_all_run(swept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = "--table S5 --dataset etth2,ETTh1 --horizon 96,336 --attention rbca --model patchtst"
    assert main(["reproduce", "rbca", *options.split(), "--device", "cpu"]) == 0
    made = {(cell.dataset, cell.horizon, cell.mechanism) for asked in swept for cell in asked.cells}
    assert made == set(product(["ETTh1", "ETTh2"], [96, 336], ["rbca"]))


@pytest.mark.parametrize(
    ("table", "count", "width"), [("classification-matched", 9, 387), ("classification-controls", 40, None)]
)
def test_options_of_a_grid_may_be_for_some_data_sets(table, count, width):
    cells = catalogue.get("rearview", table).cells
    assert len(cells) == count
    by_dataset = {cell.dataset: cell.settings.get("feed_forward") for cell in cells}
    assert by_dataset["Libras"] == width


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ("rbca --table S5 --dataset ETTh1", "ETTh1 is not at hand; get it from the ETT-small folder of zhouhaoyi"),
        ("toa --dataset Heartbeat", "Heartbeat is not at hand; get it from https://www.timeseriesclassification.com"),
        ("toa --dataset SMD", "SMD is not at hand; get it from "),
    ],
)
def test_data_that_is_missing_is_named_with_its_source(arguments, place, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *arguments.split(), "--data-dir", str(tmp_path), "--device", "cpu"]) == 1
    assert place in capsys.readouterr().out


def test_a_device_that_is_not_there_is_refused_before_any_row(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["bench", "--dataset", "Traffic-standin:500", "--model", "dlinear", "--device", "gpu"]
    assert "There is no device 'gpu'; use auto, cpu or cuda." in refused(arguments, capsys)
    assert not list(tmp_path.iterdir())


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


def test_settings_that_no_run_could_begin_with_are_refused_before_any_row(swept, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["reproduce", "rbca", "--table", "S5", "--device", "cpu", "--train", "epohs=2"]
    assert refused(arguments, capsys).count("training has no setting 'epohs'") == 1
    assert swept == []


def test_a_table_of_which_every_run_failed_ends_badly(swept, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lost = SimpleNamespace(status="failed", problem="RuntimeError: no memory")
    monkeypatch.setattr(sweep, "sweep", lambda runs, plan, **options: [lost])
    arguments = ["reproduce", "rbca", "--table", "S9", "--dataset", "ETTh1", "--device", "cpu"]
    assert "Every run failed; the first: RuntimeError: no memory" in refused(arguments, capsys)
    monkeypatch.setattr(sweep, "sweep", lambda runs, plan, **options: [lost, SimpleNamespace(status="done")])
    assert main(arguments) == 0


def test_seconds_are_one_deadline_over_all_tables(swept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(reproduce, "time", SimpleNamespace(monotonic=lambda: clock.now))
    fake = sweep.sweep

    def slow(runs, plan, **options):
        clock.now += 7.0
        return fake(runs, plan, **options)

    monkeypatch.setattr(sweep, "sweep", slow)
    assert main(["reproduce", "rbca", "--seconds", "10", "--device", "cpu"]) == 0
    assert len(swept) == len(Selection("rbca").tables()) > 2
    assert [asked.seconds for asked in swept[:3]] == [10.0, 3.0, 0.0]


def test_a_dry_run_lists_the_runs_of_a_table_and_makes_none(swept, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = ["reproduce", "caps", "--table", "T7", "--dataset", "ETTh1", "--horizon", "96", "--device", "cpu"]
    assert main([*asked, "--seeds", "2", "--dry-run"]) == 0
    *_, end = printed = capsys.readouterr().out.splitlines()
    runs = [line for line in printed if line.startswith("would run: caps_net")]
    assert len(runs) == len(set(runs)) == 10
    assert end == "Would write 10 rows to results.csv"
    assert "training has no setting 'epohs'" in refused([*asked, "--train", "epohs=2", "--dry-run"], capsys)
    assert swept == []
    assert not list(tmp_path.iterdir())


def test_the_table_tells_the_memory(tmp_path, capsys):
    arguments = ["reproduce", "rbca", "--table", "S5", "--dataset", "ETTh1", "--horizon", "96"]
    (tmp_path / "empty.csv").touch()
    assert main([*arguments, "--compare", "--results", str(tmp_path / "empty.csv")]) == 0
    [head] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("dataset ")]
    assert head.split()[-2:] == ["seconds", "memory"]
    comparison = SimpleNamespace(
        cell=catalogue.get("rbca", "S5").cells[0],
        number=None,
        rows=[
            SimpleNamespace(train_seconds=1.0, peak_memory_bytes=memory, training='{"epochs":1,"batch":2}')
            for memory in (3 * 2**20, None, 2**31)
        ],
        metric="mse", mean=0.5, std=0.1, count=3, chance=None, apart=(), difference=None, verdict="", shortfall="",
    )  # fmt: skip
    assert table.comparison_line(comparison, table.FORECASTING)[-2:] == ("1", "2,048 MiB")


class Timed(NamedTuple):
    created: str
    total_seconds: float
    device: str = "cpu"


def test_a_verdict_tells_a_smaller_budget_and_seconds_that_include_waiting():
    cell = catalogue.get("rbca", "S5").cells[0]
    plain = Comparison(cell, cell.numbers[0], "mse", (), 9.0, None)
    short = replace(plain, shortfall="3 of 10 epochs")
    unprinted = replace(plain, number=None)
    verdicts = [table.comparison_line(one, ("verdict",)) for one in (plain, short, unprinted)]
    assert verdicts == [("worse",), ("worse (smaller budget: 3 of 10 epochs)",), ("-",)]
    first, second, alone = (Timed(f"2026-01-02T03:{at}+00:00", 30.0) for at in ("01:00", "01:10", "09:00"))
    shown = [SimpleNamespace(rows=(first, alone))]
    assert table.waiting_lines(shown, [first, second, alone]) == [
        "seconds: 1 of 2 runs shared their device, so theirs include waiting"
    ]
    assert table.waiting_lines(shown, [first, alone]) == []


BENCH = ["bench", "--dataset", "ETTh1", "--model", "patchtst", "--device", "cpu"]


def test_a_grid_leaves_out_pairs_that_do_not_go_together_and_says_why(swept, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = ["bench", "--dataset", "ETTh1", "--horizon", "96,192", "--device", "cpu"]
    assert main([*command, "--model", "patchtst,itransformer,dlinear", "--attention", "softmax,rbca"]) == 0
    made = [(cell.model, cell.attention and cell.attention["name"], cell.horizon) for cell in swept[0].cells]
    assert made == [
        ("patchtst", "softmax", 96), ("patchtst", "rbca", 96), ("itransformer", "softmax", 96), ("dlinear", None, 96),
        ("patchtst", "softmax", 192), ("patchtst", "rbca", 192), ("itransformer", "softmax", 192),
        ("dlinear", None, 192),
    ]  # fmt: skip
    assert "left out: itransformer with rbca: rbca fades keys by age" in capsys.readouterr().err


def test_a_loss_is_given_by_name_or_with_its_settings(swept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = {"": None, "mae": "mae", "fredf:time_share=0.3": {"name": "fredf", "time_share": 0.3}}
    for words in asked:
        assert main([*BENCH, "--loss", words]) == 0
    assert [sweep.cells[0].loss for sweep in swept] == list(asked.values())
    assert [sweep.cells[0].label for sweep in swept] == ["patchtst", "patchtst + mae", "patchtst + fredf"]


def test_a_grid_without_a_pair_that_goes_together_is_refused_before_any_row(swept, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = ["bench", "--dataset", "ETTh1", "--device", "cpu", "--model", "itransformer"]
    for asked in ("rbca", "rbca,caps"):
        assert "tokens" in refused([*command, "--attention", asked], capsys)
    assert swept == []


def test_settings_go_to_the_networks_that_have_them_and_the_others_are_named(swept, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = ["bench", "--dataset", "ETTh1", "--device", "cpu", "--model", "patchtst,itransformer,seasonal_naive"]
    assert main([*command, "--set", "width=8,patch=4,period=7,adapters=lift", "--train", "epochs=2"]) == 0
    asked = {cell.model: cell for cell in swept[0].cells}
    assert {name: (found.settings, found.training) for name, found in asked.items()} == {
        "patchtst": ({"width": 8, "patch": 4, "adapters": "lift"}, {"epochs": 2}),
        "itransformer": ({"width": 8, "adapters": "lift"}, {"epochs": 2}),
        "seasonal_naive": ({"period": 7, "adapters": "lift"}, {}),
    }
    told = capsys.readouterr().err
    assert "--set width=8 leaves seasonal_naive as published: no such setting there." in told
    assert "--set patch=4 leaves itransformer, seasonal_naive as published" in told
    assert "--set period=7 leaves patchtst, itransformer as published" in told
    assert "--train leaves seasonal_naive as published: nothing to train there." in told
    assert "adapters" not in told


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--model patchtst,dlinear --set widht=8", "no setting of patchtst, dlinear. Did you mean 'width'?"),
        ("--model dlinear --set width=8", "--set names 'width', which is no setting of dlinear."),
        ("--model seasonal_naive --train epochs=2", "seasonal_naive has nothing to train"),
        ("--model patchtst,seasonal_naive --train epoch=2", "training has no setting 'epoch'. Did you mean 'epochs'?"),
    ],
)
def test_settings_that_no_network_has_are_refused(options, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(["bench", "--dataset", "ETTh1", "--device", "cpu", *options.split()], capsys)
    assert not list(tmp_path.glob("*.csv"))


def test_settings_are_tried_where_a_mechanism_has_them(swept, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tried = "alpha=0.25|0.5|1,bias=power_law|causal"
    assert main([*BENCH, "--attention", "softmax,rbca", "--try", tried]) == 0
    [asked] = swept
    plain, searched = asked.cells
    assert plain.candidates == ()
    assert "trials differ, as not everything has every setting tried: patchtst + softmax 1, patchtst + rbca 6;" in (
        capsys.readouterr().err
    )
    assert len(searched.candidates) == 6
    assert searched.candidates[:2] == ({"alpha": 0.25, "bias": "power_law"}, {"alpha": 0.25, "bias": "causal"})


def test_settings_are_drawn_as_often_for_every_network_and_mechanism(swept, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    bench = ["bench", "--dataset", "ETTh1", "--model", "patchtst,seasonal_naive", "--device", "cpu"]
    tried = ["--try", "learning_rate=1e-5..1e-3:log,alpha=0.25|0.5", "--try", "depth=1..3"]
    assert main([*bench, "--tune", "7", *tried]) == 1  # neither network's own mechanism has an alpha
    assert main([*bench[:3], "--model", "patchtst", "--attention", "softmax,rbca", "--tune", "7", *tried]) == 0
    assert "trials differ" not in capsys.readouterr().err
    plain, biased = swept[0].cells
    assert (plain.tuning.trials, biased.tuning.trials) == (7, 7)
    assert biased.tuning.space == {
        "training.learning_rate": Range(1e-5, 1e-3, log=True),
        "alpha": (0.25, 0.5),
        "network.depth": Range(1, 3, whole=True),
    }
    assert plain.tuning.space == {name: biased.tuning.space[name] for name in biased.tuning.space if name != "alpha"}
    assert plain.candidates == biased.candidates == ()


def test_a_search_with_adapters_on_a_stand_in_runs_from_the_command_line(tmp_path, capsys):
    results = tmp_path / "rows.csv"
    command = [
        "bench", "--dataset", "PEMS08-standin:150", "--model", "dlinear", "--lookback", "12", "--horizon", "3",
        "--device", "cpu", "--results", str(results), "--train", "epochs=1,windows_per_epoch=16",
        "--set", "adapters=[decorrelate,channel_heads]", "--tune", "2", "--try", "learning_rate=1e-4..1e-2:log",
    ]  # fmt: skip
    assert main(command) == 0
    [made] = read(results)
    assert (made.dataset, made.channels, made.adapters) == (
        "PEMS08-standin:150", 170, '["decorrelate","channel_heads"]'
    )  # fmt: skip
    assert '"tuner":"optuna:2"' in made.budget
    rate = json.loads(made.training)["learning_rate"]
    around = "decorrelate, channel_heads, epochs=1, windows_per_epoch=16"
    named = f"{around}, best of 2 trials by optuna (learning_rate={float(f'{rate:.4g}')})"
    printed = capsys.readouterr()
    assert "dlinear + optuna:2, PEMS08-standin:150 12-3, seed 0: mse " in printed.err
    assert f"dlinear  -          {named}  " in printed.out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--try alpha=1|2", "names 'alpha', which is no setting of patchtst or the training."),
        (
            "--attention softmax,rbca --try alpa=1|2",
            "no setting of patchtst, softmax, rbca or the training. Did you mean 'alpha'?",
        ),
        ("--try dropout=0..0.5", "dropout=0..0.5 is a continuous range, which only --tune can draw from"),
        ("--tune 5", "--tune needs --try"),
        ("--tune 5 --try learning_rate=0..0.5:log", "above 0 on the logarithmic scale"),
        ("--tune 5 --try depth=0.5..3", "begins and ends with one"),
        ("--tune 5 --try normalise=0..1", "normalise takes no numbers"),
        ("--tune 5 --try seed=0..9", "no setting of patchtst"),
    ],
)
def test_what_can_not_be_tried_is_refused(options, sentence, swept, capsys):
    assert sentence in refused([*BENCH, *options.split()], capsys)
    assert swept == []


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ("bench --dataset ETTh9 --model patchtst", 1, "there is no data set 'ETTh9'"),
        (
            "bench --dataset ASD --model patchtst",
            1,
            "`rearview bench` runs forecasting sets. ASD is a benchmark set of detection: `rearview reproduce rearview "
            "--table detection --dataset ASD` runs it, and `rearview detect` takes its file (ASD.npz).",
        ),
        (
            "bench --dataset libras --model patchtst",
            1,
            "Libras is a benchmark set of classification: `rearview reproduce rearview --table classification "
            "--dataset Libras` runs it, and `rearview classify` takes its files (Libras_TRAIN.ts and Libras_TEST.ts).",
        ),
        ("bench --dataset ETTh1 --model patchtst", 1, "ETTh1.csv, the file of ETTh1, was not found"),
        ("bench --dataset ETTh1 --model patchtst --attention sofmax", 1, "Did you mean 'softmax'?"),
        ("bench --dataset ETTh1 --model dlinear --horizon 0", 1, "horizon is 0; it is the number of steps to forecast"),
        (
            "bench --dataset ETTh1 --model dlinear --lookback 0",
            1,
            "lookback is 0; it is the number of steps",
        ),
        (
            "bench --dataset ETTh1 --model dlinear --loss nosuch",
            1,
            "'nosuch'; it can be one of mse, mae, huber",
        ),
        (
            "bench --dataset ETTh1 --model dlinear --loss fredf:share=0.3",
            1,
            "fredf has no setting 'share'. Did you mean 'time_share'?",
        ),
        ("bench --dataset ETTh1 --model dlinear --loss mse:time_share=0.3", 1, "mse has no setting 'time_share'."),
        ("bench --dataset ETTh1 --model dlinear --loss :time_share=0.3", 1, "--loss needs a name before the colon"),
        ("bench --dataset ETTh1 --model dlinear --loss fredf:0.3", 2, "--loss takes name=value pairs"),
        (
            "bench --dataset ETTh1 --model dlinear --presets nosuch",
            1,
            "'nosuch'. Known: caps, mica, official, prime, rbca, toa, tslib.",
        ),
        ("reproduce rbca --table S5 --dataset ETTm2", 1, "Nothing of that can be run here"),
        ("reproduce rbca --table S5 --compare --results none.csv", 1, "There is no results file none.csv"),
        (
            "reproduce foo",
            1,
            "Known: caps, mica, prime, rbca, rearview, toa, flipflop, harmonic, operators, components.",
        ),
        ("reproduce flipflp --table S5", 1, "no paper or synthetic study 'flipflp'. Did you mean 'flipflop'?"),
        ("reproduce harmonic --table S5", 2, "harmonic is a synthetic study and takes no --table"),
    ],
)
def test_what_can_not_begin_leaves_no_row(arguments, code, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REARVIEW_DATA", raising=False)
    assert main([*arguments.split(), "--device", "cpu"]) == code
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.glob("*.csv"))
