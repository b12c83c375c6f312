"""Autoformer (Wu et al., 2021), neuralforecast's: attention by auto-correlation, trend and season taken apart.

neuralforecast reads one channel at a time. As in the authors' code, the lags are those of a whole batch in training and
each window's own in use.
"""

from dataclasses import dataclass
from typing import Any

from rearview.models.baselines._neuralforecast import PACKAGE as PACKAGE
from rearview.models.baselines._neuralforecast import Borrowed, DecoderSettings
from rearview.models.contract import ModelClaims, Shape


@dataclass(frozen=True, slots=True)
class Settings(DecoderSettings):
    """Settings of Autoformer; the defaults are neuralforecast's."""

    heads: int = 4
    """Attention heads."""
    factor: int = 3
    """How many lags are kept: this times the logarithm of the length."""
    kernel: int = 25
    """Steps of the moving average that is the trend."""

    def arguments(self) -> dict[str, Any]:
        """Arguments of neuralforecast's class."""
        own = {"n_head": self.heads, "factor": self.factor, "MovingAvg_window": self.kernel}
        return DecoderSettings.arguments(self) | own


class Network(Borrowed):
    """neuralforecast's Autoformer."""

    claims = ModelClaims(attention=False, uses_marks=True, reads_ahead=True, scale_free=False)
    name = "autoformer"
    kind = "Autoformer"

    def __init__(self, shape: Shape, settings: Settings) -> None:
        super().__init__(shape, settings, settings.normalise)
