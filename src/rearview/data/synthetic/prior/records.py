"""How a process is recorded: counts, rare demand, closed hours, bounds, rounding, growth on a log scale, gaps."""

from collections.abc import Callable

import torch
from torch import Tensor

from rearview.data.synthetic.prior.draws import Draw, standardise


def record(draw: Draw, x: Tensor) -> Tensor:
    """Each series as somebody would have written it down; most stay as they are."""
    out = x.clone()
    kinds: tuple[tuple[float, Callable[[Draw, Tensor], Tensor]], ...] = (
        (0.06, record_counts),
        (0.04, demand),
        (0.05, lambda part, z: torch.relu(z + part.normal())),  # cut off at zero
        (0.09, lambda part, z: torch.exp(part.uniform(0.2, 0.9) * z.clamp(-6, 6))),
        (0.04, lambda part, z: torch.round(z * part.log_uniform(1, 12))),
        (0.03, lambda part, z: torch.minimum(z, part.uniform(0.2, 2))),  # a ceiling
        (0.02, lambda part, z: torch.cumsum(torch.relu(z + part.uniform(0, 2)), 1)),
        (0.03, lambda part, z: torch.sigmoid(part.uniform(0.5, 3) * (z + part.normal()))),  # shares of a whole
        (0.03, lambda part, z: (z > part.uniform(-1, 1)).float() + 0.02 * part.noise()),  # on and off
    )
    for rows, (_, write) in zip(draw.split(*(share for share, _ in kinds)), kinds, strict=True):
        out[rows] = write(draw.part(rows), standardise(x[rows]))
    return out


def record_counts(draw: Draw, z: Tensor) -> Tensor:
    """Counts whose rate follows the series, from rare to plentiful."""
    scale = draw.log_uniform(0.3, 60)
    return count_events(draw, torch.nn.functional.softplus(1.5 * z + draw.normal()) * scale)


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
    missing = torch.zeros(draw.count, draw.length, dtype=torch.bool, device=draw.device)
    singles, first, second = draw.split(0.07, 0.05, 0.03)
    part = draw.part(singles)
    one = torch.rand(part.count, part.length, generator=part.generator, device=part.device)
    missing[singles] = one < part.log_uniform(0.005, 0.3)
    for rows in (first, second, second):
        part = draw.part(rows)
        age = part.time - part.uniform(0, part.length)
        missing[rows] |= (age >= 0) & (age < part.log_uniform(3, max(4, 0.25 * part.length)))
    return ~missing


def average_steps(x: Tensor, steps: int) -> Tensor:
    """A finer process on a coarser grid: means of `steps` neighbours."""
    return x.unflatten(1, (-1, steps)).mean(-1)
