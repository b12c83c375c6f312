"""Scores, flags and segments as columns, in the layout that the data came in."""

import numpy as np

from rearview.data.infer.timestamps import localise
from rearview.data.panel import Panel
from rearview.estimators.detect.detection import Detection
from rearview.estimators.frames import Columns, id_column

SEPARATOR = "; "
"""Between the names in the column of a segment's channels."""


def score_columns(detection: Detection, *, whole_ids: bool = False) -> Columns:
    """Columns `[id,] time, score, score-<channel> ...`, one row a step."""
    channels = {f"score-{name}": detection.scores.channels[:, c] for c, name in enumerate(detection.panel.columns)}
    return {**_rows(detection.panel, whole_ids), "score": detection.scores.rows, **channels}


def flag_columns(detection: Detection, *, whole_ids: bool = False) -> Columns:
    """Columns `[id,] time, score, threshold, anomaly`, one row a step."""
    return {
        **_rows(detection.panel, whole_ids),
        "score": detection.scores.rows,
        "threshold": np.repeat(detection.thresholds, detection.panel.lengths),
        "anomaly": detection.flags,
    }


def segment_columns(detection: Detection, *, whole_ids: bool = False) -> Columns:
    """Columns `[id,] start, end, peak, rows, score, threshold, channels, shares[, members]`, one row a segment."""
    panel, parts = detection.panel, detection.segments
    # Members of a portfolio that raise the score of a segment, each with its share; one network has none.
    shares = [SEPARATOR.join(f"{name} {share:.2f}" for name, share in part.members) for part in parts]
    members = {"members": np.array(shares, np.str_)} if detection.scores.members else {}
    series = [part.series for part in parts]
    ids = {} if panel.layout.form == "wide" else id_column(panel, np.array(series, dtype=np.int64), whole_ids)
    stamps = {
        name: localise(panel.stamps[np.array([getattr(part, row) for part in parts], dtype=np.int64)], panel.layout)
        for name, row in (("start", "first"), ("end", "last"), ("peak", "peak"))
    }
    return {
        **ids,
        **stamps,
        "rows": np.array([part.last - part.first + 1 for part in parts], dtype=np.int64),
        "score": np.array([part.score for part in parts], dtype=np.float64),
        "threshold": detection.thresholds[np.array(series, dtype=np.int64)],
        # Text also where there is no segment, so that the columns have one kind whatever was detection.
        "channels": np.array([SEPARATOR.join(panel.columns[c] for c, _ in part.channels) for part in parts], np.str_),
        "shares": np.array([SEPARATOR.join(f"{share:.2f}" for _, share in part.channels) for part in parts], np.str_),
        **members,
    }


def _rows(panel: Panel, whole_ids: bool) -> Columns:
    stamps = {panel.layout.time_col: localise(panel.stamps, panel.layout)}
    if panel.layout.form == "wide":
        return stamps
    return id_column(panel, np.repeat(np.arange(panel.series), panel.lengths), whole_ids) | stamps
