"""Numbers that papers chose from many settings and look-backs: what of ours stands beside them, and from how many."""

import json
from dataclasses import replace

import pytest
from small import row

from rearview.bench.analysis import coverage
from rearview.bench.analysis.paper_comparison import compare
from rearview.bench.papers import catalogue
from rearview.bench.rows.identity import with_defaults
from rearview.bench.tasks import FORECASTING
from rearview.commands.reproduce.table import comparison_line

TRAINING = '{"batch":128,"epochs":100,"patience":100}'
TABLE = catalogue.get("rbca", "S9")
CELL = next(cell for cell in TABLE.cells if cell.candidates and (cell.dataset, cell.horizon) == ("Weather", 336))
"""Its number is not in doubt."""


def searched(cell, validation_loss: float, *, chosen=None, candidates=None, **changes):
    tried = list(cell.candidates if candidates is None else candidates)
    facts = {
        "dataset": cell.dataset, "lookback": cell.lookback, "horizon": cell.horizon, "model": cell.model,
        "attention": "rbca", "training": TRAINING, "epochs": 100, "train_windows": 8209, "protocol": "published:rbca",
        "attention_settings": json.dumps(with_defaults("rbca", chosen or tried[0])),
        "budget": json.dumps({"candidates": tried, "chosen_by": "validation loss"}),
        "validation_loss": validation_loss, "mse": validation_loss + 1.0, "mae": 0.5,
    }  # fmt: skip
    return row(**{**facts, **changes})


def found(rows, table=TABLE):
    return [one for one in compare(table, rows) if one.rows and one.metric == "mse"]


def test_one_look_back_is_chosen_for_all_horizons_of_a_data_set():
    """By the mean validation loss over horizons with runs at both; a horizon by itself would choose the other."""
    other = next(cell for cell in TABLE.cells if cell.among and (cell.dataset, cell.horizon) == ("Weather", 96))
    rows = [searched(CELL, 0.3), searched(CELL.among[0], 0.2), searched(other, 0.1), searched(other.among[0], 0.4)]
    assert {(one.cell.horizon, one.rows[0].lookback) for one in found(rows)} == {(96, 336), (336, 336)}
    assert {(one.cell.horizon, one.rows[0].lookback) for one in found(rows[:2])} == {(336, 512)}
    alone = [*rows[:2], rows[2]]  # horizon 96 has one look-back alone, which chooses nothing
    assert {(one.cell.horizon, one.rows[0].lookback) for one in found(alone)} == {(96, 336), (336, 512)}


def test_the_best_look_back_over_seeds_stands_beside_the_number():
    [longer] = CELL.among
    rows = [searched(CELL, 0.3, seed=0), searched(longer, 0.2, seed=0), searched(CELL, 0.1, seed=1)]
    rows.append(searched(longer, 0.4, seed=1, chosen=longer.candidates[-1]))
    [one] = found(rows)
    assert [(row.seed, row.lookback) for row in one.rows] == [(0, 336), (1, 336)]
    assert one.mean == pytest.approx(1.2)
    assert (one.verdict, one.shortfall, one.count) == ("worse", "", 2)
    assert comparison_line(one, ("L",)) == ("336",)
    unlike = [replace(row, training='{"batch":128,"epochs":30,"patience":100}') for row in rows[:2]]
    assert [one.shortfall for one in found([*rows, *unlike])] == ["", "30 of 100 epochs"]
    told = [
        one
        for one in coverage.compare_all(FORECASTING, rows)
        if one.number.table == "T1" and one.number.metric == "mse"
    ]
    assert [(one.label.partition(", ")[0], one.mean, one.shortfall) for one in told] == [
        ("patchtst + rbca + best of 19 settings", pytest.approx(1.2), "")
    ]


def test_a_narrower_search_is_reported_with_the_verdict():
    [longer] = CELL.among
    whole = searched(CELL, 0.3)
    assert [one.shortfall for one in found([whole])] == ["narrower search: 19 of 28 settings"]
    alphas = [{"alpha": alpha} for alpha in (0.1, 0.25, 0.5, 0.75, 1.0)]
    earlier = searched(CELL, 0.25, candidates=alphas, chosen={"bias": "power_law", "alpha": 0.5})
    [one] = found([earlier])
    assert one.shortfall == "narrower search: 5 of 28 settings"
    [verdict] = comparison_line(one, ("verdict",))
    assert verdict == f"{one.verdict} (smaller budget: narrower search: 5 of 28 settings)"
    [one] = found([earlier, whole, searched(longer, 0.4)])  # the best of all that was tried
    assert (one.rows, one.shortfall) == ((earlier,), "")
    apart = found([whole, searched(longer, 0.4), searched(CELL, 0.2, seed=9)])  # seeds chosen from other settings
    assert [one.shortfall for one in apart] == ["", "narrower search: 19 of 28 settings"]
    [_, one] = [one for one in compare(TABLE, [whole]) if one.cell is CELL]
    assert one.metric == "mae"


def test_a_search_of_more_than_a_cell_leaves_open_is_not_its_own():
    table = catalogue.get("rbca", "S10")
    cell = next(c for c in table.cells if c.candidates and (c.dataset, c.lookback, c.horizon) == ("Weather", 336, 336))
    own = searched(cell, 0.3, chosen={"bias": "power_law", "alpha": 0.5})
    assert [(one.cell, one.shortfall) for one in found([own], table)] == [(cell, "")]
    wider = searched(CELL, 0.3, chosen={"bias": "power_law", "alpha": 0.5})
    assert found([wider], table) == []
    assert [one.cell for one in found([wider])] == [CELL]


def test_look_backs_that_were_not_run_are_reported_by_themselves():
    [covered] = [one for one in coverage.measure_coverage({FORECASTING: [searched(CELL, 0.3)]})
                 if one.experiment.name == "rbca:S9"]  # fmt: skip
    assert CELL not in covered.missing
    assert CELL.among[0] in covered.missing
    assert len(covered.missing) == len(TABLE.cells) - 1
