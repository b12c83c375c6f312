"""How a process is recorded: counts, rare demand, closed hours, ceilings, rounding, growth on a log scale, gaps."""

import torch
from torch import Tensor

from rearview.data.synthetic.prior.draws import Draw, standardise


def record(draw: Draw, x: Tensor) -> Tensor:
    """Each series as somebody would have written it down; most stay as they are."""
    z = standardise(x)
    kind = draw.uniform()
    scale = draw.log_uniform(0.3, 60)
    rate = torch.nn.functional.softplus(1.5 * z + draw.normal()) * scale
    out = torch.where(kind < 0.06, count_events(draw, rate), x)
    out = torch.where((kind > 0.06) & (kind < 0.10), demand(draw, z), out)
    out = torch.where((kind > 0.10) & (kind < 0.15), torch.relu(z + draw.normal()), out)  # cut off at zero
    out = torch.where((kind > 0.15) & (kind < 0.24), torch.exp(draw.uniform(0.2, 0.9) * z.clamp(-6, 6)), out)
    out = torch.where((kind > 0.24) & (kind < 0.28), torch.round(z * draw.log_uniform(1, 12)), out)
    out = torch.where((kind > 0.28) & (kind < 0.31), torch.minimum(z, draw.uniform(0.2, 2)), out)  # a ceiling
    out = torch.where((kind > 0.31) & (kind < 0.33), torch.cumsum(torch.relu(z + draw.uniform(0, 2)), 1), out)
    return torch.where((kind > 0.33) & (kind < 0.36), (z > draw.uniform(-1, 1)).float() + 0.02 * draw.noise(), out)


def count_events(draw: Draw, rate: Tensor) -> Tensor:
    """Poisson counts; in half of the series the rate itself scatters, so that counts spread wider."""
    spread = torch.exp(0.5 * draw.noise() - 0.125)
    rate = torch.where(draw.chance(0.5), rate * spread, rate)
    return torch.poisson(rate.clamp(max=1e5), generator=draw.generator)


def demand(draw: Draw, z: Tensor) -> Tensor:
    """Intermittent demand: mostly zero, else a size that follows the series."""
    share = torch.sigmoid(z + draw.uniform(-3, 0.5))
    happens = torch.rand(draw.count, draw.length, generator=draw.generator, device=draw.device) < share
    size = torch.poisson(draw.log_uniform(0.5, 20) * torch.exp(0.4 * z.clamp(-4, 4)), generator=draw.generator)
    return happens * (1 + size)


def lose_values(draw: Draw) -> Tensor:
    """[series, step] True where a value is there: single gaps in some series, one or two blocks in others."""
    single = torch.rand(draw.count, draw.length, generator=draw.generator, device=draw.device)
    missing = (single < draw.log_uniform(0.005, 0.3)) & draw.chance(0.07)
    for _ in range(2):
        age = draw.time - draw.uniform(0, draw.length)
        missing |= (age >= 0) & (age < draw.log_uniform(3, 0.25 * draw.length)) & draw.chance(0.04)
    return ~missing


def average_steps(x: Tensor, steps: int) -> Tensor:
    """A finer process on a coarser grid: means of `steps` neighbours."""
    return x.unflatten(1, (-1, steps)).mean(-1)
