"""Noise: normal, heavy-tailed, of a size that changes with time."""

import math

import torch
from torch import Tensor

from rearview.data.synthetic.prior.draws import Draw, filter_by, standardise


def make_innovations(draw: Draw) -> Tensor:
    """Shocks of a process: normal, or with tails like a t distribution with three degrees of freedom, or in bursts."""
    shocks = draw.noise()
    heavy, bursts = draw.split(0.2, 0.15)
    shocks[heavy] /= _mean_square(draw.part(heavy)).sqrt()
    if len(bursts):
        shocks[bursts] *= _volatility(draw.part(bursts))
    return shocks


def make_noise(draw: Draw, season: Tensor) -> Tensor:
    """Noise of observation, of size about 1; in some series it grows and falls with the season, or comes in bursts."""
    noise = make_innovations(draw)
    [rows] = draw.split(0.2)
    noise[rows] *= torch.exp(draw.part(rows).uniform(0.2, 1.0) * season[rows])
    return noise


def _mean_square(draw: Draw) -> Tensor:
    """Of three normal numbers at each step: the divisor of a t distribution with three degrees of freedom."""
    total = torch.zeros(draw.count, draw.length, device=draw.device)
    for _ in range(3):
        total += draw.noise().square()
    return total / 3


def _volatility(draw: Draw) -> Tensor:
    """exp of a slow autoregression: quiet and loud stretches."""
    rate = 1 - draw.log_uniform(0.005, 0.1)
    return torch.exp(0.8 * standardise(filter_by(rate**draw.time, draw.noise())) - math.log(1.4))
