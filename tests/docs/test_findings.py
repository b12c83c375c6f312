"""Numbers of the findings are those of the rows that they name."""

import csv
import math
import re
from collections.abc import Iterable
from pathlib import Path
from statistics import mean

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def defaults() -> str:
    """The page on defaults, with single spaces."""
    return " ".join((ROOT / "docs" / "findings-defaults.md").read_text(encoding="utf-8").split())


def read_rows(name: str) -> list[dict[str, str]]:
    with (ROOT / "results" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def geometric(values: Iterable[float]) -> float:
    return math.exp(mean(map(math.log, values)))


def test_coverage_of_glance_on_synthetic_series(defaults: str) -> None:
    rows = [row for row in read_rows("glance_intervals") if row["series"] == "prior"]
    one_pass = {(row["rows"], row["horizon"]): row for row in rows if row["count"] == "256"}
    held = {sizes: float(row["coverage"]) for sizes, row in one_pass.items()}
    truths = {(past, ahead): 256 * int(ahead) for past, ahead in one_pass}
    together = sum(held[sizes] * count for sizes, count in truths.items()) / sum(truths.values())
    assert len(held) == 10
    assert (
        f"ten draws of 256 series, each of another size, 80 % intervals hold {percent(mean(held.values()))} % of the "
        f"truths on average ({percent(together)} % of all {sum(truths.values()):,} together)"
    ) in defaults
    rolled = {(row["from_step"], row["seed"]): row for row in rows if row["horizon"] == "2304"}
    passes = [float(row["coverage"]) for row in rolled.values()]
    assert len({row["commit"] for row in rolled.values()}) == 1
    assert f"{100 * min(passes):.0f} to {100 * max(passes):.0f} % pass by pass" in defaults


@pytest.mark.parametrize(
    ("model", "row"),
    [
        ("auto", r"\| auto \| ([\d.]+) \| ([\d.]+) \|"),
        ("glance-1.1", r"\| glance, version 1.1 \([^|]*\) \| ([\d.]+) \| ([\d.]+) \|"),
        ("glance-1.3", r"\(1.3, which ships: ([\d.]+), ([\d.]+)\)"),
    ],
    ids=["auto", "glance-1.1", "glance-1.3"],
)
def test_the_portfolio_on_whole_tasks(defaults: str, model: str, row: str) -> None:
    tasks = {one["task"]: one for one in read_rows("gift") if (one["model"], one["tasks"]) == (model, "test")}
    section = defaults.split("### The portfolio on whole tasks")[1]
    found = re.search(row, section)
    assert found is not None
    for measure, told in zip(("mase", "crps"), found.groups(), strict=True):
        value = geometric(float(one[measure]) / float(one[f"naive_{measure}"]) for one in tasks.values())
        assert float(told) == pytest.approx(value, abs=5.1e-4)
