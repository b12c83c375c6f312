"""TimeXer (Wang et al., 2024), neuralforecast's: patches of a channel, and a token of it that reads the other channels.

A look-back that is no multiple of the patch is refused: the newest steps would be left out.
"""

from dataclasses import dataclass
from typing import ClassVar

from rearview.core.errors import SettingsError
from rearview.models.baselines._neuralforecast import NeuralforecastNetwork
from rearview.models.blocks import setting
from rearview.models.contract import ModelClaims, Shape


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of TimeXer; the defaults are neuralforecast's."""

    width: setting.TokenWidth = 512
    heads: setting.HeadCount = 8
    depth: setting.Depth = 2
    feed_forward: setting.FeedForwardWidth = 2048
    patch: setting.PatchSteps = 16
    dropout: setting.DropoutThroughout = 0.1
    normalise: setting.RevinNormalisation = "revin"


class Network(NeuralforecastNetwork):
    """neuralforecast's TimeXer."""

    claims = ModelClaims(attention=False, mixes_channels=True, equivariant_to_channels=False)
    kind = "TimeXer"
    all_channels = True
    arguments: ClassVar = {
        "width": "hidden_size", "heads": "n_heads", "depth": "e_layers", "feed_forward": "d_ff", "patch": "patch_len",
        "dropout": "dropout",
    }  # fmt: skip
    fixed: ClassVar = {"use_norm": False}

    def __init__(self, shape: Shape, settings: Settings) -> None:
        left = shape.lookback % settings.patch
        if left:
            raise SettingsError(
                f"timexer cuts the look-back into whole patches, and one of {shape.lookback} steps leaves the {left} "
                f"newest out; use a patch that divides it."
            )
        super().__init__(shape, settings)
