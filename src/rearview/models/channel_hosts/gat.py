"""Graph attention over channels: each channel is a node, and looks at its neighbours only.

    RevIN -> Linear(lookback -> width) of every channel (and of every mark) -> dropout
    -> depth x [attention along the edges of a graph, LayerNorm; feed-forward, LayerNorm] (post-norm) -> LayerNorm
    -> Linear(width -> steps), marks cut off -> inverse RevIN

This is the network of appendices D.2 and G.2 of the paper on prime attention (Lee et al., 2025): GATv2's scores, and
with `primed` a view of its own for every edge. The paper leaves the rest of the network open; here it is iTransformer's
(tokens, blocks, head), so that on the complete graph the two differ by their scores alone.

The graph is complete unless `edges` gives one, `density` has one drawn, once, when the network is built, or `expander`
asks for one with few edges that reach everywhere; it is saved with the weights. Calendar tokens are linked with every
channel. Another mechanism (`attention="softmax"`) runs on the same graph: pairs without an edge are hidden from it by a
bias of -inf, so it pays for all pairs.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from rearview.attention import Spec, split
from rearview.attention.contract import Tokens
from rearview.attention.prime import Features
from rearview.attention.shared.graph import draw_pairs, expander_pairs, list_edges
from rearview.core.errors import SettingsError
from rearview.models.blocks import setting
from rearview.models.blocks.stack import Bias, BlockSettings, Stack
from rearview.models.channel_hosts._host import ChannelHost
from rearview.models.contract import Shape


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the graph attention network."""

    width: setting.TokenWidth = 128
    heads: setting.HeadCount = 8
    depth: setting.Depth = 2
    feed_forward: setting.FeedForwardWidth = 128
    dropout: setting.WeightDropout = 0.1
    activation: setting.AnyActivation = "gelu"
    edges: Any = None
    """The graph: pairs (query, key) of channels, or an adjacency matrix; loops are added. None: see `density`."""
    density: float = 1.0
    """Without edges: the share of pairs of channels that are linked, drawn at random; 1 is the complete graph."""
    expander: bool = False
    """Without edges: an expander graph, four neighbours a channel and few steps between any two."""
    primed: bool = False
    """Whether every edge has its own view of its neighbour, as in prime attention."""
    features: Features = "full"
    """The features a primer is made from: "lead_lag", "instantaneous", both ("full"), or "random"."""
    free: bool = True
    """A free term per edge beside the features, where edges are primed."""
    normalise: setting.Normalisation = "revin"

    def __post_init__(self) -> None:
        graphs = {"edges": self.edges is not None, f"density={self.density}": self.density != 1}
        given = [name for name, there in {**graphs, "expander=True": self.expander}.items() if there]
        if len(given) > 1:
            raise SettingsError(f"{' and '.join(given)} both say what the graph is; leave one of them out.")


_OF_THE_EDGES = ("primed", "features", "free")
"""Settings that are those of gat's own attention."""


class Network(ChannelHost):
    """Graph attention over channels; `attention=None` is GATv2's, and other mechanisms keep to the graph."""

    host = "gat"
    linked: Tensor | None

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        super().__init__(shape, settings.normalise, settings.width, settings.dropout)
        edges = settings.edges
        if edges is None and settings.density != 1:
            edges = draw_pairs(shape.channels, settings.density)
        elif settings.expander:
            edges = expander_pairs(shape.channels)
        name, chosen = split(self.attention_of(settings, attention))
        own = name == "gat"
        if own:
            chosen = {"edges": edges, **chosen}
        elif settings.primed:
            raise SettingsError(f"primed=True primes gat's own scores, not {name}'s; use prime, or leave it out.")
        site = self.site(settings.heads, None, settings.dropout)
        block = BlockSettings(settings.feed_forward, activation=settings.activation, dropout=settings.dropout)
        self.stack = Stack(site, settings.depth, block, {"name": name, **chosen}, final_norm="layer")
        linked = None
        if not own and edges is not None:
            linked = torch.zeros(site.tokens, site.tokens, dtype=torch.bool)
            linked[tuple(list_edges("gat", edges, shape.channels, site.tokens))] = True
            claims = self.stack.layers[0].claims
            if not linked.all() and not (claims.takes_bias and claims.hides_pairs):
                why = "mixes values across it" if claims.takes_bias else "has none"
                raise SettingsError(
                    f"gat hides pairs without an edge by a bias on their scores, and {name} {why}; "
                    "use gat's own attention, softmax or prime, or the complete graph."
                )
        self.register_buffer("linked", linked)
        if edges is not None:
            self.claims = replace(self.claims, equivariant_to_channels=False)
        self.head = self.readout()

    @classmethod
    def attention_of(cls, settings: object, attention: Spec = None) -> Spec:
        name, given = ("gat", {}) if attention is None else split(attention)
        if name != "gat":
            return attention
        assert isinstance(settings, Settings)
        graph = {} if settings.edges is None else {"edges": settings.edges}
        return {"name": "gat", **graph, **{key: getattr(settings, key) for key in _OF_THE_EDGES}, **given}

    def score_bias(self, tokens: Tokens) -> Bias:
        if self.linked is None:
            return None
        return torch.zeros_like(self.linked, dtype=tokens.dtype).masked_fill_(~self.linked, -torch.inf)
