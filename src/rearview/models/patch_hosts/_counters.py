"""Series that only ever rise, such as meter readings: forecast what is added at each step, and add it up.

Beside a level that grows without end the additions of a day are too small to be seen, and so is their season. The sum
of n steps has the sum of their means. Around it, quantiles reach as those of sums do (Cornish and Fisher): their
symmetric part adds up in squares, but for what the errors of steps have in common, and their skewed part is averaged.
In common is a share of all errors, and what widens from step to step: as in a random walk, an error that came by step i
is still there at every later one.

    S_n^2 = (1 - c) (sum_i r_i^2 + 2 sum_(i<j<=n) g_i) + c (sum_i r_i)^2      l_i = min_(j>=i) r_j^2
    g_i   = min(l_i, l_i - l_1 + (l_m - l_1) / (m - 1))                       m: the middle of the steps
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Bool, Float
from torch import Tensor

LEAST = 64
"""Additions that must be known: fewer do not tell a counter from a smooth trend, which is forecast better as it is."""
RISING = 0.4
"""Of these, those that must be more than nothing: rare additions say less than the level that they led to."""
COMMON = 0.15
"""Correlation of the errors of two steps that are equally wide, as synthetic series have it that are added up."""


def find_counters(past: Tensor, observed: Tensor | None) -> Bool[Tensor, "batch channel"]:
    """Series that never fell from one step to the next."""
    additions, known = find_additions(past, observed)
    count = known.sum(-1)
    rising = (known & (additions > 0)).sum(-1)
    falls = (known & (additions < 0)).any(-1)
    return ~falls & (count >= LEAST) & (rising >= RISING * count)


def find_additions(past: Tensor, observed: Tensor | None) -> tuple[Tensor, Tensor]:
    """What was added at each step, and where that is known: the first step, and those beside a gap, are not."""
    there = torch.ones_like(past, dtype=torch.bool) if observed is None else observed
    known = torch.cat([torch.zeros_like(there[..., :1]), there[..., 1:] & there[..., :-1]], -1)
    additions = torch.cat([torch.zeros_like(past[..., :1]), past.diff(dim=-1)], -1)
    return torch.where(known, additions, 0), known


def add_up(
    quantiles: Float[Tensor, "*_ step quantile"], levels: Sequence[float], common: float = COMMON
) -> Float[Tensor, "*_ step quantile"]:
    """Quantiles of what is added up to each step, from those of the single steps."""
    wide = quantiles.clamp(min=0).double()
    edges = [0.0, *((a + b) / 2 for a, b in pairwise(levels)), 1.0]
    weights = wide.new_tensor([b - a for a, b in pairwise(edges)])
    mean = (wide * weights).sum(-1, keepdim=True)
    reach = (wide - wide.flip(-1)) / 2
    skew = (wide + wide.flip(-1)) / 2 - mean
    squares = reach.square()
    lasting = find_lasting(squares)
    shared = 2 * (lasting.cumsum(-2) - lasting).cumsum(-2)
    # The widest quantile says how much a step counts: at the median itself there is no reach.
    size = reach[..., -1:].square().clamp(min=1e-300)
    skewed = (size * skew).cumsum(-2) / size.cumsum(-2)
    apart, alike = squares.cumsum(-2) + shared, reach.abs().cumsum(-2).square()
    side = torch.sign(wide.new_tensor(levels) - 0.5)
    spread = ((1 - common) * apart + common * alike).sqrt() * side
    summed = mean.cumsum(-2) + spread + skewed
    return summed.clamp(min=0).sort(-1).values.cummax(-2).values.to(quantiles.dtype)


def find_lasting(squares: Float[Tensor, "*_ step quantile"]) -> Float[Tensor, "*_ step quantile"]:
    """How much of the squared error of each step is still there at every later one: all that of a random walk.

    A season of widths, such as wide days and narrow nights, is none of it: what a later step is without does not last.
    """
    least = squares.flip(-2).cummin(-2).values.flip(-2)
    grown = least - least[..., :1, :]
    middle = squares.shape[-2] // 2
    return torch.minimum(grown + grown[..., middle : middle + 1, :] / max(middle, 1), least)
