"""iTransformer-T5 (a baseline of the MICA paper): iTransformer's tokens, one a channel, through the encoder of T5.

    RevIN -> Linear(lookback -> width) of every channel (and of every mark) -> dropout
    -> depth x [RMS norm, attention; RMS norm, feed-forward] (pre-norm, no biases) -> RMS norm -> dropout
    -> Linear(width -> steps), marks cut off -> inverse RevIN

Where we differ: T5's bias by relative position is left out, since the tokens are channels and have no order; with it,
shuffling the columns of a table would change the forecast. Marks are used as in `itransformer`.
"""

from dataclasses import dataclass

from rearview.attention import Spec
from rearview.attention.contract import Tokens
from rearview.models.blocks import setting
from rearview.models.blocks.stack import t5_stack
from rearview.models.channel_hosts._host import ChannelHost
from rearview.models.contract import Shape, Steps


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of iTransformer-T5; the defaults are those of the MICA paper."""

    width: setting.TokenWidth = 256
    heads: setting.HeadCount = 4
    head_width: setting.HeadWidth = None
    depth: setting.Depth = 4
    feed_forward: setting.FeedForwardWidth = 1024
    gated: bool = False
    """Whether the feed-forward part is the gated one of T5 1.1."""
    dropout: setting.HeadDropout = 0.0
    normalise: setting.Normalisation = "revin"


class Network(ChannelHost):
    """iTransformer-T5 with any attention that does not need tokens in time order."""

    host = "iTransformer-T5"

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        super().__init__(shape, settings.normalise, settings.width, settings.dropout)
        site = self.site(settings.heads, settings.head_width, settings.dropout, projection_bias=False)
        self.stack = t5_stack(
            site, settings.depth, settings.feed_forward, settings.dropout, attention, gated=settings.gated
        )
        self.head = self.readout()

    def detokenise(self, tokens: Tokens) -> Steps:
        return super().detokenise(self.drop(tokens))
