"""The split: three stretches cut by date, no target row shared, sensible for the shortest data."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_panels import panel_of

from rearview.data.panel import Panel
from rearview.data.split import Split, split
from rearview.data.windows import Windows


def target_rows(which: Windows, horizon: int) -> set[int]:
    return {int(start) + ahead for start in which.starts for ahead in range(horizon)}


def assert_apart(panel: Panel, cut: Split, horizon: int) -> None:
    """No target row is shared, and in every series each stretch lies after the one before it."""
    stretches = [cut.train, cut.validation, cut.calibration]
    rows = [target_rows(stretch, horizon) for stretch in stretches]
    for one, other in itertools.combinations(rows, 2):
        assert not one & other
    for a, b in panel.bounds():
        spans = [own for part in rows if (own := [row for row in part if a <= row < b])]
        for earlier, later in itertools.pairwise(spans):
            assert max(earlier) < min(later)
    for start, s in zip(cut.train.starts, cut.train.series, strict=True):
        assert start + horizon <= panel.offsets[s] + cut.rows[s]


@settings(deadline=None, max_examples=80)
@given(
    lengths=st.lists(st.integers(1, 120), min_size=1, max_size=6),
    lookback=st.integers(1, 20),
    horizon=st.integers(1, 9),
    calibrate=st.booleans(),
)
def test_parts_of_a_split_share_no_target_row(lengths: list[int], lookback: int, horizon: int, calibrate: bool) -> None:
    lengths = [*lengths, max(max(lengths), lookback + horizon)]
    panel = panel_of(tuple(lengths), targets=1)
    cut = split(panel, lookback, horizon, calibrate=calibrate)
    assert len(cut.train) >= 1
    assert calibrate or not len(cut.calibration)
    assert_apart(panel, cut, horizon)


def test_series_that_run_apart_are_each_cut_by_their_own_end() -> None:
    panel = panel_of((60, 60, 60, 60), targets=1)
    stamps = panel.stamps.copy()
    for series, (a, b) in enumerate(panel.bounds()):
        stamps[a:b] = stamps[:60] + np.timedelta64(1000 * series, "h")
    apart = replace(panel, stamps=stamps)
    cut = split(apart, 6, 3)
    for stretch in (cut.train, cut.validation, cut.calibration):
        assert set(stretch.series.tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("length", "held"),
    [
        (10, (0, 0)),  # lookback + horizon: one window, which trains
        (12, (0, 0)),
        (13, (0, 1)),  # a horizon more: calibration before validation
        (15, (0, 1)),
        (16, (1, 1)),  # two horizons more: both
        (400, (40, 40)),  # forty windows each, because a tenth of the rows would hold fewer
    ],
)
def test_a_short_panel_loses_validation_first_then_calibration(length: int, held: tuple[int, int]) -> None:
    panel = panel_of((length,), targets=1)
    cut = split(panel, 7, 3)
    assert (len(cut.validation), len(cut.calibration)) == held
    assert len(cut.train) >= 1
    assert cut.note


def test_without_calibration_the_last_rows_stop_the_training() -> None:
    panel = panel_of((13,), targets=1)
    cut = split(panel, 7, 3, calibrate=False)
    assert (len(cut.validation), len(cut.calibration)) == (1, 0)


def test_borders_are_dates_shared_by_series_that_begin_at_other_times() -> None:
    panel = panel_of((200, 190, 150), targets=1)
    cut = split(panel, 7, 3)
    borders = [panel.stamps[panel.offsets[s] + cut.rows[s]] for s in range(3) if cut.rows[s] < panel.lengths[s]]
    assert len(set(borders)) == 1
    assert {int(s) for s in cut.train.series} == {0, 1, 2}


def test_a_series_that_ended_before_the_border_only_trains() -> None:
    panel = panel_of((300, 60), targets=1)
    cut = split(panel, 7, 3)
    assert 1 not in cut.validation.series
    assert 1 not in cut.calibration.series
    assert 1 in cut.train.series


def test_many_old_and_short_series_leave_the_long_one_to_train() -> None:
    panel = panel_of((*(12 for _ in range(60)), 100), targets=1)
    # Most rows are old, so the date that holds out a share of all rows lies before the long series begins.
    late = panel.offsets[-2]
    panel.stamps[late:] += np.timedelta64(2000, "h")
    cut = split(panel, 40, 10)
    assert len(cut.train) >= 1
    assert_apart(panel, cut, 10)


def test_windows_without_an_observed_target_are_left_out() -> None:
    panel = panel_of((100,), targets=1, missing=0.01)
    assert panel.observed is not None
    panel.observed[60:] = False
    cut = split(panel, 7, 3)
    assert len(cut.calibration) == 0
    assert all(panel.observed[start : start + 3].any() for start in cut.train.starts)
