"""`rearview reproduce` on tables of costs: counted without data, judged by digits, times beside measured rows."""

import csv
from pathlib import Path

import pytest

from rearview.bench.papers import costs
from rearview.bench.papers.costs import CostMeasurement
from rearview.bench.papers.published import Number
from rearview.bench.rows.row import Row
from rearview.cli import main
from rearview.core.errors import InputError


def written(path: Path, *rows: dict[str, object]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def inference(**changes: object) -> dict[str, object]:
    facts = {"network": "itransformer", "sweep": "channels", "channels": 7, "lookback": 96, "steps": 48, "batch": 8}
    return {**facts, "mode": "captured", "latency_ms": 0.25, "device": "a chip", **changes}


def step(**changes: object) -> dict[str, object]:
    facts = {"host": "patchtst-16", "model": "patchtst_tslib", "attention": "toa-gated", "mode": "captured"}
    return {**facts, "ms_per_step": 1.5, "device": "a chip", **changes}


def printed(metric: str, value: float, note: str = "") -> Number:
    return Number(
        "mica", "T5", "cost", "", 96, 48, "patchtst", None, metric, value, None, "PatchTST", "softmax", "", note
    )


@pytest.mark.parametrize(
    ("ours", "value", "digits", "verdict"),
    [
        (2.7953, 2.795, ("decimals", 3), "agrees"),
        (0.012, 0.013, ("decimals", 3), "agrees"),  # a unit of the last digit
        (0.0119, 0.013, ("decimals", 3), "differs"),
        (0.0014408, 0.001, ("decimals", 3), "not comparable"),  # 44 % off, and a unit of the only digit
        (0.003, 0.003, ("decimals", 3), "not comparable"),
        (0.0019, 0.003, ("decimals", 3), "differs"),
        (9.2, 9, ("decimals", 0), "not comparable"),
        (10.2, 10, ("decimals", 0), "agrees"),
        (45.942, 45.934, ("decimals", 3), "agrees"),  # 0.02 %
        (46.0, 45.934, ("decimals", 3), "differs"),
        (0.2105, 0.21, ("figures", 3), "agrees"),  # printed 210
        (0.2112, 0.21, ("figures", 3), "differs"),
        (10.2, 10.1, ("figures", 3), "agrees"),
        (0.01871, 0.0186, ("figures", 3), "differs"),
    ],
)
def test_counts_agree_by_the_digits_that_are_printed(ours, value, digits, verdict):
    assert costs.judge(ours, printed("gflops", value), digits) == verdict
    assert costs.judge(ours, printed("gflops", value, "DOUBTFUL"), digits) == "not comparable"


def test_a_table_is_counted_without_data(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REARVIEW_DATA", raising=False)
    assert main(["reproduce", "mica", "--table", "T7", "--model", "itransformer"]) == 0
    told = capsys.readouterr().out
    head, *lines = told.splitlines()[2:6]
    assert head.split() == ["L", "H", "C", "run", "metric", "ours", "published", "diff", "verdict"]
    assert [line.split("  ")[-1].strip() for line in lines] == ["agrees", "agrees", "not measured here"]
    assert "\n2 agrees, 1 not measured here\n" in told
    assert costs.RULE in told
    assert "milliseconds: there is no file results.csv; name the rows of benchmarks/scaling.py" in told
    assert main(["reproduce", "mica", "--table", "T7", "--model", "itransformer", "--compare"]) == 0
    assert capsys.readouterr().out == told
    assert not list(tmp_path.iterdir())
    assert main(["reproduce", "caps", "--table", "T4", "--model", "dlinear", "--horizon", "336"]) == 0
    told = capsys.readouterr().out
    assert "1 differs, 1 agrees" in told
    assert "dlinear: the printed FLOPs are larger by about one for each step ahead and channel" in told
    assert "milliseconds" not in told
    assert main(["reproduce", "caps", "--table", "T4", "--model", "timemixer_pp"]) == 0
    told = capsys.readouterr().out
    assert "\n8 not counted\ntimemixer_pp: the sizes of its runs are not printed and its authors released no" in told


def test_milliseconds_stand_beside_the_rows_of_benchmarks_and_are_not_judged(tmp_path, capsys):
    rows = written(
        tmp_path / "scaling.csv",
        inference(),
        inference(latency_ms=0.125),
        inference(mode="plain", latency_ms=""),
        inference(channels=600),
        inference(network="patchtst"),
        inference(network="patchtst+mica", mode="plain", latency_ms=3),
    )
    assert main(["reproduce", "mica", "--table", "T7", "--results", str(rows)]) == 0
    told = capsys.readouterr().out.splitlines()
    timed = [line.split(maxsplit=4)[3:] for line in told if " ms of inference " in line and "a chip" in line]
    assert [words[0] for words in timed] == ["patchtst", "itransformer"]
    assert "0.125  " in timed[1][1]
    assert timed[1][1].endswith("-                  a chip, captured, batch 8")  # of two the later, and no verdict
    assert "mlp_query" in timed[0][1]
    assert not any("there is no file" in line for line in told)
    rows = written(tmp_path / "steps.csv", step(peak_mib=274.7), step(attention="softmax"), step(host="patchtst-128"))
    assert main(["reproduce", "toa", "--table", "T11", "--results", str(rows)]) == 0
    told = capsys.readouterr().out
    assert told.count("275 MiB  a chip") == 1
    assert told.count("a chip, captured, patchtst_tslib") == 2
    assert "\n8 not measured here\n" in told
    assert costs.NO_RULE in told
    assert costs.RULE not in told
    other = tmp_path / "forecasts.csv"
    other.write_text(",".join(Row.columns()) + "\n")  # has latencies of its own, of other things
    assert main(["reproduce", "toa", "--table", "T11", "--results", str(other)]) == 0
    told = capsys.readouterr().out
    assert "\n10 not measured here\n" in told
    assert f"milliseconds: {other} holds no rows of them" in told


def test_rows_of_gates_and_adapters_are_distinguished():
    cells = {cell.label: cell for cell in costs.cells("mica", "T5")}
    named = {label: costs.network_name(cell) for label, cell in cells.items()}
    assert sorted(filter(None, named.values())) == ["moment", "moment+mica", "patchtst", "patchtst+mica"]
    measured = CostMeasurement("ms", "patchtst+mica", (7, 96, 48), 1.0, "")
    assert [label for label, cell in cells.items() if measured.is_of(cell)] == [
        "patchtst + mica(gate=mlp_query, exclude_self=False, weighting=uniform, mlp_layers=2)"
    ]
    assert not any(CostMeasurement("ms", "patchtst+mica", (7, 97, 48), 1.0, "").is_of(cell) for cell in cells.values())


def test_rows_that_are_none_are_refused_by_the_file(tmp_path):
    broken = written(tmp_path / "scaling.csv", inference(latency_ms="quick"))
    with pytest.raises(InputError, match=r"scaling\.csv could not be read as rows of a benchmark: .*quick"):
        costs.read_times(broken)
    empty = tmp_path / "empty.csv"
    empty.touch()
    assert costs.read_times(empty) == []
    with pytest.raises(InputError, match="could not be read"):
        costs.read_times(tmp_path)


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ("--seeds 3", "--seeds"),
        ("--protocol clean --data-dir here", "--protocol and --data-dir"),
        ("--device cpu --train epochs=2", "--device and --train"),
        ("--presets official", "--presets"),
        ("--workers 2 --seconds 5 --ray", "--workers and --seconds and --ray"),
    ],
)
def test_options_of_training_are_refused(options, flags, capsys):
    assert main(["reproduce", "toa", "--table", "T11", *options.split()]) == 2
    sentence = f"toa:T11: costs are counted and nothing is trained; leave out {flags}."
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--model patchtts", "mica:T8 has no run with --model patchtts. Did you mean 'patchtst'?"),
        ("--attention rbca", "mica:T8 has no run with --attention rbca. Known: mica"),
        ("--horizon 96", "mica:T8 has no run with --horizon 96. Known: 48."),
    ],
)
def test_a_network_that_a_table_has_not_is_refused(options, sentence, capsys):
    assert main(["reproduce", "mica", "--table", "T8", *options.split()]) == 1
    assert sentence in capsys.readouterr().err


def test_tables_of_costs_are_listed_and_described_as_what_they_are(tmp_path, capsys):
    assert main(["list", "experiments", "--data-dir", str(tmp_path)]) == 0
    listed = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert " 16 of 16 counts " in listed["mica:T5"]
    assert " 16 of 36 counts " in listed["caps:T4"]
    assert " times alone " in listed["toa:T11"]
    assert " times alone " in listed["mica:T15"]
    assert main(["describe", "mica:T9"]) == 0
    told = capsys.readouterr().out
    assert "task: cost; no data are needed\npublished numbers: 30\n" in told
    assert "networks: 8 of 10 counts, made by `rearview reproduce mica --table T9`" in told
    assert "protocol" not in told
