"""The columns of a table as the panel takes them, with an account of what was missing, constant or a sentinel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer.layout import Roles
from rearview.data.infer.number_text import DoubtfulColumn, Notation, TextColumn, notation, numeric_column
from rearview.data.infer.row_order import Indices, Rows
from rearview.data.infer.timestamps import kind_of
from rearview.data.io.table import Table, listing
from rearview.data.panel import Finding, Kind
from rearview.data.read_options import ReadOptions, Sentinels

LIKELY_SENTINELS = (-999.0, -9999.0, -99999.0, -999999.0, -9999999.0)
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Account:
    """What one column held, gaps between rows not counted."""

    cells: int
    missing: int
    sentinels: dict[float, int]
    constant: bool
    empty: bool


@dataclass(slots=True)
class Reading:
    """The numeric columns of a table, read one at a time and kept account of."""

    table: Table
    roles: Roles
    sentinels: Sentinels
    left_out: tuple[str, ...]
    accounts: dict[str, Account] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, roles: Roles, options: ReadOptions, *, keep_text: bool) -> "Reading":
        """The reading of a table without the columns of text that no option names.

        `keep_text` leaves them among what is to be forecast, where they are refused. Text in the columns that a model
        was trained on is refused in any case.
        """
        for name in roles.numeric:
            if name in options.trained:
                _refuse_text(table, name)
        left_out = tuple(name for name in roles.inputs if _is_text(table, name)) if roles.named_targets else ()
        if not roles.named_targets and not keep_text:
            left_out = tuple(name for name in roles.targets if _is_mere_text(table, name))
        kept = replace(
            roles,
            # Where there is nothing but text, it is refused and the first of it named.
            targets=tuple(name for name in roles.targets if name not in left_out) or roles.targets,
            inputs=tuple(name for name in roles.inputs if name not in left_out),
        )
        return cls(table, kept, () if options.row_by_row else options.sentinels, left_out)

    def column(self, name: str, rows: Rows) -> NDArray[np.float64]:
        """A column in the order of `rows`, missing cells and sentinels NaN."""
        column = np.asarray(rows.arrange(numeric_column(self.table, name)))
        missing = int(np.isnan(column).sum())
        marked: dict[float, int] = {}
        cells = sentinel_cells(column, rows.bounds, self.sentinels)
        if cells is not None:
            values, counts = np.unique(column[cells], return_counts=True)
            marked = dict(zip(values.tolist(), counts.tolist(), strict=True))
            column = np.where(cells, np.nan, column)
        empty = missing + sum(marked.values()) == len(column)
        constant = not empty and bool(np.fmin.reduce(column) == np.fmax.reduce(column))
        self.accounts[name] = Account(len(column), missing, marked, constant, empty)
        return column

    def is_text(self, name: str) -> bool:
        """True for a column in which no cell is a number."""
        return _is_text(self.table, name)

    def difference(self, first: Indices, second: Indices) -> tuple[int, str] | None:
        """The first i for which rows first[i] and second[i] differ, and the column in which they do."""
        found: tuple[int, str] | None = None
        for name in self.roles.numeric:
            column = numeric_column(self.table, name)
            a, b = column[first], column[second]
            differs = ~((a == b) | (np.isnan(a) & np.isnan(b)))
            if differs.any() and (found is None or int(differs.argmax()) < found[0]):
                found = int(differs.argmax()), name
        return found

    def findings(self) -> list[Finding]:
        """What the columns held, told once they are all read."""
        found = [self._sentinel_finding(), self._missing_finding(), *self._flat_findings()]
        if self.left_out:
            words = f"{_columns(self.left_out)} text, not numbers, and {_was(self.left_out)} left out."
            found.append(Finding("warning", "text", len(self.left_out), words))
        return [*self._notation_findings(), *(finding for finding in found if finding is not None)]

    def _notation_findings(self) -> list[Finding]:
        """How numbers are written, where it is not with a decimal point and nothing else."""
        written = {name: notation(self.table, name) for name in self.roles.numeric}
        shown = {name: found for name, found in written.items() if found is not None}
        commas = {name: found for name, found in shown.items() if not found.thousands}
        grouped = {name: found for name, found in shown.items() if found.thousands}
        told = []
        if self.table.decimal_comma:
            told.append(Finding("inferred", "decimal comma", 0, "Numbers are written with a decimal comma."))
        if commas:
            others = " A point in other columns is taken for a decimal point." if len(commas) < len(written) else ""
            words = f"{_columns(tuple(commas))} numbers with a decimal comma: {_read_as(commas)}.{others}"
            told.append(Finding("repaired", "decimal comma", len(commas), words))
        if grouped:
            words = f"{_columns(tuple(grouped))} numbers with marks between thousands: {_read_as(grouped)}."
            told.append(Finding("repaired", "thousands", len(grouped), words))
        return told

    def _sentinel_finding(self) -> Finding | None:
        marked = {name: account.sentinels for name, account in self.accounts.items() if account.sentinels}
        if not marked:
            return None
        total = sum(sum(counts.values()) for counts in marked.values())
        words = [f"{value:g} in {name!r} ({n})" for name, counts in marked.items() for value, n in counts.items()]
        more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
        return Finding(
            "warning",
            "sentinels",
            total,
            f"{total} {'cell is' if total == 1 else 'cells are'} taken for missing: {', '.join(words[:_NAMED])}{more}. "
            "Say sentinels=None (--sentinels none) if they are real values.",
        )

    def _missing_finding(self) -> Finding | None:
        # Columns without any value are told apart.
        some = [account for account in self.accounts.values() if not account.empty]
        total = sum(account.missing for account in some)
        if total == 0:
            return None
        share = total / sum(account.cells for account in some)
        cells = f"{total} {'cell is' if total == 1 else 'cells are'} missing ({share:.1%})"
        words = f"{cells}, filled for the model's input and left out of the loss."
        return Finding("repaired", "missing", total, words)

    def _flat_findings(self) -> list[Finding]:
        """Columns without any value and columns of one value, inputs and targets apart."""
        found = []
        for role, names in (("input", (*self.roles.inputs, *self.roles.known)), ("target", self.roles.targets)):
            kind: Kind = "repaired" if role == "input" else "warning"
            empty = [name for name in names if self.accounts[name].empty]
            constant = [name for name in names if self.accounts[name].constant]
            if empty:
                words = f"{_columns(empty, role)} no value in any row; {_it(empty)} read as a constant."
                found.append(Finding(kind, "empty", len(empty), words))
            if constant:
                words = f"{_columns(constant, role)} one value in all rows, from which nothing can be learned."
                found.append(Finding(kind, "constant", len(constant), words))
        return found


def _is_text(table: Table, name: str) -> bool:
    """True for a column in which no cell is a number."""
    return isinstance(_refusal(table, name), TextColumn)


def _refuse_text(table: Table, name: str) -> None:
    """Refuses a column that a model reads where no cell of it is a number."""
    problem = _refusal(table, name)
    if isinstance(problem, TextColumn):
        raise InputError(
            f"{problem.fact}; the model was trained on this column, so write its cells as numbers, such as 1234.5."
        ) from problem


def _is_mere_text(table: Table, name: str) -> bool:
    """True for such a column unless it holds lists, stamps (a better time?) or numbers in a doubtful notation."""
    problem = _refusal(table, name)
    if not isinstance(problem, TextColumn) or isinstance(problem, DoubtfulColumn):
        return False
    series = table.fetch(name)
    return not series.dtype.is_nested() and kind_of(series) != "stamps"


def _refusal(table: Table, name: str) -> InputError | None:
    """Why a column can't be read as numbers."""
    if table.fetch(name).dtype.is_numeric():
        return None
    try:
        numeric_column(table, name)
    except InputError as problem:
        return problem
    return None


def _read_as(written: Mapping[str, Notation]) -> str:
    first = next(iter(written.values()))
    return f"{first.example!r} is read as {first.plain(first.example)}"


def _columns(names: Sequence[str], role: str = "") -> str:
    noun = f"{role} column" if role else "column"
    return f"{noun.capitalize()} {names[0]!r} has" if len(names) == 1 else f"{noun.capitalize()}s {listing(names)} have"


def _was(names: Sequence[str]) -> str:
    return "was" if len(names) == 1 else "were"


def _it(names: Sequence[str]) -> str:
    return "it is" if len(names) == 1 else "they are"


def sentinel_cells(
    column: NDArray[np.float64], bounds: NDArray[np.int64], sentinels: Sentinels
) -> NDArray[np.bool_] | None:
    """True on cells that stand for missing; None when there are none.

    With "auto" a cell counts when it is one of `LIKELY_SENTINELS` and lies below all other values of its series by at
    least half of their range: a column that really reaches -999 keeps it.
    """
    if sentinels != "auto":
        cells = np.isin(column, np.asarray(sentinels, dtype=np.float64))
        return cells if cells.any() else None
    if not np.any(column <= LIKELY_SENTINELS[0]):
        return None
    likely = np.isin(column, LIKELY_SENTINELS)
    apart = likely | np.isnan(column)
    lowest = np.minimum.reduceat(np.where(apart, np.inf, column), bounds[:-1])
    highest = np.maximum.reduceat(np.where(apart, -np.inf, column), bounds[:-1])
    with np.errstate(invalid="ignore"):
        # A series of nothing but sentinels has no range (inf - inf is NaN), and the comparison leaves it alone.
        limit = np.repeat(lowest - (highest - lowest) / 2, np.diff(bounds))
        cells = likely & (column < limit) & np.repeat(np.isfinite(lowest), np.diff(bounds))
    return cells if cells.any() else None
