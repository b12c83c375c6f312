"""Rows of the synthetic studies: each stands by itself, and each study adds the columns of what it measures."""

from dataclasses import dataclass
from typing import ClassVar

from rearview.bench.rows.row import ResultRow


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticRow(ResultRow):
    """One arm of one study with one seed."""

    SCHEMA: ClassVar[int] = 1
    CONFIGURATION: ClassVar[tuple[str, ...]] = (
        "study", "arm", "attention", "attention_settings", "settings", "training", "seed",
    )  # fmt: skip

    schema: int = 1
    study: str
    arm: str
    attention: str
    attention_settings: str
    """JSON: every setting of the mechanism."""
    settings: str
    """JSON: the sizes of data and network."""
    training: str
    """JSON: every setting of the training that bears on the outcome."""
    seed: int
    size: str
    """reduced, full, or changed: neither of the two as declared."""
    steps: int
    """Updates done."""
    ended: str
    """steps: all that were asked for; seconds: time ran out before, and the schedule was cut."""
    parameters: int
    version: str
    """Of rearview."""
    commit: str
    """Of rearview's checkout, "-dirty" behind it where the package had changes; empty outside a checkout."""
    device: str
    torch: str
    threads: int
    train_loss: float
    """Mean over the last stretch between two looks."""
    train_seconds: float
    """Wall time of training, looks at the test sets included."""
    total_seconds: float
    loop: str
    """How the training step ran: eager, or captured (in a CUDA graph)."""
    created: str
    """When the row was made: UTC, ISO 8601."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipFlopRow(SyntheticRow):
    """What an arm of the flip-flop study came to: shares of last reads answered right, on fixed sets of strings."""

    same: float
    """Strings as in training."""
    sparse: float
    """Long stretches of ignored bits: what must be remembered lies far back."""
    dense: float
    """Many writes: what must be remembered lies close by."""
    sparse_late: float
    """Mean of `sparse` over the last quarter of the looks, since it goes up and down in training."""
    sparse_best: float
    """The best of all looks; picked on the test set, so no estimate of anything."""
    sparse_perfect: float
    """Share of the looks of the last quarter at which every read was right."""
    head: str
    """The head that looks hardest at the right bit, as layer.head from 1."""
    on_right_bit: float
    """Its mean weight, in sparse strings, of the last read on the bit it has to answer."""
    on_right_write: float
    """The same on the instruction before that bit."""
    on_wrong_bits: float
    """The same on each bit that an earlier write put down, a bit at a time."""
    on_wrong_writes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HarmonicRow(SyntheticRow):
    """What an arm of the harmonic study came to: mean squared errors against the clean signal, on fixed signals."""

    mse: float
    mse_stationary: float
    mse_vibrato: float
    mse_chirp: float
    linear_floor: float
    """About the error of the best linear operator that is the same for every signal."""
    negative: float
    """Share of the effective operators' absolute weight that is negative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentsRow(SyntheticRow):
    """What a choice of CAPS's paths came to on some of the parts of a signal."""

    parts: str
    """The parts of the signal, joined by +."""
    paths: str
    """The paths the network had, joined by +."""
    mse: float
    """Of the forecast, on fixed windows."""
    last_value_mse: float
    """Of repeating the last value."""
    share_riemann: float | None
    """Path's share of the absolute weight that steps ahead put on earlier ones; None: the network lacks the path."""
    share_prefix: float | None
    share_clock: float | None
    without_riemann: float | None
    """The trained network's error with the path silenced, others as they are; None: it is absent, or the only one."""
    without_prefix: float | None
    without_clock: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look(ResultRow):
    """A point of a training curve, kept as soon as it is measured."""

    SCHEMA: ClassVar[int] = 1
    CONFIGURATION: ClassVar[tuple[str, ...]] = ("study", "arm", "run", "step")

    schema: int = 1
    study: str
    arm: str
    run: str
    """Names the run; the file of its figures has the same name."""
    began: str
    """When the run began: UTC, ISO 8601. A run that was cut off and made again has two curves."""
    step: int
    seconds: float
    train_loss: float
    """Mean since the look before."""
    metric: str
    value: float
