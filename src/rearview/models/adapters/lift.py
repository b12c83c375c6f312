"""LIFT (Zhao & Shen, 2024): a forecast refined by what the channels that lead a channel have done already.

On each window's standard scale, with the network's forecast yhat of channel c:

    leaders k = 1 .. K of c, their lags and correlations r_k, estimated in the window
    x_k      = leader k moved by its lag to the steps ahead (its own forecast where the window ends), * sign(r_k)
    evidence = softmax([1, |r_1|, .., |r_K|] / temperature) without the first
    state    = softmax(b + b_c + W z_c)                                      z_c: the window
    filters  = state-weighted linear maps of the evidence: u_k, d_k, v, each a number a frequency
    Y = rfft(yhat);  U_k = u_k * rfft(x_k);  D_k = d_k * (U_k - Y);  V = v * Y
    yhat + irfft(M [sum_k U_k, sum_k D_k, V] + m)                            M, m complex

Leaders are taken as found: no gradient goes through them. Where we differ from the released code: M starts at 0, so
that at first the forecast is the network's own; the state reads the window on its standard scale, so that affine in is
affine out; network and refinement are trained together. The steps asked for are read as the steps that follow the
window, so ask for a point forecast.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from rearview.attention.prime.features import standardise
from rearview.attention.shared.spectrum import irfft, rfft
from rearview.core.errors import SettingsError
from rearview.models.adapters._leaders import LeaderAdapter
from rearview.models.contract import Model, Past, Steps

_CELLS_AT_ONCE = 2**24
"""Correlations held at a time: all pairs at all lags would not fit for hundreds of channels."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of LIFT; the defaults are those of its code."""

    leaders: int = 4
    """Leading channels of each channel; at most as many as there are channels."""
    states: int = 8
    """States that a channel can be in, each with filters of its own."""
    temperature: float = 1.0
    """The number that correlations are divided by before they are weighed; learned from there on."""

    def __post_init__(self) -> None:
        if self.leaders < 1 or self.states < 1:
            raise SettingsError(f"leaders is {self.leaders} and states is {self.states}; both must be at least 1.")
        if self.temperature <= 0:
            raise SettingsError(f"temperature is {self.temperature}; it must be above 0.")


class Adapter(LeaderAdapter):
    """A network whose forecasts are refined by leading channels."""

    def __init__(self, network: Model, settings: Settings, within: str) -> None:
        super().__init__(network, "lift")
        shape = network.shape
        self.leaders = min(settings.leaders, shape.channels)
        self.temperature = nn.Parameter(torch.full((), settings.temperature))
        self.filters = Filters(self.leaders, settings.states, shape.channels, shape.lookback, shape.steps // 2 + 1)
        self.mix = ComplexLinear(3 * (shape.steps // 2 + 1), shape.steps // 2 + 1)

    def refine(self, z: Past, ahead: Steps) -> Steps:
        with torch.no_grad():
            leaders = find_leaders(z, self.leaders)
            moved = rfft(shift(z, ahead, leaders))
        evidence = functional.pad(leaders.correlations.abs(), (1, 0), value=1.0)
        evidence = (evidence / self.temperature).softmax(-1)[..., 1:].to(z.dtype)
        up, apart, own = self.filters(z, evidence).split([self.leaders, self.leaders, 1], dim=2)
        spectrum = rfft(ahead)
        filtered = moved * up
        differences = (filtered - spectrum.unsqueeze(2)) * apart
        parts = [filtered.sum(2), differences.sum(2), spectrum * own.squeeze(2)]
        return irfft(self.mix(torch.cat(parts, dim=-1)), n=ahead.shape[-1]).to(z.dtype)


class Filters(nn.Module):
    """A filter for each leader, its difference to the forecast, and the forecast, by a channel's state."""

    def __init__(self, leaders: int, states: int, channels: int, lookback: int, frequencies: int) -> None:
        super().__init__()
        self.count = 2 * leaders + 1
        self.state = nn.Linear(lookback, states)
        self.channel_state = nn.Parameter(torch.empty(channels, states).uniform_(-(states**-0.5), states**-0.5))
        bound = leaders**-0.5
        size = self.count * frequencies
        self.weight = nn.Parameter(torch.empty(states, leaders, size).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(states, size).uniform_(-bound, bound))

    def forward(
        self, z: Past, evidence: Float[Tensor, "batch channel leader"]
    ) -> Float[Tensor, "batch channel filter frequency"]:
        state = (self.state(z) + self.channel_state).softmax(-1)
        # sum_s state_s (evidence W_s + b_s) as one product: the state-weighted W of every channel is never held.
        joint = (state.unsqueeze(-1) * evidence.unsqueeze(-2)).flatten(2)
        filters = joint @ self.weight.flatten(0, 1) + state @ self.bias
        return filters.to(z.dtype).unflatten(-1, (self.count, -1))


class ComplexLinear(nn.Module):
    """A complex linear map held as real parameters, which every optimiser and file format knows; it starts at 0."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.real = nn.Parameter(torch.zeros(outputs, features))
        self.imaginary = nn.Parameter(torch.zeros(outputs, features))
        self.bias = nn.Parameter(torch.zeros(2 * outputs))

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.cat([self.real, -self.imaginary], dim=1), torch.cat([self.imaginary, self.real], dim=1)
        given = torch.cat([x.real, x.imag], dim=-1).to(self.bias.dtype)
        both = functional.linear(given, torch.cat(rows), self.bias)
        return torch.complex(*both.to(x.real.dtype).chunk(2, dim=-1))


class Leaders(NamedTuple):
    """The leaders of each channel in each window, the strongest first.

        R_ij(tau) = (1/L) irfft( rfft(z_i) * conj(rfft(z_j)) )[tau]        large where channel j leads channel i by tau

    z are windows on their own standard scale; the correlation is circular. Only lags 1 .. L - 2 at which |R| is no
    smaller than at both neighbours count. The leaders of a channel are those with the largest |R|; a channel can lead
    itself.
    """

    channels: Int[Tensor, "window channel leader"]
    lags: Int[Tensor, "window channel leader"]
    """Steps by which a leader is ahead."""
    correlations: Float[Tensor, "window channel leader"]
    """Correlation at that lag; negative where the leader goes the other way."""


def find_leaders(windows: Float[Tensor, "window channel time"], count: int) -> Leaders:
    """The `count` strongest leaders of every channel."""
    batch, channels, length = windows.shape
    spectrum = rfft(standardise(windows))
    # A compiler would unroll the portions, and an exported network is to take a batch of any size.
    portion = channels
    if not torch.compiler.is_compiling():
        portion = max(1, _CELLS_AT_ONCE // max(1, batch * channels * length))
    portions = [_strongest(part, spectrum, length, count) for part in spectrum.split(portion, dim=1)]
    return Leaders(*(torch.cat(parts, dim=1) for parts in zip(*portions, strict=True)))


def shift(windows: Tensor, ahead: Tensor, leaders: Leaders) -> Float[Tensor, "window channel leader steps"]:
    """Each leader from its lag before the window's end on, for the steps ahead; negated where it goes the other way."""
    length, steps = windows.shape[-1], ahead.shape[-1]
    known = torch.cat([windows, ahead], dim=-1)
    first = leaders.channels * known.shape[-1] + length - leaders.lags
    places = first.unsqueeze(-1) + torch.arange(steps, device=known.device)
    taken = known.flatten(1).gather(1, places.flatten(1)).view(places.shape)
    return taken * leaders.correlations.sign().unsqueeze(-1)


def _strongest(led: Tensor, leader: Tensor, length: int, count: int) -> Leaders:
    crossed = irfft(led[:, :, None] * leader[:, None].conj(), n=length) / length
    sizes = crossed.abs()
    peaks = (sizes[..., 1:-1] >= sizes[..., :-2]) & (sizes[..., 1:-1] >= sizes[..., 2:])
    strength, lag = (sizes[..., 1:-1] * peaks).max(-1)
    channels = strength.topk(count, dim=-1).indices
    lags = lag.gather(-1, channels) + 1
    places = channels * length + lags
    return Leaders(channels, lags, crossed.flatten(2).gather(-1, places))
