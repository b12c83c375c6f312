"""The page of a detection: the series with its anomalies, the score with its threshold, the channels behind them.

A page has a budget of numbers: long series are drawn at fewer rows (the highest score of each stretch and every end of
a segment stay), then fewer channels of each series, then fewer series; the page says what was left off.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.core.wording import quantity
from rearview.estimators.detect.portfolio.portfolio import Standing
from rearview.estimators.detect.segments import Segment
from rearview.report.common import text
from rearview.report.common.payload import StampAxes, encode_curves, round_digits
from rearview.report.common.summary import BUDGET, Content, DataFacts, Stamps, Summary, Tile, Values
from rearview.report.common.tables import Cell, Table, html_table
from rearview.report.detect.levels import ABOVE, BELOW, count_days, try_levels

SCRIPTS = ("figures.js", "plots.js", "picker.js", "copy.js", "detection.js")
MOST_ROWS = (4_000, 2_000, 1_000, 500, 250)
"""Rows of a series that are drawn: the most with which its main channels fit."""
LEVEL_NUMBERS = 4 * (BELOW + 1 + ABOVE)
"""Numbers of the slider of a series."""
MAIN_CHANNELS, FEWEST_CHANNELS = 8, 3
LOUDEST = 2
"""Members named beside a segment."""
MOST_SEGMENTS, MOST_LISTED = 300, 10
"""Segments in the table of the page, and in the summary in Markdown."""
BOARD = {
    "Weight": "in the score",
    "Usual error": "mean on held-out rows, which its errors are compared with",
    "Agreement": "rank correlation with the score of all members, on held-out rows",
    "Seconds": "to fit",
}
"""Columns of the table of members, with their meanings."""

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class EntityView:
    """One series and its anomalies."""

    id: str
    stamps: Stamps
    values: Values
    """[row, channel] in original units, NaN where a cell is missing."""
    score: Values
    """[row]."""
    threshold: float
    segments: tuple[Segment, ...]
    """Rows are counted from the first of the series."""
    shares: Values
    """[channel]: of the error of all rows, or of the flagged ones where there are any."""
    labels: tuple[tuple[int, int], ...] = ()
    """First and last rows of the anomalies that a person marked."""
    join: int = 1
    """Flagged rows with fewer others between them are one segment."""

    def times(self, part: Segment) -> tuple[str, ...]:
        """Start, end and peak of a segment as text."""
        stamps = (self.stamps[row] for row in (part.first, part.last, part.peak))
        return tuple(str(stamp).replace("T", " ").removesuffix(".000000") for stamp in stamps)

    def check(self) -> None:
        """Refuse arrays that do not belong together."""
        rows = len(self.stamps)
        if self.values.shape != (rows, len(self.shares)) or self.score.shape != (rows,):
            raise InputError(
                f"In a report, series {self.id!r} must have a score and a value of every channel for each of its "
                f"{rows} stamps, but the shapes are {self.score.shape} and {self.values.shape}."
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DetectionSummary(Summary):
    """Everything on the page of a detection."""

    data: DataFacts
    channels: tuple[str, ...]
    entities: tuple[EntityView, ...]
    measures: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    """Name -> (value, what it is), where there are labels."""
    members: tuple[Standing, ...] = ()
    """Members of a portfolio; none for one network."""

    def __post_init__(self) -> None:
        if not self.entities:
            raise InputError("A report needs at least one series to show, but the summary has none.")
        for entity in self.entities:
            entity.check()

    def content(self, budget: int = BUDGET) -> Content:
        data, left_off = encode(self, budget)
        return Content(
            template="detection.html",
            parts={
                "segments": _segment_table(self),
                "measures": self._measure_table().html("Measures against the labels") if self.measures else "",
                "members": self._member_table().html("Members") if self.members else "",
            },
            tiles=self._tiles(),
            scripts=SCRIPTS,
            data=data,
            left_off=left_off,
            skip="anomalies",
        )

    def tables(self) -> list[Table]:
        several, segments = len(self.entities) > 1, self.ranked()
        rows = []
        for entity, _, part in segments[:MOST_LISTED]:
            cells = [*([entity.id] if several else []), *entity.times(part), f"{part.last - part.first + 1:,}"]
            rows.append((*map(Cell, (*cells, text.number(part.score), self.carriers(part))),))
        heads = (*(("Series",) if several else ()), "Start", "End", "Peak", "Rows", "Score", "Channels")
        more = f" The {MOST_LISTED} highest of {len(segments):,}." if len(segments) > MOST_LISTED else ""
        anomalies = Table(f"Anomalies, highest above the threshold first.{more}", heads, tuple(rows), {len(heads) - 1})
        return [*([anomalies] if rows else []), *([self._measure_table()] if self.measures else [])]

    def _measure_table(self) -> Table:
        rows = tuple((Cell(name), Cell(text.number(v)), Cell(why)) for name, (v, why) in self.measures.items())
        return Table("Against the labels.", ("Measure", "Value", "What it is"), rows, {2})

    def _member_table(self) -> Table:
        rows = []
        for one in self.members:
            numbers = (f"{one.weight:.2f}", text.number(one.usual), f"{one.agreement:.2f}", f"{one.seconds:.1f}")
            rows.append(tuple(map(Cell, (one.name, *numbers, one.meaning))))
        heads = ("Member", *BOARD, "What it looks at")
        return Table("Members of the portfolio.", heads, tuple(rows), {len(heads) - 1}, meanings=BOARD)

    def ranked(self) -> list[tuple[EntityView, int, Segment]]:
        """Every segment with its series and its number there, the highest above the threshold first."""
        every = [(one, number, part) for one in self.entities for number, part in enumerate(one.segments)]
        return sorted(every, key=lambda each: -each[2].score / (each[0].threshold or 1))

    def carriers(self, part: Segment) -> str:
        """The channels that carry a segment, each with its share."""
        return ", ".join(f"{self.channels[c]} {100 * share:.0f} %" for c, share in part.channels)

    def _tiles(self) -> list[Tile]:
        rows = sum(len(entity.stamps) for entity in self.entities)
        flagged = sum(int((entity.score > entity.threshold).sum()) for entity in self.entities)
        segments = sum(len(entity.segments) for entity in self.entities)
        days = sum(count_days(entity) or 0.0 for entity in self.entities)
        rate = ("Alarms a day", f"{segments / days:.2g}", f"over {days:,.1f} days") if days else None
        tiles = [
            ("Anomalies", f"{segments:,}", f"in {quantity(rows, 'row')}"),
            rate or ("Alarms in 1,000 rows", f"{1000 * segments / max(1, rows):.2g}", "at this threshold"),
            ("Rows above the threshold", f"{flagged:,}", text.percent(flagged / max(1, rows))),
        ]
        for name in ("VUS-PR", "AUC-PR"):
            if name in self.measures and math.isfinite(self.measures[name][0]):
                tiles.append((name, text.number(self.measures[name][0]), "against the labels"))
        return [*tiles, self.run_time]


def encode(summary: DetectionSummary, budget: int = BUDGET) -> tuple[dict[str, object], tuple[str, ...]]:
    """(the data of the page, sentences about what was left off to stay within the budget)."""
    for most in MOST_ROWS:
        rows = [rows_to_draw(entity, most) for entity in summary.entities]
        if sum(map(len, rows)) * (1 + min(MAIN_CHANNELS, len(summary.channels))) <= budget:
            break
    count, channels, notes = _fit([len(drawn) for drawn in rows], len(summary.channels), budget)
    if any(len(drawn) < len(entity.stamps) for drawn, entity in zip(rows, summary.entities, strict=True)):
        thinned = f"Long series are drawn at about {most:,} rows, their peaks kept; nothing else is thinned."
        notes = (thinned, *notes)
    axes = StampAxes()
    return {
        "time": {"integer": summary.entities[0].stamps.dtype.kind != "M", "name": summary.data.time_name},
        "channels": list(summary.channels),
        "entities": [_encode_entity(summary.entities[e], rows[e], channels, axes) for e in range(count)],
        "curves": encode_curves(summary.curves),
        "axes": axes.rows,
    }, notes


def rows_to_draw(entity: EntityView, most: int) -> Rows:
    """All rows of a short series; else the highest score of each stretch, and the ends of segments."""
    rows = len(entity.stamps)
    if rows <= most:
        return np.arange(rows)
    known = np.where(np.isfinite(entity.score), entity.score, -np.inf)
    edges = np.linspace(0, rows, most // 2 + 1).astype(np.int64)
    peaks = [a + int(known[a:b].argmax()) for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]
    ends = [row for part in entity.segments for row in (part.first, part.peak, part.last)]
    ends += [row for label in entity.labels for row in label]
    return np.unique(np.concatenate([edges[:-1], peaks, [*ends, rows - 1]]).astype(np.int64))


def _fit(rows: list[int], channels: int, budget: int) -> tuple[int, int, tuple[str, ...]]:
    """(series, channels of each, sentences about the rest)."""
    shown = min(channels, max(FEWEST_CHANNELS, budget // max(1, sum(rows)) - 1))
    sizes = np.asarray(rows) * (1 + shown) + LEVEL_NUMBERS
    count = min(len(rows), max(1, int(np.searchsorted(np.cumsum(sizes), budget, side="right"))))
    parts = [f"the {shown} channels with the largest errors of each series"] if shown < channels else []
    parts += [f"the first {count:,} of {len(rows):,} series"] if count < len(rows) else []
    sentence = f"To stay small, the page draws {', and '.join(parts)}; tables and files hold all of them."
    return count, shown, (sentence,) if parts else ()


def _encode_entity(entity: EntityView, rows: Rows, channels: int, axes: StampAxes) -> dict[str, object]:
    largest = np.argsort(-entity.shares, kind="stable")[:channels].tolist()
    slider: dict[str, object] | None = None
    if (levels := try_levels(entity)) is not None:
        counts = {name: getattr(levels, name).tolist() for name in ("alarms", "rows", "found")}
        slider = {"run": BELOW, "at": round_digits(levels.thresholds), **counts}

    def at(row: int) -> int:
        return int(np.searchsorted(rows, row))

    return {
        "id": entity.id,
        "at": axes.add(entity.stamps[rows]),
        "score": round_digits(entity.score[rows]),
        "threshold": round_digits(np.array([entity.threshold]))[0],
        "shares": round_digits(entity.shares),
        "values": {str(channel): round_digits(entity.values[rows, channel]) for channel in largest},
        "segments": [
            {
                "first": at(s.first),
                "last": at(s.last),
                "peak": at(s.peak),
                "shares": [list(pair) for pair in s.channels],
            }
            for s in entity.segments
        ],
        "labels": [[at(first), at(last)] for first, last in entity.labels],
        "rows": len(entity.stamps),
        "days": count_days(entity),
        "join": entity.join,
        "levels": slider,
    }


def _segment_table(summary: DetectionSummary) -> str:
    """Segments, the highest score first; each row's button shows it in the charts."""
    segments = summary.ranked()
    if not segments:
        return '<p class="quiet">No row scores above the threshold.</p>'
    several = len(summary.entities) > 1
    places = {id(entity): place for place, entity in enumerate(summary.entities)}
    rows = []
    for entity, number, part in segments[:MOST_SEGMENTS]:
        e, (start, end, peak) = places[id(entity)], map(escape, entity.times(part))
        button = f'<button type="button" class="link" data-entity="{e}" data-segment="{number}">{start}</button>'
        name = f"{escape(entity.id)}</th><td>{button}</td>" if several else f"{button}</th>"
        times = f"{part.score / entity.threshold:.1f} times the threshold" if entity.threshold > 0 else ""
        members = ", ".join(f"{member} {100 * share:.0f} %" for member, share in part.members[:LOUDEST])
        cell = f'<td class="words">{escape(members)}</td>' if summary.members else ""
        rows.append(
            f'<tr><th scope="row">{name}<td>{end}</td><td>{part.last - part.first + 1:,}</td><td>{peak}</td>'
            f'<td title="{times}">{text.number(part.score)}</td>'
            f'<td class="words">{escape(summary.carriers(part))}</td>{cell}</tr>'
        )
    words = ("Channels", *(("Members",) if summary.members else ()))
    heads = (*(("Series",) if several else ()), "Start", "End", "Rows", "Peak", "Score", *words)
    more = f" The {MOST_SEGMENTS} highest of {len(segments):,}." if len(segments) > MOST_SEGMENTS else ""
    shadow = (
        " Rows around one that are above the threshold by its shadow alone are left out." if summary.members else ""
    )
    caption = f"Highest above the threshold first; press one to see it above.{shadow}{more}"
    return html_table(
        "Anomalies", heads, "".join(rows), caption, kinds=[*[""] * (len(heads) - len(words)), *["words"] * len(words)]
    )
