"""The base of networks whose tokens are whole channels: everything but stack and defaults."""

from typing import ClassVar

from torch import nn

from rearview.attention.contract import Site, Tokens
from rearview.embed import Dropout, Normalise, Variates
from rearview.embed.normalisation import Kind
from rearview.models.blocks.encoder import Encoder
from rearview.models.blocks.heads import choose_head
from rearview.models.blocks.tokens import channel_tokens
from rearview.models.contract import Axes, Marks, ModelClaims, Past, Shape, Steps, Token


class ChannelHost(Encoder):
    """normalise -> a token for each channel and mark -> dropout -> stack -> Linear(width -> steps), marks cut off.

    A subclass adds the stack, at `site`, and then the head, `readout`.
    """

    claims = ModelClaims(mixes_channels=True, uses_marks=True, reconstructs=True, classifies=True)
    host: ClassVar[str]
    """The name in sentences."""

    def __init__(self, shape: Shape, normalise: Kind, width: int, dropout: float) -> None:
        super().__init__(shape)
        self.width = width
        self.normalise = Normalise(normalise)
        self.variates = Variates(shape.lookback, width, marks=shape.marks, future=shape.future, statics=shape.statics)
        self.drop = Dropout(dropout)

    def site(self, heads: int, head_width: int | None, dropout: float, projection_bias: bool = True) -> Site:
        """The place of attention: one group, a token for each channel, then one for each mark."""
        shape = self.shape
        return Site(
            1, shape.channels + shape.marks, self.width, heads, head_width=head_width, time_ordered=False,
            variates=shape.channels, lookback=shape.lookback, dropout=dropout, projection_bias=projection_bias,
            host=self.host,
        )  # fmt: skip

    def readout(self) -> nn.Module:
        """The head for what is asked."""
        features = (self.shape.channels + self.shape.marks) * self.width
        return choose_head(self.shape, self.width, features, activate=True, dropout=self.drop.rate)

    def tokenise(self, x: Past, past_marks: Marks, future_marks: Marks) -> Tokens:
        return self.drop(self.variates(x, past_marks, future_marks))

    def token_axes(self) -> Axes:
        return Axes((Token(),), channel_tokens(self.shape))

    def detokenise(self, tokens: Tokens) -> Steps:
        return self.head(tokens[:, 0, : self.shape.channels])
