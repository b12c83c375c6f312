"""PatchTST, official form (Nie et al., 2023): each channel by itself, cut into overlapping patches.

    RevIN -> replicate the last value `stride` times -> patches -> Linear -> + learned positions -> dropout
    -> depth x [attention with residual scores, BatchNorm; feed-forward, BatchNorm] (post-norm)
    -> flatten -> one Linear shared by all channels -> inverse RevIN

The official code drops out attention's output twice in a row at the same rate; one dropout of rate 1 - (1 - p)^2 has
the same distribution and is what runs here. Its head flattens width-major; ours patch-major, which needs no copy (the
head's columns are the same in another order). Statistics of RevIN carry no affine parameters unless asked for, as the
official runs have it.
"""

from dataclasses import dataclass

from torch import nn

from rearview.attention import Spec
from rearview.attention.contract import Mask, Site, Tokens
from rearview.embed import Dropout, Learned, Normalise, Patches
from rearview.embed.normalise import Kind
from rearview.models.contract import Marks, ModelClaims, Past, Real, Shape, Steps, refuse_marks
from rearview.models.encoder import Encoder
from rearview.models.heads import Classes
from rearview.models.stack import BlockSettings, Stack


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of PatchTST; the defaults are the official ones for Weather and larger sets."""

    width: int = 128
    """Width of a token."""
    heads: int = 16
    """Attention heads."""
    depth: int = 3
    """Blocks."""
    feed_forward: int = 256
    """Width inside the feed-forward part."""
    dropout: float = 0.2
    """Dropout on tokens, attention's output and the feed-forward part."""
    attention_dropout: float = 0.0
    """Dropout on the attention weights."""
    patch: int = 16
    """Time steps of a patch."""
    stride: int = 8
    """Time steps from one patch to the next."""
    normalise: Kind = "revin"
    """Instance normalisation: revin, last or none."""
    affine: bool = False
    """Whether RevIN learns a scale and a shift per channel."""
    residual_scores: bool = True
    """Whether each layer adds its attention scores to those of the layers before."""


class Network(Encoder):
    """PatchTST with any attention that mixes patches."""

    claims = ModelClaims(reconstructs=True, classifies=True)

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        super().__init__(shape)
        refuse_marks(shape, "patchtst")
        self.normalise = Normalise(settings.normalise, shape.channels, settings.affine)
        self.patches = Patches(shape.lookback, settings.patch, settings.stride, settings.width)
        self.positions = Learned(self.patches.tokens, settings.width)
        self.drop = Dropout(settings.dropout)
        site = Site(
            groups=shape.channels,
            tokens=self.patches.tokens,
            width=settings.width,
            heads=settings.heads,
            lookback=shape.lookback,
            dropout=settings.attention_dropout,
            host="PatchTST",
        )
        block = BlockSettings(
            feed_forward=settings.feed_forward,
            norm="batch",
            dropout=settings.dropout,
            attended_dropout=1 - (1 - settings.dropout) ** 2,
        )
        self.stack = Stack(site, settings.depth, block, attention, residual_scores=settings.residual_scores)
        features = self.patches.tokens * settings.width
        self.head: nn.Module
        if shape.asks == "classes":
            self.head = Classes(shape.channels * features, shape.classes, dropout=settings.dropout)
        else:
            self.head = nn.Linear(features, shape.steps)

    def tokenise(self, x: Past, past_marks: Marks | None, future_marks: Marks | None) -> Tokens:
        return self.drop(self.positions(self.patches(x)))

    def token_mask(self, mask: Real) -> Mask:
        real = self.patches.mask(mask)
        return real[:, None].expand(-1, self.shape.channels, -1)

    def detokenise(self, tokens: Tokens) -> Steps:
        return self.head(tokens.flatten(2))
