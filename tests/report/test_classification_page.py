"""The page of a classification: numbers in it are those of the summary, and nothing of the data becomes part of it."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from small_classification import LABELS, summary

from rearview.core.errors import InputError
from rearview.estimators.classify.portfolio.portfolio import Standing
from rearview.report.classify import page
from rearview.report.classify.predictions import PredictedClass, PredictionSummary, UnsureCase
from rearview.report.common.page import render, write
from rearview.tasks.confusion import Confusion


def payload(text):
    return json.loads(re.search(r'id="report-data">(.*?)</script>', text, re.DOTALL)[1])


def test_the_tables_hold_the_scores():
    text = render(summary())
    cells = [int(cell or 0) for cell in re.findall(r"--share:[\d.]+\">(\d*)</td>", text)]
    assert cells == [5, 1, 0, 0, 3, 0, 1, 0, 0]
    assert "80.0 %" in text
    assert 'title="share of the cases of this class that were predicted as it"' in text
    assert "down <small>1 time</small>" in text
    assert "best at epoch 2" in text


def test_a_portfolio_has_a_leaderboard_and_one_network_none():
    board = (
        Standing("trees & more", "quantiles", 0.7, 0.91, 0.2, 1.5),
        Standing("shapelets", "pieces", 0.0, 0.5, 0.9, 2.0),
    )
    text = render(replace(summary(), leaderboard=board, curves={}))
    assert "trees &amp; more</th><td>0.70</td><td>91.0 %</td><td>0.200</td><td>1.5</td>" in text
    assert 'aria-labelledby="leaderboard-title">' in text
    assert 'aria-labelledby="training-title" hidden>' in text
    alone = render(summary())
    assert 'aria-labelledby="leaderboard-title" hidden>' in alone
    assert 'aria-labelledby="training-title">' in alone


def test_names_are_text():
    text = render(summary())
    assert "<b>odd</b>" not in text
    assert "&lt;b&gt;odd&lt;/b&gt;" in text
    assert payload(text)["examples"][-1]["label"] == "<b>odd</b>"


def test_long_and_many_channelled_cases_are_thinned_and_it_is_reported():
    text = render(summary(steps=2500, channels=14))
    example = payload(text)["examples"][0]
    assert len(example["channels"]) == page.MOST_CHANNELS
    assert len(example["channels"][0]) <= page.MOST_STEPS
    assert example["every"] == 3
    assert "drawn at about 1,000 of their steps" in text
    assert "Of 14 channels the first 12 are drawn" in text


def test_a_page_has_a_budget():
    data, notes = page.encode(summary(), budget=130)
    assert len(data["examples"]) == 2
    assert "draws 2 of 10 chosen cases" in notes[0]


def test_missing_values_leave_gaps():
    gaps = page.Example("line 1", "up", "up", 1.0, np.array([[1.0, np.nan, 3.0]]))
    data, _ = page.encode(summary(examples=[gaps]))
    assert data["examples"][0]["channels"] == [[1, None, 3]]


def test_a_page_without_a_case_is_refused():
    with pytest.raises(InputError, match="at least one case to show"):
        summary(examples=[])


def test_writing_gives_one_file(tmp_path):
    path = write(tmp_path / "deep" / "report.html", summary())
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_no_class_is_called_the_hardest_where_all_cases_were_predicted_right():
    assert "<b>&lt;b&gt;odd&lt;/b&gt;</b> <span>0.0 % of its cases predicted right</span>" in render(summary())
    right = render(replace(summary(), confusion=Confusion.of(LABELS, LABELS, LABELS)))
    assert "<dt>Hardest class</dt><dd><b>none</b> <span>all cases were predicted right</span>" in right


def test_a_table_of_many_classes_is_set_close():
    labels = np.array([f"word {number}" for number in range(page.MANY_CLASSES + 1)])
    few, many = (replace(summary(), confusion=Confusion.of(some, some, some)) for some in (labels[:-1], labels))
    assert '<table class="confusion">' in render(few)
    assert '<table class="confusion many">' in render(many)


def test_the_page_of_cases_without_classes_counts_predictions_and_lists_the_least_certain():
    known = summary()
    shared = {
        name: getattr(known, name) for name in ("title", "verdict", "command", "device", "seconds", "data", "examples")
    }
    text = render(
        PredictionSummary(
            **shared,
            classes=(
                PredictedClass("<b>odd</b>", 7, 0.9),
                PredictedClass("up", 3, 0.5),
                PredictedClass("down", 0, 0.0),
            ),
            unsure=(UnsureCase("line <4>", "up", 0.51, "down", 0.49),),
        )
    )
    assert '<th scope="row">&lt;b&gt;odd&lt;/b&gt;</th><td>7</td><td>90.0 %</td>' in text
    likeliest = '<td class="words">up</td><td>51.0 %</td><td class="words">down</td><td>49.0 %</td>'
    assert f'<th scope="row">line &lt;4&gt;</th>{likeliest}' in text
    assert "78.0 %" in text  # mean certainty over 7 cases of 0.9 and 3 of 0.5
    assert "<b>odd</b>" not in text
    assert payload(text)["labelled"] is False
    assert len(payload(text)["examples"]) == 10
