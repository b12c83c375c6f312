"""CAPS's own network (Pati et al., 2026): past and future steps of each channel as tokens, refined by causal attention.

    x - x[last] -> extend by W_ext to lookback + steps -> tokens [context ; value] + channel + position (`embed.dual`)
    -> depth x [RMSNorm, attention; RMSNorm, feed-forward] (pre-norm, no norm at the end, no biases)
    -> value part of the steps ahead times the value vectors (tied) -> + x[last]

Channels are groups, so they meet in the context token only. There is no variance in the normalisation: the network is
meant for data that are on one scale already. It starts as appendix A.2 says: maps from N(0, 0.02^2), those that end a
branch narrower by sqrt(2 depth), whatever the attention; tables of positions and channels at 0.

The widths follow the authors' code (`width=None`): 4 times the power of 2 nearest to sqrt(channels + marks), at least
8, for each part of a token. The paper's text asks for 64 a part (8 for ETTh); its table 4 prints 527 thousand
parameters, which are those of 4 blocks of width 96 without a table of positions. Their code knows where the calendar
stands ahead, and so do we where marks are known; marks known for the past alone stay at their last value.

Attention sees earlier steps only. The authors' numerics (`numerics="released"`) are not strictly so and need
`causal=False`. A window is not given back: the value part of a token holds its step's value, and tied decoding would
return it untouched.
"""

import math
from dataclasses import dataclass
from typing import Literal

from torch import nn

from rearview.attention import Spec
from rearview.attention.caps.maps import SPREAD, start
from rearview.attention.contract import Projected, Site, Tokens
from rearview.core.errors import SettingsError
from rearview.embed import Dual, Normalise
from rearview.embed.normalisation import Kind
from rearview.models.blocks import setting
from rearview.models.blocks.encoder import ReadWindow, StackHost
from rearview.models.blocks.heads import Classes
from rearview.models.blocks.stack import BlockSettings, Stack
from rearview.models.blocks.tokens import channel_groups, step_tokens
from rearview.models.contract import Axes, Marks, ModelClaims, Past, Real, Shape, Steps


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of CAPS's network."""

    width: int | None = None
    """Width of a token, context and value together; None: the authors' rule, from the number of channels and marks."""
    value_width: int | None = None
    """The share of the width that is the value part; None: half."""
    heads: setting.HeadCount = 4
    depth: setting.Depth = 3
    feed_forward: int | None = None
    """Width inside the feed-forward part; None: four times the width."""
    dropout: setting.BlockDropout = 0.0
    channel_dropout: bool | Literal["printed"] = True
    """Whether training drops channels (and marks) from the context token, each window at a rate of its own; the rest is
    divided by the share that is kept, as released, or with "printed" by one less the rate."""
    causal: bool = True
    """Whether attention sees earlier steps only; mechanisms that are causal by themselves are so either way."""
    targets: int | None = None
    """The number of last channels that are forecast; None: all."""
    normalise: Kind = "last"
    """Instance normalisation: last (the original), revin or none."""

    def __post_init__(self) -> None:
        if self.width is not None and not 0 < (self.value_width or self.width // 2) < self.width:
            raise SettingsError(
                f"width is {self.width} and value_width is {self.value_width}; a token needs room for both its parts, "
                "the context and the value."
            )


def nearest(inputs: int) -> int:
    """The authors' width of a part: 4 times the power of 2 nearest to the root of the number of inputs, at least 8."""
    return 4 * 2 ** max(1, round(math.log2(math.sqrt(inputs))))


class Network(StackHost):
    """CAPS's network with any attention along time; `attention=None` is CAPS."""

    claims = ModelClaims(
        mixes_channels=True, uses_marks=True, reads_ahead=True, scale_free=False, equivariant_to_channels=False,
        classifies=True,
    )  # fmt: skip
    own_attention = "caps"

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        super().__init__(shape)
        part = nearest(shape.channels + shape.marks)
        width = 2 * part if settings.width is None else settings.width
        value = width // 2 if settings.value_width is None else settings.value_width
        self.normalise = Normalise(settings.normalise)
        ahead = 0 if shape.asks == "classes" else shape.steps
        self.dual = Dual(
            shape.channels, shape.lookback, ahead, context=width - value, value=value, targets=settings.targets,
            marks=shape.marks, future=shape.future, drop_channels=settings.channel_dropout,
        )  # fmt: skip
        site = Site(
            self.dual.targets, self.dual.tokens, width, settings.heads, causal=settings.causal,
            causal_unless="causal=False", lookback=shape.lookback, projection_bias=False, host="CAPS's network",
        )  # fmt: skip
        inside = 4 * width if settings.feed_forward is None else settings.feed_forward
        block = BlockSettings(inside, norm="rms", order="pre", bias=False, dropout=settings.dropout)
        self.stack = Stack(site, settings.depth, block, self.attention_of(settings, attention))
        # Every map of a block as appendix A.2 says; a mechanism's other parameters start as it says.
        narrow = SPREAD / math.sqrt(2 * settings.depth)
        for each in self.stack.blocks:
            first, last = (part for part in each.feed_forward if isinstance(part, nn.Linear))
            start(first)
            start(last, narrow)
            if isinstance(each.attend, Projected):
                start(each.attend.qkv)
                start(each.attend.out, narrow)
        self.head: nn.Module = nn.Identity()
        if shape.asks == "classes":
            features = self.dual.targets * self.dual.tokens * width
            self.head = Classes(features, shape.classes, dropout=settings.dropout)

    def read(self, past: Past, past_marks: Marks, future_marks: Marks, mask: Real) -> ReadWindow:
        x, _ = self.normalise(past, mask)
        tokens = self.dual(x, past_marks, future_marks, mask)
        real = None if mask is None else self.dual.mask(mask)[:, None].expand(-1, self.dual.targets, -1)
        _, denormalise = self.normalise(past[:, -self.dual.targets :], mask)
        return ReadWindow(tokens, real, None, x, denormalise)

    def token_axes(self) -> Axes:
        return Axes(
            channel_groups(self.shape)[-self.dual.targets :], step_tokens(-self.shape.lookback, self.dual.ahead)
        )

    def detokenise(self, tokens: Tokens) -> Steps:
        return self.dual.decode(tokens)
