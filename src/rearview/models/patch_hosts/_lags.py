"""Lags at which a past repeats itself, and what each step of past and horizon had before it at such a lag.

A patch is coarse beside a season: what came a day before lies across two patches, at another place in each. So a
network that reads patches is told of each step what stood one lag before it, and needs attention for the rest alone.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from rearview.attention.shared.spectrum import irfft, rfft

LEAST_SHARE = 0.25
"""Of the observed steps, those that must have another one a lag before; fewer say little of a lag."""
LEAST_PAIRS = 3
DOUBT = 4.0
"""Pairs: how much a lag that few of them speak for must be better."""
AS_GOOD = 1.15
"""Times the least difference, up to which the shortest lag is taken: of a season and its multiples the newest tells."""
ABOUT = 1.2
"""Times that shortest lag, up to which the best one is looked for: noise makes dips beside a season's."""
TIE = 1e-4
"""Added to differences, in units of the series' variance: below it they are rounding."""
SHORTER = 0.6
"""A further lag is at most so long beside the one before: longer ones tell of the same season."""

Past = Float[Tensor, "batch channel time"]
Seen = Bool[Tensor, "batch channel time"]


def find_lags(z: Past, observed: Seen, count: int) -> list[Int[Tensor, "batch channel 1"]]:
    """Lags at which the steps of each past differ less than at those around; 1 where there is none.

    The first is the best of all, any further one the best of those that are clearly shorter: the week, then the day.
    """
    differences = measure_differences(z, observed)
    around = functional.pad(differences, (1, 1), value=torch.inf)
    lags = torch.arange(z.shape[-1], device=z.device)
    dips = (differences <= around[..., :-2]) & (differences <= around[..., 2:]) & (lags > 1)
    differences = differences.masked_fill(~dips, torch.inf)
    found: list[Tensor] = []
    for _ in range(count):
        as_good = differences <= AS_GOOD * differences.amin(-1, keepdim=True)
        shortest = as_good.to(torch.uint8).argmax(-1, keepdim=True)
        lag = differences.masked_fill(lags > ABOUT * shortest, torch.inf).argmin(-1, keepdim=True).clamp(min=1)
        found.append(lag)
        differences = differences.masked_fill(lags > SHORTER * lag, torch.inf)
    return found


def measure_differences(z: Past, observed: Seen) -> Float[Tensor, "batch channel time"]:
    """Mean squared difference of all observed pairs of steps at each lag, inf where pairs are too few.

    It counts for more where pairs are few.

    sum (x_t - x_(t-L))^2 = sum x_t^2 + sum x_(t-L)^2 - 2 sum x_t x_(t-L) over the pairs, each sum by FFT.
    """
    length = z.shape[-1]
    there = observed.to(torch.promote_types(z.dtype, torch.float32))
    steps = there.sum(-1, keepdim=True)
    centred = (z - (z * there).sum(-1, keepdim=True) / steps.clamp(min=1)) * there
    values, marks, squares = (rfft(part, 2 * length) for part in (centred, there, centred.square()))
    spectra = torch.stack(
        [values * values.conj(), marks * marks.conj(), squares * marks.conj(), marks * squares.conj()]
    )
    product, pairs, now, before = irfft(spectra, 2 * length)[..., :length]
    pairs = pairs.round()
    difference = (now + before - 2 * product).clamp(min=0) / pairs.clamp(min=1) + TIE
    enough = (pairs >= (LEAST_SHARE * steps).clamp(min=LEAST_PAIRS)) & (torch.arange(length, device=z.device) > 0)
    return torch.where(enough, difference * (1 + DOUBT / pairs.clamp(min=1)), torch.inf)


def look_back(
    z: Past, observed: Seen, lag: Int[Tensor, "batch channel 1"], ahead: int
) -> tuple[Float[Tensor, "batch channel both"], Bool[Tensor, "batch channel both"]]:
    """What stood one lag before each step of the past and of the horizon, and whether it was observed.

    Ahead it is the last value at that place of the cycle: two lags before a step that is more than one lag ahead.
    """
    length = z.shape[-1]
    step = torch.arange(length + ahead, device=z.device)
    cycles = (step - length).clamp(min=0) // lag + 1
    source = step - cycles * lag
    place = source.clamp(min=0, max=length - 1)
    seen = observed.gather(-1, place) & (source >= 0)
    return z.gather(-1, place) * seen, seen
