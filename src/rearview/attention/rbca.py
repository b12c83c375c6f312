"""Recency-biased causal attention (Hegazy, Mahoney and Erichson, AISTATS 2026): keys fade with their age.

    S = Q K^T / sqrt(D_k)                                    (1)
    M^(C)_(i,j) = -inf for j > i, else 0                     (3)
    M^(L)_(i,j) = f(t_i - t_j) for j <= i, else 0            (4)
    C = softmax(S + M^(C) + M^(L)),  output C V              (5), (6)

Symbols: Q, K, V [token, D_k] of one head; t the age of a key in tokens (patches in Powerformer, time steps in a plain
Transformer), or in real time where the caller gives `ages`. The biases, all 0 at t = 0:

    power_law              f(t) = -alpha ln(t + 1)                   (S1)
    similarity_power_law   f(t) = -(t ^ alpha)                       (S2)
    exponential            f(t) = -alpha t                           ALiBi
    butterworth            f(t) = -2.5 ln(1 + (tan(t / s) / tan(0.4 pi)) ^ 2n) up to t = s pi 511/1024, then -inf   (S3)
    step                   f(t) = 0 up to t = s, then -inf
    causal                 f(t) = 0

Where the text and the released code differ we follow the code, which the paper's figures fit:

- Equation (1) prints K Q^T; rows are queries, so it is Q K^T. S1 prints ln(t), infinite at t = 0; the code adds 1. S2
  prints the exponent -alpha; the code has +alpha, which alone decays.
- Butterworth: main text and S3 print gains of opposite sign; the code takes 5 ln |gain| of a digital low-pass (cut-off
  0.8) at 512 points and joins them by lines. That is done here, exactly. The closed form above, which is what the points
  lie on, is within 0.001 of it for s <= 10 and within 0.02 at worst.
- Attention dropout is left out, as the paper says (S3.3), whatever the host has set.
- With residual attention scores the released layer hands on scores that contain the mask, so layer l sees the masks of
  l layers: alpha, 2 alpha, 3 alpha. The text describes one mask per layer. `residual_mask` has both; the first is the
  default because the published numbers were made with it.
- alpha is one number per layer; one per head belongs to the flip-flop study (4.1), for which no code was released.
- A learned alpha may change sign in the paper (S8.1); `floor` holds it. For S2 the floor is 0 unless given: below, the
  released mask is -inf on its own diagonal.

Weights fade but none is free of cost: a decay that vanishes can be cut off (`window`, section 3.4), and then cost is
linear in the number of tokens.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rearview.attention._fused_bias import attend, banded, chunk_of, toeplitz
from rearview.attention._rbca_bias import BIASES, STUDY, Rate, Window, butterworth, reach, spread
from rearview.attention.contract import Carry, Claims, Given, Heads, Projected, Site, additive
from rearview.attention.softmax import joined
from rearview.errors import SettingsError, did_you_mean

Bias = Literal["power_law", "similarity_power_law", "exponential", "butterworth", "step", "causal"]
_SCALED = ("butterworth", "step")
_KNOWN = (*BIASES, "butterworth", "causal")


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of recency-biased causal attention; the defaults are Powerformer's main choice."""

    bias: Bias = "power_law"
    """How keys fade: power_law, similarity_power_law, exponential (ALiBi), butterworth, step, or causal (not at all)."""
    alpha: float | int | Sequence[float | int] | None = 0.5
    """How fast they fade (power laws and exponential): one number, one per head, or None for the study's, one per head."""
    learnable: bool = False
    """Whether alpha is trained, from the value given."""
    floor: float | int | None = None
    """The least a learned alpha can be; None: no bound, but 0 for similarity_power_law."""
    per_head: bool = False
    """Whether each head has its own rate, spread around the one given: at alpha 0.5, exponential has ALiBi's slopes."""
    scale: float | int | Sequence[float | int] = 10.0
    """How far butterworth and step reach, in tokens: one number, or one per head."""
    order: Literal[1, 2] = 1
    """Order of the Butterworth filter."""
    residual_mask: Literal["accumulate", "once"] = "accumulate"
    """With residual scores: whether earlier layers' masks are handed on too (as released) or each layer has its own."""
    window: int | Literal["auto"] | None = None
    """The greatest age still seen: a number of tokens, auto (where the rest weighs under 1e-6), or None for all."""

    def __post_init__(self) -> None:
        if self.bias not in _KNOWN:
            raise SettingsError(
                f"rbca's bias is {self.bias!r}; it can be one of {', '.join(_KNOWN)}."
                f"{did_you_mean(str(self.bias), _KNOWN)}"
            )
        for name in ("alpha", "scale"):
            value = getattr(self, name)
            if isinstance(value, Sequence) and not isinstance(value, str):
                object.__setattr__(self, name, tuple(float(rate) for rate in value))
        for alpha in _listed(self.alpha):
            if not 0 <= alpha < math.inf:
                raise SettingsError(f"rbca's alpha is {alpha}; it must be at least 0, since a key can't grow with age.")
        for scale in _listed(self.scale):
            if not 0 < scale < math.inf:
                raise SettingsError(f"rbca's scale is {scale}; it must be above 0.")
        if self.order not in (1, 2):
            raise SettingsError(f"rbca's order is {self.order}; Butterworth filters of orders 1 and 2 are known.")
        if self.residual_mask not in ("accumulate", "once"):
            raise SettingsError(f"rbca's residual_mask is {self.residual_mask!r}; it can be accumulate or once.")
        if self.window not in (None, "auto") and not (isinstance(self.window, int) and self.window >= 1):
            raise SettingsError(f"rbca's window is {self.window!r}; it can be auto, None or a number of tokens from 1 on.")
        self._check_learning()

    def _check_learning(self) -> None:
        if self.learnable and self.bias not in ("power_law", "similarity_power_law", "exponential"):
            raise SettingsError(
                f"rbca's {self.bias} bias has no alpha to learn; use power_law, similarity_power_law or exponential, "
                "or leave learnable off."
            )
        if self.floor is None:
            return
        if not self.learnable:
            raise SettingsError("rbca's floor bounds a learned alpha, but alpha is fixed; set learnable=True or drop it.")
        if self.bias == "similarity_power_law" and self.floor < 0:
            raise SettingsError(f"rbca's floor is {self.floor}; similarity_power_law needs one of at least 0.")
        if any(alpha < self.floor for alpha in _listed(self.alpha)):
            raise SettingsError(f"rbca's alpha starts at {self.alpha}, below its floor {self.floor}; raise one of them.")

    def rates(self, heads: int) -> tuple[float, ...]:
        """The alphas or scales at the start: none, one for all heads, or one per head."""
        if self.bias == "causal":
            return ()
        name = "scale" if self.bias in _SCALED else "alpha"
        given: float | tuple[float, ...] | None = getattr(self, name)
        if isinstance(given, tuple):
            if len(given) != heads:
                raise SettingsError(f"rbca got {len(given)} values of {name} for {heads} heads; give one, or one a head.")
            return given
        rate = STUDY if given is None else float(given)
        return spread(self.bias, rate, heads) if self.per_head or given is None else (rate,)


def _listed(rates: object) -> tuple[float, ...]:
    if rates is None:
        return ()
    return rates if isinstance(rates, tuple) else (float(rates),)  # type: ignore[arg-type]


def recency(t: float, settings: Settings, rate: Rate | None = None) -> Tensor:
    """f(t) of the paper for one age; `rate` is alpha or s, by default the one of the settings."""
    rate = settings.rates(1)[0] if rate is None and settings.bias != "causal" else rate
    age = torch.tensor(t, dtype=torch.float64)
    match settings.bias, rate:
        case "power_law", alpha:
            return -alpha * torch.log(age + 1)  # type: ignore[operator]
        case "similarity_power_law", alpha:
            return -(age**alpha) if t > 0 else torch.zeros_like(age)  # type: ignore[operator]
        case "exponential", alpha:
            return -alpha * age  # type: ignore[operator]
        case "step", s:
            return torch.where(age <= s, 0.0, -torch.inf).double()  # type: ignore[operator]
        case "butterworth", s:
            k = torch.arange(512, dtype=torch.float64)
            times = float(s) * math.pi * k / 1024  # type: ignore[arg-type]
            gain = -2.5 * torch.log(1 + (torch.tan(math.pi * k / 1024) / math.tan(0.4 * math.pi)) ** (2 * settings.order))
            right = int(torch.searchsorted(times, age))
            if right == 512:
                return torch.tensor(-torch.inf, dtype=torch.float64)
            if right == 0:
                return gain[0]
            part = (age - times[right - 1]) / (times[right] - times[right - 1])
            return gain[right - 1] + part * (gain[right] - gain[right - 1])
    return torch.zeros_like(age)


def reference(
    q: Float[Tensor, "token d"],
    k: Float[Tensor, "token d"],
    v: Float[Tensor, "token e"],
    settings: Settings,
    rate: Rate | None = None,
    times: Sequence[float] | None = None,
) -> Float[Tensor, "token e"]:
    """Equations (1) to (6), pair by pair; `times` are t_i, the tokens' indices unless given."""
    t = range(len(q)) if times is None else times
    out = []
    for i in range(len(q)):
        seen = [j for j in range(i + 1) if settings.window is None or i - j <= int(settings.window)]
        s = torch.stack([k[j] @ q[i] / math.sqrt(q.shape[-1]) for j in seen])  # (1)
        m = torch.stack([recency(t[i] - t[j], settings, rate) for j in seen])  # (4); j > i is left out, (3)
        c = torch.exp(s + m - (s + m).max())  # (5)
        out.append(c @ v[seen] / c.sum())  # (6)
    return torch.stack(out)
