"""Which column is what: wide or long, the time column, the ids, what is forecast and what is only read.

Names decide first, contents second, and every decision becomes a finding. Nothing is dropped without one.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from rearview.core.errors import InputError
from rearview.core.wording import listing, name_with_verb, plural
from rearview.data.infer.number_text import parse_column
from rearview.data.infer.problems import MessyData, Problem, Problems
from rearview.data.infer.timestamps import MONTH_NAMES, YEAR_NAMES, counts_months, infer_kind, tells_time
from rearview.data.io.table import Table
from rearview.data.panel import Finding
from rearview.data.read_options import ReadOptions, names_in

TIME_NAMES = ("ds", "date", "datetime", "timestamp", "time")
INTEGER_NAMES = ("t", "step", "Step", "index", "Index")
"""Spelt just so: a column called T is a temperature more often than a time."""
ID_NAME, LONG_TIME_NAME, TARGET_NAME = "unique_id", "ds", "y"
TEXT_COLUMNS = frozenset({*TIME_NAMES, *INTEGER_NAMES, ID_NAME})
_ROW_ID = re.compile(
    r"(?i:(?:.*[\s_.-])?id|(?:row|order|invoice|transaction|receipt)[\s_.-]?(?:nr|no|number|nummer)\.?|nr\.?|#)|.*[a-z]I[dD]"
)
_NAMELESS = re.compile(r"column \d+|Unnamed: \d+")
"""The name of a column without one, as our reader and pandas give it."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The role of each column of a table."""

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
    changed: dict[str, object] = {}
    for option in ("id_col", "time_col", "target_col", "target", "known", "static", "drop"):
        names = names_in(getattr(options, option) or ())
        flag = f"--{option.replace('_', '-')}"
        for name in names:
            if name not in table.names:
                message = table.describe_unknown(name, f"{option} ({flag})")
                problems.add(Problem("unknown column", message, value=name, flag=flag))
        kept = tuple(name for name in names if name in table.names)
        if kept != names:
            changed[option] = kept or (None if option in ("time_col", "target_col", "target") else ())
    return replace(options, **changed)  # type: ignore[arg-type]


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
    counts = [name for name in names if tells_time(table.fetch(name))]
    if len(counts) == 1:
        return counts[0]
    raise NoTimeColumn(
        f"{table.source} has no time column: none is called {', '.join(TIME_NAMES)}, and none of {listing(names)} "
        "reads as stamps. Name it with time_col (--time-col; a column of whole numbers can be named too), or say freq "
        "1 (--freq 1) where rows follow one another and their numbers will do."
    )


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
        it_is = plural(len(numbering), "it is", "they are")
        message = f"{name_with_verb('Column', numbering)} another number in every row, as ids do; {it_is} left out."
        findings.append(Finding("warning", "row ids", len(numbering), message))
    meaningless += numbering
    blank = [name for name in nameless if name not in named and table.fetch(name).is_null().all()]
    if blank:
        it_is = plural(len(blank), "it is", "they are")
        message = f"{name_with_verb('Column', blank)} neither a name nor a value; {it_is} left out."
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
