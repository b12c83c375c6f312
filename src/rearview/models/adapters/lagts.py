"""After LagTS (Liu et al., 2025): a forecast pulled towards channels moved by lags that a perceptron estimates.

Of LagTS two facts are public, in a paper that cites it: a perceptron reads the relation of each pair of channels, and
a loss of its own guides it to their lagged correlations. Everything else here is our reading. On each window's
standard scale, with the network's forecast yhat, for the lags tau = 1 .. `lags`:

    h_c       = W z_c + b_c                                                     z_c: the window
    r_ij(tau) = tanh( V relu(A h_i + B h_j + a) + v )                           near 1 where j leads i
    w_ij(tau) = softmax over all j and tau of |r_ij(tau)| / temperature
    x_i(t)    = sum_j,tau w_ij(tau) r_ij(tau) z_j(t - tau)                      yhat_j(t - tau) after the window's end
    yhat + M [x, yhat] + m

    R_ij(tau) = (1/L) sum_t z_i(t) z_j(t - tau)                                 the correlation of the window
    loss      = loss of the forecasts + guidance * mean (r_ij(tau) - R_ij(tau))^2

M and m start at 0, so that at first the forecast is the network's own. `lift` takes lags as a window shows them; here
what was learned from all windows corrects a window's noise. Memory grows with channels^2 * lags.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.core.errors import SettingsError
from rearview.models.adapters._leaders import LeaderAdapter
from rearview.models.contract import Model, Past, Steps

Relations = Float[Tensor, "window channel leader lag"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the reading of LagTS."""

    lags: int = 24
    """The longest lag, in steps; at most one less than the look-back."""
    width: int = 32
    """Numbers that a channel and a pair of channels are described by."""
    temperature: float = 0.1
    """The number that correlations are divided by before they are weighed; learned from there on."""
    guidance: float = 1.0
    """Weight of the loss that guides the estimated correlations."""

    def __post_init__(self) -> None:
        for name in ("lags", "width"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        if self.temperature <= 0:
            raise SettingsError(f"temperature is {self.temperature}; it must be above 0.")
        if self.guidance < 0:
            raise SettingsError(f"guidance is {self.guidance}; it must be at least 0.")


class Adapter(LeaderAdapter):
    """A network whose forecasts are refined by lagged channels."""

    def __init__(self, network: Model, settings: Settings, within: str) -> None:
        super().__init__(network, "lagts")
        shape = network.shape
        self.lags = min(settings.lags, shape.lookback - 1)
        self.guidance = settings.guidance
        self.estimate = Estimate(shape.channels, shape.lookback, settings.width, self.lags)
        self.log_temperature = nn.Parameter(torch.full((), math.log(settings.temperature)))
        self.mix = nn.Linear(2 * shape.steps, shape.steps)
        for parameter in self.mix.parameters():
            nn.init.zeros_(parameter)
        self._missed: Tensor | None = None

    def refine(self, z: Past, ahead: Steps) -> Steps:
        relations = self.estimate(z)
        if self.training and self.guidance:
            self._missed = (relations - correlate(z, self.lags)).square().mean()
        evidence = (relations.abs() * (-self.log_temperature).exp()).flatten(2).softmax(-1)
        steps = ahead.shape[-1]
        known = torch.cat([z, ahead.detach()], dim=-1)[..., -steps - self.lags : -1]
        moved = known.unfold(-1, steps, 1).flip(2)
        view = (evidence * relations.flatten(2)).to(z.dtype) @ moved.flatten(1, 2)
        return self.mix(torch.cat([view, ahead], dim=-1))

    def penalty(self) -> Float[Tensor, ""] | None:
        missed, self._missed = self._missed, None
        theirs = super().penalty()
        if missed is None:
            return theirs
        return self.guidance * missed if theirs is None else self.guidance * missed + theirs


class Estimate(nn.Module):
    """The correlation of every pair of channels at every lag, as a perceptron reads it from their windows."""

    def __init__(self, channels: int, lookback: int, width: int, lags: int) -> None:
        super().__init__()
        self.window = nn.Linear(lookback, width, bias=False)
        self.channel = nn.Parameter(0.02 * torch.randn(channels, width))
        self.led = nn.Linear(width, width)
        self.leader = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, lags)

    def forward(self, z: Past) -> Relations:
        described = self.window(z) + self.channel
        pairs = self.led(described).unsqueeze(2) + self.leader(described).unsqueeze(1)
        return self.out(functional.relu(pairs)).tanh()


def correlate(z: Past, lags: int) -> Relations:
    """R_ij(tau) for tau = 1 .. lags, of windows with mean 0 and variance 1; what lies before a window counts as 0."""
    length = z.shape[-1]
    before = functional.pad(z, (lags, 0))[..., :-1].unfold(-1, length, 1).flip(2)
    return torch.einsum("bil,bjml->bijm", z, before) / length
