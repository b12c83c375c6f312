"""TimeMixer (Wang et al., 2024), neuralforecast's: seasons and trends mixed across several scales of a window."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from rearview.core.errors import SettingsError
from rearview.models.baselines._neuralforecast import NeuralforecastNetwork
from rearview.models.blocks import setting
from rearview.models.contract import ModelClaims, Shape


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of TimeMixer; the defaults are neuralforecast's."""

    width: int = 32
    """Width of a time step."""
    depth: setting.Depth = 4
    feed_forward: setting.FeedForwardWidth = 32
    dropout: setting.DropoutThroughout = 0.1
    decomposition: Literal["moving_avg", "dft_decomp"] = "moving_avg"
    """The way season and trend are taken apart: by a moving average or by the strongest frequencies."""
    kernel: int = 25
    """Steps of the moving average."""
    frequencies: int = 5
    """Strongest frequencies that are the season."""
    each_channel: bool = False
    """Whether each channel is read by itself."""
    scales: int = 1
    """Coarser scales beside the window itself."""
    coarser: int = 2
    """Steps that become one from a scale to the next."""
    coarsen: Literal["avg", "max", "conv"] = "avg"
    """The way they become one."""
    normalise: bool = True
    """Whether each scale of each window is normalised, with a learned affine map; the original's own."""


class Network(NeuralforecastNetwork):
    """neuralforecast's TimeMixer."""

    claims = ModelClaims(attention=False, mixes_channels=True, equivariant_to_channels=False)
    kind = "TimeMixer"
    all_channels = True
    arguments: ClassVar = {
        "width": "d_model", "depth": "e_layers", "feed_forward": "d_ff", "dropout": "dropout",
        "decomposition": "decomp_method", "kernel": "moving_avg", "frequencies": "top_k",
        "each_channel": "channel_independence", "scales": "down_sampling_layers", "coarser": "down_sampling_window",
        "coarsen": "down_sampling_method", "normalise": "use_norm",
    }  # fmt: skip

    def __init__(self, shape: Shape, settings: Settings) -> None:
        if settings.scales < 1 or settings.coarser < 2:
            raise SettingsError(
                f"scales is {settings.scales} and coarser is {settings.coarser}; timemixer mixes a window with 1 scale "
                "or more, each at least 2 times as coarse as the one before."
            )
        whole = settings.coarser**settings.scales
        if shape.lookback % whole:
            raise SettingsError(
                f"timemixer makes the look-back coarser {settings.scales} times by {settings.coarser}, and "
                f"{shape.lookback} steps are no multiple of {whole}; use a look-back that is, or other scales."
            )
        super().__init__(shape, settings)
