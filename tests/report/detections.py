"""A detection to report on, with a name in it that a browser must not run."""

import numpy as np

from rearview.estimators.detect.segments import Segment
from rearview.report.common.summary import Curve, DataFacts
from rearview.report.detect.page import DetectionSummary, EntityView

ODD = "</script><b>valve & co</b>"


def entity(name: str = "pump", rows: int = 60, channels: int = 2) -> EntityView:
    rng = np.random.default_rng(rows)
    score = rng.random(rows)
    score[rows // 2 : rows // 2 + 4] += 5
    first = rows // 2
    return EntityView(
        id=name,
        stamps=np.datetime64("2024-01-01T00", "us") + np.arange(rows) * np.timedelta64(1, "h"),
        values=rng.normal(size=(rows, channels)),
        score=score,
        threshold=2.0,
        segments=(Segment(0, first, first + 3, first + 1, float(score[first + 1]), ((1, 0.75), (0, 0.25))),),
        shares=np.linspace(1, 2, channels) / np.linspace(1, 2, channels).sum(),
        labels=((first, first + 5),),
    )


def summary(*entities: EntityView, **changed) -> DetectionSummary:
    held = entities or (entity(),)
    given = {
        "title": "Anomalies in <pumps>.csv",
        "verdict": "1 anomaly in 60 rows.",
        "command": "rearview detect pumps.csv",
        "created": "2025-11-15",
        "version": "0.1.0",
        "device": "cpu",
        "seconds": 3.0,
        "data": DataFacts((("Source", "pumps.csv"), ("Rows", "60")), 1, 2, "1 hour"),
        "channels": (ODD, *(f"c{n}" for n in range(1, held[0].values.shape[1]))),
        "entities": held,
        "measures": {"AUC-PR": (0.5, "average precision"), "F1": (float("nan"), "at the threshold")},
        "curves": {"itransformer": Curve(np.array([1.0, 0.5]), np.array([1.1, 0.6]), 2, "epochs")},
        "notes": ("A note.",),
    }
    return DetectionSummary(**{**given, **changed})
