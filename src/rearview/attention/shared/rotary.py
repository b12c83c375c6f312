"""Rotary positions (Su et al., 2024): queries and keys turned by angles that grow with time.

    R_t = blockdiag(R_(t,1) .. R_(t,d/2)),   R_(t,l) = [[cos t w_l, -sin t w_l], [sin t w_l, cos t w_l]],
    w_l = 10000^(-2 l / d),   l = 0 .. d/2 - 1

(R_t q) . (R_i k) = q . R_(i-t) k, so a score depends on the offset alone. Neighbouring channels (2l, 2l + 1) form a
pair; the last channel of an odd width stays as it is. Positions are token indices, `Site.times` where the site has
them, or, where a caller knows real gaps, the ages of the first token (only differences matter).

Angles are formed in float64: at position 100,000 a float32 angle is off by 6e-4.

`released` is the layout of the CAPS authors' code: it pairs neighbours but lays the angles out half by half, so the two
members of a pair turn at different speeds. That is no rotation, and scores depend on more than the offset; it is here
for parity with the authors' numbers only.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.attention.site import Heads, Site
from rearview.core.errors import SettingsError

Layout = Literal["fixed", "learned", "released"]
BASE = 10000.0


def frequencies(width: int) -> Float[Tensor, " pair"]:
    """w_l = 10000^(-2 l / width), in float64."""
    return BASE ** (-2 * torch.arange(width // 2, dtype=torch.float64) / width)


def quarter_turn(x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
    """Every pair (a, b) a quarter turn on: (-b, a); a last channel without partner becomes 0."""
    pairs = x.shape[-1] // 2
    a, b = torch.unflatten(x[..., : 2 * pairs], -1, (pairs, 2)).unbind(-1)
    return functional.pad(torch.stack([-b, a], dim=-1).flatten(-2), (0, x.shape[-1] % 2))


class Rotary(nn.Module):
    """Turns queries and keys of one place in a network."""

    def __init__(self, site: Site, layout: Layout = "fixed") -> None:
        super().__init__()
        width = site.per_head
        if layout == "released" and width % 2:
            raise SettingsError(
                f"rotation='released' lays angles out in two equal halves, and heads of width {width} have none; "
                "use rotation='fixed' or an even head width."
            )
        if layout == "learned" and width < 2:
            raise SettingsError(
                "rotation='learned' turns pairs of channels, and heads of width 1 have none; "
                "use rotation='fixed' or wider heads."
            )
        self.width = width
        self.layout = layout
        self.positions: Tensor
        times = site.times if site.times is not None else range(site.tokens)
        self.register_buffer("positions", torch.tensor(list(times)), persistent=False)
        learned = layout == "learned"
        speed = frequencies(width).to(torch.get_default_dtype()).repeat(site.heads, 1)
        self.frequencies = nn.Parameter(speed) if learned else None
        self.table: Tensor | None
        self.register_buffer("table", None if learned else torch.empty(0), persistent=False)
        self._tabulate()

    def forward(self, q: Heads, k: Heads, ages: Tensor | None = None) -> tuple[Heads, Heads]:
        """Queries and keys of the same tokens, turned."""
        tokens = q.shape[-2]
        if self.table is not None and ages is None:
            cos, sin = self.table[:, :tokens].unbind(0)
        else:
            positions = self.positions[:tokens] if ages is None else ages[..., None, :, 0]
            angles = self._angles(positions.to(torch.float64))
            like = self.frequencies if self.table is None else self.table
            assert like is not None
            kind = torch.promote_types(like.dtype, torch.float32)
            cos, sin = angles.cos().to(kind), angles.sin().to(kind)
        q, k = ((x * cos + quarter_turn(x) * sin).to(x.dtype) for x in (q, k))
        return q, k

    def _angles(self, positions: Float[Tensor, "*batch token"]) -> Float[Tensor, "*heads token width"]:
        if self.frequencies is None:
            speed = frequencies(self.width).to(positions.device)
        else:
            speed = self.frequencies.to(torch.float64)[:, None]
        angles = positions[..., None] * speed
        if self.layout == "released":
            return torch.cat([angles, angles], dim=-1)
        return functional.pad(angles.repeat_interleave(2, dim=-1), (0, self.width % 2))

    def _tabulate(self) -> None:
        if self.table is None:
            return
        kind = torch.promote_types(self.table.dtype, torch.float32)
        angles = self._angles(self.positions.to(torch.float64))
        self.table = torch.stack([angles.cos(), angles.sin()]).to(kind)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Rotary":
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        # Made afresh rather than cast: rounded once, from float64, and never below float32.
        self._tabulate()
        return self

    def extra_repr(self) -> str:
        return f"{self.width}, {self.layout}"


class Leading(nn.Module):
    """Turns the first `Site.turned` channels of each head by token index, whatever the tokens' times are."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        if not 0 < site.turned <= site.per_head:
            raise SettingsError(f"Site.turned is {site.turned}, but a head has {site.per_head} channels to turn.")
        self.rotary = Rotary(replace(site, head_width=site.turned, times=None))

    def forward(self, q: Heads, k: Heads) -> tuple[Heads, Heads]:
        width = self.rotary.width
        first = self.rotary(q[..., :width], k[..., :width])
        return torch.cat([first[0], q[..., width:]], dim=-1), torch.cat([first[1], k[..., width:]], dim=-1)
