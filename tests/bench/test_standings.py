"""Who is compared with whom over which blocks, and what a page is summed up by."""

import json
from dataclasses import replace

import numpy as np
import pytest
from small import row

from rearview.bench.analysis import comparable, standings
from rearview.bench.analysis.leaderboard import build_boards
from rearview.bench.papers import catalogue
from rearview.bench.rows.row import as_json
from rearview.bench.runs.run_spec import complete_mechanism
from rearview.bench.tasks import FORECASTING

OURS = catalogue.get("rearview", "mechanisms")


def rbca(alpha: float, **changes: object):
    return row(attention="rbca", attention_settings=json.dumps({"alpha": alpha, "bias": "power_law"}), **changes)


def grid(winner: float = 0.0):
    """Two mechanisms and softmax on seven data sets; one candidate has few of them."""
    rows = []
    for number in range(1, 8):
        for place, name in enumerate(("softmax", "toa", "caps")):
            mse = 1.0 + number / 100 - (place + winner) / 10
            rows.append(row(attention=name, dataset=f"Set {number}", mse=mse))
    return [*rows, row(model="dlinear", attention="", dataset="Set 1", mse=3.0)]


def test_standings_leave_out_who_lacks_blocks_and_say_so():
    rows = [*grid(), row(attention="rbca", dataset="Set 1")]
    (own,) = standings.build_standings(build_boards(FORECASTING, rows))
    assert own.left_out == ("patchtst + rbca",)
    assert own.judgement.blocks == 7
    assert own.model == "patchtst"
    assert own.judgement.names == ("patchtst + caps", "patchtst + toa", "patchtst + softmax")
    assert own.blocks[0] == "Set 1 7"
    assert own.scores.shape == (7, 3)
    assert len(own.judgement.significant) == 3


def test_contrasts_are_against_softmax():
    (own,) = standings.build_standings(build_boards(FORECASTING, grid()))
    best = standings.build_contrasts(own)[0]
    assert (best.name, best.against, str(best.record)) == ("patchtst + caps", "patchtst + softmax", "7/0/0")
    expected = np.mean([100 * ((0.8 + n / 100) / (1 + n / 100) - 1) for n in range(1, 8)])
    assert best.change == pytest.approx(expected)
    assert best.interval is not None
    assert best.interval.low <= best.change <= best.interval.high < 0
    assert (best.p_value, best.corrected) == pytest.approx((2 / 2**7, 4 / 2**7))


def test_an_interval_needs_data_sets_to_draw_from():
    few = [one for one in grid() if one.dataset in ("Set 1", "Set 2", "Set 3")]
    (own,) = standings.build_standings(build_boards(FORECASTING, few))
    assert own.judgement.blocks == 3
    assert [one.interval for one in standings.build_contrasts(own)] == [None, None]


def test_look_backs_and_horizons_of_one_data_set_are_no_replication():
    """Fourteen look-backs and horizons of two sets, all won, are two sets won, of which no test can say anything."""
    rows = [
        row(attention=name, dataset=dataset, lookback=lookback, horizon=horizon, mse=mse)
        for name, mse in (("softmax", 1.0), ("prime", 0.9))
        for dataset, places in (("Small", 7), ("Other", 7))
        for lookback, horizon in [(29, 7), *((lookback, 14) for lookback in range(30, 29 + places))]
    ]
    (own,) = standings.build_standings(build_boards(FORECASTING, rows))
    assert (own.judgement.blocks, own.scores.shape) == (2, (2, 2))
    assert own.blocks == ("Other 7/14 (7 look-backs)", "Small 7/14 (7 look-backs)")
    assert own.judgement.too_few
    (contrast,) = standings.build_contrasts(own)
    assert (str(contrast.record), contrast.interval) == ("2/0/0", None)
    assert contrast.change == pytest.approx(-10)


def test_blocks_are_averaged_within_their_data_set_first():
    errors = {"Small": {7: (1.0, 2.0), 14: (1.0, 2.0), 21: (1.0, 2.0)}, "Other": {7: (4.0, 2.0)}}
    rows = [
        row(attention=name, dataset=dataset, horizon=horizon, mse=mses[place])
        for dataset, by_horizon in errors.items()
        for horizon, mses in by_horizon.items()
        for place, name in enumerate(("softmax", "prime"))
    ]
    (own,) = standings.build_standings(build_boards(FORECASTING, rows))
    (contrast,) = standings.build_contrasts(own)
    # Twice as bad on one set and half as bad on the other, however many horizons the first one has.
    assert contrast.change == pytest.approx((100 - 50) / 2)
    assert own.judgement.ranks == (1.5, 1.5)


def test_resolutions_of_one_recording_are_one_data_set():
    sets = ("ETTh1", "ETTm1", "ETT1_D", "ETTh2", "Weather", "Weather-repaired")
    rows = [row(attention=name, dataset=dataset) for name in ("softmax", "prime") for dataset in sets]
    (own,) = standings.build_standings(build_boards(FORECASTING, rows))
    assert own.blocks == ("ETT1_D 7 + ETTh1 7 + ETTm1 7", "ETTh2 7", "Weather 7 + Weather-repaired 7")


def test_nothing_is_significant_where_patience_cut_some_schedules():
    cycle = {"training": '{"batch":32,"epochs":30,"patience":3,"schedule":"onecycle"}', "epochs": 30}
    whole = [
        row(attention=name, dataset=f"Set {number}", mse=mse, **cycle)
        for name, mse in (("softmax", 1.0), ("prime", 0.9))
        for number in range(6)
    ]
    (fair,) = standings.build_standings(build_boards(FORECASTING, whole))
    assert (fair.uneven, len(fair.significant)) == ((), 1)
    short = [replace(one, epochs=8) if one.dataset == "Set 0" else one for one in whole]
    (cut,) = standings.build_standings(build_boards(FORECASTING, short))
    assert cut.uneven == ("schedule cut by patience in 2 of 12 runs",)
    assert cut.significant == ()
    assert len(cut.judgement.significant) == 1
    assert [one.outcome for one in standings.pick_answers([fair, cut])] == ["significant"]
    assert [one.outcome for one in standings.pick_answers([cut])] == ["budgets differ"]


def test_the_answer_of_a_network_is_the_fair_comparison_with_seeds_before_that_with_more_sets():
    seeds = [row(attention=n, dataset=d, seed=s) for n in ("softmax", "toa") for d in "ab" for s in range(3)]
    sets = [row(attention=n, dataset=d, lookback=99) for n in ("softmax", "caps") for d in "cdef"]
    other = [row(model="dlinear", attention="", dataset="a"), row(protocol="published:rbca"), *grid()[:0]]
    found = standings.build_standings(build_boards(FORECASTING, [*seeds, *sets, *other]))
    (answer,) = standings.pick_answers(found)
    assert (answer.standing.seeds, len(answer.standing.blocks)) == (3, 2)
    assert set(answer.standing.entries) == {"patchtst + softmax", "patchtst + toa"}
    assert (answer.best.name, answer.comparisons, answer.needed) == ("patchtst + toa", 1, 6)
    assert answer.outcome == "too few data sets"


def test_an_answer_says_what_a_test_says_and_validation_stands_beside_test_rows():
    def answer(**toa: object) -> standings.Answer:
        rows = [row(attention="softmax", dataset=d, mse=0.5, validation_loss=0.4) for d in "abcdef"]
        rows += [row(attention="toa", dataset=d, validation_loss=0.5, **toa) for d in "abcdef"]
        # Two horizons of one data set count as one of it.
        rows += [row(attention=n, dataset="a", horizon=192, mse=0.5, validation_loss=0.4) for n in ("softmax", "toa")]
        (found,) = standings.pick_answers(standings.build_standings(build_boards(FORECASTING, rows)))
        return found

    better = answer(mse=0.4)
    assert (better.outcome, better.gains, better.needed) == ("significant", True, 6)
    assert better.best.validation == pytest.approx((25 * 5 + 12.5) / 6)
    assert (answer(mse=0.6).outcome, answer(mse=0.6).gains) == ("significant", False)


def test_mechanisms_are_measured_by_softmax_on_the_same_footing():
    longer = '{"batch":32,"epochs":100}'
    rows = [row(attention=name, mse=mse) for name, mse in (("softmax", 1.0), ("toa", 0.9), ("caps", 0.8))]
    rows += [row(training=longer, mse=0.5), row(training=longer, attention="prime", mse=0.4)]
    rows += [row(loss="mae", mse=0.1)]
    short, long = standings.build_standings(build_boards(FORECASTING, rows))
    assert short.judgement.names == ("patchtst + caps", "patchtst + toa", "patchtst + softmax")
    assert [(one.name, round(one.change)) for one in standings.build_contrasts(short)] == [
        ("patchtst + caps", -20),
        ("patchtst + toa", -10),
    ]
    assert long.judgement.names == ("patchtst + prime", "patchtst + softmax")
    assert long.title == "Forecasting, clean, by MSE: mechanisms in patchtst, epochs=100, loss=mse"
    assert standings.build_contrasts(long)[0].change == pytest.approx(-20)


def test_a_footing_is_one_of_each_data_set():
    wide = '{"width":64}'
    rows = [row(attention=name, mse=mse) for name, mse in (("softmax", 1.0), ("toa", 0.9))]
    rows += [row(dataset="Other", attention=n, settings=wide, mse=m) for n, m in (("softmax", 1.0), ("toa", 0.8))]
    # On the other set this mechanism trained for longer, and is not compared there.
    rows += [row(attention="caps", mse=0.7), row(attention="caps", dataset="Other", training='{"epochs":99}', mse=0.1)]
    (own,) = standings.build_standings(build_boards(FORECASTING, rows))
    assert own.judgement.names == ("patchtst + toa", "patchtst + softmax")
    assert own.blocks == ("Other 7", "Small 7")
    assert own.left_out == ("patchtst + caps",)


def test_many_candidates_on_one_data_set_do_not_push_out_several_sets():
    names = ("softmax", "toa", "caps")
    rows = [row(attention=name, dataset=dataset) for name in names[:2] for dataset in ("Small", "Other")]
    rows += [row(attention="caps", dataset="Third")]
    rows += [rbca(alpha) for alpha in (0.1, 0.2, 0.3, 0.4)]
    (own,) = standings.build_standings(build_boards(FORECASTING, rows))
    assert set(own.judgement.names) == {"patchtst + softmax", "patchtst + toa"}
    assert own.judgement.blocks == 2


def test_the_same_run_under_two_protocols_stands_side_by_side():
    rows = [row(mse=1.0), row(protocol="published:rbca", mse=0.9), row(model="dlinear", attention="")]
    (one,) = standings.compare_protocols(build_boards(FORECASTING, rows))
    assert one.name == "patchtst + softmax, lookback=29"
    assert {protocol: score.mean for protocol, score in one.scores.items()} == {"clean": 1.0, "published:rbca": 0.9}
    # Errors in the data's own units have nothing to stand beside.
    assert standings.compare_protocols(build_boards(FORECASTING, [row(), row(protocol="published:mica")])) == []


def made_for(cell, **changes: object):
    """A row of a cell."""
    name, settings = complete_mechanism(cell.attention)
    places = {"dataset": cell.dataset, "lookback": cell.lookback, "horizon": cell.horizon, "model": cell.model}
    trained = {"batch": 32, **cell.training}
    return row(
        **{
            **places,
            "attention": name,
            "attention_settings": as_json(settings),
            "training": as_json(trained),
            **changes,
        }
    )


def questioned(**changes: object):
    """Every cell of the experiment, the mechanisms in the order of its file from the worst to the best."""
    arms = list(dict.fromkeys(cell.label for cell in OURS.cells))
    return [made_for(cell, mse=1.0 - arms.index(cell.label) / 100, **changes) for cell in OURS.cells]


def flooded():
    """Settings of one mechanism on so many blocks that they outweigh everything else."""
    trained = {"lookback": 336, "horizon": 96, "training": as_json({"batch": 32, **OURS.training})}
    places = [{"dataset": name, **trained} for name in ("ETTh1", "ETTh2", "ETTm1")]
    rows = [row(attention="softmax", attention_settings=as_json(complete_mechanism("softmax")[1]), **places[2])]
    rows += [rbca(alpha / 100, mse=0.5, **place) for place in places for alpha in range(1, 21)]
    return rows


def test_an_experiment_of_ours_stands_by_itself_whatever_else_was_run():
    asked, *others = standings.build_standings(build_boards(FORECASTING, [*flooded(), *questioned()]))
    assert asked.question == OURS.title
    assert asked.title == "Forecasting, clean, by MSE: mechanisms in patchtst, rearview:mechanisms"
    assert asked.blocks == ("ETTh1 96/336", "ETTh2 96/336")
    assert asked.judgement.names == tuple(reversed(dict.fromkeys(cell.label for cell in OURS.cells)))
    assert set(asked.plain.values()) == {"patchtst + softmax"}
    # The widest group lacks the longer horizon; the next one has one set more, but of the same recording.
    assert [(len(one.judgement.names), len(one.blocks)) for one in others] == [(27, 2), (21, 2)]
    assert [one.is_ablation for one in others] == [False, True]
    assert standings.pick_headline([*others, asked]) is asked


def test_an_experiment_that_lacks_a_cell_or_a_footing_is_none():
    rows = questioned()
    assert not any(one.question for one in standings.build_standings(build_boards(FORECASTING, rows[1:])))
    other = [made_for(OURS.cells[0], training=as_json({"batch": 16, **OURS.training})), *rows[1:]]
    assert not any(one.question for one in standings.build_standings(build_boards(FORECASTING, other)))


def test_an_experiment_is_not_answered_by_runs_of_another_training():
    shorter = [made for seed in range(6) for made in questioned(seed=seed, training='{"batch":32,"epochs":1}')]
    assert not any(one.question for one in standings.build_standings(build_boards(FORECASTING, shorter)))
    first, *_ = standings.build_standings(build_boards(FORECASTING, [*shorter, *questioned()]))
    assert first.question
    assert all("patience" in made.training for made in first.rows)


def test_an_experiment_is_reported_by_the_footing_with_the_most_runs():
    rows = [*questioned(training=as_json({"batch": 64, **OURS.training})), *questioned(seed=3), *questioned(seed=4)]
    first, second = standings.build_standings(build_boards(FORECASTING, rows))
    assert first.question
    assert {one.seed for one in first.rows} == {3, 4}
    assert not second.question
    assert second.footing == "batch=64"


def test_softmax_joins_an_experiment_that_leaves_it_out():
    combinations = catalogue.get("rearview", "combinations").cells
    rows = [made_for(cell, mse=2.0) for cell in combinations]
    (alone,) = standings.build_standings(build_boards(FORECASTING, rows))
    assert alone.holds == ("rearview:combinations",)
    assert (len(alone.judgement.names), len(alone.plain)) == (3, 0)
    plain = [row for row in questioned() if row.attention == "softmax"]
    (joined,) = standings.build_standings(build_boards(FORECASTING, [*rows, *plain]))
    assert joined.judgement.names[0] == "patchtst + softmax"
    assert len(joined.plain) == 4


def test_a_wider_comparison_that_holds_an_experiment_whole_says_so_and_is_the_headline():
    combinations = catalogue.get("rearview", "combinations").cells
    rows = [*questioned(), *(made_for(cell, mse=2.0) for cell in combinations), *flooded()]
    found = standings.build_standings(build_boards(FORECASTING, rows))
    assert [bool(one.question) for one in found] == [True, True, False, False, False]
    wider = next(one for one in found if not one.question and one.holds)
    assert wider.holds == ("rearview:mechanisms", "rearview:combinations")
    assert wider.title.endswith("mechanisms in patchtst, 10 candidates over ETTh1 96/336, ETTh2 96/336")
    assert standings.pick_headline(found) is wider


def test_an_ablation_is_no_headline_where_several_mechanisms_are_compared():
    rows = [rbca(alpha / 10, horizon=horizon) for alpha in range(1, 10) for horizon in (7, 14, 21)]
    rows += [row(horizon=horizon) for horizon in (7, 14, 21)]
    (ablation,) = standings.build_standings(build_boards(FORECASTING, rows))
    assert ablation.is_ablation
    assert standings.pick_headline([ablation]) is ablation
    rows += [row(model="itransformer", attention=name) for name in ("softmax", "toa", "prime")]
    found = standings.build_standings(build_boards(FORECASTING, rows))
    assert standings.pick_headline(found).model == "itransformer"
    pair = [row(model="itransformer", attention=name) for name in ("softmax", "toa")]
    assert not standings.build_standings(build_boards(FORECASTING, pair))[0].is_ablation


def test_rectangles_are_maximal_and_each_shown_one_has_something_that_those_before_lack():
    wide = {f"wide {place}": "abc" for place in range(5)}
    found = comparable.find_rectangles({**wide, "both": "abcdef", "long": "cdef", "longer": "cdefg", "sole": "g"})
    shapes = [(len(one.names), "".join(one.blocks)) for one in found]
    assert shapes == [(6, "abc"), (3, "cdef"), (8, "c"), (2, "g")]
    assert comparable.pick_rectangles(found) == found[:2]
    assert comparable.pick_rectangles(found[2:]) == found[2:3]
    steps = {f"{first}{place}": f"{first}{first + 1}" for first in range(6) for place in "ab"}
    assert len(comparable.pick_rectangles(comparable.find_rectangles(steps))) == comparable.MOST_RECTANGLES < 6


def together(**changes: object):
    """Two networks on two blocks, each with softmax and another mechanism."""
    return [
        row(model=model, attention=name, horizon=horizon, **changes)
        for model in ("patchtst", "itransformer")
        for name in ("softmax", "toa")
        for horizon in (7, 14)
    ]


def test_networks_are_ranked_together_on_equal_budgets_alone():
    everyone = standings.build_standings(build_boards(FORECASTING, together()))[-1]
    assert (everyone.model, len(everyone.judgement.names)) == ("", 4)
    assert everyone.title == "Forecasting, clean, by MSE: every candidate"
    longer = [row(model="dlinear", attention="", horizon=h, training='{"epochs":90}') for h in (7, 14)]
    unlike = standings.build_standings(build_boards(FORECASTING, [*together(), *longer]))
    assert [one.model for one in unlike] == ["patchtst", "itransformer"]


def test_networks_are_ranked_together_only_beside_their_softmax():
    rows = [one for one in together() if (one.model, one.attention) != ("itransformer", "softmax")]
    assert [one.model for one in standings.build_standings(build_boards(FORECASTING, rows))] == ["patchtst"]
    plain = [row(model="dlinear", attention="", horizon=horizon) for horizon in (7, 14)]
    rows = [one for one in rows if one.model == "patchtst"] + plain
    everyone = standings.build_standings(build_boards(FORECASTING, rows))[-1]
    assert len(everyone.judgement.names) == 3


def at_rates(name: str, dataset: str, outcomes: dict[float, tuple[float, float]], **changes: object):
    """Two seeds at each rate: (validation, test) error."""
    return [
        row(attention=name, attention_settings=as_json(complete_mechanism(name)[1]), dataset=dataset, seed=seed,
            training=json.dumps({"batch": 32, "learning_rate": rate}), validation_loss=validation, mse=test, **changes)
        for rate, (validation, test) in outcomes.items()
        for seed in (1, 2)
    ]  # fmt: skip


def test_each_mechanism_is_compared_at_the_rate_that_validation_chose():
    rows = []
    for dataset in ("Set 1", "Set 2"):
        rows += at_rates("softmax", dataset, {1e-4: (0.9, 0.5), 1e-3: (0.6, 0.4)})
        # Its test error is the best at the rate that validation does not choose.
        rows += at_rates("caps", dataset, {1e-4: (0.7, 0.1), 1e-3: (0.6, 0.44)})
        rows += at_rates("toa", dataset, {1e-3: (0.1, 0.01)})  # no choice of rates: left out
    found = standings.build_standings(build_boards(FORECASTING, rows))
    (tuned,) = (one for one in found if one.rates)
    assert tuned.rates == (1e-4, 1e-3)
    assert tuned.judgement.names == ("patchtst + softmax", "patchtst + caps")
    assert standings.build_contrasts(tuned)[0].change == pytest.approx(10)
    assert tuned.footing == "learning rate of 0.0001, 0.001 chosen on validation"
    assert not tuned.uneven
    assert [one.standing for one in standings.pick_answers(found)] == [tuned]
    assert standings.pick_headline(found) is tuned


def test_rates_of_runs_that_differ_in_more_are_not_mixed():
    rows = at_rates("softmax", "Set 1", {1e-4: (0.9, 0.5), 1e-3: (0.6, 0.4)})
    rows += at_rates("caps", "Set 1", {1e-4: (0.7, 0.1)}) + at_rates("caps", "Set 1", {1e-3: (0.5, 0.1)}, loss="mae")
    found = standings.build_standings(build_boards(FORECASTING, rows))
    assert not any(one.rates for one in found)
