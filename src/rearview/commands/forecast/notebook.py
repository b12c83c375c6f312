"""A fitted forecaster as a figure, and as the page of the command line."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rearview.commands.forecast.job import evaluate
from rearview.commands.forecast.page import series_view, summary
from rearview.commands.page_data import check_drawn
from rearview.estimators.forecast.forecaster import Forecaster
from rearview.estimators.forecast.prediction import variables
from rearview.estimators.frames import Frame
from rearview.report.common.page import write
from rearview.report.forecast.figure import draw_forecast

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MOST_DRAWN = 6
"""Series that a figure draws where none was chosen."""
RECENT, HORIZONS = 60, 3
"""Rows of history that are drawn: so many, or so many times the horizon."""


def plot(
    forecaster: Forecaster,
    frame: Frame,
    future: Frame,
    level: Sequence[float] | None,
    series: str | Sequence[str] | None,
    history: int | None,
) -> "Figure":
    """History, forecast and intervals (see `Forecaster.plot`)."""
    panel = forecaster.rows if frame is None else forecaster.read_new(frame)
    names = variables(panel)
    chosen = [series] if isinstance(series, str) else names[:MOST_DRAWN] if series is None else list(series)
    for name in chosen:
        check_drawn(name, names, "series")
    forecasts, stamps = forecaster.forecast(panel, future=future, level=level)
    rows = max(RECENT, HORIZONS * forecaster.spec.horizon) if history is None else history
    places = [divmod(names.index(name), panel.targets) for name in chosen]
    views = [series_view(panel, place, rows, {forecaster.name: forecasts}, stamps[place[0]]) for place in places]
    some = f"{MOST_DRAWN} of {len(names):,} series; choose others with series=[...]" if series is None else ""
    return draw_forecast(views, some if len(names) > len(chosen) else "")


def report(forecaster: Forecaster, path: Path | str, frame: Frame, future: Frame, windows: int | None) -> Path:
    """Write the page (see `Forecaster.report`)."""
    started = time.perf_counter()
    panel = forecaster.rows if frame is None else forecaster.read_new(frame)
    asked = 0 if frame is not None and windows is None else windows
    outcome = evaluate(forecaster, panel, future=future, windows=asked, started=started)
    words = "" if frame is None else ", frame"
    return write(Path(path), summary(outcome, f"{forecaster.origin}.report({str(path)!r}{words})"))
