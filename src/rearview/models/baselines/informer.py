"""Informer (Zhou et al., 2021), neuralforecast's: attention of the queries that stand out, the encoder distilled.

neuralforecast reads one channel at a time. Keys are sampled by chance, in use too: two forecasts of one window differ
unless the seed is the same.
"""

from dataclasses import dataclass
from typing import ClassVar

from rearview.models.baselines._neuralforecast import DECODER_ARGUMENTS, DecoderSettings, NeuralforecastNetwork
from rearview.models.blocks import setting
from rearview.models.contract import ModelClaims


@dataclass(frozen=True, slots=True)
class Settings(DecoderSettings):
    """Settings of Informer; the defaults are neuralforecast's."""

    heads: setting.HeadCount = 4
    factor: int = 3
    """Queries and keys that are taken: this times the logarithm of the length."""
    distil: bool = True
    """Whether the window is halved from block to block of the encoder."""


class Network(NeuralforecastNetwork):
    """neuralforecast's Informer."""

    claims = ModelClaims(attention=False, uses_marks=True, reads_ahead=True, scale_free=False)
    kind = "Informer"
    arguments: ClassVar = {**DECODER_ARGUMENTS, "heads": "n_head", "factor": "factor", "distil": "distil"}
