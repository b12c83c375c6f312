"""One page about a finished run: `write` puts all that a `Summary` holds into one HTML file that needs nothing else."""

from rearview.report.detection import DetectionSummary, EntityView, SegmentView
from rearview.report.detection import write as write_detection
from rearview.report.page import write
from rearview.report.summary import (
    Curve,
    DataFacts,
    Forecast,
    Prediction,
    Score,
    SeriesView,
    StepErrors,
    Summary,
    Window,
)

__all__ = [
    "Curve",
    "DataFacts",
    "DetectionSummary",
    "EntityView",
    "Forecast",
    "Prediction",
    "Score",
    "SegmentView",
    "SeriesView",
    "StepErrors",
    "Summary",
    "Window",
    "write",
    "write_detection",
]
