"""Rows as plain text for a terminal."""

from collections.abc import Callable, Iterable

from rearview.bench.row import Row

_COLUMNS: dict[str, Callable[[Row], str]] = {
    "dataset": lambda row: row.dataset,
    "model": lambda row: row.model,
    "attention": lambda row: row.attention or "-",
    "lookback": lambda row: str(row.lookback),
    "horizon": lambda row: str(row.horizon),
    "seed": lambda row: str(row.seed),
    "mse": lambda row: f"{row.mse:.4f}",
    "mae": lambda row: f"{row.mae:.4f}",
    "windows": lambda row: f"{row.test_windows:,}",
    "seconds": lambda row: f"{row.total_seconds:,.1f}",
}
_WORDS = ("dataset", "model", "attention")


def table(rows: Iterable[Row]) -> list[str]:
    """A line of headings and a line for each row: errors on the standardised scale, test windows, wall time."""
    cells = [list(_COLUMNS), *([show(row) for show in _COLUMNS.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(_aligned(cells_of_line, widths)).rstrip() for cells_of_line in cells]


def _aligned(cells: list[str], widths: list[int]) -> list[str]:
    return [
        cell.ljust(width) if name in _WORDS else cell.rjust(width)
        for name, cell, width in zip(_COLUMNS, cells, widths, strict=True)
    ]
