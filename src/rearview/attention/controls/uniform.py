"""The mean of all tokens, y_t = W_O mean_j W_V x_j: mixing without any choice of what to look at.

What softmax does better is due to weights that differ. The mean is over the tokens that a query may see: those that are
no padding and, in a causal place, no later ones. A bias weighs tokens by its exponential and a gate by its value, both
normalised, as they would scores of 0; there are no scores to carry.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from rearview.attention.contract import Claims, Inputs, Mixture, Projected, Site, causal_bias, score_bias
from rearview.embed.dropout import dropout

EPS = 1e-9
"""The least sum of gates that a row is divided by: where all are 0, so is what comes out."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Uniform has no settings."""


def reference(v: Float[Tensor, "token e"], causal: bool = False) -> Float[Tensor, "token e"]:
    """The mean of the values that each query sees."""
    return torch.stack([v[: t + 1 if causal else len(v)].mean(0) for t in range(len(v))])


class Layer(Projected):
    """Means of values."""

    compares = False

    def __init__(self, site: Site, settings: Settings) -> None:
        super().__init__(site)
        self.settings = settings
        self.claims = Claims(causal=site.causal, takes_gate=True)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> Mixture:
        return dropout(self.operator(q, k, inputs), self.site.dropout, self.training) @ v, inputs.carry

    def operator(self, q: Tensor, k: Tensor, inputs: Inputs) -> Float[Tensor, "batch group head query key"]:
        tokens = q.shape[-2]
        scores = q.new_zeros(*q.shape[:-1], tokens)
        bias = score_bias(inputs, q.dtype)
        if self.site.causal:
            scores = scores + causal_bias(tokens, scores)
        weights = (scores if bias is None else scores + bias).softmax(-1)
        if inputs.gate is None:
            return weights
        weights = weights * inputs.gate
        return weights / weights.sum(-1, keepdim=True).clamp(min=EPS)
