"""Where each row goes: series by series, in order of time, on a regular grid, with what had to be repaired counted.

Rows out of order are sorted, rows that stand twice alike are dropped, gaps become missing rows. A stamp that stands
twice with different values is refused, and so is one off the grid.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.core.wording import plural
from rearview.data.infer.frequency import infer_step
from rearview.data.infer.timestamps import show
from rearview.data.io.table import Table, TableColumn
from rearview.data.panel import Finding
from rearview.data.step import Stamps, Step

Indices = NDArray[np.int64]
FirstDifference = Callable[[Indices, Indices], "tuple[int, str] | None"]
"""Given rows a and b, the first i for which rows a[i] and b[i] differ, and the column in which they do."""
JOIN = "/"
"""What stands between the parts of an id made from several columns."""
_MOST_GRID_ROWS_PER_ROW = 20


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Rows of a table in the order of the panel, and the panel's row for each of them."""

    take: Indices | None
    """Table rows, series by series in order of time; None when the table has that order."""
    place: Indices | None
    """The panel's row for each row taken; None when they follow one another."""
    bounds: Indices
    """[series + 1]: rows bounds[s] to bounds[s + 1] of those taken belong to series s."""
    offsets: Indices
    """[series + 1], as `Panel.offsets`."""
    stamps: Stamps
    step: Step

    def arrange(self, column: NDArray[np.float64]) -> NDArray[np.float64]:
        """A table column in the order of `take`."""
        return column if self.take is None else column[self.take]

    def on_grid(self, column: NDArray[np.float64], taken: slice) -> NDArray[np.float64]:
        """The `taken` part of an arranged column at its rows of the panel, NaN on rows that nothing was read for."""
        if self.place is None:
            return column[taken]
        grid = np.full(len(self.stamps), np.nan)
        grid[self.place[taken]] = column[taken]
        return grid


@dataclass(frozen=True, slots=True)
class TableRows:
    """What the rows of a table are known by: their stamps and the series each belongs to."""

    table: Table
    time_col: str
    stamps: Stamps
    codes: Indices | None
    """[row]: the number of the row's series; None when there is one series."""
    ids: tuple[str, ...]

    def take_stamps(self, take: Indices | None) -> Stamps:
        """The stamps of the rows taken."""
        return self.stamps if take is None else self.stamps[take]

    def of_series(self, row: int) -> str:
        """' of series 'a'' where there are several series."""
        return "" if self.codes is None else f" of series {self.ids[int(self.codes[row])]!r}"

    def by_series(self) -> tuple[Indices | None, Indices]:
        """Rows grouped by series, the order within each kept, and where each series begins and ends."""
        if self.codes is None:
            return None, np.array([0, len(self.stamps)])
        bounds = np.concatenate([[0], np.cumsum(np.bincount(self.codes, minlength=len(self.ids)))])
        if np.all(self.codes[1:] >= self.codes[:-1]):
            return None, bounds
        return np.argsort(self.codes, kind="stable"), bounds

    def settle_step(self, stamps: Stamps, bounds: Indices, given: Step | None) -> tuple[Step, list[Finding]]:
        """The step that is given, or else that of the stamps in order, with a finding."""
        if given is not None:
            return given, []
        try:
            step = infer_step(stamps, bounds)
        except InputError as error:
            raise InputError(f"{self.table.source}, column {self.time_col!r}: {error}") from error
        return step, [Finding("inferred", "step", 0, f"The step is {step.words()} ({step}).")]

    def check_size(self, rows: int, grid: int, step: Step) -> None:
        """Refuse a grid that has many more rows than the data: one wrong stamp can make it so."""
        if grid > _MOST_GRID_ROWS_PER_ROW * rows:
            raise InputError(
                f"{self.table.source}, column {self.time_col!r}: {step.words()}, the stamps span {grid:,} steps, but "
                f"there are only {rows:,} rows; look for a wrong stamp at either end, aggregate the rows, or give a "
                "longer step with freq (--freq)."
            )


def read_series(table: Table, id_columns: tuple[str, ...]) -> tuple[Indices, tuple[str, ...]]:
    """[row] the number of each row's series, and the ids as text, in the order in which they first appear."""
    codes, ids = _read_ids(table, id_columns[0])
    for name in id_columns[1:]:
        more, words = _read_ids(table, name)
        joint, first, inverse = np.unique(codes * len(words) + more, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        ids = [f"{ids[both // len(words)]}{JOIN}{words[both % len(words)]}" for both in joint[order].tolist()]
        codes = rank[inverse.reshape(-1)]
    return codes, tuple(ids)


def _read_ids(table: Table, name: str) -> tuple[Indices, list[str]]:
    import narwhals as nw

    column: TableColumn = table.fetch(name)
    dtype = column.dtype
    if dtype.is_float() and not column.is_null().any() and np.all(column.to_numpy() == np.floor(column.to_numpy())):
        # A reader makes floats of integers where a neighbour was missing once; 1.0 was never meant as an id.
        column = column.cast(nw.Int64)
    elif not dtype.is_integer() and dtype != nw.String:
        column = column.cast(nw.String)
    missing = column.is_null().to_numpy()
    if column.dtype == nw.String:
        missing = missing | (column == "").fill_null(True).to_numpy()
    if missing.any():
        raise InputError(
            f"{table.at(int(missing.argmax()))}, column {name!r}: the id of the series is missing; fill it in or "
            "remove the row."
        )
    values = column.unique(maintain_order=True).to_list()
    words = [str(value) for value in values]
    if len(values) == 1:
        return np.zeros(len(column), dtype=np.int64), words
    codes = column.replace_strict(values, list(range(len(values))), return_dtype=nw.Int64).to_numpy()
    return np.asarray(codes, dtype=np.int64), words


def keep_order(rows: TableRows, step: Step | None) -> tuple[RowOrder, list[Finding]]:
    """The rows of a benchmark file: one after another, nothing sorted, added or dropped."""
    take, bounds = rows.by_series()
    stamps = rows.take_stamps(take)
    step, findings = rows.settle_step(stamps, bounds, step)
    return RowOrder(take, None, bounds, bounds, stamps, step), findings


def regularise(rows: TableRows, step: Step | None, first_difference: FirstDifference) -> tuple[RowOrder, list[Finding]]:
    """Rows sorted, without duplicates, on a regular grid in each series, and what was repaired."""
    findings: list[Finding] = []
    take, bounds = _sort(rows, findings)
    take, bounds = _drop_duplicates(rows, take, bounds, first_difference, findings)
    stamps = rows.take_stamps(take)
    kind = "whole numbers" if stamps.dtype.kind in "iu" else "dates"
    if step is not None and (step.unit == "int") != (kind == "whole numbers"):
        raise InputError(
            f"{rows.table.source}: freq {str(step)!r} does not fit column {rows.time_col!r}, whose stamps are {kind}."
        )
    step, more = rows.settle_step(stamps, bounds, step)
    findings += more
    counts = np.diff(bounds)
    steps = step.distance(np.repeat(stamps[bounds[:-1]], counts), stamps)
    anchors = step.anchors(stamps, bounds[:-1], bounds[1:])
    each_anchor = np.repeat(anchors, counts)
    off = ~step.on_grid(each_anchor, stamps)
    if off.any():
        at = int(off.argmax())
        row = at if take is None else int(take[at])
        raise InputError(
            f"{rows.table.at(row)}, column {rows.time_col!r}: the stamp {show(stamps[at])}{rows.of_series(row)} is off "
            f"the grid, {step.words()} from {show(each_anchor[at])} ({int(off.sum())} of {len(stamps)} stamps are); "
            "correct it, round the stamps, or give a finer step with freq (--freq)."
        )
    last = steps[bounds[1:] - 1]
    offsets = np.concatenate([[0], np.cumsum(last + 1)])
    if offsets[-1] == len(stamps):
        return RowOrder(take, None, bounds, bounds, stamps, step), findings
    rows.check_size(len(stamps), int(offsets[-1]), step)
    first = step.distance(anchors, stamps[bounds[:-1]])
    number = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], last + 1)
    grid = step.shift(np.repeat(anchors, last + 1), number)
    missing = int(offsets[-1]) - len(stamps)
    jumps = np.diff(steps)
    jumps[bounds[1:-1] - 1] = 0
    longest = int(jumps.argmax())
    message = (
        f"{missing} {plural(missing, 'step is', 'steps are')} missing between rows and became missing rows; the "
        f"longest gap ({int(jumps[longest]) - 1}) follows {show(stamps[longest])}."
    )
    findings.append(Finding("repaired", "gaps", missing, message))
    return RowOrder(take, np.repeat(offsets[:-1], counts) + steps, bounds, offsets, grid, step), findings


def align(order: RowOrder, rows: TableRows) -> tuple[RowOrder, list[Finding]]:
    """The same rows with every series on one common grid, for series that become columns of one."""
    step, stamps, begins = order.step, order.stamps, order.stamps[order.offsets[:-1]]
    start, end = begins.min(), stamps[order.offsets[1:] - 1].max()
    size = int(step.distance(start, end)) + 1
    anchors = step.anchors(stamps, order.offsets[:-1], order.offsets[1:])
    anchor = step.anchors(np.sort(anchors), np.array([0]), np.array([len(anchors)]))[0]
    off = ~step.on_grid(anchor, anchors)
    if off.any():
        number = int(off.argmax())
        raise InputError(
            f"{rows.table.source}: series {rows.ids[number]!r} has the stamp {show(anchors[number])}, which is off "
            f"the others' grid ({step.words()} from {show(anchor)}); leave out together, or bring it to the grid."
        )
    rows.check_size(len(stamps), size, step)
    counts = np.diff(order.bounds)
    within = np.arange(order.bounds[-1]) if order.place is None else order.place
    place = within - np.repeat(order.offsets[:-1], counts) + np.repeat(step.distance(start, begins), counts)
    common = RowOrder(order.take, place, order.bounds, np.array([0, size]), step.grid(start, size, anchor), step)
    outside = size * len(rows.ids) - int(order.offsets[-1])
    if outside == 0:
        return common, []
    message = (
        f"Series begin or end at different stamps; {outside} {plural(outside, 'row', 'rows')} of the common grid are "
        "missing in them."
    )
    return common, [Finding("repaired", "unaligned", outside, message)]


def _sort(rows: TableRows, findings: list[Finding]) -> tuple[Indices | None, Indices]:
    take, bounds = rows.by_series()
    stamps = rows.take_stamps(take)
    falls = stamps[1:] < stamps[:-1]
    falls[bounds[1:-1] - 1] = False
    if not falls.any():
        return take, bounds
    counts = np.diff(bounds)
    ranks = np.unique(stamps, return_inverse=True)[1].reshape(-1)
    key = np.repeat(np.arange(len(counts)), counts) * (int(ranks.max()) + 1) + ranks
    late = int(np.sum(key < np.maximum.accumulate(key)))
    order = np.argsort(key, kind="stable")
    message = f"{late} {plural(late, 'row', 'rows')} stood after a later stamp; the rows were sorted by time."
    findings.append(Finding("repaired", "unsorted", late, message))
    return (order if take is None else take[order]), bounds


def _drop_duplicates(
    rows: TableRows,
    take: Indices | None,
    bounds: Indices,
    first_difference: FirstDifference,
    findings: list[Finding],
) -> tuple[Indices | None, Indices]:
    stamps = rows.take_stamps(take)
    same = stamps[1:] == stamps[:-1]
    same[bounds[1:-1] - 1] = False
    if not same.any():
        return take, bounds
    order = np.arange(len(stamps)) if take is None else take
    second = np.flatnonzero(same) + 1
    difference = first_difference(order[second - 1], order[second])
    if difference is not None:
        at, column = difference
        one, other = sorted((int(order[second[at] - 1]), int(order[second[at]])))
        raise InputError(
            f"{rows.table.at(one)} and {rows.table.place(other)}: the stamp {show(rows.stamps[one])}"
            f"{rows.of_series(one)} stands twice with different values (column {column!r}); keep one of the two rows"
            + ("." if rows.codes is not None else ", or name the column of series ids with id_col (--id-col).")
        )
    kept = np.ones(len(stamps), dtype=bool)
    kept[second] = False
    dropped = plural(len(second), "row", "rows")
    message = f"{len(second)} {dropped} with the stamp and the cells of another row left out."
    findings.append(Finding("repaired", "duplicates", len(second), message))
    return order[kept], np.concatenate([[0], np.cumsum(kept)[bounds[1:] - 1]])
