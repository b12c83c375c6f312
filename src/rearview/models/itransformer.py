"""iTransformer (Liu et al., 2024): each channel's whole look-back is one token, and attention mixes channels.

    RevIN -> Linear(lookback -> width) of every channel (and of every mark) -> dropout
    -> depth x [attention, LayerNorm; feed-forward, LayerNorm] (post-norm) -> LayerNorm
    -> Linear(width -> steps), marks cut off -> inverse RevIN

Marks (calendar features, known inputs) are tokens after the channels and are not normalised. Where marks are known
ahead (`future` > 0), which the official network does not use, their tokens are made from past and future together.
"""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from rearview.attention import Spec
from rearview.attention.contract import Site, Tokens
from rearview.embed import Dropout, Normalise, Variates
from rearview.embed.normalise import Kind
from rearview.models.contract import Marks, ModelClaims, Past, Shape, Steps
from rearview.models.encoder import Encoder
from rearview.models.heads import Classes
from rearview.models.stack import BlockSettings, Stack


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of iTransformer; the defaults are the official ones for ETTh1."""

    width: int = 256
    """Width of a token."""
    heads: int = 8
    """Attention heads."""
    depth: int = 2
    """Blocks."""
    feed_forward: int = 256
    """Width inside the feed-forward part."""
    dropout: float = 0.1
    """Dropout on tokens, attention's output and the feed-forward part."""
    attention_dropout: float | None = None
    """Dropout on the attention weights; None: as `dropout`, the official form."""
    activation: Literal["gelu", "relu"] = "gelu"
    """Activation of the feed-forward part."""
    normalise: Kind = "revin"
    """Instance normalisation: revin, last or none."""


class Network(Encoder):
    """iTransformer with any attention that does not need tokens in time order."""

    claims = ModelClaims(mixes_channels=True, uses_marks=True, reconstructs=True, classifies=True)

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        super().__init__(shape)
        self.normalise = Normalise(settings.normalise)
        self.variates = Variates(shape.lookback, settings.width, marks=shape.marks, future=shape.future)
        self.drop = Dropout(settings.dropout)
        site = Site(
            groups=1,
            tokens=shape.channels + shape.marks,
            width=settings.width,
            heads=settings.heads,
            time_ordered=False,
            variates=shape.channels,
            lookback=shape.lookback,
            dropout=settings.dropout if settings.attention_dropout is None else settings.attention_dropout,
            host="iTransformer",
        )
        block = BlockSettings(settings.feed_forward, activation=settings.activation, dropout=settings.dropout)
        self.stack = Stack(site, settings.depth, block, attention, final_norm="layer")
        self.head: nn.Module
        if shape.asks == "classes":
            self.head = Classes(site.tokens * settings.width, shape.classes, activate=True, dropout=settings.dropout)
        else:
            self.head = nn.Linear(settings.width, shape.steps)

    def tokenise(self, x: Past, past_marks: Marks | None, future_marks: Marks | None) -> Tokens:
        return self.drop(self.variates(x, past_marks, future_marks))

    def detokenise(self, tokens: Tokens) -> Steps:
        return self.head(tokens[:, 0, : self.shape.channels])
