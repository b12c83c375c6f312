"""Mechanisms against softmax, pair by pair: only runs that differ in nothing else are paired, as scipy judges them."""

import csv
import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("benchmark_scripts")


@pytest.fixture
def pairs() -> ModuleType:
    return import_module("pairs")


def run(attention: str, seed: int, mse: float, **more: Any) -> dict[str, Any]:
    row = {
        "dataset": "ETTh1", "protocol": "clean", "lookback": "336", "horizon": "96", "model": "patchtst",
        "attention": attention, "attention_settings": json.dumps({}), "training": "{}", "settings": "{}",
    }  # fmt: skip
    return row | {"seed": str(seed), "mse": str(mse)} | more


def softmax_and(name: str, differences: list[float]) -> list[dict[str, Any]]:
    rows = [run("softmax", seed, 1.0) for seed in range(len(differences))]
    return rows + [run(name, seed, 1.0 + more) for seed, more in enumerate(differences)]


def test_a_mechanism_is_judged_over_the_runs_it_shares_with_softmax(pairs: ModuleType) -> None:
    rows = [*softmax_and("caps", [-0.1, -0.2, -0.3, -0.4, 0.05]), run("caps", 0, 9.0, dataset="ETTh2")]
    (line,) = pairs.compare_with_softmax(rows, "mse", more_is_better=False, means=False)
    assert (line.pairs, line.better) == (5, 4)
    assert line.change == pytest.approx(-0.19)
    # scipy.stats.wilcoxon([-0.1, -0.2, -0.3, -0.4, 0.05]).pvalue
    assert line.p_value == line.corrected == pytest.approx(0.125)


def test_runs_of_another_budget_or_size_are_no_pair(pairs: ModuleType) -> None:
    for column in ("training", "settings", "lookback", "model"):
        rows = [run("softmax", 0, 1.0), run("caps", 0, 0.5, **{column: "other"})]
        assert pairs.compare_with_softmax(rows, "mse", more_is_better=False, means=False) == []


def test_many_mechanisms_are_corrected_and_the_best_stands_first(pairs: ModuleType) -> None:
    rows = softmax_and("caps", [-0.1, -0.2, -0.3, -0.4, -0.5]) + softmax_and("linear", [0.1, 0.2, 0.3, 0.4, 0.5])[5:]
    first, second = pairs.compare_with_softmax(rows, "mse", more_is_better=False, means=False)
    assert (first.name, first.better, second.better) == ("caps", 5, 0)
    assert first.p_value == pytest.approx(0.0625)
    assert first.corrected == second.corrected == pytest.approx(0.125)
    turned = pairs.compare_with_softmax(rows, "mse", more_is_better=True, means=False)
    assert (turned[0].name, turned[0].better) == ("linear", 5)


def test_means_over_seeds_make_one_pair_a_set(pairs: ModuleType) -> None:
    rows = softmax_and("caps", [-0.3, 0.1, 0.1])
    (line,) = pairs.compare_with_softmax(rows, "mse", more_is_better=False, means=True)
    assert (line.pairs, line.better) == (1, 1)
    assert line.change == pytest.approx(-0.1 / 3)


def test_ranks_are_over_the_runs_that_all_have_softmax_among_them(pairs: ModuleType) -> None:
    rows = softmax_and("caps", [-0.1, -0.2, 0.3]) + softmax_and("toa", [0.1, -0.3])[2:] + [run("linear", 9, 0.1)]
    found = pairs.rank_mechanisms(rows, "mse", more_is_better=False, means=False)
    # Seed 2 has no toa, and linear, without a run beside softmax, is none of them.
    assert found.blocks == 2
    assert found.by_name == {"caps": 1.5, "toa gated": 2.0, "softmax": 2.5}
    assert str(found) == "mean rank of 3 over the 2 that all have: caps 1.50; toa gated 2.00; softmax 2.50"
    turned = pairs.rank_mechanisms(rows, "mse", more_is_better=True, means=False)
    assert turned.by_name == {"softmax": 1.5, "toa gated": 2.0, "caps": 2.5}
    assert pairs.rank_mechanisms(rows, "mse", more_is_better=False, means=True).blocks == 1
    assert pairs.rank_mechanisms(rows[:3], "mse", more_is_better=False, means=False) is None


def test_the_script_prints_ranks_below_each_table(
    pairs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = softmax_and("caps", [-0.1, -0.2])
    with (tmp_path / "small.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    monkeypatch.setattr(sys, "argv", ["pairs.py", "small", "--results", str(tmp_path)])
    pairs.main()
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "mean rank of 2 over the 2 that all have: caps 1.00; softmax 2.00"
