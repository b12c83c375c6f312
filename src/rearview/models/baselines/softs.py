"""SOFTS (Han et al., 2024), neuralforecast's: channels as tokens that meet in one core each of them reads back."""

from dataclasses import dataclass
from typing import ClassVar

from rearview.models.baselines._neuralforecast import NeuralforecastNetwork
from rearview.models.blocks import setting
from rearview.models.contract import ModelClaims


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of SOFTS; the defaults are neuralforecast's."""

    width: int = 512
    """Width of a channel's token."""
    core: int = 512
    """Width of the core."""
    depth: setting.Depth = 2
    feed_forward: setting.FeedForwardWidth = 2048
    dropout: setting.DropoutThroughout = 0.1
    normalise: setting.RevinNormalisation = "revin"


class Network(NeuralforecastNetwork):
    """neuralforecast's SOFTS."""

    claims = ModelClaims(attention=False, mixes_channels=True)
    kind = "SOFTS"
    all_channels = True
    arguments: ClassVar = {
        "width": "hidden_size", "core": "d_core", "depth": "e_layers", "feed_forward": "d_ff", "dropout": "dropout",
    }  # fmt: skip
    fixed: ClassVar = {"use_norm": False}
