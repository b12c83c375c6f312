"""A forecast as a figure for notebooks: the history of each series, its forecast, its intervals."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rearview.report.common.figures import HUES, INK, QUIET, add_band, add_line, new_figure
from rearview.report.common.payload import stamp_numbers
from rearview.report.forecast.views import SeriesView

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def draw_forecast(views: Sequence[SeriesView], title: str = "") -> "Figure":
    """A plot for each series; models keep their colours."""
    figure = new_figure([view.id for view in views])
    models = list(dict.fromkeys(name for view in views for name in view.forecast.models))
    for row, view in enumerate(views, start=1):
        place, first = (row, 1), row == 1
        ahead = view.forecast.stamps
        for number, model in enumerate(models):
            if model not in view.forecast.models:
                continue
            prediction, colour = view.forecast.models[model], HUES[number % len(HUES)]
            for level in sorted(prediction.intervals, reverse=True):
                name = f"{level:g} %" if len(models) == 1 else f"{model}, {level:g} %"
                add_band(figure, place, ahead, prediction.intervals[level], name, colour, showlegend=first)
            add_line(figure, place, ahead, prediction.mean, model, colour, showlegend=first)
        add_line(figure, place, view.stamps, view.values, "history", INK, showlegend=first)
        if len(view.stamps):
            last = int(stamp_numbers(view.stamps[-1:])[0])
            figure.add_vline(x=last, line={"color": QUIET, "width": 1, "dash": "dot"}, row=row, col=1)
    return figure.update_layout(title={"text": title, "font": {"size": 14}}) if title else figure
