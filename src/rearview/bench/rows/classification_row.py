"""A classification result: one flat row that stands by itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rearview.bench.rows.row import Line

SCHEMA = 2

EARLIER = {1: 33}
"""Columns of the versions before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationRow(Line):
    """One run of one network on one archive set with one seed."""

    VERSION: ClassVar[int] = SCHEMA
    EARLIER: ClassVar[Mapping[int, int]] = EARLIER
    CONFIGURATION: ClassVar[tuple[str, ...]] = (
        "dataset", "train_sha256", "test_sha256", "protocol", "model", "attention", "attention_settings", "settings",
        "training", "seed",
    )  # fmt: skip

    schema: int = SCHEMA
    dataset: str
    """The archive's name."""
    train_sha256: str
    """Checksum of the training file, byte for byte."""
    test_sha256: str
    protocol: str
    habits: str
    """What the protocol does, a sentence after another."""
    model: str
    attention: str
    """The mechanism; empty for a network without attention."""
    attention_settings: str
    """JSON: every setting of the mechanism."""
    settings: str
    """JSON: every setting of the network."""
    training: str
    """JSON: every setting of the training that bears on the outcome."""
    seed: int
    lookback: int
    """Steps the network sees; shorter cases are padded."""
    channels: int
    classes: int
    train_cases: int
    validation_cases: int
    """Cases that picked the epoch; under published:tslib these are the test cases."""
    test_cases: int
    version: str
    """Of rearview."""
    commit: str
    """Of rearview's checkout, "-dirty" behind it where the package had changes; empty outside a checkout."""
    device: str
    torch: str
    threads: int
    parameters: int
    """Numbers that were trained."""
    epochs: int
    best_epoch: int | None
    accuracy: float | None
    """Share of test cases told right; empty where the run failed, as are the other measures."""
    macro_f1: float | None
    validation_criterion: float | None
    """What the epoch was picked by: the share of validation cases told wrong, with a tie-break below 0.001."""
    train_seconds: float
    total_seconds: float
    """The same with reading and testing."""
    loop: str
    """How the training step ran: eager, or captured (in a CUDA graph)."""
    created: str
    """When the row was made: UTC, ISO 8601."""
    status: str = "done"
    """done; or failed: the run broke off, `problem` says why and there are no measures."""
    problem: str = ""
    setup_seconds: float | None = None
    """Time of compiling and capturing, part of `train_seconds`."""
    windows_per_second: float | None = None
    """Training windows visited per second of `train_seconds`."""
    peak_memory_bytes: int | None = None
    """Most memory held during the run: by torch on a CUDA device; else by the whole process, libraries included."""
    latency_ms: float | None = None
    """Median time of the forward pass of one window, in milliseconds."""
