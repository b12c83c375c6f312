"""Graph attention (GATv2, Brody et al., 2021): tokens look at their neighbours, with scores that are no products.

    e_ij = a . LeakyReLU( W_s [h_i ; h~_j] )                                        (eq. 32 of the paper on priming)
    h'_i = sigma( sum_(j in N_i and i) softmax_j(e_ij) W h~_j )                      (eq. 31, 33)
    h~_j = h_j                                     standard
    h~_j = h_j * F_ij                              primed (eq. 34), F as in prime attention, one vector for every edge

Symbols: h_i a token; N_i its neighbours (`edges`; all tokens where none are given); a [d_h] and W_s [d_h, 2 width] of
one head; sigma ELU, as in Velickovic et al. (2018).

W_s [h_i ; h_j] is the sum of a query W_q h_i and a key W_k h_j, so cost and memory of the standard form grow with edges
times width. The primed form maps every edge's own h~_j, edges times width squared; the text counts less, which would
need F to act behind the maps, where equation 34 does not have it. Edges are worked through in blocks, each computed
again in the backward pass.

Where we differ from the text, or it is silent: W_s is 2 width wide (it says width, which does not fit a concatenation);
loops are included, as equation 29 has it; the weights of a calendar token's pairs are not primed; heads are merged by a
map of their own after sigma, as in every mechanism here, because what a block adds to its input needs both signs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.attention import prime
from rearview.attention.contract import Claims, Heads, Inputs, Mixture, Projected, Site, Tokens, score_bias
from rearview.attention.prime import features as pairs
from rearview.attention.shared.execution import block_spans, recompute
from rearview.attention.shared.graph import Edges, EdgeWeights, list_edges, scatter_weights, softmax_by_query
from rearview.embed.dropout import dropout

Views = Callable[[int, int], Tensor]
"""F of edges a to b: [edge, width]."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of graph attention."""

    edges: Any = None
    """The graph: pairs (query, key), or an adjacency matrix; loops are added. None: every token sees every other."""
    primed: bool = False
    """Whether every edge has its own view of its neighbour, as in prime attention."""
    features: prime.Features = "full"
    """The features a primer is made from: "lead_lag", "instantaneous", both ("full"), or "random"."""
    free: bool = True
    """A free term per edge beside the features, where edges are primed."""
    slope: float = 0.2
    """Slope of LeakyReLU below 0."""


def reference(
    h: Float[Tensor, "token width"],
    a: Float[Tensor, " d"],
    W_q: Float[Tensor, "d width"],
    W_k: Float[Tensor, "d width"],
    W: Float[Tensor, "e width"],
    neighbours: list[list[int]],
    F: Float[Tensor, "token token width"],
    slope: float = 0.2,
) -> Float[Tensor, "token e"]:
    """Eq. 32 to 34 for one head, one token at a time; F = 1 is the standard form."""
    out = []
    for i in range(len(h)):
        h_primed = [h[j] * F[i, j] for j in neighbours[i]]  # eq. 34
        W_s = torch.cat([W_q, W_k], dim=-1)
        e = torch.stack([a @ functional.leaky_relu(W_s @ torch.cat([h[i], h_j]), slope) for h_j in h_primed])  # eq. 32
        w = torch.exp(e - e.max())
        messages = torch.stack([W @ h_j for h_j in h_primed])
        out.append(functional.elu(w @ messages / w.sum()))  # eq. 33
    return torch.stack(out)


class Layer(Projected):
    """Multi-head graph attention."""

    edges: Tensor

    def __init__(self, site: Site, settings: Settings) -> None:
        super().__init__(site)
        self.settings = settings
        self.score = nn.Parameter(torch.empty(site.heads, site.per_head))
        nn.init.xavier_uniform_(self.score)
        channels = site.variates if site.variates is not None else 0 if site.time_ordered else site.tokens
        self.channels = channels
        self.count = channels or site.tokens
        edges = list_edges("gat", settings.edges, self.count, site.tokens)
        if site.causal:
            times = torch.arange(site.tokens) if site.times is None else torch.tensor(site.times)
            edges = edges[:, times[edges[1]] <= times[edges[0]]]
        self.register_buffer("edges", edges)
        self.primer: prime.Primer | None = None
        if settings.primed:
            made_from = prime.Settings(features=settings.features, free=settings.free)
            width = pairs.feature_width(settings.features, site.lookback or 0) if channels else 0
            self.primer = prime.Primer((self.edges.shape[1],), 1, site.width, width, made_from)
        self.claims = Claims(causal=site.causal, tokens_alike=settings.edges is None and not settings.primed)

    def prepare(self, windows: Float[Tensor, "window channel time"]) -> None:
        """Average the features of every edge over training windows; tokens that are no channels have none."""
        kind = self.settings.features
        if self.primer is None or not self.channels or kind == "random":
            return
        pairs.check_windows("gat", windows, kind, self.channels, self.site.lookback)
        with torch.no_grad():
            found = pairs.average_features(windows, kind)
            query, key = self.edges.clamp(max=self.channels - 1)
            self.primer.features.copy_(found.to(self.primer.features)[query, key])

    def mix(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> Mixture:
        edges, views = self._within(q.shape[3])
        weights = dropout(self._along(q, k, inputs, edges, views), self.site.dropout, self.training)
        rows, x = v.flatten(0, 1), inputs.x.flatten(0, 1)
        # In float32, where sums under autocast would end: a sum is of one type, and rounded once.
        wide = torch.promote_types(v.dtype, torch.float32)
        out = torch.zeros_like(rows, dtype=wide)
        for a, b in self._spans(rows, edges):
            part = recompute(self._messages, rows, x, weights[..., a:b], edges[:, a:b], views, a, b)
            out = out.index_add(2, edges[0, a:b], part.to(wide))
        return out.to(v.dtype).view(v.shape), inputs.carry

    def operator(self, q: Tensor, k: Tensor, inputs: Inputs) -> Float[Tensor, "batch group head query key"]:
        """The weights; where edges are primed they apply to each edge's own values, W (h_j * F_ij) (`modulators`)."""
        edges, views = self._within(q.shape[3])
        return scatter_weights(self._along(q, k, inputs, edges, views), edges, q.shape[3]).unflatten(0, q.shape[:2])

    def project(self, heads: Heads) -> Tokens:
        return super().project(functional.elu(heads))

    def modulators(self) -> Float[Tensor, "query key width"]:
        """F of every pair of tokens; 1 where there is no edge, and in the standard form everywhere."""
        tokens = self.site.tokens
        whole = torch.ones(tokens, tokens, self.site.width, dtype=self.score.dtype, device=self.score.device)
        if self.primer is None:
            return whole
        return whole.index_put((self.edges[0], self.edges[1]), self._views(0, self.edges.shape[1]))

    def _along(self, q: Tensor, k: Tensor, inputs: Inputs, edges: Edges, views: Views | None) -> EdgeWeights:
        """The weights of all edges."""
        rows = [part.flatten(0, 1) for part in (q, k, inputs.x)]
        at = self._spans(rows[0], edges)
        logits = torch.cat([recompute(self._scores, *rows, edges[:, a:b], views, a, b) for a, b in at], dim=-1)
        bias = score_bias(inputs, q.dtype)
        if bias is not None:
            whole = bias.to(q.dtype).expand(*q.shape[:3], q.shape[3], q.shape[3])
            logits = logits + whole[..., edges[0], edges[1]].flatten(0, 1)
        return softmax_by_query(logits, edges[0], q.shape[3])

    def _scores(self, q: Tensor, k: Tensor, x: Tensor, edges: Edges, views: Views | None, a: int, b: int) -> Tensor:
        keys = k[:, :, edges[1]] if views is None else self._map_views(x[:, edges[1]] * views(a, b), 1)
        met = functional.leaky_relu(q[:, :, edges[0]] + keys, self.settings.slope)
        return (met @ self.score[:, :, None])[..., 0]

    def _messages(
        self, v: Tensor, x: Tensor, weights: Tensor, edges: Edges, views: Views | None, a: int, b: int
    ) -> Tensor:
        values = v[:, :, edges[1]] if views is None else self._map_views(x[:, edges[1]] * views(a, b), 2)
        return weights[..., None] * values

    def _map_views(self, seen: Float[Tensor, "row edge width"], which: int) -> Float[Tensor, "row head edge _"]:
        """Keys (the second of the maps) or values (the third) of each edge's own view of its neighbour."""
        weight = self.qkv.weight.split(self.widths)[which]
        bias = None if self.qkv.bias is None else self.qkv.bias.split(self.widths)[which]
        return functional.linear(seen, weight, bias).unflatten(-1, (self.site.heads, -1)).transpose(1, 2)

    def _views(self, a: int, b: int) -> Float[Tensor, "edge width"]:
        """F of some edges; 1 where an end is a calendar token."""
        assert self.primer is not None
        inside = (self.edges[:, a:b] < self.count).all(0)
        return 1 + self.primer.change(a, b, None)[:, 0] * inside[:, None]

    def _within(self, tokens: int) -> tuple[Edges, Views | None]:
        """The edges among the first tokens, and F along them where they are primed."""
        if tokens == self.site.tokens:
            return self.edges, None if self.primer is None else self._views
        kept = torch.nonzero((self.edges < tokens).all(0))[:, 0]
        if self.primer is None:
            return self.edges[:, kept], None
        made = self._views(0, self.edges.shape[1])[kept]
        return self.edges[:, kept], lambda a, b: made[a:b]

    def _spans(self, rows: Tensor, edges: Edges) -> list[tuple[int, int]]:
        return block_spans(edges.shape[1], rows.shape[0] * max(sum(self.widths[1:]), self.site.width), rows.device)
