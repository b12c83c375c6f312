"""Recency-biased attention as a layer: settings, the reference form in the paper's symbols, and the form that runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rearview import attention
from rearview.attention.contract import Claims, Inputs, Mixture, Projected, Site, hide_padding
from rearview.attention.rbca.biased_attention import attend_biased, attend_by_age, expand_ages
from rearview.attention.rbca.biases import BIASES, STUDY, Number, Rate, Window, butterworth, find_window, spread_rates
from rearview.attention.shared.execution import through_float32
from rearview.attention.shared.fused import flatten_bias
from rearview.attention.softmax import join_carried
from rearview.core.errors import SettingsError
from rearview.core.settings import settings_from

Bias = Literal["power_law", "similarity_power_law", "exponential", "butterworth", "step", "causal"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of recency-biased causal attention; the defaults are Powerformer's main choice."""

    bias: Bias = "power_law"
    """The decay of keys: power_law, similarity_power_law, exponential (ALiBi), butterworth, step or causal (none)."""
    alpha: Number | Sequence[Number] | None = 0.5
    """The rate they fade at (power laws, exponential): one number, one per head, or None: the study's, one per head."""
    learnable: bool = False
    """Whether alpha is trained, from the value given."""
    floor: Number | None = None
    """The least a learned alpha can be; None: no bound, but 0 for similarity_power_law."""
    per_head: bool = False
    """Whether each head has its own rate, spread around the one given: at alpha 0.5, exponential has ALiBi's slopes."""
    scale: Number | Sequence[Number] = 10.0
    """The reach of butterworth and step, in tokens: one number, or one per head."""
    order: Literal[1, 2] = 1
    """Order of the Butterworth filter."""
    residual_mask: Literal["accumulate", "once"] = "accumulate"
    """With residual scores: whether earlier layers' masks are handed on too (as released) or each layer has its own."""
    window: int | Literal["auto"] | None = None
    """The greatest age still seen: a number of tokens, auto (where the rest weighs under 1e-6), or None for all."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", _rates("alpha", self.alpha))
        object.__setattr__(self, "scale", _rates("scale", self.scale))
        if any(alpha < 0 for alpha in _list_rates(self.alpha)):
            raise SettingsError(f"rbca's alpha is {self.alpha}; it must be at least 0, since keys fade and never grow.")
        if any(scale <= 0 for scale in _list_rates(self.scale)):
            raise SettingsError(f"rbca's scale is {self.scale}; it must be above 0.")
        if isinstance(self.window, int) and self.window < 1:
            raise SettingsError(f"rbca's window is {self.window}; it is a number of tokens from 1 on, auto or None.")
        if self.learnable and self.bias not in ("power_law", "similarity_power_law", "exponential"):
            raise SettingsError(
                f"rbca's {self.bias} bias has no alpha to learn; use power_law, similarity_power_law or exponential, "
                "or leave learnable off."
            )
        if self.floor is None:
            return
        object.__setattr__(self, "floor", float(self.floor))
        if not self.learnable:
            raise SettingsError(
                "rbca's floor bounds a learned alpha, but alpha is fixed; set learnable=True or drop it."
            )
        if self.bias == "similarity_power_law" and self.floor < 0:
            raise SettingsError(f"rbca's floor is {self.floor}; similarity_power_law needs one of at least 0.")

    def rates(self, heads: int) -> tuple[float, ...]:
        """The alphas or scales at the start: none, one for all heads, or one per head."""
        if self.bias == "causal":
            return ()
        name = "scale" if self.bias in ("butterworth", "step") else "alpha"
        given = self.scale if name == "scale" else self.alpha
        if isinstance(given, Sequence):
            rates = tuple(given)
            if len(rates) != heads:
                raise SettingsError(
                    f"rbca got {len(rates)} values of {name} for {heads} heads; give one, or one a head."
                )
        else:
            rate = STUDY if given is None else float(given)
            rates = spread_rates(self.bias, rate, heads) if self.per_head or given is None else (rate,)
        if self.floor is not None and min(rates) < self.floor:
            raise SettingsError(
                f"rbca's alpha starts at {min(rates)}, below its floor {self.floor}; raise one or lower the other."
            )
        return rates


def _rates(name: str, given: Number | Sequence[Number] | None) -> float | tuple[float, ...] | None:
    try:
        if given is None and name == "alpha":
            return None
        rates = tuple(map(float, given)) if isinstance(given, Sequence) else float(given)  # type: ignore[arg-type]
        if all(map(math.isfinite, _list_rates(rates))):
            return rates
    except (TypeError, ValueError):
        pass
    raise SettingsError(f"rbca's {name} is {given!r}; it must be a number, or one for each head.")


def _list_rates(rates: Number | Sequence[Number] | None) -> Sequence[Number]:
    if rates is None:
        return ()
    return rates if isinstance(rates, Sequence) else (rates,)


def recency(t: Float[Tensor, " key"], settings: Settings, rate: Rate) -> Float[Tensor, " key"]:
    """f(t) of section 3.3 and S1; `rate` is alpha or s."""
    if settings.bias == "power_law":
        return -rate * torch.log(t + 1)
    if settings.bias == "similarity_power_law":
        return -(t**rate)
    if settings.bias == "exponential":
        return -rate * t
    if settings.bias == "step":
        return torch.where(t <= rate, 0.0, -torch.inf)
    if settings.bias == "butterworth":
        w = np.pi * np.arange(512) / 512
        gain = -2.5 * np.log(1 + (np.tan(w / 2) / np.tan(0.4 * np.pi)) ** (2 * settings.order))
        return torch.from_numpy(np.interp(t.numpy(), float(rate) * w / 2, gain, right=-np.inf))
    return torch.zeros_like(t)


def reference(
    q: Float[Tensor, "token d"],
    k: Float[Tensor, "token d"],
    v: Float[Tensor, "token e"],
    settings: Settings,
    rate: Rate | None = None,
    times: Float[Tensor, " token"] | None = None,
) -> Float[Tensor, "token e"]:
    """Equations (1) to (6), one query at a time; `rate` is alpha or s, `times` are t_i, the tokens' indices if None."""
    rate = sum(settings.rates(1)) if rate is None else rate
    t = torch.arange(len(q), dtype=torch.float64) if times is None else times
    out = []
    for i in range(len(q)):
        first = max(i - settings.window, 0) if isinstance(settings.window, int) else 0
        seen = slice(first, i + 1)  # (3): j > i is left out
        s = k[seen] @ q[i] / math.sqrt(q.shape[-1])  # (1)
        m = recency(t[i] - t[seen], settings, rate)  # (4)
        c = torch.exp(s + m - (s + m).max())  # (5)
        out.append(c @ v[seen] / c.sum())  # (6)
    return torch.stack(out)


class Decay(nn.Module):
    """The mask M^(C) + M^(L) of one place, for this mechanism and for others that take it as a bias.

    `alpha` is the stored parameter, one or one a head, None where it is fixed; in the released code a power law's is
    the negative of ours. `window` says how far back the mask reaches, and why.
    """

    times: Tensor | None

    def __init__(self, site: Site, settings: Settings) -> None:
        super().__init__()
        if not site.time_ordered:
            raise SettingsError(
                f"rbca fades keys by age, but {site.host}'s tokens are channels and have none; use prime or toa."
            )
        if site.times is not None and len(site.times) != site.tokens:
            raise SettingsError(f"Site.times names {len(site.times)} tokens of {site.tokens}; give one time a token.")
        self.settings = settings
        self.rates = settings.rates(site.heads)
        self.floor = settings.floor
        if self.floor is None and settings.bias == "similarity_power_law":
            self.floor = 0.0
        self.alpha = nn.Parameter(torch.tensor(self.rates)) if settings.learnable else None
        self.register_buffer("times", None if site.times is None else torch.tensor(site.times), persistent=False)
        self.window = self._window()

    def forward(
        self, tokens: int, like: Tensor, ages: Tensor | None = None
    ) -> Float[Tensor, "*row _ {tokens} {tokens}"]:
        """[head or 1, token, token], in front [batch, group] where `ages` has them; of the dtype and device of `like`.

        -inf hides what lies in the future: later tokens, or where the site has times later times, and negative ages.
        """
        if ages is None and self.times is None:
            return expand_ages(self.profile(tokens, like), tokens, tokens).to(like.dtype)
        return self.pairs(tokens, like, ages).to(like.dtype)

    def profile(self, tokens: int, like: Tensor) -> Float[Tensor, "_ {tokens}"]:
        """The mask at ages 0 to tokens - 1, in float32 or better: all of it, where distance is in tokens."""
        t = torch.arange(tokens, dtype=_wide(like), device=like.device)
        f = self._fade(t[None])
        return f if self.window.back is None else f.masked_fill(t > self.window.back, -torch.inf)

    def pairs(self, tokens: int, like: Tensor, ages: Tensor | None) -> Float[Tensor, "*row _ {tokens} {tokens}"]:
        """The mask of every pair, where distance is in times of the site or in real `ages`; in float32 or better.

        An automatic window was chosen for token distance, says nothing of real ages and is not applied to them.
        """
        order = torch.arange(tokens, device=like.device) if self.times is None else self.times[:tokens]
        distance = order[:, None] - order
        seen = distance >= 0
        if isinstance(self.settings.window, int):
            seen = seen & (distance <= self.settings.window)
        if ages is not None:
            # A token is always its own present, so that no row is empty.
            distance = torch.where(torch.eye(tokens, dtype=torch.bool, device=like.device), 0, ages)
            seen = seen & (distance >= 0)
        # Hidden pairs get an age at which no bias has a gradient that is not a number.
        t = torch.where(seen, distance, 0).to(_wide(like))
        return self._fade(t.unsqueeze(-3)).masked_fill(~seen.unsqueeze(-3), -torch.inf)

    def _fade(self, t: Tensor) -> Tensor:
        """f of every head at ages [1, age] or [..., 1, token, token]: the heads take the place of the 1."""
        settings, last = self.settings, min(t.dim() - 1, 2)
        if settings.bias == "causal":
            return torch.zeros_like(t)
        if settings.bias == "butterworth":
            return torch.cat([butterworth(t, scale, settings.order) for scale in self.rates], dim=-1 - last)
        f = BIASES[settings.bias]
        if self.alpha is None:
            # Numbers, not a tensor: exact in every dtype, and nothing to copy to the device in a captured step.
            return torch.cat([f(t, rate) for rate in self.rates], dim=-1 - last)
        alpha = self.alpha
        if self.floor is not None:
            alpha = _AtLeast.apply(alpha, self.floor)  # type: ignore[no-untyped-call]
        return f(t, alpha.view(-1, *[1] * last))

    def _window(self) -> Window:
        settings = self.settings
        if settings.window is None:
            return Window(None, "every key is kept: no window was asked for")
        if settings.window != "auto":
            return Window(settings.window, "as set")
        if self.times is not None:
            return Window(None, "every key is kept: where times are given, the last tokens are not the latest")
        if not settings.learnable:
            return find_window(settings.bias, self.rates)
        if self.floor:
            return find_window(settings.bias, (self.floor,))
        return Window(None, "every key is kept: a learned alpha without a floor above 0 may fall to where all matter")

    def extra_repr(self) -> str:
        back = "all" if self.window.back is None else self.window.back
        return f"{self.settings.bias}, rates={self.rates}, window={back} ({self.window.why})"


def lend_decay(owner: str, site: Site, spec: attention.Spec) -> Decay | None:
    """The decay that `owner`'s setting `bias` asks for, called as `decay(tokens, like, ages)`; None for none."""
    if spec is None:
        return None
    name, chosen = attention.split(spec)
    if name != "rbca":
        raise SettingsError(
            f"{owner}'s bias is {name!r}, which has no bias to lend; the only one there is to add is rbca."
        )
    if not site.time_ordered:
        raise SettingsError(
            f"rbca fades keys by age, but {site.host}'s tokens have none, since they are not ordered in time; "
            f"leave {owner}'s bias out."
        )
    return Decay(site, settings_from(Settings, name, chosen))


class Layer(Projected):
    """Multi-head attention whose keys fade with age."""

    def __init__(self, site: Site, settings: Settings) -> None:
        super().__init__(site)
        self.settings = settings
        self.decay = Decay(site, settings)
        self.claims = Claims(
            causal=True,
            needs_time_order=True,
            linear_in_tokens=self.decay.window.back is not None and site.times is None,
            carries_scores=True,
            reduces_to_softmax_at='bias="causal", in a causal place',
        )

    def mix(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> Mixture:
        q, k = join_carried(q, k, inputs)
        fading = self._fading(q, inputs)
        rows = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
        scale = self.site.per_head**-0.5
        if self._by_age(inputs) and inputs.bias is None:
            real = None if inputs.mask is None else inputs.mask.flatten(0, 1)
            mixed = attend_by_age(
                *rows, profile=fading, back=self.decay.window.back, real=real, scale=scale,
                flat=self.settings.bias == "causal",
            )  # fmt: skip
        else:
            bias = flatten_bias(self._bias(fading, q, inputs), q.shape[0], q.shape[1])
            mixed = attend_biased(*rows, bias=bias, scale=scale, ordered=self.site.times is None)
        handed_on = (q, k, fading) if self.settings.residual_mask == "accumulate" else (q, k)
        return mixed.view(v.shape), None if inputs.carry is None else handed_on

    @through_float32
    def operator(self, q: Tensor, k: Tensor, inputs: Inputs) -> Float[Tensor, "batch group head query key"]:
        q, k = join_carried(q, k, inputs)
        scores = q @ k.transpose(-1, -2) * self.site.per_head**-0.5
        return (scores + self._bias(self._fading(q, inputs), q, inputs).to(q.dtype)).softmax(-1)

    def _fading(self, q: Tensor, inputs: Inputs) -> Tensor:
        """The mask of this layer, with those that earlier layers handed on; by age where distance is in tokens."""
        tokens = q.shape[-2]
        own = self.decay.profile(tokens, q) if self._by_age(inputs) else self.decay.pairs(tokens, q, inputs.ages)
        earlier = inputs.carry[2:] if inputs.carry and self.settings.residual_mask == "accumulate" else ()
        return sum(earlier, own)

    def _by_age(self, inputs: Inputs) -> bool:
        return inputs.ages is None and self.site.times is None

    def _bias(self, fading: Tensor, q: Tensor, inputs: Inputs) -> Tensor:
        """All that is added to the scores, broadcastable to [batch, group, head, token, token]."""
        bias = expand_ages(fading, q.shape[-2], q.shape[-2]) if self._by_age(inputs) else fading
        bias = bias if inputs.mask is None else hide_padding(bias, inputs.mask)
        return bias if inputs.bias is None else bias + inputs.bias


def _wide(like: Tensor) -> torch.dtype:
    return torch.promote_types(like.dtype, torch.float32)


class _AtLeast(torch.autograd.Function):
    """max(x, floor), with a way back: below the floor a gradient passes where it leads up again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, floor: float) -> Tensor:
        ctx.save_for_backward(x >= floor)
        return x.clamp(min=floor)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (above,) = ctx.saved_tensors
        return grad * (above | (grad < 0)), None
