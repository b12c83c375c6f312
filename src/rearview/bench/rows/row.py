"""Result rows: one flat row a run, complete in itself: what was run, on which data, by which code, and the outcome.

Tables, ranks and comparisons are views of rows. Whatever has parts of its own (settings, borders) is JSON text with
sorted keys, so that equal runs have equal text.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, TypeVar

from rearview.core.files import read_yaml

AND = " + "
"""Between the versions of rearview and of plug-ins."""
Facts = Mapping[str, object]
"""Settings, columns and the like: names with values that JSON can write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """The base of all rows: a subclass adds its columns, of which `schema` is the first."""

    SCHEMA: ClassVar[int]
    """The version of the columns; it grows when one is added, renamed or changes its meaning."""
    EARLIER: ClassVar[Mapping[int, int]] = {}
    """Column counts of earlier schemas: each added its own at the end, so that older files stay readable."""
    CONFIGURATION: ClassVar[tuple[str, ...]]
    """The columns that describe the run; `rearview.bench.rows.identity` says which rows are the same run."""
    ORDER: ClassVar[tuple[str, ...]] = ()
    """The columns in the order of the file; those left out follow as declared."""

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        """Every column, in order."""
        return *cls.ORDER, *(field.name for field in fields(cls) if field.name not in cls.ORDER)

    @classmethod
    def build(cls, columns: Facts) -> Self:
        """The row with these columns; those left out have their defaults."""
        return cls(**columns)

    @classmethod
    def read(cls, cells: Sequence[str], columns: int) -> Self:
        """Read a row written under the first `columns` columns; a ValueError names the cell that can't be read."""
        if len(cells) != columns:
            raise ValueError(f"it has {len(cells)} cells instead of {columns}")
        kinds = {field.name: field.type for field in fields(cls)}
        values: dict[str, object] = {}
        for name, cell in zip(cls.columns()[:columns], cells, strict=True):
            try:
                values[name] = _READERS[kinds[name]](cell)
            except ValueError:
                raise ValueError(f"its {name} is {cell!r}") from None
        return cls.build(values)

    @property
    def configuration(self) -> dict[str, object]:
        """The columns that describe the run."""
        return {name: getattr(self, name) for name in self.CONFIGURATION}

    def cells(self) -> list[str]:
        """The row as text, column by column; floats keep every digit."""
        return [_cell(getattr(self, name)) for name in self.columns()]

    @classmethod
    def defaults(cls, columns: int) -> list[str]:
        """As text: what a row written under the first `columns` columns has in those added later."""
        values = {field.name: field.default for field in fields(cls)}
        return [_cell(values[name]) for name in cls.columns()[columns:]]


AnyRow = TypeVar("AnyRow", bound=ResultRow)


def declared_columns(task: str) -> tuple[int, Mapping[int, int], tuple[str, ...], tuple[str, ...]]:
    """Version, earlier versions, configuration and order of a task's rows, as columns.yaml has them."""
    facts = read_yaml("rearview.bench.rows", "columns")[task]
    return facts["schema"], facts["earlier"], tuple(facts["configuration"]), tuple(facts["columns"])


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeRow(ResultRow):
    """The columns of every row that a training made: mechanism, settings, code, machine, times."""

    schema: int
    attention: str
    """The mechanism; empty for a model without attention."""
    attention_settings: str
    """JSON: every setting of the mechanism; in detection those that were given."""
    settings: str
    """JSON: every setting of the network, in a study the sizes of data and network."""
    training: str
    """JSON: every training setting that bears on the outcome, in detection those that were given; {} for a model that
    does not train."""
    seed: int
    version: str
    """Of rearview, and behind it of the plug-ins that bring network or mechanism: 0.1.0 + fading 1.2."""
    commit: str
    """Of rearview's checkout when the process first ran a benchmark, with "-dirty" where the package had changes;
    empty outside a checkout."""
    device: str
    torch: str
    """Version of torch."""
    threads: int
    """CPU threads of torch."""
    parameters: int
    """Trained numbers."""
    train_seconds: float
    """Wall time of training over all sessions of the run, validation included; of several candidates, that of the one
    tested."""
    total_seconds: float
    """Everything: reading, training every candidate, testing and measuring."""
    loop: str = "eager"
    """The mode of the training step: eager, captured (in a CUDA graph), compiled, or compiled+captured."""
    created: str
    """When the row was made: UTC, ISO 8601."""

    @property
    def plug_ins(self) -> tuple[str, ...]:
        """Plug-ins of the run with their versions, as in 'fading 1.2'; older rows name none."""
        return tuple(self.version.split(AND)[1:])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow(MadeRow):
    """The columns that rows of forecasting, classification and detection share."""

    dataset: str
    """The catalogue's or the archive's name."""
    protocol: str
    lookback: int
    """Steps the network sees; shorter cases are padded."""
    channels: int
    model: str
    epochs: int
    """Epochs run."""
    best_epoch: int | None
    """The epoch whose weights were tested, the best on validation."""
    status: str = "done"
    """done; or failed: the run broke off, `problem` says why and there are no measures."""
    problem: str = ""
    """Of a finished run: what a reader of its numbers should know; empty: nothing."""
    habits: str = ""
    """The protocol's habits when the row was made, sentence by sentence; empty in rows older than this column."""
    setup_seconds: float | None = None
    """Time of compiling and capturing, part of `train_seconds`."""
    windows_per_second: float | None = None
    """Training windows visited per second of `train_seconds`."""
    peak_memory_bytes: int | None = None
    """Most memory held during the run: by torch on a CUDA device; else by the whole process, libraries included."""
    latency_ms: float | None = None
    """Median time of the forward pass of one window, in milliseconds."""
    curve: str = ""
    """JSON: `train` and `validation`, the losses epoch by epoch, of a search those of the candidate tested; empty where
    nothing was trained and in rows older than this column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(RunRow):
    """A forecasting run: one model on one data set with one seed."""

    SCHEMA, EARLIER, CONFIGURATION, ORDER = declared_columns("forecasting")

    schema: int = 4
    file_sha256: str
    """Checksum of the file, byte for byte; empty for a generated set."""
    values_sha256: str
    """Checksum of the numbers as read; the same for files that differ in form alone."""
    rows: int
    borders: str
    """JSON: first row and row after the last of train, validation and test, context rows included."""
    horizon: int
    calendar: str
    """The step whose calendar features the model was fed, past only; empty: none."""
    train_windows: int
    validation_windows: int
    test_windows: int
    mse: float
    """On the test windows, pooled over windows, channels and steps, on the standardised scale."""
    mae: float
    original_mse: float
    """The same in original units."""
    original_mae: float
    validation_loss: float
    """The loss that training minimised, of the tested weights on the validation windows, standardised."""
    loss: str = "mse"
    """The loss that training minimised."""
    adapters: str = "[]"
    """JSON: the adapters around the network, the outermost first."""
    budget: str = "{}"
    """JSON: the settings tried and how one was chosen; of drawn settings also the tuner with its trials (optuna:20),
    the space and every loss; {}: none were tried."""
    setup_seconds: float = 0.0
    latency_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationRow(RunRow):
    """A classification run: one network on one archive set with one seed."""

    SCHEMA, EARLIER, CONFIGURATION, ORDER = declared_columns("classification")

    schema: int = 3
    train_sha256: str
    """Checksum of the training file, byte for byte."""
    test_sha256: str
    classes: int
    train_cases: int
    validation_cases: int
    """Cases that picked the epoch; under published:tslib these are the test cases."""
    test_cases: int
    accuracy: float | None
    """Share of test cases classified right; empty where the run failed, as are the other measures."""
    macro_f1: float | None
    validation_criterion: float | None
    """The measure that picked the epoch: the share of validation cases got wrong, with a tie-break below 0.001."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionRow(RunRow):
    """A detection run: one network on one labelled set with one seed; what was not measured is empty."""

    SCHEMA, EARLIER, CONFIGURATION, ORDER = declared_columns("detection")

    schema: int = 3
    values_sha256: str
    """Checksum of the numbers as read: training rows, test rows, labels."""
    entities: int
    train_rows: int
    test_rows: int
    mode: str
    stride: int
    """Rows from one scored window to the next."""
    threshold_rule: str
    balance: int
    """1 where a channel's error is divided by its usual error on held-out rows, else 0."""
    validation_loss: float | None
    rows: int
    """Rows that were judged; under published:tslib windows times their length."""
    anomalous: int
    flagged: int
    threshold: float | None
    """The pooled one where entities have their own."""
    precision: float | None
    """Rows counted one by one at the threshold; empty where nothing was flagged."""
    recall: float | None
    f1: float | None
    best_f1: float | None = None
    auc_pr: float | None = None
    auc_roc: float | None = None
    vus_pr: float | None = None
    range_precision: float | None = None
    range_recall: float | None = None
    range_f1: float | None = None
    event_precision: float | None = None
    event_recall: float | None = None
    event_f1: float | None = None
    adjusted_precision: float | None
    """After point adjustment, which edits flags by labels."""
    adjusted_recall: float | None
    adjusted_f1: float | None
    adjusted_f1_by_chance: float | None
    """The adjusted F1 of as many flags placed at random."""
    score_seconds: float
    """Scoring the test rows, judging aside."""
    loop: str = ""


def as_json(facts: Facts | Sequence[object]) -> str:
    """Facts as one line of JSON, the same for equal facts."""
    return json.dumps(facts, sort_keys=True, separators=(",", ":"))


def _cell(value: object) -> str:
    return "" if value is None else str(value)


_READERS: Mapping[Any, Callable[[str], object]] = {
    str: str,
    int: int,
    float: float,
    int | None: lambda cell: int(cell) if cell else None,
    float | None: lambda cell: float(cell) if cell else None,
}
