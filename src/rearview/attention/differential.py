"""Differential attention (DIFF Transformer, Ye et al., 2025): the difference of two softmax maps, noise cancelled.

    [Q1; Q2] = X W_Q,  [K1; K2] = X W_K,  V = X W_V
    O      = (softmax(Q1 K1^T / sqrt(d)) - lambda softmax(Q2 K2^T / sqrt(d))) V              (eq. 1)
    lambda = exp(lq1 . lk1) - exp(lq2 . lk2) + lambda_init                                   (eq. 2)
    heads  = (1 - lambda_init) RMSNorm(O), merged by W_O                                     (eq. 3)

Symbols: Q1, Q2, K1, K2 [token, d] with d half of a head's width; V [token, 2 d]; lq1, lk1, lq2, lk2 [d] shared by the
heads of a layer, drawn from N(0, 0.1^2); lambda_init = 0.8 - 0.6 exp(-0.3 (l - 1)) in layer l = 1, 2, ... A layer is
thus 6 d parameters larger than softmax attention with as many heads; the paper halves the number of heads against the
Transformer it compares with, which is left to `heads` here.

Where we differ: no rotary positions, since the hosts have positions of their own, and causal only where the place is.
An odd head width is rounded up for the queries and keys. Padding, biases and gates apply to both maps. RMSNorm's
division is part of the effective operator (a factor for each query), its learned gain part of the output map. Residual
scores, if the host carries them, are those of both maps.
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rearview.attention.contract import Carry, Claims, Heads, Inputs, Mixture, Projected, Site, Tokens, score_bias
from rearview.attention.softmax import attend_heads, join_carried, weigh_pairs
from rearview.core.errors import SettingsError
from rearview.embed.dropout import dropout

EPS = 1e-5
VECTOR_SCALE = 0.1


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of differential attention."""

    lambda_init: float | None = None
    """The start of lambda; None: 0.8 - 0.6 exp(-0.3 (l - 1)) in layer l = 1, 2, ..."""

    def __post_init__(self) -> None:
        if self.lambda_init is not None and not 0 <= self.lambda_init < 1:
            raise SettingsError(
                f"differential's lambda_init is {self.lambda_init}; it must lie in [0, 1), "
                "because what is left of a head is multiplied by 1 - lambda_init."
            )


def reference(
    Q: Float[Tensor, "two query d"],
    K: Float[Tensor, "two key d"],
    V: Float[Tensor, "key e"],
    strength: Float[Tensor, ""],
    gain: Float[Tensor, " e"],
    lambda_init: float,
    bias: Float[Tensor, "query key"] | None = None,
) -> Float[Tensor, "query e"]:
    """Equations 1 and 3 for one head, one query at a time; `strength` is lambda."""
    out = []
    for t in range(Q.shape[1]):
        maps = []
        for q, k in zip(Q[:, t], K, strict=True):
            scores = k @ q / math.sqrt(q.shape[-1])
            if bias is not None:
                scores = scores + bias[t]
            maps.append(torch.exp(scores - scores.max()) / torch.exp(scores - scores.max()).sum())
        o = (maps[0] - strength * maps[1]) @ V
        out.append((1 - lambda_init) * gain * o / torch.sqrt((o * o).mean() + EPS))
    return torch.stack(out)


class Layer(Projected):
    """Multi-head differential attention."""

    def __init__(self, site: Site, settings: Settings) -> None:
        width = -(-site.per_head // 2)
        super().__init__(replace(site, head_width=2 * width, value_width=site.per_value))
        self.site = replace(site, causal=self.site.causal)
        self.settings = settings
        by_layer = 0.8 - 0.6 * math.exp(-0.3 * site.layer)
        self.lambda_init = by_layer if settings.lambda_init is None else settings.lambda_init
        self.one_map = replace(self.site, head_width=width, value_width=site.per_value)
        self.vectors = nn.Parameter(torch.empty(2, 2, width).normal_(std=VECTOR_SCALE))
        self.gain = nn.Parameter(torch.ones(site.per_value))
        self.claims = Claims(causal=site.causal, carries_scores=True, takes_gate=True)

    @property
    def strength(self) -> Float[Tensor, ""]:
        """lambda, in float32 or wider: `vectors` holds [[lq1, lk1], [lq2, lk2]]."""
        wide = self.vectors.to(torch.promote_types(self.vectors.dtype, torch.float32))
        # Not prod(1), whose gradient looks for zeros on the host and so can't be captured in a CUDA graph.
        first, second = (wide[:, 0] * wide[:, 1]).sum(-1).exp()
        return first - second + self.lambda_init

    def mix(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> Mixture:
        q, k, handed_on = self._maps(q, k, inputs)
        if inputs.gate is None:
            bias = self._bias(inputs, v)
            first, second = (attend_heads(q[i], k[i], v, bias, self.one_map, self.training) for i in range(2))
        else:
            # No fused kernel multiplies scores by a gate that learns.
            first, second = dropout(self._weights(q, k, inputs), self.site.dropout, self.training) @ v
        mixed = first - self.strength.to(v.dtype) * second
        return mixed * _inverse_root_mean_square(mixed), handed_on

    def operator(self, q: Tensor, k: Tensor, inputs: Inputs) -> Float[Tensor, "batch group head query key"]:
        q, k, _ = self._maps(q, k, inputs)
        first, second = self._weights(q, k, inputs)
        weights = first - self.strength.to(first.dtype) * second
        return weights * _inverse_root_mean_square(weights @ self.values(inputs.x))

    def _weights(self, q: Tensor, k: Tensor, inputs: Inputs) -> Float[Tensor, "2 batch group head query key"]:
        """Both maps."""
        return weigh_pairs(q, k, self._bias(inputs, q), inputs.gate, self.one_map)

    def project(self, heads: Heads) -> Tokens:
        return super().project(heads * (self.gain * (1 - self.lambda_init)))

    def _maps(self, q: Tensor, k: Tensor, inputs: Inputs) -> tuple[Tensor, Tensor, Carry | None]:
        """Queries and keys [2, batch, group, head, token, width] of the two maps, and what the next layer gets."""
        # Behind batch and group: what is handed on has its windows first, and of each map both flatten as they lie.
        q, k = (part.unflatten(-1, (2, -1)).movedim(-2, 2) for part in (q, k))
        q, k = join_carried(q, k, inputs)
        return q.movedim(2, 0), k.movedim(2, 0), None if inputs.carry is None else (q, k)

    def _bias(self, inputs: Inputs, like: Tensor) -> Tensor | None:
        bias = score_bias(inputs, like.dtype)
        return None if bias is None else bias.to(like.dtype)


def _inverse_root_mean_square(heads: Heads) -> Float[Tensor, "batch group head token 1"]:
    """The factor that RMSNorm multiplies a token of a head by."""
    wide = heads.to(torch.promote_types(heads.dtype, torch.float32))
    return (wide.square().mean(-1, keepdim=True) + EPS).rsqrt().to(heads.dtype)
