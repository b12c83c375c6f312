"""The base of networks that cut each channel into patches: everything but stack and defaults."""

import warnings
from typing import ClassVar, Literal

from torch import nn

from rearview.attention.contract import Mask, Site, Tokens
from rearview.core.errors import RearviewWarning
from rearview.embed import Dropout, Learned, Normalise, Patches, Sinusoidal
from rearview.models.blocks.encoder import Encoder
from rearview.models.blocks.heads import Pool, choose_head
from rearview.models.blocks.tokens import channel_groups, patch_tokens
from rearview.models.contract import Axes, Marks, ModelClaims, Past, RealSteps, Shape, Steps

Positions = Literal["learned", "sinusoidal", "standardised"]


class PatchHost(Encoder):
    """normalise -> patches -> + positions -> dropout -> stack -> flatten -> one linear map shared by all channels.

    A subclass adds the stack, at `site`, and then the head, `readout`.
    """

    claims = ModelClaims(reconstructs=True, classifies=True)
    name: ClassVar[str]
    """The name on the shelf."""
    host: ClassVar[str]
    """The name in sentences."""
    positions: nn.Module

    def __init__(
        self, shape: Shape, normalise: Normalise, patches: Patches, positions: Positions, dropout: float
    ) -> None:
        super().__init__(shape)
        shape.refuse_marks(self.name)
        self.normalise = normalise
        self.patches = patches
        self.width = patches.project.out_features
        if positions == "learned":
            self.positions = Learned(patches.tokens, self.width)
        else:
            self.positions = Sinusoidal(patches.tokens, self.width, standard=positions == "standardised")
        self.drop = Dropout(dropout)

    @classmethod
    def cut(
        cls, shape: Shape, patch: int, stride: int, width: int, *, pad_end: bool = True, bias: bool = True
    ) -> Patches:
        """The patches of the look-back; it is told where they have another stride than was asked for."""
        # A default's or a plan's stride may be too long for a patch that a person gave, so this is no refusal.
        if stride > patch:
            warnings.warn(
                f"{cls.name}: a stride of {stride} would leave out steps between patches of {patch}, so it is "
                f"shortened to the patch; give stride={patch} or less.",
                RearviewWarning,
                stacklevel=4,
            )
        return Patches(shape.lookback, patch, stride, width, pad_end=pad_end, bias=bias)

    def site(self, heads: int, head_width: int | None, dropout: float, projection_bias: bool = True) -> Site:
        """The place of attention: a group for each channel, a token for each patch."""
        return Site(
            self.shape.channels, self.patches.tokens, self.width, heads, head_width=head_width,
            lookback=self.shape.lookback, dropout=dropout, projection_bias=projection_bias, host=self.host,
        )  # fmt: skip

    def readout(self, pool: Pool = "none") -> nn.Module:
        """The head for what is asked; `pool` says how tokens are brought together before they tell a class."""
        features = self.patches.tokens * self.width
        read = self.shape.channels * (self.width if pool == "mean" else features)
        return choose_head(self.shape, features, read, dropout=self.drop.rate, pool=pool)

    def tokenise(self, x: Past, past_marks: Marks, future_marks: Marks) -> Tokens:
        return self.drop(self.positions(self.patches(x)))

    def token_axes(self) -> Axes:
        return Axes(channel_groups(self.shape), patch_tokens(self.patches, self.shape.lookback))

    def token_mask(self, mask: RealSteps) -> Mask:
        real = self.patches.mask(mask)
        return real[:, None].expand(-1, self.shape.channels, -1)

    def detokenise(self, tokens: Tokens) -> Steps:
        return self.head(tokens.flatten(2))
