"""Coupled channels: several series that share drivers, lead and follow one another."""

import torch
from torch import Tensor

from rearview.data.synthetic.prior import records
from rearview.data.synthetic.prior.draws import Draw, standardise
from rearview.data.synthetic.prior.series import Sample, mix

LONGEST_LAG = 48


def draw_coupled(count: int, channels: int, length: int, generator: torch.Generator) -> Sample:
    """`count` panels of coupled channels, [panel, channel, step].

    A panel has one driver or two. A channel is a weighted sum of them, each reaching it after a lag of its own, and of
    a series of its own, which in a third of the panels is small: channels with small lags tell what others will do.
    """
    longer = length + LONGEST_LAG
    drivers = standardise(mix(Draw(2 * count, longer, generator))).view(count, 2, longer)
    own = mix(Draw(count * channels, length, generator))
    each = Draw(count * channels, length, generator)
    panel = Draw(count, length, generator)
    two, tight = (panel.chance(share).repeat_interleave(channels, dim=0) for share in (0.5, 1 / 3))
    coupled = torch.zeros_like(own)
    for which in range(2):
        lag = torch.floor(each.uniform() ** 2 * LONGEST_LAG).long()
        place = each.time.long() + LONGEST_LAG - lag
        source = drivers[:, which].repeat_interleave(channels, dim=0)
        part = each.normal() * torch.gather(source, 1, place)
        coupled += part if which == 0 else part * two
    share = torch.where(tight, each.uniform(0.8, 1.0), each.uniform(0.1, 1.0))
    values: Tensor = records.record(each, share * standardise(coupled) + (1 - share) * standardise(own))
    observed = records.lose_values(each)
    return Sample(values.view(count, channels, length), observed.view(count, channels, length))
