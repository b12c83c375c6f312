"""The summary in Markdown: verdict, tables, settings and command, and nothing of the data becomes a mark."""

import re
from dataclasses import replace

import detections
import pytest
import small_classification

from rearview.estimators.auto import ensemble
from rearview.estimators.classify.portfolio import portfolio
from rearview.report.common.markdown import render, write
from rearview.report.common.summary import Summary
from rearview.report.forecast.page import MOST_LISTED
from rearview.report.forecast.views import Outlook, SeriesErrors


def tables(text: str) -> list[list[list[str]]]:
    """The cells of every table, row by row, without the line of rules."""
    blocks = re.findall(r"(?:^\|.*\|\n?)+", text, re.MULTILINE)
    split = [[re.split(r"(?<!\\)\|", line)[1:-1] for line in block.splitlines()] for block in blocks]
    return [[[cell.strip() for cell in row] for row in rows[:1] + rows[2:]] for rows in split]


def test_a_forecast_is_summed_up(seven):
    text = render(replace(seven, outlook="Sales will likely be between 410 and 520 a day."))
    assert text.startswith("# Forecast of load data.csv, 48 steps of 1 hour\n\n**Sales will likely")
    assert "31 % lower" in text
    scores = tables(text)[0]
    assert scores[0][:4] == ["Model", "MSE", "MAE", "MASE"]
    assert scores[1][:3] == ["patchtst", "**0.4213**", "**0.4411**"]
    assert scores[3][0] == "seasonal\\_naive baseline"
    assert "- 1,204 cells of column 'OT' hold -9999 and count as missing." in text
    assert [
        "Model: lookback",
        "336",
        "14 times the daily season of 24 steps, as the series are long enough.",
    ] in tables(text)[-1]
    assert f"```sh\n{seven.command}\n```" in text


def test_of_several_series_the_worst_lead(seven):
    looks = [Outlook("", 10.0 + n, 9.0 + n, 11.0 + n, 8.0, "a year before", 1.0) for n in range(7)]
    views = [
        replace(view, id=f"{view.id} {copy}", outlook=look, errors=SeriesErrors(n + 7 * copy, 0.5, 0.8, 0.9))
        for copy in range(2)
        for n, (view, look) in enumerate(zip(seven.series, looks, strict=True))
    ]
    board = (ensemble.Standing("ets", "smoothing | trend", 0.9, 0.2, 0.6, 1.0, ""),)
    text = render(replace(seven, series=tuple(views), candidates=board))
    listed = tables(text)[1]
    assert [float(row[3]) for row in listed[1:]] == [float(n) for n in range(13, 13 - MOST_LISTED, -1)]
    assert listed[1][:3] == ["OT 1", "16.00", "15.00 to 17.00"]
    assert f"{MOST_LISTED} of 14" in text
    assert tables(text)[2][1][-1] == "smoothing \\| trend"


def test_a_detection_is_summed_up():
    text = render(detections.summary())
    found, measures = tables(text)[:2]
    assert found[1][:2] == ["2024-01-02 06:00:00", "2024-01-02 09:00:00"]
    assert found[1][-1] == f"c1 75 %, {detections.ODD.replace('<', chr(92) + '<').replace('>', chr(92) + '>')} 25 %"
    assert measures[1] == ["AUC-PR", "0.5000", "average precision"]
    quiet = detections.summary(replace(detections.entity(), segments=()), measures={})
    assert "highest above" not in render(quiet)


def test_a_classification_is_summed_up():
    text = render(small_classification.summary())
    classes = tables(text)[0]
    assert classes[1] == ["up", "0.833", "0.833", "0.833", "6", "down 1 time"]
    assert classes[2][-1] == "–"
    assert classes[3][0] == "\\<b\\>odd\\</b\\>"
    board = (portfolio.Standing("trees", "quantiles", 0.0, 0.9, 0.2, 1.5),)
    rows = tables(render(replace(small_classification.summary(), leaderboard=board)))[1]
    assert rows[1] == ["trees", "–", "90.0 %", "0.200", "1.5", "quantiles"]


@pytest.mark.parametrize("command", ["rearview forecast '```'", "rearview forecast '````a'"])
def test_a_command_does_not_end_its_fence(command, tmp_path):
    page: Summary = replace(detections.summary(), command=command)
    lines = write(tmp_path / "summary.md", page).read_text(encoding="utf-8").splitlines()
    place = lines.index(command)
    assert lines[place + 1] == lines[place - 1].removesuffix("sh")
    assert lines[place + 1] not in command
