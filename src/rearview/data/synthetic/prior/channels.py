"""Coupled channels: several series that share drivers, lead and follow one another."""

import torch
from torch import Tensor

from rearview.data.synthetic.prior import records
from rearview.data.synthetic.prior.draws import Draw, standardise
from rearview.data.synthetic.prior.series import Sample, mix

LONGEST_LAG = 48


def draw_coupled(count: int, channels: int, length: int, generator: torch.Generator) -> Sample:
    """`count` panels of coupled channels, [panel, channel, step].

    Every panel has two drivers. A channel is a weighted sum of them, each reaching it after a lag of its own, and of a
    series of its own: channels with small lags tell what the others will do.
    """
    longer = length + LONGEST_LAG
    drivers = standardise(mix(Draw(2 * count, longer, generator))).view(count, 2, longer)
    own = mix(Draw(count * channels, length, generator))
    each = Draw(count * channels, length, generator)
    coupled = torch.zeros_like(own)
    for which in range(2):
        lag = torch.floor(each.uniform() ** 2 * LONGEST_LAG).long()
        place = each.time.long() + LONGEST_LAG - lag
        source = drivers[:, which].repeat_interleave(channels, dim=0)
        coupled += each.normal() * torch.gather(source, 1, place)
    share = each.uniform(0.1, 1.0)
    values: Tensor = records.record(each, share * standardise(coupled) + (1 - share) * standardise(own))
    observed = records.lose_values(each)
    return Sample(values.view(count, channels, length), observed.view(count, channels, length))
