"""Result files: a CSV of rows that only ever grows.

A row is added by one write of one whole line under a lock, and flushed to the disk. What a power cut or a full disk can
leave is a last line without its end: reading leaves it out and says so, and the next row takes its place. Every other
line that can't be read is refused, because a result must not go missing in silence.

A file of an earlier version gets the columns that came later with the first row that is added to it: a whole new file
takes its place in one step, in which every older line stands as it was, with the defaults of those columns behind it.
"""

import csv
import io
import os
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, overload

from rearview.bench.rows.row import AnyLine, Line, Row, from_cells
from rearview.core.errors import InputError, RearviewWarning, SettingsError, did_you_mean
from rearview.core.files import write_atomically


class RowNotAdded(InputError):
    """A row that was made has no place to go; the sentence holds it."""


@overload
def read(path: Path) -> list[Row]: ...
@overload
def read(path: Path, kind: type[AnyLine]) -> list[AnyLine]: ...
def read(path: Path, kind: type[Any] = Row) -> list[Any]:
    """Every whole row of a results file, in the order in which they were added; `kind`: what its rows are."""
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise InputError(f"The results file {path} can't be read ({problem.strerror}); check its name.") from problem
    return _rows(path, _whole(path, content, kind), kind)


def append(path: Path, row: AnyLine, unless: Callable[[list[AnyLine]], Sequence[AnyLine]] | None = None) -> AnyLine:
    """Add a row to a results file, which is made where there is none; a row that can't be kept is told in the error.

    One of an earlier version gets today's columns on that occasion: its rows keep their schema, and have the defaults
    in what came later.

    `unless` picks from the rows of the file those that make this one needless: while it trained, another process may
    have made the same run. Where there are any, the last of them is returned and nothing is added; else the row is.
    """
    line = _line(row.cells())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path) as handle:
            if unless is not None and (there := unless(read(path, type(row)))):
                return there[-1]
            _write(handle, path, line, type(row))
            return row
    except (OSError, InputError) as problem:
        raise RowNotAdded(
            f"The row can't be added to {path} ({problem}); mend that and add this line: {line.decode().rstrip()}"
        ) from problem


def find(rows: Iterable[AnyLine], kind: type[Line] = Row, **wanted: Any) -> list[AnyLine]:
    """The rows whose columns have the values wanted: find(rows, dataset="ETTh1", horizon=96)."""
    columns = kind.columns()
    for name in wanted:
        if name not in columns:
            raise SettingsError(
                f"Result rows have no column {name!r}.{did_you_mean(name, columns)} Columns: {', '.join(columns)}."
            )
    return [row for row in rows if all(getattr(row, name) == value for name, value in wanted.items())]


@overload
def kept(path: Path) -> list[Row]: ...
@overload
def kept(path: Path, kind: type[AnyLine]) -> list[AnyLine]: ...
def kept(path: Path, kind: type[Any] = Row) -> list[Any]:
    """The rows a file holds already, none where it is still to be made; a place that can't take rows is refused.

    For asking before a run what would otherwise be found out after it.
    """
    if path.exists():
        rows = read(path, kind)
        places = [path]
        if _outgrown(path.read_bytes(), kind):
            places.append(path.resolve().parent)  # where the file that takes its place is written
    else:
        rows = []
        places = [next(folder for folder in path.absolute().parents if folder.exists())]
        if not places[0].is_dir():
            raise InputError(f"The results file {path} can't be made: {places[0]} is no folder; choose another place.")
    for place in places:
        if not os.access(place, os.W_OK):
            raise InputError(f"The results file {path} can't be written: {place} is read-only; choose another place.")
    return rows


def refuse_newer(path: Path, content: bytes, kind: type[Line]) -> None:
    """Refuse a file with rows of a version of rearview that came after this one, which may mean something else."""
    header, *lines = content.split(b"\n")
    marks = (line.partition(b",")[0] for line in lines)
    newest = max((int(mark) for mark in marks if mark.isdigit()), default=0)
    if newest > kind.VERSION and header.startswith(_headers(kind)[0].rstrip()):
        raise InputError(
            f"{path} holds rows of a newer version of rearview (schema {newest}; this one knows {kind.VERSION} and "
            "those before); bring rearview up to date, or choose another file."
        )


def _whole(path: Path, content: bytes, kind: type[Line]) -> bytes:
    """The whole lines of a results file; half a last line is told, any other file refused."""
    end = content.rfind(b"\n") + 1
    whole, torn = content[:end], content[end:]
    refuse_newer(path, whole, kind)
    current, *earlier = _headers(kind)
    if not (whole.startswith((current, *earlier)) if whole else current.startswith(torn)):
        raise InputError(
            f"{path} is no results file of this version of rearview (schema {kind.VERSION}): its first line is not the "
            f"list of columns that begins with {','.join(kind.columns()[:4])}; choose another file."
        )
    if torn:
        warnings.warn(
            f"{path} ends in half a line, of a write that was cut off; it is left out, and the next row replaces it.",
            RearviewWarning,
            stacklevel=3,
        )
    return whole


def _rows(path: Path, whole: bytes, kind: type[AnyLine]) -> list[AnyLine]:
    lines = whole.decode("utf-8", errors="replace").split("\n")
    columns = lines[0].count(",") + 1
    return [_row(path, number, line, columns, kind) for number, line in enumerate(lines[1:-1], start=2)]


def _row(path: Path, number: int, line: str, columns: int, kind: type[AnyLine]) -> AnyLine:
    try:
        cells = next(csv.reader([line], strict=True), [])
        return from_cells(kind, cells, columns)
    except (ValueError, csv.Error) as problem:
        raise InputError(
            f"{path}, line {number} is no result row ({problem}); rows are never edited: put the line back as it was, "
            "or take it out."
        ) from None


def _write(handle: int, path: Path, line: bytes, kind: type[Line]) -> None:
    whole = _whole(path, path.read_bytes(), kind)
    if _outgrown(whole, kind):
        _replace(path, _grown(path, whole, kind) + line)
        return
    os.ftruncate(handle, len(whole))
    data = line if whole else _headers(kind)[0] + line
    written = os.write(handle, data)
    if written != len(data):
        raise OSError(f"only {written} of {len(data)} bytes could be written")
    os.fsync(handle)


def _outgrown(content: bytes, kind: type[Line]) -> bool:
    """Whether a file has the columns of an earlier version."""
    return content.startswith(_headers(kind)[1:])


def _grown(path: Path, whole: bytes, kind: type[Line]) -> bytes:
    """The content of a file of an earlier version under the columns of today; a line that is no row is refused."""
    _rows(path, whole, kind)
    header, *lines = whole.split(b"\n")[:-1]
    more = b"," + _line(kind.defaults(header.count(b",") + 1))
    return b"".join([_headers(kind)[0], *(line + more for line in lines)])


def _replace(path: Path, content: bytes) -> None:
    """Put another file in the place of a results file, or of the one that a link of that name leads to."""
    place = path.resolve()
    mode = stat.S_IMODE(place.stat().st_mode)
    write_atomically(place, content)
    place.chmod(mode)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The file open for appending, and nobody else's until it is closed (where the system has such locks)."""
    while True:
        with _opened(path) as handle:
            # While this process waited, another may have put a new file in the place of the one that is open.
            if _is_at(path, handle):
                yield handle
                return


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def _opened(path: Path) -> Iterator[int]:
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


def _headers(kind: type[Line]) -> tuple[bytes, ...]:
    """The first line of a file of such rows, as it is now and as it was in the versions before."""
    columns = kind.columns()
    return _line(columns), *(_line(columns[:count]) for count in kind.EARLIER.values())
