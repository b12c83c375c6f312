"""Mechanisms against controls: the yardstick, paired intervals and their correction, and the sentence."""

import math
import re

import numpy as np
import pytest
from scipy import stats
from small import row
from small_labelled import classified, detected

from rearview.bench.analysis import ablation
from rearview.bench.analysis.leaderboard import build_boards
from rearview.bench.analysis.significance import Interval, student_interval
from rearview.bench.rows.row import ClassificationRow, DetectionRow, Row
from rearview.bench.tasks import FORECASTING

HEADINGS = ["against it", "interval", "seeds", "parameters", "seconds"]


def runs(attention: str, errors: list[float], validation: float, **changes: object) -> list[Row]:
    """A run for each error, with seeds 0, 1, 2 ..."""
    return [
        row(attention=attention, mse=error, validation_loss=validation, seed=seed, status="done", **changes)
        for seed, error in enumerate(errors)
    ]


def test_an_interval_is_students_with_the_level_shared_among_comparisons() -> None:
    differences = [-1.0, -2.0, -4.0, -3.5]
    plain = student_interval(differences, 1)
    theirs = stats.ttest_1samp(differences, 0.0).confidence_interval(0.95)
    assert (plain.low, plain.high) == pytest.approx((theirs.low, theirs.high))
    corrected = student_interval(differences, 10)
    theirs = stats.ttest_1samp(differences, 0.0).confidence_interval(0.995)
    assert (corrected.low, corrected.high) == pytest.approx((theirs.low, theirs.high))
    assert corrected.mean == pytest.approx(np.mean(differences))


def test_all_intervals_together_are_right_as_often_as_they_say() -> None:
    draw = np.random.default_rng(3)
    right = 0
    for _ in range(400):
        made = [student_interval(draw.normal(size=4).tolist(), 9) for _ in range(9)]
        right += all(one.low <= 0 <= one.high for one in made)
    assert right / 400 > 0.93  # 0.95 and two standard errors below


def test_the_yardstick_is_the_best_control_on_validation_and_never_on_test() -> None:
    rows = [
        *runs("softmax", [0.9, 0.91], 0.2),
        *runs("uniform", [1.0, 1.01], 0.30),
        *runs("fixed", [0.8, 0.81], 0.31),
    ]
    (one,) = ablation.compare_arms(rows)
    assert one.yardstick.name == "uniform"
    assert [arm.name for arm in one.arms] == ["softmax", "uniform", "fixed"]
    assert one.comparisons == 2
    assert one.yardstick.against is None


def test_the_sentence_is_on_plain_softmax_where_another_form_of_it_is_better() -> None:
    places = {"attention_settings": '{"places": true, "rotary": false}'}
    rows = [
        *runs("softmax", [0.8, 0.81], 0.1, **places),
        *runs("softmax", [0.9, 0.91], 0.2),
        *runs("uniform", [1.0, 1.01], 0.30),
    ]
    (one,) = ablation.compare_arms(rows)
    assert [arm.name for arm in one.mechanisms] == ["softmax", "softmax(places=True)"]
    assert one.verdict.startswith(f"{one.place}: softmax is ")


def test_seeds_are_paired() -> None:
    """What moves all arms of a seed alike is no difference between them."""
    shift = [1.0, 2.0, 4.0]
    rows = [*runs("softmax", [0.9 * s for s in shift], 0.2), *runs("zero", shift[::1], 0.3)]
    (one,) = ablation.compare_arms(rows)
    against = one.arms[0].against
    assert against is not None
    assert (against.mean, against.low, against.high) == pytest.approx((-10, -10, -10))
    (one,) = ablation.compare_arms([*rows[::-1]])
    assert one.arms[1].against is not None
    assert one.arms[1].against.mean == pytest.approx(-10)


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        (
            [0.90, 0.91, 0.9],
            "9.67 % better than zero, the best control on validation .*: attention earns its place here",
        ),
        ([1.10, 1.11, 1.1], "10.33 % worse than zero, .*: attention does harm here"),
        ([0.90, 1.11, 1.0], "can't be told from zero.*: nothing shows that attention earns its place here"),
    ],
)
def test_the_sentence_says_what_the_interval_says(errors: list[float], words: str) -> None:
    others = [*runs("rbca", [0.5, 0.51, 0.5], 0.1), *runs("caps", [2.0, 2.01, 2.0], 0.1)]
    rows = [*runs("softmax", errors, 0.2), *others, *runs("zero", [1.0, 1.0, 1.0], 0.3)]
    (one,) = ablation.compare_arms(rows)
    assert re.search(words, one.verdict), one.verdict
    assert one.verdict.startswith("patchtst on Small, 29 steps to 7: softmax")
    assert f" over 3 seeds, corrected for {one.comparisons} comparisons): " in one.verdict
    assert one.verdict.endswith("Of the others, better: rbca; worse: caps.")


def test_runs_without_a_number_and_places_without_a_control_are_left_out() -> None:
    rows = [
        *runs("softmax", [0.9, math.nan, 0.9], 0.2),
        *runs("zero", [1.0, 1.0, 1.0], 0.3),
        *runs("softmax", [0.9, 0.9], 0.2, dataset="Other"),
    ]
    (one,) = ablation.compare_arms(rows)
    assert one.place.dataset == "Small"
    assert [arm.seeds for arm in one.arms] == [2, 3]
    assert one.uneven == ("seeds 2 to 3",)
    assert [ablation.has_score(each) for each in rows[:3]] == [True, False, True]


def test_a_seed_alone_gives_no_interval() -> None:
    (one,) = ablation.compare_arms([*runs("softmax", [0.9], 0.2), *runs("zero", [1.0], 0.3)])
    assert one.arms[0].against is None
    assert "fewer than two seeds" in one.verdict


def test_comparisons_of_all_places_are_counted_together() -> None:
    rows = [
        *runs("softmax", [0.9, 0.8, 0.85], 0.2),
        *runs("zero", [1.0, 1.1, 1.0], 0.3),
    ]
    elsewhere = [*runs("softmax", [0.9, 0.8, 0.85], 0.2, dataset="B"), *runs("zero", [1.0, 1.1, 1.0], 0.3, dataset="B")]
    (alone,) = ablation.compare_arms(rows)
    both = ablation.compare_arms([*rows, *elsewhere])
    assert [one.comparisons for one in both] == [2, 2]
    assert alone.arms[0].against is not None
    assert both[0].arms[0].against is not None
    assert both[0].arms[0].against.high > alone.arms[0].against.high


def test_leaderboards_are_taken_apart_by_all_but_their_attention() -> None:
    rates = ['{"batch":32,"epochs":10,"learning_rate":0.001}', '{"batch":32,"epochs":10,"learning_rate":0.01}']
    rows = [
        each
        for rate, better in zip(rates, (0.9, 0.8), strict=True)
        for each in (
            *runs("softmax", [better, better + 0.01], 0.2, training=rate),
            *runs("zero", [1.0, 1.01], 0.3, training=rate),
        )
    ]
    others = runs("softmax", [0.5, 0.6], 0.2, protocol="published:rbca")
    alone = {"dataset": "C", "training": rates[0]}
    controls = [*runs("zero", [1.0, 1.1], 0.3, **alone), *runs("fixed", [1.0, 1.1], 0.3, **alone)]
    found = ablation.find_ablations(build_boards(FORECASTING, [*rows, *others, *controls]))
    assert {(one.footing, round(one.mechanisms[0].score, 3)) for one in found} == {
        ("learning_rate=0.001", 0.905),
        ("learning_rate=0.01", 0.805),
    }
    assert {one.comparisons for one in found} == {2}


def test_the_table_has_a_line_for_each_arm() -> None:
    rows = [*runs("softmax", [0.9, 0.8], 0.2), *runs("zero", [1.0, 1.1], 0.3)]
    (one,) = ablation.compare_arms(rows)
    lines = ablation.table(one)
    assert re.split("  +", lines[0]) == ["attention", "mse", "validation", *HEADINGS]
    assert lines[1].split()[:2] == ["softmax", "0.8500"]
    assert "yardstick" in lines[2]


def cases(attention: str, right: list[int], validation: float, **changes: object) -> list[ClassificationRow]:
    """A run that classifies so many of 40 test cases right for each number, with seeds 0, 1, 2 ..."""
    facts = {"attention": attention, "attention_settings": "{}", "validation_criterion": validation, **changes}
    return [classified(accuracy=each / 40, seed=seed, **facts) for seed, each in enumerate(right)]


def test_accuracies_are_compared_in_points_and_more_is_better() -> None:
    rows = [
        *cases("softmax", [36, 38, 37, 36], 0.1),
        *cases("rbca", [10, 11, 10, 12], 0.1),
        *cases("zero", [26, 28, 28, 27], 0.2),
        *cases("uniform", [39, 39, 39, 39], 0.3),  # better on the test cases alone
    ]
    (one,) = ablation.compare_arms(rows)
    assert (one.metric, one.yardstick.name, one.comparisons) == ("accuracy", "zero", 3)
    softmax = one.arms[0]
    assert ends(softmax) == ends(student_interval([25.0, 25.0, 22.5, 22.5], 3, step=2.5))
    assert [arm.call for arm in one.arms] == ["better", "worse", "", "better"]
    assert one.verdict.startswith("patchtst_tslib on BasicMotions: softmax is 23.75 points better than zero, the best ")
    assert f"(interval {softmax.against} over 4 seeds, corrected for 3 comparisons)" in one.verdict
    assert str(softmax.against).endswith(" points")
    assert ablation.table(one)[1].split()[:5] == ["softmax", "0.9188", "0.1000", "+23.75", "points"]


def test_seeds_that_agree_to_the_case_leave_an_interval_with_a_width() -> None:
    (one,) = ablation.compare_arms([*cases("softmax", [31, 32], 0.1), *cases("zero", [30, 31], 0.2)])
    against = one.arms[0].against
    assert against is not None
    # Two accuracies rounded to 2.5 points: their difference has a variance of 2 * 2.5**2 / 12.
    reach = stats.t.ppf(0.975, 1) * math.sqrt(2.5**2 / 6 / 2)
    assert (against.mean, against.low, against.high) == pytest.approx((2.5, 2.5 - reach, 2.5 + reach))
    assert one.arms[0].call == "not told apart"


def test_intervals_of_rounded_scores_are_right_as_often_as_they_say() -> None:
    draw = np.random.default_rng(5)
    for spread in (0.2, 0.5, 1.0, 3.0):  # of a score over seeds, in steps of what it is rounded to
        wrong = [0, 0]
        for _ in range(600):
            own, other = np.rint(0.5 + spread * draw.normal(size=(2, 2, 5)))  # [arm, seed, comparison]
            for place, step in enumerate((1.0, 0.0)):
                made = [student_interval(column, 5, step=step) for column in (own - other).T.tolist()]
                wrong[place] += any(one.low > 0 or one.high < 0 for one in made)
        assert wrong[0] / 600 < 0.07  # 0.05 and two standard errors above
        if spread < 3:
            assert wrong[1] / 600 > 0.3  # what plain intervals would say of nothing


def test_detection_is_compared_by_the_area_that_needs_no_threshold() -> None:
    def scores(attention: str, areas: list[float | None], loss: float | None, **changes: object) -> list[DetectionRow]:
        facts = {"attention": attention, "attention_settings": "{}", "validation_loss": loss, **changes}
        return [detected(auc_pr=area, seed=seed, **facts) for seed, area in enumerate(areas)]

    rows = [
        *scores("softmax", [0.50, 0.52, 0.51], 0.1),
        *scores("zero", [0.40, 0.41, 0.42], 0.2),
        *scores("uniform", [0.9, 0.9, 0.9], None),  # not chosen on validation
        *scores("fixed", [None, 0.9, 0.9], 0.3),
        *scores("softmax", [0.50, 0.52, 0.51], 0.1, lookback=50),
    ]
    (one,) = ablation.compare_arms(rows)
    assert str(one.place) == "transformer on SMAP, windows of 100"
    assert (one.metric, one.yardstick.name) == ("auc_pr", "zero")
    assert [(arm.name, arm.seeds) for arm in one.arms] == [("softmax", 3), ("zero", 3), ("fixed", 2)]
    assert ends(one.arms[0]) == ends(student_interval([10.0, 11.0, 9.0], 2))
    assert one.uneven == ("seeds 2 to 3",)


def test_runs_that_were_best_at_their_last_epoch_are_counted() -> None:
    rows = [
        *runs("softmax", [0.9, 0.91], 0.2, epochs=7, best_epoch=7),
        *runs("fixed", [1.0, 1.01], 0.3, epochs=7, best_epoch=3),
        *runs("zero", [1.0, 1.01], 0.4, epochs=0, best_epoch=None),
    ]
    (one,) = ablation.compare_arms(rows)
    assert one.unfinished == 2


def ends(of: ablation.Arm | Interval) -> list[float]:
    """Mean and ends of an interval, or of an arm's, to nine decimals."""
    interval = of.against if isinstance(of, ablation.Arm) else of
    assert interval is not None
    return [round(value, 9) for value in (interval.mean, interval.low, interval.high)]


def test_horizons_are_averaged_within_a_seed_and_are_no_replication() -> None:
    errors = {7: ([0.9, 0.8, 0.7], [1.0, 1.0, 1.0]), 14: ([2.2, 2.1, 2.0], [2.0, 2.0, 2.0])}
    rows = [
        one
        for horizon, (own, control) in errors.items()
        for one in (*runs("softmax", own, 0.2, horizon=horizon), *runs("zero", control, 0.3, horizon=horizon))
    ]
    (one,) = ablation.compare_arms(rows)
    assert str(one.place).endswith("steps to 7 and 14")
    softmax = one.arms[0]
    assert (softmax.seeds, one.comparisons) == (3, 1)
    assert ends(softmax) == ends(student_interval([(-10 + 10) / 2, (-20 + 5) / 2, (-30 + 0) / 2], 1))
    assert softmax.score == pytest.approx(1.45)
    # A seed that was run at one of the horizons alone is no pair.
    (less,) = ablation.compare_arms([row for row in rows if (row.attention, row.horizon, row.seed) != ("zero", 14, 2)])
    assert [arm.seeds for arm in less.arms] == [3, 2]
    assert ends(less.arms[0]) == ends(student_interval([0.0, -7.5], 1))


def test_arms_with_unlike_horizons_are_compared_horizon_by_horizon() -> None:
    rows = [
        *runs("softmax", [0.9, 0.8], 0.2, horizon=7),
        *runs("softmax", [0.9, 0.8], 0.2, horizon=14),
        *runs("zero", [1.0, 1.0], 0.3, horizon=7),
        *runs("prime", [0.5, 0.5], 0.3, horizon=14),
    ]
    (one,) = ablation.compare_arms(rows)  # no control at 14
    assert (one.place.horizons, [arm.name for arm in one.arms]) == ((7,), ["softmax", "zero"])
