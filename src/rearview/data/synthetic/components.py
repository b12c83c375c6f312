"""Trend, season and shocks, apart and together (CAPS, equation 6).

    y_t = mu_0 + beta t  +  a cos(omega t + phi)  +  sum_{i <= t} rho^(t - i) u_i
          trend             season                  shocks

Every window has a level, slope, amplitude, phase and impulses of its own; period and rho are shared, so that they can
be learned. Impulses are sparse, and none falls into the future: what is to come of shocks is how they fade.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from rearview.core.errors import SettingsError

Part = Literal["trend", "season", "shocks"]
PARTS: tuple[Part, ...] = get_args(Part)
PERIOD = 12.0
RHO = 0.85
IMPULSES = 3.0
"""Impulses of a window, on average."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The parts of a window, and its steps."""

    lookback: int
    steps: int
    parts: tuple[Part, ...] = PARTS
    noise: float = 0.02

    def __post_init__(self) -> None:
        unknown = [part for part in self.parts if part not in PARTS]
        if unknown or not self.parts:
            raise SettingsError(f"parts is {self.parts}; it names at least one of {', '.join(PARTS)}.")
        if self.lookback < 1 or self.steps < 1:
            raise SettingsError(f"A window of {self.lookback} and {self.steps} steps is none; both are at least 1.")


def draw_windows(
    count: int, recipe: Recipe, *, generator: torch.Generator | None = None, device: torch.device | str = "cpu"
) -> Float[Tensor, "{count} 1 time"]:
    """`count` windows, look-back and future in one; without a generator, torch's own is drawn from.

    All parts are drawn whichever are asked for: the same generator gives the same trend with and without shocks.
    """
    length = recipe.lookback + recipe.steps
    t = torch.arange(length, dtype=torch.float32, device=device)
    normal = torch.randn(count, 3, generator=generator, device=device)
    uniform = torch.rand(count, 2, generator=generator, device=device)
    chance = torch.rand(count, length, generator=generator, device=device)
    size = torch.randn(count, length, generator=generator, device=device)
    noise = torch.randn(count, length, generator=generator, device=device)
    made = {
        "trend": normal[:, :1] + normal[:, 1:2] * t / recipe.lookback,
        "season": (0.5 + uniform[:, :1]) * torch.cos(2 * math.pi * (t / PERIOD + uniform[:, 1:])),
        "shocks": _fade(torch.where(chance < IMPULSES / recipe.lookback, 2 * size, 0.0), recipe.lookback),
    }
    total = recipe.noise * noise
    for part in recipe.parts:
        total = total + made[part]
    return total[:, None]


def _fade(impulses: Float[Tensor, "window time"], lookback: int) -> Float[Tensor, "window time"]:
    """sum_{i <= t} rho^(t - i) u_i of the impulses that fall into the look-back."""
    t = torch.arange(impulses.shape[1], device=impulses.device)
    age = (t[:, None] - t[:lookback]).clamp(min=0)
    decay = torch.where(t[:, None] >= t[:lookback], RHO**age, 0.0)
    return impulses[:, :lookback] @ decay.T
