"""What reads from other tokens than its own: cross-attention, and the decoder that looks back at an encoder.

    x = norm(x + drop(attend(x)));   x = norm(x + drop(cross(x, memory)));   x = norm(x + drop(feed_forward(x)))

The chosen mechanism is the decoder's self-attention. Cross-attention is softmax whatever that is: a query that stands
ahead of every key has no tokens of its own kind to mix.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from rearview import attention
from rearview.attention.contract import Attention, Mask, Site, Tokens
from rearview.attention.shared.fused import attend
from rearview.core.errors import SettingsError
from rearview.embed import Dropout
from rearview.models.blocks.residual import joined
from rearview.models.blocks.stack import Block, BlockSettings, mechanisms, norm

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
        """What every token of `x` gathers from `memory`, whose padding `mask` leaves out."""
        q = self._by_head(self.query(x))
        k, v = (self._by_head(part) for part in self.key_value(memory).chunk(2, dim=-1))
        bias = None if mask is None else _hidden(mask.flatten(0, 1), x.dtype)
        dropout = self.dropout if self.training else 0.0
        mixed = attend(q, k, v, bias, q.shape[-1] ** -0.5, dropout=dropout)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))

    def _by_head(self, x: Tensor) -> Float[Tensor, "row head token head_width"]:
        return x.flatten(0, 1).unflatten(-1, (self.heads, -1)).transpose(1, 2)


def _hidden(real: Tensor, dtype: torch.dtype) -> Float[Tensor, "row 1 1 key"]:
    """-inf on keys that are padding; where all are, none is hidden, since a row without keys would be NaN."""
    hidden = ~real & real.any(-1, keepdim=True)
    return torch.zeros(real.shape, dtype=dtype, device=real.device).masked_fill_(hidden, -torch.inf)[:, None, None]


class DecoderBlock(Block):
    """Attend, look at the memory, feed forward, each added to what came in."""

    def __init__(self, attend: Attention, width: int, settings: BlockSettings) -> None:
        super().__init__(attend, width, settings)
        self.cross = Cross(width, attend.site.heads, attend.site.dropout)
        self.drop_crossed = Dropout(settings.dropout)
        self.norm_crossed = norm(settings.norm, width, settings.norm_eps)

    def crossed(self, x: Tokens, memory: Memory, mask: Mask | None, memory_mask: Remembered | None) -> Tokens:
        """The tokens after the look at the memory."""
        seen, last = (self.norm_crossed(x, mask), None) if self.pre else (x, self.norm_crossed)
        return joined(x, self.cross(seen, memory, memory_mask), self.drop_crossed, last, mask)


class Decoder(nn.Module):
    """Decoder blocks in a row, all with the same mechanism, and a norm at the end."""

    def __init__(self, site: Site, depth: int, settings: BlockSettings, spec: attention.Spec = None) -> None:
        super().__init__()
        if depth < 1:
            raise SettingsError(f"decoder_depth is {depth}; a decoder needs at least one block.")
        layers, self.shared = mechanisms(site, depth, spec)
        self.blocks = nn.ModuleList(DecoderBlock(layer, site.width, settings) for layer in layers)
        self.final = norm(settings.norm, site.width, settings.norm_eps)

    def forward(
        self,
        x: Tokens,
        memory: Memory,
        mask: Mask | None = None,
        memory_mask: Remembered | None = None,
        windows: Tensor | None = None,
    ) -> Tokens:
        for block in self.blocks:
            assert isinstance(block, DecoderBlock)
            x, _ = block.attended(x, mask, windows=windows)
            x = block.fed(block.crossed(x, memory, mask, memory_mask), mask)
        return self.final(x, mask)

    def prepare(self, windows: Tensor) -> None:
        """Hand training windows to every layer."""
        for block in self.blocks:
            assert isinstance(block, DecoderBlock)
            block.attend.prepare(windows)
