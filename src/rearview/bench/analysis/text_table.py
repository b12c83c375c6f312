"""Rows as plain text for a terminal."""

from collections.abc import Callable, Iterable, Sequence

from rearview.bench.analysis.candidates import spell_mechanism, spell_particulars
from rearview.bench.rows.row import Row

_COLUMNS: dict[str, Callable[[Row], str]] = {
    "dataset": lambda row: row.dataset,
    "model": lambda row: row.model,
    "attention": lambda row: spell_mechanism(row) or "-",
    "with": lambda row: spell_particulars(row) or "-",
    "lookback": lambda row: str(row.lookback),
    "horizon": lambda row: str(row.horizon),
    "seed": lambda row: str(row.seed),
    "mse": lambda row: f"{row.mse:.4f}",
    "mae": lambda row: f"{row.mae:.4f}",
    "windows": lambda row: f"{row.test_windows:,}",
    "seconds": lambda row: f"{row.total_seconds:,.1f}",
}
_WORDS = ("dataset", "model", "attention", "with")


def table(rows: Iterable[Row]) -> list[str]:
    """A line of headings and a line for each row: errors on the standardised scale, test windows, wall time.

    What a row has that its protocol would not have by itself stands under `with`, where any row has something.
    """
    lines = [{name: show(row) for name, show in _COLUMNS.items()} for row in rows]
    columns = [name for name in _COLUMNS if name != "with" or any(line[name] != "-" for line in lines)]
    cells = [columns, *([line[name] for name in columns] for line in lines)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(_align(columns, cells_of_line, widths)).rstrip() for cells_of_line in cells]


def _align(columns: Sequence[str], cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if name in _WORDS else cell.rjust(width)
        for name, cell, width in zip(columns, cells, widths, strict=True)
    ]
