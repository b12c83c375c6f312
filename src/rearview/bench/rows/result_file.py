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
from typing import overload

from rearview.bench.rows.row import AnyRow, ResultRow, Row
from rearview.core.errors import InputError, RearviewWarning, SettingsError, did_you_mean
from rearview.core.files import write_atomically


class RowNotAdded(InputError):
    """A finished row could not be written to its file; the message contains the row."""


@overload
def read(path: Path) -> list[Row]: ...
@overload
def read(path: Path, kind: type[AnyRow]) -> list[AnyRow]: ...
def read(path: Path, kind: type[ResultRow] = Row) -> Sequence[ResultRow]:
    """Every whole row of a results file, in the order in which they were added; `kind`: the class of its rows."""
    return _parse(path, _read_bytes(path), kind)


_seen: dict[tuple[Path, type[ResultRow]], tuple[tuple[int, int, int], Sequence[ResultRow]]] = {}
"""By file: its inode, size and time of change when it was last read, and its rows."""


def known_rows(path: Path, kind: type[AnyRow]) -> Sequence[AnyRow]:
    """The rows a file holds already, none where there is no file yet; a place that can't take rows is refused.

    For asking before a run what would otherwise fail after it. A file that did not change is not read again.
    """
    try:
        state = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        folder = next(folder for folder in path.absolute().parents if folder.exists())
        if not folder.is_dir():
            raise InputError(
                f"The results file {path} can't be made: {folder} is no folder; choose another place."
            ) from None
        _check_writable(path, folder)
        return []
    except OSError as problem:
        raise _unreadable(path, problem) from problem
    key, stamp = (path.absolute(), kind), (state.st_ino, state.st_size, state.st_mtime_ns)
    if key not in _seen or _seen[key][0] != stamp:
        content = _read_bytes(path)
        rows = _parse(path, content, kind)
        if _is_outgrown(content, kind):
            _check_writable(path, path.resolve().parent)  # where the file that takes its place is written
        _seen[key] = stamp, rows
    _check_writable(path, path)
    return _seen[key][1]  # type: ignore[return-value]  # by kind


def append(path: Path, row: AnyRow, unless: Callable[[list[AnyRow]], Sequence[AnyRow]] | None = None) -> AnyRow:
    """Add a row to a results file, creating it if need be; the error of a row that can't be added holds the row.

    A file of an earlier version gets today's columns on that occasion: its rows keep their schema, and have the
    defaults in the new columns.

    `unless` picks from the rows of the file those that make this one needless: while it trained, another process may
    have made the same run. Where there are any, the last of them is returned and nothing is added; else the row is.
    """
    line, kind = _line(row.cells()), type(row)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _open_locked(path) as handle:
            content = os.read(handle, os.fstat(handle).st_size)
            if unless is not None and content and (made := unless(_parse(path, content, kind))):
                return made[-1]
            _write(handle, path, content, line, kind)
            return row
    except (OSError, InputError) as problem:
        raise RowNotAdded(
            f"The row can't be added to {path} ({problem}); mend that and add this line: {line.decode().rstrip()}"
        ) from problem


def find(rows: Iterable[AnyRow], kind: type[ResultRow] = Row, **wanted: object) -> list[AnyRow]:
    """The rows whose columns have the wanted values: find(rows, dataset="ETTh1", horizon=96)."""
    columns = kind.columns()
    for name in wanted:
        if name not in columns:
            raise SettingsError(
                f"Result rows have no column {name!r}.{did_you_mean(name, columns)} Columns: {', '.join(columns)}."
            )
    return [row for row in rows if all(getattr(row, name) == value for name, value in wanted.items())]


def read_header(path: Path) -> tuple[str, ...]:
    """The names in the first line of a results file."""
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            line = file.readline()
    except OSError as problem:
        raise _unreadable(path, problem) from problem
    if not line.strip():
        raise InputError(f"{path} is empty and holds no rows; `rearview bench --results {path}` fills it.")
    if not line.endswith("\n"):
        raise InputError(f"{path} ends within its first line, the list of columns; it holds no rows.")
    return tuple(next(csv.reader([line]), []))


def headers(kind: type[ResultRow]) -> tuple[tuple[str, ...], ...]:
    """The columns of a file of such rows, as they are now and as they were in earlier versions."""
    columns = kind.columns()
    return columns, *(columns[:count] for count in kind.EARLIER.values())


def refuse_newer(path: Path, content: bytes, kind: type[ResultRow]) -> None:
    """Refuse a file with rows of a later version of rearview, which may mean something else."""
    header, *lines = content.split(b"\n")
    marks = (line.partition(b",")[0] for line in lines)
    newest = max((int(mark) for mark in marks if mark.isdigit()), default=0)
    if newest > kind.SCHEMA and header.startswith(_header_lines(kind)[0].rstrip()):
        raise InputError(
            f"{path} holds rows of a newer version of rearview (schema {newest}; this one knows {kind.SCHEMA} and "
            "those before); bring rearview up to date, or choose another file."
        )


def _unreadable(path: Path, problem: OSError) -> InputError:
    return InputError(f"The results file {path} can't be read ({problem.strerror}); check its name.")


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise _unreadable(path, problem) from problem


def _check_writable(path: Path, place: Path) -> None:
    if not os.access(place, os.W_OK):
        raise InputError(f"The results file {path} can't be written: {place} is read-only; choose another place.")


def _whole_lines(path: Path, content: bytes, kind: type[ResultRow]) -> bytes:
    """The whole lines of a results file; half a last line is warned of, any other file refused."""
    end = content.rfind(b"\n") + 1
    whole, torn = content[:end], content[end:]
    refuse_newer(path, whole, kind)
    current, *earlier = _header_lines(kind)
    if not (whole.startswith((current, *earlier)) if whole else current.startswith(torn)):
        raise InputError(
            f"{path} is no results file of this version of rearview (schema {kind.SCHEMA}): its first line is not the "
            f"list of columns that begins with {','.join(kind.columns()[:4])}; choose another file."
        )
    if torn:
        warnings.warn(
            f"{path} ends in half a line, of a write that was cut off; it is left out, and the next row replaces it.",
            RearviewWarning,
            stacklevel=3,
        )
    return whole


def _parse(path: Path, content: bytes, kind: type[AnyRow]) -> list[AnyRow]:
    """The rows of a file; a line that is no row is refused."""
    lines = _whole_lines(path, content, kind).decode("utf-8", errors="replace").split("\n")
    columns = lines[0].count(",") + 1
    rows = []
    for number, line in enumerate(lines[1:-1], start=2):
        try:
            rows.append(kind.read(next(csv.reader([line], strict=True), []), columns))
        except (ValueError, csv.Error) as problem:
            raise InputError(
                f"{path}, line {number} is no result row ({problem}); rows are never edited: put the line back as it "
                "was, or take it out."
            ) from None
    return rows


def _write(handle: int, path: Path, content: bytes, line: bytes, kind: type[ResultRow]) -> None:
    whole = _whole_lines(path, content, kind)
    if _is_outgrown(whole, kind):
        place = path.resolve()  # the file itself, where the name is a link
        mode = stat.S_IMODE(place.stat().st_mode)
        write_atomically(place, _widen(path, whole, kind) + line)
        place.chmod(mode)
        return
    os.ftruncate(handle, len(whole))
    data = line if whole else _header_lines(kind)[0] + line
    written = os.write(handle, data)
    if written != len(data):
        raise OSError(f"only {written} of {len(data)} bytes could be written")
    os.fsync(handle)


def _is_outgrown(content: bytes, kind: type[ResultRow]) -> bool:
    """Whether a file has the columns of an earlier version."""
    return content.startswith(_header_lines(kind)[1:])


def _widen(path: Path, whole: bytes, kind: type[ResultRow]) -> bytes:
    """The content of a file of an earlier version under the columns of today; a line that is no row is refused."""
    _parse(path, whole, kind)
    header, *lines = whole.split(b"\n")[:-1]
    more = b"," + _line(kind.defaults(header.count(b",") + 1))
    return b"".join([_header_lines(kind)[0], *(line + more for line in lines)])


@contextmanager
def _open_locked(path: Path) -> Iterator[int]:
    """The file open for appending, and nobody else's until it is closed (where the system has such locks)."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            try:
                import fcntl
            except ImportError:
                pass
            else:
                fcntl.flock(handle, fcntl.LOCK_EX)
            # While this process waited, another may have put a new file in the place of the one that is open.
            if _is_at(path, handle):
                yield handle
                return
        finally:
            os.close(handle)


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _line(cells: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()


def _header_lines(kind: type[ResultRow]) -> tuple[bytes, ...]:
    """The first line of a file of such rows, as it is now and as it was in earlier versions."""
    return tuple(map(_line, headers(kind)))
