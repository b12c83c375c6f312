"""A detection as a figure for notebooks: the channels that carry alarms, and the score with its threshold."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rearview.core.wording import quantity
from rearview.report.common.figures import HUES, INK, add_line, new_figure, plain, shade
from rearview.report.detect.page import MOST_ROWS, EntityView, rows_to_draw

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

LOG_FROM = 30
"""Times the threshold from which a score gets a log scale."""


def draw_detection(view: EntityView, names: Sequence[str], channels: Sequence[int], title: str) -> "Figure":
    """Channels one below the other and the score last, on one time axis; alarms are shaded over all of them.

    A long series is drawn at some of its rows, its peaks kept.
    """
    rows = rows_to_draw(view, MOST_ROWS[0])
    stamps, score = view.stamps[rows], view.score[rows]
    figure = new_figure([*(names[channel] for channel in channels), "score"], row_height=170, shared_x=True)
    for number, channel in enumerate(channels, start=1):
        add_line(figure, (number, 1), stamps, view.values[rows, channel], names[channel], INK, showlegend=False)
    last = (len(channels) + 1, 1)
    add_line(figure, last, stamps, score, "score", HUES[0])
    limit = {"color": HUES[1], "dash": "dash", "width": 1.5}
    ends = stamps[[0, -1]]
    add_line(figure, last, ends, np.full(2, view.threshold), "threshold", HUES[1], line=limit)
    peaks = np.array([part.peak for part in view.segments], dtype=np.int64)
    dots = {"mode": "markers", "marker": {"size": 7, "color": HUES[1]}}
    add_line(figure, last, view.stamps[peaks], view.score[peaks], "alarm", HUES[1], **dots)
    shade(figure, [(view.stamps[a], view.stamps[b]) for a, b in view.labels], HUES[2])
    shade(figure, [(view.stamps[part.first], view.stamps[part.last]) for part in view.segments], HUES[1])
    marked = ", green what a person marked" if view.labels else ""
    words = f"{plain(title)}: {quantity(len(view.segments), 'alarm')}. Shaded: orange what was found{marked}."
    if np.nanmax(view.score, initial=0) > LOG_FROM * view.threshold > 0:
        # High scores would flatten the rest.
        figure.update_yaxes(type="log", title="log scale", row=last[0], col=1)
    return figure.update_layout(title={"text": words, "font": {"size": 14}})
