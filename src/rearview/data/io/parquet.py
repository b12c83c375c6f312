"""Parquet files: a table whose columns are read from disk when they are asked for, a few at a time."""

from functools import lru_cache
from pathlib import Path

from rearview.core.errors import InputError
from rearview.data.io.table import INDEX_NAME, Frame, Table, TableColumn, check_unique, has_polars

_BATCH_BYTES = 32 << 20
_PANDAS_INDEX = "__index_level_"


def read_parquet(path: Path) -> Table:
    """The table in a parquet file, with polars or else pyarrow."""
    import narwhals as nw

    rows, names = _rows_and_names(path)
    if rows == 0:
        raise InputError(f"{path} is empty: it has columns but no rows.")
    shown = list(names)
    check_unique(shown, str(path))
    per_batch = max(1, _BATCH_BYTES // (rows * 8))

    @lru_cache(maxsize=1)
    def batch(number: int) -> Frame:
        stored = [names[name] for name in shown[number * per_batch : (number + 1) * per_batch]]
        if has_polars():
            import polars as pl

            return nw.from_native(pl.read_parquet(path, columns=stored, glob=False), eager_only=True)
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(path, columns=stored, use_pandas_metadata=False)
        return nw.from_native(table, eager_only=True)

    def fetch(name: str) -> TableColumn:
        return batch(shown.index(name) // per_batch)[names[name]]

    return Table(tuple(shown), str(path), "file", fetch, "row {}".format)


def parquet_names(path: Path) -> tuple[str, ...]:
    """The columns of a parquet file, from its schema alone."""
    return tuple(_rows_and_names(path)[1])


def _rows_and_names(path: Path) -> tuple[int, dict[str, str]]:
    """How many rows, and shown name -> stored name.

    pandas' nameless index is shown when it holds stamps, and left out otherwise.
    """
    try:
        if has_polars():
            import polars as pl

            scan = pl.scan_parquet(path, glob=False)
            temporal = {name: dtype.is_temporal() for name, dtype in scan.collect_schema().items()}
            rows = int(scan.select(pl.len()).collect().item())
        else:
            import pyarrow.parquet
            import pyarrow.types

            file = pyarrow.parquet.ParquetFile(path)
            temporal = {column.name: pyarrow.types.is_temporal(column.type) for column in file.schema_arrow}
            rows = file.metadata.num_rows
    except ModuleNotFoundError as error:
        raise InputError(
            f"{path} is a parquet file, and reading one needs polars or pyarrow; install either."
        ) from error
    except Exception as error:
        # Both readers raise their own kinds for a damaged file, and more than one of them.
        raise InputError(f"{path} is a damaged parquet file ({str(error).splitlines()[0]}); write it again.") from error
    names = {name: name for name in temporal if not name.startswith(_PANDAS_INDEX)}
    index = next((name for name in temporal if name not in names and temporal[name]), None)
    return rows, names if index is None or INDEX_NAME in temporal else {**names, INDEX_NAME: index}
