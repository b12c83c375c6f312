"""The contract of a model: windows in, steps out.

    yhat = model(past, past_marks=None, future_marks=None)     past [batch, channel, time] -> [batch, channel, steps]

A model knows no task: whoever asks decides what the steps are (the horizon, the horizon times the quantiles, the
window itself). It says what it can use in its claims; marks it has no use for are ignored, so every model is called
the same way.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor, nn

from rearview.attention.contract import Weights
from rearview.errors import SettingsError

Past = Float[Tensor, "batch channel time"]
Steps = Float[Tensor, "batch channel steps"]
Marks = Float[Tensor, "batch mark _"]
Real = Bool[Tensor, "batch time"]


@dataclass(frozen=True, slots=True)
class Shape:
    """What goes into a model and what is asked of it."""

    channels: int
    lookback: int
    steps: int
    marks: int = 0
    """Calendar features and known inputs that come with each window."""
    future: int = 0
    """Steps for which marks are known ahead; 0: past marks only."""

    def __post_init__(self) -> None:
        for name in ("channels", "lookback", "steps"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        for name in ("marks", "future"):
            if getattr(self, name) < 0:
                raise SettingsError(f"{name} is {getattr(self, name)}; it can't be negative.")


@dataclass(frozen=True, slots=True)
class ModelClaims:
    """What a model says of itself; it steers defaults, tests and refusals."""

    attention: bool = True
    """Has attention layers, so the `attention` setting means something."""
    mixes_channels: bool = False
    """A channel's forecast can depend on other channels."""
    uses_marks: bool = False
    """Has a place for calendar features and known inputs."""
    trains: bool = True
    """Has parameters to train."""
    scale_free: bool = True
    """Affine in, affine out: a * x + b gives a * yhat + b."""


class Model(nn.Module, ABC):
    """Base of every network."""

    claims: ModelClaims

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    @abstractmethod
    def forward(
        self,
        past: Past,
        past_marks: Marks | None = None,
        future_marks: Marks | None = None,
        *,
        mask: Real | None = None,
    ) -> Steps:
        """The steps asked for; `mask` is False where a window reaches back before its series began."""

    def weights(
        self,
        past: Past,
        past_marks: Marks | None = None,
        future_marks: Marks | None = None,
        *,
        mask: Real | None = None,
    ) -> list[Weights]:
        """The effective mixing operator of each attention layer; a model without attention has none."""
        return []

    def prepare(self, windows: Past) -> None:
        """Let mechanisms that learn from training windows before training do so."""


def refuse_marks(shape: Shape, name: str) -> None:
    """For models that read each channel alone."""
    if shape.marks:
        raise SettingsError(
            f"{name} reads each channel by itself and has no place for {shape.marks} calendar features or inputs; "
            "use itransformer, or leave them out."
        )
