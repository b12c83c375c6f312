"""Random processes: autoregressions, walks, cycles, Gaussian processes with composed kernels, impulses that fade."""

import math

import torch
from torch import Tensor

from rearview.data.synthetic.prior.draws import Draw, filter_by, standardise
from rearview.data.synthetic.prior.noise import make_innovations

FEATURES = 24
"""Waves that stand for one Gaussian process."""


def make_autoregression(draw: Draw) -> Tensor:
    """AR(1), random walks (a third) and walks of the slope (a few), standardised."""
    rate = torch.where(draw.chance(0.35), 1.0, 1 - draw.log_uniform(0.002, 0.7))
    path = filter_by(rate**draw.time, make_innovations(draw))
    [rows] = draw.split(0.12)
    path[rows] = torch.cumsum(path[rows], 1)
    return standardise(path)


def make_cycle(draw: Draw) -> Tensor:
    """AR(2) with complex roots: a cycle whose phase and size wander, standardised."""
    rate = 1 - draw.log_uniform(0.002, 0.1)
    angle = 2 * math.pi * draw.time / draw.log_uniform(4, 300)
    return standardise(filter_by(rate**draw.time * torch.cos(angle), make_innovations(draw)))


def make_seasonal_walk(draw: Draw, period: Tensor) -> Tensor:
    """A season that renews itself: each step of the period follows an autoregression of its own, standardised."""
    lag = period.round().clamp(min=2)
    step = draw.time / lag
    rate = 1 - draw.log_uniform(0.003, 0.4)
    kernel = torch.where(step == torch.floor(step), rate ** torch.floor(step), 0.0)
    return standardise(filter_by(kernel, make_innovations(draw))) * (period > 0)


def make_gaussian_process(draw: Draw) -> Tensor:
    """One Gaussian process, or the sum or product of two, with smooth and rough kernels, standardised."""
    path = _wave_process(draw)
    summed, multiplied = draw.split(0.3, 0.15)
    path[summed] += _wave_process(draw.part(summed))
    path[multiplied] *= _wave_process(draw.part(multiplied))
    return standardise(path)


def make_components(draw: Draw) -> Tensor:
    """CAPS's equation 6: sparse impulses that fade at one rate, standardised."""
    return standardise(filter_by(*_impulses(draw, draw.noise())))


def make_pulses(draw: Draw) -> Tensor:
    """Sparse impulses upwards of very unequal sizes that fade, as rain and the river below, standardised."""
    size = torch.exp(draw.uniform(0.3, 1.2) * draw.noise())
    return standardise(filter_by(*_impulses(draw, size)))


def _impulses(draw: Draw, size: Tensor) -> tuple[Tensor, Tensor]:
    """How impulses fade, and the impulses: here and there one of its size."""
    share = draw.log_uniform(0.002, 0.08)
    hits = torch.rand(draw.count, draw.length, generator=draw.generator, device=draw.device) < share
    fade = 1 - draw.log_uniform(0.005, 0.5)
    return fade**draw.time, size * hits


def _wave_process(draw: Draw) -> Tensor:
    """Random waves whose frequencies follow the kernel's spectrum: normal, or with heavier tails where it is rough."""
    length = draw.log_uniform(5, 600)
    rough = draw.uniform()
    total = torch.zeros(draw.count, draw.length, device=draw.device)
    for _ in range(FEATURES):
        tail = draw.normal().abs().clamp(min=0.15)
        frequency = draw.normal() / length / torch.where(rough < 0.4, tail, 1.0)
        total += torch.cos(frequency * draw.time + 2 * math.pi * draw.uniform())
    return standardise(total)
