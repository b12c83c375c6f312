"""JSON lines: a record a line, its keys the columns; an array of records, or one object of columns, is read as well."""

import io
import json
from pathlib import Path

from rearview.core.errors import InputError
from rearview.data.io.damage import GZIP, unpack
from rearview.data.io.table import Frame, Table, has_polars


def is_json(path: Path) -> bool:
    """Whether a file begins as a record or an array of records does."""
    with path.open("rb") as file:
        start = file.read(4096)
    if start.startswith(GZIP):
        start = unpack(path, 4096)
    return start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def read_json(path: Path) -> Table:
    """The table of a file of records."""
    content = path.read_bytes()
    content = (unpack(path) if content.startswith(GZIP) else content).removeprefix(b"\xef\xbb\xbf")
    if content.lstrip()[:1] == b"[":
        frame, word = _read_array(path, content), "record {}"
    elif records := _records_of_object(content):
        frame, word = _read_lines(path, "\n".join(map(json.dumps, records)).encode()), "record {}"
    else:
        frame, word = _read_lines(path, content), "line {}"
    if len(frame) == 0 or not frame.columns:
        raise InputError(f"{path} is empty: it has no records.")
    return Table(tuple(frame.columns), str(path), "file", frame.get_column, lambda row: word.format(row + 1))


def _records_of_object(content: bytes) -> list[dict[str, object]]:
    """The records of a single object: its columns (lists, or objects by row) or its one list of records; else none."""
    try:
        whole = json.loads(content)
    except ValueError:
        return []
    fields = list(whole.values())
    if all(isinstance(field, dict) for field in fields) and len({tuple(field) for field in fields}) == 1:
        fields = [list(field.values()) for field in fields]
    columns = [field for field in fields if isinstance(field, list)]
    plain = not any(isinstance(cell, dict | list) for field in columns for cell in field)
    if len(columns) == len(fields) and plain and len({len(field) for field in columns}) == 1:
        return [dict(zip(whole, row, strict=True)) for row in zip(*columns, strict=True)]
    tables = [field for field in fields if isinstance(field, list) and field and isinstance(field[0], dict)]
    return tables[0] if len(tables) == 1 and all(isinstance(record, dict) for record in tables[0]) else []


def _read_lines(path: Path, content: bytes) -> Frame:
    import narwhals as nw

    content = b"\n".join(line for line in content.splitlines() if line.strip())
    try:
        if has_polars():
            import polars as pl

            return nw.from_native(pl.read_ndjson(content, infer_schema_length=None), eager_only=True)
        import pandas as pd

        whole = pd.read_json(io.BytesIO(content), lines=True, dtype=False, convert_dates=False)
        return nw.from_native(whole, eager_only=True)
    except Exception as error:
        # Both readers raise their own kinds; the first line that is no record says more than either.
        for number, line in enumerate(content.splitlines(), start=1):
            try:
                record = json.loads(line)
            except ValueError as problem:
                raise InputError(
                    f"{path}, line {number} is no JSON record ({problem}); correct or remove it."
                ) from error
            if not isinstance(record, dict):
                raise InputError(f"{path}, line {number} holds no JSON record, such as {{...}}.") from error
        raise InputError(f"{path} can't be read as JSON lines: {str(error).splitlines()[0]}.") from error


def _read_array(path: Path, content: bytes) -> Frame:
    try:
        records = json.loads(content)
    except ValueError as error:
        raise InputError(f"{path} can't be read as JSON ({error}); write a record a line.") from error
    if not all(isinstance(record, dict) for record in records):
        raise InputError(f"{path} holds a JSON array of something else than records; write a record a line.")
    return _read_lines(path, "\n".join(json.dumps(record) for record in records).encode())
