"""What the page about result rows is made of: its cells and tables, lanes of marks, the diagram of ranks."""

import re

import numpy as np
import pytest

from rearview.bench import tasks
from rearview.bench.analysis import significance
from rearview.bench.analysis.leaderboard import Score
from rearview.bench.analysis.standings import ProtocolContrast
from rearview.report.common import text
from rearview.report.common.tables import Cell, Table, score_cells
from rearview.report.results.figures import Lane, Mark, draw_lanes, draw_ranks
from rearview.report.results.papers import protocol_table
from rearview.report.results.tables import candidate


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("patchtst + rbca(alpha=1, bias=none)", "patchtst + rbca(alpha=1, bias=none)"),
        ("patchtst, depth=3, lookback=96", "patchtst, depth=3, lookback=96"),
        ("a + b(c=1, d=2), epochs=3, betas=[0.9, 0.99], 2 more (5da4)", "a + b(c=1, d=2), settings 5da4"),
        ("a, epochs=3, batch=4, 2 more (5da4), lookback=96", "a, lookback=96, settings 5da4"),
    ],
)
def test_a_candidate_of_many_settings_is_shown_short_and_printed_whole(name: str, shown: str):
    cell = candidate(name)
    assert cell.text == shown
    table = Table("", ("Candidate",), ((cell,),))
    assert (f'<abbr title="{name}">' in table.html()) == (name != shown)
    assert name in table.markdown().replace("\\", "")


def test_candidates_keep_apart_when_they_are_shown_short():
    names = [f"a, epochs={epochs}, batch={batch}" for epochs in range(3) for batch in range(3)]
    assert len({candidate(name).text for name in names}) == len(names)


def test_lanes_place_marks_and_hold_outliers_at_the_edge():
    marks = [Mark(value, "worse", "<b>") for value in (-1.0, 1.0, 2.0)]
    drawn = draw_lanes([Lane("<a>", tuple(marks)), Lane("b", (Mark(87.0),))], "told", band=2.0)
    assert "&lt;a&gt;" in drawn
    assert 'title="&lt;b&gt;"' in drawn
    places = [float(place) for place in re.findall(r'class="dot[^"]*" style="left:([\d.]+)%"', drawn)]
    assert places == [45.0, 55.0, 60.0, 100.0]
    assert drawn.count("beyond") == 1
    assert drawn.count('class="band" style="left:40.00%;width:20.00%"') == 2
    assert "+10 %" in drawn
    assert "−5 %" in drawn


@pytest.mark.parametrize(("percent", "shown"), [(1.25, "+1.2 %"), (-0.31, "−0.3 %"), (-0.04, "0.0 %"), (0.0, "0.0 %")])
def test_changes_have_a_sign_unless_they_round_to_nothing(percent: float, shown: str):
    assert text.change(percent) == shown


def test_best_and_second_follow_the_digits_shown():
    cells = score_cells([0.30001, 0.30002, 0.4, float("nan")], [0.001, None, None, None], lower_is_better=True)
    assert [(cell.text, cell.mark) for cell in cells] == [
        ("0.3000", "best"), ("0.3000", "best"), ("0.4000", "second"), ("–", "")
    ]  # fmt: skip
    assert cells[0].beside == "±0.0010"
    assert [cell.mark for cell in score_cells([1.0, 2.0], [None, None], lower_is_better=False)] == ["second", "best"]
    assert [cell.mark for cell in score_cells([1.0], [None], lower_is_better=True)] == [""]


def test_odd_words_are_safe_in_every_form():
    table = Table("a_b & <c>", ("x|y", "100 %"), ((Cell("<script>$#{}"), Cell("−1 ±2", "~^")),))
    assert "<script>" not in table.html()
    assert r"a\_b & \<c\>" in table.markdown()
    assert r"x\|y" in table.markdown()
    assert r"\textless{}script\textgreater{}\$\#\{\}" in table.tex()
    assert r"100 \%" in table.tex()


def test_the_diagram_draws_a_bar_for_every_clique():
    scores = np.array([[1.0, 2.0, 2.1, 9.0], [1.0, 2.1, 2.0, 9.0]] * 6)
    found = significance.judge(scores, ["<first>", "b", "c", "last"])
    assert found.cliques == ((1, 2),)
    drawn = draw_ranks(found)
    assert drawn.count('class="bar"') == 1
    assert drawn.count("<polyline") == 4
    assert "&lt;first&gt;" in drawn
    places = [float(x) for x in re.findall(r'<polyline points="([\d.]+),', drawn)]
    assert places == sorted(places)


def test_a_score_of_zero_has_no_changes_beside_it():
    scores = {"clean": Score(0.0, None, 1), "published:tslib": Score(0.5, None, 1)}
    one = ProtocolContrast(tasks.DETECTION, "SMAP", None, "itransformer", "adjusted_f1", scores)
    (row,) = protocol_table([one]).rows
    assert [cell.text for cell in row[-2:]] == ["0", "0.5000"]
    assert not row[-1].beside
