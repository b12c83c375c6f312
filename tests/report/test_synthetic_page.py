"""The page of a synthetic study: numbers in it are those of the summary, and names are text."""

import json
import re

import numpy as np
import pytest

from rearview.core.errors import InputError
from rearview.report.common.page import render
from rearview.report.common.summary import FactList
from rearview.report.common.tables import Cell, Table
from rearview.report.results import study as page


def line(name, *values):
    return page.Series(name, np.arange(len(values), dtype=np.float64), np.array(values))


def summary(*figures):
    return page.StudySummary(
        title="A study",
        verdict="It is so.",
        command="rearview reproduce flipflop",
        created="2026-01-02",
        version="0.1.0",
        device="cpu",
        seconds=3.0,
        data=FactList((("Samples", "fresh"),)),
        tiles=(("Best", "0.5", "mha"),),
        table=Table("Runs", ("arm", "mse"), ((Cell("<i>odd</i>"), Cell("0.25")),)),
        figures=figures,
    )


def payload(text):
    return json.loads(re.search(r'id="report-data">(.*?)</script>', text, re.DOTALL)[1])


def test_figures_hold_their_numbers():
    lines = page.Figure(
        "Curve", "About it.", "lines", (page.View("only", (line("<b>a</b>", 1.0, np.nan, 3.0),)),), "x", "y"
    )
    views = page.View("one", map=np.eye(2)), page.View("two", map=-np.eye(2))
    operator = page.Figure("Operator", "Signs.", "map", views, "key", "query", every=6)
    text = render(summary(lines, operator))
    first, second = payload(text)
    assert first["views"][0]["series"] == [{"name": "<b>a</b>", "x": [0, 1, 2], "y": [1, None, 3]}]
    assert [view["map"] for view in second["views"]] == [[[1, 0], [0, 1]], [[-1, 0], [0, -1]]]
    assert second["every"] == 6
    assert "<b>a</b>" not in text
    assert "&lt;i&gt;odd&lt;/i&gt;" in text
    assert 'id="figure-2-choice"' in text
    assert 'id="figure-1-choice"' not in text


def test_bars_have_a_key_at_every_width():
    bars = page.Figure("Bars", "", "bars", (page.View("one", (line("a", 1.0),)),), "x", "y")
    assert '<ul class="key shown" id="figure-1-key"' in render(summary(bars))


def test_a_figure_with_nothing_to_show_is_refused():
    with pytest.raises(InputError, match="at least one view"):
        page.Figure("Curve", "", "lines", (), "x", "y")
    with pytest.raises(InputError, match="does not hold map"):
        page.Figure("Operator", "", "map", (page.View("one", (line("a", 1.0),)),), "x", "y")
