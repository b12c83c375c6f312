"""Cross-attention, and the decoder that attends to an encoder's tokens.

    x = norm(x + drop(attend(x)));   x = norm(x + drop(cross(x, memory)));   x = norm(x + drop(feed_forward(x)))

The chosen mechanism is the decoder's self-attention. Cross-attention is softmax whatever that is: a query that stands
ahead of every key has no tokens of its own kind to mix.
"""

from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from rearview import attention
from rearview.attention.contract import Attention, Inputs, Mask, Site, Tokens
from rearview.attention.shared.fused import attend
from rearview.core.errors import SettingsError
from rearview.embed import Dropout
from rearview.models.blocks import residual
from rearview.models.blocks.stack import Block, BlockRow, BlockSettings, norm

Memory = Float[Tensor, "batch group key width"]
Remembered = Bool[Tensor, "batch group key"]


class Cross(nn.Module):
    """Multi-head softmax attention of some tokens to others."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tokens, memory: Memory, mask: Remembered | None = None) -> Tokens:
        """Attend from every token of `x` to the tokens of `memory`, padding left out by `mask`."""
        q = self._by_head(self.query(x))
        k, v = (self._by_head(part) for part in self.key_value(memory).chunk(2, dim=-1))
        bias = None
        if mask is not None:
            real = mask.flatten(0, 1)
            # Where all keys are padding none is hidden, since a row without keys would be NaN.
            hidden = ~real & real.any(-1, keepdim=True)
            bias = torch.zeros(real.shape, dtype=x.dtype, device=real.device).masked_fill_(hidden, -torch.inf)
            bias = bias[:, None, None]
        dropout = self.dropout if self.training else 0.0
        mixed = attend(q, k, v, bias, q.shape[-1] ** -0.5, dropout=dropout)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))

    def _by_head(self, x: Tensor) -> Float[Tensor, "row head token head_width"]:
        return x.flatten(0, 1).unflatten(-1, (self.heads, -1)).transpose(1, 2)


class DecoderBlock(Block):
    """Attend, look at the memory, feed forward, each added to what came in."""

    def __init__(self, attend: Attention, width: int, settings: BlockSettings) -> None:
        super().__init__(attend, width, settings)
        self.cross = Cross(width, attend.site.heads, attend.site.dropout)
        self.drop_crossed = Dropout(settings.dropout)
        self.norm_crossed = norm(settings.norm, width, settings.norm_eps)

    def decode(self, inputs: Inputs, memory: Memory, memory_mask: Remembered | None = None) -> Tokens:
        """The tokens after all three."""
        x, mask = self.mix(inputs)[0], inputs.mask
        seen, last = (self.norm_crossed(x, mask), None) if self.pre else (x, self.norm_crossed)
        looked = residual.add(x, self.cross(seen, memory, memory_mask), self.drop_crossed, last, mask)
        return self.feed(looked, mask)


class Decoder(BlockRow):
    """Decoder blocks in a row, and a norm at the end."""

    block = DecoderBlock

    def __init__(self, site: Site, depth: int, settings: BlockSettings, spec: attention.Spec = None) -> None:
        if depth < 1:
            raise SettingsError(f"decoder_depth is {depth}; a decoder needs at least one block.")
        super().__init__(site, depth, settings, spec, settings.norm)

    def forward(
        self, x: Tokens, memory: Memory, mask: Mask | None, memory_mask: Remembered | None, windows: Tensor | None
    ) -> Tokens:
        for block in self.blocks:
            x = cast(DecoderBlock, block).decode(Inputs(x, mask, windows=windows), memory, memory_mask)
        return x if self.final is None else self.final(x, mask)
