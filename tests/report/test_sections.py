"""Tables and lists: the right figures, the best in bold, nothing unescaped."""

import math
from dataclasses import replace

import pytest

from rearview.core.wording import quantity
from rearview.data.panel import Finding
from rearview.report.common import text
from rearview.report.common.page import render
from rearview.report.forecast.page import ForecastSummary, score_table
from rearview.report.forecast.views import Score


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0.4213, 0.8126, math.nan], ["0.4213", "0.8126", "–"]),
        ([8.312, 12.02], ["8.312", "12.020"]),
        ([12345.6, 99999.0], ["12,346", "99,999"]),
        ([0.0, 0.0], ["0", "0"]),
        ([1e12, 3.0], ["1.000e+12", "3.000e+00"]),
        ([math.inf], ["–"]),
    ],
)
def test_a_column_of_numbers_shares_its_decimals(values: list[float], shown: list[str]):
    assert text.column(values) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.234, "0.23 s"), (9.0, "9 s"), (41.6, "42 s"), (59.7, "1 min 0 s"), (83.4, "1 min 23 s"), (4000.0, "1 h 6 min")],
)
def test_durations_in_words(seconds: float, shown: str):
    assert text.duration(seconds) == shown


def test_memory_shares_counts_and_settings_in_words():
    assert [text.memory(count) for count in (0, 1023, 490560, 400 << 20, 3 << 30)] == [
        "0 bytes",
        "1,023 bytes",
        "479.1 KiB",
        "400.0 MiB",
        "3.0 GiB",
    ]
    assert [text.percent(share) for share in (0.0123, 0.0001, 1.0, math.nan)] == [
        "1.2 %",
        "under 0.1 %",
        "100.0 %",
        "–",
    ]
    assert (quantity(1, "step"), quantity(2000, "step"), quantity(1, "series", "series")) == (
        "1 step",
        "2,000 steps",
        "1 series",
    )
    shown = [text.setting(value) for value in (None, True, 0.0001, (0.9, 0.999), (), "rbca", 336)]
    assert shown == ["none", "yes", "0.0001", "0.9, 0.999", "none", "rbca", "336"]


def _part(opening: str, summary: ForecastSummary) -> str:
    """The page from an opening tag to the end of the section."""
    return render(summary).split(opening)[1].split("\n</div>" if "findings" in opening else "</section>")[0]


def _headline(summary: ForecastSummary) -> str:
    return _part('<dl class="headline">', summary)


def _row(table: str, model: str) -> str:
    return next(row for row in table.replace("<wbr>", "").split("<tr") if f">{model}" in row)


def test_the_best_of_each_measure_is_bold(seven: ForecastSummary):
    table = score_table(seven.scores)
    best = _row(table, "patchtst")
    assert all(f"<b>{figure}</b>" in best for figure in ("0.4213", "0.4411", "0.7122", "8.312", "0.8012", "0.1533"))
    assert "<b>" not in _row(table, "seasonal_naive")


def test_coverage_is_best_near_its_level_and_stands_beside_it(seven: ForecastSummary):
    table = score_table(seven.scores)
    assert "78.4 % <small>−1.6</small>" in _row(table, "patchtst")
    assert "<b>94.3 %</b> <small>−0.7</small>" in _row(table, "patchtst")
    assert "<b>80.3 %</b> <small>+0.3</small>" in _row(table, "dlinear")
    assert "<td>–</td><td>–</td>" in _row(table, "seasonal_naive")


def test_equal_figures_are_both_bold(seven: ForecastSummary):
    twin = replace(seven.scores[0], model="twin")
    table = score_table((seven.scores[0], twin))
    assert _row(table, "patchtst").count("<b>") == _row(table, "twin").count("<b>") == 8


def test_a_measure_nobody_has_gets_no_column(seven: ForecastSummary):
    scores = tuple(replace(score, pinball=math.nan, coverage={}) for score in seven.scores)
    table = score_table(scores)
    assert "Pinball" not in table
    assert "coverage</abbr>" not in table


def test_without_scores_the_page_says_so(seven: ForecastSummary, odd: ForecastSummary):
    assert "No backtest was run" in score_table(())
    assert "No measure could be computed" in score_table(odd.scores)


def test_the_headline_compares_with_seasonal_naive(seven: ForecastSummary):
    assert "31 % below seasonal_naive" in _headline(seven)
    assert "94.3 %" in _headline(seven)
    worse = replace(seven.scores[0], mae=0.7)
    assert "9 % above seasonal_naive" in _part(
        '<dl class="headline">', replace(seven, scores=(worse, *seven.scores[1:]))
    )
    assert "15 % below dlinear" in _headline(replace(seven, scores=seven.scores[:2]))
    level = Score("net", 1, 0.6411, 1, 1, 1)
    assert "level with seasonal_naive" in _part(
        '<dl class="headline">', replace(seven, scores=(level, seven.scores[2]))
    )
    assert "in the backtest" in _headline(replace(seven, scores=seven.scores[:1]))


def test_no_line_ends_within_a_flag(seven: ForecastSummary):
    told = render(replace(seven, notes=("Say --id-col <b> or a--b.",)))
    assert 'Say <span class="flag">--id-col</span> &lt;b&gt; or a--b.' in told


def test_findings_go_from_warning_to_inferred(seven: ForecastSummary):
    found = _part('<div class="findings">', seven)
    assert found.index("Warnings") < found.index("Repaired") < found.index("Inferred")
    assert (
        _part('<div class="findings">', replace(seven, findings=()))
        == '<p class="quiet">Nothing was inferred or repaired.</p></div>'
    )


def test_a_count_is_reported_once(seven: ForecastSummary):
    told = Finding("repaired", "gaps", 1204, "1,204 steps are absent.")
    untold = Finding("repaired", "gaps", 1204, "Some steps are absent.")
    assert "count" not in _part('<div class="findings">', replace(seven, findings=(told,)))
    assert '<span class="count">1,204</span>' in _part('<div class="findings">', replace(seven, findings=(untold,)))


def test_training_says_how_it_ended(seven: ForecastSummary):
    shown = _part('<h2 id="training-title">', seven)
    assert "23 epochs, best at epoch 13; stopped early" in shown
    assert "20 epochs, best at epoch 20; all epochs were run." in shown


def test_settings_have_values_and_reasons(seven: ForecastSummary):
    shown = _part('<div class="columns">', seven)
    assert "<dt>lookback</dt><dd>336</dd>" in shown
    assert '<dd class="why">14 times the daily season' in shown
    assert "<dt>width</dt><dd>128</dd></div>" in shown


def test_the_name_of_a_setting_may_break_after_an_underscore(seven: ForecastSummary):
    shown = _part('<div class="columns">', replace(seven, settings={"a": {"windows_per_<b>": (1, "")}}))
    assert "<dt>windows_<wbr>per_<wbr>&lt;b&gt;</dt>" in shown
