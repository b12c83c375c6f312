"""TimeMixer (Wang et al., 2024), neuralforecast's: seasons and trends mixed across several scales of a window."""

from dataclasses import dataclass
from typing import Any, Literal

from rearview.core.errors import SettingsError
from rearview.models.baselines._neuralforecast import PACKAGE as PACKAGE
from rearview.models.baselines._neuralforecast import Borrowed
from rearview.models.contract import ModelClaims, Shape


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of TimeMixer; the defaults are neuralforecast's."""

    width: int = 32
    """Width of a time step."""
    depth: int = 4
    """Blocks."""
    feed_forward: int = 32
    """Width inside the feed-forward part."""
    dropout: float = 0.1
    """Dropout throughout."""
    decomposition: Literal["moving_avg", "dft_decomp"] = "moving_avg"
    """How season and trend are taken apart: by a moving average or by the strongest frequencies."""
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
    """How they become one."""
    normalise: bool = True
    """Whether each scale of each window is normalised, with a learned affine map; the original's own."""

    def arguments(self) -> dict[str, Any]:
        """Arguments of neuralforecast's class."""
        return {
            "d_model": self.width,
            "e_layers": self.depth,
            "d_ff": self.feed_forward,
            "dropout": self.dropout,
            "decomp_method": self.decomposition,
            "moving_avg": self.kernel,
            "top_k": self.frequencies,
            "channel_independence": int(self.each_channel),
            "down_sampling_layers": self.scales,
            "down_sampling_window": self.coarser,
            "down_sampling_method": self.coarsen,
            "use_norm": self.normalise,
        }


class Network(Borrowed):
    """neuralforecast's TimeMixer."""

    claims = ModelClaims(attention=False, mixes_channels=True, equivariant_to_channels=False)
    name = "timemixer"
    kind = "TimeMixer"
    all_channels = True

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
        super().__init__(shape, settings, "none")
