"""Primers as public code has them: F made anew from every window, without a start near 1 (`form="released"`).

    F_ij = W3 drop(gelu(W2 drop(gelu(W1 LayerNorm(f_ij)))))        f_ij: features of the window's channels i and j

One F of a head's width serves all heads, and one set of maps all layers of a stack. Its features are 15 numbers
("spectral"), phase and magnitude of every frequency ("bins"), or for the random arm numbers drawn at every call.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rearview.embed import Dropout


class WindowPrimer(nn.Module):
    """F of pairs of channels from the features of each window."""

    free = None
    """There is no free term."""

    def __init__(self, heads: int, width: int, feature_width: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.maps = nn.Sequential(
            nn.LayerNorm(feature_width),
            nn.Linear(feature_width, max(1, width // 2)),
            nn.GELU(),
            Dropout(dropout),
            nn.Linear(max(1, width // 2), width),
            nn.GELU(),
            Dropout(dropout),
            nn.Linear(width, width),
        )

    def change(
        self, a: int, b: int, keys: int | None, features: Tensor | None = None, free: Tensor | None = None
    ) -> Float[Tensor, "window row key head width"]:
        """F - 1 of rows a to b and the first keys."""
        assert features is not None
        made: Tensor = self.maps(features[..., a:b, :keys, :]) - 1
        return made.unsqueeze(-2).expand(*made.shape[:-1], self.heads, made.shape[-1])


def draw_features(windows: int, channels: int, width: int, like: Tensor) -> Float[Tensor, "window channel channel _"]:
    """Numbers uniform around 1 for every pair, within the bound that Xavier's start has for pairs x features."""
    bound = (6 / (channels**2 + width)) ** 0.5
    drawn = torch.rand(windows, channels, channels, width, dtype=like.dtype, device=like.device)
    return 1 + bound * (2 * drawn - 1)
