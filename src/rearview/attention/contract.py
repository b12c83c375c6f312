"""The contract of an attention layer: standard outside, free inside.

    layer(x, *, mask=None, bias=None, ages=None, carry=None)     x: [batch, group, token, width] -> the same shape

`token` is the axis mixed along; `group` is what stays apart unless the mechanism says otherwise.

- `mask` [batch, group, token] is True on real tokens, False on padding.
- `bias`, broadcastable to [batch, group, head, token, token], is added to the scaled scores.
- `ages` [batch, group, token, token] or broadcastable to it: real time gaps instead of token distance.
- `carry`: what earlier layers handed on, `()` in the first; with it a layer returns `(y, carry)`. Residual attention
  scores travel so, as queries and keys: sum_m Q_m K_m^T = [Q_1 .. Q_l] [K_1 .. K_l]^T.

Mechanisms that claim it also take `gate`, broadcastable to [batch, group, head, token, token]: 0 or 1 for every pair,
learned by way of its gradient (DUET's clusters of channels); see `apply_gate`.

Inside, a layer gets all of them as one `Inputs`. A mechanism is one module or package: `Settings` (a frozen dataclass),
`Layer` (a subclass of `Attention`), and, above it, the paper's equations as a plain `reference`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from rearview.attention.shared.execution import map_wide
from rearview.attention.shared.rotary import Leading
from rearview.attention.site import Carry, Heads, Mask, Mixture, Site, Tokens, Weights
from rearview.core.errors import SettingsError

__all__ = [
    "Attention", "Carry", "Claims", "Heads", "Inputs", "Mask", "Mixture", "Projected", "Site", "Tokens", "Weights",
    "apply_gate", "causal_bias", "hide_padding", "pad_bias", "score_bias", "zero_padding",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Claims:
    """The properties that a layer states of itself. Claims steer tests, tables and refusals, never `forward`."""

    causal: bool = False
    """A later token never moves an earlier output."""
    mixes_tokens: bool = True
    """Tokens see one another."""  # where they do not, mask, bias and gate are taken and change nothing
    mixes_groups: bool = False
    """Groups see one another."""
    needs_time_order: bool = False
    """Tokens must be ordered in time."""
    linear_in_tokens: bool = False
    """Cost grows linearly with the number of tokens."""
    equivariant_to_groups: bool = True
    """Permuting groups permutes the output."""
    tokens_alike: bool = True
    """No parameter belongs to the place of a token or to a pair of places: but for their order, contents alone tell
    tokens apart."""
    carries_scores: bool = False
    """Takes part in residual attention scores through `carry`."""
    reads_windows: bool = False
    """Wants the windows that the tokens were made from, as `windows` [batch, channel, time]."""
    takes_bias: bool = True
    """Has scores that a bias can be added to."""
    takes_gate: bool = False
    """Has scores or weights of pairs that can be multiplied by a gate."""
    hides_pairs: bool = True
    """A bias of -inf hides a token from a query altogether."""  # not where values are mixed across pairs
    batch_norm_needs: str | None = None
    """The setting without which training in a network with batch norm tends to end at a mean."""
    reduces_to_softmax_at: str | None = None
    """The setting at which the layer is softmax attention."""

    @property
    def equivariant_to_tokens(self) -> bool:
        """Permuting tokens permutes the output, and windows with them where those are read."""
        ordered = self.needs_time_order or (self.causal and self.mixes_tokens)
        return self.tokens_alike and not ordered


class Inputs(NamedTuple):
    """The arguments of one call of a layer as one value: the tokens, and what may come with them."""

    x: Tensor
    """The tokens [batch, group, token, width]."""
    mask: Tensor | None = None
    """[batch, group, token], True on real tokens."""
    bias: Tensor | None = None
    """Added to the scaled scores, broadcastable to [batch, group, head, token, token]."""
    ages: Tensor | None = None
    """Real time gaps instead of token distance, broadcastable to [batch, group, token, token]."""
    carry: Carry | None = None
    """The tensors that earlier layers handed on, `()` in the first; None where nothing is carried."""
    windows: Tensor | None = None
    """The windows that the tokens were made from [batch, channel, time], for a layer that claims to read them."""
    gate: Tensor | None = None
    """0 or 1 for every pair, broadcastable to [batch, group, head, token, token]; see `apply_gate`."""


class Attention(nn.Module, ABC):
    """Base of every mechanism. A subclass defines `attend` and `weigh`, which take the arguments as one `Inputs`.

    It may override `forward` and `weights` instead, with the arguments one by one.
    """

    claims: Claims

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.site = site

    def forward(
        self,
        x: Tokens,
        *,
        mask: Mask | None = None,
        bias: Tensor | None = None,
        ages: Tensor | None = None,
        carry: Carry | None = None,
        windows: Tensor | None = None,
        gate: Tensor | None = None,
    ) -> Tokens | tuple[Tokens, Carry]:
        """Mix the tokens; with `carry`, return what the next layer needs as well."""
        mixed, handed_on = self.attend(self._admit(Inputs(x, mask, bias, ages, carry, windows, gate)))
        y = self.project(mixed)
        return y if handed_on is None else (y, handed_on)

    def weights(
        self,
        x: Tokens,
        *,
        mask: Mask | None = None,
        bias: Tensor | None = None,
        ages: Tensor | None = None,
        carry: Carry | None = None,
        windows: Tensor | None = None,
        gate: Tensor | None = None,
    ) -> Weights:
        """The effective mixing operator [batch, group, head, query, key], or a dict of operators that add up.

        Applied to `values(x)` and handed to `project` it reproduces the layer's output. Where every pair of tokens has
        values of its own, a layer has them beside it: prime's `primers`, gat's `modulators`, mica's `combine`.
        """
        return self.weigh(self._admit(Inputs(x, mask, bias, ages, carry, windows, gate)))

    def attend(self, inputs: Inputs) -> Mixture:
        """The mixed values of all heads, and what the next layer needs (None without `inputs.carry`)."""
        raise NotImplementedError

    def weigh(self, inputs: Inputs) -> Weights:
        """The effective operator that `attend` applies to the values."""
        raise NotImplementedError

    @abstractmethod
    def values(self, x: Tokens) -> Heads:
        """The tensor that the operator is applied to."""

    @abstractmethod
    def project(self, heads: Heads) -> Tokens:
        """Merge the heads and map them back to the width of the tokens."""

    def prepare(self, windows: Float[Tensor, "window channel time"]) -> None:
        """Learn from training windows before training; most mechanisms have nothing to learn there."""

    def common_part(self) -> nn.Module | None:
        """The part that all layers of a stack have in common, if the mechanism has one; the stack then owns it."""
        return None

    def use(self, shared: nn.Module) -> None:
        """Replace the layer's own copy of the common part by the one that the stack owns."""

    def check(self, x: Tensor) -> None:
        """Refuse tokens that this layer was not built for."""
        if x.dim() != 4:
            raise SettingsError(
                f"An attention layer takes tokens [batch, group, token, width] and got {x.dim()} axes, "
                f"{list(x.shape)}; where nothing is to stay apart, give one group: x[:, None]."
            )
        if x.shape[2] > self.site.tokens or x.shape[3] != self.site.width:
            raise SettingsError(
                f"This layer was built for up to {self.site.tokens} tokens of width {self.site.width} "
                f"and got {x.shape[2]} of width {x.shape[3]}."
            )

    def _admit(self, inputs: Inputs) -> Inputs:
        """The inputs as the layer takes them; refused is what means another thing or has other axes."""
        x, mask, bias = inputs.x, inputs.mask, inputs.bias
        if mask is not None and x.dim() == 4 and (mask.dtype != torch.bool or mask.shape != x.shape[:3]):
            raise SettingsError(
                f"A mask is boolean, [batch, group, token], here {list(x.shape[:3])}, and True on real tokens; this "
                f"one is {mask.dtype}, {list(mask.shape)}. What each query may see goes into bias."
            )
        if bias is not None and not bias.is_floating_point():
            raise SettingsError(
                f"A bias holds numbers that are added to the scores; this one is {bias.dtype}. Of a mask that is True "
                "where a query may look, torch.zeros(mask.shape).masked_fill(~mask, -torch.inf) makes one."
            )
        if x.dim() == 4:
            self._refuse_other_axes(inputs)
        if inputs.gate is not None and not self.claims.takes_gate:
            raise SettingsError("This layer has no pairs that a gate could act on; use softmax, toa or prime.")
        return inputs

    def _refuse_other_axes(self, inputs: Inputs) -> None:
        """Refuse what can't be broadcast to all pairs of tokens."""
        batch, group, token, _ = inputs.x.shape
        rows, pairs = {"batch": batch, "group": group}, {"query": token, "key": token}
        heads = rows | {"head": self.site.heads} | pairs
        for what, part, axes in (
            ("bias", inputs.bias, heads),
            ("gate", inputs.gate, heads),
            ("ages", inputs.ages, rows | pairs),
        ):
            if part is None:
                continue
            sizes = list(axes.values())
            ends = zip(reversed(part.shape), reversed(sizes), strict=False)
            if part.dim() > len(sizes) or any(size not in (1, wanted) for size, wanted in ends):
                raise SettingsError(
                    f"What is given as {what} must fit [{', '.join(axes)}], here {sizes}, with 1 or nothing where it "
                    f"is the same throughout; this one is {list(part.shape)}."
                )


class Projected(Attention):
    """A mechanism with the usual maps: queries, keys and values from one product, heads merged by another.

    Subclasses define how heads are mixed (`mix`) and the operator that does it (`operator`). Because both take queries,
    keys and values, a mechanism that needs another one inside (MICA's local part) can hand over its own.
    """

    compares: ClassVar[bool] = True
    """Whether there are queries and keys; without them both have a width of 0."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        compared = site.heads * site.per_head if self.compares else 0
        self.widths = [compared, compared, site.heads * site.per_value]
        self.qkv = nn.Linear(site.width, sum(self.widths), bias=site.projection_bias)
        self.turn = Leading(site) if site.turned and self.compares else None
        self.later: Tensor | None
        self.register_buffer("later", None, persistent=False)
        if site.causal and site.times is not None:
            # Where several tokens share a moment, what lies ahead is a matter of pairs and no longer of token order.
            times = torch.tensor(site.times)
            self.later = times > times[:, None]
            self.site = replace(site, causal=False)
        self.out = nn.Linear(self.widths[2], site.width, bias=site.projection_bias)

    @abstractmethod
    def mix(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> Mixture:
        """The mixed values, and what the next layer needs (None without `inputs.carry`).

        Of tokens in float16 the values may be in float32, and are narrowed after the output map.
        """

    @abstractmethod
    def operator(self, q: Tensor, k: Tensor, inputs: Inputs) -> Weights:
        """The effective operator that `mix` applies to the values."""

    def attend(self, inputs: Inputs) -> Mixture:
        return self.mix(*self.heads(inputs.x), inputs)

    def weigh(self, inputs: Inputs) -> Weights:
        q, k, _ = self.heads(inputs.x)
        return self.operator(q, k, inputs)

    def heads(self, x: Tokens) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values [batch, group, head, token, width of a head]."""
        self.check(x)
        parts = self.qkv(x).split(self.widths, dim=-1)
        heads = self.site.heads
        q, k, v = (part.unflatten(-1, (heads, part.shape[-1] // heads)).transpose(2, 3) for part in parts)
        return (q, k, v) if self.turn is None else (*self.turn(q, k), v)

    def values(self, x: Tokens) -> Heads:
        return self.heads(x)[2]

    def project(self, heads: Heads) -> Tokens:
        return map_wide(self.out, heads.transpose(2, 3).flatten(3))

    def _admit(self, inputs: Inputs) -> Inputs:
        """With -inf in the bias on keys of a later time, where times are what orders the tokens."""
        inputs = super()._admit(inputs)
        if self.later is None:
            return inputs
        x, bias = inputs.x, inputs.bias
        later = self.later[: x.shape[2], : x.shape[2]]
        bias = torch.zeros(later.shape, dtype=x.dtype, device=x.device) if bias is None else bias
        return inputs._replace(bias=bias.masked_fill(later, -torch.inf))


HIDDEN = -math.log(1e10)
"""The score of a pair whose gate is 0, before scores are scaled."""


def apply_gate(scores: Float[Tensor, "*_ query key"], gate: Tensor, scale: float) -> Float[Tensor, "*_ query key"]:
    """Scaled scores as they are where the gate is 1, and -ln(10^10) times the scale where it is 0 (DUET).

    The product carries a gradient to the gate. Being divided by sqrt(d_h) too, what is left at 0 hides a pair less the
    wider the heads are: next to a score of 0 its weight is 0.06 at a width of 64 and 0.36 at 512.
    """
    gated = scores * gate
    return gated + (gate == 0).to(gated.dtype) * (HIDDEN * scale)


def hide_padding(bias: Tensor, real: Bool[Tensor, "*row key"]) -> Tensor:
    """[*row, head, query, key]: -inf on keys that are padding, save a query's own; the last query's is the last key.

    Nobody reads what a query that is padding sees, but a row of it with nothing to see would be NaN, and one whose
    scores all drown in a large finite number has weights 1 instead of 1/n in the fused kernel's backward pass.
    """
    queries, keys = bias.shape[-2:]
    at = torch.arange(keys, device=bias.device)
    own = at[keys - queries :, None] == at
    return torch.where(real[..., None, None, :] | own, bias, -torch.inf)


def pad_bias(mask: Mask, dtype: torch.dtype) -> Float[Tensor, "batch group 1 token token"]:
    """The padding mask as a bias on the scores."""
    tokens = mask.shape[-1]
    return hide_padding(torch.zeros(1, tokens, tokens, dtype=dtype, device=mask.device), mask)


def score_bias(inputs: Inputs, dtype: torch.dtype) -> Tensor | None:
    """All that the caller adds to the scores: the bias, and -inf on padded keys; None for nothing."""
    if inputs.mask is None:
        return inputs.bias
    padding = pad_bias(inputs.mask, dtype)
    return padding if inputs.bias is None else padding + inputs.bias


def zero_padding(part: Tensor, mask: Mask | None) -> Tensor:
    """Keys or values [*branch, batch, group, head, token, width] with padded tokens at 0."""
    return part if mask is None else part * mask[:, :, None, :, None]


def causal_bias(tokens: int, like: Tensor) -> Float[Tensor, "{tokens} {tokens}"]:
    """0 on and below the diagonal, -inf above: no row is empty, since each token sees itself."""
    return torch.full((tokens, tokens), -torch.inf, dtype=like.dtype, device=like.device).triu_(1)
