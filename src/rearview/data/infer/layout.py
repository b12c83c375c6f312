"""Which column is what: wide or long, the time column, the ids, what is forecast and what is only read.

Names decide first, contents second, and every decision becomes a finding. Nothing is dropped without one.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from rearview.core.errors import InputError, did_you_mean
from rearview.core.wording import listing, plural
from rearview.data.infer.number_text import parse_column
from rearview.data.infer.problems import MessyData, Problem, Problems
from rearview.data.infer.timestamp_text import Unreadable, part_of_year, read_stamps
from rearview.data.infer.timestamps import MONTH_NAMES, YEAR_NAMES, counts_from_1970, counts_months, infer_kind
from rearview.data.io.table import Table
from rearview.data.panel import Finding
from rearview.data.read_options import ReadOptions, names_in

TIME_NAMES = ("ds", "date", "datetime", "timestamp", "time")
INTEGER_NAMES = ("t", "step", "Step", "index", "Index")
"""Spelt just so: a column called T is a temperature more often than a time."""
ID_NAME, LONG_TIME_NAME, TARGET_NAME = "unique_id", "ds", "y"
TEXT_COLUMNS = frozenset({*TIME_NAMES, *INTEGER_NAMES, ID_NAME})
CLOCK_NAMES = ("time", "hour", "clock", "time of day", "uhrzeit", "zeit", "stunde", "heure", "hora", "hour ending")
_LEAST_STAMPS = 4
"""Columns called by stamps from which on a table is taken to lie on its side."""
_TURNED = ("date", "value", *YEAR_NAMES)
_AMBIGUOUS = re.compile(r"\d{1,2}[-/.]\d{1,2}[-/.](?:\d{2}|\d{4})")
_TOTAL_OF_SERIES = re.compile(r"(?i)(?:grand |sub)?-?\s?(?:totals?|sum|summe|zwischensumme|gesamt(?:summe)?)\s*[:=]?")
"""Names of rows that add up others; no more words, since a product may be called Max or Average Joe."""
_MOST_PAIRS = 0.8
"""The share of rows with a day and a time of day from which on they make a stamp."""
_DAY = re.compile(r"(?=.*\d)[^:]+")
_ROW_ID = re.compile(
    r"(?i:(?:.*[\s_.-])?id|(?:row|order|invoice|transaction|receipt)[\s_.-]?(?:nr|no|number|nummer)\.?|nr\.?|#)|.*[a-z]I[dD]"
)
_NAMELESS = re.compile(r"column \d+|Unnamed: \d+")
"""What a reader calls a column without a name: ours, and pandas."""


@dataclass(frozen=True, slots=True)
class Roles:
    """What each column of a table is for."""

    form: Literal["wide", "long"]
    time: str
    ids: tuple[str, ...]
    targets: tuple[str, ...]
    inputs: tuple[str, ...]
    known: tuple[str, ...]
    named_targets: bool
    """It is clear what to forecast, so that columns of text beside it can be left out with a finding."""

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns of the panel in order: targets, past inputs, inputs known in the future."""
        return self.targets + self.inputs + self.known


class NoTimeColumn(InputError):
    """A table without a column of stamps."""


def leave_out_unknown(table: Table, options: ReadOptions, problems: Problems) -> ReadOptions:
    """The options without names that are no columns, each of which is a problem."""
    kept: dict[str, tuple[str, ...]] = {}
    for option in ("id_col", "time_col", "target_col", "target", "known", "static", "drop"):
        names = names_in(getattr(options, option) or ())
        flag = f"--{option.replace('_', '-')}"
        for name in names:
            if name not in table.names:
                message = (
                    f"{table.source} has no column {name!r}, which {option} ({flag}) names."
                    f"{did_you_mean(name, table.names)} Its columns are {listing(table.names)}."
                )
                problems.add(Problem("unknown column", message, value=name, flag=flag))
        kept[option] = tuple(name for name in names if name in table.names)
    return replace(
        options,
        id_col=kept["id_col"],
        time_col=next(iter(kept["time_col"]), None),
        target_col=next(iter(kept["target_col"]), None),
        target=None if not kept["target"] and options.target else options.target and kept["target"],
        known=kept["known"],
        static=kept["static"],
        drop=kept["drop"],
    )


def assign_roles(table: Table, options: ReadOptions) -> tuple[Roles, list[Finding]]:
    """The role of every column, and what was inferred on the way."""
    target, target_col, time = options.target, options.target_col, options.time_col
    findings = []
    long, ids = bool(options.id_col), options.id_col
    if not long:
        long, finding = _infer_form(table, options)
        ids = (ID_NAME,) if long else ()
        findings.append(finding)
    if time is None:
        taken = {*ids, *options.drop, *(target or ()), *options.known}
        time = table.time_index or _infer_time(table, taken, options.date_format)
        findings.append(Finding("inferred", "time", 0, f"The time column is {time!r}."))
    free = [name for name in table.names if name != time and name not in ids and name not in options.drop]
    meaningless, more = _find_meaningless(table, free, {target_col, *(target or ()), *options.known, *options.trained})
    free = [name for name in free if name not in meaningless]
    findings += more
    if target_col is not None and (long or target is None):
        targets: tuple[str, ...] = (target_col,)
    elif long:
        targets = _long_target(table, options, free)
    else:
        targets = target if target is not None else tuple(name for name in free if name not in options.known)
    roles: dict[str, str] = {}
    for role, names in {
        "the time column": (time,),
        "an id column": ids,
        "a target": targets,
        "known": options.known,
        "static": options.static,
        "dropped": options.drop,
    }.items():
        for name in names:
            if name in roles:
                raise InputError(f"{table.source}: column {name!r} can't be {roles[name]} and {role} at once.")
            roles[name] = role
    inputs = tuple(name for name in free if name not in targets and name not in options.known)
    if not targets and target is None:
        raise InputError(f"{table.source} has no column to forecast beside the time column {time!r}.")
    named = long or target is not None or target_col is not None
    return Roles("long" if long else "wide", time, ids, targets, inputs, options.known, named), findings


def _infer_form(table: Table, options: ReadOptions) -> tuple[bool, Finding]:
    """Whether a table is long by the names of its columns, and what to say of it.

    Where nothing is forecast, a long table needs no column called y. A table of several ids without one is refused
    otherwise: nothing says which column would be forecast.
    """
    long = {ID_NAME, LONG_TIME_NAME, TARGET_NAME} <= set(table.names)
    taken = (*options.drop, *options.known, *options.trained, *(options.target or ()))
    has_role = ID_NAME in (*taken, options.target_col, options.time_col)
    entities, forecast = 0, options.target != ()
    if {ID_NAME, LONG_TIME_NAME} <= set(table.names) and not (long and forecast) and not has_role:
        ids = table.fetch(ID_NAME).drop_nulls()
        different = int(ids.n_unique())
        # Where every row has an id of its own, the ids only number the rows.
        entities = different if different == 1 or different < len(ids) else 0
    if not forecast and entities > 0:
        long = True
    if not long and entities > 1:
        raise InputError(
            f"{table.source} has columns {ID_NAME!r}, with {entities:,} different ids, and {LONG_TIME_NAME!r}, as a "
            f"long table has, but none called {TARGET_NAME!r}; say id_col (--id-col {ID_NAME}) and name what to "
            f"forecast with target_col (--target-col), or leave {ID_NAME!r} out with drop (--drop {ID_NAME})."
        )
    message = "Wide layout: one column for each variable."
    if long and not forecast:
        many = plural(entities, "1 entity", f"{entities:,} entities")
        message = f"Long layout: {many} told apart by {ID_NAME!r}, one row for each and stamp."
    elif long:
        message = "Long layout: one row for each series and stamp."
    return long, Finding("inferred", "layout", 0, message)


def _infer_time(table: Table, exclude: Collection[str], date_format: str | None) -> str:
    """The column of stamps: by name, else the first that reads as stamps, else integer time or years by name."""
    names = [name for name in table.names if name not in exclude]
    by_name = {name.casefold(): name for name in reversed(names)}
    named = [by_name[name] for name in TIME_NAMES if name in by_name]
    for name in named:
        if infer_kind(table.fetch(name), date_format) != "other":
            return name
    for name in names:
        if name not in named and infer_kind(table.fetch(name), date_format) == "stamps":
            return name
    months = [by_name[name] for name in MONTH_NAMES if name in by_name and counts_months(table.fetch(by_name[name]))]
    years = [by_name[name] for name in YEAR_NAMES if name in by_name]
    for name in (*INTEGER_NAMES, *months, *years):
        if name in names and infer_kind(table.fetch(name)) == "integers":
            return name
    if named:
        return named[0]
    counts = [name for name in names if counts_from_1970(table.fetch(name))]
    if len(counts) == 1:
        return counts[0]
    raise NoTimeColumn(
        f"{table.source} has no time column: none is called {', '.join(TIME_NAMES)}, and none of {listing(names)} "
        "reads as stamps. Name it with time_col (--time-col; a column of whole numbers can be named too), or say freq "
        "1 (--freq 1) where rows follow one another and their numbers will do."
    )


class Turned(NamedTuple):
    """A table whose columns were stamps, with a row for each series and stamp instead."""

    table: Table
    ids: tuple[str, ...]
    """The columns that tell series apart."""
    left_out: tuple[str, ...]
    """Columns that were left out."""
    totals: tuple[str, ...]
    """Names of rows that were left out, as they add up others."""


def turn_stamp_columns(table: Table) -> Turned | None:
    """A table whose columns are stamps, turned on its side; None where they are none."""
    import narwhals as nw

    years = [name for name in table.names if re.fullmatch(r"(?:1[89]|20|21)\d\d", name)]
    stamps = years if len(years) >= _LEAST_STAMPS else [name for name in table.names if _is_stamp(name)]
    others = [name for name in table.names if name not in stamps]
    if len(stamps) < max(_LEAST_STAMPS, len(others)) or any(name in _TURNED for name in others):
        return None
    if any(infer_kind(table.fetch(name)) == "stamps" for name in others):
        return None
    texts = [name for name in others if is_text(table, name)]
    totals: tuple[str, ...] = ()
    if texts:
        names = [str(cell or "").strip() for cell in table.fetch(texts[0]).to_list()]
        totals = tuple(name for name in names if _TOTAL_OF_SERIES.fullmatch(name))
        table = table.select(np.array([row for row, name in enumerate(names) if name not in totals], dtype=np.int64))
    columns = [table.fetch(name) for name in stamps]
    rows = len(columns[0])
    if stamps is years and len(others) == 1:
        parts = [part_of_year(str(cell)) for cell in table.fetch(others[0]).to_list()]
        if rows in (4, 12) and None not in parts and len({*parts}) == rows:
            return Turned(_turn_years(table, years, [part or "" for part in parts]), (), (), totals)
    ids = texts or [name for name in others if table.fetch(name).n_unique() == rows][:1]
    if rows > 1 and not ids:
        return None
    time, value = (YEAR_NAMES[0] if stamps is years else "date"), "value"
    numeric = all(column.dtype.is_numeric() for column in columns)
    cells = [cell if numeric or cell is None else str(cell) for row in zip(*columns, strict=True) for cell in row]
    library = columns[0].implementation
    turned = {time: stamps * rows, value: cells}
    turned |= {name: [cell for cell in table.fetch(name).to_list() for _ in stamps] for name in ids}
    series = {name: nw.new_series(name, column, backend=library) for name, column in turned.items()}
    return Turned(
        replace(
            table,
            names=(*ids, time, value),
            fetch=series.__getitem__,
            place=lambda row: f"{table.place(row // len(stamps))}, column {stamps[row % len(stamps)]!r}",
            numeric=frozenset(),
            reopen=None,
            parsed={},
        ),
        tuple(ids) if rows > 1 else (),
        tuple(name for name in others if name not in ids),
        totals,
    )


def _turn_years(table: Table, years: list[str], parts: list[str]) -> Table:
    """One series of a table with a column for each year and a row for each month or quarter."""
    import narwhals as nw

    order = np.argsort(parts)
    columns = [table.fetch(year) for year in years]
    cells = [column[int(row)] for column in columns for row in order]
    # What is left of the last year is not missing: it has not come yet.
    count = max((place for place, cell in enumerate(cells, start=1) if cell not in (None, "")), default=0)
    stamps = [f"{year}{parts[row]}" for year in years for row in order][:count]
    library = columns[0].implementation
    numeric = all(column.dtype.is_numeric() for column in columns)
    values = [cell if numeric or cell is None else str(cell) for cell in cells[:count]]
    series = {
        name: nw.new_series(name, column, backend=library) for name, column in (("date", stamps), ("value", values))
    }

    def place(row: int) -> str:
        return f"{table.place(int(order[row % len(order)]))}, column {years[row // len(order)]!r}"

    return replace(
        table,
        names=("date", "value"),
        fetch=series.__getitem__,
        place=place,
        numeric=frozenset(),
        reopen=None,
        parsed={},
    )


def _is_stamp(name: str) -> bool:
    return not isinstance(read_stamps([name]), Unreadable) or _AMBIGUOUS.fullmatch(name) is not None


def join_clock(table: Table, time: str, left_out: Collection[str] = ()) -> tuple[Table, tuple[str, str]] | None:
    """A table with one column of stamps for one of days, which stand several times, and one of times of day.

    Beside it the names of these two; None where there is no such column.
    """
    import narwhals as nw

    by_name = {name.casefold(): name for name in reversed(table.names) if name not in (time, *left_out)}
    clocks = [by_name[name] for name in CLOCK_NAMES if name in by_name]
    if not clocks or table.fetch(time).dtype == nw.Duration:
        return None
    days = _texts(table, time)
    if len({*days}) == len(days):
        return None
    for clock in clocks:
        cells = _texts(table, clock)
        times = [_time_of_day(cell) for cell in cells]
        # A total has no time of day, and a day may be written wrong; such rows are dealt with as others of their kind.
        both = sum(
            moment is not None and _DAY.fullmatch(day) is not None for day, moment in zip(days, times, strict=True)
        )
        if len({*times}) > 2 and both > _MOST_PAIRS * len(days):
            name = next(name for name in (f"{time} {clock}", f"{time} and {clock}") if name not in table.names)
            stamps = [f"{day} {moment or cell}".strip() for day, moment, cell in zip(days, times, cells, strict=True)]
            return table.add_column(name, np.array(stamps)), (time, clock)
    return None


def _texts(table: Table, name: str) -> list[str]:
    """The cells of a column as text, days without a time of day."""
    return ["" if cell is None else str(cell).strip().removesuffix(" 00:00:00") for cell in table.fetch(name).to_list()]


def _time_of_day(cell: str) -> str | None:
    """A time such as 13:45 or 1:45 PM, or an hour by its number; None where a cell is neither."""
    if re.fullmatch(r"\d{1,2}(?:\.0)?", cell):
        hour = int(float(cell))
        return f"{hour:02d}:00" if hour <= 24 else None
    return cell if re.fullmatch(r"(?i)\d{1,2}[:.]\d{2}(?::\d{2}(?:\.\d+)?)?(?:\s?[ap]m)?", cell) else None


def join_date_parts(table: Table, year: str) -> tuple[Table, tuple[str, ...]] | None:
    """A table with one column of dates for columns of years, months and days, and the names of these; None: no such."""
    if year.casefold() not in YEAR_NAMES:
        return None
    by_name = {name.casefold(): name for name in reversed(table.names)}
    parts = [year, *(by_name[name] for name in ("month", "day") if name in by_name and "month" in by_name)]
    columns = [table.fetch(name) for name in parts]
    if len(parts) == 1 or any(infer_kind(column) != "integers" or column.is_null().any() for column in columns):
        return None
    try:
        numbers = [[int(float(cell)) for cell in column.to_list()] for column in columns]
    except ValueError:
        return None
    if not all(1 <= number <= 31 for numbers_of_part in numbers[1:] for number in numbers_of_part):
        return None
    dates = ["-".join(f"{number:02d}" for number in row) for row in zip(*numbers, strict=True)]
    name = next(name for name in ("date", "year-month", "stamp") if name not in table.names)
    return table.add_column(name, np.array(dates)), tuple(parts)


def _find_meaningless(
    table: Table, names: Sequence[str], named: Collection[str | None]
) -> tuple[list[str], list[Finding]]:
    """The columns without a name that only a reader or a writer of files made, with a finding on them.

    A first column that counts the rows is what pandas writes for its index; columns without a value are made by
    separators at the end of every line.
    """
    findings, meaningless = [], []
    nameless = [name for name in names if _NAMELESS.fullmatch(name)]
    if table.names[0] in nameless:
        column = table.fetch(table.names[0])
        if column.dtype.is_numeric() and not column.is_null().any():
            counted = column.to_numpy()
            if np.array_equal(counted - counted[0], np.arange(len(counted))):
                meaningless.append(table.names[0])
                message = f"Column {table.names[0]!r} has no name and only counts the rows; it is left out."
                findings.append(Finding("warning", "row counter", 1, message))
    numbering = [name for name in names if name not in (*named, *meaningless) and _numbers_rows(table, name)]
    if numbering:
        which = plural(len(numbering), f"Column {numbering[0]!r} has", f"Columns {listing(numbering)} have")
        message = (
            f"{which} another number in every row, as ids do; {plural(len(numbering), 'it is', 'they are')} left out."
        )
        findings.append(Finding("warning", "row ids", len(numbering), message))
    meaningless += numbering
    blank = [name for name in nameless if name not in named and table.fetch(name).is_null().all()]
    if blank:
        which = plural(len(blank), f"Column {blank[0]!r} has", f"Columns {listing(blank)} have")
        message = f"{which} neither a name nor a value; {plural(len(blank), 'it is', 'they are')} left out."
        findings.append(Finding("repaired", "blank", len(blank), message))
    return meaningless + blank, findings


def _numbers_rows(table: Table, name: str) -> bool:
    """Whether a column by its name and its whole numbers, no two of them alike, names the rows."""
    column = table.fetch(name)
    if not _ROW_ID.fullmatch(name) or not column.dtype.is_numeric() or column.is_null().any() or len(column) < 3:
        return False
    numbers = column.to_numpy()
    return bool(np.all(numbers == np.floor(numbers))) and len(np.unique(numbers)) == len(numbers)


def _long_target(table: Table, options: ReadOptions, free: Sequence[str]) -> tuple[str, ...]:
    """The one column that a long table forecasts, where `target_col` does not name it."""
    if options.target is not None:
        if len(options.target) > 1:
            raise InputError(
                f"a long table forecasts one column, but target (--target) names {listing(options.target)}; name one, "
                "or bring the data in the wide layout."
            )
        return options.target
    if TARGET_NAME in free:
        return (TARGET_NAME,)
    taken = {*options.known, *options.static}
    candidates = [name for name in free if name not in taken and not is_text(table, name)]
    if len(candidates) == 1:
        return (candidates[0],)
    if not candidates:
        raise InputError(f"{table.source} has no column to forecast beside ids and stamps.")
    message = (
        f"{table.source} has several columns that could be forecast ({listing(candidates)}); name one with target_col "
        "(--target-col)."
    )
    raise MessyData(table.source, [Problem("target", message, flag="--target-col")])


def is_text(table: Table, name: str) -> bool:
    """Whether no cell of a column is a number, although it has some."""
    column = table.fetch(name)
    if column.dtype.is_numeric() or column.is_null().all():
        return False
    return column.dtype.is_temporal() or column.dtype.is_nested() or parse_column(table, name).is_text
