"""The network around prime attention as public code has it: iTransformer's tokens, pre-norm blocks, wide heads, SwiGLU.

    RevIN -> Linear(lookback -> width) of every channel -> dropout
    -> depth x [x + drop(attend(LayerNorm(x))); x + drop(W2 drop(silu(W1 y) * V y)), y = LayerNorm(x)]
    -> Linear(width -> steps) -> inverse RevIN

Heads are as wide as tokens (width -> heads x width), calendar features are not used, and there is no norm at the end.
Its own attention is prime with primers made from each window (`form="released"`). What looks like the authors' code is
a third party's copy: its facts are ours, its network is written anew, and the width of the feed-forward part, which
they don't fix, is that of the tokens.
"""

from dataclasses import dataclass
from typing import Literal

from rearview.attention import Spec
from rearview.models.blocks import setting
from rearview.models.blocks.stack import BlockSettings, Stack
from rearview.models.channel_hosts._host import ChannelHost
from rearview.models.contract import ModelClaims, Shape


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the network; widths are those of the paper's table 4 for ETTh1."""

    width: setting.TokenWidth = 256
    heads: setting.HeadCount = 8
    head_width: int | None = None
    """Width of a head; None: the width of the tokens."""
    depth: setting.Depth = 2
    feed_forward: setting.FeedForwardWidth = 256
    dropout: float = 0.1
    """Dropout on tokens, attention's weights and output, the primers' maps and the feed-forward part."""
    features: Literal["spectral", "bins", "drawn"] = "spectral"
    """The features that the primers of its own attention are made from."""
    self_pairs: bool = True
    """Whether a channel's pair with itself has a primer, in its own attention."""
    normalise: setting.Normalisation = "revin"


class Network(ChannelHost):
    """prime_net; `attention=None` is prime in its released form."""

    host = "prime_net"
    claims = ModelClaims(mixes_channels=True, reconstructs=True, classifies=True)

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        shape.refuse_marks("prime_net", "leaves calendar features unused")
        super().__init__(shape, settings.normalise, settings.width, settings.dropout)
        site = self.site(settings.heads, settings.head_width or settings.width, settings.dropout)
        block = BlockSettings(
            settings.feed_forward, order="pre", activation="silu", gated=True, dropout=settings.dropout
        )
        self.stack = Stack(site, settings.depth, block, self.attention_of(settings, attention))
        self.head = self.readout()

    @classmethod
    def attention_of(cls, settings: object, attention: Spec = None) -> Spec:
        if attention is not None:
            return attention
        assert isinstance(settings, Settings)
        return {
            "name": "prime",
            "form": "released",
            "features": settings.features,
            "free": False,
            "per_window": settings.features != "drawn",
            "self_pairs": settings.self_pairs,
        }
