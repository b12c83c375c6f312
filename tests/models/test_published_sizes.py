"""Parameters and FLOPs of networks as the papers of MICA (tables 5 to 9) and CAPS (table 4) print them.

The sizes, and why some counts differ, stand with the papers' experiments (`rearview reproduce mica --table T5`).
"""

from collections import Counter
from functools import cache

import pytest

from rearview.bench.papers import catalogue, costs
from rearview.bench.papers.costs import COUNTED, CostComparison

TABLES = [
    # paper, table, its numbers, of which a count agrees, differs, can't be told to agree, is not made
    ("caps", "T4", 72, 27, 5, 0, 40),
    ("mica", "T5", 48, 32, 0, 0, 0),
    ("mica", "T6", 48, 32, 0, 0, 0),
    ("mica", "T7", 30, 10, 4, 2, 4),
    ("mica", "T8", 30, 12, 4, 0, 4),
    ("mica", "T9", 30, 12, 4, 0, 4),
]


@cache
def compared(paper: str, table: str) -> list[CostComparison]:
    return [one for one in costs.compare(costs.cells(paper, table), []) if one.number.metric in COUNTED]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("paper", "table", "numbers", "agree", "differ", "unclear", "without"), TABLES)
def test_parameter_counts_are_the_published_ones(
    paper: str, table: str, numbers: int, agree: int, differ: int, unclear: int, without: int
) -> None:
    assert sum(len(cell.numbers) for cell in costs.cells(paper, table)) == numbers
    found = compared(paper, table)
    verdicts = Counter(one.verdict for one in found)
    expected = {"agrees": agree, "differs": differ, "not comparable": unclear, "not counted": without}
    assert verdicts == +Counter(expected)
    # What differs or can't be counted has a reason, and a reason is given for nothing else.
    apart = {one.cell.model for one in found if one.verdict in ("differs", "not counted")}
    assert apart == {one.cell.model for one in found if one.cell.reason}


@pytest.mark.usefixtures("unchecked")
def test_a_number_printed_with_one_digit_is_no_ground_for_a_verdict() -> None:
    (mlp,) = [one for one in compared("mica", "T7") if one.cell.model == "mlp_joint" and one.number.metric == "gflops"]
    assert (mlp.number.value, mlp.verdict) == (0.001, "not comparable")
    assert mlp.ours == pytest.approx(0.000909312)


@pytest.mark.usefixtures("unchecked")
def test_ours_are_the_networks_that_are_printed() -> None:
    by_label = {(one.cell.label, one.number.metric): one.ours for one in compared("mica", "T6")}
    assert by_label["patchtst + softmax", "gflops"] == pytest.approx(41.3257728)
    assert by_label["patchtst + softmax + channel_heads", "params_m"] == pytest.approx(98.511, abs=5e-4)
    assert by_label["moment + softmax", "params_m"] == pytest.approx(3.310_3 + 8.224768, abs=5e-4)
    network = next(cell for cell in costs.cells("caps", "T4") if cell.model == "patchtst_tslib")
    assert (network.channels, network.maps_alone, network.digits) == (11, True, ("figures", 3))


def test_every_table_of_costs_is_one_that_counts() -> None:
    tables = [one.name for one in catalogue.every() if one.kinds.get("cost")]
    assert tables == [one.name for one in catalogue.every() if one.task == costs.COST]
    counted = {f"{paper}:{table}" for paper, table, *_ in TABLES}
    assert set(tables) == counted | {"mica:T15", "toa:T11"}
    cells = [cell for name in tables for cell in costs.cells(*name.split(":"))]
    assert sum(number.kind == "cost" for cell in cells for number in cell.numbers) == 448
