"""HTML pages about finished runs: `write` puts a summary into one file that needs nothing else.

A page's parts are imported when they are asked for, so that a forecast does not load the pages of other tasks.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
_MODULES = ("common.page", "common.summary", "forecast.views", "forecast.page", "detect.page", "classify.page")


def __getattr__(name: str) -> object:
    if name in __all__:
        for place in _MODULES:
            module = import_module(f"rearview.report.{place}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module 'rearview.report' has no attribute {name!r}")
