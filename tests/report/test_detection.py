"""The page of a detection: what it says, what it leaves off, and nothing in a name that a browser would run."""

from dataclasses import replace

import numpy as np
import pytest
from detections import ODD, entity, summary

from rearview.core.errors import InputError
from rearview.report.common.page import render
from rearview.report.detect.page import MOST_ROWS, DetectionSummary, encode


def data(page: DetectionSummary) -> dict:
    return encode(page)[0]


def test_the_page_holds_segments_measures_and_notes() -> None:
    page = render(summary())
    assert "2024-01-02 06:00:00" in page
    assert "c1 75 %" in page
    assert "average precision" in page
    assert "A note." in page
    assert "Loss" in page or "itransformer" in page
    assert render(summary()) == page


def test_names_are_text_wherever_they_stand() -> None:
    page = render(summary())
    assert ODD not in page
    assert "<b>valve" not in page
    assert data(summary())["channels"][0] == ODD


def test_what_there_is_nothing_of_is_hidden_or_said() -> None:
    quiet = replace(entity(), segments=(), labels=())
    page = render(summary(quiet, measures={}, curves={}))
    assert "No row scores above the threshold." in page
    assert '<section id="measures" aria-labelledby="measures-title" hidden>' in page
    assert '<section id="training" aria-labelledby="training-title" hidden>' in page


def test_a_long_series_keeps_its_peaks_and_the_ends_of_its_segments() -> None:
    long = entity(rows=50_000)
    page = summary(long)
    drawn = data(page)["entities"][0]
    assert len(drawn["score"]) < 2 * MOST_ROWS[0]
    part = drawn["segments"][0]
    peak = long.segments[0].peak
    assert drawn["score"][part["peak"]] == pytest.approx(long.score[peak], rel=1e-4)
    assert part["first"] < part["peak"] < part["last"]
    assert max(drawn["score"]) == pytest.approx(long.score.max(), rel=1e-4)
    assert "drawn at about" in encode(page)[1][0]


def test_a_page_of_too_many_numbers_draws_fewer_channels_then_fewer_series() -> None:
    page = summary(*(entity(f"pump {n}", rows=100 + n, channels=20) for n in range(10)))
    drawn, notes = encode(page, budget=8_000)
    assert all(len(one["values"]) == 6 for one in drawn["entities"])
    assert all("19" in one["values"] for one in drawn["entities"])  # the largest share
    assert "6 channels" in notes[0]
    drawn, notes = encode(page, budget=1_000)
    assert len(drawn["entities"]) < 10
    assert "series" in notes[0]


def test_many_series_of_few_channels_stay_within_the_budget() -> None:
    drawn, notes = encode(summary(*(entity(f"pump {n}", rows=100) for n in range(40))), budget=8_000)
    assert 10 < len(drawn["entities"]) < 40
    assert notes[-1].startswith(f"To stay small, the page draws the first {len(drawn['entities'])} of 40 series;")
    sizes = [len(one["score"]) * 3 + 4 * len(one["levels"]["at"]) for one in drawn["entities"]]
    assert sum(sizes) <= 8_000


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(InputError, match="series 'pump' must have a score"):
        summary(replace(entity(), score=np.zeros(3)))
    with pytest.raises(InputError, match="at least one series"):
        summary(entities=())
