"""Parquet and Arrow (Feather) files: tables whose columns are read from disk when asked for, a few at a time."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from rearview.core.errors import InputError
from rearview.data.io.damage import refuse_damaged
from rearview.data.io.table import INDEX_NAME, Frame, Table, TableColumn, check_unique, has_polars

_BATCH_BYTES = 32 << 20
_PANDAS_INDEX = "__index_level_"


@dataclass(frozen=True, slots=True)
class ColumnarFile:
    """A file that stores a table by columns."""

    path: Path
    kind: Literal["parquet", "arrow"]

    def read(self) -> Table:
        """The table, with polars or else pyarrow."""
        rows, names = self._rows_and_names()
        if rows == 0:
            raise InputError(f"{self.path} is empty: it has columns but no rows.")
        shown = list(names)
        check_unique(shown, str(self.path))
        per_batch = max(1, _BATCH_BYTES // (rows * 8))

        @lru_cache(maxsize=1)
        def batch(number: int) -> Frame:
            stored = [names[name] for name in shown[number * per_batch : (number + 1) * per_batch]]
            with refuse_damaged(self.path, self.kind):
                return self._read_columns(stored)

        def fetch(name: str) -> TableColumn:
            return batch(shown.index(name) // per_batch)[names[name]]

        return Table(tuple(shown), str(self.path), "file", fetch, "row {}".format)

    def names(self) -> tuple[str, ...]:
        """The columns, from the schema alone."""
        return tuple(self._rows_and_names()[1])

    def _read_columns(self, stored: list[str]) -> Frame:
        import narwhals as nw

        if has_polars():
            import polars as pl

            if self.kind == "parquet":
                return nw.from_native(pl.read_parquet(self.path, columns=stored, glob=False), eager_only=True)
            return nw.from_native(pl.scan_ipc(self.path).select(stored).collect(), eager_only=True)
        if self.kind == "parquet":
            import pyarrow.parquet

            table = pyarrow.parquet.read_table(self.path, columns=stored, use_pandas_metadata=False)
        else:
            import pyarrow.feather

            table = pyarrow.feather.read_table(self.path, columns=stored)
        return nw.from_native(table, eager_only=True)

    def _rows_and_names(self) -> tuple[int, dict[str, str]]:
        """How many rows, and shown name -> stored name.

        pandas' nameless index is shown when it holds stamps, and left out otherwise.
        """
        try:
            with refuse_damaged(self.path, self.kind):
                rows, temporal = self._scan_with_polars() if has_polars() else self._scan_with_pyarrow()
        except ModuleNotFoundError as error:
            raise InputError(
                f"{self.path} is {'a' if self.kind == 'parquet' else 'an'} {self.kind} file, and reading one needs "
                "polars or pyarrow; install either."
            ) from error
        names = {name: name for name in temporal if not name.startswith(_PANDAS_INDEX)}
        index = next((name for name in temporal if name not in names and temporal[name]), None)
        return rows, names if index is None or INDEX_NAME in temporal else {**names, INDEX_NAME: index}

    def _scan_with_polars(self) -> tuple[int, dict[str, bool]]:
        """How many rows, and the columns, each with whether it holds stamps."""
        import polars as pl

        scan = pl.scan_parquet(self.path, glob=False) if self.kind == "parquet" else pl.scan_ipc(self.path)
        temporal = {name: dtype.is_temporal() for name, dtype in scan.collect_schema().items()}
        return int(scan.select(pl.len()).collect().item()), temporal

    def _scan_with_pyarrow(self) -> tuple[int, dict[str, bool]]:
        import pyarrow.types

        if self.kind == "parquet":
            import pyarrow.parquet

            file = pyarrow.parquet.ParquetFile(self.path)
            rows, schema = file.metadata.num_rows, file.schema_arrow
        else:
            import pyarrow.ipc

            with pyarrow.ipc.open_file(self.path) as opened:
                rows = sum(opened.get_batch(number).num_rows for number in range(opened.num_record_batches))
                schema = opened.schema
        return rows, {column.name: pyarrow.types.is_temporal(column.type) for column in schema}
