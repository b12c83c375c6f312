"""The columns of a table as the panel takes them, with an account of what was missing, constant or a sentinel."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError, SettingsError
from rearview.core.wording import name_with_verb, plural
from rearview.data.infer import number_text
from rearview.data.infer.layout import Roles
from rearview.data.infer.problems import Problem, Problems, Repair
from rearview.data.infer.row_order import Indices, RowOrder
from rearview.data.infer.timestamps import infer_kind
from rearview.data.io.table import Table
from rearview.data.panel import Finding, Kind
from rearview.data.read_options import ReadOptions, Sentinels

LIKELY_SENTINELS = (-999.0, -9999.0, -99999.0, -999999.0, -9999999.0)
LEAST_FILL = 1e15
"""A fill value is at least this large, or one of `ENDS`."""
ENDS = (2.0**31 - 1, -(2.0**31), 2.0**32 - 1)
"""The ends of whole numbers of 32 bits, which programs write where there is none."""
FEW = 3
"""Other values of a series that show what it is like, however often one fill value stands between them."""
LEAST_RANGE = 1e-37
"""Values that differ by less than this are all the same in float32."""
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Account:
    """The contents of one column, gaps between rows not counted."""

    cells: int
    missing: int
    sentinels: dict[float, int]
    constant: bool
    empty: bool


@dataclass(slots=True)
class ColumnReader:
    """The numeric columns of a table, read one at a time and kept account of."""

    table: Table
    roles: Roles
    sentinels: Sentinels
    left_out: tuple[str, ...]
    problems: Problems
    accounts: dict[str, Account] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, roles: Roles, options: ReadOptions, problems: Problems) -> "ColumnReader":
        """A reader without the columns of text that no option names.

        Text in the columns that a model was trained on is a problem.
        """
        for name in roles.numeric:
            if name in options.trained and (problem := _text_problem(table, name)):
                message = (
                    f"{problem.fact}; the model was trained on this column, so write its cells as numbers, such as "
                    "1234.5."
                )
                problems.add(Problem("text", message, column=name))
        left_out: list[str] = []
        if roles.named_targets:
            left_out = [name for name in roles.inputs if _text_problem(table, name)]
        else:
            left_out = [name for name in roles.targets if _is_mere_text(table, name)]
        roles = replace(
            roles,
            # Where there is nothing but text, it is refused and the first of it named.
            targets=tuple(name for name in roles.targets if name not in left_out) or roles.targets,
            inputs=tuple(name for name in roles.inputs if name not in left_out),
        )
        return cls(table, roles, () if options.row_by_row else options.sentinels, tuple(left_out), problems)

    def check(self) -> None:
        """Keep the problems of every column, where the rows have no order to be read in."""
        for name in self.roles.numeric:
            self.raw(name)

    def raw(self, name: str) -> NDArray[np.float64]:
        """A column as it stands in the table; cells that are no numbers are problems, and missing."""
        try:
            return number_text.read_numbers(self.table, name, self.problems, fills=self.sentinels == "auto")
        except number_text.TextColumn as text:
            if not any(one.what == "text" and one.column == name for one in self.problems.met):
                self.problems.add(Problem("text", str(text), column=name, flag=text.flag))
            return np.full(len(self.table.fetch(name)), np.nan)

    def read(self, name: str, rows: RowOrder) -> NDArray[np.float64]:
        """A column in the order of `rows`, missing cells and sentinels NaN, rows of one stamp made one."""
        column = rows.arrange(self.raw(name))
        missing = int(np.isnan(column).sum())
        counts: dict[float, int] = {}
        cells = sentinel_cells(column, rows.row_bounds, self.sentinels)
        if cells is not None:
            counts = count_values(column[cells])
            column = np.where(cells, np.nan, column)
        empty = missing + sum(counts.values()) == len(column)
        column = rows.combine(column)
        column = self._check_size(name, column)
        constant = not empty and bool(np.fmin.reduce(column) == np.fmax.reduce(column))
        self.accounts[name] = Account(len(column), missing, counts, constant, empty)
        return column

    def _check_size(self, name: str, column: NDArray[np.float64]) -> NDArray[np.float64]:
        """A column; values too large for float32 are a problem, and missing, and those too near one another are one."""
        low, high = float(np.fmin.reduce(column, initial=np.nan)), float(np.fmax.reduce(column, initial=np.nan))
        where = f"{self.table.source}: column {name!r}"
        if max(-low, high) > number_text.LARGEST:
            message = f"{where} holds values too large for float32 ({low:g} to {high:g}); give it in a larger unit."
            self.problems.add(Problem("infinite", message, column=name))
            return np.full_like(column, np.nan)
        if 0 < high - low < LEAST_RANGE:
            message = (
                f"{where} holds values that are all the same in float32 ({low:g} to {high:g}); give it in a smaller "
                f"unit, or leave it out with drop (--drop {name!r})."
            )
            self.problems.add(Problem("tiny", message, column=name, flag=f"--drop {name}"))
        return column

    def first_difference(self, first: Indices, second: Indices) -> tuple[int, str] | None:
        """The first i for which rows first[i] and second[i] differ, and the column in which they do."""
        places: list[tuple[int, str]] = []
        for name in self.roles.numeric:
            column = self.raw(name)
            a, b = column[first], column[second]
            differs = ~((a == b) | (np.isnan(a) & np.isnan(b)))
            if differs.any():
                places.append((int(differs.argmax()), name))
        return min(places, key=lambda place: place[0]) if places else None

    def findings(self) -> list[Finding]:
        """Findings on all columns, once they are read."""
        findings = self._notation_findings()
        marked = {name: account.sentinels for name, account in self.accounts.items() if account.sentinels}
        if marked:
            findings.append(find_marks(marked))
        # Columns without any value have a finding of their own.
        some = [account for account in self.accounts.values() if not account.empty]
        total = sum(account.missing for account in some)
        if total:
            share = total / sum(account.cells for account in some)
            message = (
                f"{total} {plural(total, 'cell is', 'cells are')} missing ({share:.1%}), filled for the model's input "
                "and left out of the loss."
            )
            findings.append(Finding("repaired", "missing", total, message))
        inputs = (*self.roles.inputs, *self.roles.known)
        sides: tuple[tuple[Kind, str, tuple[str, ...]], ...] = (
            ("repaired", "Input column", inputs),
            ("warning", "Target column", self.roles.targets),
        )
        for kind, noun, names in sides:
            if empty := [name for name in names if self.accounts[name].empty]:
                it_is = plural(len(empty), "it is", "they are")
                message = f"{name_with_verb(noun, empty)} no value in any row; {it_is} read as a constant."
                findings.append(Finding(kind, "empty", len(empty), message))
            if constant := [name for name in names if self.accounts[name].constant]:
                message = f"{name_with_verb(noun, constant)} one value in all rows, from which nothing can be learned."
                findings.append(Finding(kind, "constant", len(constant), message))
        if self.left_out:
            were = plural(len(self.left_out), "was", "were")
            message = f"{name_with_verb('Column', self.left_out)} text, not numbers, and {were} left out."
            findings.append(Finding("warning", "text", len(self.left_out), message))
        return findings

    def _notation_findings(self) -> list[Finding]:
        """Findings on notation, where numbers are not written with a decimal point and nothing else."""
        notations = {name: number_text.find_notation(self.table, name) for name in self.roles.numeric}
        commas = {name: one for name, one in notations.items() if one is not None and not one.thousands}
        grouped = {name: one for name, one in notations.items() if one is not None and one.thousands}
        findings = []
        if self.table.decimal_comma:
            findings.append(Finding("inferred", "decimal comma", 0, "Numbers are written with a decimal comma."))
        if commas:
            others = " A point in other columns is taken for a decimal point." if len(commas) < len(notations) else ""
            message = (
                f"{name_with_verb('Column', list(commas))} numbers with a decimal comma: {_example(commas)}.{others}"
            )
            findings.append(Finding("repaired", "decimal comma", len(commas), message))
        if grouped:
            message = (
                f"{name_with_verb('Column', list(grouped))} numbers with marks between thousands: {_example(grouped)}."
            )
            findings.append(Finding("repaired", "thousands", len(grouped), message))
        return findings + [repair for name in self.roles.numeric for repair in self._dress(name)]

    def _dress(self, name: str) -> list[Repair]:
        """A finding on signs, units or marks around the numbers of a column, each form with its first cell."""
        column = self.table.fetch(name)
        if column.dtype.is_numeric() or column.dtype.is_temporal() or column.is_null().all():
            return []
        parsed = number_text.parse_column(self.table, name)
        shown = {cell: f"{parsed.numbers[row]:.12g}" for row, cell in parsed.dressed}
        if not shown:
            return []
        pairs = [f"{cell!r} as {reading}" for cell, reading in shown.items()]
        read = f"{', '.join(pairs[:-1])} and {pairs[-1]}" if len(pairs) > 1 else pairs[0]
        (row, cell), *_ = parsed.dressed
        message = f"Column {name!r} has numbers with signs or marks: {read}."
        return [Repair("repaired", "notation", len(shown), message, self.table.place(row), name, cell, shown[cell])]


def _text_problem(table: Table, name: str) -> number_text.TextColumn | None:
    """Why a column can't be read as numbers, where no cell of it is one."""
    if table.fetch(name).dtype.is_numeric():
        return None
    try:
        number_text.read_numbers(table, name)
    except number_text.TextColumn as problem:
        return problem
    except InputError:
        return None
    return None


def _is_mere_text(table: Table, name: str) -> bool:
    """Whether a column is text, and not lists, stamps (a better time?) or numbers in a doubtful notation."""
    problem = _text_problem(table, name)
    if problem is None or isinstance(problem, number_text.DoubtfulColumn):
        return False
    column = table.fetch(name)
    return not column.dtype.is_nested() and infer_kind(column) != "stamps"


def _example(notations: dict[str, number_text.Notation]) -> str:
    first = next(iter(notations.values()))
    return f"{first.example!r} is read as {first.plain(first.example)}"


def count_values(cells: NDArray[np.float64]) -> dict[float, int]:
    """The number of times that each value occurs."""
    values, times = np.unique(cells, return_counts=True)
    return dict(zip(values.tolist(), times.tolist(), strict=True))


def find_marks(marked: Mapping[str, Mapping[float, int]]) -> Finding:
    """A finding on values taken for missing: column -> value -> count."""
    total = sum(sum(counts.values()) for counts in marked.values())
    cells = [f"{value:g} in {name!r} ({n})" for name, counts in marked.items() for value, n in counts.items()]
    more = f" and {len(cells) - _NAMED} more" if len(cells) > _NAMED else ""
    message = (
        f"{total} {plural(total, 'cell is', 'cells are')} taken for missing: {', '.join(cells[:_NAMED])}{more}."
        " Say sentinels=None (--sentinels none) if they are real values."
    )
    return Finding("warning", "sentinels", total, message)


def sentinel_cells(
    column: NDArray[np.float64], bounds: NDArray[np.int64], sentinels: Sentinels
) -> NDArray[np.bool_] | None:
    """True on cells that stand for missing; None when there are none.

    With "auto" a cell counts when it is one of `LIKELY_SENTINELS` and lies below all other values of its series by at
    least half of their range: a column that really reaches -999 keeps it. So does a fill value such as 1e20 or
    9.97e36: a huge one that is far from every other value of its series, as few of its values are, or one and the same
    however often. "marks" leaves those alone.
    """
    if not sentinels:
        return None
    if sentinels not in ("auto", "marks"):
        try:
            cells = np.isin(column, np.asarray(sentinels, dtype=np.float64))
        except (TypeError, ValueError) as problem:
            raise SettingsError(f"sentinels is {sentinels!r}; it can be auto, marks, or several numbers.") from problem
        return cells if cells.any() else None
    fills = _fill_cells(column, bounds) if sentinels == "auto" else None
    marks = _likely_cells(column if fills is None else np.where(fills, np.nan, column), bounds)
    return fills if marks is None else marks if fills is None else fills | marks


def _fill_cells(column: NDArray[np.float64], bounds: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """True on huge values, positive or negative, that are far from all others; None when there are none."""
    size = np.abs(column)
    huge = (size >= LEAST_FILL) | np.isin(column, ENDS)
    if not huge.any():
        return None
    highest = np.maximum.reduceat(np.where(huge | np.isnan(column), 0.0, size), bounds[:-1])
    lowest = np.minimum.reduceat(np.where(huge, size, np.inf), bounds[:-1])
    many = np.add.reduceat(huge.astype(np.int64), bounds[:-1])
    others = np.add.reduceat((~huge & ~np.isnan(column)).astype(np.int64), bounds[:-1])
    same = lowest == np.maximum.reduceat(np.where(huge, size, 0.0), bounds[:-1])
    apart = (lowest >= number_text.FILL_GAP * highest) & ((many < others) | (same & (others >= FEW)))
    cells = huge & np.repeat(apart, np.diff(bounds))
    return cells if cells.any() else None


def _likely_cells(column: NDArray[np.float64], bounds: NDArray[np.int64]) -> NDArray[np.bool_] | None:
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
