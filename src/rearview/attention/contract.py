"""The contract of an attention layer: standard outside, free inside.

    layer(x, *, mask=None, bias=None, ages=None, carry=None)     x: [batch, group, token, width] -> the same shape

`token` is the axis mixed along; `group` is what stays apart unless the mechanism says otherwise.

- `mask` [batch, group, token] is True on real tokens, False on padding.
- `bias`, broadcastable to [batch, group, head, token, token], is added to the scaled scores.
- `ages` [batch, group, token, token] or broadcastable to it: real time gaps instead of token distance.
- `carry`: what earlier layers handed on, `()` in the first; with it a layer returns `(y, carry)`. Residual attention
  scores travel so, as queries and keys: sum_m Q_m K_m^T = [Q_1 .. Q_l] [K_1 .. K_l]^T.

Mechanisms that claim it also take `gate`, broadcastable to [batch, group, head, token, token]: 0 or 1 for every pair,
learned by way of its gradient (DUET's clusters of channels); see `gated`.

A mechanism is one file: `Settings` (a frozen dataclass), `Layer` (a subclass of `Attention`), and, above them, the
paper's equations as a plain `reference`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from rearview.core.errors import SettingsError

Tokens = Float[Tensor, "batch group token width"]
Heads = Float[Tensor, "batch group head token head_width"]
Mask = Bool[Tensor, "batch group token"]
Carry = tuple[Tensor, ...]
Weights = Tensor | dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Site:
    """Where in a network a mechanism stands: everything about the place that is known when the network is built."""

    groups: int
    """Rows kept apart unless the mechanism says otherwise: PatchTST's channels."""
    tokens: int
    """The longest axis it will mix along; shorter ones are accepted."""
    width: int
    heads: int
    time_ordered: bool = True
    """Whether token order is time order. iTransformer's tokens are channels: False."""
    causal: bool = False
    """Whether a token may look at earlier ones only; those of its own time are among them where `times` are given."""
    causal_unless: str | None = None
    """The network's setting under which it is not causal, for sentences such as "give the network causal=False"."""
    head_width: int | None = None
    """Width of a head's queries and keys; None: width / heads."""
    value_width: int | None = None
    """Width of a head's values; None: as its queries and keys."""
    lookback: int | None = None
    """Time steps of the window the tokens were made from."""
    variates: int | None = None
    """Where tokens are channels: how many of the first ones are (calendar tokens follow); None: all, or none in time
    order."""
    times: tuple[int, ...] | None = None
    """The time index of each token where order is not simply 0, 1, 2 ... (Timer-XL's channel x patch tokens)."""
    turned: int = 0
    """How many leading channels of a head's queries and keys the network turns by token index (Timer-XL's rotary)."""
    layer: int = 0
    layers: int = 1
    dropout: float = 0.0
    """Dropout on the attention weights."""
    projection_bias: bool = True
    """Whether query, key, value and output maps have a bias."""
    host: str = "this model"
    """The network's name, for sentences such as "iTransformer's tokens are channels"."""

    def __post_init__(self) -> None:
        for name in ("groups", "tokens", "width", "heads", "layers"):
            if getattr(self, name) < 1:
                raise SettingsError(f"Site.{name} is {getattr(self, name)}; it must be at least 1.")
        for name in ("head_width", "value_width"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise SettingsError(f"Site.{name} is {getattr(self, name)}; it must be at least 1, or None.")
        if self.head_width is None and self.width % self.heads:
            raise SettingsError(
                f"width {self.width} can't be shared evenly by {self.heads} heads; "
                f"choose a multiple of {self.heads}, another number of heads, or give head_width."
            )
        if not 0 <= self.dropout < 1:
            raise SettingsError(f"Attention dropout is {self.dropout}; it must lie in [0, 1).")

    @property
    def per_head(self) -> int:
        """The width of one head's queries and keys."""
        return self.head_width or self.width // self.heads

    @property
    def per_value(self) -> int:
        """The width of one head's values."""
        return self.value_width or self.per_head


@dataclass(frozen=True, slots=True)
class Claims:
    """What a layer says of itself. Claims steer tests, tables and refusals, never `forward`."""

    causal: bool = False
    """A later token never moves an earlier output."""
    mixes_groups: bool = False
    """Groups see one another."""
    needs_time_order: bool = False
    """Tokens must be ordered in time."""
    linear_in_tokens: bool = False
    """Cost grows linearly with the number of tokens."""
    equivariant_to_groups: bool = True
    """Permuting groups permutes the output."""
    carries_scores: bool = False
    """Takes part in residual attention scores through `carry`."""
    reads_windows: bool = False
    """Wants the windows that the tokens were made from, as `windows` [batch, channel, time]."""
    takes_bias: bool = True
    """Has scores that a bias can be added to."""
    takes_gate: bool = False
    """Has scores or weights of pairs that can be multiplied by a gate."""
    hides_pairs: bool = True
    """Where it takes a bias: -inf keeps a token from a query altogether; False where values are mixed across pairs."""
    batch_norm_needs: str | None = None
    """The setting without which training in a network with batch norm tends to end at a mean."""
    reduces_to_softmax_at: str | None = None
    """The setting at which the layer is softmax attention."""


class Attention(nn.Module, ABC):
    """Base of every mechanism. Subclasses mix tokens in `forward` and own up to how in `weights`."""

    claims: Claims

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.site = site

    @abstractmethod
    def forward(
        self,
        x: Tokens,
        *,
        mask: Mask | None = None,
        bias: Tensor | None = None,
        ages: Tensor | None = None,
        carry: Carry | None = None,
    ) -> Tokens | tuple[Tokens, Carry]:
        """Mix the tokens; with `carry`, hand on what the next layer needs."""

    @abstractmethod
    def weights(
        self,
        x: Tokens,
        *,
        mask: Mask | None = None,
        bias: Tensor | None = None,
        ages: Tensor | None = None,
        carry: Carry | None = None,
    ) -> Weights:
        """The effective mixing operator [batch, group, head, query, key], or a dict of operators that add up.

        Applied to `values(x)` and handed to `project` it reproduces the layer's output.
        """

    @abstractmethod
    def values(self, x: Tokens) -> Heads:
        """What the operator is applied to."""

    @abstractmethod
    def project(self, heads: Heads) -> Tokens:
        """Merge the heads and map them back to the width of the tokens."""

    def prepare(self, windows: Float[Tensor, "window channel time"]) -> None:
        """Learn from training windows before training; most mechanisms have nothing to learn there."""

    def shared(self) -> nn.Module | None:
        """The part that all layers of a stack have in common, if the mechanism has one; the stack then owns it."""
        return None

    def use(self, shared: nn.Module) -> None:
        """Give up the own copy of the common part for the one that the stack owns."""

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


class Given(NamedTuple):
    """What comes with the queries, keys and values: the tokens they were made from and the layer's arguments."""

    x: Tensor
    mask: Tensor | None = None
    bias: Tensor | None = None
    ages: Tensor | None = None
    carry: Carry | None = None
    windows: Tensor | None = None
    gate: Tensor | None = None


class Projected(Attention):
    """A mechanism with the usual maps: queries, keys and values from one product, heads merged by another.

    Subclasses say how heads are mixed (`mix`) and own up to it (`operator`). Because both take queries, keys and
    values, a mechanism that needs another one inside (MICA's local part) can hand over its own.
    """

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.widths = [site.heads * site.per_head, site.heads * site.per_head, site.heads * site.per_value]
        self.qkv = nn.Linear(site.width, sum(self.widths), bias=site.projection_bias)
        self.turn = _turn(site)
        self.later: Tensor | None
        self.register_buffer("later", None, persistent=False)
        if site.causal and site.times is not None:
            # Where several tokens share a moment, what lies ahead is a matter of pairs and no longer of token order.
            times = torch.tensor(site.times)
            self.later = times > times[:, None]
            self.site = replace(site, causal=False)
        self.out = nn.Linear(self.widths[2], site.width, bias=site.projection_bias)

    @abstractmethod
    def mix(self, q: Tensor, k: Tensor, v: Tensor, given: Given) -> tuple[Heads, Carry | None]:
        """The mixed values, and what the next layer needs (None without `given.carry`)."""

    @abstractmethod
    def operator(self, q: Tensor, k: Tensor, given: Given) -> Weights:
        """The effective operator that `mix` applies to the values."""

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
        self._refuse_gate(gate)
        bias = self._hide_later(x, bias)
        mixed, handed_on = self.mix(*self.heads(x), Given(x, mask, bias, ages, carry, windows, gate))
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
        self._refuse_gate(gate)
        bias = self._hide_later(x, bias)
        q, k, _ = self.heads(x)
        return self.operator(q, k, Given(x, mask, bias, ages, carry, windows, gate))

    def heads(self, x: Tokens) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values [batch, group, head, token, width of a head]."""
        self.check(x)
        parts = self.qkv(x).split(self.widths, dim=-1)
        q, k, v = (part.unflatten(-1, (self.site.heads, -1)).transpose(2, 3) for part in parts)
        return (q, k, v) if self.turn is None else (*self.turn(q, k), v)

    def values(self, x: Tokens) -> Heads:
        return self.heads(x)[2]

    def project(self, heads: Heads) -> Tokens:
        return self.out(heads.transpose(2, 3).flatten(3))

    def _hide_later(self, x: Tokens, bias: Tensor | None) -> Tensor | None:
        """The bias with -inf on keys of a later time, where times are what orders the tokens."""
        if self.later is None:
            return bias
        later = self.later[: x.shape[2], : x.shape[2]]
        bias = torch.zeros(later.shape, dtype=x.dtype, device=x.device) if bias is None else bias
        return bias.masked_fill(later, -torch.inf)

    def _refuse_gate(self, gate: Tensor | None) -> None:
        if gate is not None and not self.claims.takes_gate:
            raise SettingsError("This layer has no pairs that a gate could act on; use softmax, toa or prime.")


def _turn(site: Site) -> nn.Module | None:
    """The rotation that a network asks of every mechanism in it."""
    if not site.turned:
        return None
    if not 0 < site.turned <= site.per_head:
        raise SettingsError(f"Site.turned is {site.turned}, but a head has {site.per_head} channels to turn.")
    from rearview.attention.shared.rotary import Leading

    return Leading(site)


HIDDEN = -math.log(1e10)
"""What a score becomes where its gate is 0, before scores are scaled."""


def gated(scores: Float[Tensor, "*_ query key"], gate: Tensor, scale: float) -> Float[Tensor, "*_ query key"]:
    """Scaled scores as they are where the gate is 1, and -ln(10^10) times the scale where it is 0 (DUET).

    The product carries a gradient to the gate. Being divided by sqrt(d_h) too, what is left at 0 hides a pair less the
    wider the heads are: next to a score of 0 its weight is 0.06 at a width of 64 and 0.36 at 512.
    """
    return scores * gate + (gate == 0) * (HIDDEN * scale)


def additive(mask: Mask, dtype: torch.dtype) -> Float[Tensor, "batch group 1 token token"]:
    """The padding mask as a bias on the scores: -inf on keys that are padding, save a query's own.

    Nobody reads what a query that is padding sees, but a row with nothing to see would be NaN, and one whose scores all
    drown in a large finite number has weights 1 instead of 1/n in the fused kernel's backward pass.
    """
    own = torch.eye(mask.shape[-1], dtype=torch.bool, device=mask.device)
    hidden = ~(mask[:, :, None, None, :] | own)
    return torch.zeros(hidden.shape, dtype=dtype, device=mask.device).masked_fill_(hidden, -torch.inf)


def causal_bias(tokens: int, like: Tensor) -> Float[Tensor, "{tokens} {tokens}"]:
    """0 on and below the diagonal, -inf above: no row is empty, since each token sees itself."""
    return torch.full((tokens, tokens), -torch.inf, dtype=like.dtype, device=like.device).triu_(1)
