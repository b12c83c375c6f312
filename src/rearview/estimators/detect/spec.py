"""What is asked for: the part of a detection that a person decides, as plain data that can be saved."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from numbers import Real
from typing import Any

from rearview.core.errors import SettingsError, did_you_mean
from rearview.estimators.forecast.spec import check_seed, check_whole
from rearview.tasks.detect import Mode
from rearview.tasks.thresholds import RULES, Rule

MODES: tuple[Mode, ...] = ("reconstruct", "forecast")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A detection as asked for; None leaves a choice to the plan."""

    lookback: int = 100
    """Rows of a window."""
    model: str | None = None
    """A network's name; None: itransformer."""
    attention: str | Mapping[str, Any] | None = None
    """A mechanism's name, or a mapping with `name` and its settings; None: the network's own."""
    mode: Mode = "reconstruct"
    """Whether a row's score is the error of giving its window back, or of forecasting the row from those before it."""
    threshold: Rule | float = "quantile"
    """How the threshold comes out of held-out scores, or the threshold itself."""
    quantile: float = 0.995
    """For "quantile": the share of ordinary rows below the threshold."""
    risk: float = 1e-3
    """For "pot": the share of ordinary rows above the threshold."""
    stride: int | None = None
    """Rows from one scored window to the next when windows are given back; None: a quarter of a window."""
    balance: bool = True
    """Whether a channel's error is divided by what is usual for it, so that no noisy channel drowns the others."""
    join: int = 3
    """Flagged rows no further apart than this belong to one segment."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the network; what is left out is chosen from the data."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the training loop; what is left out is chosen from the data."""
    seed: int = 0
    device: str = "auto"
    """auto, cpu, cuda or a torch device."""

    def __post_init__(self) -> None:
        check_whole("lookback", self.lookback, "the number of rows of a window")
        if self.lookback < 2:
            raise SettingsError("lookback is 1; a window to learn from has at least 2 rows.")
        check_whole("join", self.join, "how many rows apart flags of one segment may be")
        if not isinstance(self.balance, bool):
            raise SettingsError(f"balance is {self.balance!r}; it must be True or False.")
        if self.mode not in MODES:
            raise SettingsError(f"mode is {self.mode!r}; it can be one of {', '.join(MODES)}.")
        self._check_threshold()
        if self.stride is not None:
            check_whole("stride", self.stride, "the number of rows from one scored window to the next")
            if self.stride > self.lookback:
                raise SettingsError(
                    f"stride is {self.stride}, longer than the window of {self.lookback}: rows between windows would "
                    f"have no score; use at most {self.lookback}."
                )
        check_seed(self.seed, self.training)

    @property
    def step(self) -> int:
        """Rows from one scored window to the next."""
        return self.stride or max(1, self.lookback // 4)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def _check_threshold(self) -> None:
        given: Any = self.threshold
        if isinstance(given, str):
            if given not in RULES:
                near = did_you_mean(given, RULES)
                raise SettingsError(f"threshold is {given!r}; it can be one of {', '.join(RULES)}, or a number.{near}")
        elif isinstance(given, bool) or not isinstance(given, Real) or not 0 <= float(given) < float("inf"):
            raise SettingsError(f"threshold is {given!r}; it can be one of {', '.join(RULES)}, or a number from 0 up.")
        for name in ("quantile", "risk"):
            value: Any = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
                raise SettingsError(f"{name} is {value!r}; it is a share of ordinary rows, between 0 and 1.")
