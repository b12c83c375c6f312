"""DLinear (Zeng et al., 2023): a moving average and the rest, one linear map of the look-back each.

    trend = average of `kernel` steps, ends repeated;  rest = x - trend;  y = W_rest rest + W_trend trend + biases

Both maps start as the plain mean of the look-back. There is no normalisation unless asked for, as in the original.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from rearview.core.errors import SettingsError
from rearview.embed import Normalise
from rearview.models.blocks import setting
from rearview.models.contract import Marks, Model, ModelClaims, Past, Real, Shape, Steps


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of DLinear."""

    kernel: int = 25
    """Steps of the moving average; odd."""
    individual: bool = False
    """One pair of maps per channel instead of one for all."""
    normalise: setting.PlainNormalisation = "none"


class Network(Model):
    """Two linear maps of a decomposed look-back."""

    claims = ModelClaims(attention=False, scale_free=False, reconstructs=True)

    def __init__(self, shape: Shape, settings: Settings) -> None:
        super().__init__(shape)
        shape.refuse_marks("dlinear")
        self.average = Average(settings.kernel)
        self.normalise = Normalise(settings.normalise)
        copies = shape.channels if settings.individual else 1
        self.rest = ChannelLinear(copies, shape.lookback, shape.steps)
        self.trend = ChannelLinear(copies, shape.lookback, shape.steps)

    def forward(self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None) -> Steps:
        x, denormalise = self.normalise(past, mask)
        trend = self.average(x)
        return denormalise(self.rest(x - trend) + self.trend(trend))


class Average(nn.Module):
    """The centred moving average, the ends of the window repeated."""

    def __init__(self, kernel: int) -> None:
        super().__init__()
        if kernel < 1 or kernel % 2 == 0:
            raise SettingsError(f"kernel is {kernel}; a centred moving average needs an odd number of steps.")
        self.kernel = kernel

    def forward(self, x: Past) -> Past:
        half = self.kernel // 2
        return functional.avg_pool1d(functional.pad(x, (half, half), mode="replicate"), self.kernel, 1)


class ChannelLinear(nn.Module):
    """A linear map along time, shared by all channels (`copies` = 1) or one per channel."""

    def __init__(
        self,
        copies: int,
        lookback: int,
        steps: int,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((copies, steps, lookback), 1 / lookback, device=device, dtype=dtype))
        bias = torch.empty(copies, steps, device=device, dtype=dtype)
        self.bias = nn.Parameter(bias.uniform_(-(lookback**-0.5), lookback**-0.5))

    def forward(self, x: Past) -> Tensor:
        if len(self.weight) == 1:
            return functional.linear(x, self.weight[0], self.bias[0])
        return torch.einsum("bct,cst->bcs", x, self.weight) + self.bias
