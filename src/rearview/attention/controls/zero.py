"""No attention at all: the layer adds nothing, y_t = 0, and what a network does without it is all that is left.

In a block with a residual connection the tokens pass by unchanged; the feed-forward part, positions and head remain. It
has no parameters, and mask, bias, gate, ages and carry change nothing.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from rearview.attention.contract import Attention, Claims, Heads, Inputs, Mixture, Site, Tokens


@dataclass(frozen=True, slots=True)
class Settings:
    """Zero has no settings."""


def reference(x: Float[Tensor, "token width"]) -> Float[Tensor, "token width"]:
    """The definition."""
    return torch.zeros_like(x)


class Layer(Attention):
    """A layer that gives 0."""

    def __init__(self, site: Site, settings: Settings) -> None:
        super().__init__(site)
        self.settings = settings
        self.claims = Claims(causal=True, linear_in_tokens=True, takes_gate=True, mixes_tokens=False)

    def attend(self, inputs: Inputs) -> Mixture:
        # Filled and not multiplied: whatever a token holds, 0 comes out and 0 goes back.
        return self.values(inputs.x).masked_fill(inputs.x.new_ones((), dtype=torch.bool), 0.0), inputs.carry

    def weigh(self, inputs: Inputs) -> Float[Tensor, "batch group head query key"]:
        self.check(inputs.x)
        batch, groups, tokens, _ = inputs.x.shape
        return inputs.x.new_zeros(batch, groups, self.site.heads, tokens, tokens)

    def values(self, x: Tokens) -> Heads:
        self.check(x)
        return x[:, :, None].expand(-1, -1, self.site.heads, -1, -1)

    def project(self, heads: Heads) -> Tokens:
        return heads[:, :, 0]
