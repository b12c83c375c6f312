"""The page of a detection: the series with its anomalies, the score with its threshold, who carries what.

The caller builds a `DetectionSummary` from a finished run. A page has a budget of numbers: long series are drawn at
fewer rows (the highest score of each stretch and every end of a segment stay), then fewer channels of each series, then
fewer series; the page says what was left off.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.report.common import sections, text
from rearview.report.common.page import filled, hidden, put, shell
from rearview.report.common.payload import BUDGET, Axes, rounded, script_safe
from rearview.report.common.summary import DataFacts, Facts, Stamps

SCRIPTS = ("figures.js", "plots.js", "picker.js", "copy.js", "detection.js")
MOST_ROWS = 4_000
"""Rows of a series that are drawn."""
FEWEST_CHANNELS = 3
MOST_SEGMENTS = 300
"""Segments in the table."""

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SegmentView:
    """One segment, by rows of its series."""

    first: int
    last: int
    peak: int
    score: float
    shares: tuple[tuple[int, float], ...]
    """Channels and their shares of the error, the largest first."""


@dataclass(frozen=True, slots=True, eq=False)
class EntityView:
    """One series and what was found in it."""

    id: str
    stamps: Stamps
    values: NDArray[np.floating[Any]]
    """[row, channel] in original units, NaN where a cell is missing."""
    score: NDArray[np.floating[Any]]
    """[row]."""
    threshold: float
    segments: tuple[SegmentView, ...]
    shares: NDArray[np.floating[Any]]
    """[channel]: of the error of all rows, or of the flagged ones where there are any."""
    labels: tuple[tuple[int, int], ...] = ()
    """First and last rows of the anomalies that were marked by a person."""

    def check(self) -> None:
        """Refuses arrays that do not belong together."""
        rows = len(self.stamps)
        if self.values.shape != (rows, len(self.shares)) or self.score.shape != (rows,):
            raise InputError(
                f"In a report, series {self.id!r} must have a score and a value of every channel for each of its "
                f"{rows} stamps, but the shapes are {self.score.shape} and {self.values.shape}."
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DetectionSummary(Facts):
    """Everything on the page of a detection."""

    data: DataFacts
    channels: tuple[str, ...]
    entities: tuple[EntityView, ...]
    measures: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    """Name -> (value, what it is), where there are labels."""

    def __post_init__(self) -> None:
        if not self.entities:
            raise InputError("A report needs at least one series to show, but the summary has none.")
        for entity in self.entities:
            entity.check()

    @property
    def segments(self) -> int:
        return sum(len(entity.segments) for entity in self.entities)

    @property
    def flagged(self) -> int:
        return sum(int((entity.score > entity.threshold).sum()) for entity in self.entities)


def write(path: Path, summary: DetectionSummary) -> Path:
    """Writes the page to `path` and returns it; no half-written page can be seen."""
    return put(path, render(summary))


def render(summary: DetectionSummary) -> str:
    """The page as text; the same summary gives the same page."""
    data, left_off = encode(summary)
    body = filled(
        "detection.html",
        segments=_segment_table(summary),
        measures=_measure_table(summary),
        training=sections.training(summary),
        no_measures=hidden(not summary.measures),
        no_training=hidden(not summary.curves),
    )
    return shell(
        summary,
        headline=sections.tiled(_tiles(summary)),
        body=body,
        notes=(*summary.notes, *left_off),
        data=data,
        scripts=SCRIPTS,
        skip="anomalies",
    )


def encode(summary: DetectionSummary, budget: int = BUDGET) -> tuple[str, tuple[str, ...]]:
    """(the page's data as JSON text, sentences about what was left off to stay within the budget)."""
    drawn = [_drawn(entity) for entity in summary.entities]
    count, channels, notes = _within([len(rows) for rows in drawn], len(summary.channels), budget)
    if any(len(rows) < len(entity.stamps) for rows, entity in zip(drawn, summary.entities, strict=True)):
        notes = (
            f"Long series are drawn at about {MOST_ROWS:,} rows, their peaks kept; nothing else is thinned.",
            *notes,
        )
    axes = Axes()
    payload = {
        "time": {"integer": summary.entities[0].stamps.dtype.kind != "M", "name": summary.data.time_name},
        "channels": list(summary.channels),
        "entities": [_entity(summary.entities[e], drawn[e], channels, axes) for e in range(count)],
        "curves": {
            model: {"train": rounded(curve.train), "validation": rounded(curve.validation), "best": curve.best_epoch}
            for model, curve in summary.curves.items()
        },
    }
    payload["axes"] = axes.rows
    return script_safe(json.dumps(payload, separators=(",", ":"), allow_nan=False)), notes


def _drawn(entity: EntityView) -> Rows:
    """The rows to draw: all of a short series; else the highest score of each stretch, and the ends of segments."""
    rows = len(entity.stamps)
    if rows <= MOST_ROWS:
        return np.arange(rows)
    known = np.where(np.isfinite(entity.score), entity.score, -np.inf)
    edges = np.linspace(0, rows, MOST_ROWS // 2 + 1).astype(np.int64)
    peaks = [a + int(known[a:b].argmax()) for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]
    marked = [row for part in entity.segments for row in (part.first, part.peak, part.last)]
    marked += [row for ends in entity.labels for row in ends]
    return np.unique(np.concatenate([edges[:-1], peaks, [*marked, rows - 1]]).astype(np.int64))


def _within(rows: list[int], channels: int, budget: int) -> tuple[int, int, tuple[str, ...]]:
    """(series, channels of each, sentences about the rest)."""
    fitting = max(FEWEST_CHANNELS, budget // max(1, sum(rows)) - 1)
    if fitting >= channels:
        return len(rows), channels, ()
    note = f"To stay small, the page draws the {fitting} channels with the largest errors of each series"
    count = int(np.searchsorted(np.cumsum(rows) * (1 + fitting), budget, side="right"))
    count = min(len(rows), max(1, count))
    if count < len(rows):
        note += f", and the first {count:,} of {len(rows):,} series"
    return count, fitting, (f"{note}; tables and files hold all of them.",)


def _entity(entity: EntityView, rows: Rows, channels: int, axes: Axes) -> dict[str, Any]:
    kept = np.argsort(-entity.shares, kind="stable")[:channels].tolist()
    place = {int(row): number for number, row in enumerate(rows.tolist())}

    def at(row: int) -> int:
        return place.get(row, int(np.searchsorted(rows, row)))

    return {
        "id": entity.id,
        "at": axes.add(entity.stamps[rows]),
        "score": rounded(entity.score[rows]),
        "threshold": rounded(np.array([entity.threshold]))[0],
        "shares": rounded(entity.shares),
        "values": {str(channel): rounded(entity.values[rows, channel]) for channel in kept},
        "segments": [
            {"first": at(s.first), "last": at(s.last), "peak": at(s.peak), "shares": [list(pair) for pair in s.shares]}
            for s in entity.segments
        ],
        "labels": [[at(first), at(last)] for first, last in entity.labels],
    }


def _tiles(summary: DetectionSummary) -> list[sections.Tile]:
    rows = sum(len(entity.stamps) for entity in summary.entities)
    tiles = [
        ("Anomalies", f"{summary.segments:,}", f"in {text.counted(rows, 'row')}"),
        ("Rows above the threshold", f"{summary.flagged:,}", text.percent(summary.flagged / max(1, rows))),
    ]
    if "AUC-PR" in summary.measures and math.isfinite(summary.measures["AUC-PR"][0]):
        tiles.append(("AUC-PR", text.number(summary.measures["AUC-PR"][0]), "against the labels"))
    return [*tiles, sections.run_time(summary)]


def _segment_table(summary: DetectionSummary) -> str:
    """Segments, the highest score first; each row's button shows it in the charts."""
    found = [
        (e, number, part) for e, entity in enumerate(summary.entities) for number, part in enumerate(entity.segments)
    ]
    if not found:
        return '<p class="quiet">No row scores above the threshold.</p>'
    found.sort(key=lambda each: -each[2].score / (summary.entities[each[0]].threshold or 1))
    several = len(summary.entities) > 1
    rows = "".join(_segment_row(summary, e, number, part, several) for e, number, part in found[:MOST_SEGMENTS])
    names = (*(("Series",) if several else ()), "Start", "End", "Rows", "Peak", "Score")
    head = "".join(f'<th scope="col">{name}</th>' for name in names) + '<th scope="col" class="words">Channels</th>'
    more = f" The {MOST_SEGMENTS} highest of {len(found):,}." if len(found) > MOST_SEGMENTS else ""
    return (
        '<div class="scroll" role="region" aria-label="Anomalies" tabindex="0"><table>'
        f"<caption>Highest above the threshold first; press one to see it above.{more}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _segment_row(summary: DetectionSummary, e: int, number: int, part: SegmentView, several: bool) -> str:
    entity = summary.entities[e]
    start, end, peak = (_stamp(entity.stamps[row]) for row in (part.first, part.last, part.peak))
    carried = ", ".join(f"{summary.channels[c]} {100 * share:.0f} %" for c, share in part.shares)
    times = f"{part.score / entity.threshold:.1f} times the threshold" if entity.threshold > 0 else ""
    button = f'<button type="button" class="link" data-entity="{e}" data-segment="{number}">{escape(start)}</button>'
    first = (
        f'<th scope="row">{escape(entity.id)}</th><td>{button}</td>' if several else f'<th scope="row">{button}</th>'
    )
    cells = (end, f"{part.last - part.first + 1:,}", peak)
    return (
        f"<tr>{first}{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}"
        f'<td title="{times}">{text.number(part.score)}</td><td class="words">{escape(carried)}</td></tr>'
    )


def _measure_table(summary: DetectionSummary) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{text.number(value)}</td>'
        f'<td class="words">{escape(meaning)}</td></tr>'
        for name, (value, meaning) in summary.measures.items()
    )
    return (
        '<div class="scroll" role="region" aria-label="Measures against the labels" tabindex="0"><table>'
        '<thead><tr><th scope="col">Measure</th><th scope="col">Value</th><th scope="col" class="words">What it is</th>'
        f"</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _stamp(stamp: Any) -> str:
    return str(stamp).replace("T", " ").removesuffix(".000000")
