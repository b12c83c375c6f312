"""Which column is what: wide or long, the time column, the ids, what is forecast and what is only read.

Names decide first, contents second, and what was decided is told as findings. Nothing is dropped without a word.
"""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rearview.core.errors import InputError
from rearview.data.infer.timestamps import kind_of
from rearview.data.io.table import Table, listing
from rearview.data.panel import Finding
from rearview.data.read_options import ReadOptions

TIME_NAMES = ("ds", "date", "datetime", "timestamp", "time")
INTEGER_NAMES = ("t", "step", "Step", "index", "Index")
"""Spelt just so: a column called T is a temperature more often than a time."""
ID_NAME, LONG_TIME_NAME, TARGET_NAME = "unique_id", "ds", "y"
_NAMELESS = re.compile(r"column \d+|Unnamed: \d+")
"""What a reader calls a column without a name: ours, and pandas."""
TEXT_COLUMNS = frozenset({*TIME_NAMES, *INTEGER_NAMES, ID_NAME})


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
    """It is clear what to forecast, so that columns of text beside it can be left out with a word."""

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns of the panel in order: targets, past inputs, inputs known in the future."""
        return self.targets + self.inputs + self.known


def assign(table: Table, options: ReadOptions) -> tuple[Roles, list[Finding]]:
    """The role of every column, and what was inferred on the way."""
    for names, role in (
        (options.id_col, "id_col (--id-col)"),
        ((options.time_col,) if options.time_col else (), "time_col (--time-col)"),
        ((options.target_col,) if options.target_col else (), "target_col (--target-col)"),
        (options.target or (), "target (--target)"),
        (options.known, "known (--known)"),
        (options.drop, "drop (--drop)"),
    ):
        table.check_names(names, role)
    long = bool(options.id_col) or _named_long(table, options)
    ids = (options.id_col or (ID_NAME,)) if long else ()
    if not long:
        _refuse_entities(table, options)
    findings = [] if options.id_col else [_layout_finding(table, long, options)]
    time = options.time_col
    if time is None:
        time = table.time_index or _time_column(
            table, exclude={*ids, *options.drop, *(options.target or ()), *options.known}
        )
        findings.append(Finding("inferred", "time", 0, f"The time column is {time!r}."))
    free = [name for name in table.names if name != time and name not in ids and name not in options.drop]
    free, left_out = _with_meaning(table, free, {options.target_col, *(options.target or ()), *options.known})
    findings += left_out
    targets = _long_target(table, options, free) if long else _wide_targets(options, free)
    _refuse_overlap(table, time, ids, targets, options)
    inputs = tuple(name for name in free if name not in targets and name not in options.known)
    if not targets and options.target is None:
        raise InputError(f"{table.source} has no column to forecast beside the time column {time!r}.")
    named = long or options.target is not None or options.target_col is not None
    return Roles("long" if long else "wide", time, ids, targets, inputs, options.known, named), findings


def _named_long(table: Table, options: ReadOptions) -> bool:
    """Whether columns are called as those of a long table; where nothing is forecast, it needs none called y."""
    if {ID_NAME, LONG_TIME_NAME, TARGET_NAME} <= set(table.names):
        return True
    return options.target == () and _has_ids(table, options) and _entities(table) > 0


def _has_ids(table: Table, options: ReadOptions) -> bool:
    """Whether there is a column called as that of the ids of a long table, to which no other role was given."""
    named = {
        *options.drop,
        *options.known,
        *options.trained,
        *(options.target or ()),
        options.target_col,
        options.time_col,
    }
    return {ID_NAME, LONG_TIME_NAME} <= set(table.names) and ID_NAME not in named


def _refuse_entities(table: Table, options: ReadOptions) -> None:
    """Refuses to forecast a table of several ids as one series: nothing but y says which column would be forecast."""
    if not _has_ids(table, options):
        return
    entities = _entities(table)
    if entities > 1:
        raise InputError(
            f"{table.source} has columns {ID_NAME!r}, with {entities:,} different ids, and {LONG_TIME_NAME!r}, as a "
            f"long table has, but none called {TARGET_NAME!r}; say id_col (--id-col {ID_NAME}) and name what to "
            f"forecast with target_col (--target-col), or leave {ID_NAME!r} out with drop (--drop {ID_NAME})."
        )


def _entities(table: Table) -> int:
    """How many entities the ids tell apart; none where every row has an id of its own, which numbers the rows."""
    ids = table.fetch(ID_NAME).drop_nulls()
    different = int(ids.n_unique())
    return different if different == 1 or different < len(ids) else 0


def _layout_finding(table: Table, long: bool, options: ReadOptions) -> Finding:
    words = "Long layout: one row for each series and stamp." if long else "Wide layout: one column for each variable."
    if long and options.target == ():
        entities = _entities(table)
        many = "1 entity" if entities == 1 else f"{entities:,} entities"
        words = f"Long layout: {many} told apart by {ID_NAME!r}, one row for each and stamp."
    return Finding("inferred", "layout", 0, words)


def _time_column(table: Table, exclude: set[str]) -> str:
    """The column of stamps: by name, else the first that reads as stamps, else integer time by name."""
    names = [name for name in table.names if name not in exclude]
    by_name = {name.casefold(): name for name in reversed(names)}
    named = [by_name[name] for name in TIME_NAMES if name in by_name]
    for name in named:
        if kind_of(table.fetch(name)) != "other":
            return name
    for name in names:
        if name not in named and kind_of(table.fetch(name)) == "stamps":
            return name
    for name in INTEGER_NAMES:
        if name in names and kind_of(table.fetch(name)) == "integers":
            return name
    if named:
        return named[0]
    raise InputError(
        f"{table.source} has no time column: none is called {', '.join(TIME_NAMES)}, and none of {listing(names)} "
        "reads as stamps. Name it with time_col (--time-col); a column of whole numbers can be named too."
    )


def _with_meaning(table: Table, names: Sequence[str], named: Set[str | None]) -> tuple[list[str], list[Finding]]:
    """The columns without those that only a reader or a writer of files made, and a word on these."""
    findings = []
    counters = _counters(table, names)
    if counters:
        words = f"Column {counters[0]!r} has no name and only counts the rows; it is left out."
        findings.append(Finding("warning", "row counter", 1, words))
    blank = _blank(table, [name for name in names if name not in named])
    if blank:
        one = len(blank) == 1
        which = f"Column {blank[0]!r} has" if one else f"Columns {listing(blank)} have"
        words = f"{which} neither a name nor a value; {'it is' if one else 'they are'} left out."
        findings.append(Finding("repaired", "blank", len(blank), words))
    return [name for name in names if name not in (*counters, *blank)], findings


def _counters(table: Table, names: Sequence[str]) -> list[str]:
    """Nameless first columns that only count rows, which is what pandas writes for its index."""
    first = table.names[0]
    if first not in names or not _NAMELESS.fullmatch(first):
        return []
    series = table.fetch(first)
    if not series.dtype.is_numeric() or series.is_null().any():
        return []
    counted = series.to_numpy()
    return [first] if np.array_equal(counted - counted[0], np.arange(len(counted))) else []


def _blank(table: Table, names: Sequence[str]) -> list[str]:
    """Columns without a name or a value, which separators at the end of every line make."""
    nameless = [name for name in names if _NAMELESS.fullmatch(name)]
    return [name for name in nameless if table.fetch(name).is_null().all()]


def _wide_targets(options: ReadOptions, free: Sequence[str]) -> tuple[str, ...]:
    if options.target is not None:
        return options.target
    if options.target_col is not None:
        return (options.target_col,)
    return tuple(name for name in free if name not in options.known)


def _long_target(table: Table, options: ReadOptions, free: Sequence[str]) -> tuple[str, ...]:
    """The one column a long table forecasts."""
    if options.target_col is not None:
        return (options.target_col,)
    if options.target is not None:
        if len(options.target) > 1:
            raise InputError(
                f"a long table forecasts one column, but target (--target) names {listing(options.target)}; name one, "
                "or bring the data in the wide layout."
            )
        return options.target
    if TARGET_NAME in free:
        return (TARGET_NAME,)
    numeric = [name for name in free if name not in options.known]
    if len(numeric) == 1:
        return (numeric[0],)
    raise InputError(
        f"{table.source} has several columns that could be forecast ({listing(numeric)}); name one with target_col "
        "(--target-col)."
        if numeric
        else f"{table.source} has no column to forecast beside ids and stamps."
    )


def _refuse_overlap(
    table: Table, time: str, ids: tuple[str, ...], targets: tuple[str, ...], options: ReadOptions
) -> None:
    """Refuses a column that was given two roles."""
    roles = {"the time column": (time,), "an id column": ids, "a target": targets, "known": options.known}
    roles["dropped"] = options.drop
    seen: dict[str, str] = {}
    for role, names in roles.items():
        for name in names:
            if name in seen:
                raise InputError(f"{table.source}: column {name!r} can't be {seen[name]} and {role} at once.")
            seen[name] = role
