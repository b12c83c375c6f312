"""Autoformer (Wu et al., 2021), neuralforecast's: attention by auto-correlation, trend and season taken apart.

neuralforecast reads one channel at a time. As in the authors' code, the lags are those of a whole batch in training and
each window's own in use.
"""

from dataclasses import dataclass
from typing import ClassVar

from rearview.models.baselines._neuralforecast import DECODER_ARGUMENTS, DecoderSettings, NeuralforecastNetwork
from rearview.models.blocks import setting
from rearview.models.contract import ModelClaims


@dataclass(frozen=True, slots=True)
class Settings(DecoderSettings):
    """Settings of Autoformer; the defaults are neuralforecast's."""

    heads: setting.HeadCount = 4
    factor: int = 3
    """Lags that are kept: this times the logarithm of the length."""
    kernel: int = 25
    """Steps of the moving average that is the trend."""


class Network(NeuralforecastNetwork):
    """neuralforecast's Autoformer."""

    claims = ModelClaims(attention=False, uses_marks=True, reads_ahead=True, scale_free=False)
    kind = "Autoformer"
    arguments: ClassVar = {**DECODER_ARGUMENTS, "heads": "n_head", "factor": "factor", "kernel": "MovingAvg_window"}
