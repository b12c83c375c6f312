"""Prime attention as a layer: settings, the reference form in the paper's symbols, and the form that runs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.attention.contract import Carry, Claims, Given, Heads, Projected, Site, additive, causal_bias, gated
from rearview.attention.prime import features as pairs
from rearview.attention.prime import mixing
from rearview.attention.rbca import lend_decay
from rearview.attention.shared.graph import edge_list, spread
from rearview.core.errors import SettingsError

Features = Literal["full", "lead_lag", "instantaneous", "random"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of prime attention."""

    primer: Literal["dense", "sparse", "graph"] = "dense"
    """Which pairs have a primer: all, a random share, or the edges of a graph (attention then runs along edges)."""
    sparsity: float = 0.0
    """For "sparse": share of pairs without a primer, drawn once when the layer is built; 1 is softmax attention."""
    edges: Any = None
    """For "graph": pairs (query, key), or an adjacency matrix; loops are added."""
    features: Features = "full"
    """What a primer is made from: "lead_lag", "instantaneous", both ("full"), or "random"."""
    free: bool = True
    """A free term per pair beside the features."""
    per_window: bool = False
    """Features of each window instead of their average over the training windows."""
    bias: str | Mapping[str, Any] | None = None
    """A mechanism whose bias is added to the scores, such as {"name": "rbca"}."""

    def __post_init__(self) -> None:
        for name, known in (
            ("primer", ("dense", "sparse", "graph")),
            ("features", ("full", "lead_lag", "instantaneous", "random")),
        ):
            if getattr(self, name) not in known:
                raise SettingsError(f"prime: {name} is {getattr(self, name)!r}; it can be one of {', '.join(known)}.")
        if not 0 <= self.sparsity <= 1:
            raise SettingsError(f"prime: sparsity is {self.sparsity}; it is a share from 0 to 1.")
        if self.sparsity and self.primer != "sparse":
            raise SettingsError(f"prime: sparsity goes with primer='sparse', but primer is {self.primer!r}.")
        if (self.edges is None) == (self.primer == "graph"):
            raise SettingsError("prime: primer='graph' and edges=... belong together; give both or neither.")
        if self.per_window and self.primer == "graph":
            raise SettingsError("prime: per_window features along a graph are not kept; use primer='dense'.")
        if self.per_window and self.features == "random":
            raise SettingsError("prime: random features are drawn once and read from no window; use per_window=False.")


def reference(
    q: Float[Tensor, "query d"],
    k: Float[Tensor, "key d"],
    v: Float[Tensor, "key d"],
    F: Float[Tensor, "query key d"],
) -> Float[Tensor, "query d"]:
    """Eq. 10 to 12, one query at a time."""
    out = []
    for i in range(len(q)):
        k_primed = k * F[i]  # eq. 11
        v_primed = v * F[i]  # eq. 12
        e = k_primed @ q[i] / math.sqrt(q.shape[-1])
        w = torch.exp(e - e.max())
        out.append(w @ v_primed / w.sum())  # eq. 10
    return torch.stack(out)


class Primer(nn.Module):
    """F of every pair, or of every edge of a graph, computed for the rows that are asked for.

    Rows are queries (dense, sparse) or edges (graph).
    """

    def __init__(self, shape: tuple[int, ...], heads: int, width: int, feature_width: int, settings: Settings) -> None:
        super().__init__()
        self.heads = heads
        inner = heads * width
        start = torch.zeros(*shape, inner)
        if settings.features == "random":
            nn.init.xavier_uniform_(start.view(-1, inner))
        self.free: Tensor | None
        if settings.free:
            self.free = nn.Parameter(start)
        else:
            self.register_buffer("free", start if settings.features == "random" else None)
        self.features: Tensor
        self.register_buffer("features", torch.zeros(*shape, feature_width))
        self.expand = nn.Linear(feature_width, inner, bias=False) if feature_width else None
        self.hidden = nn.Linear(inner, inner)
        self.out = nn.Linear(inner, inner)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def change(
        self, a: int, b: int, keys: int | None, features: Tensor | None = None, free: Tensor | None = None
    ) -> Tensor:
        """F - 1 of rows a to b: [row, key, head, width], or [edge, head, width] without `keys`.

        `free` holds the free terms from row a on, where the caller has cut them already.
        """
        cut = (slice(a, b),) if keys is None else (slice(a, b), slice(0, keys))
        s: Tensor | None = None if self.free is None else self.free[cut]
        if free is not None:
            s = free[: b - a, :keys]
        if self.expand is not None:
            given = self.features[cut] if features is None else features[(..., *cut, slice(None))]
            expanded = self.expand(given)
            s = expanded if s is None else expanded + s
        if s is None:
            s = torch.zeros(*self.features[cut].shape[:-1], self.hidden.in_features, device=self.hidden.weight.device)
            s = s.to(self.hidden.weight.dtype)
        hidden = functional.gelu(functional.linear(s, self.hidden.weight, self.hidden.bias))
        made = functional.linear(hidden, self.out.weight, self.out.bias)
        return made.unflatten(-1, (self.heads, -1))


class Layer(Projected):
    """Multi-head attention with a primer for every pair of tokens."""

    def __init__(self, site: Site, settings: Settings) -> None:
        super().__init__(site)
        self.settings = settings
        self.channels = site.variates if site.variates is not None else 0 if site.time_ordered else site.tokens
        if settings.per_window and not self.channels:
            raise SettingsError(
                f"prime: per_window=True needs tokens that are channels, and {site.host}'s are not; "
                "use per_window=False or iTransformer."
            )
        primed = self.channels or site.tokens
        feature_width = pairs.width(settings.features, site.lookback or 0) if self.channels else 0
        self.edges: Tensor | None
        self.primed: Tensor | None
        self.register_buffer(
            "edges", None if settings.edges is None else edge_list("prime", settings.edges, primed, site.tokens)
        )
        self.register_buffer("primed", _drawn(primed, settings.sparsity) if settings.primer == "sparse" else None)
        shape = (primed, primed) if self.edges is None else (self.edges.shape[1],)
        self.count = primed
        self.primer = Primer(shape, site.heads, max(site.per_head, site.per_value), feature_width, settings)
        self.decay = lend_decay("prime", site, settings.bias)
        self.claims = Claims(
            causal=site.causal or self.decay is not None,
            needs_time_order=self.decay is not None,
            reads_windows=settings.per_window,
            takes_gate=self.edges is None,
            reduces_to_softmax_at="primer='sparse', sparsity=1.0",
        )

    def prepare(self, windows: Float[Tensor, "window channel time"]) -> None:
        """Average the features of every pair over training windows; tokens that are no channels have none."""
        kind = self.settings.features
        if not self.channels or kind == "random" or self.settings.per_window:
            return
        pairs.check("prime", windows, kind, self.channels, self.site.lookback)
        with torch.no_grad():
            found = pairs.features(windows, kind).to(self.primer.features)
            if self.edges is not None:
                found = self._along_edges(found)
            self.primer.features.copy_(found)

    def primers(
        self, windows: Float[Tensor, "window channel time"] | None = None
    ) -> Float[Tensor, "*window query key head value_width"]:
        """F of every pair of tokens, for the values; with `per_window`, of each window that is given."""
        tokens = self.site.tokens
        if self.edges is None:
            features = None if windows is None else self._features_of(windows)
            return self._rows(0, tokens, tokens, features)[..., : self.site.per_value]
        made = 1 + self._edge_change(0, self.edges.shape[1])[..., : self.site.per_value]
        whole = torch.ones(tokens, tokens, *made.shape[1:], dtype=made.dtype, device=made.device)
        return whole.index_put((self.edges[0], self.edges[1]), made)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, given: Given) -> tuple[Heads, Carry | None]:
        batch, group, _, tokens, _ = q.shape
        rate = self.site.dropout if self.training else 0.0
        bias = self._bias(given, q)
        q, k, v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
        scale = self.site.per_head**-0.5
        if self.edges is None:
            features = self._window_features(given)
            of_rows, windows = self._primers_of(tokens, features), 1 if features is None else len(features)
            if given.gate is not None:
                # Gated scores are the scores and a difference, which goes where any bias goes.
                scores = mixing.scores(q, k, of_rows, scale)
                change = self._gated(scores, given) - scores
                bias = change if bias is None else bias + change
            out = mixing.dense(q, k, v, of_rows, bias, scale, rate, self.primer.free, windows)
        else:
            edges, rows = self._edges_within(tokens)
            out = mixing.on_edges(q, k, v, edges, rows, bias, scale, rate)
        return out.unflatten(0, (batch, group)), given.carry

    def operator(self, q: Tensor, k: Tensor, given: Given) -> Float[Tensor, "batch group head query key"]:
        batch, group, heads, tokens, _ = q.shape
        q, k = q.flatten(0, 1), k.flatten(0, 1)
        bias, scale = self._bias(given, q), self.site.per_head**-0.5
        if self.edges is None:
            features = self._window_features(given)
            logits = self._gated(mixing.scores(q, k, self._primers_of(tokens, features), scale), given)
            return (logits if bias is None else logits + bias).softmax(-1).view(batch, group, heads, tokens, tokens)
        edges, rows = self._edges_within(tokens)
        along = mixing.edge_weights(q, k, edges, rows, bias, scale)
        return spread(along, edges, tokens).view(batch, group, heads, tokens, tokens)

    def _gated(self, scores: Float[Tensor, "row head query key"], given: Given) -> Tensor:
        if given.gate is None:
            return scores
        gate = given.gate.expand(*given.x.shape[:2], *scores.shape[1:]).flatten(0, 1)
        return gated(scores, gate, self.site.per_head**-0.5)

    def _primers_of(self, tokens: int, features: Tensor | None) -> mixing.FreeRows:
        return lambda a, b, free: self._rows(a, b, tokens, features, free)

    def _rows(self, a: int, b: int, tokens: int, features: Tensor | None = None, free: Tensor | None = None) -> Tensor:
        """F of queries a to b and all keys; 1 for calendar tokens and pairs without a primer."""
        last, keys = max(a, min(b, self.count)), min(tokens, self.count)
        change = self.primer.change(a, last, keys, features, free)
        if self.primed is not None:
            change = change * self.primed[a:last, :keys, None, None]
        if tokens > keys or b > last:
            change = functional.pad(change, (0, 0, 0, 0, 0, tokens - keys, 0, b - last))
        return 1 + change

    def _edge_change(self, a: int, b: int, features: Tensor | None = None) -> Tensor:
        """F - 1 of some edges; 0 where one end is a calendar token."""
        assert self.edges is not None
        change = self.primer.change(a, b, None, features)
        inside = (self.edges[:, a:b] < self.count).all(0)
        return change * inside[:, None, None]

    def _edges_within(self, tokens: int) -> tuple[Tensor, mixing.Rows]:
        """The edges among the first tokens, and F along them."""
        assert self.edges is not None
        if tokens == self.site.tokens:
            return self.edges, lambda a, b: 1 + self._edge_change(a, b)
        keep = torch.nonzero((self.edges < tokens).all(0))[:, 0]
        made = 1 + self._edge_change(0, self.edges.shape[1])[keep]
        return self.edges[:, keep], lambda a, b: made[a:b]

    def _along_edges(self, found: Tensor) -> Tensor:
        assert self.edges is not None
        inside = self.edges.clamp(max=self.count - 1)
        return found[inside[0], inside[1]]

    def _window_features(self, given: Given) -> Tensor | None:
        if not self.settings.per_window:
            return None
        if given.windows is None:
            raise SettingsError(
                f"prime: per_window=True needs each batch's windows, which {self.site.host} did not hand over; "
                "use per_window=False."
            )
        return self._features_of(given.windows).repeat_interleave(given.x.shape[1], dim=0)

    def _features_of(self, windows: Tensor) -> Tensor:
        pairs.check("prime", windows, self.settings.features, self.channels, self.site.lookback)
        return pairs.features_each(windows, self.settings.features)

    def _bias(self, given: Given, like: Tensor) -> Tensor | None:
        """All that is added to the scores: [batch * group, head, query, key], or None."""
        tokens = given.x.shape[2]
        parts = [] if given.bias is None else [given.bias]
        if given.mask is not None:
            parts.append(additive(given.mask, like.dtype))
        if self.decay is not None:
            parts.append(self.decay(tokens, like, given.ages))
        elif self.site.causal:
            parts.append(causal_bias(tokens, like))
        if not parts:
            return None
        total = parts[0] + sum(parts[1:])
        return total.to(like.dtype).expand(*given.x.shape[:2], self.site.heads, tokens, tokens).flatten(0, 1)


def _drawn(count: int, sparsity: float) -> Tensor:
    """Which pairs have a primer: all but a share, drawn at random."""
    without = torch.randperm(count * count)[: round(sparsity * count * count)]
    primed = torch.ones(count * count, dtype=torch.bool)
    primed[without] = False
    return primed.view(count, count)
