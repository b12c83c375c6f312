"""A table: named columns from a file or a frame, fetched one at a time, and the place of every row for refusals.

Everything behind this file sees narwhals series only and never asks whether pandas, polars or arrow holds them. Columns
are fetched one by one so that a file much larger than a column is never in memory twice.
"""

import importlib.util
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rearview.core.errors import InputError, did_you_mean
from rearview.core.wording import listing

if TYPE_CHECKING:
    import narwhals as nw
    import numpy as np
    from numpy.typing import NDArray

Backend = Literal["pandas", "polars", "pyarrow", "file"]
Frame: TypeAlias = "nw.DataFrame[Any]"
TableColumn: TypeAlias = "nw.Series[Any]"
ROW_NAME = "row"
"""What row numbers are called as a time column."""
INDEX_NAME = "date"
"""What a pandas index of stamps without a name is called as a column."""
INDEX_ID_NAME = "unique_id"
"""What a level without a name beside it is called."""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns by name, and words for where a row stands."""

    names: tuple[str, ...]
    source: str
    """How messages call the data: the file, or "the frame"."""
    backend: Backend
    fetch: Callable[[str], TableColumn]
    place: Callable[[int], str]
    """'line 7' or 'row 5' for a row, counted from 0, of the table."""
    time_index: str | None = None
    """The column that was a pandas index of stamps."""
    periods: Mapping[str, str] = field(default_factory=dict)
    """The frequency of pandas, such as Q-NOV, of columns that held periods; they became the moments these begin."""
    plain_index: "nw.Series[Any] | None" = None
    """A pandas index of text, or of numbers with a name, that became no column."""
    separator: str | None = None
    """What stands between the cells of a text file."""
    decimal_comma: bool = False
    """All numbers of a text file are written with a decimal comma."""
    comma_groups: bool = False
    """A cell such as 1,234.5 of a text file shows that its commas stand between thousands."""
    numeric: frozenset[str] = frozenset()
    """Columns of a text file that were read as numbers, not as they are written."""
    index_levels: frozenset[str] = frozenset()
    """Levels of a pandas index that were left out."""
    index_keys: frozenset[str] = frozenset()
    """Levels of a pandas index beside its stamps, which may name series whatever they are called."""
    reopen: "Callable[[Collection[str], Collection[str]], Table] | None" = None
    """Opens the same data with other text columns and index names (see `open_table`)."""
    decimal: str | None = None
    """The decimal mark of numbers written as text, where it is given: "." or ","."""
    missing: frozenset[str] = frozenset()
    """Words in lower case that stand for a missing value, beside the usual ones."""
    notes: tuple[tuple[str, str], ...] = ()
    """(key, sentence) on what opening the data inferred."""
    id_names: tuple[str, ...] = ()
    """Columns that tell series apart by the way the data came, such as in several files."""
    starts: tuple[int, ...] = (0,)
    """The rows with which the files of a table begin."""
    surplus: tuple[tuple[int, int], ...] = ()
    """(row, fields) of the records of a text file that have more fields than the header; they were cut off."""
    parsed: "dict[str, object]" = field(default_factory=dict, repr=False, compare=False)
    """Columns of text as numbers, kept for the next panel that is read from this table."""

    def __len__(self) -> int:
        """Rows."""
        return len(self.fetch(self.names[0]))

    def select(self, rows: "NDArray[np.int64]") -> "Table":
        """Some rows of this table, each still known by its place in the file."""
        # Rows that follow one another are a view of the column; others are copied.
        whole = len(rows) > 0 and int(rows[-1]) - int(rows[0]) + 1 == len(rows)
        taken = slice(int(rows[0]), int(rows[-1]) + 1) if whole else rows
        return replace(
            self,
            fetch=lambda name: self.fetch(name)[taken],
            place=lambda row: self.place(int(rows[row])),
            reopen=self.reopen_with(lambda table: table.select(rows)),
            surplus=(),
            plain_index=None,
            starts=tuple(sorted({bisect_left(rows, start) for start in self.starts})),
            parsed={},
        )

    def add_column(self, name: str, cells: "NDArray[np.generic]", *, last: bool = False) -> "Table":
        """This table with one more column, before or after the others."""
        import narwhals as nw

        library = self.fetch(self.names[0]).implementation
        # polars takes numpy text as objects.
        values = cells.tolist() if cells.dtype.kind == "U" else cells
        return replace(
            self,
            names=(*self.names, name) if last else (name, *self.names),
            fetch=lambda one: nw.new_series(name, values, backend=library) if one == name else self.fetch(one),
            reopen=self.reopen_with(lambda table: table.add_column(name, cells, last=last)),
            parsed={},
        )

    def rebuild(self, columns: Mapping[str, Sequence[object]], place: Callable[[int], str]) -> "Table":
        """A table of other rows, made from the cells of this one; `place` says where in the file a row comes from."""
        import narwhals as nw

        library = self.fetch(self.names[0]).implementation
        series = {name: nw.new_series(name, cells, backend=library) for name, cells in columns.items()}
        return replace(
            self,
            names=tuple(series),
            fetch=series.__getitem__,
            place=place,
            numeric=frozenset(),
            reopen=None,
            plain_index=None,
            parsed={},
        )

    def with_index(self) -> "Table | None":
        """This table with its plain index as its first column; None where there is none."""
        index = self.plain_index
        if index is None or index.name in self.names:
            return None

        def fetch(name: str) -> TableColumn:
            return index if name == index.name else self.fetch(name)

        names = (index.name, *self.names)
        return replace(self, names=names, fetch=fetch, plain_index=None, parsed={})

    def reopen_with(self, change: "Callable[[Table], Table]") -> "Callable[..., Table] | None":
        """How the data is opened again where a change was made to it; None where it can't be."""
        reopen = self.reopen
        return None if reopen is None else lambda text, index: change(reopen(text, index))

    def suited_to(
        self, text_columns: Collection[str], index_names: Collection[str], decimal: str | None = None
    ) -> "Table":
        """This table, or the data opened again where it read as numbers or left out what is named here."""
        unsuited = any(name.casefold() in text_columns for name in self.numeric)
        if decimal is not None and decimal != self.decimal:
            return replace(self, decimal=decimal, parsed={})
        if self.reopen is None or not (unsuited or self.index_levels & set(index_names)):
            return self
        return self.reopen(text_columns, index_names)

    def at(self, row: int) -> str:
        """'sales.csv, line 7': the place of a row as refusals name it."""
        return f"{self.source}, {self.place(int(row))}"

    def describe_unknown(self, name: str, role: str) -> str:
        """The refusal of a name that is no column, with the nearest one that is."""
        near = did_you_mean(name, self.names)
        return f"{self.source} has no column {name!r}, which {role} names.{near} Its columns are {listing(self.names)}."


def check_unique(names: Sequence[str], source: str) -> None:
    """Refuse two columns of one name."""
    seen: dict[str, int] = {}
    for position, name in enumerate(names, start=1):
        if name in seen:
            raise InputError(
                f"{source} has two columns called {name!r} (columns {seen[name]} and {position}); "
                "rename or remove one of them."
            )
        seen[name] = position


def has_polars() -> bool:
    """Whether polars is installed; pandas or pyarrow read files elsewhere."""
    return importlib.util.find_spec("polars") is not None


def from_frame(given: Any, *, index_names: Collection[str] = ()) -> Table:
    """The table of a pandas, polars, arrow or other frame that narwhals takes; a lazy frame is collected.

    A pandas series is a frame of one column, called y where it has no name. Levels of a pandas index become columns
    when they hold stamps, stand beside one that does, or are called one of `index_names`.
    """
    import narwhals as nw

    source, time_index, index_levels, index_keys = "the frame", None, frozenset[str](), frozenset[str]()
    frame, periods, plain = given, dict[str, str](), None
    if hasattr(frame, "index") and hasattr(frame, "to_frame") and not hasattr(frame, "columns"):
        frame = frame.to_frame("y" if frame.name is None else str(frame.name))
    if hasattr(frame, "index") and hasattr(frame, "columns"):
        plain = _plain_index(frame.index)
        frame, periods, time_index, index_levels, index_keys = _flatten_pandas(frame, source, index_names)
    elif hasattr(frame, "column_names"):
        check_unique([str(name) for name in frame.column_names], source)
    try:
        taken: Any = nw.from_native(frame)
    except TypeError as error:
        kind = f"{type(frame).__module__}.{type(frame).__qualname__}"
        raise InputError(
            f"data of type {kind} can't be read; give a file name, a pandas, polars or arrow frame, or a numpy array."
        ) from error
    if isinstance(taken, nw.LazyFrame):
        taken = taken.collect()
    names = tuple(taken.columns)
    if not names or len(taken) == 0:
        raise InputError(f"{source} is empty: it has {len(taken)} rows and {len(names)} columns.")
    library = taken.implementation
    return Table(
        names,
        source,
        "polars" if library.is_polars() else "pandas" if library.is_pandas_like() else "pyarrow",
        taken.get_column,
        "row {}".format,
        time_index,
        periods,
        None if plain is None or time_index is not None else nw.from_native(plain, series_only=True),
        index_levels=index_levels,
        index_keys=index_keys,
        reopen=lambda _, index_names: from_frame(given, index_names=index_names),
    )


def name_index(frame: Any, name: str) -> Any:
    """A pandas frame whose single index, not of numbers, has no name, with this name; anything else as it is."""
    index: Any = getattr(frame, "index", None)
    if getattr(index, "names", None) != [None] or name in getattr(frame, "columns", ()):
        return frame
    return frame.rename_axis(name) if index.dtype.kind in "MO" else frame


def from_array(array: "NDArray[np.generic]") -> Table:
    """The table of an array [row] or [row, column], whose rows follow one another at equal steps."""
    import polars as pl

    if array.ndim not in (1, 2) or array.size == 0 or array.dtype.kind not in "biuf":
        raise InputError(
            f"an array of shape {array.shape} and type {array.dtype} can't be read; give numbers, [row] or "
            "[row, column]."
        )
    columns = array.reshape(len(array), -1)
    names = ["y"] if columns.shape[1] == 1 else [f"y{number}" for number in range(1, columns.shape[1] + 1)]
    cells = {ROW_NAME: range(1, len(array) + 1), **dict(zip(names, columns.T, strict=True))}
    return replace(from_frame(pl.DataFrame(cells, nan_to_null=True)), source="the array", time_index=ROW_NAME)


def _flatten_pandas(
    frame: Any, source: str, index_names: Collection[str]
) -> tuple[Any, dict[str, str], str | None, frozenset[str], frozenset[str]]:
    """A pandas frame with text for column names, stamps for periods, and columns for an index of stamps or ids.

    Beside it: the frequencies of periods, the column that was an index of stamps, the index levels that became no
    column, and those that became one because they stand beside stamps.
    """
    if frame.columns.nlevels > 1:
        raise InputError(f"{source} has column names of {frame.columns.nlevels} levels; flatten them to one level.")
    names = [str(name) for name in frame.columns]
    check_unique(names, source)
    added, periods, left_out, keys, time_index = {}, dict[str, str](), set(), set(), None
    levels = [frame.index.get_level_values(number) for number in range(frame.index.nlevels)]
    temporal = [level.dtype.kind == "M" or _is_period(level.dtype) for level in levels]
    for level, stamps in zip(levels, temporal, strict=True):
        # Beside stamps, keys tell series apart, as those of pandas' concat do; a row number or a single key does not.
        beside = any(temporal) and 1 < level.nunique() < len(level)
        unnamed = INDEX_NAME if stamps else INDEX_ID_NAME if beside else ""
        name = unnamed if level.name is None else str(level.name)
        if not name or name in names or name in added:
            continue
        if stamps or beside or name in index_names:
            added[name] = level
            if _is_period(level.dtype):
                added[name], periods[name] = level.to_timestamp(), _frequency(level.dtype)
            time_index = name if stamps else time_index
            keys |= {name} if beside and not stamps else set()
        else:
            left_out.add(name)
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        if _is_period(dtype):
            added[str(name)], periods[str(name)] = frame[name].dt.to_timestamp(), _frequency(dtype)
    if any(not isinstance(name, str) for name in frame.columns):
        frame = frame.set_axis(names, axis=1)
    return (frame.assign(**added) if added else frame), periods, time_index, frozenset(left_out), frozenset(keys)


def _plain_index(index: Any) -> Any:
    """A pandas index of text, or of numbers with a name, as a series: files read without dates have stamps there."""
    if index.nlevels > 1 or (index.dtype.kind != "O" and not index.name):
        return None
    return index.to_series(index=range(len(index)), name=INDEX_NAME if index.name is None else str(index.name))


def _is_period(dtype: Any) -> bool:
    # numpy is slow to spell its dtypes, and no period is one of them.
    return dtype.kind == "O" and str(dtype).startswith("period")


def _frequency(period: Any) -> str:
    """'Q-NOV' of the dtype period[Q-NOV]; its offset would call it QE-NOV, of which pandas makes no period."""
    return str(period).removeprefix("period[").removesuffix("]")
