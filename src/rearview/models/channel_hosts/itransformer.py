"""iTransformer (Liu et al., 2024): each channel's whole look-back is one token, and attention mixes channels.

    RevIN -> Linear(lookback -> width) of every channel (and of every mark) -> dropout
    -> depth x [attention, LayerNorm; feed-forward, LayerNorm] (post-norm) -> LayerNorm
    -> Linear(width -> steps), marks cut off -> inverse RevIN

Marks (calendar features, known inputs) are tokens after the channels and are not normalised. Where marks are known
ahead (`future` > 0), which the official network does not use, their tokens are made from past and future together.
"""

from dataclasses import dataclass

from rearview.attention import Spec
from rearview.models.blocks import setting
from rearview.models.blocks.stack import BlockSettings, Stack
from rearview.models.channel_hosts._host import ChannelHost
from rearview.models.contract import Shape


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of iTransformer; the defaults are the official ones for ETTh1."""

    width: setting.TokenWidth = 256
    heads: setting.HeadCount = 8
    head_width: setting.HeadWidth = None
    depth: setting.Depth = 2
    feed_forward: setting.FeedForwardWidth = 256
    dropout: setting.TokenDropout = 0.1
    attention_dropout: float | None = None
    """Dropout on the attention weights; None: as `dropout`, the official form."""
    activation: setting.AnyActivation = "gelu"
    normalise: setting.Normalisation = "revin"


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
