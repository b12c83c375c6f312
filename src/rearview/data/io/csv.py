"""CSV files: how a text table is packed, encoded and separated, and the table of its columns.

`sniff` looks at the first part of a file only. It knows Excel's habits (byte order marks, semicolons with decimal
commas, UTF-16) and refuses what is no table with the name of what it seems to be. polars reads the cells where it is
installed, pandas elsewhere; both get the same names and types. A column is read as numbers when its first records are
numbers; when a later cell is not, the column is kept as text, so that the cell can be named.
"""

import csv
import io
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from rearview.core.errors import InputError
from rearview.core.wording import listing
from rearview.data.io.damage import GZIP, unpack
from rearview.data.io.table import Frame, Table, check_unique, has_polars

_SAMPLE_BYTES, _MOST_SAMPLE_BYTES = 1 << 18, 1 << 26
_SAMPLE_LINES = 8
"""Lines of a sample at least, however long they are."""
_SAMPLE_RECORDS = 200
_SEPARATORS = (",", ";", "\t", "|")
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_FOREIGN: dict[str, bytes | tuple[bytes, ...]] = {
    "an old feather file": b"FEA1",
    "a PDF document": b"%PDF",
    "a web page": (b"<!DOCTYPE", b"<!doctype", b"<html"),
    "an XML document": b"<?xml",
    "an HDF5 file": b"\x89HDF",
    "an SQLite database": b"SQLite format",
    "a numpy array": b"\x93NUMPY",
    "an SQL script": (b"INSERT INTO", b"CREATE TABLE", b"-- MySQL dump"),
    "a zstd archive": b"\x28\xb5\x2f\xfd",
}
"""Files of other kinds, and what they begin with."""
_RULE = re.compile(rb"(?m)^[ |+]*[-=]{3,}[-=:|+ ]{2,}$")
"""A line that is drawn between rows, as database shells and lists do."""
_BORDERS = re.compile(rb"(?m)^ *\|(.*)\| *$")
_PADDING = re.compile(rb" *\| *")
_INDENT = re.compile(rb"(?m)^ +| +$")
_SPACES = re.compile(r" +")
_STAMP_WITHOUT_SPACES = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\S*")
_GUARDED = r"""^(?:=".*"|'.*')$"""
"""Text that is kept from being changed by a spreadsheet, or in the quotation marks of a database."""
_CONTROL = bytes([*range(1, 9), *range(14, 27), 28, 29, 30, 31])
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")
_DECIMAL_POINT = re.compile(r"[+-]?\d+\.\d+(?:[eE][+-]?\d+)?")
_POINTS_BETWEEN_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+(?P<decimals>,\d+)?")
_COMMAS_BETWEEN_THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2}(?:,\d{3})+\.\d+\s*$"
"""A number whose point shows what its commas are, in the syntax of every library's regular expressions."""
_STAMP_AS_NAME = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?")
_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)?")
_NUMBER_OR_STAMP = re.compile(r"[-+($€£]?\d")
_MOST_LINES_ABOVE = 30
"""Lines that are looked at for the header."""
_REMEDY = "save the data as CSV or parquet"


@dataclass(frozen=True, slots=True)
class Dialect:
    """A text table: where its bytes are and how they are divided into cells."""

    path: Path
    content: bytes | None
    """The text as UTF-8, where the file itself is packed or encoded otherwise; None where it can be read as it lies."""
    separator: str
    decimal_comma: bool
    names: tuple[str, ...]
    sample: tuple[tuple[str, ...], ...]
    """The first records after the header."""
    guessed_encoding: str | None
    """The encoding that was assumed because the file does not show one."""
    header: int = 1
    """Lines of the header: none in a file without names of columns."""
    above: tuple[str, ...] = ()
    """The lines above the header, which were left out of `content`."""

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Every record with the line on which it starts, as a person counts: the header is line 1."""
        raw: io.BufferedReader | io.BytesIO = self.path.open("rb") if self.content is None else io.BytesIO(self.content)
        with io.TextIOWrapper(raw, encoding="utf-8-sig", errors="replace", newline="") as stream:
            reader = csv.reader(stream, delimiter=self.separator)
            line = 1 + len(self.above)
            while True:
                try:
                    record = next(reader, None)
                except csv.Error as problem:
                    raise InputError(f"{self.path}, line {line} can't be read as a row ({problem}); mend it.") from None
                if record is None:
                    return
                yield line, record
                line = reader.line_num + 1 + len(self.above)

    def line_of(self, row: int) -> int:
        """The line on which a row starts."""
        line = 1
        for number, (line, _) in enumerate(self.records()):  # noqa: B007
            if number == row + self.header:
                break
        return line

    def is_numeric(self, position: int) -> bool:
        """Whether every sampled cell of a column is empty or a number without marks between thousands."""
        cells = [record[position] for record in self.sample if position < len(record) and record[position]]
        if self.decimal_comma:
            if any("." in cell for cell in cells):
                return False
            cells = [cell.replace(",", ".") for cell in cells]
        try:
            np.array(cells, dtype=np.str_).astype(np.float64)
        except ValueError:
            return False
        return True


def sniff(path: Path) -> Dialect:
    """How the text table in a file is to be read; refused when it is none."""
    content, guessed = None, None
    with path.open("rb") as file:
        start, cut = _read_sample(path, file)
    if start.startswith(GZIP):
        content = unpack(path)
        if not content:
            raise InputError(f"{path} is empty: the gzip file holds no bytes.")
        start, cut = _read_sample(path, io.BytesIO(content))
    _refuse_foreign(path, start)
    if start.startswith(_UTF16_MARKS):
        content = _recode(path, content, "utf-16")
    elif half := _find_utf16(start):
        content = _recode(path, content, half)
    elif not _is_utf8(start, cut):
        try:
            content, guessed = _recode(path, content, "cp1252"), "Windows-1252"
        except InputError:
            # A few bytes mean nothing in Windows-1252; all of them mean something in Latin-1.
            content, guessed = _recode(path, content, "latin-1"), "Latin-1"
    elif start.removeprefix(_UTF8_MARK).startswith((b"\r", b"\n")):
        content = _recode(path, content, "utf-8")
        if not content:
            raise InputError(f"{path} is empty: it has blank lines only.")
    if content is not None:
        start, cut = _read_sample(path, io.BytesIO(content))
    if b"\r" in start and b"\n" not in start:
        # How old Macs end lines, and Excel still does on demand.
        content = (path.read_bytes() if content is None else content).replace(b"\r", b"\n")
        start, cut = _read_sample(path, io.BytesIO(content))
    if (plain := _without_drawing(path, content, start)) is not None:
        content = plain
        start, cut = _read_sample(path, io.BytesIO(content))
    lines = start.removeprefix(_UTF8_MARK).decode("utf-8", errors="replace")
    if cut:
        lines = lines[: lines.rfind("\n") + 1]
    separator, above = _find_separator(path, lines)
    if above:
        lines = lines.split("\n", above)[-1]
        raw = path.read_bytes() if content is None else content
        *skipped, content = raw.removeprefix(_UTF8_MARK).split(b"\n", above)
        skipped_lines = tuple(line.decode("utf-8", errors="replace").strip() for line in skipped)
    header, *records = _sample(path, lines, separator) or [[]]
    if not any(name.strip() for name in header) and not records:
        raise InputError(f"{path} is empty: it has no header and no rows.")
    named = 1
    if records and (joint := join_headers(header, records[0])):
        header, records, named = joint, records[1:], 2
    if names_missing := _name_columns(path, header):
        records, header, named = [header, *records], names_missing, 0
    names = tuple(" ".join(name.split()) or f"column {number}" for number, name in enumerate(header, start=1))
    check_unique(names, str(path))
    sample = tuple(tuple(record) for record in records if record)
    if not sample:
        raise InputError(f"{path} has a header but no rows.")
    comma = separator != "," and _has_decimal_comma(sample)
    return Dialect(path, content, separator, comma, names, sample, guessed, named, skipped_lines if above else ())


def _find_utf16(start: bytes) -> str | None:
    """The kind of UTF-16 of a text that does not say so: every other byte of most of its letters is zero."""
    low, high = start[::2].count(0), start[1::2].count(0)
    if max(low, high) <= len(start) // 4 or min(low, high) > 0:
        return None
    return "utf-16-le" if high else "utf-16-be"


def _without_drawing(path: Path, content: bytes | None, start: bytes) -> bytes | None:
    """The text of a table that is drawn with lines or set in columns of spaces, without these; None for any other.

    Lines keep their numbers: one that is drawn becomes an empty one.
    """
    text = start.replace(b"\r\n", b"\n")
    plain = None
    if _RULE.search(text):
        whole = (path.read_bytes() if content is None else content).replace(b"\r\n", b"\n")
        plain = content = _INDENT.sub(b"", _PADDING.sub(b"|", _BORDERS.sub(rb"\1", _RULE.sub(b"", whole))))
        text = content[:_SAMPLE_BYTES]
    records = [_SPACES.split(line.strip()) for line in text.decode("utf-8-sig", errors="replace").split("\n")[:-1]]
    records = [record for record in records if record != [""]]
    width = len(records[0]) if records else 0
    marked = any(mark in name for name in (records[0] if records else ()) for mark in _SEPARATORS)
    if marked or width < 2 or len(records) < 3 or any(len(record) != width for record in records):
        return plain
    if not all(_STAMP_WITHOUT_SPACES.fullmatch(first) for first, *_ in records[1:]):
        return plain
    # Numbers, times of day or words for missing ones.
    cells = [cell for _, *others in records[1:] for cell in others]
    if not all(_NUMBER_OR_STAMP.match(cell) or cell.lower() in ("na", "nan", "null", "n/a", "-") for cell in cells):
        return plain
    whole = path.read_bytes() if content is None else content
    return b"\n".join(b"\t".join(line.split()) for line in whole.splitlines())


def _find_separator(path: Path, lines: str) -> tuple[str, int]:
    """What stands between cells, and how many lines stand above the header.

    It is the mark that gives most records as many fields as the header, and the header most fields. One that leaves a
    header alone has taken a quote inside it for the beginning of a cell.
    """
    declared = re.match(r"(?i)sep=(.)[\r\n]", lines)
    if declared is not None:
        return declared[1], 1
    # Lines that are empty stand above the header in any case.
    blank = lines[: len(lines) - len(lines.lstrip("\r\n"))].count("\n")
    separator, above, best = ",", blank, (False, 0.0, 1, False)
    for mark in _SEPARATORS:
        try:
            records = _sample(path, lines, mark)
        except InputError:
            continue  # divided by the wrong mark, a long line is one cell
        first = max(blank, _count_lines_above(records))
        widths = [len(record) for record in records[first:] if record]
        if widths and widths[0] > 1:
            # Of two that divide rows alike, the one that leaves no quotation mark inside a name.
            whole = not any('"' in name for name in next(filter(None, records[first:])))
            score = (len(widths) > 1, sum(width == widths[0] for width in widths) / len(widths), widths[0], whole)
            if score > best:
                separator, above, best = mark, first, score
    return separator, above


def _count_lines_above(records: list[list[str]]) -> int:
    """The number of records above the header: a title, remarks, empty lines, before a row of names above many rows."""
    widths = [len(record) for record in records if record]
    width = max(set(widths), key=widths.count, default=0)
    for number, record in enumerate(records[:_MOST_LINES_ABOVE]):
        filled = [cell.strip() for cell in record if cell.strip()]
        remark = bool(filled) and filled[0].startswith("#") and len(record) < width
        if not remark and len(record) == width and len(filled) > 1:
            named = len(filled) == width and not any(_NUMBER_OR_STAMP.match(cell) for cell in filled)
            return number if named or not number else 0
        if not remark and len(filled) > 1 and len(record) > width:
            return 0
    return 0


def join_headers(upper: Sequence[str], lower: Sequence[str]) -> list[str]:
    """The names of columns below headers that stand over several, as merged cells do; none where there are no such.

    Each column that the upper line leaves without a name has one in the lower line.
    """
    names, below = [name.strip() for name in upper], [name.strip() for name in lower]
    if len(names) != len(below) or not names[0] or all(names) or not all(below[1:]):
        return []
    if any(_NUMBER_OR_STAMP.match(cell) for cell in (*names, *below)) or below[0] not in ("", names[0]):
        return []
    over = names[0]
    joint = [over]
    for name, part in zip(names[1:], below[1:], strict=True):
        over = name or over
        joint.append(f"{over} {part}")
    return joint if names[1] else []


def _name_columns(path: Path, header: list[str]) -> list[str]:
    """Names for the columns of a file whose first line is a row; none where it holds names.

    A stamp followed by numbers, and a number alone, are such a line.
    """
    cells = [cell.strip() for cell in header]
    numbers = [bool(_NUMBER.fullmatch(cell)) for cell in cells]
    if len(cells) == 1 and numbers[0]:
        return ["value"]
    stamps = [bool(_STAMP_AS_NAME.fullmatch(cell)) for cell in cells]
    if stamps[0] and len(cells) > 1 and all(numbers[1:]):
        return ["date", *(["value"] if len(cells) == 2 else [f"value {place}" for place in range(1, len(cells))])]
    if stamps[0]:
        raise InputError(
            f"{path}, line 1 holds a stamp where column names are expected; add a header line such as date,value."
        )
    return []


def _read_sample(path: Path, file: BinaryIO) -> tuple[bytes, bool]:
    """The first lines of a text, more bytes where lines are long, and whether others may follow."""
    start = file.read(_SAMPLE_BYTES)
    while start.count(b"\n") < _SAMPLE_LINES and len(start) >= _SAMPLE_BYTES:
        if len(start) >= _MOST_SAMPLE_BYTES and b"\n" not in start and b"\r" not in start:
            raise InputError(f"{path} is not a text table (its first line has over {len(start):,} bytes); {_REMEDY}.")
        more = file.read(len(start))
        if not more:
            return start, False
        start += more
    return start, len(start) >= _SAMPLE_BYTES


def _refuse_foreign(path: Path, start: bytes) -> None:
    for kind, marks in _FOREIGN.items():
        if start.startswith(marks):
            raise InputError(f"{path} is {kind}, not a text table; {_REMEDY}.")
    if b"\x00" in start and not start.startswith(_UTF16_MARKS) and _find_utf16(start) is None:
        raise InputError(f"{path} is not a text table (it holds zero bytes); {_REMEDY}.")
    if len(start) - len(start.translate(None, _CONTROL)) > len(start) // 50:
        raise InputError(f"{path} is not a text table (it holds control characters); {_REMEDY}.")


def _is_utf8(start: bytes, cut: bool) -> bool:
    try:
        start.decode("utf-8")
    except UnicodeDecodeError as error:
        # A sample that is cut off may end inside a character of up to four bytes.
        return cut and error.start > len(start) - 4
    return True


def _recode(path: Path, content: bytes | None, encoding: str) -> bytes:
    """The whole text as UTF-8 without blank lines in front."""
    raw = path.read_bytes() if content is None else content
    if encoding == "utf-8":
        return raw.removeprefix(_UTF8_MARK).lstrip(b"\r\n")
    try:
        return raw.decode(encoding).lstrip("\ufeff\r\n").encode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text table ({error.reason}); {_REMEDY}.") from error


def _sample(path: Path, lines: str, separator: str) -> list[list[str]]:
    """The header and the first records."""
    reader = csv.reader(io.StringIO(lines, newline=""), delimiter=separator)
    try:
        return [record for _, record in zip(range(_SAMPLE_RECORDS + 1), reader, strict=False)]
    except csv.Error as problem:
        # A cell of more than 131,072 letters, most often because a quotation mark is never closed.
        raise InputError(f"{path}, line {reader.line_num} can't be read as a row ({problem}); mend it.") from None


def _has_decimal_comma(sample: tuple[tuple[str, ...], ...]) -> bool:
    """Whether all decimals have commas; a cell such as 1.234,5 or 1,234.5 shows what the points of others are."""
    cells = [cell.strip() for record in sample for cell in record]
    if any(re.match(_COMMAS_BETWEEN_THOUSANDS, cell) for cell in cells):
        return False
    points = [cell for cell in cells if _DECIMAL_POINT.fullmatch(cell)]
    grouped = [match for match in map(_POINTS_BETWEEN_THOUSANDS.fullmatch, cells) if match is not None]
    if any(match["decimals"] for match in grouped):
        return all(map(_POINTS_BETWEEN_THOUSANDS.fullmatch, points))
    return any(map(_DECIMAL_COMMA.fullmatch, cells)) and not points


def read_csv(dialect: Dialect, text_columns: Collection[str], decimal: str | None = None) -> Table:
    """The table in a text file; `text_columns` (in lower case) are kept as they are written.

    `decimal` is the decimal mark, where it is not to be inferred.
    """
    import narwhals as nw

    if decimal is not None:
        dialect = replace(dialect, decimal_comma=decimal == ",")
    numeric = {
        name
        for position, name in enumerate(dialect.names)
        if name.casefold() not in text_columns and dialect.is_numeric(position)
    }
    surplus: tuple[tuple[int, int], ...] = ()
    if has_polars():
        frame, surplus = _read_with_polars(dialect, numeric)
    else:
        frame = _read_with_pandas(dialect, numeric)
    frame = _without_guards(frame, numeric)
    blank = np.ones(len(frame), dtype=bool)
    for name in frame.columns:
        if not blank.any():
            break
        blank &= frame[name].is_null().to_numpy()
    rows = np.flatnonzero(~blank) if blank.any() else None
    if rows is not None:
        frame = frame[rows.tolist()]
        places = {row: place for place, row in enumerate(rows.tolist())}
        surplus = tuple((places[row], fields) for row, fields in surplus if row in places)
    if len(frame) == 0:
        raise InputError(f"{dialect.path} has a header but no rows.")
    comma_groups = False
    if not dialect.decimal_comma and dialect.separator != ",":
        # The cell that shows what commas mean may stand far behind the sample.
        texts = (column.drop_nulls() for column in frame.iter_columns() if column.dtype == nw.String)
        comma_groups = any(column.str.contains(_COMMAS_BETWEEN_THOUSANDS).any() for column in texts)
    return Table(
        tuple(frame.columns),
        str(dialect.path),
        "file",
        frame.get_column,
        lambda row: f"line {dialect.line_of(row if rows is None else int(rows[row]))}",
        separator=dialect.separator,
        decimal_comma=dialect.decimal_comma,
        comma_groups=comma_groups,
        numeric=frozenset(numeric),
        decimal=decimal,
        surplus=surplus,
        reopen=lambda text_columns, _: read_csv(dialect, text_columns, decimal),
        notes=tuple(_describe_dialect(dialect)),
    )


def _without_guards(frame: Frame, numeric: Collection[str]) -> Frame:
    """A frame whose cells such as ="2024-01-31" or '2024-01-31' are the text that they hold."""
    import narwhals as nw

    texts = [frame[name] for name in frame.columns if name not in numeric]
    guarded = [column for column in texts if column.str.contains(_GUARDED).fill_null(False).any()]
    return frame.with_columns(
        nw.new_series(
            column.name, [_unguard(cell) for cell in column.to_list()], nw.String(), backend=column.implementation
        )
        for column in guarded
    )


def _unguard(cell: str | None) -> str | None:
    guarded = isinstance(cell, str) and re.fullmatch(_GUARDED, cell)
    return cell.removeprefix("=")[1:-1] if guarded and cell else cell


def _describe_dialect(dialect: Dialect) -> Iterator[tuple[str, str]]:
    """What was inferred of the lines above the rows, and of the encoding."""
    above = [line for line in dialect.above if line.strip(f"{dialect.separator} ")]
    if above and not re.fullmatch("(?i)sep=.", above[0]):
        many = f"{len(dialect.above)} lines" if len(dialect.above) > 1 else "1 line"
        yield "header", f"The header is line {len(dialect.above) + 1}; {many} above it left out ({above[0][:60]!r})."
    if dialect.header == 2:
        yield "header", f"The header has two lines; the columns are called {listing(dialect.names)}."
    if not dialect.header and len(dialect.names) > 1:
        yield "header", f"There is no header; the columns are called {listing(dialect.names)}."
    if dialect.guessed_encoding is not None:
        guess = f"was read as {dialect.guessed_encoding}, which is a guess"
        yield "encoding", f"The file is not in UTF-8 and {guess}; save it in UTF-8 if a name looks wrong."


def _read_with_polars(dialect: Dialect, numeric: Collection[str]) -> tuple[Frame, tuple[tuple[int, int], ...]]:
    """The frame, and (row, fields) of the records with more fields than the header, whose surplus is cut off."""
    import narwhals as nw
    import polars as pl

    surplus: tuple[tuple[int, int], ...] = ()
    source = dialect.path if dialect.content is None else dialect.content
    if isinstance(source, Path) and any(sign in str(source) for sign in "*?["):
        source = source.read_bytes()  # polars before 2 takes such a name for a pattern, whatever `glob` says

    def read(numbers: Collection[str], *, cut: bool = False) -> pl.DataFrame:
        return pl.read_csv(
            source,
            has_header=bool(dialect.header),
            skip_rows_after_header=max(0, dialect.header - 1),
            new_columns=list(dialect.names),
            schema_overrides=[pl.Float64 if name in numbers else pl.String for name in dialect.names],
            infer_schema=False,
            separator=dialect.separator,
            encoding="utf8-lossy",
            truncate_ragged_lines=cut,
            glob=False,
        )

    def as_numbers(column: pl.Series) -> pl.Series:
        """A column of text as numbers, where every cell is one without marks between thousands; else as it is."""
        cells = column
        if dialect.decimal_comma:
            if column.str.contains(".", literal=True).any():
                return column
            cells = column.str.replace(",", ".", literal=True)
        numbers = cells.cast(pl.Float64, strict=False)
        return numbers if numbers.null_count() == column.null_count() else column

    try:
        # polars takes 1.234 for 1.234 even where decimals have commas, so there every cell is looked at as text first.
        frame = read(() if dialect.decimal_comma else numeric)
    except pl.exceptions.NoDataError as error:
        raise InputError(f"{dialect.path} has a header but no rows.") from error
    except (pl.exceptions.SchemaError, pl.exceptions.InvalidOperationError) as error:
        # Libraries differ on where a header with a stray mark ends.
        raise InputError(
            f"{dialect.path}: the header can't be read as names; look for a quotation mark or a line end in it."
        ) from error
    except pl.exceptions.ComputeError:
        surplus = tuple(
            (row - dialect.header, len(record))
            for row, (_, record) in enumerate(dialect.records())
            if len(record) > len(dialect.names)
        )
        try:
            frame = read((), cut=bool(surplus))
        except pl.exceptions.ComputeError as second:
            raise InputError(
                f"{dialect.path} can't be read as a table ({str(second).splitlines()[0]}); look for a quotation mark "
                "that is not closed."
            ) from second
    texts = [frame[name] for name in numeric if frame[name].dtype == pl.String]
    return nw.from_native(frame.with_columns(as_numbers(column) for column in texts), eager_only=True), surplus


def _read_with_pandas(dialect: Dialect, numeric: Collection[str]) -> Frame:
    import narwhals as nw
    import pandas as pd

    with warnings.catch_warnings():
        # pandas only warns when every row is longer than the header, and drops the surplus.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            frame = pd.read_csv(
                dialect.path if dialect.content is None else io.BytesIO(dialect.content),
                header=None,
                skiprows=dialect.header,
                names=list(dialect.names),
                index_col=False,
                dtype={name: str for name in dialect.names if name not in numeric},
                sep=dialect.separator,
                decimal="," if dialect.decimal_comma else ".",
                encoding="utf-8-sig",
                encoding_errors="replace",
                keep_default_na=False,
                na_values=[""],
                skip_blank_lines=False,
                low_memory=False,
            )
        except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
            for line, record in dialect.records():
                if len(record) > len(dialect.names):
                    raise InputError(
                        f"{dialect.path}, line {line} has {len(record)} fields, but the header names "
                        f"{len(dialect.names)} columns; remove the surplus, or quote a cell that contains the "
                        "separator."
                    ) from error
            raise InputError(
                f"{dialect.path} can't be read as a table ({error}); look for a quotation mark that is not closed."
            ) from error
    return nw.from_native(frame, eager_only=True)
