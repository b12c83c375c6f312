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
    share = draw.log_uniform(0.001, 0.02)
    hit = torch.rand(draw.count, draw.length, generator=draw.generator, device=draw.device) < share
    size = x.std(1, keepdim=True) * draw.log_uniform(2, 15)
    return torch.where(hit & draw.chance(0.1), x + size * draw.noise(), x)


def change_regime(draw: Draw, x: Tensor, other: Tensor) -> Tensor:
    """Another series takes over at a moment, at the level reached, in a twentieth of the series."""
    moment = draw.uniform(0.1, 0.8) * draw.length
    after = draw.time >= moment
    at = moment.long().clamp(max=draw.length - 1)
    joined = other - torch.gather(other, 1, at) + torch.gather(x, 1, at)
    return torch.where(after & draw.chance(0.05), joined, x)
