"""Other thresholds of a detection: what each would have found, counted by hand."""

from dataclasses import replace

import numpy as np
import pytest
from detections import entity, summary

from rearview.report.common.page import render
from rearview.report.detect.levels import ABOVE, BELOW, count_days, try_levels
from rearview.report.detect.page import encode


def test_alarms_rows_and_hits_are_those_of_each_threshold() -> None:
    score = np.array([0.1, 3.0, 0.1, 3.0, np.nan, 9.0, 0.3, 0.1, 0.1, 0.3])
    view = replace(entity(rows=10), score=score, threshold=1.0, labels=((0, 1), (6, 6)), segments=(), join=2)
    levels = try_levels(view)
    assert levels is not None
    assert len(levels.thresholds) == BELOW + ABOVE + 1
    assert levels.thresholds[BELOW] == 1.0
    assert levels.thresholds[-1] == pytest.approx(1.05 * 9)
    assert (np.diff(levels.thresholds) > 0).all()
    # Rows 1, 3 and 5 lie one row apart each, which is less than two.
    at_run = (levels.alarms[BELOW], levels.rows[BELOW], levels.found[BELOW])
    assert at_run == (1, 3, 1)
    assert (levels.alarms[0], levels.rows[0], levels.found[0]) == (2, 5, 2)
    assert (levels.alarms[-1], levels.rows[-1], levels.found[-1]) == (0, 0, 0)
    apart = try_levels(replace(view, join=1))
    assert apart is not None
    assert apart.alarms[BELOW] == 3


def test_a_threshold_of_nothing_has_no_scale() -> None:
    assert try_levels(replace(entity(), threshold=0.0)) is None
    data, _ = encode(summary(replace(entity(), threshold=0.0)))
    assert data["entities"][0]["levels"] is None


def test_days_are_counted_with_the_last_row() -> None:
    assert count_days(entity(rows=48)) == pytest.approx(2.0)
    assert count_days(replace(entity(rows=48), stamps=np.arange(48))) is None


def test_the_page_tells_alarms_a_day_or_in_a_thousand_rows() -> None:
    text = render(summary(entity(rows=48)))
    assert "<dt>Alarms a day</dt><dd><b>0.5</b> <span>over 2.0 days</span>" in text
    counted = replace(entity(rows=50), stamps=np.arange(50))
    assert "<dt>Alarms in 1,000 rows</dt><dd><b>20</b>" in render(summary(counted))
