"""Recency biases as functions of age, one rate per head, and how far back each of them matters.

A bias is f(t) <= 0 with f(0) = 0; `t` is any tensor of ages >= 0. A rate is a float, or where it is learned a tensor
that broadcasts against `t`.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

LOGIT_RANGE = 20.0
"""R: how far the scaled score of a dropped key may lie above that of the query's own key."""
DROPPED = 1e-6
"""The share of a row's weight that a window may drop."""
STUDY = 0.5
"""The alpha at which heads are spread as in the flip-flop study."""

Number = float | int
Rate = Number | Tensor


class Window(NamedTuple):
    """The greatest age that is still seen, None for all of them, and the reason in a sentence."""

    back: int | None
    why: str


def power_law(t: Tensor, alpha: Rate) -> Tensor:
    """f(t) = -alpha ln(t + 1)."""
    return -alpha * t.log1p()


def similarity_power_law(t: Tensor, alpha: Rate) -> Tensor:
    """f(t) = -(t ^ alpha), 0 at t = 0 whatever alpha is, and without a gradient there (0 ^ alpha ln 0 is NaN)."""
    own = t == 0
    # exp(80) is as good as infinity after the softmax, and unlike it has a gradient.
    steep = (alpha * t.masked_fill(own, 1).log()).clamp(max=80).exp()
    return -steep.masked_fill(own, 0)


def exponential(t: Tensor, alpha: Rate) -> Tensor:
    """f(t) = -alpha t."""
    return -alpha * t


def step(t: Tensor, scale: Rate) -> Tensor:
    """f(t) = 0 up to the scale, -inf beyond."""
    return torch.zeros_like(t).masked_fill(t > scale, -torch.inf)


def butterworth(t: Tensor, scale: Rate, order: int) -> Tensor:
    """The released gain: linear between 512 points a quarter turn apart, -inf beyond the last.

    Point k lies at t_k = s pi k / 1024 with f = -2.5 ln(1 + (tan(t_k / s) / tan(0.4 pi)) ^ 2n).
    """
    position = t * (1024 / (math.pi * scale))
    k = position.floor().clamp(max=510)
    f = torch.lerp(_gain(k, order), _gain(k + 1, order), position - k)
    return f.masked_fill(t > butterworth_end(float(scale)), -torch.inf)


def butterworth_end(scale: float) -> float:
    """The age of the last of the 512 points."""
    return scale * math.pi * 511 / 1024


def _gain(k: Tensor, order: int) -> Tensor:
    # cos(x) as the sine of the rest of the quarter turn, counted in whole points: exact where tan(x) grows without end.
    tangent = (k * (math.pi / 1024)).sin() / ((512 - k) * (math.pi / 1024)).sin()
    return -2.5 * (tangent / math.tan(0.4 * math.pi)).pow(2 * order).log1p()


BIASES: dict[str, Callable[[Tensor, Rate], Tensor]] = {
    each.__name__: each for each in (power_law, similarity_power_law, exponential, step)
}


def spread_rates(bias: str, rate: Number, heads: int) -> tuple[float, ...]:
    """One rate per head around `rate`, as in the flip-flop study where it has four heads.

    At alpha 0.5: power law 0.25, 0.5, 0.75, 1; similarity power law 0.1, 0.5, 1, 2; exponential 2^(-8k/h), ALiBi's
    slopes. At scale 10: 5, 10, 15, 20. Other rates move all heads in proportion.
    """
    k = np.arange(1, heads + 1)
    if bias == "exponential":
        rates = rate / STUDY * 2.0 ** (-8 * k / heads)
    elif bias == "similarity_power_law":
        rates = rate / STUDY * np.interp((k - 1) / max(heads - 1, 1), np.arange(4) / 3, (0.1, 0.5, 1.0, 2.0))
    else:
        rates = 2 * rate * k / heads
    return tuple(float(r) for r in rates)


def find_window(bias: str, rates: tuple[float, ...]) -> Window:
    """The shortest window such that no row loses more than `DROPPED` of its weight, where there is one.

    A row's weight is at least that of its own key, exp(0) with its score taken as 0; a dropped key of age t weighs at
    most exp(f(t) + R). So the window W is the smallest with  sum over t > W of exp(f(t) + R)  <=  DROPPED.
    """
    if bias == "step":
        return Window(math.floor(max(rates)), "the step hides every key beyond its scale")
    if bias == "butterworth":
        return Window(math.floor(butterworth_end(max(rates))), "the filter ends there")
    bound = f"beyond it lies less than {DROPPED:g} of a row's weight while scores differ by at most {LOGIT_RANGE:g}"
    if bias == "exponential" and min(rates) > 0:
        # sum over t > W of exp(-alpha t) = exp(-alpha (W + 1)) / (1 - exp(-alpha)).
        allowed = math.log(DROPPED) - LOGIT_RANGE + math.log(-math.expm1(-min(rates)))
        return Window(max(math.ceil(-allowed / min(rates) - 1), 0), bound)
    if bias == "similarity_power_law" and min(rates) >= 0.5:
        # At alpha 0.5, the slowest asked for, ages beyond 2^15 add exp(-181): nothing beside the 1e-15 that is allowed.
        weights = np.exp(-(np.arange(1 << 15, dtype=np.float64) ** min(rates)))
        beyond = weights[::-1].cumsum()[::-1]  # at t: the weight of ages t and above
        return Window(int(np.argmax(beyond <= DROPPED * math.exp(-LOGIT_RANGE))) - 1, bound)
    return Window(None, _HEAVY[bias])


_HEAVY = {
    "causal": "every key is kept: without a decay none is less than another",
    "power_law": "every key is kept: a power law's tail is heavy (at alpha 0.5, 99 % of the weight of 100,000 equal "
    "keys takes 98,015 of them)",
    "similarity_power_law": "every key is kept: below alpha 0.5 the similarity power law's tail is heavy",
    "exponential": "every key is kept: at alpha 0 the exponential does not decay",
}
