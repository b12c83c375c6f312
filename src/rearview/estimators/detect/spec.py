"""The options of a detector: how to look for anomalies, and how its tables are read."""

from dataclasses import dataclass, field
from numbers import Real
from typing import Literal

from rearview.core.errors import SettingsError, did_you_mean
from rearview.data.read_options import Names
from rearview.estimators.options import EstimatorOptions, NetworkSpec, TableKeywords, check_whole
from rearview.tasks.thresholds import RULES, Rule

Mode = Literal["reconstruct", "forecast"]
MODES: tuple[Mode, ...] = ("reconstruct", "forecast")
AUTO = "auto"
NETWORK = "itransformer"
"""The network where none is named but its attention, settings, training or mode are; also a member of auto."""


@dataclass(frozen=True)
class DetectSpec(NetworkSpec):
    """A detection request; None leaves the choice to the plan."""

    model: str | None = AUTO
    """auto: several simple detectors and a network, combined; or one network (see `rearview list models`). With
    attention, settings, training or mode forecast given, auto is itransformer."""
    lookback: int = field(default=100, kw_only=True)
    """Rows of a window."""
    mode: Mode = field(default="reconstruct", kw_only=True)
    """Score a row by the error of giving its window back, or of forecasting it from the rows before it."""
    threshold: Rule | float = field(default="quantile", kw_only=True)
    """quantile or pot (peaks over threshold) of held-out training scores, robust where the training rows hold anomalies
    themselves, or a number."""
    quantile: float = field(default=0.995, kw_only=True)
    """Share of ordinary rows below the threshold, for quantile."""
    risk: float = field(default=1e-3, kw_only=True)
    """Share of ordinary rows above the threshold, for pot."""
    stride: int | None = field(default=None, kw_only=True)
    """Rows from one scored window to the next; default: a quarter of a window."""
    balance: bool = field(default=True, kw_only=True)
    """Divide a channel's error by what is usual for it, so that no noisy channel drowns the others."""
    join: int = field(default=3, kw_only=True)
    """Flagged rows no further apart than this belong to one segment."""

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
        super().__post_init__()
        if self.model == AUTO and (
            self.attention is not None or self.settings or self.training or self.mode == "forecast"
        ):
            object.__setattr__(self, "model", NETWORK)

    @property
    def step(self) -> int:
        """Rows from one scored window to the next."""
        return self.stride or max(1, self.lookback // 4)

    def _check_threshold(self) -> None:
        given: object = self.threshold
        if isinstance(given, str):
            if given not in RULES:
                near = did_you_mean(given, RULES)
                raise SettingsError(f"threshold is {given!r}; it can be one of {', '.join(RULES)}, or a number.{near}")
        elif isinstance(given, bool) or not isinstance(given, Real) or not 0 <= float(given) < float("inf"):
            raise SettingsError(f"threshold is {given!r}; it can be one of {', '.join(RULES)}, or a number from 0 up.")
        shares: dict[str, object] = {"quantile": self.quantile, "risk": self.risk}
        for name, value in shares.items():
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
                raise SettingsError(f"{name} is {value!r}; it is a share of ordinary rows, between 0 and 1.")


@dataclass(frozen=True)
class DetectorOptions(EstimatorOptions, TableKeywords, DetectSpec):
    """All arguments of a detector."""

    channels: Names | None = field(default=None, kw_only=True)
    """Columns to look at; default: every column of numbers."""
    label_col: str | None = field(default=None, kw_only=True)
    """A column with 1 where a row is an anomaly; used to judge the result, never to train."""
