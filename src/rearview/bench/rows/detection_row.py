"""A detection result: one flat row that stands by itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rearview.bench.rows.row import Line

SCHEMA = 2

EARLIER = {1: 53}
"""Columns of the versions before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionRow(Line):
    """One run of one network on one labelled set with one seed; what was not measured is empty."""

    VERSION: ClassVar[int] = SCHEMA
    EARLIER: ClassVar[Mapping[int, int]] = EARLIER
    CONFIGURATION: ClassVar[tuple[str, ...]] = (
        "dataset", "values_sha256", "protocol", "mode", "lookback", "stride", "threshold_rule", "balance", "model",
        "attention", "attention_settings", "settings", "training", "seed",
    )  # fmt: skip

    schema: int = SCHEMA
    dataset: str
    values_sha256: str
    """Checksum of the numbers as they were read: training rows, test rows, labels."""
    entities: int
    train_rows: int
    test_rows: int
    channels: int
    protocol: str
    mode: str
    lookback: int
    stride: int
    """Rows from one scored window to the next."""
    threshold_rule: str
    balance: int
    """1 where a channel's error is divided by what is usual for it on held-out rows, else 0."""
    model: str
    attention: str
    attention_settings: str
    """JSON: the settings that were given."""
    settings: str
    """JSON: every setting of the network."""
    training: str
    """JSON: the settings of the training that were given."""
    seed: int
    version: str
    commit: str
    device: str
    torch: str
    threads: int
    parameters: int
    epochs: int
    best_epoch: int | None
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
    """The adjusted F1 of as many flags thrown at random."""
    train_seconds: float
    score_seconds: float
    """Scoring the test rows, judging aside."""
    total_seconds: float
    created: str
    status: str = "done"
    """done; or failed: the run broke off, `problem` says why and there are no measures."""
    problem: str = ""
    habits: str = ""
    """What the protocol did when the row was made, a sentence after another."""
    loop: str = ""
    """How the training step ran: eager, captured (in a CUDA graph), compiled, or compiled+captured."""
    setup_seconds: float | None = None
    """Time of compiling and capturing, part of `train_seconds`."""
    windows_per_second: float | None = None
    """Training windows visited per second of `train_seconds`."""
    peak_memory_bytes: int | None = None
    """Most memory held during the run: by torch on a CUDA device; else by the whole process, libraries included."""
    latency_ms: float | None = None
    """Median time of the forward pass of one window, in milliseconds."""
