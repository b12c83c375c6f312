"""Informer (Zhou et al., 2021), neuralforecast's: attention of the queries that stand out, the encoder distilled.

neuralforecast reads one channel at a time. Keys are sampled by chance, in use too: two forecasts of one window differ
unless the seed is the same.
"""

from dataclasses import dataclass
from typing import Any

from rearview.models.baselines._neuralforecast import PACKAGE as PACKAGE
from rearview.models.baselines._neuralforecast import Borrowed, DecoderSettings
from rearview.models.contract import ModelClaims, Shape


@dataclass(frozen=True, slots=True)
class Settings(DecoderSettings):
    """Settings of Informer; the defaults are neuralforecast's."""

    heads: int = 4
    """Attention heads."""
    factor: int = 3
    """How many queries and keys are taken: this times the logarithm of the length."""
    distil: bool = True
    """Whether the window is halved from block to block of the encoder."""

    def arguments(self) -> dict[str, Any]:
        """Arguments of neuralforecast's class."""
        own = {"n_head": self.heads, "factor": self.factor, "distil": self.distil}
        return DecoderSettings.arguments(self) | own


class Network(Borrowed):
    """neuralforecast's Informer."""

    claims = ModelClaims(attention=False, uses_marks=True, reads_ahead=True, scale_free=False)
    name = "informer"
    kind = "Informer"

    def __init__(self, shape: Shape, settings: Settings) -> None:
        super().__init__(shape, settings, settings.normalise)
