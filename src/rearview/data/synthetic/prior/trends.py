"""Trends: lines that break, growth that goes on, growth that saturates."""

import torch
from torch import Tensor

from rearview.data.synthetic.prior.draws import Draw, standardise

BREAKS = 3


def make_trend(draw: Draw) -> Tensor:
    """One trend per series, of size about 1 over its length."""
    return draw.fill(
        (0.7, lambda part, _: break_line(part)),
        (0.17, lambda part, _: grow(part)),
        (0.13, lambda part, _: saturate(part)),
    )


def break_line(draw: Draw) -> Tensor:
    """A line whose slope and level change up to three times."""
    place = draw.time / draw.length
    line = (place - 0.5) * draw.normal() * 2
    for _ in range(BREAKS):
        after = place - draw.uniform()
        line = line + torch.where(draw.chance(0.3), draw.normal() * 2 * torch.relu(after), 0.0)
        line = line + torch.where(draw.chance(0.08), draw.normal() * (after > 0), 0.0)
    return line


def grow(draw: Draw) -> Tensor:
    """Exponential or power growth, or its mirror image."""
    place = (draw.time + 1) / draw.length
    exponential = torch.exp(place * draw.uniform(0.3, 4))
    power = place ** draw.log_uniform(0.3, 4)
    return standardise(torch.where(draw.chance(0.5), exponential, power)) * torch.sign(draw.normal())


def saturate(draw: Draw) -> Tensor:
    """A logistic step, or a damped approach to a level."""
    place = draw.time / draw.length
    logistic = torch.sigmoid((place - draw.uniform(-0.2, 1.2)) * draw.log_uniform(3, 40))
    damped = 1 - torch.exp(-place * draw.log_uniform(0.5, 20))
    return torch.where(draw.chance(0.6), logistic, damped) * draw.normal() * 2
