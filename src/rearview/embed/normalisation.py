"""Instance normalisation: every window on its own scale, and the way back.

A normaliser returns the normalised window and its own inverse, so that a model reads as a palindrome:

    x, denormalise = normalise(past)
    ...
    return denormalise(x)

`revin`: z = (x - mean) / sqrt(var + eps) over the look-back (biased variance), with or without a learned affine map
z * weight + bias; the inverse divides by weight + eps^2, as RevIN's authors do. `last`: z = x - x[last]. `none`: z = x.
Where a window is padded (`mask` False), statistics are taken over the real steps and padding becomes 0.
"""

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from rearview.core.errors import SettingsError

Kind = Literal["revin", "last", "none"]
Inverse = Callable[[Tensor], Tensor]
KINDS = ("revin", "last", "none")


class Normalise(nn.Module):
    """Instance normalisation of [batch, channel, time] windows that hands back its own inverse."""

    def __init__(self, kind: Kind = "revin", channels: int | None = None, affine: bool = False, eps: float = 1e-5):
        super().__init__()
        if kind not in KINDS:
            raise SettingsError(f"normalise is {kind!r}; it can be one of {', '.join(KINDS)}.")
        if affine and (kind != "revin" or channels is None):
            raise SettingsError("An affine normalisation needs kind 'revin' and the number of channels.")
        self.kind = kind
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels or 0)) if affine else None
        self.bias = nn.Parameter(torch.zeros(channels or 0)) if affine else None

    def forward(
        self, past: Float[Tensor, "batch channel time"], mask: Bool[Tensor, "batch time"] | None = None
    ) -> tuple[Float[Tensor, "batch channel time"], Inverse]:
        if mask is not None:
            # Filled, not multiplied: whatever stands there, a NaN too, must not reach the statistics.
            past = past.masked_fill(~mask[:, None], 0)
        inverse: Inverse
        if self.kind == "none":
            return past, lambda x: x
        if self.kind == "last":
            last = past[..., -1:]
            z, inverse = past - last, lambda x: x + last
        else:
            mean, std = self.statistics(past, mask)
            z, inverse = (past - mean) / std, lambda x: x * std + mean
            if self.weight is not None and self.bias is not None:
                weight, bias = self.weight[:, None], self.bias[:, None]
                undo = weight + self.eps * self.eps
                z, inverse = z * weight + bias, lambda x: (x - bias) / undo * std + mean
        return z if mask is None else z * mask[:, None], inverse

    def statistics(self, past: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the look-back; constants for the gradient, as in the released code."""
        with torch.no_grad():
            if not past.numel():
                mean = var = past.mean(-1, keepdim=True)  # torch warns of a variance of nothing
            elif mask is None:
                var, mean = torch.var_mean(past, dim=-1, keepdim=True, correction=0)
            else:
                real = mask[:, None].to(past.dtype)
                count = real.sum(-1, keepdim=True).clamp(min=1)
                mean = (past * real).sum(-1, keepdim=True) / count
                var = ((past - mean).square() * real).sum(-1, keepdim=True) / count
            return mean, (var + self.eps).sqrt()

    def extra_repr(self) -> str:
        return f"{self.kind}, affine={self.weight is not None}"
