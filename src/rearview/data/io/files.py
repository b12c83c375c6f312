"""From a file to a table: CSV in all its dress and parquet, with polars where it is installed and pandas elsewhere.

Both readers are told the same names and types, so they give the same cells. A column is read as numbers when its first
records are numbers; when a later cell is not, the file is read once more as text and the cell is found and named.
"""

import importlib.util
import warnings
from collections.abc import Collection, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.io import csv_dialect
from rearview.data.io.csv_dialect import Text
from rearview.data.io.table import INDEX_NAME, Table, check_unique, from_frame

if TYPE_CHECKING:
    import narwhals as nw
    import polars as pl

_BATCH_BYTES = 32 << 20
_PANDAS_INDEX = "__index_level_"


def open_table(source: Any, *, text_columns: Collection[str] = (), index_names: Collection[str] = ()) -> Table:
    """The table in a file (str or Path) or frame, or a table that is open already.

    In a text file `text_columns` (in lower case) are kept as they are written; levels of a pandas index become columns
    where they hold stamps or are among `index_names`.
    """
    if isinstance(source, Table):
        return source.suited_to(text_columns, index_names)
    if not isinstance(source, str | Path):
        return from_frame(source, index_names=index_names)
    path = Path(source)
    return _parquet(path) if csv_dialect.is_parquet(path) else _csv(csv_dialect.text(path), text_columns)


def column_names(source: Any) -> tuple[str, ...]:
    """The columns of a file, frame or table; of a file the beginning alone is read, and refused if it is no table's."""
    if isinstance(source, Table):
        return source.names
    if not isinstance(source, str | Path):
        return from_frame(source).names
    path = Path(source)
    return (
        tuple(_shown_names(_parquet_schema(path)[1])) if csv_dialect.is_parquet(path) else csv_dialect.text(path).names
    )


def present(source: Any, names: str | Sequence[str]) -> list[str]:
    """Those of some columns that a file or frame has."""
    there = column_names(source)
    return [name for name in listed(names) if name in there]


def listed(names: str | Sequence[str]) -> list[str]:
    """One name or several, as a list."""
    return [names] if isinstance(names, str) else list(names)


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _csv(text: Text, text_columns: Collection[str]) -> Table:
    path = text.path
    numeric = {
        name
        for position, name in enumerate(text.names)
        if name.casefold() not in text_columns and _numeric_so_far(text, position)
    }
    frame = _polars_csv(text, numeric) if _installed("polars") else _pandas_csv(text, numeric)
    records = _without_blank_lines(frame)
    if records is not None:
        frame = frame[records.tolist()]
    if len(frame) == 0:
        raise InputError(f"{path} has a header but no rows.")

    def place(row: int) -> str:
        return f"line {text.line_of(row if records is None else int(records[row]))}"

    return Table(
        tuple(frame.columns),
        str(path),
        "file",
        frame.get_column,
        place,
        separator=text.separator,
        decimal_comma=text.decimal_comma,
        comma_groups=not text.decimal_comma and text.separator != "," and _has_comma_groups(frame),
        guessed_encoding=text.guessed,
        numeric=frozenset(numeric),
        reopen=lambda text_columns, _: _csv(text, text_columns),
    )


def _numeric_so_far(text: Text, position: int) -> bool:
    """True when every cell of the column in the sample is a number without marks between thousands, or empty."""
    cells = [record[position] for record in text.sample if position < len(record) and record[position]]
    if text.decimal_comma:
        if any("." in cell for cell in cells):
            return False
        cells = [cell.replace(",", ".") for cell in cells]
    try:
        np.array(cells, dtype=np.str_).astype(np.float64)
    except ValueError:
        return False
    return True


def _has_comma_groups(frame: "nw.DataFrame[Any]") -> bool:
    """True when a cell shows that commas stand between thousands; it may stand far behind the sample."""
    import narwhals as nw

    texts = (series.drop_nulls() for series in frame.iter_columns() if series.dtype == nw.String)
    return any(series.str.contains(csv_dialect.COMMAS_BETWEEN_THOUSANDS).any() for series in texts)


def _polars_csv(text: Text, numeric: Collection[str]) -> "nw.DataFrame[Any]":
    import narwhals as nw
    import polars as pl

    def read(numbers: Collection[str]) -> pl.DataFrame:
        return pl.read_csv(
            text.path if text.content is None else text.content,
            new_columns=list(text.names),
            schema_overrides=[pl.Float64 if name in numbers else pl.String for name in text.names],
            infer_schema=False,
            separator=text.separator,
            encoding="utf8-lossy",
            glob=False,
        )

    try:
        # polars takes 1.234 for 1.234 even where decimals have commas, so there every cell is looked at as text first.
        frame = read(() if text.decimal_comma else numeric)
    except pl.exceptions.NoDataError as error:
        raise InputError(f"{text.path} has a header but no rows.") from error
    except pl.exceptions.ComputeError as error:
        _refuse_ragged(text, error)
        try:
            frame = read(())
        except pl.exceptions.ComputeError as second:
            raise InputError(f"{text.path} can't be read as a table: {str(second).splitlines()[0]}.") from second
    texts = [frame[name] for name in numeric if frame[name].dtype == pl.String]
    return nw.from_native(
        frame.with_columns(_numbers_in(column, decimal_comma=text.decimal_comma) for column in texts), eager_only=True
    )


def _numbers_in(column: "pl.Series", *, decimal_comma: bool) -> "pl.Series":
    """A column of text as numbers, where every cell is one without marks between thousands; else as it is."""
    import polars as pl

    cells = column
    if decimal_comma:
        if column.str.contains(".", literal=True).any():
            return column
        cells = column.str.replace(",", ".", literal=True)
    numbers = cells.cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == column.null_count() else column


def _pandas_csv(text: Text, numeric: Collection[str]) -> "nw.DataFrame[Any]":
    import io

    import narwhals as nw
    import pandas as pd

    with warnings.catch_warnings():
        # pandas only warns when every row is longer than the header, and drops the surplus.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            frame = pd.read_csv(
                text.path if text.content is None else io.BytesIO(text.content),
                header=None,
                skiprows=1,
                names=list(text.names),
                index_col=False,
                dtype={name: str for name in text.names if name not in numeric},
                sep=text.separator,
                decimal="," if text.decimal_comma else ".",
                encoding="utf-8-sig",
                encoding_errors="replace",
                keep_default_na=False,
                na_values=[""],
                skip_blank_lines=False,
                low_memory=False,
            )
        except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
            _refuse_ragged(text, error)
            raise InputError(f"{text.path} can't be read as a table: {error}.") from error
    return nw.from_native(frame, eager_only=True)


def _refuse_ragged(text: Text, error: Exception) -> None:
    found = text.too_many_fields()
    if found is not None:
        line, fields = found
        raise InputError(
            f"{text.path}, line {line} has {fields} fields, but the header names {len(text.names)} columns; "
            "remove the surplus, or quote a cell that contains the separator."
        ) from error


def _without_blank_lines(frame: "nw.DataFrame[Any]") -> NDArray[np.int64] | None:
    """The records that are not blank lines; None when there are no blank lines."""
    blank = frame[frame.columns[0]].is_null().to_numpy()
    for name in frame.columns[1:]:
        if not blank.any():
            return None
        blank = blank & frame[name].is_null().to_numpy()
    return np.flatnonzero(~blank) if blank.any() else None


def _parquet(path: Path) -> Table:
    """A parquet file whose columns are read from disk when they are asked for, a few at a time."""
    import narwhals as nw

    rows, stored = _parquet_schema(path)
    names = _shown_names(stored)
    if rows == 0:
        raise InputError(f"{path} is empty: it has columns but no rows.")
    check_unique(list(names), str(path))
    shown = list(names)
    per_batch = max(1, _BATCH_BYTES // (rows * 8))

    @lru_cache(maxsize=1)
    def batch(number: int) -> Any:
        wanted = [names[name] for name in shown[number * per_batch : (number + 1) * per_batch]]
        return nw.from_native(_parquet_columns(path, wanted), eager_only=True)

    def fetch(name: str) -> "nw.Series[Any]":
        series: nw.Series[Any] = batch(shown.index(name) // per_batch)[names[name]]
        return series

    return Table(tuple(shown), str(path), "file", fetch, "row {}".format)


def _parquet_schema(path: Path) -> tuple[int, dict[str, bool]]:
    """How many rows, and for each column whether it holds stamps."""
    try:
        if _installed("polars"):
            import polars as pl

            schema = pl.scan_parquet(path, glob=False).collect_schema()
            rows = int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
            return rows, {name: dtype.is_temporal() for name, dtype in schema.items()}
        import pyarrow.parquet
        import pyarrow.types

        file = pyarrow.parquet.ParquetFile(path)
        return file.metadata.num_rows, {c.name: pyarrow.types.is_temporal(c.type) for c in file.schema_arrow}
    except ModuleNotFoundError as error:
        raise InputError(
            f"{path} is a parquet file, and reading one needs polars or pyarrow; install either."
        ) from error
    except Exception as error:
        # Both readers raise their own kinds for a damaged file, and more than one of them.
        raise InputError(f"{path} is a damaged parquet file ({str(error).splitlines()[0]}); write it again.") from error


def _parquet_columns(path: Path, columns: list[str]) -> Any:
    if _installed("polars"):
        import polars as pl

        return pl.read_parquet(path, columns=columns, glob=False)
    import pyarrow.parquet

    return pyarrow.parquet.read_table(path, columns=columns, use_pandas_metadata=False)


def _shown_names(stored: dict[str, bool]) -> dict[str, str]:
    """Shown name to stored name; pandas' nameless index is shown when it holds stamps, and left out otherwise."""
    names: dict[str, str] = {}
    for name, temporal in stored.items():
        if not name.startswith(_PANDAS_INDEX):
            names[name] = name
        elif temporal and INDEX_NAME not in stored:
            names[INDEX_NAME] = name
    return names
