"""Where a token stands: a learned table, or fixed sines and cosines."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


def sinusoids(tokens: int, width: int) -> Float[Tensor, "{tokens} {width}"]:
    """PE[t, 2i] = sin(t / 10000^(2i/width)), PE[t, 2i+1] = cos(same); angles in float64, so long tables stay right."""
    t = torch.arange(tokens, dtype=torch.float64)[:, None]
    frequency = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    table = torch.zeros(tokens, width, dtype=torch.float64)
    table[:, 0::2] = torch.sin(t * frequency)
    table[:, 1::2] = torch.cos(t * frequency)[:, : width // 2]
    return table.to(torch.get_default_dtype())


class Learned(nn.Module):
    """A learned table, one row a token, drawn from U(-0.02, 0.02)."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(tokens, width).uniform_(-0.02, 0.02))

    def forward(self, x: Float[Tensor, "batch group token width"]) -> Float[Tensor, "batch group token width"]:
        return x + self.table[: x.shape[2]]


class Sinusoidal(nn.Module):
    """The fixed table of sines and cosines; follows the module's dtype and device, and is not saved."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.table: Tensor
        self.register_buffer("table", sinusoids(tokens, width), persistent=False)

    def forward(self, x: Float[Tensor, "batch group token width"]) -> Float[Tensor, "batch group token width"]:
        return x + self.table[: x.shape[2]]
