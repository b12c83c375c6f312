"""Prime attention as a layer: settings, the reference form in the paper's symbols, and the form that runs.

k_j * F_ij has [batch, query, key, width] numbers, which are never held for all pairs at once. Dense primers work on
blocks of queries small enough for the cache, and graphs on blocks of edges; with more than one block, each is computed
again in the backward pass. On a GPU a kernel of ours holds no pair at all (`kernels/prime.py`), and blocks are for the
primers' own sake.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.attention import kernels
from rearview.attention.contract import Claims, Inputs, Mixture, Projected, Site, apply_gate, causal_bias, score_bias
from rearview.attention.prime import features as pairs
from rearview.attention.prime.window_primer import WindowPrimer, draw_features
from rearview.attention.rbca import lend_decay
from rearview.attention.shared import execution
from rearview.attention.shared.execution import block_spans, in_float32, recompute, through_float32
from rearview.attention.shared.graph import Edges, list_edges, scatter_weights, softmax_by_query
from rearview.core.errors import SettingsError
from rearview.embed import dropout

Queries = Float[Tensor, "row head query key_width"]
Keys = Float[Tensor, "row head key key_width"]
Values = Float[Tensor, "row head key value_width"]
Mixed = Float[Tensor, "row head query value_width"]
EdgePrimers = Callable[[int, int], Tensor]
"""F of edges a to b: [edge, head, width]."""
PRIMERS_HELD = 1 << 24
"""Primers made at a time where a kernel applies them; what their making leaves for backward is some 6 times as much."""

Features = Literal["full", "lead_lag", "instantaneous", "random", "spectral", "bins"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of prime attention."""

    primer: Literal["dense", "sparse", "graph"] = "dense"
    """The pairs that have a primer: all, a random share, or the edges of a graph (attention then runs along edges)."""
    sparsity: float = 0.0
    """For "sparse": share of pairs without a primer, drawn once when the layer is built; 1 is softmax attention."""
    edges: Any = None
    """For "graph": pairs (query, key), or an adjacency matrix; loops are added."""
    features: Features | Literal["drawn"] = "full"
    """The features of a primer: "lead_lag", "instantaneous", both ("full"), or "random"; as public code has it
    "spectral", "bins", or numbers "drawn" at every call."""
    free: bool = True
    """A free term per pair beside the features."""
    per_window: bool = False
    """Features of each window instead of their average over the training windows."""
    form: Literal["near_identity", "released"] = "near_identity"
    """The making of a primer: 1 and a change that starts at 0, for each head and layer, or as public code has it, from
    the window alone, one for all heads and layers, without a start near 1."""
    self_pairs: bool = True
    """Whether a token's pair with itself has a primer."""
    bias: str | Mapping[str, Any] | None = None
    """A mechanism whose bias is added to the scores, such as {"name": "rbca"}."""

    def __post_init__(self) -> None:
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
        if not self.self_pairs and self.primer == "graph":
            raise SettingsError("prime: a graph's loops are primed like its other edges; use primer='dense'.")
        released, drawn = self.form == "released", self.features == "drawn"
        if drawn and (not released or self.per_window):
            raise SettingsError("prime: features='drawn' goes with form='released' and per_window=False.")
        if released and (self.free or self.primer == "graph" or not (self.per_window or drawn)):
            raise SettingsError(
                "prime: form='released' makes primers of all pairs from each window and nothing else; give free=False "
                "and per_window=True, or features='drawn', and primer='dense' or 'sparse'."
            )


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
            expanded = self.expand(self.features[cut] if features is None else features[(..., *cut, slice(None))])
            s = expanded if s is None else expanded + s
        if s is None:
            s = torch.zeros(*self.features[cut].shape[:-1], self.hidden.in_features, device=self.hidden.weight.device)
            s = s.to(self.hidden.weight.dtype)
        hidden = functional.gelu(functional.linear(s, self.hidden.weight, self.hidden.bias))
        return functional.linear(hidden, self.out.weight, self.out.bias).unflatten(-1, (self.heads, -1))


class Layer(Projected):
    """Multi-head attention with a primer for every pair of tokens."""

    edges: Tensor | None
    """[2, edge], query above key, where attention runs along a graph."""
    primed: Tensor | None
    """[query, key], True on pairs that have a primer; None: all."""

    def __init__(self, site: Site, settings: Settings) -> None:
        super().__init__(site)
        self.settings = settings
        self.scale = site.per_head**-0.5
        self.channels = site.variates if site.variates is not None else 0 if site.time_ordered else site.tokens
        if (settings.per_window or settings.form == "released") and not self.channels:
            given = "per_window=True" if settings.per_window else "form='released'"
            raise SettingsError(
                f"prime: {given} needs tokens that are channels, and {site.host}'s are not; "
                "use per_window=False or iTransformer."
            )
        self.count = count = self.channels or site.tokens
        edges = None if settings.edges is None else list_edges("prime", settings.edges, count, site.tokens)
        self.register_buffer("edges", edges)
        primed = None
        if settings.primer == "sparse" or not settings.self_pairs:
            primed = torch.ones(count * count, dtype=torch.bool)
            if settings.primer == "sparse":
                primed[torch.randperm(count * count)[: round(settings.sparsity * count * count)]] = False
            primed = primed.view(count, count)
            if not settings.self_pairs:
                primed.fill_diagonal_(False)
        self.register_buffer("primed", primed)
        shape = (count, count) if edges is None else (edges.shape[1],)
        feature_width = pairs.feature_width(settings.features, site.lookback or 0) if self.channels else 0
        width = max(site.per_head, site.per_value)
        self.primer: Primer | WindowPrimer | None
        if settings.form == "released":
            self.primer = WindowPrimer(site.heads, width, feature_width, site.dropout)
        else:
            self.primer = Primer(shape, site.heads, width, feature_width, settings)
        self.lent: tuple[WindowPrimer, ...] = ()
        self.decay = lend_decay("prime", site, settings.bias)
        self.claims = Claims(
            causal=site.causal or self.decay is not None,
            needs_time_order=self.decay is not None,
            reads_windows=settings.per_window,
            takes_gate=self.edges is None,
            tokens_alike=settings.per_window and not settings.free and settings.primer == "dense",
            reduces_to_softmax_at="primer='sparse', sparsity=1.0",
        )

    def common_part(self) -> nn.Module | None:
        """The maps of the released form, which all layers have in common."""
        return self.primer if isinstance(self.primer, WindowPrimer) else None

    def use(self, shared: nn.Module) -> None:
        assert isinstance(shared, WindowPrimer)
        # In a tuple it is no submodule of the layer: the one tensor then has one name, that of the stack.
        self.primer, self.lent = None, (shared,)

    def _primer(self) -> Primer | WindowPrimer:
        return self.lent[0] if self.primer is None else self.primer

    def prepare(self, windows: Float[Tensor, "window channel time"]) -> None:
        """Average the features of every pair over training windows; tokens that are no channels have none."""
        kind = self.settings.features
        if not self.channels or kind == "random" or not isinstance(self.primer, Primer) or self.settings.per_window:
            return
        pairs.check_windows("prime", windows, kind, self.channels, self.site.lookback)
        with torch.no_grad():
            features = pairs.average_features(windows, kind).to(self.primer.features)
            if self.edges is not None:
                query, key = self.edges.clamp(max=self.count - 1)
                features = features[query, key]
            self.primer.features.copy_(features)

    def primers(
        self, windows: Float[Tensor, "window channel time"] | None = None
    ) -> Float[Tensor, "*window query key head value_width"]:
        """F of every pair of tokens, for the values; with `per_window`, of each window that is given."""
        tokens = self.site.tokens
        if self.edges is None:
            features = None if windows is None else self._features_of(windows)
            return self._rows(0, tokens, tokens, features)[..., : self.site.per_value]
        along = self._along_edges(0, self.edges.shape[1])[..., : self.site.per_value]
        whole = torch.ones(tokens, tokens, *along.shape[1:], dtype=along.dtype, device=along.device)
        return whole.index_put((self.edges[0], self.edges[1]), along)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> Mixture:
        rate = self.site.dropout if self.training else 0.0
        bias = self._bias(inputs, q)
        rows = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
        if self.edges is None:
            out = self._mix_pairs(*rows, bias, rate, inputs)
        else:
            out = mix_edges(*rows, *self._edges_within(q.shape[3]), bias, self.scale, rate)
        return out.unflatten(0, q.shape[:2]), inputs.carry

    def operator(self, q: Tensor, k: Tensor, inputs: Inputs) -> Float[Tensor, "batch group head query key"]:
        leading, tokens = q.shape[:2], q.shape[3]
        q, k = q.flatten(0, 1), k.flatten(0, 1)
        bias = self._bias(inputs, q)
        if self.edges is None:
            logits = self._apply_gate(self._scores(q, k, self._window_features(inputs)), inputs)
            weights = (logits if bias is None else logits + bias).softmax(-1)
            return (weights.half() if q.dtype == torch.float16 else weights).unflatten(0, leading)
        edges, primers = self._edges_within(tokens)
        along = weigh_edges(q, k, edges, primers, bias, self.scale)
        return scatter_weights(along, edges, tokens).unflatten(0, leading)

    def _mix_pairs(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, rate: float, inputs: Inputs) -> Mixed:
        """sum_j softmax_j(q_i . (k_j F_ij) / sqrt(d_h) + bias_ij) (v_j F_ij), in blocks of queries."""
        features = self._window_features(inputs)
        if inputs.gate is not None:
            # Gated scores are the scores and a difference, which goes where any bias goes.
            scores = self._scores(q, k, features)
            change = self._apply_gate(scores, inputs) - scores
            bias = change if bias is None else bias + change

        def attend_rows(q: Tensor, first: int, free: Tensor | None, bias: Tensor | None, seed: Tensor | None) -> Tensor:
            primers = self._rows(first, first + q.shape[2], k.shape[2], features, free)
            return attend_pairs(q, k, v, primers, bias, self.scale, rate, seed)

        queries, (block, twice) = q.shape[2], _block(q, k, v, 1 if features is None else features.shape[0])
        if queries <= block:
            return attend_rows(q, 0, None, bias, None)
        blocks, free = queries // block + 1, self._primer().free
        # Cut once: a slice taken in each block would leave a gradient of full size behind every time.
        biases = None if bias is None else bias.split(block, dim=-2)
        frees = None if free is None else (*free.split(block), *[free[:0]] * blocks)
        seeds = _seeds(blocks, q.device) if rate > 0 and kernel_fits(q, k, v) else None
        parts = []
        for n, rows in enumerate(q.split(block, dim=2)):
            call = (rows, n * block, *(None if part is None else part[n] for part in (frees, biases, seeds)))
            draws = rate > 0 and (seeds is None or self.settings.form == "released")
            parts.append(recompute(attend_rows, *call, random=draws) if twice else attend_rows(*call))
        return torch.cat(parts, dim=2)

    def _scores(self, q: Tensor, k: Tensor, features: Tensor | None) -> Float[Tensor, "row head query key"]:
        """The primed scores of all pairs, block by block."""
        tokens, scale = k.shape[2], self.scale
        at = block_spans(q.shape[2], q.shape[0] * q.shape[1] * tokens * q.shape[3], q.device)
        blocks = [_scores(q[:, :, a:b], k, self._rows(a, b, tokens, features), scale) for a, b in at]
        return torch.cat(blocks, dim=2)

    def _apply_gate(self, scores: Float[Tensor, "row head query key"], inputs: Inputs) -> Tensor:
        if inputs.gate is None:
            return scores
        gate = inputs.gate.expand(*inputs.x.shape[:2], *scores.shape[1:]).flatten(0, 1)
        return apply_gate(scores, gate, self.scale)

    def _rows(self, a: int, b: int, tokens: int, features: Tensor | None = None, free: Tensor | None = None) -> Tensor:
        """F of queries a to b and all keys; 1 for calendar tokens and pairs without a primer."""
        last, keys = max(a, min(b, self.count)), min(tokens, self.count)
        change = self._primer().change(a, last, keys, features, free)
        if self.primed is not None:
            change = change * self.primed[a:last, :keys, None, None]
        if tokens > keys or b > last:
            change = functional.pad(change, (0, 0, 0, 0, 0, tokens - keys, 0, b - last))
        return 1 + change

    def _along_edges(self, a: int, b: int) -> Tensor:
        """F of edges a to b; 1 where one end is a calendar token."""
        assert self.edges is not None
        inside = (self.edges[:, a:b] < self.count).all(0)
        return 1 + self._primer().change(a, b, None) * inside[:, None, None]

    def _edges_within(self, tokens: int) -> tuple[Tensor, EdgePrimers]:
        """The edges among the first tokens, and F along them."""
        assert self.edges is not None
        if tokens == self.site.tokens:
            return self.edges, self._along_edges
        kept = torch.nonzero((self.edges < tokens).all(0))[:, 0]
        along = self._along_edges(0, self.edges.shape[1])[kept]
        return self.edges[:, kept], lambda a, b: along[a:b]

    def _window_features(self, inputs: Inputs) -> Tensor | None:
        """The features of each row's window; None where they are the same for all windows."""
        if self.settings.features == "drawn":
            rows = inputs.x.shape[0] * inputs.x.shape[1]
            return draw_features(rows, self.count, pairs.feature_width("drawn", 0), inputs.x)
        if not self.settings.per_window:
            return None
        if inputs.windows is None:
            raise SettingsError(
                f"prime: per_window=True needs each batch's windows, which {self.site.host} did not hand over; "
                "use per_window=False."
            )
        return self._features_of(inputs.windows).repeat_interleave(inputs.x.shape[1], dim=0)

    def _features_of(self, windows: Tensor) -> Tensor:
        pairs.check_windows("prime", windows, self.settings.features, self.channels, self.site.lookback)
        return pairs.window_features(windows, self.settings.features)

    def _bias(self, inputs: Inputs, like: Tensor) -> Tensor | None:
        """All that is added to the scores: [batch * group, head, query, key], or None."""
        tokens, total, own = inputs.x.shape[2], score_bias(inputs, like.dtype), None
        if self.decay is not None:
            own = self.decay(tokens, like, inputs.ages)
        elif self.site.causal:
            own = causal_bias(tokens, like)
        if own is not None:
            total = own if total is None else total + own
        if total is None:
            return None
        return total.to(like.dtype).expand(*inputs.x.shape[:2], self.site.heads, tokens, tokens).flatten(0, 1)


def attend_pairs(
    q: Queries, k: Keys, v: Values, primers: Float[Tensor, "*window query key head width"],
    bias: Tensor | None, scale: float, rate: float = 0.0, seed: Tensor | None = None,
) -> Mixed:  # fmt: skip
    """Eq. 10 with F at hand, weights dropped at `rate`; a seed says which ones the kernel drops."""
    if kernel_fits(q, k, v):
        from rearview.attention.kernels.prime import attend_primed

        seed = _seeds(1, q.device)[0] if rate > 0 and seed is None else seed
        return attend_primed(q, k, v, primers.contiguous(), bias, scale, seed, rate)
    logits = _scores(q, k, primers, scale)
    weights = dropout((logits if bias is None else logits + bias).softmax(-1), rate, rate > 0)
    # Products of a row and a matrix for every query are slower than their elements summed, here and in the scores.
    values = v[:, :, None] * primers.movedim(-2, -4)[..., : v.shape[-1]]
    return (weights[..., None] * values).sum(-2)


@in_float32
def _scores(q: Tensor, k: Tensor, primers: Tensor, scale: float) -> Tensor:
    keys = k[:, :, None] * primers.movedim(-2, -4)[..., : k.shape[-1]]
    return (keys * q[..., None, :]).sum(-1) * scale


def kernel_fits(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether the kernel can run on these."""
    if not kernels.available(q.device) or min(*q.shape, *k.shape, *v.shape) == 0:
        return False
    from rearview.attention.kernels.prime import WIDEST

    known = all(part.dtype in (torch.float32, torch.bfloat16, torch.float16) for part in (q, k, v))
    return known and max(q.shape[-1], v.shape[-1]) <= WIDEST


def _block(q: Tensor, k: Tensor, v: Tensor, windows: int) -> tuple[int, bool]:
    """Queries worked on at a time, and whether so much is left for backward that blocks are computed twice."""
    batch, heads, queries, width = q.shape
    per_query = heads * k.shape[2] * max(width, v.shape[-1])
    if kernel_fits(q, k, v):
        return max(1, PRIMERS_HELD // (windows * per_query)), True
    if torch.compiler.is_compiling():
        # A compiler finds its own way through memory, in a graph that must not depend on the size of a batch.
        return queries, False
    block = max(1, execution.budget(q.device) // max(1, batch * per_query))
    return block, queries > 8 * block


def _seeds(count: int, device: torch.device) -> Tensor:
    return torch.randint(1 << 31, (count, 1), device=device)


def mix_edges(
    q: Queries, k: Keys, v: Values, edges: Edges, primers: EdgePrimers, bias: Tensor | None, scale: float, rate: float
) -> Mixed:
    """Eq. 10 with the sum over j running along edges (i, j) only: cost and memory grow with the edges."""

    def values(v: Tensor, weights: Tensor, a: int, b: int) -> Tensor:
        return weights[..., None] * v[:, :, edges[1, a:b]] * primers(a, b).transpose(0, 1)[..., : v.shape[-1]]

    weights = dropout(weigh_edges(q, k, edges, primers, bias, scale), rate, rate > 0)
    # In float32, where sums under autocast would end: a sum is of one type, and rounded once.
    wide = torch.promote_types(v.dtype, torch.float32)
    out = torch.zeros(*q.shape[:3], v.shape[-1], dtype=wide, device=v.device)
    for a, b in _edge_spans(q, v, edges):
        out = out.index_add(2, edges[0, a:b], recompute(values, v, weights[..., a:b], a, b).to(wide))
    return out.to(v.dtype)


@through_float32
def weigh_edges(
    q: Queries, k: Keys, edges: Edges, primers: EdgePrimers, bias: Tensor | None, scale: float
) -> Float[Tensor, "row head edge"]:
    """softmax over the edges of each query."""

    def scores(q: Tensor, k: Tensor, a: int, b: int) -> Tensor:
        primer = primers(a, b).transpose(0, 1)[..., : k.shape[-1]]
        return (q[:, :, edges[0, a:b]] * k[:, :, edges[1, a:b]] * primer).sum(-1) * scale

    logits = torch.cat([recompute(scores, q, k, a, b) for a, b in _edge_spans(q, k, edges)], dim=-1)
    if bias is not None:
        logits = logits + bias[..., edges[0], edges[1]]
    return softmax_by_query(logits, edges[0], q.shape[2])


def _edge_spans(q: Tensor, other: Tensor, edges: Tensor) -> list[tuple[int, int]]:
    return block_spans(edges.shape[1], q.shape[0] * q.shape[1] * max(q.shape[-1], other.shape[-1]), q.device)
