"""The page's data as one compact JSON text that is safe inside a script element.

Numbers keep six significant digits of what a reader can tell apart: a series that moves by 5 around a billion keeps
more. Stamps that many series share are stored once, regular ones as start, step and count. A page has a budget of
numbers; when the backtest windows would exceed it, older ones are left off, and the page says so. A cell of a map of
attention weights is one byte between the lowest and the highest number of its colours: more than a colour shows.
"""

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.report.common.attention_maps import Look, Names, WeightMap
from rearview.report.common.summary import Prediction, SeriesView, Stamps, Summary, Values, Window

DIGITS = 6
BUDGET = 3_000_000
"""How many numbers a page holds at most: some 20 MB of text, which still opens in seconds."""
LEVELS = 254
"""Of a cell, counted from 0: an even number, so that 0 stands in the middle of a map that has both signs."""
ROUNDING = 1e-6
"""A share of the largest weight; what is below 0 by less is the rounding of a 0."""

Json = dict[str, Any]


def encode(summary: Summary, budget: int = BUDGET) -> tuple[str, tuple[str, ...]]:
    """(the JSON text, sentences about what was left off to stay within the budget)."""
    views, windows, notes = _within(summary.series, budget)
    axes = Axes()
    models = summary.models
    lead = summary.lead
    payload: Json = {
        "models": list(models),
        "baselines": [score.model for score in summary.scores if score.is_baseline],
        "lead": lead.model if lead else models[0] if models else None,
        "time": {"integer": summary.integer_time, "name": summary.data.time_name, "step": summary.data.step},
        "series": [_series(view, windows, axes) for view in views],
        "steps": {
            model: {"mae": rounded(errors.mae), "mse": rounded(errors.mse)}
            for model, errors in summary.error_by_step.items()
        },
        "curves": {
            model: {"train": rounded(curve.train), "validation": rounded(curve.validation), "best": curve.best_epoch}
            for model, curve in summary.curves.items()
        },
        "looks": _looks(summary.looks),
    }
    payload["axes"] = axes.rows
    return script_safe(json.dumps(payload, separators=(",", ":"), allow_nan=False)), notes


class Axes:
    """Arrays of stamps, each kept once: milliseconds since 1970, or the integers themselves."""

    def __init__(self) -> None:
        self.rows: list[Json] = []
        self._known: dict[bytes, int] = {}

    def add(self, stamps: Stamps) -> int:
        """Where in `rows` these stamps stand."""
        numbers = _numbers(stamps)
        key = numbers.tobytes()
        if key not in self._known:
            self._known[key] = len(self.rows)
            self.rows.append(_axis(numbers))
        return self._known[key]


def rounded(values: Values, digits: int = DIGITS) -> list[float | int | None]:
    """The values to so many significant digits; None for what is not finite."""
    exact = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(exact)
    magnitude = np.abs(np.where(finite & (exact != 0), exact, 1.0))
    places = digits - 1 - np.floor(np.log10(magnitude))
    # A whole number over (or times) an exact power of ten is what Python prints shortest; 10**22 is the last exact one.
    up, down = 10.0 ** np.clip(places, 0, 22), 10.0 ** np.clip(-places, 0, 22)
    short = np.where(np.abs(places) <= 22, np.rint(exact * up / down) / up * down, exact)
    if finite.all() and np.all(short == np.rint(short)) and np.all(np.abs(short) < 2**53):
        return [int(value) for value in short.tolist()]
    return [value if known else None for value, known in zip(short.tolist(), finite.tolist(), strict=True)]


def _series(view: SeriesView, windows: int, axes: Axes) -> Json:
    digits = _digits(view)
    # Not [-windows:], which would keep every window when none fit.
    kept = view.backtest[max(len(view.backtest) - windows, 0) :]
    return {
        "id": view.id,
        "at": axes.add(view.stamps),
        "y": rounded(view.values, digits),
        "forecast": {"at": axes.add(view.forecast.stamps), "models": _models(view.forecast.models, digits)},
        "windows": [_window(window, digits, axes) for window in kept],
    }


def _window(window: Window, digits: int, axes: Axes) -> Json:
    return {
        "cutoff": int(_numbers(np.asarray([window.cutoff]))[0]),
        "at": axes.add(window.stamps),
        "y": rounded(window.actual, digits),
        "models": _models(window.models, digits),
    }


def _models(models: Mapping[str, Prediction], digits: int) -> Json:
    return {
        name: {
            "mean": rounded(prediction.mean, digits),
            "intervals": [
                [level, rounded(low, digits), rounded(high, digits)]
                for level, (low, high) in sorted(prediction.intervals.items())
            ],
        }
        for name, prediction in models.items()
    }


def _looks(looks: tuple[Look, ...]) -> Json:
    """Every view with its maps and curves; names of rows and columns that maps share are kept once."""
    names: dict[Names, int] = {}

    def axis(of: Names) -> int:
        return names.setdefault(of, len(names))

    views = [
        {
            "name": look.name if len({each.model for each in looks}) == 1 else f"{look.model}: {look.name}",
            "about": look.about,
            "maps": [{**_coloured(each), "rows": axis(each.queries), "columns": axis(each.keys)} for each in look.maps],
            "ages": [{"name": each.name, "x": rounded(each.ages), "y": rounded(each.weights)} for each in look.ages],
        }
        for look in looks
    ]
    return {"views": views, "axes": [{"cells": each.cells, "runs": each.runs} for each in names]}


def _coloured(one: WeightMap) -> Json:
    """A map's name, its least and largest number, and its cells on a scale from 0, or from as far below it as above."""
    weights = np.nan_to_num(np.asarray(one.weights, dtype=np.float64))
    high = float(np.abs(weights).max()) or 1.0
    low = -high if weights.min() < -ROUNDING * high else 0.0
    levels = np.rint((np.clip(weights, low, high) - low) / (high - low) * LEVELS).astype(np.uint8)
    return {
        "name": one.name,
        "span": rounded(np.array([max(weights.min(), low), weights.max()]), 3),
        "scale": [low, high],
        "cells": base64.b64encode(levels.tobytes()).decode("ascii"),
    }


def _digits(view: SeriesView) -> int:
    """Six, and more where a series moves little about a high level."""
    means = [prediction.mean for models in view.predictions() for prediction in models.values()]
    values = np.concatenate([np.asarray(each, dtype=np.float64) for each in (view.values, *means)])
    values = values[np.isfinite(values)]
    spread = float(np.ptp(values)) if len(values) else 0.0
    if spread <= 0 or not math.isfinite(spread):
        return DIGITS
    level = float(np.max(np.abs(values)))
    return min(DIGITS + max(0, math.floor(math.log10(level / spread))), 15)


def _numbers(stamps: Stamps) -> NDArray[np.int64]:
    if stamps.dtype.kind != "M":
        return stamps.astype(np.int64)
    if np.isnat(stamps).any():
        raise InputError("A report can't place a row without a stamp, but a series has a missing one; drop that row.")
    return stamps.astype("datetime64[ms]").astype(np.int64)


def _axis(numbers: NDArray[np.int64]) -> Json:
    differences = np.unique(np.diff(numbers))
    if len(differences) == 1:
        return {"start": int(numbers[0]), "step": int(differences[0]), "count": len(numbers)}
    return {"at": numbers.tolist()}


def _within(series: tuple[SeriesView, ...], budget: int) -> tuple[tuple[SeriesView, ...], int, tuple[str, ...]]:
    """(series, backtest windows of each, sentences about the rest): the newest windows, then fewer series."""
    plain = [len(view.values) + _cells(view.forecast.models) for view in series]
    newest = [[len(window.actual) + _cells(window.models) for window in view.backtest[::-1]] for view in series]
    most = max(len(cells) for cells in newest)
    for windows in range(most, -1, -1):
        if sum(plain) + sum(sum(cells[:windows]) for cells in newest) > budget:
            continue
        if windows == most:
            return series, windows, ()
        left = f"To stay small, the page draws the newest {windows} of {most} backtest windows of each series; "
        return series, windows, (left + "the scores count all of them.",)
    fit = max(1, int(np.searchsorted(np.cumsum(plain), budget, side="right")))
    left = f"To stay small, the page draws the first {fit:,} of {len(series):,} series and no backtest windows; "
    return series[:fit], 0, (left + "the scores count all of them.",)


def _cells(models: Mapping[str, Prediction]) -> int:
    return sum(len(each.mean) * (1 + 2 * len(each.intervals)) for each in models.values())


def script_safe(text: str) -> str:
    """JSON in which nothing can end the script element; these characters occur inside strings alone."""
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text
