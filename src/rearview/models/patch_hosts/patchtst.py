"""PatchTST, official form (Nie et al., 2023): each channel by itself, cut into overlapping patches.

    RevIN -> replicate the last value `stride` times -> patches -> Linear -> + learned positions -> dropout
    -> depth x [attention with residual scores, BatchNorm; feed-forward, BatchNorm] (post-norm)
    -> flatten -> one Linear shared by all channels -> inverse RevIN

The official code drops out attention's output twice in a row at the same rate; one dropout of rate 1 - (1 - p)^2 has
the same distribution and is what runs here. Its head flattens width-major; ours patch-major, which needs no copy (the
head's columns are the same in another order). Statistics of RevIN carry no affine parameters unless asked for, as the
official runs have it.

With patch=8, stride=8, width=256, heads=4, head_width=32, depth=4, feed_forward=1024, dropout=0 and
positions="standardised" it is the PatchTST of the MICA paper, whose fixed table of sines and cosines is standardised.
"""

from dataclasses import dataclass

from rearview.attention import Spec
from rearview.embed import Normalise
from rearview.models.blocks import setting
from rearview.models.blocks.heads import Pool
from rearview.models.blocks.stack import BlockSettings, Stack
from rearview.models.contract import Shape
from rearview.models.patch_hosts._host import PatchHost, Positions


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of PatchTST; the defaults are the official ones for Weather and larger sets."""

    width: setting.TokenWidth = 128
    heads: setting.HeadCount = 16
    head_width: setting.HeadWidth = None
    depth: setting.Depth = 3
    feed_forward: setting.FeedForwardWidth = 256
    dropout: setting.TokenDropout = 0.2
    attention_dropout: float = 0.0
    """Dropout on the attention weights."""
    patch: setting.PatchSteps = 16
    stride: setting.StrideSteps = 8
    positions: Positions = "learned"
    """The position of a patch: a learned table, sinusoidal (sines and cosines), or these standardised."""
    normalise: setting.Normalisation = "revin"
    affine: setting.Affine = False
    residual_scores: bool = True
    """Whether each layer adds its attention scores to those of the layers before."""
    pool: Pool = "none"
    """For classes: "mean" averages the patches of a channel; "none" reads each at its own place, as the original."""


class Network(PatchHost):
    """PatchTST with any attention that mixes patches."""

    name = "patchtst"
    host = "PatchTST"

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        normalise = Normalise(settings.normalise, shape.channels, settings.affine)
        patches = self.cut(shape, settings.patch, settings.stride, settings.width)
        super().__init__(shape, normalise, patches, settings.positions, settings.dropout)
        site = self.site(settings.heads, settings.head_width, settings.attention_dropout)
        attended = 1 - (1 - settings.dropout) ** 2
        block = BlockSettings(settings.feed_forward, norm="batch", dropout=settings.dropout, attended_dropout=attended)
        spec = self.attention_of(settings, attention)
        self.stack = Stack(site, settings.depth, block, spec, residual_scores=settings.residual_scores)
        self.head = self.readout(settings.pool)
