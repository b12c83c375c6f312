"""One series per row: ingredients drawn, put together, recorded."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rearview.core.errors import SettingsError
from rearview.data.synthetic.prior import events, processes, records
from rearview.data.synthetic.prior.draws import Draw, standardise
from rearview.data.synthetic.prior.noise import make_noise
from rearview.data.synthetic.prior.seasons import draw_periods, make_season, make_week
from rearview.data.synthetic.prior.trends import make_trend

COARSER = (2, 3, 4, 7)


@dataclass(frozen=True, slots=True)
class Sample:
    """A batch of series, [series, step]; `observed` is False where a value is missing."""

    values: Tensor
    observed: Tensor


def draw(count: int, length: int, generator: torch.Generator) -> Sample:
    """`count` series of `length` steps on the generator's device; one seed gives the same series on one device."""
    if count < 1 or length < 8:
        raise SettingsError(f"{count} series of {length} steps can't be drawn; ask for at least 1 series of 8 steps.")
    parts = []
    rest = count
    if count >= 64:
        # A tenth of the series are averages of a finer process, such as daily means of hours.
        steps = COARSER[int(torch.randint(len(COARSER), (1,), generator=generator, device=generator.device))]
        fine = mix(Draw(count // 10, steps * length, generator))
        parts.append(records.average_steps(fine, steps))
        rest -= count // 10
    parts.append(mix(Draw(rest, length, generator)))
    whole = Draw(count, length, generator)
    values = events.add_outliers(whole, records.record(whole, torch.cat(parts)))
    values = values[torch.randperm(count, generator=generator, device=generator.device)]
    return Sample(values, records.lose_values(whole))


def mix(draw: Draw) -> Tensor:
    """The process behind each series: additive, or seasons in proportion to the level."""
    periods = draw_periods(draw)
    season = scale_randomly(draw, make_season(draw, periods.short), 0.8, 0.2, 3)
    second = torch.where(draw.chance(0.5), make_week(draw, periods.short), make_season(draw, periods.middle))
    season = season + scale_randomly(draw, second, 0.45, 0.1, 2)
    season = season + scale_randomly(draw, make_season(draw, periods.long), 0.35, 0.2, 3)
    season = season + scale_randomly(draw, processes.make_seasonal_walk(draw, periods.short), 0.15, 0.2, 2)
    level = scale_randomly(draw, make_trend(draw), 0.6, 0.3, 4)
    level = level + scale_randomly(draw, processes.make_autoregression(draw), 0.6, 0.1, 3)
    level = level + scale_randomly(draw, processes.make_gaussian_process(draw), 0.3, 0.2, 3)
    level = level + scale_randomly(draw, processes.make_cycle(draw), 0.15, 0.2, 2)
    level = level + scale_randomly(draw, processes.make_components(draw), 0.12, 0.3, 2)
    level = level + scale_randomly(draw, events.make_shocks(draw), 0.2, 0.3, 3)
    level = events.change_regime(draw, level, 2 * processes.make_autoregression(draw))
    noise = draw.log_uniform(0.01, 1) * make_noise(draw, standardise(season))
    ratio = draw.uniform(0.1, 0.35)
    in_proportion = (level + 5).clamp(min=0.1) * (1 + ratio * season + 0.5 * ratio * noise)
    return torch.where(draw.chance(0.3), in_proportion, level + season + noise)


def scale_randomly(draw: Draw, part: Tensor, share: float, low: float, high: float) -> Tensor:
    """An ingredient for a share of the series, each at a size of its own."""
    return torch.where(draw.chance(share), part * draw.log_uniform(low, high), 0.0)
