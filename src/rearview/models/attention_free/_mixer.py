"""The base of networks without tokens: blocks that keep [batch, channel, time], and one map along time."""

from torch import nn

from rearview.embed import Normalise
from rearview.embed.normalisation import Kind
from rearview.models.blocks.heads import Classes, choose_head
from rearview.models.contract import Marks, Model, Output, Past, Real, Shape


class Mixer(Model):
    """normalise -> blocks -> Linear(lookback -> steps), shared by all channels -> denormalise.

    Asked for classes, all mixed values go to the classes instead, padding blanked.
    """

    def __init__(self, shape: Shape, normalise: Kind, blocks: nn.Sequential, dropout: float) -> None:
        super().__init__(shape)
        self.normalise = Normalise(normalise)
        self.blocks = blocks
        self.head = choose_head(shape, shape.lookback, shape.channels * shape.lookback, dropout=dropout)

    def forward(self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None) -> Output:
        x, denormalise = self.normalise(past, mask)
        x = self.blocks(x)
        if isinstance(self.head, Classes):
            real = None if mask is None else mask[:, None].expand(x.shape)
            return self.head(x.unsqueeze(-1), real)
        return denormalise(self.head(x))
