"""A panel: every series of a data set in one flat float32 array, with the facts needed to find and name each cell.

A wide file is one series of many columns; a long file is many series of one target column (and its inputs).
Rows of one series lie together, regular in time; `offsets` says where each begins, so a window never crosses a series.
Values are stored centred: what was subtracted (in float64) stands in `centre`, because float32 alone would round
long counters and large levels (it holds integers to 16,777,216 only).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rearview.data.statics import Statics
from rearview.data.step import MONTHS, Step

Kind = Literal["inferred", "repaired", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that reading the data inferred, repaired or warns of."""

    kind: Kind
    what: str
    """A short key such as "gaps", "unsorted", "sentinels", "step"."""
    count: int
    """The number of rows, cells or series concerned; 0 for what was inferred."""
    message: str
    """The sentence a person reads."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of the data as given, so that forecasts go back in the same form."""

    form: Literal["wide", "long"]
    time_col: str
    id_col: str | None = None
    target_col: str | None = None
    together: bool = False
    """A long frame whose series were aligned as channels of one series."""
    backend: Literal["pandas", "polars", "pyarrow", "file"] = "file"
    timezone: str | None = None
    """The time zone the stamps came with, by name or offset."""
    stored: Literal["wall", "utc"] = "wall"
    """Whether a panel's stamps are local wall time or, for steps shorter than a day in a time zone, UTC."""
    time_kind: Literal["datetime", "date", "integer", "text"] = "datetime"
    time_format: str | None = None
    """The format of stamps given as text, for `strftime`."""
    bare: bool = False
    """The stamps came without the time zone that they are in, and go back without it."""
    time_index: bool = False
    """The stamps were the index of a pandas frame, not a column."""
    period: str | None = None
    """The frequency, as pandas calls it, of stamps that came as its periods."""
    static: tuple[str, ...] = ()
    """Columns that describe the series."""
    levels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Categories by column of text, the one that others are compared with first."""
    source: str = "frame"
    """The file the data was read from, or "frame"."""

    @property
    def named_series(self) -> bool:
        """Whether the data has series of their own, each with a name that the caller gave it."""
        return self.form == "long" and not self.together


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock on the wall that a daily season goes by, where it is changed twice a year (see `data.wall_clock`)."""

    zone: str
    """The time zone in which it hangs."""
    offset: str
    """The zone of a fixed offset, such as +01:00, in which rows are laid out as it shows them."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Every series of a data set, ready for windows."""

    values: NDArray[np.float32]
    """[row, column], centred, missing cells filled (0, the centre, where nothing was seen before)."""
    centre: NDArray[np.float64]
    """[series, column]: what was subtracted."""
    observed: NDArray[np.bool_] | None
    """[row, column], False where a cell was missing and is filled; None when nothing is missing."""
    offsets: NDArray[np.int64]
    """[series + 1]: rows offsets[s] to offsets[s + 1] belong to series s."""
    first: NDArray[np.int64]
    """[series, column]: the row of the first observed cell (offsets[s + 1] when there is none)."""
    stamps: NDArray[np.generic]
    """[row]: datetime64[us] (time zones: see `Layout.timezone`) or int64."""
    ids: tuple[str, ...]
    """One name a series."""
    columns: tuple[str, ...]
    """Names of the columns: targets, then past inputs, then inputs known in the future."""
    targets: int
    """The number of columns that are forecast."""
    known: int
    """The number of columns, the last ones, that are known in the future."""
    step: Step
    layout: Layout
    findings: tuple[Finding, ...] = field(default=())
    anchors: NDArray[np.generic] | None = None
    """[series]: a stamp that a whole series is whole steps from, kept where rows were cut off; None: see `anchored`."""
    statics: Statics | None = None
    """Features that describe the series; None: there are none."""
    clock: Clock | None = None
    """The clock by which models read the rows; None: they read them as they are."""

    @property
    def series(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[series]: rows of each series."""
        return np.diff(self.offsets)

    @property
    def target_names(self) -> tuple[str, ...]:
        return self.columns[: self.targets]

    @property
    def input_names(self) -> tuple[str, ...]:
        """Columns that are inputs up to the cutoff only."""
        return self.columns[self.targets : len(self.columns) - self.known]

    @property
    def known_names(self) -> tuple[str, ...]:
        return self.columns[len(self.columns) - self.known :]

    @property
    def empty_names(self) -> tuple[str, ...]:
        """Columns without a value in any row."""
        seen = np.logical_or.reduce(self.first < self.offsets[1:, None], axis=0)
        return tuple(name for name, there in zip(self.columns, seen, strict=True) if not there)

    def original(self, rows: slice, series: int) -> NDArray[np.float64]:
        """The cells of some rows of one series in original units; missing cells are NaN."""
        cells = self.values[rows].astype(np.float64) + self.centre[series]
        if self.observed is not None:
            cells[~self.observed[rows]] = np.nan
        return cells

    def original_column(self, rows: slice, series: int, column: int) -> NDArray[np.float64]:
        """The same of one column alone: an array of its own, so that keeping it keeps no other column."""
        cells = self.values[rows, column].astype(np.float64) + self.centre[series, column]
        if self.observed is not None:
            cells[~self.observed[rows, column]] = np.nan
        return cells

    def ahead(self, rows: NDArray[np.int64], steps: int) -> NDArray[np.generic]:
        """[row, step]: the stamps that follow each row, whether the panel has rows for them or not."""
        series = np.searchsorted(self.offsets, rows, side="right") - 1
        return self.step.after(self.stamps[rows], steps, self.find_anchors()[series])

    def find_anchors(self) -> NDArray[np.generic]:
        """[series]: the stamp that all of a series are whole steps from (see `Step.anchors`)."""
        if self.anchors is not None:
            return self.anchors
        return self.step.anchors(self.stamps, self.offsets[:-1], self.offsets[1:])

    def select(self, keep: Sequence[int]) -> "Panel":
        """Some columns, by position; how many of them are targets and known is for the caller to say."""
        return replace(
            self,
            values=np.ascontiguousarray(self.values[:, keep]),
            centre=self.centre[:, keep],
            observed=None if self.observed is None else np.ascontiguousarray(self.observed[:, keep]),
            first=self.first[:, keep],
            columns=tuple(self.columns[c] for c in keep),
        )

    def only(self, ids: Iterable[str]) -> "Panel":
        """The series of these names alone."""
        wanted = set(ids)
        kept = np.array([name in wanted for name in self.ids])
        return self.between(self.offsets[:-1], np.where(kept, self.offsets[1:], self.offsets[:-1]))

    def like(self, other: "Panel") -> "Panel":
        """The series and columns that another panel of the same data has."""
        named = self if self.ids == other.ids else self.only(other.ids)
        if named.columns == other.columns:
            return named
        same = named.select([named.columns.index(name) for name in other.columns])
        return replace(same, targets=other.targets, known=other.known)

    def until(self, last: np.generic) -> "Panel":
        """The panel as it was known at `last`: rows with later stamps are cut off, and series that had not begun."""
        ends = [a + int(np.searchsorted(self.stamps[a:b], last, side="right")) for a, b in self.bounds()]
        return self.between(self.offsets[:-1], np.array(ends, dtype=np.int64))

    def tail(self, rows: int) -> "Panel":
        """The last rows of every series."""
        return self.between(np.maximum(self.offsets[:-1], self.offsets[1:] - rows), self.offsets[1:])

    def between(self, begin: NDArray[np.int64], end: NDArray[np.int64]) -> "Panel":
        """Rows begin[s] to end[s] (exclusive) of every series; series left with none are dropped."""
        alive = np.flatnonzero(end > begin)
        lengths = (end - begin)[alive]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        rows: slice | NDArray[np.int64] = np.repeat(begin[alive] - offsets[:-1], lengths) + np.arange(offsets[-1])
        if len(alive) == 1:
            rows = slice(int(begin[alive[0]]), int(end[alive[0]]))  # a view: a long single series is not copied
        first = np.clip(self.first[alive] - begin[alive, None], 0, lengths[:, None]) + offsets[:-1, None]
        return replace(
            self,
            values=self.values[rows],
            centre=self.centre[alive],
            observed=None if self.observed is None else self.observed[rows],
            offsets=offsets,
            first=first,
            stamps=self.stamps[rows],
            ids=tuple(self.ids[s] for s in alive.tolist()),
            # A February that is cut out alone no longer tells the day of the month.
            anchors=self.find_anchors()[alive] if self.step.unit in MONTHS else None,
            statics=None if self.statics is None else replace(self.statics, values=self.statics.values[alive]),
        )

    def span(self, series: int) -> tuple[int, int]:
        """(first row, row after the last) of one series."""
        return int(self.offsets[series]), int(self.offsets[series + 1])

    def bounds(self) -> list[tuple[int, int]]:
        """(first row, row after the last) of every series."""
        return list(zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True))
