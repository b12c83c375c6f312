"""One learned matrix for all windows, y = W_O softmax(B) W_V x: tokens weighed by place, never by what they hold.

    o_t = sum_j softmax_j(B_tj) v_j                                   kind softmax
    o_t = sum_j A_tj v_j                                              kind plain
    o_t = sum_j softplus(C_tj) v_j / sum_j softplus(C_tj)             kind softplus

Symbols: A, B, C [head, token, token], the same for every window and group; A and B start at the mean of all tokens,
B = 0 and A = 1 / tokens. What softmax attention does better is due to weights that follow the data, or to the pace at
which B learns: its numbers move by the learning rate, so that in a short training the softmax kind stays near the mean.
`positional` has weights of the same form that learn at the pace of attention.

The softmax kind is the default, as it differs from softmax attention in nothing else: rows are positive and add up to
1, and mask, bias, gate and causal places act on scores. It is the random form of the Synthesizer (Tay et al., 2021),
learned. The plain kind is a linear map along the tokens, with weights of either sign; a bias is added to A, and hidden
pairs are 0. The softplus kind is NormLin, the layer of OLinear (Yue et al., 2025), which starts at the identity plus
N(0, 1); mask, bias, gate and causal places act on ln softplus(C) as on scores. None has anything to carry: the sum of
two learned matrices is one.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.attention.contract import Claims, Inputs, Mixture, Projected, Site, apply_gate, causal_bias, score_bias
from rearview.attention.shared.rectifier import visible_pairs
from rearview.embed.dropout import dropout


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the fixed matrix."""

    kind: Literal["softmax", "plain", "softplus"] = "softmax"
    """Whether rows of the learned matrix pass a softmax, are the weights themselves, or their softplus over its sum."""


def reference(
    B: Float[Tensor, "token token"], v: Float[Tensor, "token e"], kind: str = "softmax"
) -> Float[Tensor, "token e"]:
    """The definition for one head, one query at a time."""
    if kind == "plain":
        return B @ v
    if kind == "softplus":
        return torch.log1p(torch.exp(B)) @ v / torch.log1p(torch.exp(B)).sum(-1, keepdim=True)
    return torch.stack([torch.exp(row) @ v / torch.exp(row).sum() for row in B])


class Layer(Projected):
    """One learned matrix a head."""

    compares = False

    def __init__(self, site: Site, settings: Settings) -> None:
        super().__init__(site)
        self.settings = settings
        matrix = torch.full(
            (site.heads, site.tokens, site.tokens), 1 / site.tokens if settings.kind == "plain" else 0.0
        )
        if settings.kind == "softplus":
            matrix = torch.eye(site.tokens) + torch.randn_like(matrix)
        self.matrix = nn.Parameter(matrix)
        self.claims = Claims(causal=site.causal, takes_gate=True, tokens_alike=False)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> Mixture:
        weights = self._weights(v.shape[-2], inputs)
        if self.training and self.site.dropout:
            # Every window and group drops weights of its own, as with attention.
            weights = dropout(weights.expand(*v.shape[:-1], v.shape[-2]).contiguous(), self.site.dropout, True)
        if weights.dim() == 3:
            return torch.einsum("hqk,bghke->bghqe", weights.to(v.dtype), v), inputs.carry
        return weights.to(v.dtype) @ v, inputs.carry

    def operator(self, q: Tensor, k: Tensor, inputs: Inputs) -> Float[Tensor, "batch group head query key"]:
        return self._weights(q.shape[-2], inputs).to(q.dtype).expand(*q.shape[:-1], q.shape[-2])

    def _weights(self, tokens: int, inputs: Inputs) -> Float[Tensor, "*_ query key"]:
        """The weights [head, query, key]; where mask, bias or gate say more, [batch, group, head, query, key]."""
        scores = self.matrix[:, :tokens, :tokens]
        if self.settings.kind == "plain":
            return self._plain(scores, inputs)
        if self.settings.kind == "softplus":
            # Far below 0 the softplus is the exponential, whose logarithm neither underflows nor loses its gradient.
            scores = torch.where(scores < -20, scores, functional.softplus(scores.clamp(min=-20)).log())
        if inputs.gate is not None:
            scores = apply_gate(scores, inputs.gate, self.site.per_head**-0.5)
        if self.site.causal:
            scores = scores + causal_bias(tokens, scores)
        bias = score_bias(inputs, scores.dtype)
        return (scores if bias is None else scores + bias).softmax(-1)

    def _plain(self, weights: Tensor, inputs: Inputs) -> Tensor:
        earlier = torch.ones_like(weights[0], dtype=torch.bool).tril() if self.site.causal else None
        pairs = visible_pairs(inputs.mask, inputs.bias, earlier)
        if inputs.bias is not None:
            weights = weights + inputs.bias
        if pairs is not None:
            weights = torch.where(pairs, weights, 0.0)
        return weights if inputs.gate is None else weights * inputs.gate
