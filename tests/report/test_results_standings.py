"""What a page about result rows leads with, and by which measure its blocks are ordered."""

import json
import re
from pathlib import Path

import pytest
import small_results
from small_results import section

from rearview.bench.papers import catalogue
from rearview.bench.rows import result_file as store
from rearview.bench.rows.row import as_json
from rearview.bench.runs.run_spec import complete_mechanism
from rearview.commands.report import read, summarise
from rearview.report.common.page import render
from rearview.report.results import files
from rearview.report.results.page import ResultsSummary, encode


def summarised(path: Path, rows: list[small_results.Row]) -> ResultsSummary:
    for row in rows:
        store.append(path, row)
    return summarise(read([str(path)]), "")


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> ResultsSummary:
    """Our question about all mechanisms in one network, and more settings of one of them than it has arms."""
    rows = []
    experiment = catalogue.get("rearview", "mechanisms")
    training = as_json({"batch": 128, **experiment.training})
    for place, cell in enumerate(experiment.cells):
        name, settings = complete_mechanism(cell.attention)
        where = {"dataset": cell.dataset, "horizon": cell.horizon, "lookback": cell.lookback}
        facts = {"attention": name, "attention_settings": as_json(settings), "mse": 0.5 - 0.01 * (place % 7)}
        rows.append(small_results.row(**where, **facts, training=training))
    for dataset in ("ETTh1", "ETTh2", "ETTm1"):
        for alpha in range(1, 21):
            facts = {"attention": "rbca", "attention_settings": json.dumps({"alpha": alpha / 100}), "mse": 0.3}
            rows.append(small_results.row(dataset=dataset, **facts, training=training))
    return summarised(tmp_path_factory.mktemp("asked") / "asked.csv", rows)


def test_a_page_leads_with_our_question_and_not_with_the_settings_of_one_mechanism(asked: ResultsSummary):
    assert asked.verdict.startswith("Forecasting: patchtst + prime has the best average rank by MSE, 1.00 of 7 ")
    assert "mechanisms in patchtst, over 2 data sets under clean, on equal budgets" in asked.verdict
    page = render(asked)
    leads = re.findall(r'<tr><th scope="row">([^<]*)</th>', section(page, "leaders"))
    assert leads == [
        "Forecasting, clean, by MSE: mechanisms in patchtst, rearview:mechanisms",
        "Forecasting, clean, by MSE: mechanisms in patchtst, 27 candidates over ETTh1 96, ETTh2 96",
        "Forecasting, clean, by MSE: mechanisms in patchtst, 20 candidates over ETTh1 96 + ETTm1 96, ETTh2 96",
    ]
    assert "<small>ETTh1 96/336, ETTh2 96/336</small>" in section(page, "leaders")
    assert "Experiments of ours on mechanisms that were run whole" in section(page, "leaders")


def test_every_standing_names_its_question_and_its_blocks(asked: ResultsSummary):
    page = render(asked)
    blocks = "Over 2 data sets: ETTh1 96/336, ETTh2 96/336."
    assert f"<p>Softmax and all five mechanisms in the same PatchTST, same budget. {blocks} " in section(page, "ranks")
    assert f"negative is better. {blocks}" in section(page, "ablations")
    assert f"rearview:mechanisms. {blocks}" in files.markdown(asked)


def test_what_is_declared_in_original_units_is_ranked_bolded_and_ordered_by_its_absolute_error(tmp_path: Path):
    units = {"protocol": "published:mica", "dataset": "ETT1_H", "lookback": 96, "horizon": 48, "loss": "mae"}
    errors = {"softmax": (2.0, 9.0), "mica": (3.0, 4.0)}
    rows = [
        small_results.row(**units, attention=name, original_mae=mae, original_mse=mse, mse=mse, mae=mae)
        for name, (mae, mse) in errors.items()
    ]
    found = summarised(tmp_path / "units.csv", rows)
    assert found.verdict.startswith("Forecasting: patchtst + softmax leads 2 mechanisms in patchtst by MAE in original")
    page = render(found)
    board = section(page, "leaderboards")
    assert "protocol published:mica; 2,785 test windows, errors in original units." in board
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', board)
    assert heads[2:4] == ["MAE", "MSE"]
    assert heads[-1] == "Printed MAE"
    assert re.search(r"patchtst \+ softmax</th><td>96</td><td><b>2\.000</b></td>", board)
    assert board.index("patchtst + softmax</th>") < board.index("patchtst + mica</th>")
    assert encode(found)["tasks"]["forecasting"]["decides"] == {"published:mica": "mae"}
    assert "protocol published:mica, errors in original units: mean" in files.markdown(found)
