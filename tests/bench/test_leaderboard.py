"""Views of rows: what is compared with what, counted once, and named so that two things never share a name."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from small import row

from rearview.bench import tasks
from rearview.bench.analysis import coverage
from rearview.bench.analysis.candidates import name_candidates, spell_mechanism, spell_particulars
from rearview.bench.analysis.leaderboard import build_boards, failed_runs, find_repeats, latest_runs
from rearview.bench.analysis.paper_comparison import compare
from rearview.bench.papers import catalogue
from rearview.bench.rows import result_file
from rearview.bench.rows.row import ClassificationRow, DetectionRow, as_json
from rearview.bench.runs.request import Request
from rearview.bench.runs.run_spec import complete_mechanism, resolve
from rearview.bench.synthetic.flipflop import FlipFlopRow
from rearview.bench.tasks import CLASSIFICATION, DETECTION, FORECASTING
from rearview.core.errors import InputError


def rbca(alpha: float, **changes: object):
    return row(attention="rbca", attention_settings=json.dumps({"alpha": alpha, "bias": "power_law"}), **changes)


def labels(rows) -> list[str]:
    return [candidate.name for candidate in name_candidates(rows)]


def test_names_tell_what_differs_within_a_block_and_nothing_else():
    assert labels([rbca(0.5, seed=0), rbca(0.5, seed=1)]) == ["patchtst + rbca"] * 2
    assert labels([rbca(0.5), rbca(1.0)]) == ["patchtst + rbca(alpha=0.5)", "patchtst + rbca(alpha=1.0)"]
    # Published settings differ from data set to data set, and are no other candidate for it.
    assert labels([rbca(0.5), rbca(1.0, dataset="Other")]) == ["patchtst + rbca"] * 2
    longer = [row(), row(training='{"batch":64}'), row(lookback=96, model="dlinear", attention="")]
    assert labels(longer) == [
        "patchtst + softmax, training batch=32",
        "patchtst + softmax, training batch=64",
        "dlinear",
    ]
    curve = [row(lookback=lookback) for lookback in (16, 32)]
    assert labels(curve) == ["patchtst + softmax, lookback=16", "patchtst + softmax, lookback=32"]
    assert [candidate.label for candidate in name_candidates(curve)] == ["patchtst + softmax"] * 2


def test_of_many_settings_of_a_mechanism_those_at_their_default_go_unsaid():
    settings = [{"alpha": 0.5}, {"alpha": 1.0}, {"bias": "butterworth", "scale": 5.0}, {"bias": "causal"}]
    rows = [row(attention="rbca", attention_settings=json.dumps(each)) for each in settings]
    assert labels(rows) == [
        "patchtst + rbca",
        "patchtst + rbca(alpha=1.0)",
        "patchtst + rbca(bias=butterworth, scale=5.0)",
        "patchtst + rbca(bias=causal)",
    ]


def test_a_mechanism_in_short_tells_what_is_no_default():
    assert spell_mechanism(rbca(0.5)) == "rbca"
    assert spell_mechanism(rbca(1.0)) == "rbca(alpha=1.0)"
    assert spell_mechanism(row(attention="ours", attention_settings='{"power":3}')) == "ours(power=3)"
    assert spell_mechanism(row(model="dlinear", attention="")) == ""


def asked(**changes):
    """A row of ETTh1 as its protocol has it, but for these changes."""
    given = {"attention": "rbca", **changes}
    budget = given.pop("budget", {})
    spec = resolve(Request("ETTh1", "patchtst", lookback=96, horizon=96, seed=3, **given))
    spec = replace(spec, budget=budget)
    return row(**spec.columns(), values_sha256="0f")


def test_beside_its_mechanism_a_row_tells_what_its_protocol_would_not_have_by_itself():
    assert spell_particulars(asked()) == ""
    assert spell_particulars(asked(attention={"name": "rbca", "alpha": 1.0})) == ""
    assert spell_particulars(asked(adapters=["lift"])) == "lift"
    assert (
        spell_particulars(asked(adapters=[{"name": "lift", "leaders": 2}], loss="fredf"))
        == "lift(leaders=2), loss=fredf"
    )
    assert spell_particulars(asked(loss={"loss": "fredf", "time_share": 0.2})) == "loss=fredf(time_share=0.2)"
    changed = asked(settings={"width": 24}, training={"epochs": 2, "compile": True}, loss="mae")
    assert spell_particulars(changed) == "loss=mae, width=24, epochs=2"
    assert spell_particulars(row(settings='{"width":3}')) == ""  # of a set that no catalogue has


def test_what_a_search_chose_is_reported_with_the_number_of_trials():
    space = {"alpha": [0.5, 2.0], "network.dropout": "0..0.5", "training.learning_rate": "1e-05..0.001:log"}
    chosen = {"settings": {"dropout": 0.123456}, "training": {"learning_rate": 3.16227766e-4}}
    drawn = asked(attention={"name": "rbca", "alpha": 2.0}, budget={"tuner": "optuna:7", "space": space}, **chosen)
    assert spell_mechanism(drawn) == "rbca"
    assert spell_particulars(drawn) == "best of 7 trials by optuna (alpha=2.0, dropout=0.1235, learning_rate=0.0003162)"
    assert spell_particulars(replace(drawn, status="failed")) == "best of 7 trials by optuna"
    listed = asked(attention={"name": "rbca", "alpha": 2.0}, budget={"candidates": [{"alpha": 0.5}, {"alpha": 2.0}]})
    assert spell_particulars(listed) == "best of 2 (alpha=2.0)"


def test_a_loss_with_settings_is_spelt_in_words():
    losses = ("mse", '{"loss":"fredf","time_share":0.2}')
    assert labels([row(loss=loss) for loss in losses]) == [
        "patchtst + softmax, loss=mse",
        "patchtst + softmax, loss=fredf(time_share=0.2)",
    ]


def test_a_searched_setting_is_one_candidate_whatever_was_chosen():
    budget = json.dumps({"candidates": [{"alpha": 0.5}, {"alpha": 1.0}], "chosen_by": "validation loss"})
    rows = [rbca(0.5, seed=0, budget=budget), rbca(1.0, seed=1, budget=budget), rbca(0.5, seed=0)]
    assert labels(rows) == ["patchtst + rbca + best of 2"] * 2 + ["patchtst + rbca"]


def test_many_differences_are_cut_short_but_stay_apart():
    many = [row(settings=json.dumps(dict.fromkeys("abcdef", value))) for value in (1, 2)]
    first, second = labels(many)
    assert first.startswith("patchtst + softmax, a=1, b=1, c=1, 3 more (")
    assert first[-6:] != second[-6:]


def test_versions_of_the_data_are_not_averaged():
    made = build_boards(FORECASTING, [row(values_sha256="abcdef12"), row(values_sha256="12345678")])
    assert [board.dataset for board in made] == ["Small (123456)", "Small (abcdef)"]


def test_a_run_made_again_counts_once_and_a_failure_until_it_is_made_good():
    nothing = {"mse": math.nan, "mae": math.nan, "status": "failed", "values_sha256": "", "problem": "no memory"}
    rows = [row(mse=1.0), row(**nothing), row(seed=9, **nothing), row(seed=9, **nothing), row(mse=2.0)]
    assert [one.mse for one in latest_runs(rows)] == [2.0]
    assert [one.seed for one in failed_runs(rows)] == [9]


def test_of_a_run_made_again_the_latest_counts_whatever_the_order_of_files():
    rows = [
        row(mse=1.0, created="2026-03-02T03:04:05+00:00"),
        row(mse=2.0, created="2026-03-02T01:04:05-03:00"),  # an hour later, in another zone
        row(mse=3.0, created="2026-01-02T03:04:05+00:00"),
        row(mse=4.0, created="some time"),
    ]
    assert [one.mse for one in latest_runs(rows)] == [2.0]
    assert [one.mse for one in latest_runs(rows[::-1])] == [2.0]
    assert [one.mse for one in latest_runs([row(mse=4.0, created=""), row(mse=5.0, created="")])] == [5.0]
    lost = [replace(one, status="failed", problem=str(one.mse)) for one in rows]
    assert [one.problem for one in failed_runs(lost)] == ["2.0"]


def test_runs_made_more_than_once_tell_how_far_apart_they_came_out():
    later = {"created": "2026-03-02T03:04:05+00:00"}
    rows = [row(mse=1.0), row(mse=1.1, **later), row(mse=1.05, created=""), row(seed=9, mse=2.0)]
    rows += [row(horizon=14, mse=3.0), row(horizon=14, mse=3.0), row(horizon=14, mse=3.03, **later)]
    found = find_repeats(FORECASTING, rows)
    assert (found.count, found.spare) == (2, 3)
    assert found.share == pytest.approx(10)
    assert found.widest == (rows[0], rows[1])
    # One row in two files is one run, and what has no number is no distance.
    assert find_repeats(FORECASTING, [row(), row()]).count == 0
    nothing = find_repeats(FORECASTING, [row(), row(mse=math.nan, **later)])
    assert (nothing.count, nothing.widest, nothing.share) == (1, None, 0.0)


def test_boards_hold_means_and_spreads_the_best_first():
    rows = [row(seed=seed, mse=value, train_seconds=10.0 + seed) for seed, value in enumerate((1.0, 2.0, 6.0))]
    rows += [row(model="dlinear", attention="", mse=2.5), row(horizon=14, mse=0.5)]
    first, second = build_boards(FORECASTING, rows)
    assert (first.title, second.title) == ("Small, horizon 7", "Small, horizon 14")
    assert [entry.name for entry in first.entries] == ["dlinear", "patchtst + softmax"]
    score = first.entries[1].scores["mse"]
    assert (score.mean, score.count) == (3.0, 3)
    assert score.std == pytest.approx(np.std([1.0, 2.0, 6.0], ddof=1))
    assert first.entries[1].costs["train_seconds"] == 11.0
    assert first.entries[0].scores["mse"].std is None


def test_settings_that_are_no_json_are_named():
    with pytest.raises(InputError, match=r"patchtst on Small.*has 'width=3' as its settings"):
        build_boards(FORECASTING, [row(settings="width=3")])


def test_a_run_that_diverged_is_counted_but_not_averaged():
    (board,) = build_boards(FORECASTING, [row(seed=0, mse=2.0), row(seed=1, mse=math.nan)])
    (entry,) = board.entries
    assert (entry.scores["mse"].mean, entry.scores["mse"].count, len(entry.rows)) == (2.0, 1, 2)


def test_errors_are_on_the_scale_that_the_protocol_reports():
    (board,) = build_boards(FORECASTING, [row(protocol="published:mica", original_mse=31.0, original_mae=5.0)])
    assert board.entries[0].scores["mse"].mean == 31.0
    assert board.entries[0].score == board.entries[0].scores["mae"]
    assert board.entries[0].score.mean == 5.0


def test_a_protocol_is_ranked_by_the_measure_that_it_declares():
    units = {"protocol": "published:mica", "original_mse": 9.0}
    rows = [row(**units, original_mae=2.0), row(**{**units, "original_mse": 4.0}, attention="toa", original_mae=3.0)]
    (board,) = build_boards(FORECASTING, rows)
    assert [entry.attention for entry in board.entries] == ["softmax", "toa"]
    assert FORECASTING.measures("published:mica") == ("mae", "mse")
    assert FORECASTING.describe_measure("published:mica") == "MAE in original units"
    assert FORECASTING.describe_measure("clean") == FORECASTING.describe_measure("published:rbca") == "MSE"
    assert DETECTION.describe_measure("published:tslib") == "Adjusted F1"


def etth1(**changes: object):
    facts = {"dataset": "ETTh1", "lookback": 336, "horizon": 96, "mse": 0.3705, "mae": 0.4}
    return row(**{**facts, **changes})


def test_every_printed_number_stands_beside_ours_once_under_each_protocol():
    found = coverage.compare_all(FORECASTING, [etth1(seed=0), etth1(seed=1), etth1(protocol="published:rbca", mse=0.5)])
    mine = [one for one in found if one.table == "rbca:T1" and one.number.metric == "mse"]
    assert [(one.protocol, one.count, one.verdict) for one in mine] == [
        ("published:rbca", 1, "worse"),
        ("clean", 2, "reproduced"),
    ]
    assert mine[1].difference == pytest.approx(100 * (0.3705 / 0.37 - 1))
    assert len({(id(one.number), one.protocol) for one in found}) == len(found)


def test_runs_that_differ_in_what_a_table_leaves_open_are_not_averaged():
    settings = json.loads(as_json(complete_mechanism({"name": "toa", "kind": "gated", "score_norm": "mean"})[1]))
    texts = [json.dumps({**settings, "sor": sor}) for sor in (True, False)]
    rows = [
        etth1(attention="toa", attention_settings=words, mse=mse) for words, mse in zip(texts, (0.37, 0.5), strict=True)
    ]
    found = {
        one.number.variant: (one.mean, one.count)
        for one in coverage.compare_all(FORECASTING, rows)
        if one.table == "toa:T10" and one.number.metric == "mse"
    }
    assert found == {"toa_gated": (0.37, 1), "toa_gated_no_sor": (0.5, 1)}
    alone = {one.number.variant for one in coverage.compare_all(FORECASTING, rows[1:]) if one.number.paper == "toa"}
    assert alone == {"toa_gated_no_sor"}


def test_a_mechanism_of_another_shelf_stands_beside_nothing():
    assert coverage.compare_all(FORECASTING, [etth1(attention="ours", attention_settings='{"power":3}')]) == []


def test_runs_of_other_training_stand_beside_a_number_each_by_itself():
    rows = [etth1(mse=0.37), etth1(mse=0.37, seed=9), etth1(training='{"batch":64}', mse=0.5)]
    found = [
        one for one in coverage.compare_all(FORECASTING, rows) if one.table == "rbca:T1" and one.number.metric == "mse"
    ]
    assert [(one.label, one.mean, one.count) for one in found] == [
        ("patchtst + softmax, training batch=32", 0.37, 2),
        ("patchtst + softmax, training batch=64", 0.5, 1),
    ]


def test_a_cell_whose_runs_failed_says_so_until_one_comes_to_an_end():
    experiment = catalogue.get("rbca", "T1")
    lost = etth1(status="failed", problem="no memory", mse=math.nan, mae=math.nan, protocol="published:rbca")
    places = {"dataset": "ETTh1", "horizon": 96, "model": "patchtst"}

    def verdicts(rows) -> set[str]:
        found = compare(experiment, rows)
        return {one.verdict for one in found if all(getattr(one.cell, key) == value for key, value in places.items())}

    assert "failed" in verdicts([lost])
    assert "failed" not in verdicts([])
    assert "failed" not in verdicts([lost, etth1(protocol="published:rbca")])
    assert "failed" not in verdicts([lost, etth1(protocol="published:rbca", seed=9)])


def test_cells_that_nobody_ran_are_counted():
    rows = {FORECASTING: [etth1(), etth1(protocol="published:rbca")], DETECTION: []}
    found = {one.experiment.name: one for one in coverage.measure_coverage(rows)}
    assert found["rearview:mechanisms"].by_protocol == {"clean": 1, "published:rbca": 1}
    assert len(found["rearview:mechanisms"].missing) == len(found["rearview:mechanisms"].experiment.cells) - 1
    assert "caps:T1" not in found  # averages of T5's cells
    assert "toa:T5" not in found  # there are no rows of detection


def test_files_are_distinguished_by_their_first_line(tmp_path):
    forecasts = tmp_path / "forecasts.csv"
    result_file.append(forecasts, row())
    assert tasks.read(forecasts) == (FORECASTING, [row()])
    other = tmp_path / "classes.csv"
    other.write_text(",".join(ClassificationRow.columns()) + "\n")
    assert tasks.read(other) == (CLASSIFICATION, [])
    other.write_text(",".join(DetectionRow.columns()) + "\n")
    assert tasks.read(other) == (DETECTION, [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty and holds no rows"),
        ("schema,datas", "ends within its first line"),
        ("date,a,b\n1,2,3\n", "holds no rows of forecasting, classification or detection"),
        ("dataset,seed,parameters,rows,kind\n", "holds no rows of forecasting, classification or detection"),
        (",".join(FlipFlopRow.columns()) + "\n", "holds rows of a synthetic study, which `rearview reproduce`"),
        (",".join(row().columns()).replace(",mse,", ",msee,") + "\n", r"don't: msee. Did you mean 'mse'"),
        (",".join(row().columns()[:20]) + "\n", "lacks columns of result rows: torch, threads"),
        (",".join(reversed(row().columns())) + "\n", "columns of result rows in another order"),
    ],
)
def test_other_files_are_refused_in_a_sentence(tmp_path, content, message):
    path = tmp_path / "other.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        tasks.read(path)
