"""A fitted detector as a figure, and as the page of the command line."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rearview.commands.detect.job import evaluate
from rearview.commands.detect.page import entity_view, summary
from rearview.commands.detect.rows import Job, Rows
from rearview.commands.page_data import check_drawn
from rearview.estimators.detect.detection import detect
from rearview.estimators.detect.detector import Detector
from rearview.estimators.frames import Frame
from rearview.report.common.page import write
from rearview.report.detect.figure import draw_detection

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MOST_CHANNELS = 3
"""Channels that a figure draws where none was chosen."""


def plot(
    detector: Detector, frame: Frame, labels: object, series: str | None, channels: str | Sequence[str] | None
) -> "Figure":
    """Channels, score, threshold and alarms of a series (see `Detector.plot`)."""
    panel, truth = detector.read_judged(frame, labels)
    detection = detect(detector.fitted, panel)
    heights = detection.scores.rows / np.repeat(
        np.where(detection.thresholds > 0, detection.thresholds, 1), panel.lengths
    )
    worst = int(np.searchsorted(panel.offsets, np.nanargmax(heights), side="right")) - 1
    place = worst if series is None else panel.ids.index(check_drawn(series, panel.ids, "series"))
    view = entity_view(detection, truth, place, detector.spec.join)
    named = [channels] if isinstance(channels, str) else channels
    if named is None:
        chosen = np.argsort(-view.shares, kind="stable")[:MOST_CHANNELS].tolist()
    else:
        chosen = [panel.columns.index(check_drawn(name, panel.columns, "channel")) for name in named]
    return draw_detection(view, panel.columns, chosen, panel.ids[place] if panel.series > 1 else panel.layout.source)


def report(detector: Detector, path: Path | str, frame: Frame, labels: object) -> Path:
    """Write the page (see `Detector.report`)."""
    started = time.perf_counter()
    panel, truth = detector.read_judged(frame, labels)
    outcome = evaluate(Job(file=panel.layout.source), Rows(detector, panel, truth, None), started)
    return write(Path(path), summary(outcome, f"{detector.origin}.report({str(path)!r}, frame)"))
