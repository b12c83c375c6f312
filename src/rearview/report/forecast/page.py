"""The page of a forecast: the forecast and its backtest by series, scores, errors by step, training, attention maps.

A series that moves by 5 around a billion keeps more than six digits of its numbers. A page has a budget of numbers:
beyond it histories are cut shorter, then older backtest windows are left off, then the series with the smallest errors,
and the page says so. A cell of a map of attention
weights is one byte between the lowest and the highest number of its colours: more than a colour shows.
"""

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rearview.core.errors import InputError
from rearview.core.wording import quantity
from rearview.estimators.auto.ensemble import Standing
from rearview.report.common import text
from rearview.report.common.payload import DIGITS, StampAxes, encode_curves, round_digits, stamp_numbers
from rearview.report.common.summary import BUDGET, Content, DataFacts, Summary, Tile
from rearview.report.common.tables import Cell, Table
from rearview.report.forecast import views

SCRIPTS = (
    "figures.js", "plots.js", "choice.js", "charts.js", "parts.js", "looks.js", "values.js", "picker.js", "board.js",
    "copy.js", "report.js",
)  # fmt: skip
MEASURES = {
    "MSE": "mean squared error",
    "MAE": "mean absolute error",
    "MASE": "absolute error over the naive error in training",
    "sMAPE": "symmetric percentage error",
    "RMSSE": "root squared error over the naive error in training",
    "Pinball": "quantile loss of the intervals",
}
"""Measures of a score, each with its meaning; the field has the name in lower case."""
SCORED = "Backtest scores over all series and windows. Lower is better; coverage is best near its level. Best in bold."
MOST_LISTED = 10
"""Series in the summary in Markdown."""
PLAIN = ("MSE", "MAE", "Pinball")
"""Measures in the units of the data."""
ROW, WORDS = 12, 14
"""Lengths in numbers: a row of the table of all series; the name and the sentence of one that is drawn."""
HISTORIES = (1_000, 400, 150, 60)
"""Rows of history that are drawn of each series, at most: the more that fit."""
LEVELS = 254
"""Of a cell, counted from 0: an even number, so that 0 stands in the middle of a map that has both signs."""
ROUNDING = 1e-6
"""A share of the largest weight; what is below 0 by less is the rounding of a 0."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForecastSummary(Summary):
    """Everything on the page of a forecast."""

    data: DataFacts
    series: tuple[views.SeriesView, ...]
    compares: bool = False
    """Whether the models are one forecast under several conditions, drawn together; nothing was backtested."""
    unlike_units: bool = False
    """Whether the series may be of unlike units, whose plain errors can't be pooled."""
    scores: tuple[views.Score, ...] = ()
    error_by_step: Mapping[str, views.StepErrors] = field(default_factory=dict)
    candidates: tuple[Standing, ...] = ()
    """The leaderboard of a portfolio; empty where networks were named."""
    inputs: tuple[views.InputUse, ...] = ()
    """What the models may use beside the history, and which of them do."""
    looks: tuple[views.AttentionView, ...] = ()
    """Attention of the networks that have it, one entry for each window that can be chosen."""

    def __post_init__(self) -> None:
        if not self.series:
            raise InputError("A report needs at least one series to show, but the summary has none.")
        for view in self.series:
            view.check()
        for model, errors in self.error_by_step.items():
            views.check_lengths(f"the errors by step of model {model!r} (MAE beside MSE)", errors.mae, errors.mse)
        kinds = {stamps.dtype.kind for view in self.series for stamps in view.all_stamps() if len(stamps)}
        if not kinds <= {"M"} and not kinds <= {"i", "u"}:
            raise InputError(
                "The stamps of a report must be all datetime64 or all integers, "
                f"but they are of the numpy kinds {', '.join(sorted(kinds))}; give every series the same kind."
            )

    @property
    def is_wide(self) -> bool:
        """Whether each view is a column of one wide series."""
        return self.data.series == 1 and self.data.columns > 1

    @property
    def models(self) -> tuple[str, ...]:
        """Every model on the page: in the order of the score table, then of the first series."""
        names = [score.model for score in self.scores]
        names += [name for view in self.series for models in view.predictions() for name in models]
        names += [*self.error_by_step, *self.curves]
        return tuple(dict.fromkeys(names))

    @property
    def lead(self) -> views.Score | None:
        """The model of the headline: the lowest backtest error of those that are neither baselines nor members."""
        members = {candidate.name for candidate in self.candidates}
        rows = [score for score in self.scores if not score.is_baseline and score.model not in members]
        rows = rows or list(self.scores)
        name = "mase" if self.unlike_units and any(math.isfinite(score.mase) for score in rows) else "mae"
        return min(rows, key=lambda score: (math.isnan(getattr(score, name)), getattr(score, name)), default=None)

    def content(self, budget: int = BUDGET) -> Content:
        data, left_off = encode(self, budget)
        return Content(
            template="forecast.html",
            parts={
                "noun": "Column" if self.is_wide else "Series",
                "scores": "" if self.compares else score_table(self.scores, unlike_units=self.unlike_units),
                "leaderboard": _leaderboard(self.candidates).html() if self.candidates else "",
                "inputs": _input_table(self.inputs),
                "no_backtest": not any(view.backtest for view in self.series),
                "no_errors": not self.error_by_step,
                "no_board": len(self.series) < 2 or self.series[0].outlook is None,
                "parts_title": "Difference" if self.compares else "Trend, season and inputs",
                "no_parts": not any(view.components for view in self.series),
                "first_error": "MASE" if self.unlike_units else "MAE",
                "second_error": "squared, scaled" if self.unlike_units else "MSE",
                "no_looks": not self.looks,
            },
            tiles=[*_accuracy(self.lead, self.scores, self.unlike_units), self._extent(), self.run_time],
            scripts=SCRIPTS,
            data=data,
            left_off=left_off,
            skip="forecast",
        )

    def tables(self) -> list[Table]:
        scores = _tabulate_scores(self.scores, self.unlike_units)
        tables = [scores] if len(scores.heads) > 1 else []
        tables += [_worst_series(self.series)] if len(self.series) > 1 and self.series[0].outlook else []
        return [*tables, *([_leaderboard(self.candidates)] if self.candidates else [])]

    def _extent(self) -> Tile:
        steps = max(len(view.forecast.stamps) for view in self.series)
        series = quantity(len(self.series), *(("column", "columns") if self.is_wide else ("series", "series")))
        return "Forecast", quantity(steps, "step"), f"{self.data.step}, for {series}"


def _accuracy(lead: views.Score | None, scores: Sequence[views.Score], unlike_units: bool) -> Iterable[Tile]:
    """The errors of the leading model beside seasonal-naive, or the best baseline where that has no row.

    Of unlike units the error is scaled by that of a naive forecast in training.
    """
    name = "mase" if unlike_units and lead is not None and math.isfinite(lead.mase) else "mae"
    if lead is None or not math.isfinite(getattr(lead, name)):
        return
    note = "in the backtest"
    if others := [each for each in scores if each.is_baseline and each.model != lead.model and getattr(each, name) > 0]:
        other = min(others, key=lambda each: (each.model != "seasonal_naive", getattr(each, name)))
        change = 100 * (getattr(lead, name) / getattr(other, name) - 1)
        way = f"{abs(change):.0f} % {'below' if change < 0 else 'above'}" if abs(change) >= 0.5 else "level with"
        note = f"{way} {other.model}" if math.isfinite(change) else note
    if name == "mae":
        yield f"MAE of {lead.model}", text.number(lead.mae), note
        note = "naive in training is 1"
    if math.isfinite(lead.mase):
        yield "MASE" if name == "mae" else f"MASE of {lead.model}", text.number(lead.mase), note
    if lead.coverage:
        level = max(lead.coverage)
        yield "Coverage", text.percent(lead.coverage[level]), f"of its {level:g} % interval"


def score_table(scores: Sequence[views.Score], *, unlike_units: bool = False) -> str:
    """Models beside baselines, best in bold, coverage beside its nominal level; a sentence when nothing was scored.

    Errors in the units of the data are left out where these are unlike.
    """
    if not scores:
        return '<p class="quiet">No backtest was run, so there is nothing to score.</p>'
    table = _tabulate_scores(scores, unlike_units)
    return table.html() if len(table.heads) > 1 else '<p class="quiet">No measure could be computed.</p>'


def _tabulate_scores(scores: Sequence[views.Score], unlike_units: bool) -> Table:
    """The measures that could be computed, a column each."""
    meanings: dict[str, str] = {}
    columns = [[Cell(score.model, "baseline" if score.is_baseline else "") for score in scores]]
    for name, meaning in MEASURES.items():
        values: list[float] = [getattr(score, name.lower()) for score in scores]
        if any(map(math.isfinite, values)) and not (unlike_units and name in PLAIN):
            words = text.column(values)
            best = words[min(range(len(values)), key=lambda row: (not math.isfinite(values[row]), values[row]))]
            meanings[name] = meaning
            columns.append([Cell(each, mark="best" if each == best else "") for each in words])
    for level in sorted({level for score in scores for level in score.coverage}):
        shares = [score.coverage.get(level, math.nan) for score in scores]
        off = [round(abs(100 * share - level), 1) if math.isfinite(share) else math.inf for share in shares]
        if min(off) < math.inf:
            about = f"share of actual values inside the {level:g} % interval, and how far that is from {level:g}"
            meanings[f"{level:g} % coverage"] = about
            columns.append([])
            for share, far in zip(shares, off, strict=True):
                note = f"{100 * share - level:+.1f}".replace("-", "−") if math.isfinite(share) else ""
                columns[-1].append(Cell(text.percent(share), note, "best" if far == min(off) else ""))
    tags = tuple("baseline" if score.is_baseline else "" for score in scores)
    return Table(SCORED, ("Model", *meanings), tuple(zip(*columns, strict=True)), tags=tags, meanings=meanings)


def _worst_series(series: Sequence[views.SeriesView]) -> Table:
    """The series with the largest errors, and what is forecast of them."""
    worst = sorted(series, key=lambda view: -_error(view))[:MOST_LISTED]
    rows = []
    for view in worst:
        look, errors = view.outlook, view.errors
        ahead = [text.ABSENT] * 2
        if look is not None:
            bounded = math.isfinite(look.high - look.low)
            likely = " to ".join(text.column([look.low, look.high])) if bounded else text.ABSENT
            ahead = [text.number(look.mean), likely]
        measures = [math.nan] * 2 if errors is None else [errors.mase, errors.against_naive]
        rows.append((Cell(view.id), *map(Cell, ahead), *(Cell(text.number(one)) for one in measures)))
    caption = "Series, the largest errors first"
    caption += f", {MOST_LISTED} of {len(series):,}." if len(series) > MOST_LISTED else "."
    return Table(caption, ("Series", "Forecast, mean", "Likely range", "MASE", "MAE over naive"), tuple(rows))


def _leaderboard(candidates: Sequence[Standing]) -> Table:
    """Every candidate of a portfolio: its share in the forecast, its backtest error, its time, what it is."""
    rows = []
    for one in candidates:
        share = Cell(f"{100 * one.weight:.0f} %" if one.weight else "–")
        errors = [Cell("–" if error is None else text.number(error)) for error in (one.loss, one.mase)]
        note = one.note if one.weight or not one.note else f"left out: {one.note}"
        about = f"{one.meaning}; {note}" if note else one.meaning
        rows.append((Cell(one.name), share, *errors, Cell(f"{one.seconds:.1f}"), Cell(about)))
    caption = (
        "The forecast is the weighted mean of the candidates; weights come from what each was worth on other data and "
        "from the quantile loss of the backtest, over the naive error of each series. Loss and MASE: lower is better."
    )
    heads = ("Model", "Weight", "Loss", "MASE", "Seconds", "What it is")
    return Table(caption, heads, tuple(rows), frozenset({5}), frozenset({5}))


def _input_table(inputs: Sequence[views.InputUse]) -> str:
    """Every input: what kind it is, and which of the models that forecast use it."""
    if not inputs:
        return ""
    rows = tuple((Cell(one.name), Cell(one.kind), Cell(", ".join(one.used_by) or "none")) for one in inputs)
    caption = "What is there beside the history, and which of the models that make the forecast use it."
    return Table(caption, ("Input", "What it is", "Used by"), rows, frozenset({1, 2}), frozenset({2})).html()


def encode(summary: ForecastSummary, budget: int = BUDGET) -> tuple[dict[str, object], tuple[str, ...]]:
    """(the data of the page, sentences about what was left off to stay within the budget)."""
    drawn, windows, notes = _fit(summary.series, max(1, budget - ROW * (len(summary.series) - 1)))
    axes = StampAxes()
    models = summary.models
    lead = summary.lead
    integer = summary.series[0].forecast.stamps.dtype.kind != "M"
    return {
        "models": list(models),
        "baselines": [score.model for score in summary.scores if score.is_baseline],
        "compares": summary.compares,
        "lead": lead.model if lead else models[0] if models else None,
        "members": [one.name for one in summary.candidates if one.weight],
        "time": {"integer": integer, "name": summary.data.time_name, "step": summary.data.step},
        "measured": summary.data.value_name,
        "series": [_encode_series(view, windows, axes) for view in drawn],
        "board": _encode_board(summary, drawn),
        "steps": {
            model: {"mae": round_digits(errors.mae), "mse": round_digits(errors.mse)}
            for model, errors in summary.error_by_step.items()
        },
        "curves": encode_curves(summary.curves),
        "looks": _encode_looks(summary.looks),
        "axes": axes.rows,
    }, notes


def _encode_board(summary: ForecastSummary, drawn: Sequence[views.SeriesView]) -> dict[str, object]:
    """A row for each series: its place among those drawn (-1: not drawn), name, forecast, change, errors."""
    places = {view.id: place for place, view in enumerate(drawn)}
    looks = [(view, view.outlook) for view in summary.series if view.outlook is not None]
    rows: list[list[object]] = []
    for view, look in looks:
        errors = view.errors or views.SeriesErrors(math.nan, math.nan, math.nan, math.nan)
        numbers = [look.mean, look.low, look.high, look.change, errors.mase, errors.mae, errors.against_naive]
        rows.append([places.get(view.id, -1), view.id, *round_digits(np.array([*numbers, errors.coverage]), 4)])
    return {"compared": looks[0][1].compared if len({look.compared for _, look in looks}) == 1 else "", "rows": rows}


def _fit(
    series: tuple[views.SeriesView, ...], budget: int
) -> tuple[tuple[views.SeriesView, ...], int, tuple[str, ...]]:
    """(series, backtest windows of each, sentences about the rest): shorter histories, older windows, fewer series."""
    newest = [[len(window.actual) + _count(window.models) for window in view.backtest[::-1]] for view in series]
    most, longest = max(map(len, newest)), max(len(view.values) for view in series)
    plans = [(HISTORIES[0], most), *((HISTORIES[1], windows) for windows in range(most, 0, -1))]
    plans += [(rows, min(most, 1)) for rows in HISTORIES[2:]] + [(HISTORIES[-1], 0)]
    for rows, windows in plans:
        sizes = [_size(view, rows) + sum(cells[:windows]) for view, cells in zip(series, newest, strict=True)]
        if sum(sizes) <= budget:
            break
    notes = []
    if rows < min(longest, HISTORIES[0]):
        notes.append(f"the last {rows} rows")
    if windows < most:
        notes.append(f"the newest {windows} of {most} backtest windows" if windows else "no backtest windows")
    drawn = [_shorten(view, rows) for view in series]
    note = f"To stay small, the page draws {' and '.join(notes)} of each series; " if notes else ""
    if sum(sizes) > budget:
        worst = sorted(range(len(series)), key=lambda place: -_error(series[place]))
        fit = max(1, int(np.searchsorted(np.cumsum([sizes[place] for place in worst]), budget, side="right")))
        drawn = [drawn[place] for place in sorted(worst[:fit])]
        note = f"To stay small, the page draws {' and '.join(notes)} of the {fit:,} series with the largest errors, of "
        note += f"{len(series):,}; "
    return tuple(drawn), windows, ((note + "the scores count all of them.",) if note else ())


def _error(view: views.SeriesView) -> float:
    return -1.0 if view.errors is None or math.isnan(view.errors.mase) else view.errors.mase


def _size(view: views.SeriesView, rows: int) -> int:
    """Numbers of a series without its backtest, with so many rows of history."""
    parts = sum(min(len(one.values), rows) * (2 if one.phases else 1) for one in view.components)
    inputs = len(view.inputs) * (min(len(view.values), rows) + len(view.forecast.stamps))
    words = WORDS if view.outlook is not None else 0
    return min(len(view.values), rows) + _count(view.forecast.models) + parts + inputs + words


def _shorten(view: views.SeriesView, rows: int) -> views.SeriesView:
    """The series with its last rows alone."""
    if len(view.values) <= rows:
        return view
    cut = len(view.values) - rows
    return replace(
        view,
        stamps=view.stamps[cut:],
        values=view.values[cut:],
        inputs=tuple(replace(one, past=one.past[cut:]) for one in view.inputs),
        components=tuple(
            replace(one, stamps=one.stamps[-rows:], values=one.values[-rows:]) if one.stamps is not None else one
            for one in view.components
        ),
    )


def _count(models: Mapping[str, views.Prediction]) -> int:
    return sum(len(each.mean) * (1 + 2 * len(each.intervals)) for each in models.values())


def _encode_series(view: views.SeriesView, windows: int, axes: StampAxes) -> dict[str, object]:
    digits = _digits(view)
    drawn: dict[str, object] = {"words": view.outlook.sentence} if view.outlook else {}
    if view.inputs:
        drawn["inputs"] = [
            {"name": one.name, "past": round_digits(one.past), "ahead": round_digits(one.ahead)} for one in view.inputs
        ]
    if view.components:
        drawn["parts"] = [_encode_component(one, axes) for one in view.components]
    return {
        **drawn,
        "id": view.id,
        "at": axes.add(view.stamps),
        "y": round_digits(view.values, digits),
        "forecast": {"at": axes.add(view.forecast.stamps), "models": _encode_models(view.forecast.models, digits)},
        "windows": [
            {
                "cutoff": int(stamp_numbers(np.asarray([window.cutoff]))[0]),
                "at": axes.add(window.stamps),
                "y": round_digits(window.actual, digits),
                "models": _encode_models(window.models, digits),
            }
            # Not [-windows:], which would keep every window when none fit.
            for window in view.backtest[max(len(view.backtest) - windows, 0) :]
        ],
    }


def _encode_component(one: views.Component, axes: StampAxes) -> dict[str, object]:
    where: dict[str, object] = {"phases": one.phases}
    if one.stamps is not None:
        where = {"at": axes.add(one.stamps)} if len(one.stamps) else {}
    where |= {"unit": one.unit} if one.unit else {}
    return {"name": one.name, "words": one.sentence, **where, "y": round_digits(one.values, 4)}


def _encode_models(models: Mapping[str, views.Prediction], digits: int) -> dict[str, object]:
    return {
        name: {
            "mean": round_digits(prediction.mean, digits),
            "intervals": [
                [level, round_digits(low, digits), round_digits(high, digits)]
                for level, (low, high) in sorted(prediction.intervals.items())
            ],
        }
        for name, prediction in models.items()
    }


def _digits(view: views.SeriesView) -> int:
    """Six, and more where a series moves little about a high level."""
    means = [prediction.mean for models in view.predictions() for prediction in models.values()]
    values = np.concatenate([np.asarray(each, dtype=np.float64) for each in (view.values, *means)])
    values = values[np.isfinite(values)]
    spread = float(np.ptp(values)) if len(values) else 0.0
    if spread <= 0 or not math.isfinite(spread):
        return DIGITS
    level = float(np.max(np.abs(values)))
    return min(DIGITS + max(0, math.floor(math.log10(level / spread))), 15)


def _encode_looks(looks: Sequence[views.AttentionView]) -> dict[str, object]:
    """Every view with its maps and curves; names of rows and columns that maps share are stored once."""
    names: dict[views.Names, int] = {}
    several = len({look.model for look in looks}) > 1
    shown = [
        {
            "name": f"{look.model}: {look.name}" if several else look.name,
            "about": f"{look.finding} {look.about}".strip(),
            "maps": [
                {
                    **_encode_map(one),
                    "rows": names.setdefault(one.queries, len(names)),
                    "columns": names.setdefault(one.keys, len(names)),
                }
                for one in look.maps
            ],
            "ages": [
                {"name": one.name, "x": round_digits(one.ages), "y": round_digits(one.weights)} for one in look.ages
            ],
        }
        for look in looks
    ]
    return {"views": shown, "axes": [{"cells": each.cells, "runs": each.runs} for each in names]}


def _encode_map(one: views.WeightMap) -> dict[str, object]:
    """A map's name, its least and largest number, and its cells on a scale from 0, or from as far below it as above."""
    weights = np.nan_to_num(np.asarray(one.weights, dtype=np.float64))
    high = float(np.abs(weights).max()) or 1.0
    low = -high if weights.min() < -ROUNDING * high else 0.0
    levels = np.rint((np.clip(weights, low, high) - low) / (high - low) * LEVELS).astype(np.uint8)
    return {
        "name": one.name,
        "span": round_digits(np.array([max(weights.min(), low), weights.max()]), 3),
        "scale": [low, high],
        "cells": base64.b64encode(levels.tobytes()).decode("ascii"),
    }
