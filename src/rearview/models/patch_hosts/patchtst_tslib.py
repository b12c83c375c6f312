"""PatchTST as in the Time-Series-Library: layer norms, fixed positions, and no residual scores.

    RevIN -> replicate the last value `stride` times -> patches -> Linear without bias -> + sines and cosines -> dropout
    -> depth x [attention, LayerNorm; feed-forward, LayerNorm] (post-norm) -> BatchNorm
    -> flatten -> one Linear shared by all channels -> dropout -> inverse RevIN

The library's network bears the name of PatchTST (Nie et al., 2023) and is another one; `patchtst` is the official form.
Results of the two are often mixed up, hence two names. Where we differ: the library's head flattens width-major, ours
patch-major (the same columns in another order), and its patches are always 16 steps at a stride of 8, ours as set.
"""

from dataclasses import dataclass

from rearview.attention import Spec
from rearview.attention.contract import Tokens
from rearview.embed import Normalise
from rearview.models.blocks import setting
from rearview.models.blocks.stack import BlockSettings, Stack
from rearview.models.contract import Shape, Steps
from rearview.models.patch_hosts._host import PatchHost


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the library's PatchTST; the defaults are those of its scripts for ETTh1 at horizon 96."""

    width: setting.TokenWidth = 512
    heads: setting.HeadCount = 2
    depth: setting.Depth = 1
    feed_forward: setting.FeedForwardWidth = 2048
    dropout: float = 0.1
    """Dropout on tokens, attention's weights and output, the feed-forward part and the head."""
    patch: setting.PatchSteps = 16
    stride: setting.StrideSteps = 8
    activation: setting.AnyActivation = "gelu"
    normalise: setting.Normalisation = "revin"


class Network(PatchHost):
    """The library's PatchTST with any attention that mixes patches."""

    name = "patchtst_tslib"
    host = "PatchTST"

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        patches = self.cut(shape, settings.patch, settings.stride, settings.width, bias=False)
        super().__init__(shape, Normalise(settings.normalise), patches, "sinusoidal", settings.dropout)
        site = self.site(settings.heads, None, settings.dropout)
        block = BlockSettings(settings.feed_forward, activation=settings.activation, dropout=settings.dropout)
        self.stack = Stack(site, settings.depth, block, attention, final_norm="batch")
        self.head = self.readout()

    def detokenise(self, tokens: Tokens) -> Steps:
        return self.drop(super().detokenise(tokens))
