"""Crossformer's two-stage attention: along time within each channel, then across channels through a few routers.

    time:      x = norm(x + drop(attend(x)));           x = norm(x + drop(W2 gelu(W1 x)))      within each channel
    channels:  x = norm(x + drop(receive(x, r')));      x = norm(x + drop(W2 gelu(W1 x)))      within each segment
               r' = send(r, x)

r are `routers` learned tokens of a segment. They gather from all channels and hand on what they have, so that cost
grows linearly with the channels. The chosen mechanism is that of the time stage; send and receive are softmax.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.attention.contract import Attention, Mask, Tokens, Weights
from rearview.embed import Dropout
from rearview.models._decoder import Cross, Memory, Remembered
from rearview.models._joining import joined
from rearview.models.stack import Block, BlockSettings, Feeding, norm


class Looking(Feeding):
    """Look at other tokens, then feed forward, each added to what came in."""

    def __init__(self, width: int, heads: int, dropout: float, settings: BlockSettings) -> None:
        super().__init__(width, settings)
        self.cross = Cross(width, heads, dropout)
        self.drop_crossed = Dropout(dropout)
        self.norm_crossed = norm("layer", width)

    def forward(self, x: Tokens, memory: Memory, mask: Remembered | None = None) -> Tokens:
        return self.fed(joined(x, self.cross(x, memory, mask), self.drop_crossed, self.norm_crossed))


class Routed(Looking):
    """The channel stage: the tokens of a segment, one a channel, look at what its routers gathered from them."""

    def __init__(
        self, segments: int, routers: int, width: int, heads: int, dropout: float, settings: BlockSettings
    ) -> None:
        super().__init__(width, heads, dropout, settings)
        self.routers = nn.Parameter(torch.randn(segments, routers, width))
        self.gather = Cross(width, heads, dropout)

    def across(self, x: Tokens) -> Tokens:
        """[batch, segment, channel, width], channels mixed."""
        return self(x, self.gather(self.routers.expand(x.shape[0], -1, -1, -1), x))


class TwoStage(nn.Module):
    """Both stages, on tokens [batch, channel, segment, width]."""

    def __init__(self, attend: Attention, routers: int, settings: BlockSettings) -> None:
        super().__init__()
        site = attend.site
        self.time = Block(attend, site.width, settings)
        self.channels = Routed(site.tokens, routers, site.width, site.heads, site.dropout, settings)

    def forward(self, x: Tokens, mask: Mask | None = None, found: list[Weights] | None = None) -> Tokens:
        """The mixed tokens; the operator of the time stage is appended to `found`, if given."""
        if found is not None:
            found.append(self.time.attend.weights(self.time.attend_input(x, mask), mask=mask))
        x, _ = self.time(x, mask)
        return self.channels.across(x.transpose(1, 2)).transpose(1, 2)


class Merge(nn.Module):
    """Neighbouring segments joined into one; the last is repeated until they come out even."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.norm = norm("layer", size * width)
        self.project = nn.Linear(size * width, width)

    def forward(self, x: Tokens) -> Float[Tensor, "batch group joined width"]:
        missing = -x.shape[2] % self.size
        x = torch.cat([x, x[:, :, -1:].expand(-1, -1, missing, -1)], dim=2)
        return self.project(self.norm(x.unflatten(2, (-1, self.size)).flatten(3)))

    def mask(self, mask: Mask) -> Bool[Tensor, "batch group joined"]:
        """A joined segment is real when any of its parts is."""
        missing = -mask.shape[2] % self.size
        return functional.pad(mask, (0, missing), value=False).unflatten(2, (-1, self.size)).any(-1)
