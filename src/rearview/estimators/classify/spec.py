"""What is asked for: the part of a classification that a person decides, as plain data that can be saved."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from numbers import Integral, Real
from typing import Any

from rearview.core.errors import SettingsError
from rearview.data.read_options import Fill, check_fill


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A classification as asked for; None leaves a choice to the plan."""

    model: str = "patchtst"
    """A network's name."""
    attention: str | Mapping[str, Any] | None = None
    """A mechanism's name, or a mapping with `name` and its settings; None: the network's own."""
    lookback: int | None = None
    """Steps the network sees; None: the longest case of training."""
    fill: Fill = "linear"
    """What stands where a value is missing: the "last" one, a "linear" bridge, the training "mean" or "zero"."""
    validation: float = 0.2
    """Share of each class held out to pick the best epoch; 0: none, and every epoch is run."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the network; what is left out is chosen from the data."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the training loop; what is left out is chosen from the data."""
    seed: int = 0
    device: str = "auto"
    """auto, cpu, cuda or a torch device."""

    def __post_init__(self) -> None:
        check_fill(self.fill)
        lookback: Any = self.lookback
        if lookback is not None and (isinstance(lookback, bool) or not isinstance(lookback, Integral) or lookback < 1):
            raise SettingsError(f"lookback is {lookback!r}; it must be a whole number of steps, at least 1, or None.")
        share: Any = self.validation
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= float(share) < 1:
            raise SettingsError(f"validation is {share!r}; it is the share of cases to hold out, from 0 up to 1.")
        seed: Any = self.seed
        if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= int(seed) < 2**63:
            raise SettingsError(f"seed is {seed!r}; it must be a whole number from 0 up.")
        if "seed" in self.training:
            raise SettingsError("Give the seed as seed=..., not among the training settings.")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)
