"""Softmax attention, the yardstick: o_t = sum_j softmax_j(q_t . k_j / sqrt(d_h)) v_j, on torch's fused kernel.

Symbols: q, k, v [token, d_h] of one head; M the sum of padding mask, bias and causal mask.

Residual attention scores (RealFormer; PatchTST and Powerformer have them on): S_l = Q_l K_l^T / sqrt(d_h) + S_(l-1).
We carry queries and keys instead of scores, S_l = [Q_1 .. Q_l] [K_1 .. K_l]^T / sqrt(d_h): the same numbers, but the
score matrix is never held, so every layer runs fused. A bias given to a layer is its own, added once and not carried.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from rearview.attention.contract import Carry, Claims, Given, Heads, Projected, Site, additive, causal_bias


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of softmax attention."""


def reference(
    q: Float[Tensor, "query d"],
    k: Float[Tensor, "key d"],
    v: Float[Tensor, "key e"],
    bias: Float[Tensor, "query key"] | None = None,
) -> Float[Tensor, "query e"]:
    """softmax(Q K^T / sqrt(d) + M) V, one query at a time."""
    out = []
    for t in range(len(q)):
        scores = k @ q[t] / math.sqrt(q.shape[-1])
        if bias is not None:
            scores = scores + bias[t]
        w = torch.exp(scores - scores.max())
        out.append(w @ v / w.sum())
    return torch.stack(out)


class Layer(Projected):
    """Multi-head softmax attention."""

    def __init__(self, site: Site, settings: Settings) -> None:
        super().__init__(site)
        self.settings = settings
        self.claims = Claims(causal=site.causal, carries_scores=True, reduces_to_softmax_at="always")

    def mix(self, q: Tensor, k: Tensor, v: Tensor, given: Given) -> tuple[Heads, Carry | None]:
        q, k = joined(q, k, given.carry)
        mixed = fused(q, k, v, self._bias(given), self.site, self.training)
        return mixed, None if given.carry is None else (q, k)

    def operator(self, q: Tensor, k: Tensor, given: Given) -> Float[Tensor, "batch group head query key"]:
        q, k = joined(q, k, given.carry)
        scores = q @ k.transpose(-1, -2) * self.site.per_head**-0.5
        added = self._bias(given)
        if self.site.causal:
            scores = scores + causal_bias(q.shape[-2], q)
        return (scores if added is None else scores + added).softmax(-1)

    def _bias(self, given: Given) -> Tensor | None:
        if given.mask is None:
            return given.bias
        padding = additive(given.mask, given.x.dtype)
        return padding if given.bias is None else padding + given.bias


def fused(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, site: Site, training: bool) -> Heads:
    """softmax(Q K^T / sqrt(d_h) + bias) V on torch's fused kernel; queries and keys may be wider than the values."""
    batch, group, heads, tokens, width = v.shape
    if bias is not None:
        if site.causal:
            bias = bias + causal_bias(tokens, q)
        bias = bias.to(q.dtype).expand(batch, group, heads, tokens, tokens).flatten(0, 1)
    spare = q.shape[-1] - width
    if spare > 0:
        # The fused kernels want one head width; the values' padding is cut off again, zeros in q and k change nothing.
        v = functional.pad(v, (0, spare))
    elif spare < 0:
        q, k = functional.pad(q, (0, -spare)), functional.pad(k, (0, -spare))
    out = functional.scaled_dot_product_attention(
        q.flatten(0, 1),
        k.flatten(0, 1),
        v.flatten(0, 1),
        attn_mask=bias,
        dropout_p=site.dropout if training else 0.0,
        is_causal=site.causal and bias is None,
        scale=site.per_head**-0.5,
    )
    return out[..., :width].view(batch, group, heads, tokens, width)


def joined(q: Tensor, k: Tensor, carry: Carry | None) -> tuple[Tensor, Tensor]:
    """Queries and keys beside those that earlier layers handed on."""
    if not carry:
        return q, k
    return torch.cat([carry[0], q], dim=-1), torch.cat([carry[1], k], dim=-1)
