"""Attention to oneself alone: y_t = W_O W_V x_t, the two maps of a layer without any mixing of tokens.

What it does worse than softmax is due to tokens seeing one another; what it does better than `zero` is due to two more
linear maps. A token is its own only key, so that mask, bias, gate and ages change nothing, and there are no scores to
carry.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from rearview.attention.contract import Claims, Inputs, Mixture, Projected, Site
from rearview.embed.dropout import dropout


@dataclass(frozen=True, slots=True)
class Settings:
    """Identity has no settings."""


def reference(v: Float[Tensor, "token e"]) -> Float[Tensor, "token e"]:
    """I V."""
    return torch.eye(len(v), dtype=v.dtype) @ v


class Layer(Projected):
    """Values as they are, head by head."""

    compares = False

    def __init__(self, site: Site, settings: Settings) -> None:
        super().__init__(site)
        self.settings = settings
        self.claims = Claims(causal=True, linear_in_tokens=True, takes_gate=True, mixes_tokens=False)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> Mixture:
        own = dropout(torch.ones_like(v[..., :1]), self.site.dropout, self.training)
        return own * v, inputs.carry

    def operator(self, q: Tensor, k: Tensor, inputs: Inputs) -> Float[Tensor, "batch group head query key"]:
        return torch.eye(q.shape[-2], dtype=q.dtype, device=q.device).expand(*q.shape[:-1], -1)
