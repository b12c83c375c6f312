"""HyperGLU (after HyperMLP, Lu and Yang, 2026): gated attention whose token mixers are diagonal plus low rank.

The attention that TOA's classification table calls "HyperGLU (DPLR)": where TOA-gated has free matrices S1 and S2, this
has mixers of low rank that every query chooses for itself. For a query token x_t over its slots (the keys):

    R_j(x_t) = I + Diag(p_j) + A_j Diag(s_j(x_t)) B_j^T,   s_j(x_t) = sigmoid(x_t W_j)      j: gate, scale, readout
    z_j      = ((x_t W_Q,j) * sigmoid(x_t W_M,j)) K_j^T / sqrt(d)                           j: gate, scale
    h_j      = z_j R_j(x_t)
    a_t      = softplus(h_scale) * max(0, h_gate / |h_gate|)
    o_t      = a_t R_readout(x_t)^T V

Symbols: p_j [N] (starts at 0), A_j, B_j [N, r] (start small) per head; K_j, V keys and values; d the width of a
branch's queries and keys. Cost is that of attention with r more columns: z_j R_j is one product of
[q | (q K^T A) * s] with [(1 + p) K | B], and the readout needs a_t only against [(1 + p) V | B].

Where we differ, or the source is silent. TOA gives the table but no formula, and no code of its authors is public. What
stands here, with the rank and the starting values, is HyperMLP as an independent re-implementation states it
(pratyush-acharya/implementing-hypermlp-paper).
- HyperMLP is causal and numbers its slots by age (slot 0 is the token itself). So it is here in a causal place. In the
  others, as TOA's experiments have it, slots are positions and every token sees all.
- HyperMLP also gates the features that a head reads out, by sigmoid(x_t W). Such a head is not one matrix over tokens,
  so that gate is left out; the one on the queries is kept.
- The scores are divided by sqrt(d); the norm |h| takes that out of the gate, not out of the scale.
- Padded keys and values are 0 and padded slots are hidden after R, as in toa. A bias joins the gate's scores.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.attention.contract import Claims, Inputs, Mixture, Projected, Site, Tokens, zero_padding
from rearview.attention.shared.execution import in_float32, through_float32
from rearview.attention.shared.rectifier import rectify, visible_pairs
from rearview.core.errors import SettingsError
from rearview.core.settings import check_least
from rearview.embed.dropout import dropout

FACTOR_SCALE = 0.02
GATE, SCALE, READOUT = range(3)


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of HyperGLU attention."""

    rank: int = 16
    """Rank r of the part of a mixer that each query chooses."""
    score_width: int | None = None
    """Width d of each branch's queries and keys; None: half of a head's, so that both fit in the place of one."""
    score_scale: float | None = None
    """The factor of the scores; None: 1 / sqrt(score_width)."""

    def __post_init__(self) -> None:
        check_least(self, "hyperglu's ", rank=1, score_width=1)
        if self.score_scale is not None and not 0 < self.score_scale < float("inf"):
            raise SettingsError(f"hyperglu's score_scale is {self.score_scale}; it must be a positive number, or None.")


def reference(
    Q: Float[Tensor, "two token d"],
    K: Float[Tensor, "two token d"],
    V: Float[Tensor, "token e"],
    p: Float[Tensor, "three token"],
    A: Float[Tensor, "three token r"],
    B: Float[Tensor, "three token r"],
    s: Float[Tensor, "three token r"],
    causal: bool = False,
) -> Float[Tensor, "token e"]:
    """The definition for one head, one query at a time, with its mixers written out; Q holds the gated queries."""
    out = []
    for t in range(len(V)):
        slots = torch.arange(t, -1, -1) if causal else torch.arange(len(V))
        n = len(slots)
        R = [torch.diag(1 + p[j, :n]) + A[j, :n] @ torch.diag(s[j, t]) @ B[j, :n].T for j in range(3)]
        h = [Q[j, t] @ K[j, slots].T / Q.shape[-1] ** 0.5 @ R[j] for j in (GATE, SCALE)]
        a = functional.softplus(h[SCALE]) * (h[GATE] / h[GATE].norm()).clamp(min=0)
        out.append(a @ R[READOUT].T @ V[slots])
    return torch.stack(out)


def index_by_age(rows: Tensor) -> Tensor:
    """Keys numbered by age instead of position: [..., t, age] of [..., t, t - age], 0 where age > t.

    Applied twice it gives back the lower triangle: the way there is the way back.
    """
    steps = torch.arange(rows.shape[-1], device=rows.device)
    position = (steps[:, None] - steps).clamp(min=0)
    return rows.gather(-1, position.expand(rows.shape)).tril()


class Layer(Projected):
    """Multi-head HyperGLU attention."""

    def __init__(self, site: Site, settings: Settings) -> None:
        if site.causal and site.times is not None:
            raise SettingsError(
                f"hyperglu numbers the past by age, but several of {site.host}'s tokens stand at one time; "
                "use softmax or toa."
            )
        width = settings.score_width or -(-site.per_head // 2)
        super().__init__(replace(site, head_width=2 * width, value_width=site.per_value))
        self.site = site
        self.settings = settings
        self.scale = width**-0.5 if settings.score_scale is None else settings.score_scale
        factor = (3, site.heads, site.tokens, settings.rank)
        self.diagonal = nn.Parameter(torch.zeros(factor[:-1]))
        self.spread = nn.Parameter(torch.empty(factor).normal_(std=FACTOR_SCALE))
        self.gather = nn.Parameter(torch.empty(factor).normal_(std=FACTOR_SCALE))
        self.query_gate = nn.Linear(site.width, self.widths[0])
        self.rank_gate = nn.Linear(site.width, 3 * site.heads * settings.rank)
        self.claims = Claims(causal=site.causal, hides_pairs=False, tokens_alike=False)

    def heads(self, x: Tokens) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().heads(x)
        gate = self.query_gate(x).sigmoid().unflatten(-1, (self.site.heads, -1)).transpose(2, 3)
        return q * gate, k, v

    @in_float32
    def mix(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> Mixture:
        if self.site.causal:
            return self._by_age(q, k, inputs, self.training) @ zero_padding(v, inputs.mask), inputs.carry
        diagonal, spread, gather, gates = self._mixers(inputs, q)
        q, k = self._branches(q, k, inputs)
        v = zero_padding(v, inputs.mask)
        chosen = q @ torch.einsum("sbghnd,shnr->sbghdr", k, spread[:READOUT]) * gates[:READOUT]
        bank = gather[:, None, None].expand(*gates.shape[:-1], -1)
        keys = torch.cat([k * diagonal[:READOUT], bank[:READOUT]], dim=-1)
        scores = torch.cat([q, chosen], dim=-1) @ keys.transpose(-1, -2)
        weights = dropout(self._activate(scores, inputs), self.site.dropout, self.training)
        read = weights @ torch.cat([v * diagonal[READOUT], bank[READOUT]], dim=-1)
        direct, low = read[..., : v.shape[-1]], read[..., v.shape[-1] :] * gates[READOUT]
        return direct + low @ torch.einsum("bghne,hnr->bghre", v, spread[READOUT]), inputs.carry

    @through_float32
    def operator(self, q: Tensor, k: Tensor, inputs: Inputs) -> Float[Tensor, "batch group head query key"]:
        if self.site.causal:
            return self._by_age(q, k, inputs, training=False)
        scores = self._spread_scores(self._scores(q, k, inputs), inputs)
        weights = self._read(self._activate(scores, inputs), inputs)
        return weights if inputs.mask is None else weights * inputs.mask[:, :, None, None, :]

    def _by_age(self, q: Tensor, k: Tensor, inputs: Inputs, training: bool) -> Tensor:
        """The operator of a causal place, where slots are ages."""
        scores = self._spread_scores(index_by_age(self._scores(q, k, inputs)), inputs)
        tokens = scores.shape[-1]
        pairs = torch.ones(tokens, tokens, dtype=torch.bool, device=q.device).tril()
        if inputs.mask is not None:
            pairs = index_by_age(inputs.mask[:, :, None, None, :].expand(*inputs.mask.shape[:2], 1, tokens, tokens))
        bias = None if inputs.bias is None else index_by_age(inputs.bias.broadcast_to(scores.shape[1:]))
        weights = self._activate(scores, inputs._replace(mask=None, bias=bias), pairs)
        weights = self._read(dropout(weights, self.site.dropout, training), inputs)
        return index_by_age(weights * pairs)

    def _scores(self, q: Tensor, k: Tensor, inputs: Inputs) -> Tensor:
        q, k = self._branches(q, k, inputs)
        return q @ k.transpose(-1, -2)

    def _branches(self, q: Tensor, k: Tensor, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Scaled queries and real keys [2, batch, group, head, token, width] of gate and scale."""
        q, k = (part.unflatten(-1, (2, -1)).movedim(-2, 0) for part in (q, k))
        return q * self.scale, zero_padding(k, inputs.mask)

    def _mixers(self, inputs: Inputs, like: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """1 + p, A, B [3, ...] for the tokens at hand, and s [3, batch, group, head, token, rank]."""
        tokens = inputs.x.shape[2]
        gates = self.rank_gate(inputs.x.to(self.rank_gate.weight.dtype)).sigmoid()
        gates = gates.to(like.dtype).unflatten(-1, (3, self.site.heads, -1)).movedim((3, 4), (0, 3))
        diagonal = 1 + self.diagonal[:, None, None, :, :tokens, None]
        spread, gather = self.spread[:, :, :tokens], self.gather[:, :, :tokens]
        return diagonal.to(gates.dtype), spread.to(gates.dtype), gather.to(gates.dtype), gates

    def _spread_scores(self, z: Tensor, inputs: Inputs) -> Tensor:
        """z R = z (1 + p) + ((z A) * s) B^T for gate and scale."""
        diagonal, spread, gather, gates = (part[:READOUT] for part in self._mixers(inputs, z))
        low = torch.einsum("sbghtn,shnr->sbghtr", z, spread) * gates
        return z * diagonal.transpose(-1, -2) + torch.einsum("sbghtr,shnr->sbghtn", low, gather)

    def _read(self, a: Tensor, inputs: Inputs) -> Tensor:
        """a R^T = a (1 + p) + ((a B) * s) A^T for the readout."""
        diagonal, spread, gather, gates = (part[READOUT] for part in self._mixers(inputs, a))
        low = torch.einsum("bghtn,hnr->bghtr", a, gather) * gates
        return a * diagonal.transpose(-1, -2) + torch.einsum("bghtr,hnr->bghtn", low, spread)

    def _activate(self, scores: Tensor, inputs: Inputs, earlier: Tensor | None = None) -> Tensor:
        pairs = visible_pairs(inputs.mask, inputs.bias, earlier)
        return rectify(scores[GATE], inputs.bias, pairs, "l2") * functional.softplus(scores[SCALE])
