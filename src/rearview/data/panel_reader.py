"""From a file or frame to a panel, with everything inferred or repaired on the way reported as findings.

The order is: open, give every column its role, read the stamps, put the rows in order, then one column after another.
Problems are kept until all of it has been looked at, and refused together.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.core.wording import listing, name_with_verb, plural
from rearview.data.holidays import HolidayColumns
from rearview.data.infer.categories import describe_series, expand_known
from rearview.data.infer.column_reader import ColumnReader
from rearview.data.infer.date_parts import join_clock, join_date_parts
from rearview.data.infer.layout import (
    ID_NAME,
    LONG_TIME_NAME,
    TEXT_COLUMNS,
    NoTimeColumn,
    Roles,
    assign_roles,
    leave_out_unknown,
)
from rearview.data.infer.problems import MISSING_COLUMN, MOST_NAMED, MessyData, Problem, Problems, Repair
from rearview.data.infer.row_order import RowOrder, TableRows, align, keep_order, regularise
from rearview.data.infer.series_ids import JOIN, fill_down, find_id_columns, missing_ids, read_series
from rearview.data.infer.stray_rows import find_stray_rows, leave_out_units, repairs_of, trailing_remarks
from rearview.data.infer.timestamps import Times, infer_kind, read_times, require_times, show, stamp_problems
from rearview.data.infer.turned_table import turn_clock_columns, turn_stamp_columns, turn_year_rows
from rearview.data.infer.wall_time import find_zone, second_pass
from rearview.data.io.files import open_table
from rearview.data.io.table import ROW_NAME, Table
from rearview.data.panel import Finding, Layout, Panel
from rearview.data.panel_array import ONE_SERIES, Columns
from rearview.data.panel_checks import check_years
from rearview.data.read_options import ReadKeywords, ReadOptions
from rearview.data.statics import Statics
from rearview.data.step import Stamps

_MOST_ENDS, _LONGEST_STEP = 0.98, 1.2
"""The share of rows whose second stamp ends their step, and how much longer than usual a step may be."""


def load(source: object, **options: Unpack[ReadKeywords]) -> Panel:
    """The panel in a file, several files or a folder of them, a frame, an array, or an open `Table`.

    Files are CSV (packed or not), parquet, Arrow, JSON lines or Excel; frames are of pandas, polars or arrow. A table
    with the columns unique_id, ds and y, or with `id_col`, is long: one series for each id, which `together` aligns as
    columns of one series. Every other table is wide: one series, a column for each variable. Columns of text that no
    option names are left out with a finding. The options are those of `ReadOptions`.
    """
    return read_panel(source, ReadOptions.of(**options))


def open_source(source: object, options: ReadOptions) -> Table:
    """A file or frame opened once, so that several panels can be read from it without parsing it again."""
    named = (*options.id_col, *([options.time_col] if options.time_col else []))
    text = TEXT_COLUMNS | {name.casefold() for name in named}
    table = open_table(
        source,
        text_columns=text,
        index_names=(*named, ID_NAME, LONG_TIME_NAME),
        decimal=options.decimal,
        sheet=options.sheet,
    )
    missing = frozenset(word.casefold() for word in options.missing)
    return table if table.missing == missing else replace(table, missing=missing, parsed={})


def read_panel(source: object, options: ReadOptions) -> Panel:
    """The panel of a file, a frame or an open `Table`."""
    return resolve(open_source(source, options), options).panel()


@dataclass(frozen=True, slots=True)
class Reading:
    """A table of which everything is settled but the cells: which column is what, and which row goes where."""

    columns: ColumnReader
    order: RowOrder
    layout: Layout
    ids: tuple[str, ...]
    options: ReadOptions
    """The options as given, with what was inferred of the table."""
    holidays: HolidayColumns
    statics: Statics | None
    findings: tuple[Finding, ...]

    def panel(self) -> Panel:
        """The panel, its columns read one after another; taken together, each series has a column of its own."""
        roles, order, layout = self.columns.roles, self.order, self.layout
        spread = len(self.ids) if layout.together else 1
        columns = Columns(order.offsets, len(self.panel_columns), self.options.fill)
        for number, name in enumerate(roles.numeric):
            for place, cells in self._spread(number, self.columns.read(name, order)):
                columns.put(place, cells)
        for place, cells in enumerate(self.holidays.cells.T, start=len(roles.numeric) * spread):
            columns.put(place, cells)
        self.columns.problems.refuse()
        check_years(order.stamps, layout.source)
        return Panel(
            values=columns.values,
            centre=columns.centre,
            observed=columns.observed,
            offsets=np.asarray(order.offsets, dtype=np.int64),
            first=columns.first,
            stamps=order.stamps,
            ids=self.panel_ids,
            columns=self.panel_columns,
            targets=len(roles.targets) * spread,
            known=len(roles.known) * spread + len(self.holidays.names),
            step=order.step,
            layout=layout,
            statics=self.statics,
            findings=(*self.findings, *self.columns.findings()),
        )

    def cells(self) -> NDArray[np.float64]:
        """[row, column] of the panel: the values as they came, sentinels among them, NaN where there is none."""
        roles, order = self.columns.roles, self.order
        cells = np.empty((len(order.stamps), len(self.panel_columns)))
        for number, name in enumerate(roles.numeric):
            for place, column in self._spread(number, order.combine(order.arrange(self.columns.raw(name)))):
                cells[:, place] = column
        cells[:, len(self.panel_columns) - len(self.holidays.names) :] = self.holidays.cells
        self.columns.problems.refuse()
        return cells

    @property
    def panel_ids(self) -> tuple[str, ...]:
        """The series of the panel."""
        return (ONE_SERIES,) if self.layout.together else self.ids

    @property
    def panel_columns(self) -> tuple[str, ...]:
        """The columns of the panel."""
        roles = self.columns.roles
        if not self.layout.together:
            return (*roles.numeric, *self.holidays.names)
        inputs = [f"{name}{JOIN}{one}" for name in (*roles.inputs, *roles.known) for one in self.ids]
        return (*(self.ids if roles.targets else ()), *inputs, *self.holidays.names)

    def _spread(self, number: int, column: NDArray[np.float64]) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """The panel's columns of one column of the table."""
        if not self.layout.together:
            yield number, self.order.on_grid(column, slice(None))
            return
        bounds = self.order.bounds
        for part in range(len(self.ids)):
            yield number * len(self.ids) + part, self.order.on_grid(column, slice(bounds[part], bounds[part + 1]))


def settle(options: ReadOptions, layout: Layout) -> ReadOptions:
    """The options with what was inferred of a table, for other rows of its kind that may not show it."""
    inferred: dict[str, object] = {}
    if layout.form == "long" and not options.id_col and layout.id_col != ID_NAME:
        inferred["id_col"] = tuple((layout.id_col or "").split(JOIN))
        if options.target is None and options.target_col is None:
            inferred["target_col"] = layout.target_col
    shape = layout.time_format or ""
    if options.dayfirst is None and options.date_format is None and shape.startswith(("%d", "%m")) and "%m" in shape:
        inferred["dayfirst"] = shape.startswith("%d")
    if layout.bare:
        inferred["timezone"] = layout.timezone
    return replace(options, **inferred) if inferred else options  # type: ignore[arg-type]


def resolve(table: Table, options: ReadOptions) -> Reading:
    """Settle everything of a table but its cells; what can't be is refused, all problems at once."""
    problems = Problems(table.source)
    table, options, turned = _turn(table, options)
    remarks = trailing_remarks(table, [row for row, _ in table.surplus])
    table = replace(table, surplus=tuple(one for one in table.surplus if one[0] not in remarks))
    wide = len(table.surplus)
    # Where they are most rows, it is the header that is out of place.
    most = 2 * wide >= len(table)
    for row, count in table.surplus[: 1 if most else MOST_NAMED]:
        others = (
            f", as {plural(wide - 1, 'has 1 other row', f'have {wide - 1:,} other rows')}," if most and wide > 1 else ""
        )
        columns = plural(len(table.names), "1 column", f"{len(table.names)} columns")
        message = (
            f"{table.at(row)} has {count} fields{others} but the header names {columns}; remove the surplus, "
            "or quote a cell that contains the separator."
        )
        problems.add(Problem("fields", message, table.place(row), count=len(table.surplus)))
    options = leave_out_unknown(table, options, problems)
    table, options, inferred = expand_known(table, options, problems)
    findings = [*(Finding("inferred", what, 0, message) for what, message in table.notes), *turned, *inferred]
    if table.id_names:
        options = _name_series(table, options)
        findings.append(Finding("inferred", "layout", 0, "Long layout: each file is a series."))
    try:
        return _resolve(table, options, problems, findings)
    except InputError as error:
        problems.add_error(error, "layout")
        raise MessyData(table.source, problems.met) from error


def _resolve(table: Table, options: ReadOptions, problems: Problems, findings: list[Finding]) -> Reading:
    table, roles, options, inferred = _assign(table, options)
    whole = join_date_parts(table, roles.time) if options.time_col is None else None
    whole = whole or (None if options.row_by_row else join_clock(table, roles.time, options.drop))
    if whole is not None:
        table, parts = whole
        message = f"The columns {listing(parts)} make the time column {table.names[0]!r}."
        findings.append(Repair("repaired", "date parts", len(parts), message))
        used = {*options.id_col, *(options.target or ()), *options.known, *options.static, *options.trained}
        drop = (*options.drop, *(part for part in parts if part not in used))
        options = replace(options, time_col=table.names[0], drop=drop)
        return _resolve(table, options, problems, findings)
    table, times, repairs = _read_stamps(table, roles.time, options, problems)
    if not options.row_by_row and _repeats(times.values):
        table, filled = fill_down(table, roles.ids or roles.numeric, times.values)
        if filled is not None:
            message = f"Column {filled!r} names a series in the first of its rows alone; it is filled in below."
            repairs.append(Repair("repaired", "filled down", 1, message, None, filled))
    if roles.form == "wide" and _repeats(times.values) and not options.row_by_row:
        strange = [name for name in options.trained if name not in table.names]
        if strange:
            # Another layout than that of training: what its rows mean does not matter.
            message = (
                f"{table.source} has no column {strange[0]!r}, which the model was trained on; it has "
                f"{listing(table.names)}."
            )
            raise MessyData(table.source, [Problem(MISSING_COLUMN, message, value=strange[0])])
        better, message = _infer_otherwise(table, roles, times.values, options, problems)
        if better != options:
            findings += [Finding("inferred", "layout", 0, message), *repairs]
            return _resolve(open_source(table, better), better, problems, findings)
    findings += [*inferred, *repairs]
    table, times = _leave_out_missing_ids(table, roles, times, options, problems)
    codes, ids = read_series(table, roles.ids) if roles.ids else (None, (ONE_SERIES,))
    statics = None
    if codes is not None and not options.together:
        statics, roles, options, more = describe_series(table, roles, codes, ids, options)
        findings += more
    elif options.static:
        raise InputError(
            f"{table.source}: static (--static) names {listing(options.static)}, but there are no series of a long "
            "table to describe; leave it out."
        )
    roles, more = _leave_out_ends(table, roles, times, options)
    findings += more
    columns = ColumnReader.of(table, roles, options, problems)
    times, options, more = _settle_clocks(columns, times, codes, options)
    findings += [*times.findings(table, roles.time), *more]
    rows = TableRows(table, roles.time, times.values, codes, ids)
    long, shape = roles.form == "long", times.format
    if shape is not None and options.every is not None and not options.every.sub_daily:
        shape = re.split(r"[T ]+%[HI]", shape)[0]  # gathered by days or more, stamps are written without the clock
    layout = Layout(
        form=roles.form,
        time_col=roles.time,
        id_col=JOIN.join(roles.ids) if long else None,
        target_col=roles.targets[0] if long and roles.targets else None,
        together=long and options.together,
        backend=table.backend,
        timezone=times.timezone,
        stored=times.stored,
        time_kind=times.kind,
        time_format=shape,
        bare=times.bare,
        time_index=table.time_index == roles.time,
        period=table.periods.get(roles.time) if options.every is None else None,
        static=options.static if statics is not None else (),
        levels=options.levels,
        source=table.source if table.backend == "file" else "frame",
    )
    order: RowOrder | None
    if options.row_by_row:
        order, changes = keep_order(rows, options.freq)
    else:
        order, changes = regularise(rows, options, columns.first_difference, problems)
    findings += changes
    if order is None:
        columns.check()
        raise MessyData(table.source, problems.met)
    if layout.together:
        order, changes = align(order)
        findings += changes
    holidays = HolidayColumns.of(options.holidays, order.stamps, order.step, layout, options.trained)
    if clash := [name for name in holidays.names if name in table.names]:
        raise InputError(f"{table.source} has a column {clash[0]!r}, as the holidays have; rename it.")
    if options.holidays:
        findings.append(holidays.finding(options.holidays, order.step))
    return Reading(columns, order, layout, ids, options, holidays, statics, tuple(findings))


def _turn(table: Table, options: ReadOptions) -> tuple[Table, ReadOptions, list[Finding]]:
    """A table that lies on its side, a column for each stamp, with a row for each; any other as it is."""
    if options.row_by_row or options.time_col:
        return table, options, []
    clocks = turn_clock_columns(table)
    named = {*(options.target or ()), *options.known, *options.drop, *options.trained}
    if clocks is not None and not named & {*clocks[1]}:
        table, names = clocks
        message = f"The columns are times of day, {names[0]!r} first: each is read as a row."
        return table, options, [Repair("repaired", "times in columns", len(table), message, None, None, names[0])]
    turned = turn_stamp_columns(table)
    if turned is None:
        turned = turn_year_rows(table) or turn_year_rows(table.with_index() or table)
        if turned is None or named & {*table.names} - {*turned.table.names, *turned.left_out}:
            return table, options, []
    table, ids, left_out, totals, first = turned
    message = f"The columns are stamps, {first!r} first: each is read as a row"
    message += f" of the series that {listing(ids)} {plural(len(ids), 'names', 'name')}." if ids else "."
    if left_out:
        message += f" {listing(left_out)} {plural(len(left_out), 'is', 'are')} left out."
    if totals:
        are = plural(len(totals), "is", "are")
        message += f" {name_with_verb('Row', totals, 'adds', 'add')} up others and {are} left out."
    drop = tuple(name for name in options.drop if name not in left_out)
    repair = Repair("repaired", "stamps in columns", len(table), message, None, None, first)
    return table, replace(options, id_col=options.id_col or ids, drop=drop), [repair]


def _name_series(table: Table, options: ReadOptions) -> ReadOptions:
    """The options with the series that a table has by the way it came, unless other columns are named as ids."""
    if options.id_col:
        return replace(options, drop=(*options.drop, *(name for name in table.id_names if name not in options.id_col)))
    inner = (ID_NAME,) if ID_NAME in table.names and ID_NAME not in options.drop else ()
    return replace(options, id_col=(*table.id_names, *inner))


def _assign(table: Table, options: ReadOptions) -> tuple[Table, Roles, ReadOptions, list[Finding]]:
    """The role of every column; rows are numbered where there is no time column and their numbers will do."""
    try:
        roles, findings = assign_roles(table, options)
        return table, roles, options, findings
    except NoTimeColumn:
        indexed = table.with_index() if options.time_col is None else None
        if indexed is not None and infer_kind(indexed.fetch(indexed.names[0]), options.date_format) != "other":
            with suppress(NoTimeColumn):
                roles, findings = assign_roles(indexed, options)
                return replace(indexed, time_index=roles.time), roles, options, findings
        counted = options.freq is not None and options.freq.unit == "int"
        if (len(table.names) > 1 and not counted) or options.time_col is not None:
            raise
    table, units = leave_out_units(table)
    name = ROW_NAME if ROW_NAME not in table.names else "time"
    table = table.add_column(name, np.arange(1, len(table) + 1))
    options = replace(options, time_col=name)
    roles, findings = assign_roles(table, options)
    message = "There is no time column; the rows are numbered, and the step is one row."
    return (
        table,
        roles,
        options,
        [Repair("repaired", "row numbers", len(table), message, None, name), *units, *findings],
    )


def _read_stamps(
    table: Table, time: str, options: ReadOptions, problems: Problems
) -> tuple[Table, Times, list[Finding]]:
    """The stamps of the rows that are observations; other rows are left out, and bad stamps are problems."""
    repairs: list[Finding] = []
    while not isinstance(times := read_times(table, time, options), Times):
        stray = [] if options.row_by_row else find_stray_rows(table, time, times, options.drop)
        repairs += repairs_of(table, stray)
        left_out = {one.row for one in stray}
        bad = [one for one in times if one.row not in left_out]
        for problem in stamp_problems(table, time, bad):
            problems.add(problem)
        if any(one.flag == "--dayfirst" for one in bad):
            # A reading to go on with: the column is refused in any case.
            options = replace(options, dayfirst=True)
            continue
        if 2 * len(bad) >= len(table):
            problems.refuse()
        kept = np.ones(len(table), dtype=bool)
        kept[[one.row for one in times]] = False
        if not kept.any():
            why = " ".join(repair.message for repair in repairs)
            raise InputError(f"{table.source} has no row with a stamp and values. {why}")
        table = table.select(np.flatnonzero(kept))
    return table, times, repairs


def _repeats(stamps: Stamps) -> bool:
    """Whether a stamp stands twice."""
    if np.all(stamps[1:] > stamps[:-1]):
        return False
    return len(np.unique(stamps)) < len(stamps)


def _infer_otherwise(
    table: Table, roles: Roles, stamps: Stamps, options: ReadOptions, problems: Problems
) -> tuple[ReadOptions, str]:
    """Options by which rows of one stamp are told apart, by series or by other stamps, and what to say of them."""
    named = {options.target_col, *(options.target or ()), *options.known, *options.trained}
    sets = find_id_columns(
        table, [name for name in roles.numeric if name not in named], stamps, gathered=options.every is not None
    )
    if len(sets) > 1:
        ways = " or ".join(",".join(names) for names in sets)
        message = (
            f"{table.source} has several rows for one stamp, and more than one column that may tell its series apart; "
            f"name it with id_col (--id-col {ways})."
        )
        problems.add(Problem("series", message, flag=f"--id-col {','.join(sets[0])}"))
    if sets:
        tell = f"{listing(sets[0])} {plural(len(sets[0]), 'tells', 'tell')} series apart"
        message = f"Long layout: one row for each series and stamp; {tell}."
        return replace(options, id_col=sets[0]), message
    if options.time_col is not None:
        return options, ""
    others = [name for name in roles.numeric if infer_kind(table.fetch(name)) == "stamps"]
    for name in others:
        times = read_times(table, name, options)
        if isinstance(times, Times) and not _repeats(times.values):
            message = f"The time column is {name!r}: stamps of {roles.time!r}, which is left out, stand several times."
            return replace(options, time_col=name, drop=(*options.drop, roles.time)), message
    return options, ""


def _leave_out_missing_ids(
    table: Table, roles: Roles, times: Times, options: ReadOptions, problems: Problems
) -> tuple[Table, Times]:
    """The rows that have an id; a missing one is a problem."""
    missing = np.zeros(len(times.values), dtype=bool)
    for name in roles.ids:
        empty = missing_ids(table.fetch(name))
        for row in np.flatnonzero(empty)[:MOST_NAMED].tolist():
            message = (
                f"{table.at(row)}, column {name!r}: the id of the series is missing; fill it in or remove the row."
            )
            problems.add(Problem("id", message, table.place(row), name, "", count=int(empty.sum())))
        missing |= empty
    if not missing.any():
        return table, times
    if missing.all():
        problems.refuse()
    table = table.select(np.flatnonzero(~missing))
    return table, require_times(table, roles.time, options)


def _leave_out_ends(table: Table, roles: Roles, times: Times, options: ReadOptions) -> tuple[Roles, list[Finding]]:
    """The roles without a column of stamps that tell when the step of each row ends."""
    named = {options.target_col, *(options.target or ()), *options.known, *options.trained}
    names = [name for name in roles.numeric if name not in named and infer_kind(table.fetch(name)) == "stamps"]
    if not names or times.values.dtype.kind != "M" or len(np.unique(times.values)) < 2:
        return roles, []
    usual = np.median(np.diff(np.unique(times.values)).astype(np.int64))
    ends = []
    for name in names:
        other = read_times(table, name, options)
        if isinstance(other, Times) and other.values.dtype.kind == "M":
            after = (other.values - times.values).astype(np.int64)
            if np.mean((after > 0) & (after <= _LONGEST_STEP * usual)) >= _MOST_ENDS:
                ends.append(name)
    if not ends:
        return roles, []
    which = name_with_verb("Column", ends, "tells", "tell")
    message = f"{which} when the step of a row ends, and {plural(len(ends), 'is', 'are')} left out."
    roles = replace(
        roles,
        targets=tuple(name for name in roles.targets if name not in ends),
        inputs=tuple(name for name in roles.inputs if name not in ends),
    )
    return roles, [Finding("inferred", "ends", len(ends), message)]


def _settle_clocks(
    columns: ColumnReader, times: Times, codes: NDArray[np.int64] | None, options: ReadOptions
) -> tuple[Times, ReadOptions, list[Finding]]:
    """Local time in autumn, when an hour stands twice: of two rows the second comes an hour later.

    Where no time zone is given, one is inferred if such hours are all that stands twice with different values.
    """
    table, time, findings = columns.table, columns.roles.time, list[Finding]()
    if options.row_by_row or times.values.dtype.kind != "M" or options.every is not None:
        return times, options, findings
    if times.wall is None:
        if times.timezone is not None or times.offsets is not None:
            return times, options, findings
        first, second = _find_pairs(times.values, codes)
        if not len(second) or columns.first_difference(first, second) is None:
            return times, options, findings
        repeated = np.zeros(len(times.values), dtype=bool)
        repeated[first] = repeated[second] = True
        days = times.values.astype("datetime64[D]")
        zone = None if np.all(days == times.values) else find_zone(times.values, repeated)
        if zone is None:
            return times, options, findings
        zoned = read_times(table, time, replace(options, timezone=zone))
        if not isinstance(zoned, Times) or zoned.wall is None:
            return times, options, findings
        shown, count = show(times.values[second[0]]), len(second)
        message = (
            f"{shown} stands twice, as on the day when clocks are set back: stamps are read as local time of {zone} or "
            "a zone of the same rule; name yours with timezone (--timezone)."
        )
        findings.append(Repair("repaired", "clock change", count, message, table.place(int(second[0])), time, shown))
        times, options = zoned, replace(options, timezone=zone)
    assert times.wall is not None
    _, second = _find_pairs(times.wall, codes)
    values = times.values.copy()
    values[second] += second_pass(times.wall[second], options.timezone or "")
    return replace(times, values=values), options, findings


def _find_pairs(stamps: Stamps, codes: NDArray[np.int64] | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows whose stamp stands twice in their series, and of each the row that has it again, in the order of time."""
    rows = np.arange(len(stamps))
    # A file that begins with the latest row has the second of two hours first.
    turned = -rows if len(stamps) > 1 and stamps[0] > stamps[-1] else rows
    order = np.lexsort((turned, stamps) if codes is None else (turned, stamps, codes))
    same = stamps[order][1:] == stamps[order][:-1]
    if codes is not None:
        same &= codes[order][1:] == codes[order][:-1]
    return order[:-1][same], order[1:][same]
