"""A results file of any kind of row: a CSV that only ever grows, one dataclass a line.

A row is added by one write of one whole line under a lock, and flushed to the disk. Half a last line, which a power cut
or a full disk can leave, is left out with a warning and replaced by the next row; every other line that can't be read
is refused, because a result must not go missing in silence.
"""

import csv
import io
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

from rearview.errors import InputError

Row = TypeVar("Row")


class Ledger(Generic[Row]):
    """Results files whose lines are rows of one dataclass of text, whole numbers, numbers and their absence."""

    def __init__(self, kind: type[Row]) -> None:
        self.kind = kind
        self._fields = fields(kind)  # type: ignore[arg-type]
        self._header = _line([field.name for field in self._fields])

    def read(self, path: Path) -> list[Row]:
        """Every whole row, in the order in which they were added; none where there is no file."""
        try:
            content = path.read_bytes() if path.exists() else b""
        except OSError as problem:
            raise InputError(
                f"The results file {path} can't be read ({problem.strerror}); check its name."
            ) from problem
        lines = self._whole(path, content).decode("utf-8", errors="replace").split("\n")
        return [self._row(path, number, line) for number, line in enumerate(lines[1:-1], start=2)]

    def append(self, path: Path, row: Row) -> None:
        """Add a row; a row that can't be kept is told in the error."""
        line = _line(["" if value is None else str(value) for value in astuple(row)])  # type: ignore[call-overload]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(path) as handle:
                whole = self._whole(path, path.read_bytes())
                os.ftruncate(handle, len(whole))
                _write(handle, line if whole else self._header + line)
        except (OSError, InputError) as problem:
            raise InputError(
                f"The row can't be added to {path} ({problem}); mend that and add this line: {line.decode().rstrip()}"
            ) from problem

    def find(self, path: Path, wanted: Mapping[str, Any]) -> list[Row]:
        """The rows of a file whose columns have the values wanted."""
        return [row for row in self.read(path) if all(getattr(row, name) == value for name, value in wanted.items())]

    def _whole(self, path: Path, content: bytes) -> bytes:
        end = content.rfind(b"\n") + 1
        whole, torn = content[:end], content[end:]
        if not (whole.startswith(self._header) if whole else self._header.startswith(torn)):
            raise InputError(
                f"{path} is no file of {self.kind.__name__} rows of this version of rearview: its first line is not "
                "the list of their columns; choose another file."
            )
        if torn:
            message = f"{path} ends in half a line, of a write that was cut off; the next row replaces it."
            warnings.warn(message, RuntimeWarning, stacklevel=3)
        return whole

    def _row(self, path: Path, number: int, line: str) -> Row:
        try:
            cells = next(csv.reader([line], strict=True), [])
            if len(cells) != len(self._fields):
                raise ValueError(f"it has {len(cells)} cells instead of {len(self._fields)}")
            pairs = zip(self._fields, cells, strict=True)
            return self.kind(**{field.name: _READERS[field.type](cell) for field, cell in pairs})
        except (ValueError, csv.Error) as problem:
            raise InputError(
                f"{path}, line {number} is no result row ({problem}); rows are never edited: put the line back as it "
                "was, or take it out."
            ) from None


def _write(handle: int, data: bytes) -> None:
    written = os.write(handle, data)
    if written != len(data):
        raise OSError(f"only {written} of {len(data)} bytes could be written")
    os.fsync(handle)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The file open for appending, and nobody else's until it is closed (where the system has such locks)."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        try:
            import fcntl
        except ImportError:
            pass
        else:
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _line(cells: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()


_READERS: dict[Any, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    int | None: lambda cell: int(cell) if cell else None,
    float | None: lambda cell: float(cell) if cell else None,
}
