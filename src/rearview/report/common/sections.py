"""The parts of the page that need no script: headline, tables, lists. Everything from the data is escaped here."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape

from rearview.data.panel import Finding, Kind
from rearview.report.common import text
from rearview.report.common.summary import Curve, Facts, Score, Summary

MEASURES: tuple[tuple[str, str, Callable[[Score], float]], ...] = (
    ("MSE", "mean squared error", lambda score: score.mse),
    ("MAE", "mean absolute error", lambda score: score.mae),
    ("MASE", "absolute error over the naive error in training", lambda score: score.mase),
    ("sMAPE", "symmetric percentage error", lambda score: score.smape),
    ("RMSSE", "root squared error over the naive error in training", lambda score: score.rmsse),
    ("Pinball", "quantile loss of the intervals", lambda score: score.pinball),
)

KINDS: tuple[tuple[Kind, str], ...] = (("warning", "Warnings"), ("repaired", "Repaired"), ("inferred", "Inferred"))

ENDINGS = {
    "epochs": "all epochs were run",
    "patience": "stopped early, as validation no longer improved",
    "interrupted": "interrupted; the best weights so far were kept",
}

_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")

Tile = tuple[str, str, str]
"""A number of the headline: what it is, the number, a note."""


def headline(summary: Summary) -> str:
    """How good the forecast is, what it covers and what it took, beside the verdict."""
    return tiled([*_accuracy(summary), _extent(summary), run_time(summary)])


def tiled(tiles: Iterable[Tile]) -> str:
    """The few numbers that stand beside a verdict."""
    cells = (
        f"<div><dt>{escape(name)}</dt><dd><b>{escape(value)}</b> <span>{escape(note)}</span></dd></div>"
        for name, value, note in tiles
    )
    return f'<dl class="headline">{"".join(cells)}</dl>'


def run_time(facts: Facts) -> Tile:
    """What a run took."""
    return "Run time", text.duration(facts.seconds), f"on {facts.device}"


def score_table(summary: Summary) -> str:
    """Models beside baselines, best in bold, coverage beside its nominal level; a sentence when nothing was scored."""
    if not summary.scores:
        return '<p class="quiet">No backtest was run, so there is nothing to score.</p>'
    columns = [_measure(name, meaning, [get(score) for score in summary.scores]) for name, meaning, get in MEASURES]
    columns += [
        _coverage(level, [score.coverage.get(level, math.nan) for score in summary.scores]) for level in summary.levels
    ]
    shown = [each for each in columns if each is not None]
    if not shown:
        return '<p class="quiet">No measure could be computed.</p>'
    head = "".join(head for head, _ in shown)
    rows = "".join(
        f'<tr{" class=baseline" if score.is_baseline else ""}><th scope="row">{escape(score.model)}'
        f"{'<small>baseline</small>' if score.is_baseline else ''}</th>{''.join(cells[row] for _, cells in shown)}</tr>"
        for row, score in enumerate(summary.scores)
    )
    caption = (
        "Backtest scores over all series and windows. Lower is better; coverage is best near its level. Best in bold."
    )
    return (
        '<div class="scroll" role="region" aria-label="Backtest scores" tabindex="0">'
        f"<table><caption>{caption}</caption>"
        f'<thead><tr><th scope="col">Model</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def training(summary: Facts) -> str:
    """One line a trained model: epochs, best epoch, why it ended."""
    lines = (f"<li><b>{escape(model)}</b>: {escape(_ending(curve))}</li>" for model, curve in summary.curves.items())
    return f'<ul class="plain">{"".join(lines)}</ul>'


def data_facts(summary: Facts) -> str:
    """What was read."""
    cells = (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in summary.data.lines())
    return f'<dl class="facts">{"".join(cells)}</dl>'


def findings(summary: Facts) -> str:
    """What reading the data warned of, repaired and inferred, in that order."""
    groups = ((title, [each for each in summary.findings if each.kind == kind]) for kind, title in KINDS)
    parts = [f"<h3>{title}</h3><ul>{''.join(map(_finding, found))}</ul>" for title, found in groups if found]
    return "".join(parts) or '<p class="quiet">Nothing was inferred or repaired.</p>'


def settings(summary: Facts) -> str:
    """Every setting with its value and why it was chosen."""
    return "".join(
        f'<div class="group"><h3>{escape(section)}</h3>'
        f'<dl class="settings">{"".join(_settings_rows(rows.items()))}</dl></div>'
        for section, rows in summary.settings.items()
    )


def notes(sentences: Iterable[str]) -> str:
    """The notes as a list, or nothing."""
    items = "".join(f"<li>{said(sentence)}</li>" for sentence in sentences)
    return (
        f'<section id="notes" aria-labelledby="notes-title"><h2 id="notes-title">Notes</h2><ul>{items}</ul></section>'
        if items
        else ""
    )


def said(sentence: str) -> str:
    """A sentence, escaped; no line ends within a flag such as --model."""
    return _FLAG.sub(r'<span class="flag">\g<0></span>', escape(sentence))


def _accuracy(summary: Summary) -> Iterable[Tile]:
    lead = summary.lead
    if lead is None or not math.isfinite(lead.mae):
        return
    yield f"MAE of {lead.model}", text.number(lead.mae), _against(lead, summary.scores)
    if math.isfinite(lead.mase):
        yield "MASE", text.number(lead.mase), "naive in training is 1"
    if lead.coverage:
        level = max(lead.coverage)
        yield "Coverage", text.percent(lead.coverage[level]), f"of its {level:g} % interval"


def _against(lead: Score, scores: Sequence[Score]) -> str:
    """How the MAE compares with seasonal-naive, or with the best baseline where there is no such row."""
    others = [each for each in scores if each.is_baseline and each.model != lead.model and each.mae > 0]
    if not others:
        return "in the backtest"
    other = min(others, key=lambda each: (each.model != "seasonal_naive", each.mae))
    change = round(100 * (lead.mae / other.mae - 1))
    if change == 0:
        return f"level with {other.model}"
    return f"{abs(change)} % {'below' if change < 0 else 'above'} {other.model}"


def _extent(summary: Summary) -> Tile:
    words = ("column", "columns") if summary.is_wide else ("series", "series")
    count = text.counted(len(summary.series), *words)
    return "Forecast", text.counted(summary.horizon, "step"), f"{summary.data.step}, for {count}"


def _measure(name: str, meaning: str, values: Sequence[float]) -> tuple[str, list[str]] | None:
    """(header cell, body cells), or None when no model has the measure."""
    if not any(map(math.isfinite, values)):
        return None
    shown = text.column(values)
    best = shown[min(range(len(values)), key=lambda row: (not math.isfinite(values[row]), values[row]))]
    return f'<th scope="col"><abbr title="{meaning}">{name}</abbr></th>', [_cell(each, each == best) for each in shown]


def _coverage(level: float, shares: Sequence[float]) -> tuple[str, list[str]] | None:
    if not any(map(math.isfinite, shares)):
        return None
    off = [round(abs(100 * share - level), 1) if math.isfinite(share) else math.inf for share in shares]
    cells = [
        _cell(
            text.percent(share),
            far == min(off),
            f"{100 * share - level:+.1f}".replace("-", "−") if far < math.inf else "",
        )
        for share, far in zip(shares, off, strict=True)
    ]
    meaning = f"share of actual values inside the {level:g} % interval, and how far that is from {level:g}"
    return f'<th scope="col"><abbr title="{meaning}">{level:g} % coverage</abbr></th>', cells


def _cell(value: str, best: bool, beside: str = "") -> str:
    inner = f"<b>{value}</b>" if best else value
    return f"<td>{inner}{f' <small>{beside}</small>' if beside else ''}</td>"


def _ending(curve: Curve) -> str:
    best = f", best at epoch {curve.best_epoch}" if curve.best_epoch else ""
    return f"{text.counted(len(curve.train), 'epoch')}{best}; {ENDINGS.get(curve.ended, curve.ended)}."


def _finding(finding: Finding) -> str:
    told = f"{finding.count:,}" in finding.message or str(finding.count) in finding.message
    count = f'<span class="count">{finding.count:,}</span> ' if finding.count and not told else ""
    what = f'<span class="what">{escape(finding.what)}</span>'
    return f'<li class="{finding.kind}">{what} {count}{said(finding.message)}</li>'


def _breaking(name: str) -> str:
    """The name of a setting, which may end a line after an underscore before it does so within a word."""
    return escape(name).replace("_", "_<wbr>")


def _settings_rows(rows: Iterable[tuple[str, tuple[object, str]]]) -> Iterable[str]:
    for name, (value, reason) in rows:
        why = f'<dd class="why">{escape(reason)}</dd>' if reason else ""
        yield f"<div><dt>{_breaking(name)}</dt><dd>{escape(text.setting(value))}</dd>{why}</div>"
