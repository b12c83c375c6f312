"""The tokens of CAPS's network: what all channels say at a step, beside what one channel says (appendix A.3).

    extended = [x ; W_ext x]                              x [channel, lookback]  ->  [channel, lookback + ahead]
    context_t = W_tok [marks_t ; extended_t]              the same for every target
    value_ct = extended_ct V_c                            one vector V_c a target
    token_ct = [context_t ; value_ct] + channel_c + position_t

The way back is tied to the way in: the forecast of a step is the product of its token's value part with the same V_c.
So the extension is a first guess of each step ahead, and what stands between the two refines it.

Marks are centred on their last value of the look-back and divided by their standard deviation there (n - 1, plus 1e-8),
as in the authors' code; a mark that does not move in the look-back is centred only, because what it does ahead would be
blown up a hundred million times.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.core.errors import SettingsError
from rearview.embed.dropout import channel_dropout
from rearview.embed.tokenisers import check_marks

SPREAD = 0.02
STILL = 1e-6
"""A standard deviation that is none but the rounding of a constant."""


class Dual(nn.Module):
    """A token for every target and every step, of the look-back and ahead: a context part and a value part.

    The targets are the last of the channels. Marks known for `future` steps stand at the steps ahead; where these are
    several times as many (a step for every quantile), each mark stands at all of its moment's. Unknown ones are 0.
    """

    def __init__(
        self, channels: int, lookback: int, ahead: int, *, context: int, value: int, targets: int | None = None,
        marks: int = 0, future: int = 0, drop_channels: bool | Literal["printed"] = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.targets = channels if targets is None else targets
        if not 1 <= self.targets <= channels:
            raise SettingsError(f"targets is {targets}; of {channels} channels at least 1 and at most all are targets.")
        if context < 1 or value < 1:
            raise SettingsError(f"A token of {context} for the context and {value} for the value has an empty part.")
        self.ahead, self.marks, self.future = ahead, marks, future
        self.tokens = lookback + ahead
        self.drop_channels = drop_channels
        self.extend = nn.Linear(lookback, ahead, bias=False) if ahead else None
        self.context = nn.Linear(channels + marks, context, bias=False)
        nn.init.normal_(self.context.weight, std=SPREAD)
        self.values = nn.Parameter(SPREAD * torch.randn(self.targets, value))
        self.channels = nn.Parameter(torch.zeros(self.targets, context + value))
        self.positions = nn.Parameter(torch.zeros(self.tokens, context + value))

    def forward(
        self,
        x: Float[Tensor, "batch channel time"],
        past_marks: Float[Tensor, "batch mark time"] | None = None,
        future_marks: Float[Tensor, "batch mark _"] | None = None,
        mask: Bool[Tensor, "batch time"] | None = None,
    ) -> Float[Tensor, "batch target token width"]:
        extended = x if self.extend is None else torch.cat([x, self.extend(x)], dim=-1)
        value = extended[:, -self.targets :, :, None] * self.values[:, None]
        if self.marks:
            extended = torch.cat([self._marks(past_marks, future_marks, mask), extended], dim=1)
        drops = self.training and bool(self.drop_channels)
        seen = channel_dropout(extended, drops, printed=self.drop_channels == "printed")
        context = self.context(seen.transpose(1, 2))[:, None].expand(-1, self.targets, -1, -1)
        return torch.cat([context, value], dim=-1) + self.channels[:, None] + self.positions

    def decode(self, tokens: Float[Tensor, "batch target token width"]) -> Float[Tensor, "batch target ahead"]:
        """The steps ahead that the tokens' value parts stand for."""
        value = tokens[:, :, tokens.shape[2] - self.ahead :, -self.values.shape[1] :]
        return (value * self.values[:, None]).sum(-1)

    def mask(self, mask: Bool[Tensor, "batch time"]) -> Bool[Tensor, "batch token"]:
        """A step of the look-back is real when it is observed; every step ahead is."""
        return functional.pad(mask, (0, self.ahead), value=True)

    def _marks(
        self, past_marks: Tensor | None, future_marks: Tensor | None, mask: Tensor | None
    ) -> Float[Tensor, "batch mark token"]:
        past, future = check_marks(self.marks, self.future if self.ahead else 0, past_marks, future_marks)
        last = past[..., -1:]
        real = torch.ones_like(past[:, :1]) if mask is None else mask[:, None].to(past.dtype)
        count = real.sum(-1, keepdim=True)
        mean = (past * real).sum(-1, keepdim=True) / count
        spread = (((past - mean).square() * real).sum(-1, keepdim=True) / (count - 1).clamp(min=1)).sqrt()
        spread = torch.where(spread > STILL, spread + 1e-8, 1)
        known = past - last if mask is None else (past - last) * mask[:, None]
        if future is not None:
            if self.ahead % self.future == 0:
                future = future.repeat_interleave(self.ahead // self.future, dim=-1)
            known = torch.cat([known, future[..., : self.ahead] - last], dim=-1)
        return functional.pad(known / spread, (0, self.tokens - known.shape[-1]))
