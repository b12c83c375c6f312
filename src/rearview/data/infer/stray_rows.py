"""Rows of a table that are no observations: units below the header, headers, totals, remarks below the last row."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rearview.core.wording import plural
from rearview.data.infer.number_text import MISSING_WORDS, parse_column
from rearview.data.infer.problems import Repair
from rearview.data.infer.timestamps import BadStamp
from rearview.data.io.table import Table

_TOTAL = re.compile(
    r"(?i)(?:\S+ ){0,2}(?:sub)?-?\s?(?:totals?|sum|average|avg|mean|median|min|max|minimum|maximum|summe|zwischensumme|"
    r"gesamt(?:summe)?|mittelwert|durchschnitt)(?:\s*[:=]|\s.*)?"
)
"""Names of rows of totals."""
_MEANINGS = {
    "units": "units or other words",
    "header": "the names of the columns again",
    "total": "totals of other rows",
    "remark": "a remark",
}


@dataclass(frozen=True, slots=True)
class StrayRow:
    """A row to leave out, and why."""

    row: int
    kind: Literal["units", "header", "total", "remark"]
    value: str
    """The cell that shows it."""


def find_stray_rows(table: Table, time: str, bad: Sequence[BadStamp], left_out: Sequence[str] = ()) -> list[StrayRow]:
    """Those of the rows without a stamp that are no observations; columns that are `left_out` have no say."""
    others = [name for name in table.names if name != time and name not in (*table.id_names, *left_out)]
    rows, numbers = len(table), [one.row for one in bad]
    cells = {name: table.fetch(name)[numbers].to_list() for name in others}
    stray: list[StrayRow] = []
    gone = set(numbers)
    leading, trailing = set(table.starts), set()
    for end in (*table.starts[1:], rows):
        while end - 1 in gone:
            end -= 1
            trailing.add(end)
    for place, one in enumerate(bad):
        texts = {name: "" if cells[name][place] is None else str(cells[name][place]).strip() for name in others}
        filled = {name: text for name, text in texts.items() if text.lower() not in MISSING_WORDS}
        wordy = not any(letter.isdigit() for letter in one.value)
        words = next((text for text in (one.value, *filled.values()) if _TOTAL.fullmatch(text)), None)
        if one.value == time and all(text in ("", name) for name, text in texts.items()):
            stray.append(StrayRow(one.row, "header", one.value))
        elif one.row in leading and filled and wordy and not any(map(_has_number, filled.values())):
            stray.append(StrayRow(one.row, "units", next(iter(filled.values()))))
            leading.add(one.row + 1)
        elif one.value.startswith("#") and not filled:
            stray.append(StrayRow(one.row, "remark", one.value))
        elif words is not None:
            stray.append(StrayRow(one.row, "total", words))
        elif one.row in trailing and one.value and not any(map(_has_number, filled.values())):
            stray.append(StrayRow(one.row, "remark", one.value))
        elif one.row == rows - 1 and not one.value and _is_sum(table, one.row, filled):
            stray.append(StrayRow(one.row, "total", next(iter(filled.values()))))
    return stray


def trailing_remarks(table: Table, rows: Sequence[int]) -> set[int]:
    """Those of the rows that stand at the end of the table and hold words alone: sentences that have commas."""
    last = len(table) - 1
    remarks: set[int] = set()
    for row in reversed(rows):
        if row != last - len(remarks):
            break
        cells = [table.fetch(name)[row] for name in table.names]
        if any(cell is not None and _has_number(str(cell)) for cell in cells):
            break
        remarks.add(row)
    return remarks


def leave_out_units(table: Table) -> tuple[Table, list[Repair]]:
    """A table without stamps, without a first row of words above numbers."""
    texts = [name for name in table.names if not table.fetch(name).dtype.is_numeric()]
    first = [parse_column(table, name).bad.get(0) for name in texts]
    words = [cell for cell in first if cell is not None and not _has_number(cell)]
    if not words or len(words) < len(table.names) or any(parse_column(table, name).is_text for name in texts):
        return table, []
    return table.select(np.arange(1, len(table))), repairs_of(table, [StrayRow(0, "units", words[0])])


def _has_number(text: str) -> bool:
    """Whether a cell begins with a number, after signs; m² and CO2 are units."""
    return bool(re.match(r"[-+($€£\s]*\d", text))


def _is_sum(table: Table, row: int, filled: dict[str, str]) -> bool:
    """Whether the cells of the last row are the sums or the means of those above them."""
    for name in filled:
        column = table.fetch(name)
        cells = column.to_numpy() if column.dtype.is_numeric() else parse_column(table, name).numbers
        numbers = np.asarray(cells).astype(np.float64)  # decimals too
        above = numbers[:row][~np.isnan(numbers[:row])]
        likely = (above.sum(), above.mean()) if len(above) else ()
        if not any(np.isclose(numbers[row], one, rtol=1e-6, atol=0.01) for one in likely):
            return False
    return bool(filled)


def repairs_of(table: Table, stray: Sequence[StrayRow]) -> list[Repair]:
    """A repair for each kind of row that is left out."""
    repairs = []
    for kind, meaning in _MEANINGS.items():
        rows = [one for one in stray if one.kind == kind]
        if rows:
            count, place = len(rows), table.place(rows[0].row)
            which = plural(count, f"{place.capitalize()} holds", f"{count} rows, the first of them {place}, hold")
            message = (
                f"{which} {meaning} ({rows[0].value!r}), no observation, and {plural(count, 'is', 'are')} left out."
            )
            repairs.append(Repair("repaired", kind, count, message, place, None, rows[0].value, "left out"))
    return repairs
