"""Scores, flags and segments as columns, in the layout that the data came in."""

from typing import Any

import numpy as np

from rearview.data.infer.timestamps import localise
from rearview.data.panel import Panel
from rearview.estimators.detect.engine import Detection

SEPARATOR = "; "
"""Between the names in the column of a segment's channels."""


def score_columns(found: Detection, *, whole_ids: bool = False) -> dict[str, Any]:
    """Columns `[id,] time, score, score-<channel> ...`, one row a step."""
    channels = {f"score-{name}": found.scores.channels[:, c] for c, name in enumerate(found.panel.columns)}
    return {**_rows(found.panel, whole_ids), "score": found.scores.rows, **channels}


def flag_columns(found: Detection, *, whole_ids: bool = False) -> dict[str, Any]:
    """Columns `[id,] time, score, threshold, anomaly`, one row a step."""
    return {
        **_rows(found.panel, whole_ids),
        "score": found.scores.rows,
        "threshold": np.repeat(found.thresholds, found.panel.lengths),
        "anomaly": found.flags,
    }


def segment_columns(found: Detection, *, whole_ids: bool = False) -> dict[str, Any]:
    """Columns `[id,] start, end, peak, rows, score, threshold, channels, shares`, one row a segment."""
    panel, parts = found.panel, found.segments
    series = [part.series for part in parts]
    ids = {} if panel.layout.form == "wide" else _ids(panel, np.array(series, dtype=np.int64), whole_ids)
    stamps = {
        name: localise(panel.stamps[np.array([getattr(part, row) for part in parts], dtype=np.int64)], panel.layout)
        for name, row in (("start", "first"), ("end", "last"), ("peak", "peak"))
    }
    return {
        **ids,
        **stamps,
        "rows": np.array([part.last - part.first + 1 for part in parts], dtype=np.int64),
        "score": np.array([part.score for part in parts], dtype=np.float64),
        "threshold": found.thresholds[np.array(series, dtype=np.int64)],
        # Text also where there is no segment, so that the columns have one kind whatever was found.
        "channels": np.array([SEPARATOR.join(panel.columns[c] for c, _ in part.channels) for part in parts], np.str_),
        "shares": np.array([SEPARATOR.join(f"{share:.2f}" for _, share in part.channels) for part in parts], np.str_),
    }


def _rows(panel: Panel, whole_ids: bool) -> dict[str, Any]:
    stamps = {panel.layout.time_col: localise(panel.stamps, panel.layout)}
    if panel.layout.form == "wide":
        return stamps
    return _ids(panel, np.repeat(np.arange(panel.series), panel.lengths), whole_ids) | stamps


def _ids(panel: Panel, series: Any, whole_ids: bool) -> dict[str, Any]:
    names = np.array(panel.ids, dtype=np.int64 if whole_ids else np.str_)[series]
    return {panel.layout.id_col or "unique_id": names}
