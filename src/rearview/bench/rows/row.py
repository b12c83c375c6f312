"""A result is one flat row that stands by itself: what was run, on which data, by which code, and what came out.

Tables, ranks and comparisons are views of rows. Whatever has parts of its own (settings, borders) is JSON text with
sorted keys, so that equal runs have equal text.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, ClassVar, TypeVar

SCHEMA = 3
"""The version of the columns; it grows when one is added, renamed or changes its meaning."""

EARLIER = {1: 39, 2: 46}
"""Columns of the versions before: each added its own at the end, so older files are read, the new ones at defaults."""

CONFIGURATION = (
    "dataset",
    "values_sha256",
    "protocol",
    "lookback",
    "horizon",
    "model",
    "attention",
    "attention_settings",
    "calendar",
    "settings",
    "training",
    "seed",
    "loss",
    "adapters",
    "budget",
)
"""The columns that say what was asked for; `rearview.bench.rows.identity` tells which rows are one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What rows of every kind can do; a kind adds its columns, of which `schema` is the first."""

    VERSION: ClassVar[int]
    """The version of the columns."""
    EARLIER: ClassVar[Mapping[int, int]] = {}
    """How many columns the versions before had."""
    CONFIGURATION: ClassVar[tuple[str, ...]]
    """The columns that say what was asked for."""

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        """Every column, in order."""
        return tuple(field.name for field in fields(cls))

    @property
    def configuration(self) -> dict[str, Any]:
        """What was asked for."""
        return {name: getattr(self, name) for name in self.CONFIGURATION}

    def cells(self) -> list[str]:
        """The row as text, column by column; floats keep every digit."""
        return [_cell(value) for value in astuple(self)]

    @classmethod
    def defaults(cls, columns: int) -> list[str]:
        """As text: what a row written under the first `columns` columns has in those that came later."""
        return [_cell(field.default) for field in fields(cls)[columns:]]


AnyLine = TypeVar("AnyLine", bound=Line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Line):
    """One run of one model on one data set with one seed."""

    VERSION: ClassVar[int] = SCHEMA
    EARLIER: ClassVar[Mapping[int, int]] = EARLIER
    CONFIGURATION: ClassVar[tuple[str, ...]] = CONFIGURATION

    schema: int = SCHEMA
    dataset: str
    """The catalogue's name."""
    file_sha256: str
    """Checksum of the file, byte for byte; empty for a set that is generated."""
    values_sha256: str
    """Checksum of the numbers as they were read; the same for files that differ in their dress alone."""
    rows: int
    channels: int
    protocol: str
    borders: str
    """JSON: first row and row after the last of train, validation and test, context rows included."""
    lookback: int
    horizon: int
    model: str
    attention: str
    """The mechanism; empty for a model without attention."""
    attention_settings: str
    """JSON: every setting of the mechanism."""
    calendar: str
    """The step whose calendar features the model was fed, past only; empty: none."""
    settings: str
    """JSON: every setting of the network."""
    training: str
    """JSON: every setting of the training that bears on the outcome; {} for a model that does not train."""
    seed: int
    version: str
    """Of rearview."""
    commit: str
    """Of rearview's checkout when the process first ran a benchmark, "-dirty" behind it where the package had changes;
    empty outside a checkout."""
    device: str
    torch: str
    """Version of torch."""
    threads: int
    """CPU threads of torch."""
    parameters: int
    """Numbers that were trained."""
    train_windows: int
    validation_windows: int
    test_windows: int
    epochs: int
    """Epochs run."""
    best_epoch: int | None
    """The epoch whose weights were tested, the best on validation."""
    mse: float
    """On the test windows, pooled over windows, channels and steps, on the standardised scale."""
    mae: float
    original_mse: float
    """The same in original units."""
    original_mae: float
    validation_loss: float
    """What training minimised (`loss`), of the tested weights on the validation windows, standardised."""
    train_seconds: float
    """Wall time of training over all sessions of the run, validation after each epoch included; where several
    candidates were tried, of the one that was tested."""
    total_seconds: float
    """Everything: reading, training every candidate, testing and measuring."""
    windows_per_second: float | None
    """Training windows visited per second of `train_seconds`."""
    peak_memory_bytes: int | None
    """Most memory held during the run: by torch on a CUDA device; else by the whole process, libraries included."""
    latency_ms: float
    """Median time of the forward pass of one window, in milliseconds."""
    created: str
    """When the row was made: UTC, ISO 8601."""
    status: str = "done"
    """done; or failed: the run broke off, `problem` says why and there are no metrics."""
    problem: str = ""
    """Of a run that is done: what a reader of its numbers should know; empty where that is nothing."""
    loss: str = "mse"
    """What training minimised."""
    adapters: str = "[]"
    """JSON: what was put around the network, the outermost first."""
    budget: str = "{}"
    """JSON: which settings were tried, by what they were chosen, and where they were drawn, by whom and how often
    (optuna:20), from which space, with every loss; {}: none were tried."""
    loop: str = "eager"
    """How the training step ran: eager, captured (in a CUDA graph), compiled, or compiled+captured."""
    setup_seconds: float = 0.0
    """Time of compiling and capturing, part of `train_seconds`."""
    habits: str = ""
    """What the protocol did when the row was made, a sentence after another; empty in rows from before it was kept."""


COLUMNS = Row.columns()


def from_cells(kind: type[AnyLine], cells: Sequence[str], columns: int) -> AnyLine:
    """The row whose `cells` were written under the first `columns` columns; a ValueError says what can't be read."""
    if len(cells) != columns:
        raise ValueError(f"it has {len(cells)} cells instead of {columns}")
    values: dict[str, Any] = {}
    for field, cell in zip(fields(kind)[:columns], cells, strict=True):
        try:
            values[field.name] = _READERS[field.type](cell)
        except ValueError:
            raise ValueError(f"its {field.name} is {cell!r}") from None
    return kind(**values)


def _cell(value: Any) -> str:
    return "" if value is None else str(value)


def as_json(facts: Mapping[str, Any] | Sequence[Any]) -> str:
    """Facts as one line of JSON, the same for equal facts."""
    return json.dumps(facts, sort_keys=True, separators=(",", ":"))


_READERS: dict[Any, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    int | None: lambda cell: int(cell) if cell else None,
    float | None: lambda cell: float(cell) if cell else None,
}
