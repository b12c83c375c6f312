"""Events: shocks that stay or fade, outliers, changes of regime."""

import torch
from torch import Tensor

from rearview.data.synthetic.prior.draws import Draw

SHOCKS = 4


def make_shocks(draw: Draw) -> Tensor:
    """Up to four jumps: some stay, most fade, each at its own rate."""
    total = torch.zeros(draw.count, draw.length, device=draw.device)
    for _ in range(SHOCKS):
        age = draw.time - draw.uniform(0, draw.length)
        fading = torch.exp(-age.clamp(min=0) / draw.log_uniform(2, 200))
        course = torch.where(draw.chance(0.25), 1.0, fading)
        total += torch.where(draw.chance(0.5), draw.normal() * (age >= 0) * course, 0.0)
    return total


def add_outliers(draw: Draw, x: Tensor) -> Tensor:
    """A few single values far off, in a tenth of the series."""
    [rows] = draw.split(0.1)
    part = draw.part(rows)
    hit = torch.rand(part.count, part.length, generator=part.generator, device=part.device)
    size = x[rows].std(1, keepdim=True) * part.log_uniform(2, 15)
    x = x.clone()
    x[rows] += torch.where(hit < part.log_uniform(0.001, 0.02), size * part.noise(), 0.0)
    return x


def change_regime(draw: Draw, x: Tensor, other: Tensor) -> Tensor:
    """Another series takes over at a moment, at the level reached."""
    moment = draw.uniform(0.1, 0.8) * draw.length
    after = draw.time >= moment
    at = moment.long().clamp(max=draw.length - 1)
    joined = other - torch.gather(other, 1, at) + torch.gather(x, 1, at)
    return torch.where(after, joined, x)
