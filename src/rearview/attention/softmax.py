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

from rearview.attention.contract import Carry, Claims, Mask, Projected, Site, Tokens, additive, causal_bias


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

    def forward(
        self,
        x: Tokens,
        *,
        mask: Mask | None = None,
        bias: Tensor | None = None,
        ages: Tensor | None = None,
        carry: Carry | None = None,
    ) -> Tokens | tuple[Tokens, Carry]:
        q, k, v = self.heads(x)
        wide_q, wide_k = joined(q, k, carry)
        out = self._fused(wide_q, wide_k, v, self._bias(x, mask, bias))
        y = self.project(out)
        return y if carry is None else (y, (wide_q, wide_k))

    def weights(
        self,
        x: Tokens,
        *,
        mask: Mask | None = None,
        bias: Tensor | None = None,
        ages: Tensor | None = None,
        carry: Carry | None = None,
    ) -> Float[Tensor, "batch group head query key"]:
        q, k, _ = self.heads(x)
        q, k = joined(q, k, carry)
        scores = q @ k.transpose(-1, -2) * self.site.per_head**-0.5
        added = self._bias(x, mask, bias)
        if self.site.causal:
            scores = scores + causal_bias(x.shape[2], x)
        return (scores if added is None else scores + added).softmax(-1)

    def _bias(self, x: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
        if mask is None:
            return bias
        padding = additive(mask, x.dtype)
        return padding if bias is None else padding + bias

    def _fused(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
        batch, group, heads, tokens, width = v.shape
        if bias is not None:
            if self.site.causal:
                bias = bias + causal_bias(tokens, q)
            bias = bias.to(q.dtype).expand(batch, group, heads, tokens, tokens).flatten(0, 1)
        if q.shape[-1] > width:
            # The fused kernels want one head width; the values' padding is cut off again.
            v = functional.pad(v, (0, q.shape[-1] - width))
        out = functional.scaled_dot_product_attention(
            q.flatten(0, 1),
            k.flatten(0, 1),
            v.flatten(0, 1),
            attn_mask=bias,
            dropout_p=self.site.dropout if self.training else 0.0,
            is_causal=self.site.causal and bias is None,
            scale=self.site.per_head**-0.5,
        )
        return out[..., :width].view(batch, group, heads, tokens, width)


def joined(q: Tensor, k: Tensor, carry: Carry | None) -> tuple[Tensor, Tensor]:
    """Queries and keys beside those that earlier layers handed on."""
    if not carry:
        return q, k
    return torch.cat([carry[0], q], dim=-1), torch.cat([carry[1], k], dim=-1)
