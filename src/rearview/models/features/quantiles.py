"""Quantiles over intervals of the series, of its differences and of its spectrum (Dempster, Schmidt and Webb, 2024).

Each channel is read in four forms: as it is, its first differences, its second differences, and the magnitudes of its
Fourier transform. Each form is cut into 1, 2, 4, ... equal intervals, and again with the cuts shifted by half an
interval; of an interval of m values 1 + (m - 1) // 4 quantiles are kept, every second one less the interval's mean.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from rearview.models.features.contract import Features

DEPTH = 6
"""Times that intervals are halved, at most, the whole series counted in."""
EVERY = 4
"""Values of an interval for each of its quantiles."""


@dataclass(frozen=True, slots=True, eq=False)
class IntervalQuantiles(Features):
    """Nothing is drawn: the intervals follow from the number of steps."""

    def __call__(self, values: Float[Tensor, "case channel time"]) -> Float[Tensor, "case feature"]:
        forms = [values, values.diff(), values.diff(n=2), torch.fft.rfft(values).abs()]
        return torch.cat([_summarise(form).flatten(1) for form in forms if form.shape[-1]], dim=1)


def _summarise(form: Float[Tensor, "case channel time"]) -> Tensor:
    """[case, channel, quantile]: those of every interval."""
    steps, quantiles = form.shape[-1], []
    for halvings in range(DEPTH):
        parts = 2**halvings
        if parts > steps:
            break
        cuts = torch.linspace(0, steps, parts + 1).round().long().tolist()
        half = steps // (2 * parts)
        shifted = [cut + half for cut in cuts[:-1]] if parts > 1 and half else []
        for borders in (cuts, shifted):
            for begin, end in pairwise(borders):
                quantiles.append(_interval_quantiles(form[..., begin:end]))
    return torch.cat(quantiles, dim=-1)


def _interval_quantiles(interval: Tensor) -> Tensor:
    number = 1 + (interval.shape[-1] - 1) // EVERY
    if number == 1:
        return interval.median(dim=-1, keepdim=True).values
    shares = torch.linspace(0, 1, number).to(interval)
    quantiles = torch.quantile(interval, shares, dim=-1).movedim(0, -1)
    quantiles[..., 1::2] -= interval.mean(-1, keepdim=True)
    return quantiles
