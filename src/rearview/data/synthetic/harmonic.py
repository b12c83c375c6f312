"""Harmonic demixing (TOA, section 4.1): three tones under noise, on a time axis that may be bent.

    x_t = sum_k a_k cos(omega_k tau_z(t) + phi) + eps_t,   phi ~ U[0, 2 pi),  eps_t ~ N(0, 0.5^2)

    z = 0  stationary   tau(t) = t
    z = 1  vibrato      tau(t) = t + 20 sin(4 pi t / L)
    z = 2  chirp        tau(t) = t + 40 (t / L)^2

with periods 24, 84 and 168 at L = 672. The paper gives neither a_k nor the target: here a_k = 1 and the clean signal is
asked for. At another length, periods and warps shrink with it, so that a short signal is a long one seen from afar.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rearview.core.errors import SettingsError

LENGTH = 672
PERIODS = (24.0, 84.0, 168.0)
NOISE = 0.5
REGIMES = ("stationary", "vibrato", "chirp")
VIBRATO, CHIRP = 20.0, 40.0


@dataclass(frozen=True, slots=True)
class NoisySignals:
    """Signals with their noise and without."""

    noisy: Float[Tensor, "signal time"]
    clean: Float[Tensor, "signal time"]
    regime: Int[Tensor, " signal"]
    """The place in `REGIMES` of the bend of the time axis."""


def warp_time(length: int, device: torch.device | str = "cpu") -> Float[Tensor, "regime {length}"]:
    """tau_z(t) of every regime."""
    t = torch.arange(length, dtype=torch.float32, device=device)
    shrunk = length / LENGTH
    vibrato = t + VIBRATO * shrunk * torch.sin(4 * math.pi * t / length)
    return torch.stack((t, vibrato, t + CHIRP * shrunk * (t / length).square()))


def tone_periods(length: int) -> tuple[float, ...]:
    """The periods at this length."""
    return tuple(period * length / LENGTH for period in PERIODS)


def draw_signals(
    count: int,
    length: int = LENGTH,
    *,
    noise: float = NOISE,
    generator: torch.Generator | None = None,
    device: torch.device | str = "cpu",
) -> NoisySignals:
    """`count` signals, each of a regime and a phase of its own; without a generator, torch's own is drawn from."""
    if length < 8:
        raise SettingsError(f"length is {length}; a harmonic signal needs at least 8 steps.")
    regime = torch.randint(0, len(REGIMES), (count,), generator=generator, device=device)
    phase = 2 * math.pi * torch.rand(count, 1, generator=generator, device=device)
    at = warp_time(length, device)[regime]
    clean = torch.zeros_like(at)
    for period in tone_periods(length):
        clean = clean + torch.cos(2 * math.pi / period * at + phase)
    drawn = torch.randn(clean.shape, generator=generator, device=device)
    return NoisySignals(clean + noise * drawn, clean, regime)


def linear_floor(length: int = LENGTH, noise: float = NOISE) -> float:
    """About the error of the best linear operator that is the same for every signal.

    The tones of a signal share one phase, so the signals of a regime fill two dimensions and those of all regimes six;
    the noise in six of `length` dimensions stays. An operator that adapted to the regime could leave a third of that.
    """
    return noise**2 * 2 * len(REGIMES) / length
