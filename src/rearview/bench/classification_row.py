"""A classification result: one flat row that stands by itself."""

from dataclasses import dataclass
from typing import ClassVar

from rearview.bench.row import Line

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationRow(Line):
    """One run of one network on one archive set with one seed."""

    VERSION: ClassVar[int] = SCHEMA
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
    accuracy: float
    """Share of test cases told right."""
    macro_f1: float
    validation_criterion: float
    """What the epoch was picked by: the share of validation cases told wrong, with a tie-break below 0.001."""
    train_seconds: float
    total_seconds: float
    """The same with reading and testing."""
    loop: str
    """How the training step ran: eager, or captured (in a CUDA graph)."""
    created: str
    """When the row was made: UTC, ISO 8601."""
