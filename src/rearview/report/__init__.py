"""One page about a finished run: `write` puts all that a `Summary` holds into one HTML file that needs nothing else."""

from rearview.report.common.page import write
from rearview.report.common.summary import (
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
from rearview.report.detect.detection_page import DetectionSummary, EntityView, SegmentView
from rearview.report.detect.detection_page import write as write_detection

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
