"""DUET (Qiu et al., 2025): windows shared out to linear experts, then attention among channels that are alike.

    RevIN (affine) -> experts, by gates of a router that reads the window as it comes -> one token a channel
    -> depth x [attention under a gate between channels, LayerNorm; feed-forward, LayerNorm] (post-norm) -> LayerNorm
    -> Linear(width -> steps) -> dropout -> inverse RevIN

The gate (see `ChannelGate`) is 1 between channels whose spectra are alike and 0 elsewhere; it is drawn for each window
and shared by heads and layers. A score is multiplied by it, and where it is 0 becomes -ln(10^10) before
the scale: a mask that lets a little through. What another mechanism makes of it: toa's softmax kind and prime do the
same with their scores (toa after S1), toa's relu and gated kinds multiply the activated weights (toa before S2).

Where we differ:
- The authors draw the gate in evaluation too, so that a forecast depends on chance. Here it is drawn in training and is
  the likelier of its two values afterwards; `sample="always"` is theirs.
- With one channel the authors leave out the blocks; here they run on the one token, without a gate.
- Router and gate read the window as it comes, not normalised, as theirs do; padding is 0 there.

`penalty` hands training the term that keeps experts busy, which the authors add to the loss.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.attention import Spec, split
from rearview.attention.contract import Site, Tokens
from rearview.attention.shared.execution import full_precision
from rearview.core.errors import SettingsError
from rearview.embed import Dropout, Normalise
from rearview.models.attention_free.dlinear import Average, ChannelLinear
from rearview.models.blocks import setting
from rearview.models.blocks.encoder import ReadWindow, StackHost
from rearview.models.blocks.heads import choose_head
from rearview.models.blocks.stack import BlockSettings, Stack
from rearview.models.blocks.tokens import channel_tokens
from rearview.models.contract import Axes, Marks, ModelClaims, Past, Real, Shape, Steps, Token

Sample = Literal["training", "always", "never"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of DUET; the defaults are those of the authors' code, with two experts used as in most of its runs."""

    width: setting.TokenWidth = 512
    heads: setting.HeadCount = 8
    depth: setting.Depth = 2
    feed_forward: setting.FeedForwardWidth = 2048
    dropout: float = 0.2
    """Dropout on attention's weights and output and the feed-forward part."""
    head_dropout: float | None = None
    """Dropout on the forecast, before the way back; None: as `dropout`."""
    activation: setting.GeluOrRelu = "gelu"
    experts: int = 4
    """Pairs of linear maps that windows are shared out to."""
    used: int = 2
    """Experts that a window is sent to."""
    router: int = 256
    """Width inside the router."""
    kernel: int = 25
    """Steps of the moving average that parts trend and rest; odd."""
    noisy: bool = True
    """Whether the router adds noise in training, and learns how much."""
    balance: float = 1.0
    """Weight of the penalty on idle experts."""
    sample: Sample = "training"
    """The passes that draw the gate between channels: training, always (the original) or never."""
    normalise: setting.Normalisation = "revin"
    affine: setting.Affine = True

    def __post_init__(self) -> None:
        if self.sample not in get_args(Sample):
            raise SettingsError(f"sample is {self.sample!r}; it can be one of {', '.join(get_args(Sample))}.")


class Network(StackHost):
    """DUET with any attention whose scores a gate can act on."""

    claims = ModelClaims(
        mixes_channels=True, scale_free=False, equivariant_to_channels=False, reconstructs=True, classifies=True
    )

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        super().__init__(shape)
        shape.refuse_marks("duet", because="clusters channels by their spectra")
        self.sample = settings.sample
        self.balance = settings.balance
        self._penalty: Tensor | None = None
        self.normalise = Normalise(settings.normalise, shape.channels, settings.affine)
        self.router = Router(shape.lookback, settings.router, settings.experts, settings.used, settings.noisy)
        self.experts = Experts(shape.lookback, settings.width, settings.experts, settings.kernel)
        self.gate = ChannelGate(shape.lookback) if shape.channels > 1 else None
        channels, width = shape.channels, settings.width
        site = Site(
            1, channels, width, settings.heads, time_ordered=False, variates=channels, lookback=shape.lookback,
            dropout=settings.dropout, host="DUET",
        )  # fmt: skip
        block = BlockSettings(settings.feed_forward, activation=settings.activation, dropout=settings.dropout)
        self.stack = Stack(site, settings.depth, block, attention, final_norm="layer")
        if not all(layer.claims.takes_gate for layer in self.stack.layers):
            raise SettingsError(
                "duet keeps unlike channels apart by a gate on the scores of each pair, and "
                f"{split(attention)[0]} takes none; use softmax, toa or prime."
            )
        self.drop = Dropout(settings.dropout if settings.head_dropout is None else settings.head_dropout)
        self.head = choose_head(shape, width, channels * width, activate=True, dropout=self.drop.rate)

    def read(self, past: Past, past_marks: Marks, future_marks: Marks, mask: Real) -> ReadWindow:
        x, denormalise = self.normalise(past, mask)
        # Filled, not multiplied: whatever stands there, a NaN too, must not reach router and gate.
        as_it_comes = past if mask is None else past.masked_fill(~mask[:, None], 0)
        gates, uneven = self.router(as_it_comes)
        self._penalty = self.balance * uneven if self.training else None
        drawn = self.sample == "always" or (self.sample == "training" and self.training)
        gate = None if self.gate is None else self.gate(as_it_comes, drawn)
        return ReadWindow(self.experts(x, gates)[:, None], None, None, x, denormalise, gate)

    def token_axes(self) -> Axes:
        return Axes((Token(),), channel_tokens(self.shape))

    def detokenise(self, tokens: Tokens) -> Steps:
        return self.drop(self.head(tokens[:, 0]))

    def penalty(self) -> Tensor | None:
        handed_over, self._penalty = self._penalty, None
        return handed_over


LEAST_NOISE = 1e-2
UNLIKELY = 1e-10
"""The least probability of a pair: below it a logit's gradient would overflow."""

Gates = Float[Tensor, "batch channel expert"]


class Router(nn.Module):
    """The experts that a window is sent to, each one's share of it, and the penalty for leaving some idle.

    Each channel's window by itself, x as it comes:

        c = W2 relu(W1 x)                                        the logits
        n = c + N(0, 1) (softplus(V2 relu(V1 x)) + 0.01)         in training
        s = softmax(n W_h) in training, softmax(c) afterwards    shares of the experts
        g = s on the k largest, divided by their sum + 1e-6      gates

    The penalty keeps experts busy: the squared coefficients of variation of sum g and of the load, the expected number
    of windows of each expert under other noise. As in the authors' code the load compares logits with thresholds that
    are shares, after the softmax.
    """

    def __init__(self, lookback: int, hidden: int, experts: int, used: int, noisy: bool) -> None:
        super().__init__()
        if not 1 <= used <= experts:
            raise SettingsError(f"used is {used}; of {experts} experts at least 1 and at most all can be used.")
        self.used = used
        self.score = _scorer(lookback, hidden, experts)
        self.noise = _scorer(lookback, hidden, experts) if noisy else None
        self.mix = nn.Parameter(torch.eye(experts)) if noisy else None

    def forward(self, x: Past) -> tuple[Gates, Float[Tensor, ""]]:
        clean = logits = self.score(x)
        noisy = spread = None
        if self.training and self.noise is not None and self.mix is not None:
            spread = functional.softplus(self.noise(x)) + LEAST_NOISE
            noisy = clean + normal_like(clean) * spread
            logits = noisy @ self.mix
        shares = logits.softmax(-1)
        top = shares.topk(min(self.used + 1, shares.shape[-1]))
        kept = top.values[..., : self.used]
        kept = kept / (kept.sum(-1, keepdim=True) + 1e-6)
        gates = torch.zeros_like(shares).scatter(-1, top.indices[..., : self.used], kept)
        if noisy is None or spread is None or self.used == shares.shape[-1]:
            load = (gates > 0).to(gates.dtype)
        else:
            # How likely each expert is used under other noise of its own.
            last_in, first_out = top.values[..., self.used - 1 :].split(1, dim=-1)
            load = torch.special.ndtr((clean - torch.where(noisy > first_out, first_out, last_in)) / spread)
        return gates, _unevenness(gates) + _unevenness(load)


class Experts(nn.Module):
    """DLinear's two maps, once an expert; each window gets the sum of its experts', by its gates.

        token = sum_e g_e (R_e (z - average z) + T_e average z + biases)             z: the normalised window

    All experts run on all windows, as one product of [g_1 z .. g_E z] with [R_1 .. R_E]: shapes then do not depend on
    the data, and at four experts of which two are used this costs twice the arithmetic of sending windows around.
    """

    def __init__(self, lookback: int, width: int, experts: int, kernel: int) -> None:
        super().__init__()
        self.average = Average(kernel)
        self.rest = ChannelLinear(experts, lookback, width)
        self.trend = ChannelLinear(experts, lookback, width)

    def forward(self, x: Past, gates: Gates) -> Float[Tensor, "batch channel width"]:
        trend = self.average(x)
        shared = [(gates[..., None] * part[..., None, :]).flatten(2) for part in (x - trend, trend)]
        maps = [part.weight.transpose(0, 1).flatten(1) for part in (self.rest, self.trend)]
        mixed = functional.linear(torch.cat(shared, dim=-1), torch.cat(maps, dim=-1))
        return mixed + gates @ (self.rest.bias + self.trend.bias)


class ChannelGate(nn.Module):
    """0 or 1 for every pair of channels: whether their spectra are alike, under a learned metric A.

        d_ij = |A (|f_i| - |f_j|)|^2,    p_ij = 0.99 (1/d_ij) / max_j (1/d_ij) for i != j, 0.99 for i = j
        gate_ij = 1 if 2 ln(p_ij / (1 - p_ij)) + noise > 0, else 0

    |f_i| are the amplitudes of channel i's spectrum, and the noise is logistic, the difference of two Gumbels. So a
    pair is kept with probability p^2 / (p^2 + (1 - p)^2). Its gradient is that of the sigmoid of the same number, and
    the maximum is a constant for it. Without noise the gate is the likelier of its two values.
    """

    def __init__(self, lookback: int) -> None:
        super().__init__()
        frequencies = lookback // 2 + 1
        self.metric = nn.Parameter(torch.randn(frequencies, frequencies))

    def forward(self, x: Past, sample: bool) -> Float[Tensor, "batch 1 1 channel channel"]:
        # Distances are differences of large amplitudes, which half precision does not hold apart.
        wide = torch.promote_types(self.metric.dtype, torch.float32)
        with full_precision(x.device):
            logit = 2 * torch.logit(self.alike(x.to(wide)), UNLIKELY)
            if sample:
                logit = logit + logistic_like(logit)
            soft = logit.sigmoid()
            hard = (logit > 0).to(soft.dtype)
            return (hard + (soft - soft.detach()))[:, None, None].to(self.metric.dtype)

    def alike(self, x: Past) -> Float[Tensor, "batch channel channel"]:
        """p: 0.99 for a channel with itself and its nearest, less the further two are apart."""
        measured = amplitudes(x) @ self.metric.T.to(x.dtype)
        exactly = "donot_use_mm_for_euclid_dist"
        near = 1 / (torch.cdist(measured, measured, compute_mode=exactly).square() + 1e-10)
        itself = torch.eye(x.shape[1], dtype=near.dtype, device=near.device)
        near = near * (1 - itself)
        return (near / near.amax(-1, keepdim=True).detach() + itself) * 0.99


def amplitudes(x: Past) -> Float[Tensor, "batch channel frequency"]:
    """|rfft(x)|, as products with cosines and sines: compilers know no complex numbers. Its gradient at 0 is 0."""
    time = torch.arange(x.shape[-1], device=x.device)
    turns = time[:, None] * time[: x.shape[-1] // 2 + 1] % x.shape[-1]
    angles = turns.to(torch.float64) * (2 * math.pi / x.shape[-1])
    power = (x @ angles.cos().to(x.dtype)).square() + (x @ angles.sin().to(x.dtype)).square()
    return torch.where(power > 0, power, 1).sqrt() * (power > 0)


def normal_like(x: Tensor) -> Tensor:
    """Standard normal noise."""
    return torch.randn_like(x)


def logistic_like(x: Tensor) -> Tensor:
    """Standard logistic noise: the difference of two Gumbels."""
    return torch.empty_like(x).exponential_().log() - torch.empty_like(x).exponential_().log()


def _scorer(lookback: int, hidden: int, experts: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(lookback, hidden, bias=False), nn.ReLU(), nn.Linear(hidden, experts, bias=False))


def _unevenness(parts: Gates) -> Float[Tensor, ""]:
    """The squared coefficient of variation of the experts' sums; 0 for a single expert."""
    total = parts.to(torch.promote_types(parts.dtype, torch.float32)).sum((0, 1))
    if len(total) == 1:
        return torch.zeros_like(total[0])
    return total.var() / (total.mean().square() + 1e-10)
