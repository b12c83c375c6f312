"""Pages of large runs stay small enough to send by mail, and say what they leave off."""

from dataclasses import replace

import detections
import pytest
import small_classification

from rearview.report.common.page import MOST_BYTES, render
from rearview.report.common.summary import Summary
from rearview.report.forecast.page import ForecastSummary


def many_series(small: ForecastSummary) -> Summary:
    views = [replace(small.series[n % 7], id=f"shop {n}") for n in range(400)]
    return replace(small, series=tuple(views))


def many_channels(small: ForecastSummary) -> Summary:
    entities = [detections.entity(f"pump {n}", rows=5_003, channels=53) for n in range(7)]
    return detections.summary(*entities)


def long_cases(small: ForecastSummary) -> Summary:
    return small_classification.summary(steps=40_009, channels=19)


@pytest.mark.parametrize("large", [many_series, many_channels, long_cases])
def test_the_page_of_a_large_run_is_at_most_three_megabytes(seven: ForecastSummary, large):
    summary = large(seven)
    page = render(summary)
    assert 1_500_000 < len(page.encode()) <= MOST_BYTES == 3_000_000
    assert "To stay small" in page or "drawn at about" in page


def test_the_plotting_library_comes_with_its_licence(seven: ForecastSummary):
    from importlib import resources

    licence = resources.files("rearview.report").joinpath("assets", "plotly-LICENSE.txt").read_text()
    assert "Permission is hereby granted, free of charge" in licence
    page = render(seven)
    assert "plotly.js (cartesian - minified) v4.1.1" in page
    assert "Licensed under the MIT license" in page
    assert "Charts by plotly.js, MIT licence." in page
