"""The columns of a table as the panel takes them, with an account of what was missing, constant or a sentinel."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from rearview.data.columns import Column, sentinel_cells
from rearview.data.layout import Roles
from rearview.data.numbers import TextColumn, decimal_comma, numeric_column
from rearview.data.panel import Finding, Kind
from rearview.data.rows import Indices, Rows
from rearview.data.table import Table, listing

Sentinels = Sequence[float] | Literal["auto"] | None
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
    def of(cls, table: Table, roles: Roles, sentinels: Sentinels) -> "Reading":
        """The reading of a table whose inputs are all text left out, where it is clear what is forecast."""
        left_out = tuple(name for name in roles.inputs if _is_text(table, name)) if roles.named_targets else ()
        inputs = tuple(name for name in roles.inputs if name not in left_out)
        return cls(table, replace(roles, inputs=inputs), sentinels, left_out)

    def column(self, name: str, rows: Rows) -> Column:
        """A column in the order of `rows`, missing cells and sentinels NaN."""
        column = np.asarray(rows.arrange(numeric_column(self.table, name)))
        missing = int(np.isnan(column).sum())
        marked: dict[float, int] = {}
        cells = None if self.sentinels is None else sentinel_cells(column, rows.bounds, self.sentinels)
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
        found = [self._comma_finding(), self._sentinel_finding(), self._missing_finding(), *self._flat_findings()]
        if self.left_out:
            words = f"{_columns(self.left_out)} text, not numbers, and {_was(self.left_out)} left out."
            found.append(Finding("warning", "text", len(self.left_out), words))
        return [finding for finding in found if finding is not None]

    def _comma_finding(self) -> Finding | None:
        if self.table.decimal_comma:
            return Finding("inferred", "decimal comma", 0, "Numbers are written with a decimal comma.")
        cells = {name: decimal_comma(self.table, name) for name in self.roles.numeric}
        commas = {name: cell for name, cell in cells.items() if cell is not None}
        if not commas:
            return None
        cell = next(iter(commas.values()))
        words = f"{_columns(tuple(commas))} numbers with a decimal comma: {cell!r} is read as {cell.replace(',', '.')}."
        others = " A point in other columns is taken for a decimal point." if len(commas) < len(cells) else ""
        return Finding("repaired", "decimal comma", len(commas), words + others)

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
        total = sum(account.missing for account in self.accounts.values())
        if total == 0:
            return None
        share = total / sum(account.cells for account in self.accounts.values())
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
    if table.fetch(name).dtype.is_numeric():
        return False
    try:
        numeric_column(table, name)
    except TextColumn:
        return True
    return False


def _columns(names: Sequence[str], role: str = "") -> str:
    noun = f"{role} column" if role else "column"
    return f"{noun.capitalize()} {names[0]!r} has" if len(names) == 1 else f"{noun.capitalize()}s {listing(names)} have"


def _was(names: Sequence[str]) -> str:
    return "was" if len(names) == 1 else "were"


def _it(names: Sequence[str]) -> str:
    return "it is" if len(names) == 1 else "they are"
