"""The options of estimators, each declared once: a dataclass field with its meaning below it.

Constructors, command line options and the JSON of saved models are all read from these fields. Nothing here imports
torch, so that the command line can show its help without it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

from rearview.core.errors import SettingsError
from rearview.data.read_options import Combination, Decimal, Duplicates, Fill, Names, ReadOptions, Sentinels
from rearview.data.step import Step

if TYPE_CHECKING:
    from rearview.train import Progress

Attention = str | Mapping[str, object] | None


@dataclass(frozen=True)
class NetworkSpec:
    """The network of an estimator and its training; anything you omit is chosen from the data."""

    model: str | None = None
    """A network (see `rearview list models`); default: chosen from the data."""
    attention: Attention = None
    """A mechanism by name, or a mapping with `name` and its settings (see `rearview list attentions`); default: the
    network's own."""
    settings: Mapping[str, object] = field(default_factory=dict, kw_only=True)
    """Settings of the network (see `rearview describe`)."""
    training: Mapping[str, object] = field(default_factory=dict, kw_only=True)
    """Settings of the training loop (see `rearview describe training`)."""
    seed: int = field(default=0, kw_only=True)
    """Fixes every random draw; two runs of one seed on a CPU are equal bit for bit."""
    device: str = field(default="auto", kw_only=True)
    """auto, cpu, cuda or another device of torch."""

    def __post_init__(self) -> None:
        seed: object = self.seed
        if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= int(seed) < 2**63:
            raise SettingsError(f"seed is {seed!r}; it must be a whole number from 0 up.")
        object.__setattr__(self, "seed", int(seed))
        object.__setattr__(self, "settings", dict(self.settings or {}))
        object.__setattr__(self, "training", dict(self.training or {}))
        if "seed" in self.training:
            raise SettingsError("Give the seed as seed=..., not among the training settings.")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    @classmethod
    def pick(cls, options: object) -> Self:
        """The spec among the options of an estimator."""
        return cls(**{each.name: getattr(options, each.name) for each in fields(cls)})


@dataclass(frozen=True, kw_only=True)
class EstimatorOptions:
    """What every estimator can be given beside its spec; comes first among the bases of its options."""

    progress: "Progress | bool | None" = None
    """Receives the progress of training; True: a line on the terminal; default: none."""

    def __post_init__(self) -> None:
        """Leave the checks to the spec."""


@dataclass(frozen=True, kw_only=True)
class TextKeywords:
    """How the text of a file is interpreted; `rearview.data.read_options` documents each option."""

    sheet: str | None = None
    decimal: Decimal | None = None
    missing: Names | None = None
    dayfirst: bool | None = None
    date_format: str | None = None
    timezone: str | None = None
    duplicates: Duplicates | None = None
    every: str | Step | None = None
    agg: Combination | None = None


@dataclass(frozen=True, kw_only=True)
class TableKeywords(TextKeywords):
    """How tables are read: the roles of columns, and how their text is interpreted."""

    id_col: Names | None = None
    time_col: str | None = None
    drop: Names | None = None
    freq: str | Step | None = None
    sentinels: Sentinels | None = "auto"
    fill: Fill | None = None

    def read_options(self) -> ReadOptions:
        """The options as one value for the readers."""
        names = {each.name for each in fields(self)} & ReadOptions.meanings().keys()
        given = {name: value for name in names - {"sentinels"} if (value := getattr(self, name)) is not None}
        return ReadOptions.of(**given, sentinels=self.sentinels)  # None is a value of its own: it keeps every cell


def check_whole(name: str, value: object, meaning: str) -> None:
    """Refuse what is not a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise SettingsError(f"{name} is {value!r}; it is {meaning} and must be a whole number of at least 1.")
