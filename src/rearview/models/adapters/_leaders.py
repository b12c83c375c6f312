"""Which channels lead which, window by window, and what the leaders say of the steps ahead (LIFT's estimate).

    R_ij(tau) = (1/L) irfft( rfft(z_i) * conj(rfft(z_j)) )[tau]        large where channel j leads channel i by tau

z are windows on their own standard scale; the correlation is circular. Only lags 1 .. L - 2 at which |R| is no smaller
than at both neighbours count. The leaders of a channel are those with the largest |R|; a channel can lead itself.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rearview.attention.prime.features import standardised

_CELLS_AT_ONCE = 2**24
"""Correlations held at a time: all pairs at all lags would not fit for hundreds of channels."""


class Leaders(NamedTuple):
    """The leaders of each channel in each window, the strongest first."""

    channels: Int[Tensor, "window channel leader"]
    lags: Int[Tensor, "window channel leader"]
    """Steps by which a leader is ahead."""
    correlations: Float[Tensor, "window channel leader"]
    """Correlation at that lag; negative where the leader goes the other way."""


def leading(windows: Float[Tensor, "window channel time"], count: int) -> Leaders:
    """The `count` strongest leaders of every channel."""
    batch, channels, length = windows.shape
    spectrum = torch.fft.rfft(standardised(windows))
    # A compiler would unroll the portions, and an exported network is to take a batch of any size.
    portion = channels
    if not torch.compiler.is_compiling():
        portion = max(1, _CELLS_AT_ONCE // max(1, batch * channels * length))
    found = [_strongest(part, spectrum, length, count) for part in spectrum.split(portion, dim=1)]
    return Leaders(*(torch.cat(parts, dim=1) for parts in zip(*found, strict=True)))


def shifted(windows: Tensor, ahead: Tensor, leaders: Leaders) -> Float[Tensor, "window channel leader steps"]:
    """Each leader from its lag before the end of the window on, as far as `ahead` goes; turned over where it goes the
    other way."""
    length, steps = windows.shape[-1], ahead.shape[-1]
    known = torch.cat([windows, ahead], dim=-1)
    first = leaders.channels * known.shape[-1] + length - leaders.lags
    places = first.unsqueeze(-1) + torch.arange(steps, device=known.device)
    taken = known.flatten(1).gather(1, places.flatten(1)).view(places.shape)
    return taken * leaders.correlations.sign().unsqueeze(-1)


def _strongest(led: Tensor, leader: Tensor, length: int, count: int) -> Leaders:
    crossed = torch.fft.irfft(led[:, :, None] * leader[:, None].conj(), n=length) / length
    sizes = crossed.abs()
    peaks = (sizes[..., 1:-1] >= sizes[..., :-2]) & (sizes[..., 1:-1] >= sizes[..., 2:])
    strength, lag = (sizes[..., 1:-1] * peaks).max(-1)
    channels = strength.topk(count, dim=-1).indices
    lags = lag.gather(-1, channels) + 1
    places = channels * length + lags
    return Leaders(channels, lags, crossed.flatten(2).gather(-1, places))
