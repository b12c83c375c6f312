"""HTML pages about finished runs: `write` puts a summary into one file that needs nothing else."""

from rearview.report.classify.page import CaseFacts, ClassificationSummary, Example
from rearview.report.common.page import write
from rearview.report.common.summary import Curve, DataFacts
from rearview.report.detect.page import DetectionSummary, EntityView, SegmentView
from rearview.report.forecast.page import ForecastSummary
from rearview.report.forecast.views import Forecast, Prediction, Score, SeriesView, StepErrors, Window

__all__ = [
    "CaseFacts",
    "ClassificationSummary",
    "Curve",
    "DataFacts",
    "DetectionSummary",
    "EntityView",
    "Example",
    "Forecast",
    "ForecastSummary",
    "Prediction",
    "Score",
    "SegmentView",
    "SeriesView",
    "StepErrors",
    "Window",
    "write",
]
