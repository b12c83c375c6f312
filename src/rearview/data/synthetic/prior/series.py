"""One series per row: ingredients drawn, put together, recorded."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rearview.core.errors import SettingsError
from rearview.data.synthetic.prior import events, processes, records
from rearview.data.synthetic.prior.draws import Draw, standardise
from rearview.data.synthetic.prior.noise import make_noise
from rearview.data.synthetic.prior.seasons import draw_periods, make_season, make_week, make_work_week, open_by_season
from rearview.data.synthetic.prior.trends import make_trend

COARSER = (2, 3, 4, 7)


@dataclass(frozen=True, slots=True)
class Sample:
    """A batch of series, [series, step]; `observed` is False where a value is missing."""

    values: Tensor
    observed: Tensor


def draw(count: int, length: int, generator: torch.Generator, *, coarser: int = 2) -> Sample:
    """`count` series of `length` steps on the generator's device; one seed gives the same series on one device.

    Some of them are means of `coarser` steps of a finer process, such as daily means of hours.
    """
    if count < 1 or length < 8:
        raise SettingsError(f"{count} series of {length} steps can't be drawn; ask for at least 1 series of 8 steps.")
    averaged = count // (5 * coarser)
    parts = [mix(Draw(count - averaged, length, generator))]
    if averaged:
        parts.append(records.average_steps(mix(Draw(averaged, coarser * length, generator)), coarser))
    whole = Draw(count, length, generator)
    values = torch.cat(parts)[whole.shuffle()]
    values = events.add_outliers(whole, records.record(whole, add_others(whole, values)))
    return Sample(values, records.lose_values(whole))


def mix(draw: Draw) -> Tensor:
    """The process behind each series: additive, seasons in proportion to the level, or open for a part of each one."""
    periods = draw_periods(draw)
    season, level = (torch.zeros(draw.count, draw.length, device=draw.device) for _ in range(2))
    add_part(season, draw, 0.65, (0.2, 3), make_season, periods.short)
    add_part(season, draw, 0.15, (0.2, 3), make_work_week, periods.short)
    add_part(season, draw, 0.20, (0.1, 2), make_week, periods.short)
    add_part(season, draw, 0.25, (0.1, 2), make_season, periods.middle)
    add_part(season, draw, 0.35, (0.2, 3), make_season, periods.long)
    add_part(season, draw, 0.15, (0.2, 2), processes.make_seasonal_walk, periods.short)
    add_part(level, draw, 0.60, (0.3, 4), make_trend)
    add_part(level, draw, 0.60, (0.1, 3), processes.make_autoregression)
    add_part(level, draw, 0.30, (0.2, 3), processes.make_gaussian_process)
    add_part(level, draw, 0.15, (0.2, 2), processes.make_cycle)
    add_part(level, draw, 0.10, (0.3, 2), processes.make_components)
    add_part(level, draw, 0.08, (0.3, 4), processes.make_pulses)
    add_part(level, draw, 0.20, (0.3, 3), events.make_shocks)
    [rows] = draw.split(0.05)
    part = draw.part(rows)
    if len(rows):
        level[rows] = events.change_regime(part, level[rows], 2 * processes.make_autoregression(part))
    noise = draw.log_uniform(0.01, 1) * make_noise(draw, standardise(season))
    ratio = draw.uniform(0.1, 0.35)
    in_proportion = (level + 5).clamp(min=0.1) * (1 + ratio * season + 0.5 * ratio * noise)
    mixed = torch.where(draw.chance(0.3), in_proportion, level + season + noise)
    [rows] = draw.split(0.06)
    if len(rows):
        mixed[rows] = open_by_season(draw.part(rows), periods.short[rows], level[rows] + noise[rows])
    return mixed


def add_part(
    total: Tensor, draw: Draw, share: float, sizes: tuple[float, float], make: Callable[..., Tensor], *periods: Tensor
) -> None:
    """Add an ingredient to a share of the series, to each at a size of its own between two."""
    [rows] = draw.split(share)
    if len(rows):
        part = draw.part(rows)
        total[rows] += part.log_uniform(*sizes) * make(part, *(period[rows] for period in periods))


def add_others(draw: Draw, x: Tensor) -> Tensor:
    """In a fifth of the series the sum of two: the series itself and another one, in shares of their own."""
    [rows] = draw.split(0.2)
    if not len(rows):
        return x
    share = draw.part(rows).uniform(0.2, 0.8)
    x = x.clone()
    x[rows] = share * standardise(x[rows]) + (1 - share) * standardise(x[rows.roll(1)])
    return x
