"""ETSformer (Woo et al., 2022): level, growth and season of a series, each smoothed or extrapolated by itself.

    z = causal three-step convolution of all channels; level = the window
    depth x:  season = the `frequencies` strongest waves of z, over window and horizon;      z = z - season
              growth = W_o ES(differences of W_v z);         z = norm(z - growth);   z = norm(z + feed_forward(z))
              level_t = (1 - a) (level_t - W_s season_t) + a (level_(t-1) + W_g growth_(t-1)),  a of each channel
    forecast = last level + W (sum over blocks of growth_last x (g + g^2 + ... + g^h)) + W (sum of season)

ES(v)_t = (1 - a) sum_j a^(t-j) v_j + a^(t+1) v_0 with a learned a and v_0 in each head is the paper's exponential
smoothing attention, and the strongest waves its frequency attention. Neither compares tokens, so there is no mechanism
to put in their place. While it trains, windows are scaled, shifted and blurred by chance (`jitter`).

Where we differ: the release sums the growth of the level over the wrong axis, so that only the newest steps' growth
counts; ours is the formula of the text. The last block's feed-forward part is read by nobody and left out.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.attention.shared.execution import full_precision
from rearview.attention.shared.spectrum import irfft, rfft
from rearview.core.errors import SettingsError
from rearview.core.settings import check_least
from rearview.embed import Dropout, Normalise
from rearview.models.blocks import setting
from rearview.models.contract import Marks, Model, ModelClaims, Past, Real, Shape, Steps

Features = Float[Tensor, "batch time width"]
Span = Float[Tensor, "batch _ width"]
"""Features of the steps ahead, of window and steps ahead, or of a step more than the window."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of ETSformer; the defaults are the authors'."""

    width: setting.TokenWidth = 512
    heads: int = 8
    """Shares of the width that are smoothed and damped each at a rate of its own."""
    depth: setting.Depth = 2
    feed_forward: setting.FeedForwardWidth = 2048
    frequencies: int = 3
    """The number of waves that a block's season is made of."""
    dropout: setting.DropoutThroughout = 0.2
    jitter: float = 0.2
    """Spread of the chance by which windows are scaled, shifted and blurred while the network trains."""
    normalise: setting.PlainNormalisation = "none"

    def __post_init__(self) -> None:
        if self.heads < 1 or self.width % self.heads:
            raise SettingsError(f"width {self.width} can't be shared evenly by {self.heads} heads.")
        check_least(self, frequencies=0, jitter=0, depth=1)


class Network(Model):
    """Exponential smoothing of learned features, without attention that compares tokens."""

    claims = ModelClaims(attention=False, mixes_channels=True, scale_free=False, equivariant_to_channels=False)

    def __init__(self, shape: Shape, settings: Settings) -> None:
        super().__init__(shape)
        shape.refuse_marks("etsformer", "smooths the channels of a window")
        self.jitter = settings.jitter
        self.normalise = Normalise(settings.normalise)
        self.embed = nn.Conv1d(shape.channels, settings.width, 3, padding=2, bias=False)
        nn.init.kaiming_normal_(self.embed.weight)
        self.drop = Dropout(settings.dropout)
        last = settings.depth - 1
        self.blocks = nn.ModuleList(Block(shape, settings, last=at == last) for at in range(settings.depth))
        self.head = nn.Linear(settings.width, shape.channels)

    def forward(self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None) -> Steps:
        x, denormalise = self.normalise(past, mask)
        if self.training and self.jitter:
            x = self._disturb(x)
        # Which waves are strongest is a choice that rounding would turn.
        with full_precision(x.device):
            z = self.drop(self.embed(x)[..., :-2].transpose(1, 2))
            level, growths, seasons = x.transpose(1, 2), [], []
            for block in self.blocks:
                z, level, growth, season = block(z, level)
                growths.append(growth)
                seasons.append(season)
            ahead = level[:, -1:] + self.head(torch.stack(growths).sum(0)) + self.head(torch.stack(seasons).sum(0))
        return denormalise(ahead.transpose(1, 2))

    def _disturb(self, x: Past) -> Past:
        """The window with a scale and a shift of each channel, and noise, all by chance."""
        scale, shift = self.jitter * torch.randn(2, x.shape[1], 1, dtype=x.dtype, device=x.device)
        return x * (1 + scale) + shift + self.jitter * torch.randn_like(x)


class Block(nn.Module):
    """Takes season and growth out of the features, and smooths the level without them."""

    def __init__(self, shape: Shape, settings: Settings, last: bool) -> None:
        super().__init__()
        width, heads = settings.width, settings.heads
        self.steps = shape.steps
        self.waves = Waves(shape.lookback, shape.steps, settings.frequencies)
        self.drop_season, self.drop_growth, self.drop_ahead = (Dropout(settings.dropout) for _ in range(3))
        self.value = nn.Linear(width, width)
        self.before = nn.Parameter(torch.randn(heads, width // heads))
        self.smooth = Smoothing(heads, width // heads, settings.dropout)
        self.out = nn.Linear(width, width)
        self.season_level = nn.Linear(width, shape.channels)
        self.growth_level = nn.Linear(width, shape.channels)
        self.smooth_level = Smoothing(shape.channels, 1, settings.dropout)
        self.drop_level = Dropout(settings.dropout)
        self.damping = nn.Parameter(torch.randn(heads))
        self.feed_forward: nn.Module | None = None
        if not last:
            self.feed_forward = nn.Sequential(
                nn.Linear(width, settings.feed_forward, bias=False),
                nn.Sigmoid(),
                Dropout(settings.dropout),
                nn.Linear(settings.feed_forward, width, bias=False),
                Dropout(settings.dropout),
            )
            self.norm_grown, self.norm_fed = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, z: Features, level: Tensor) -> tuple[Features, Tensor, Span, Span]:
        """The features and the level of the next block, and growth and season of the steps ahead."""
        season = self.drop_season(self.waves(z))
        z = z - season[:, : -self.steps]
        growth = self.drop_growth(self.grow(z))
        level = self.flatten(level, growth[:, :-1], season[:, : -self.steps])
        if self.feed_forward is not None:
            z = self.norm_grown(z - growth[:, 1:])
            z = self.norm_fed(z + self.feed_forward(z))
        return z, level, self.damp(growth[:, -1]), season[:, -self.steps :]

    def grow(self, z: Features) -> Span:
        """Smoothed differences, one step more than the window: before its first step and after each."""
        values = self.value(z).unflatten(-1, self.before.shape)
        differences = torch.diff(values, dim=1, prepend=self.before.expand(z.shape[0], 1, -1, -1))
        first = self.smooth.start.expand(z.shape[0], 1, -1, -1)
        return self.out(torch.cat([first, self.smooth(differences)], dim=1).flatten(2))

    def flatten(self, level: Tensor, growth: Features, season: Features) -> Tensor:
        """The level without its season, smoothed along its growth."""
        rest = (level - self.season_level(season)).unsqueeze(-1)
        grown = self.drop_level(self.growth_level(growth)).unsqueeze(-1)
        return self.smooth_level(rest, grown)[..., 0]

    def damp(self, growth: Float[Tensor, "batch width"]) -> Span:
        """The growth added up over the steps ahead, each step's share damped once more."""
        powers = torch.arange(1, self.steps + 1, device=growth.device, dtype=self.damping.dtype)
        shares = (functional.logsigmoid(self.damping) * powers[:, None]).exp().cumsum(0)
        heads = growth.unflatten(-1, (len(self.damping), -1))
        return self.drop_ahead(heads[:, None] * shares[..., None]).flatten(2)


class Smoothing(nn.Module):
    """Exponential smoothing along time, [batch, time, head, width], with a rate and a start of each head."""

    def __init__(self, heads: int, width: int, dropout: float) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.randn(heads))
        self.start = nn.Parameter(torch.randn(heads, width))
        self.drop = Dropout(dropout)

    def forward(self, values: Tensor, grown: Tensor | None = None) -> Tensor:
        """(1 - a) sum_j a^(t-j) v_j + a^(t+1) v_0, plus sum_j a^(t-j+1) g_j where growth is given."""
        steps = values.shape[1]
        keep, powers = torch.sigmoid(self.rate), torch.arange(steps, device=values.device, dtype=values.dtype)
        kernel = (functional.logsigmoid(self.rate) * powers[:, None]).exp()
        added = (1 - keep)[:, None] * self.drop(values)
        if grown is not None:
            added = added + keep[:, None] * grown
        # Twice the length, so that the end does not reach round to the beginning.
        spectrum = rfft(added, 2 * steps, dim=1) * rfft(kernel, 2 * steps, dim=0)[..., None]
        smoothed = irfft(spectrum, 2 * steps, dim=1)[:, :steps].to(values.dtype)
        return smoothed + (kernel * keep)[..., None] * self.start


class Waves(nn.Module):
    """The strongest waves of each feature of a window, drawn on beyond its end; neither the mean nor the fastest."""

    def __init__(self, lookback: int, steps: int, count: int) -> None:
        super().__init__()
        least, most = 1, (lookback - 1) // 2
        self.span = slice(least, most + 1)
        self.count = min(count, most)
        turns = torch.arange(least, most + 1, dtype=torch.float64)[:, None] * torch.arange(lookback + steps) / lookback
        angles = 2 * math.pi * turns.remainder(1)
        self.cosines: Tensor
        self.sines: Tensor
        self.register_buffer("cosines", (2 / lookback * angles.cos()).float(), persistent=False)
        self.register_buffer("sines", (2 / lookback * angles.sin()).float(), persistent=False)

    def forward(self, z: Features) -> Span:
        spectrum = rfft(z, dim=1)[:, self.span]
        strongest = spectrum.abs().topk(self.count, dim=1).indices
        kept = torch.zeros(spectrum.shape, dtype=z.dtype, device=z.device).scatter_(1, strongest, 1.0)
        real, imaginary = spectrum.real.to(z.dtype) * kept, spectrum.imag.to(z.dtype) * kept
        return torch.einsum("ft,bfd->btd", self.cosines, real) - torch.einsum("ft,bfd->btd", self.sines, imaginary)
