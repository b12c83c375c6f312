"""iTransformer (Liu et al., 2024): each channel's whole look-back is one token, and attention mixes channels.

    RevIN -> Linear(lookback -> width) of every channel (and of every mark) -> dropout
    -> depth x [attention, LayerNorm; feed-forward, LayerNorm] (post-norm) -> LayerNorm
    -> Linear(width -> steps), marks cut off -> inverse RevIN

Marks (calendar features, known inputs) are tokens after the channels and are not normalised. Where marks are known
ahead (`future` > 0), which the official network does not use, their tokens are made from past and future together.
"""

from dataclasses import dataclass

from rearview.attention import Spec
from rearview.embed.normalisation import Kind
from rearview.models.blocks.stack import Activation, BlockSettings, Stack
from rearview.models.channel_hosts._host import ChannelHost
from rearview.models.contract import Shape


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of iTransformer; the defaults are the official ones for ETTh1."""

    width: int = 256
    """Width of a token."""
    heads: int = 8
    """Attention heads."""
    head_width: int | None = None
    """Width of a head; None: width / heads."""
    depth: int = 2
    """Blocks."""
    feed_forward: int = 256
    """Width inside the feed-forward part."""
    dropout: float = 0.1
    """Dropout on tokens, attention's output and the feed-forward part."""
    attention_dropout: float | None = None
    """Dropout on the attention weights; None: as `dropout`, the official form."""
    activation: Activation = "gelu"
    """Activation of the feed-forward part."""
    normalise: Kind = "revin"
    """Instance normalisation: revin, last or none."""


class Network(ChannelHost):
    """iTransformer with any attention that does not need tokens in time order."""

    host = "iTransformer"

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        super().__init__(shape, settings.normalise, settings.width, settings.dropout)
        dropped = settings.dropout if settings.attention_dropout is None else settings.attention_dropout
        site = self.site(settings.heads, settings.head_width, dropped)
        block = BlockSettings(settings.feed_forward, activation=settings.activation, dropout=settings.dropout)
        self.stack = Stack(site, settings.depth, block, attention, final_norm="layer")
        self.head = self.readout()
