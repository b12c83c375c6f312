"""The five regimes in which TOA says attention needs signed operators (appendix D): what is seen, what is wanted.

    A continuation   noisy tones of whole periods, a_k, b_k ~ N(0, 1); wanted: the clean tones L steps later (D.1)
    B residual       a random walk and noise, seen exactly; wanted: x less the mean of its neighbours (D.2)
    C demixing       channels x = A z + noise of a few factors z ~ N(0, I), A the same for all; wanted: A z (D.3)
    D warping        tones whose time axis may be bent, as in `harmonic`; wanted: the clean tones (D.4)
    E transients     three short waves of unknown place, scale and phase; wanted: without noise (D.5)

Noise has a standard deviation of 0.5. The text gives no sizes: ours are below. A sample has `length` tokens, which are
channels in C and steps elsewhere.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from rearview.core.errors import SettingsError
from rearview.data.synthetic import harmonic

CASES = ("continuation", "residual", "demixing", "warping", "transients")
NOISE = 0.5
NEIGHBOURS = 2
"""Steps on either side over which a residual's mean goes."""
FACTORS = 8
"""Channels for each factor."""
EVENTS = 3
SCALES = (8, 16)
"""A transient's window is so many times shorter than the sample."""
CYCLES = 3
"""Waves within a transient's window."""


class Samples(NamedTuple):
    """Inputs and targets."""

    seen: Float[Tensor, "sample token"]
    wanted: Float[Tensor, "sample token"]


def draw_samples(
    case: str, count: int, length: int, *, generator: torch.Generator | None = None, device: torch.device | str = "cpu"
) -> Samples:
    """`count` samples of a case; without a generator, torch's own is drawn from."""
    if case not in CASES:
        raise SettingsError(f"There is no operator case {case!r}. Known: {', '.join(CASES)}.")
    if length < 16:
        raise SettingsError(f"length is {length}; an operator case needs at least 16 tokens.")

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device=device)

    if case == "warping":
        drawn = harmonic.draw_signals(count, length, noise=NOISE, generator=generator, device=device)
        return Samples(drawn.noisy, drawn.clean)
    if case == "residual":
        seen = normal(count, length).cumsum(-1) / math.sqrt(length) + NOISE * normal(count, length)
        return Samples(seen, seen @ residual(length).to(device).T)
    if case == "transients":
        clean = _transients(count, length, generator, device)
    else:
        basis = (waves(length, length) if case == "continuation" else factors(length)).to(device)
        clean = normal(count, basis.shape[1]) @ basis.T
    return Samples(clean + NOISE * normal(count, length), clean)


def linear_floor(case: str, length: int) -> float:
    """The error of the best linear operator that is the same for every sample; about that for warped tones."""
    if case == "residual":
        return 0.0
    if case == "warping":
        return harmonic.linear_floor(length, NOISE)
    clean = covariance(case, length)
    left = clean - clean @ torch.linalg.solve(clean + NOISE**2 * torch.eye(length, dtype=clean.dtype), clean)
    return left.diagonal().mean().item()


def covariance(case: str, length: int) -> Float[Tensor, "{length} {length}"]:
    """The covariance of the clean samples of a case, in float64."""
    if case == "transients":
        parts = [
            EVENTS / len(SCALES) / length / 2 * (wave.T @ wave) for scale in SCALES for wave in _atoms(length, scale)
        ]
        return sum(parts[1:], parts[0])
    basis = (waves(length, length) if case == "continuation" else factors(length)).double()
    return basis @ basis.T


def waves(length: int, start: int) -> Float[Tensor, "{length} wave"]:
    """Cosines and sines of the tones' periods, all of which fit the sample, from a step on."""
    at = start + torch.arange(length, dtype=torch.float64)
    angles = 2 * math.pi * at[:, None] / torch.tensor(harmonic.tone_periods(length), dtype=torch.float64)
    return torch.cat([angles.cos(), angles.sin()], dim=-1).float()


def residual(length: int) -> Float[Tensor, "{length} {length}"]:
    """I - G with G the mean of a step and its neighbours."""
    steps = torch.arange(length)
    near = ((steps[:, None] - steps).abs() <= NEIGHBOURS).float()
    return torch.eye(length) - near / near.sum(-1, keepdim=True)


def factors(length: int) -> Float[Tensor, "{length} factor"]:
    """A, the same in every run: channels of variance 1 on average."""
    count = max(1, length // FACTORS)
    drawn = torch.randn(length, count, generator=torch.Generator().manual_seed(length))
    return drawn / math.sqrt(count)


def _atoms(length: int, scale: int) -> list[Float[Tensor, "{length} {length}"]]:
    """[centre, step]: a windowed cosine and its quadrature companion at every centre, in float64."""
    width = length / scale
    apart = torch.arange(length, dtype=torch.float64) - torch.arange(length, dtype=torch.float64)[:, None]
    window = torch.where(apart.abs() < width / 2, torch.cos(math.pi * apart / width).square(), 0.0)
    angles = 2 * math.pi * CYCLES * apart / width
    return [window * angles.cos(), window * angles.sin()]


def _transients(count: int, length: int, generator: torch.Generator | None, device: torch.device | str) -> Tensor:
    waves = torch.stack([torch.stack(_atoms(length, scale)) for scale in SCALES]).float().to(device)
    shape = (count, EVENTS)
    scale = torch.randint(len(SCALES), shape, generator=generator, device=device)
    centre = torch.randint(length, shape, generator=generator, device=device)
    phase = 2 * math.pi * torch.rand(shape, generator=generator, device=device)
    size = torch.randn(shape, generator=generator, device=device)
    cosine, sine = waves[scale, 0, centre], waves[scale, 1, centre]
    each = size[..., None] * (phase.cos()[..., None] * cosine - phase.sin()[..., None] * sine)
    return each.sum(1)
