"""JSON lines: a record a line, its keys the columns; an array of records is read as well."""

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
    else:
        frame, word = _read_lines(path, content), "line {}"
    if len(frame) == 0 or not frame.columns:
        raise InputError(f"{path} is empty: it has no records.")
    return Table(
        tuple(frame.columns), str(path), "file", frame.get_column, lambda row: word.format(row + 1), separator=None
    )


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
