"""TimesNet (Wu et al., 2023), neuralforecast's: windows folded by their strongest periods, 2-D convolutions on them.

neuralforecast reads one channel at a time. As in the authors' code, the strongest periods are those of a whole batch:
forecasts depend on which windows and channels stand together in it. The instance normalisation that the authors have
inside the network is ours. Of calendar features it reads those of the look-back.
"""

from dataclasses import dataclass
from typing import ClassVar

from rearview.models.baselines._neuralforecast import NeuralforecastNetwork
from rearview.models.blocks import setting
from rearview.models.contract import ModelClaims


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of TimesNet; the defaults are neuralforecast's."""

    width: int = 64
    """Width of a time step."""
    depth: setting.Depth = 2
    feed_forward: int = 64
    """Width inside the convolutions."""
    periods: int = 5
    """Periods that a window is folded by."""
    kernels: int = 6
    """Kernel sizes of a convolution."""
    dropout: float = 0.1
    """Dropout on the embedding."""
    normalise: setting.Normalisation = "revin"


class Network(NeuralforecastNetwork):
    """neuralforecast's TimesNet."""

    claims = ModelClaims(attention=False, mixes_channels=True, uses_marks=True)
    kind = "TimesNet"
    arguments: ClassVar = {
        "width": "hidden_size", "depth": "encoder_layers", "feed_forward": "conv_hidden_size", "periods": "top_k",
        "kernels": "num_kernels", "dropout": "dropout",
    }  # fmt: skip
