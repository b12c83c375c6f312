"""Softmax attention, the yardstick: o_t = sum_j softmax_j(q_t . k_j / sqrt(d_h)) v_j, on torch's fused kernel.

Symbols: q, k, v [token, d_h] of one head; M the sum of padding mask, bias and causal mask.

Residual attention scores (RealFormer; PatchTST and Powerformer have them on): S_l = Q_l K_l^T / sqrt(d_h) + S_(l-1).
We carry queries and keys instead of scores, S_l = [Q_1 .. Q_l] [K_1 .. K_l]^T / sqrt(d_h): the same numbers, but the
score matrix is never held, so every layer runs fused. A bias given to a layer is its own, added once and not carried.

With `rotary`, q_t and k_j are turned by angles that grow with time first (Attn+RoPE in CAPS's tables; `rotary` has the
formula), so that scores depend on how far apart two tokens are. Carried queries and keys stay as they were turned.

With `places` a query and a key of each place, learned and the same for all windows, join those of the token there, so
that tokens without an order, such as the channels of iTransformer, can be told apart.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from rearview.attention.contract import Claims, Inputs, Mixture, Projected, Site, apply_gate, causal_bias, score_bias
from rearview.attention.shared.execution import through_float32
from rearview.attention.shared.fused import attend, flatten_bias
from rearview.attention.shared.places import Places
from rearview.attention.shared.rotary import Rotary
from rearview.core.errors import SettingsError
from rearview.embed.dropout import dropout


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of softmax attention."""

    rotary: bool = False
    """Whether queries and keys are turned by their position in time, at fixed frequencies of base 10000."""
    places: bool = False
    """Whether each place has a learned query and key, which join those of its token."""


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
        if settings.rotary and not site.time_ordered:
            raise SettingsError(
                f"softmax with rotary=True turns tokens by their time, but {site.host}'s tokens have no order in time; "
                "use rotary=False, prime or toa."
            )
        super().__init__(site)
        self.settings = settings
        self.rotary = Rotary(site) if settings.rotary else None
        self.places = Places(site) if settings.places else None
        plain = [f"{name}=False" for name in ("rotary", "places") if getattr(settings, name)]
        self.claims = Claims(
            causal=site.causal,
            needs_time_order=settings.rotary,
            carries_scores=True,
            takes_gate=True,
            tokens_alike=not settings.places,
            reduces_to_softmax_at=", ".join(plain) or "always",
        )

    def mix(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> Mixture:
        q, k = self._queries_and_keys(q, k, inputs)
        return mix_heads(q, k, v, inputs, self.site, self.training), None if inputs.carry is None else (q, k)

    def operator(self, q: Tensor, k: Tensor, inputs: Inputs) -> Float[Tensor, "batch group head query key"]:
        return weigh_heads(*self._queries_and_keys(q, k, inputs), inputs, self.site)

    def _queries_and_keys(self, q: Tensor, k: Tensor, inputs: Inputs) -> tuple[Tensor, Tensor]:
        if self.places is not None:
            place_q, place_k = self.places(q.shape[-2])
            q, k = q + place_q, k + place_k
        if self.rotary is not None:
            q, k = self.rotary(q, k, inputs.ages)
        return join_carried(q, k, inputs)


def mix_heads(q: Tensor, k: Tensor, v: Tensor, inputs: Inputs, site: Site, training: bool) -> Tensor:
    """The values of every head, mixed by its queries and keys and whatever bias, mask and gate say."""
    if inputs.gate is None:
        return attend_heads(q, k, v, score_bias(inputs, inputs.x.dtype), site, training)
    # No fused kernel multiplies scores by a gate that learns.
    return dropout(weigh_heads(q, k, inputs, site), site.dropout, training) @ v


def weigh_heads(q: Tensor, k: Tensor, inputs: Inputs, site: Site) -> Float[Tensor, "batch group head query key"]:
    """The weights that `mix_heads` applies."""
    return weigh_pairs(q, k, score_bias(inputs, inputs.x.dtype), inputs.gate, site)


def attend_heads(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, site: Site, training: bool) -> Tensor:
    """softmax(Q K^T / sqrt(d_h) + bias) V, fused; queries and keys may be wider than the values."""
    bias = None if bias is None else flatten_bias(bias, *v.shape[:2])
    rows = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
    rate = site.dropout if training else 0.0
    return attend(*rows, bias, site.per_head**-0.5, causal=site.causal, dropout=rate).view(v.shape)


@through_float32
def weigh_pairs(
    q: Tensor, k: Tensor, bias: Tensor | None, gate: Tensor | None, site: Site
) -> Float[Tensor, "*_ query key"]:
    """softmax(Q K^T / sqrt(d_h) + bias), every weight of it; a gate multiplies the scores before the bias joins."""
    scale = site.per_head**-0.5
    scores = q @ k.transpose(-1, -2) * scale
    if gate is not None:
        scores = apply_gate(scores, gate, scale)
    if site.causal:
        scores = scores + causal_bias(scores.shape[-1], scores)
    return (scores if bias is None else scores + bias).softmax(-1)


def join_carried(q: Tensor, k: Tensor, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Queries and keys beside those that earlier layers handed on."""
    if not inputs.carry:
        return q, k
    return torch.cat([inputs.carry[0], q], dim=-1), torch.cat([inputs.carry[1], k], dim=-1)
