"""What kind of file this is: parquet or text, how the text is packed and encoded, and how its cells are separated.

Only the first part of the file is looked at. Excel's habits (byte order marks, semicolons with decimal commas, UTF-16)
are recognised; what is no table at all is refused with the name of what it seems to be.
"""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rearview.core.errors import InputError
from rearview.data.io.table import check_unique

_SAMPLE_BYTES = 1 << 18
_SAMPLE_RECORDS = 200
_SEPARATORS = (",", ";", "\t", "|")
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_FOREIGN = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"ARROW1": "an arrow (feather) file",
    b"%PDF": "a PDF document",
    b"\x89HDF": "an HDF5 file",
    b"SQLite format": "an SQLite database",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
}
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")
_DECIMAL_POINT = re.compile(r"[+-]?\d+\.\d+(?:[eE][+-]?\d+)?")
_POINTS_BETWEEN_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+(?P<decimals>,\d+)?")
COMMAS_BETWEEN_THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2}(?:,\d{3})+\.\d+\s*$"
"""A number that shows by its point what its commas are, as every library's regular expressions take it."""
_STAMP_AS_NAME = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?")


@dataclass(frozen=True, slots=True)
class Text:
    """A text table: where its bytes are and how its cells are told apart."""

    path: Path
    content: bytes | None
    """The text as UTF-8, where the file itself is packed or encoded otherwise; None where it can be read as it lies."""
    separator: str
    decimal_comma: bool
    names: tuple[str, ...]
    sample: tuple[tuple[str, ...], ...]
    """The first records after the header."""
    guessed: str | None = None
    """The encoding that was taken where the file does not show one."""

    def stream(self) -> io.TextIOBase:
        """The text from its beginning, bad bytes replaced."""
        raw: io.BufferedReader | io.BytesIO = self.path.open("rb") if self.content is None else io.BytesIO(self.content)
        return io.TextIOWrapper(raw, encoding="utf-8-sig", errors="replace", newline="")

    def line_of(self, record: int) -> int:
        """The line on which a record starts, as a person counts: the header is line 1."""
        with self.stream() as stream:
            reader = csv.reader(stream, delimiter=self.separator)
            line = 1
            for number, _ in enumerate(reader):
                if number == record + 1:
                    break
                line = reader.line_num + 1
        return line

    def too_many_fields(self) -> tuple[int, int] | None:
        """(line, fields) of the first record that has more fields than the header; None when there is none."""
        with self.stream() as stream:
            reader = csv.reader(stream, delimiter=self.separator)
            line = 1
            for record in reader:
                if len(record) > len(self.names):
                    return line, len(record)
                line = reader.line_num + 1
        return None


def is_parquet(path: Path) -> bool:
    """True for a parquet file, whatever its name; a missing, empty or unreadable file is refused."""
    if not path.exists():
        raise InputError(f"{path} does not exist; check the path and the spelling.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the file in it that holds the data.")
    try:
        with path.open("rb") as file:
            start = file.read(len(_PARQUET))
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}.") from error
    if not start:
        raise InputError(f"{path} is empty: it has no bytes.")
    return start == _PARQUET


def text(path: Path) -> Text:
    """How the text table in `path` is to be read; refused when it is none."""
    content, guessed = _unpacked(path), None
    start = _first_bytes(path) if content is None else content[:_SAMPLE_BYTES]
    whole = len(start) < _SAMPLE_BYTES
    _refuse_foreign(path, start)
    if start.startswith(_UTF16_MARKS):
        content = _recoded(path, content, "utf-16")
    elif not _is_utf8(start):
        content, guessed = _guessed(path, content)
    elif (stripped := start.removeprefix(_UTF8_MARK).lstrip(b"\r\n")) != start.removeprefix(_UTF8_MARK):
        if not stripped:
            raise InputError(f"{path} is empty: it has blank lines only.")
        content = (path.read_bytes() if content is None else content).removeprefix(_UTF8_MARK).lstrip(b"\r\n")
    start = start if content is None else content[:_SAMPLE_BYTES]
    if b"\r" in start and b"\n" not in start:
        # How old Macs end lines, and Excel still does on demand.
        content = (path.read_bytes() if content is None else content).replace(b"\r", b"\n")
        start = content[:_SAMPLE_BYTES]
    lines = start.removeprefix(_UTF8_MARK).decode("utf-8", errors="replace")
    if not whole:
        lines = lines[: lines.rfind("\n") + 1]
    separator = _separator(lines)
    records = list(_records(lines, separator))
    names = _names(path, records[0])
    sample = tuple(tuple(record) for record in records[1:] if record)
    if not sample:
        raise InputError(f"{path} has a header but no rows.")
    commas = separator != "," and _has_decimal_comma(sample)
    return Text(path, content, separator, commas, names, sample, guessed)


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_SAMPLE_BYTES)


def _unpacked(path: Path) -> bytes | None:
    """The bytes inside a gzip file; None for a file that is not packed."""
    with path.open("rb") as file:
        if file.read(2) != _GZIP:
            return None
    try:
        content = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is a damaged gzip file ({error}); pack it again.") from error
    if not content:
        raise InputError(f"{path} is empty: the gzip file holds no bytes.")
    return content


def _refuse_foreign(path: Path, start: bytes) -> None:
    for mark, kind in _FOREIGN.items():
        if start.startswith(mark):
            raise InputError(f"{path} is {kind}, not a text table; save the data as CSV or parquet.")
    if b"\x00" in start and not start.startswith(_UTF16_MARKS):
        raise InputError(f"{path} is not a text table (it holds zero bytes); save the data as CSV or parquet.")
    control = sum(start.count(bytes([code])) for code in (*range(1, 9), *range(14, 27), 28, 29, 30, 31))
    if control > len(start) // 50:
        raise InputError(f"{path} is not a text table (it holds control characters); save the data as CSV or parquet.")


def _is_utf8(start: bytes) -> bool:
    try:
        start.decode("utf-8")
    except UnicodeDecodeError as error:
        # The sample may end inside a character of up to four bytes.
        return error.start > len(start) - 4 and len(start) == _SAMPLE_BYTES
    return True


def _recoded(path: Path, content: bytes | None, encoding: str) -> bytes:
    """The whole text as UTF-8 without blank lines in front."""
    raw = path.read_bytes() if content is None else content
    try:
        return raw.decode(encoding).lstrip("\ufeff\r\n").encode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text table ({error.reason}); save the data as CSV or parquet.") from error


def _guessed(path: Path, content: bytes | None) -> tuple[bytes, str]:
    """The whole text as UTF-8, and the encoding it was taken to have: a few bytes mean nothing in Windows-1252."""
    try:
        return _recoded(path, content, "cp1252"), "Windows-1252"
    except InputError:
        return _recoded(path, content, "latin-1"), "Latin-1"


def _records(lines: str, separator: str) -> Iterator[list[str]]:
    reader = csv.reader(io.StringIO(lines, newline=""), delimiter=separator)
    for number, record in enumerate(reader):
        if number > _SAMPLE_RECORDS:
            return
        yield record


def _separator(lines: str) -> str:
    """The separator that gives most records as many fields as the header, and the header most fields."""
    best, best_score = ",", (0.0, 1)
    for separator in _SEPARATORS:
        widths = [len(record) for record in _records(lines, separator) if record]
        if not widths or widths[0] < 2:
            continue
        score = (sum(width == widths[0] for width in widths) / len(widths), widths[0])
        if score > best_score:
            best, best_score = separator, score
    return best


def _names(path: Path, header: list[str]) -> tuple[str, ...]:
    """The column names without spaces around them; a column without a name is called by its position."""
    if any(_STAMP_AS_NAME.fullmatch(name.strip()) for name in header):
        raise InputError(
            f"{path}, line 1 holds a stamp where column names are expected; add a header line such as date,value."
        )
    names = [name.strip() or f"column {number}" for number, name in enumerate(header, start=1)]
    check_unique(names, str(path))
    return tuple(names)


def _has_decimal_comma(sample: tuple[tuple[str, ...], ...]) -> bool:
    """Whether all decimals have commas; a cell such as 1.234,5 or 1,234.5 shows what the points of others are."""
    cells = [cell.strip() for record in sample for cell in record]
    if any(re.match(COMMAS_BETWEEN_THOUSANDS, cell) for cell in cells):
        return False
    points = [cell for cell in cells if _DECIMAL_POINT.fullmatch(cell)]
    grouped = [match for match in map(_POINTS_BETWEEN_THOUSANDS.fullmatch, cells) if match is not None]
    if any(match["decimals"] for match in grouped):
        return all(map(_POINTS_BETWEEN_THOUSANDS.fullmatch, points))
    return any(map(_DECIMAL_COMMA.fullmatch, cells)) and not points
