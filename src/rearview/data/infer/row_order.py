"""Where each row goes: series by series, in order of time, on a regular grid, with what had to be repaired counted.

Rows out of order are sorted, rows that stand twice alike are dropped, gaps become missing rows. A stamp that stands
twice with different values is refused, and so is one off the grid.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer.frequency import infer_flat
from rearview.data.infer.timestamps import show
from rearview.data.io.table import Table
from rearview.data.panel import Finding
from rearview.data.step import Stamps, Step

Indices = NDArray[np.int64]
Difference = Callable[[Indices, Indices], "tuple[int, str] | None"]
"""Given rows a and b, the first i for which rows a[i] and b[i] differ, and the column in which they do."""
_MOST_GRID_ROWS_PER_ROW = 20
JOIN = "/"
"""What stands between the parts of an id made from several columns."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of the source in the order of the panel, and the panel's row for each of them."""

    take: Indices | None
    """Source rows, series by series in order of time; None when the source has that order."""
    place: Indices | None
    """The panel's row for each row taken; None when they follow one another."""
    bounds: Indices
    """[series + 1]: rows bounds[s] to bounds[s + 1] of those taken belong to series s."""
    offsets: Indices
    """[series + 1], as `Panel.offsets`."""
    stamps: Stamps
    step: Step

    def arrange(self, column: NDArray[Any]) -> NDArray[Any]:
        """A source column in the order of `take`."""
        return column if self.take is None else np.asarray(column[self.take])

    def placed(self, column: NDArray[np.float64], taken: slice) -> NDArray[np.float64]:
        """The `taken` part of an arranged column at its rows of the panel, NaN on rows that nothing was read for."""
        if self.place is None:
            return column[taken]
        grid = np.full(len(self.stamps), np.nan)
        grid[self.place[taken]] = column[taken]
        return grid


@dataclass(frozen=True, slots=True)
class Source:
    """What the rows of a table are known by: their stamps and the series each belongs to."""

    table: Table
    time_col: str
    stamps: Stamps
    codes: Indices | None
    """[row]: the number of the row's series; None when there is one series."""
    ids: tuple[str, ...]

    def series_words(self, row: int) -> str:
        """' of series 'a'' where there are several series."""
        return "" if self.codes is None else f" of series {self.ids[int(self.codes[row])]!r}"


def as_they_stand(source: Source, step: Step | None) -> tuple[Rows, list[Finding]]:
    """The rows of a benchmark file: one after another, nothing sorted, added or dropped."""
    take, bounds = _by_series(source)
    stamps = source.stamps if take is None else source.stamps[take]
    inferred = step or _inferred(source, stamps, bounds)
    findings = [] if step else [_step_finding(inferred)]
    return Rows(take, None, bounds, bounds, stamps, inferred), findings


def regular(source: Source, step: Step | None, difference: Difference) -> tuple[Rows, list[Finding]]:
    """Rows sorted, without duplicates, on a regular grid in each series, and what was repaired."""
    findings: list[Finding] = []
    take, bounds = _sorted(source, findings)
    take, bounds = _without_duplicates(source, take, bounds, difference, findings)
    stamps = source.stamps if take is None else source.stamps[take]
    if step is None:
        step = _inferred(source, stamps, bounds)
        findings.append(_step_finding(step))
    elif (step.unit == "int") != (stamps.dtype.kind in "iu"):
        kind = "whole numbers" if stamps.dtype.kind in "iu" else "dates"
        raise InputError(
            f"{source.table.source}: freq {str(step)!r} does not fit column {source.time_col!r}, whose stamps are "
            f"{kind}."
        )
    starts = np.repeat(stamps[bounds[:-1]], np.diff(bounds))
    steps = step.distance(starts, stamps)
    anchors = step.anchors(stamps, bounds[:-1], bounds[1:])
    _refuse_off_grid(source, take, stamps, np.repeat(anchors, np.diff(bounds)), step)
    last = steps[bounds[1:] - 1]
    offsets = np.concatenate([[0], np.cumsum(last + 1)])
    if offsets[-1] == len(stamps):
        return Rows(take, None, bounds, bounds, stamps, step), findings
    _refuse_blow_up(source, len(stamps), int(offsets[-1]), step)
    place = np.repeat(offsets[:-1], np.diff(bounds)) + steps
    first = step.distance(anchors, stamps[bounds[:-1]])
    number = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], last + 1)
    grid = step.shift(np.repeat(anchors, last + 1), number)
    findings.append(_gap_finding(int(offsets[-1]) - len(stamps), stamps, steps, bounds))
    return Rows(take, place, bounds, offsets, grid, step), findings


def aligned(rows: Rows, source: Source) -> tuple[Rows, list[Finding]]:
    """The same rows with every series on one common grid, for series that become columns of one."""
    start, end = rows.stamps[rows.offsets[:-1]].min(), rows.stamps[rows.offsets[1:] - 1].max()
    size = int(rows.step.distance(start, end)) + 1
    begins = rows.stamps[rows.offsets[:-1]]
    anchors = rows.step.anchors(rows.stamps, rows.offsets[:-1], rows.offsets[1:])
    anchor = rows.step.anchors(np.sort(anchors), np.array([0]), np.array([len(anchors)]))[0]
    off = ~rows.step.on_grid(anchor, anchors)
    if off.any():
        number = int(off.argmax())
        raise InputError(
            f"{source.table.source}: series {source.ids[number]!r} has the stamp {show(anchors[number])}, which is off "
            f"the others' grid ({rows.step.words()} from {show(anchor)}); leave out together, or bring it to the grid."
        )
    _refuse_blow_up(source, len(rows.stamps), size, rows.step)
    counts = np.diff(rows.bounds)
    within = np.arange(rows.bounds[-1]) if rows.place is None else rows.place
    place = within - np.repeat(rows.offsets[:-1], counts) + np.repeat(rows.step.distance(start, begins), counts)
    common = Rows(rows.take, place, rows.bounds, np.array([0, size]), rows.step.grid(start, size, anchor), rows.step)
    outside = size * len(source.ids) - int(rows.offsets[-1])
    if outside == 0:
        return common, []
    words = (
        f"Series begin or end at different stamps; {outside} {_rows(outside)} of the common grid are missing in them."
    )
    return common, [Finding("repaired", "unaligned", outside, words)]


def _by_series(source: Source) -> tuple[Indices | None, Indices]:
    """Rows grouped by series, the order within each kept."""
    if source.codes is None:
        return None, np.array([0, len(source.stamps)])
    bounds = np.concatenate([[0], np.cumsum(np.bincount(source.codes, minlength=len(source.ids)))])
    if np.all(source.codes[1:] >= source.codes[:-1]):
        return None, bounds
    return np.argsort(source.codes, kind="stable"), bounds


def _sorted(source: Source, findings: list[Finding]) -> tuple[Indices | None, Indices]:
    take, bounds = _by_series(source)
    stamps = source.stamps if take is None else source.stamps[take]
    falls = stamps[1:] < stamps[:-1]
    falls[bounds[1:-1] - 1] = False
    if not falls.any():
        return take, bounds
    counts = np.diff(bounds)
    series = np.repeat(np.arange(len(counts)), counts)
    ranks = np.unique(stamps, return_inverse=True)[1].reshape(-1)
    key = series * (int(ranks.max()) + 1) + ranks
    late = int(np.sum(key < np.maximum.accumulate(key)))
    order = np.argsort(key, kind="stable")
    words = f"{late} {_rows(late)} stood after a later stamp; the rows were sorted by time."
    findings.append(Finding("repaired", "unsorted", late, words))
    return (order if take is None else take[order]), bounds


def _without_duplicates(
    source: Source,
    take: Indices | None,
    bounds: Indices,
    difference: Difference,
    findings: list[Finding],
) -> tuple[Indices | None, Indices]:
    stamps = source.stamps if take is None else source.stamps[take]
    same = stamps[1:] == stamps[:-1]
    same[bounds[1:-1] - 1] = False
    if not same.any():
        return take, bounds
    order = np.arange(len(stamps)) if take is None else take
    second = np.flatnonzero(same) + 1
    found = difference(order[second - 1], order[second])
    if found is not None:
        at, column = found
        _refuse_duplicate(source, int(order[second[at] - 1]), int(order[second[at]]), column)
    kept = np.ones(len(stamps), dtype=bool)
    kept[second] = False
    words = f"{len(second)} {_rows(len(second))} with the stamp and the cells of another row left out."
    findings.append(Finding("repaired", "duplicates", len(second), words))
    return order[kept], np.concatenate([[0], np.cumsum(kept)[bounds[1:] - 1]])


def _refuse_duplicate(source: Source, first: int, second: int, column: str) -> None:
    first, second = sorted((first, second))
    raise InputError(
        f"{source.table.at(first)} and {source.table.place(second)}: the stamp {show(source.stamps[first])}"
        f"{source.series_words(first)} stands twice with different values (column {column!r}); keep one of the two rows"
        + ("." if source.codes is not None else ", or name the column of series ids with id_col (--id-col).")
    )


def _inferred(source: Source, stamps: Stamps, bounds: Indices) -> Step:
    try:
        return infer_flat(stamps, bounds)
    except InputError as error:
        raise InputError(f"{source.table.source}, column {source.time_col!r}: {error}") from error


def _step_finding(step: Step) -> Finding:
    return Finding("inferred", "step", 0, f"The step is {step.words()} ({step}).")


def _refuse_off_grid(source: Source, take: Indices | None, stamps: Stamps, anchors: Stamps, step: Step) -> None:
    off = ~step.on_grid(anchors, stamps)
    if not off.any():
        return
    at = int(off.argmax())
    row = at if take is None else int(take[at])
    share = f"{int(off.sum())} of {len(stamps)} stamps are"
    raise InputError(
        f"{source.table.at(row)}, column {source.time_col!r}: the stamp {show(stamps[at])}{source.series_words(row)} "
        f"is off the grid, {step.words()} from {show(anchors[at])} ({share}); correct it, round the stamps, or give a "
        "finer step with freq (--freq)."
    )


def _refuse_blow_up(source: Source, rows: int, grid: int, step: Step) -> None:
    if grid > _MOST_GRID_ROWS_PER_ROW * rows:
        raise InputError(
            f"{source.table.source}, column {source.time_col!r}: {step.words()}, the stamps span {grid:,} steps, but "
            f"there are only {rows:,} rows; look for a wrong stamp at either end, aggregate the rows, or give a longer "
            "step with freq (--freq)."
        )


def _gap_finding(missing: int, stamps: Stamps, steps: Indices, bounds: Indices) -> Finding:
    """How many steps are missing, and where the longest run of them begins."""
    jumps = np.diff(steps)
    jumps[bounds[1:-1] - 1] = 0
    longest = int(jumps.argmax())
    words = (
        f"{missing} {'step is' if missing == 1 else 'steps are'} missing between rows and became missing rows; the "
        f"longest gap ({int(jumps[longest]) - 1}) follows {show(stamps[longest])}."
    )
    return Finding("repaired", "gaps", missing, words)


def _rows(count: int) -> str:
    return "row" if count == 1 else "rows"


def series_of(table: Table, id_columns: tuple[str, ...]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """[row] the number of each row's series, and the ids."""
    codes, ids = _one_column(table, id_columns[0])
    for name in id_columns[1:]:
        more, words = _one_column(table, name)
        joint, first, inverse = np.unique(codes * len(words) + more, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        ids = [f"{ids[both // len(words)]}{JOIN}{words[both % len(words)]}" for both in joint[order].tolist()]
        codes = rank[inverse.reshape(-1)]
    return codes, tuple(ids)


def _one_column(table: Table, name: str) -> tuple[NDArray[np.int64], list[str]]:
    import narwhals as nw

    series: nw.Series[Any] = table.fetch(name)
    dtype = series.dtype
    if dtype.is_float() and not series.is_null().any() and np.all(series.to_numpy() == np.floor(series.to_numpy())):
        # A reader makes floats of integers where a neighbour was missing once; 1.0 was never meant as an id.
        series = series.cast(nw.Int64)
    elif not dtype.is_integer() and dtype != nw.String:
        series = series.cast(nw.String)
    missing = series.is_null().to_numpy()
    if series.dtype == nw.String:
        missing = missing | (series == "").fill_null(True).to_numpy()
    if missing.any():
        raise InputError(
            f"{table.at(int(missing.argmax()))}, column {name!r}: the id of the series is missing; fill it in or "
            "remove the row."
        )
    values = series.unique(maintain_order=True).to_list()
    words = [str(value) for value in values]
    if len(values) == 1:
        return np.zeros(len(series), dtype=np.int64), words
    codes = series.replace_strict(values, list(range(len(values))), return_dtype=nw.Int64).to_numpy()
    return np.asarray(codes, dtype=np.int64), words
