"""Where each row goes: series by series, in order of time, on a regular grid, with what had to be repaired counted.

Rows out of order are sorted, rows that stand twice alike are dropped, gaps become missing rows. Rows of one stamp with
different values become one where it is said how, as do the rows of a day, a week or another step; they are refused
otherwise, and so is a stamp off the grid.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.core.wording import plural
from rearview.data.infer.frequency import BY_DAYS, FewStamps, NoRegularStep, infer_step
from rearview.data.infer.problems import MessyData, Problem, Problems, Repair
from rearview.data.infer.timestamps import show
from rearview.data.io.table import Table
from rearview.data.panel import Finding
from rearview.data.read_options import Combination, ReadOptions
from rearview.data.step import Stamps, Step

Indices = NDArray[np.int64]
FirstDifference = Callable[[Indices, Indices], "tuple[int, str] | None"]
"""Given rows a and b, the first i for which rows a[i] and b[i] differ, and the column in which they do."""
_MOST_GRID_ROWS_PER_ROW = 20
_MOST_REPEATED = 0.3
"""The share of rows with the stamp of another above which they are events rather than a series with a few doubles."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows in order, several of which have one stamp and become one."""

    starts: Indices
    """[group]: the first row of each."""
    bounds: Indices
    """[series + 1]: where the series begin and end among the rows."""
    how: Combination
    gathered: bool
    """The rows of a step were gathered, so that a step without rows had none."""

    @property
    def adds_up(self) -> bool:
        """Whether a step without rows is 0."""
        return self.gathered and self.how in ("sum", "count")

    def combine(self, column: NDArray[np.float64]) -> NDArray[np.float64]:
        """[group]: the values of each as one, of those that are not missing; NaN where all are."""
        missing = np.isnan(column)
        seen = np.add.reduceat((~missing).astype(np.float64), self.starts)
        if self.how == "count":
            return seen
        if self.how in ("sum", "mean"):
            total = np.add.reduceat(np.where(missing, 0.0, column), self.starts)
            return np.where(seen > 0, total / np.maximum(seen, 1.0) if self.how == "mean" else total, np.nan)
        if self.how in ("min", "max"):
            return (np.fmin if self.how == "min" else np.fmax).reduceat(column, self.starts)
        rows = np.arange(len(column))
        if self.how == "first":
            chosen = np.minimum.reduceat(np.where(missing, len(column) - 1, rows), self.starts)
        else:
            chosen = np.maximum.reduceat(np.where(missing, 0, rows), self.starts)
        return np.where(seen > 0, column[chosen], np.nan)


@dataclass(frozen=True, slots=True)
class TableRows:
    """The stamps of a table's rows and the series that each belongs to."""

    table: Table
    time_col: str
    stamps: Stamps
    codes: Indices | None
    """[row]: the number of the row's series; None when there is one series."""
    ids: tuple[str, ...]

    def of_series(self, row: int) -> str:
        """' of series 'a'' where there are several series."""
        return "" if self.codes is None else f" of series {self.ids[int(self.codes[row])]!r}"

    def by_series(self) -> "TakenRows":
        """Rows grouped by series, the order within each kept."""
        if self.codes is None:
            return TakenRows(self, None, np.array([0, len(self.stamps)]), self.stamps)
        bounds = np.concatenate([[0], np.cumsum(np.bincount(self.codes, minlength=len(self.ids)))])
        if np.all(self.codes[1:] >= self.codes[:-1]):
            return TakenRows(self, None, bounds, self.stamps)
        take = np.argsort(self.codes, kind="stable")
        return TakenRows(self, take, bounds, self.stamps[take])

    def check_size(self, rows: int, grid: int, step: Step) -> None:
        """Refuse a grid that has many more rows than the data: one wrong stamp can make it so."""
        if grid > _MOST_GRID_ROWS_PER_ROW * rows:
            raise InputError(
                f"{self.table.source}, column {self.time_col!r}: {step.words()}, the stamps span {grid:,} steps, but "
                f"there are only {rows:,} rows; look for a wrong stamp at either end, gather rows with every and agg "
                "(--every D --agg sum), or give a longer step with freq (--freq)."
            )


@dataclass(frozen=True, slots=True)
class TakenRows:
    """Rows of a table on their way to the panel: which are taken, in which order, and which of them become one."""

    rows: TableRows
    take: Indices | None
    """Table rows, series by series in order of time; None when the table has that order."""
    bounds: Indices
    """[series + 1]: rows bounds[s] to bounds[s + 1] of those taken, or of what they become, belong to series s."""
    stamps: Stamps
    """Of the rows taken, or of what they become."""
    groups: Groups | None = None
    """Rows that become one."""

    def join(self, stamps: Stamps, how: Combination, *, gathered: bool) -> "TakenRows":
        """Runs of equal stamps within each series, each made one."""
        new = np.ones(len(stamps), dtype=bool)
        new[1:] = stamps[1:] != stamps[:-1]
        new[self.bounds[:-1]] = True
        groups = Groups(np.flatnonzero(new), self.bounds, how, gathered)
        bounds = np.concatenate([[0], np.cumsum(new)[self.bounds[1:] - 1]])
        return replace(self, bounds=bounds, stamps=stamps[groups.starts], groups=groups)

    def settle_step(self, given: Step | None) -> tuple[Step, list[Finding]]:
        """The step that is given, or else that of the stamps in order, with a finding."""
        if given is not None:
            return given, []
        rows = self.rows
        try:
            step = infer_step(self.stamps, self.bounds)
        except InputError as error:
            message = f"{rows.table.source}, column {rows.time_col!r}: {error}"
            if isinstance(error, FewStamps) or self.stamps.dtype.kind != "M":
                raise type(error)(message) from error
            flag = error.flag if isinstance(error, NoRegularStep) else BY_DAYS
            problem = Problem("step", message, column=rows.time_col, flag=flag)
            raise MessyData(rows.table.source, [problem]) from error
        return step, [Finding("inferred", "step", 0, f"The step is {step.words()} ({step}).")]

    def check_kind(self, option: str, step: Step) -> None:
        """Refuse a step of whole numbers for dates, and of dates for whole numbers."""
        kind = "whole numbers" if self.stamps.dtype.kind in "iu" else "dates"
        if (step.unit == "int") != (kind == "whole numbers"):
            raise InputError(
                f"{self.rows.table.source}: {option} {str(step)!r} does not fit column {self.rows.time_col!r}, whose "
                f"stamps are {kind}."
            )

    def without_gaps(self, step: Step) -> "RowOrder":
        """The order of rows that follow one another step by step."""
        return self.on_panel(None, self.bounds, self.stamps, step)

    def on_panel(self, place: Indices | None, offsets: Indices, stamps: Stamps, step: Step) -> "RowOrder":
        """The order of rows whose places in the panel are known."""
        return RowOrder(self.rows, self.take, self.bounds, stamps, self.groups, place=place, offsets=offsets, step=step)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder(TakenRows):
    """Rows of a table in the order of the panel, and the panel's row for each of them; `stamps` are the panel's."""

    place: Indices | None
    """The panel's row for each row taken, or for what they become; None when they follow one another."""
    offsets: Indices
    """[series + 1], as `Panel.offsets`."""
    step: Step

    def arrange(self, column: NDArray[np.float64]) -> NDArray[np.float64]:
        """A table column in the order of `take`."""
        return column if self.take is None else column[self.take]

    def combine(self, arranged: NDArray[np.float64]) -> NDArray[np.float64]:
        """An arranged column with the rows of one stamp made one."""
        return arranged if self.groups is None else self.groups.combine(arranged)

    @property
    def row_bounds(self) -> Indices:
        """[series + 1]: where the series begin and end among the arranged rows."""
        return self.bounds if self.groups is None else self.groups.bounds

    def on_grid(self, column: NDArray[np.float64], taken: slice) -> NDArray[np.float64]:
        """The `taken` part of a combined column at its rows of the panel, NaN on rows that nothing was read for.

        Where rows are counted or summed up, nothing is 0.
        """
        if self.place is None:
            return column[taken]
        nothing = 0.0 if self.groups is not None and self.groups.adds_up else np.nan
        grid = np.full(len(self.stamps), nothing)
        grid[self.place[taken]] = column[taken]
        return grid


def keep_order(rows: TableRows, step: Step | None) -> tuple[RowOrder, list[Finding]]:
    """The rows of a benchmark file: one after another, nothing sorted, added or dropped."""
    taken = rows.by_series()
    step, findings = taken.settle_step(step)
    return taken.without_gaps(step), findings


def regularise(
    rows: TableRows, options: ReadOptions, first_difference: FirstDifference, problems: Problems
) -> tuple[RowOrder | None, list[Finding]]:
    """Rows sorted, without duplicates, on a regular grid in each series, and what was repaired; None: not possible."""
    findings: list[Finding] = []
    taken = _sort(rows, findings)
    if options.every is not None and options.agg is not None:
        taken = _gather(taken, options.every, options.agg, findings)
    else:
        taken = _drop_duplicates(taken, options, first_difference, findings, problems)
    try:
        order, more = _place_on_grid(taken, options.every or options.freq)
    except InputError as error:
        # Where rows have problems of their own, too few may be left to tell a step by; days and months that could be
        # either tell none at all.
        doubtful = any(problem.flag == "--dayfirst" for problem in problems.met)
        if not doubtful and not (isinstance(error, FewStamps) and problems.met):
            problems.add_error(error, "step")
        return None, findings
    return order, findings + more


def _place_on_grid(taken: TakenRows, step: Step | None) -> tuple[RowOrder, list[Finding]]:
    """Sorted rows on the regular grid of their step, and the steps that were missing."""
    bounds, stamps, groups = taken.bounds, taken.stamps, taken.groups
    if step is not None:
        taken.check_kind("freq", step)
    step, findings = taken.settle_step(step)
    counts = np.diff(bounds)
    steps = step.distance(np.repeat(stamps[bounds[:-1]], counts), stamps)
    anchors = step.anchors(stamps, bounds[:-1], bounds[1:])
    each_anchor = np.repeat(anchors, counts)
    off = ~step.on_grid(each_anchor, stamps)
    if off.any():
        at = int(off.argmax())
        raise MessyData(taken.rows.table.source, [_off_grid(taken, at, int(off.sum()), each_anchor[at], step)])
    last = steps[bounds[1:] - 1]
    offsets = np.concatenate([[0], np.cumsum(last + 1)])
    if offsets[-1] == len(stamps):
        return taken.without_gaps(step), findings
    taken.rows.check_size(len(stamps), int(offsets[-1]), step)
    first = step.distance(anchors, stamps[bounds[:-1]])
    number = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], last + 1)
    grid = step.shift(np.repeat(anchors, last + 1), number)
    missing = int(offsets[-1]) - len(stamps)
    jumps = np.diff(steps)
    jumps[bounds[1:-1] - 1] = 0
    longest = int(jumps.argmax())
    become = "are 0" if groups is not None and groups.adds_up else "became missing rows"
    message = (
        f"{missing} {plural(missing, 'step is', 'steps are')} missing between rows and {become}; the longest gap "
        f"({int(jumps[longest]) - 1}) follows {show(stamps[longest])}."
    )
    findings.append(Finding("repaired", "gaps", missing, message))
    place = np.repeat(offsets[:-1], counts) + steps
    return taken.on_panel(place, offsets, grid, step), findings


def _off_grid(taken: TakenRows, at: int, count: int, anchor: object, step: Step) -> Problem:
    """A problem for the stamps off the grid, which names the first of them."""
    row = at if taken.groups is None else int(taken.groups.starts[at])
    row = row if taken.take is None else int(taken.take[row])
    rows, shown = taken.rows, show(taken.stamps[at])
    flag = f"--every {step} --agg mean"
    message = (
        f"{rows.table.at(row)}, column {rows.time_col!r}: the stamp {shown}{rows.of_series(row)} is off the grid, "
        f"{step.words()} from {show(anchor)} ({count} of {len(taken.stamps)} stamps are); correct it, round the "
        f"stamps, give a finer step with freq (--freq), or gather rows with every and agg ({flag})."
    )
    return Problem("off grid", message, rows.table.place(row), rows.time_col, shown, flag, count)


def _gather(taken: TakenRows, step: Step, how: Combination, findings: list[Finding]) -> TakenRows:
    """Sorted rows gathered by a step."""
    taken.check_kind("every", step)
    exact = taken.stamps
    stamps = step.floor(exact)
    gathered = taken.join(stamps, how, gathered=True)
    message = (
        f"{len(stamps):,} rows were gathered {step.words()} into {len(gathered.stamps):,} values, each the {how} of "
        "its rows."
    )
    findings.append(Repair("repaired", "gathered", len(stamps), message, None, taken.rows.time_col))
    latest = int(exact.argmax())
    # A step ends where the next one begins; one that is stamped at its end ends there.
    begin, end = (step.shift(stamps[latest], one) for one in ((-1, 0) if step.at_end else (0, 1)))
    if end - exact[latest] > (end - begin) // 2:
        message = (
            f"The last step, {'to' if step.at_end else 'from'} {show(stamps[latest])}, has rows up to "
            f"{show(exact[latest])} only; if it is not over, leave its rows out: it would be forecast from as it "
            "stands."
        )
        findings.append(Finding("warning", "unfinished", 1, message))
    return gathered


def align(order: RowOrder) -> tuple[RowOrder, list[Finding]]:
    """The same rows with every series on one common grid, for series that become columns of one."""
    rows, step, stamps = order.rows, order.step, order.stamps
    begins = stamps[order.offsets[:-1]]
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
    common = replace(order, place=place, offsets=np.array([0, size]), stamps=step.grid(start, size, anchor))
    outside = size * len(rows.ids) - int(order.offsets[-1])
    if outside == 0:
        return common, []
    message = (
        f"Series begin or end at different stamps; {outside} {plural(outside, 'row', 'rows')} of the common grid are "
        "missing in them."
    )
    return common, [Finding("repaired", "unaligned", outside, message)]


def _sort(rows: TableRows, findings: list[Finding]) -> TakenRows:
    taken = rows.by_series()
    stamps, bounds = taken.stamps, taken.bounds
    falls = stamps[1:] < stamps[:-1]
    falls[bounds[1:-1] - 1] = False
    if not falls.any():
        return taken
    counts = np.diff(bounds)
    ranks = np.unique(stamps, return_inverse=True)[1].reshape(-1)
    key = np.repeat(np.arange(len(counts)), counts) * (int(ranks.max()) + 1) + ranks
    late = int(np.sum(key < np.maximum.accumulate(key)))
    order = np.argsort(key, kind="stable")
    message = f"{late} {plural(late, 'row', 'rows')} stood after a later stamp; the rows were sorted by time."
    findings.append(Finding("repaired", "unsorted", late, message))
    return replace(taken, take=order if taken.take is None else taken.take[order], stamps=stamps[order])


def _drop_duplicates(
    taken: TakenRows,
    options: ReadOptions,
    first_difference: FirstDifference,
    findings: list[Finding],
    problems: Problems,
) -> TakenRows:
    """Sorted rows without those that stand twice alike; of those that differ, one is made, or the first kept."""
    rows, stamps, bounds = taken.rows, taken.stamps, taken.bounds
    same = stamps[1:] == stamps[:-1]
    same[bounds[1:-1] - 1] = False
    if not same.any():
        return taken
    order = np.arange(len(stamps)) if taken.take is None else taken.take
    second = np.flatnonzero(same) + 1
    count = len(second)
    difference = first_difference(order[second - 1], order[second])
    if difference is None:
        message = f"{count} {plural(count, 'row', 'rows')} with the stamp and the cells of another row left out."
        findings.append(Finding("repaired", "duplicates", count, message))
    else:
        at, column = difference
        one, other = sorted((int(order[second[at] - 1]), int(order[second[at]])))
        shown, place = show(rows.stamps[one]), rows.table.place(one)
        if (how := options.duplicates) is not None:
            message = (
                f"{count} {plural(count, 'row', 'rows')} with the stamp of another {plural(count, 'was', 'were')} "
                f"joined with it: of different values the {how} was taken, first for {shown}{rows.of_series(one)}."
            )
            findings.append(Repair("repaired", "joined", count, message, place, rows.time_col, shown, how))
            return taken.join(stamps, how, gathered=False)
        several = "" if count == 1 else f" ({count} rows repeat a stamp)"
        cells = " and ".join(str(rows.table.fetch(column)[row]).removesuffix(".0") for row in (one, other))
        flag = "--duplicates mean"
        advice = (
            "keep one of the two rows, or say with duplicates (--duplicates mean, sum, first or last) what they become"
        )
        if count > _MOST_REPEATED * len(stamps):
            flag = f"--every {'D' if stamps.dtype.kind == 'M' else '1'} --agg sum"
            advice = (
                f"a log of events becomes a series with every and agg ({flag}, or count), and columns of ids are named "
                "with id_col (--id-col)"
            )
        message = (
            f"{rows.table.at(one)} and {rows.table.place(other)}: the stamp {shown}{rows.of_series(one)} stands twice "
            f"with different values ({cells} in column {column!r}){several}; {advice}."
        )
        problems.add(Problem("duplicates", message, place, rows.time_col, shown, flag, count))
    kept = np.ones(len(stamps), dtype=bool)
    kept[second] = False
    bounds = np.concatenate([[0], np.cumsum(kept)[bounds[1:] - 1]])
    return replace(taken, take=order[kept], bounds=bounds, stamps=stamps[kept])
