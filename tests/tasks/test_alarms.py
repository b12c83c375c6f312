"""Flags against labels: golden point adjustment, scikit-learn, the range formula written out, series borders."""

from itertools import product
from math import comb, prod
from pathlib import Path

import numpy as np
import pytest

from rearview.tasks import alarms

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "protocol.npz", allow_pickle=False)
CASES = sorted({name.split("/")[1] for name in GOLDEN.files if name.startswith("input_point_adjust/")})


def draw(seed: int, rows: int = 307) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.convolve(rng.random(rows) < 0.03, np.ones(11), "same") > 0
    return labels, rng.random(rows) < 0.2


@pytest.mark.parametrize("case", CASES)
def test_point_adjustment_is_that_of_the_published_code(case: str) -> None:
    labels = GOLDEN[f"input_point_adjust/{case}/gt"] == 1
    flags = GOLDEN[f"input_point_adjust/{case}/pred"] == 1
    after = alarms.adjust(labels, flags)
    np.testing.assert_array_equal(after, GOLDEN[f"output_point_adjust/{case}/pred"] == 1)
    for which, found in (("raw", flags), ("adjusted", after)):
        said = alarms.score_rows(labels, found)
        expected = GOLDEN[f"output_point_adjust/{case}/{which}_acc_prec_rec_f1"][1:]
        # Where a ratio does not exist scikit-learn writes 0.
        np.testing.assert_allclose(np.nan_to_num([said.precision, said.recall, said.f1]), expected, atol=1e-12)


def test_every_golden_case_was_met() -> None:
    assert len(CASES) == 7


def test_rows_are_counted_as_scikit_learn_counts_them() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    labels, flags = draw(1)
    said = alarms.score_rows(labels, flags)
    expected = metrics.precision_recall_fscore_support(labels, flags, average="binary")[:3]
    np.testing.assert_allclose([said.precision, said.recall, said.f1], expected)


def test_runs_break_at_the_border_of_two_series() -> None:
    flags = np.array([1, 1, 1, 0, 1], dtype=bool)
    assert alarms.find_runs(flags).tolist() == [[0, 3], [4, 5]]
    assert alarms.find_runs(flags, np.array([0, 2, 5])).tolist() == [[0, 2], [2, 3], [4, 5]]
    assert alarms.find_runs(flags, np.array([0, 3, 4, 5])).tolist() == [[0, 3], [4, 5]]
    assert alarms.find_runs(np.zeros(3, dtype=bool)).shape == (0, 2)


def test_a_hit_in_one_series_does_not_flag_the_next() -> None:
    labels = np.ones(4, dtype=bool)
    flags = np.array([1, 0, 0, 0], dtype=bool)
    events = alarms.find_runs(labels, np.array([0, 2, 4]))
    assert alarms.adjust(labels, flags, events).tolist() == [True, True, False, False]


def test_stretches_around_rows_that_do_not_count_stay_apart() -> None:
    known = np.array([1, 1, 0, 0, 1, 1, 0, 1], dtype=bool)
    assert alarms.restrict(np.array([[0, 2], [4, 6]]), known).tolist() == [[0, 2], [2, 4]]
    assert alarms.restrict(np.array([[1, 5], [6, 7], [7, 8]]), known).tolist() == [[1, 3], [4, 5]]
    assert alarms.restrict(np.zeros((0, 2), dtype=np.int64), known).shape == (0, 2)


def ranges(flags: np.ndarray) -> list[set[int]]:
    """Stretches of flagged rows as sets, one row after another."""
    found: list[set[int]] = []
    for row, flag in enumerate(flags.tolist()):
        if flag and row and flags[row - 1]:
            found[-1].add(row)
        elif flag:
            found.append({row})
    return found


def literal_range_measure(of: list[set[int]], by: list[set[int]]) -> float:
    """Tatbul et al.: mean of (share of the range covered, flat bias) / (ranges that cover it)."""
    total = 0.0
    for one in of:
        touching = [other for other in by if one & other]
        total += sum(len(one & other) for other in touching) / len(one) / max(1, len(touching))
    return total / len(of)


@pytest.mark.parametrize("seed", range(5))
def test_ranges_and_events_as_their_definitions_read(seed: int) -> None:
    labels, flags = draw(seed)
    events, found = ranges(labels), ranges(flags)
    stretches = alarms.find_runs(labels), alarms.find_runs(flags)
    said = alarms.score_ranges(labels, flags, *stretches)
    assert said.precision == pytest.approx(literal_range_measure(found, events))
    assert said.recall == pytest.approx(literal_range_measure(events, found))
    said = alarms.score_events(labels, flags, *stretches)
    assert said.precision == pytest.approx(np.mean([any(one & other for other in events) for one in found]))
    assert said.recall == pytest.approx(np.mean([any(one & other for other in found) for one in events]))


def test_joined_stretches_are_one_alarm_and_right_by_a_flag_on_an_anomaly() -> None:
    labels = np.array([0, 1, 0, 0, 0, 0, 1, 0, 0], dtype=bool)
    flags = np.array([1, 0, 1, 0, 0, 0, 1, 0, 1], dtype=bool)
    stretches = np.array([[0, 3], [6, 9]])
    events = alarms.find_runs(labels)
    assert alarms.score_events(labels, flags, events, alarms.find_runs(flags)).precision == 1 / 4
    # The first one spans a marked row between its flags, but none of its flags is on it.
    assert alarms.count_hits(labels, flags, stretches) == (2, 1)
    said = alarms.score_events(labels, flags, events, stretches)
    assert (said.precision, said.recall) == (1 / 2, 1 / 2)
    assert alarms.count_hits(labels, flags, np.array([[3, 6]])) == (0, 0)


def test_what_does_not_exist_is_nan_and_nothing_found_is_zero() -> None:
    none, some = np.zeros(5, dtype=bool), np.array([0, 1, 1, 0, 0], dtype=bool)
    no_run, one_run = alarms.find_runs(none), alarms.find_runs(some)
    for silent, unmarked in (
        (alarms.score_rows(some, none), alarms.score_rows(none, some)),
        (alarms.score_events(some, none, one_run, no_run), alarms.score_events(none, some, no_run, one_run)),
        (alarms.score_ranges(some, none, one_run, no_run), alarms.score_ranges(none, some, no_run, one_run)),
    ):
        assert np.isnan(silent.precision)
        assert (silent.recall, silent.f1) == (0, 0)
        assert unmarked.precision == 0
        assert np.isnan([unmarked.recall, unmarked.f1]).all()


def test_random_flags_look_good_after_point_adjustment() -> None:
    labels = np.zeros(2000, dtype=bool)
    labels[500:900] = True
    flags = np.zeros(2000, dtype=bool)
    flags[np.random.default_rng(3).choice(2000, 40, replace=False)] = True
    assert alarms.score_rows(labels, flags).f1 < 0.15
    assert alarms.chance_adjusted_f1(labels, 40) > 0.9


@pytest.mark.parametrize(("rows", "lengths", "flagged"), [(500, (4, 13), 22), (480, (4, 13), 22), (60, (8, 3, 5), 6)])
def test_chance_is_reported_to_within_a_thousandth(rows: int, lengths: tuple[int, ...], flagged: int) -> None:
    """Held against the exact mean: every way in which flags can fall on anomalies, by how many throws lead to it."""
    labels, begin = np.zeros(rows, dtype=bool), 5
    for length in lengths:
        labels[begin : begin + length] = True
        begin += length + 3
    exact = 0.0
    for counts in product(*(range(length + 1) for length in lengths)):
        outside = flagged - sum(counts)
        if outside < 0:
            continue
        ways = comb(rows - sum(lengths), outside) * prod(map(comb, lengths, counts))
        hit = sum(length for length, count in zip(lengths, counts, strict=True) if count)
        exact += ways / comb(rows, flagged) * 2 * hit / (hit + outside + sum(lengths))
    assert alarms.chance_adjusted_f1(labels, flagged) == pytest.approx(exact, abs=1e-3)


def test_chance_at_its_ends() -> None:
    labels = np.tile([True, True, False, False], 3)
    assert alarms.chance_adjusted_f1(labels, 0) == 0
    assert alarms.chance_adjusted_f1(labels, 12) == pytest.approx(alarms.score_rows(labels, np.ones(12, dtype=bool)).f1)
    assert np.isnan(alarms.chance_adjusted_f1(np.zeros(5, dtype=bool), 2))


def test_chance_respects_where_series_end() -> None:
    """One hit flags an anomaly of its series only: two of six rows each, not one of twelve."""
    labels = np.zeros(400, dtype=bool)
    labels[194:206] = True
    one = alarms.chance_adjusted_f1(labels, 20)
    two = alarms.chance_adjusted_f1(labels, 20, alarms.find_runs(labels, np.array([0, 200, 400])))
    assert one > two + 0.05
