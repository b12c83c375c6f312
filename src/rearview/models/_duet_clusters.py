"""DUET's two clusterings: of windows, by experts that share them out, and of channels, by a gate between each two.

Of windows (each channel's by itself), x the window as it comes, z the normalised one:

    c = W2 relu(W1 x)                                        the router's logits
    n = c + N(0, 1) (softplus(V2 relu(V1 x)) + 0.01)         in training
    s = softmax(n W_h) in training, softmax(c) afterwards    shares of the experts
    g = s on the k largest, divided by their sum + 1e-6      gates
    token = sum_e g_e (R_e (z - average z) + T_e average z + biases)

All experts run on all windows, as one product of [g_1 z .. g_E z] with [R_1 .. R_E]: shapes then do not depend on the
data, and at four experts of which two are used this costs twice the arithmetic of sending windows around.

The penalty keeps experts busy: the squared coefficients of variation of sum g and of the load, the expected number of
windows of each expert under other noise. As in the authors' code the load compares logits with thresholds that are
shares, after the softmax.

Of channels, |f_i| the amplitudes of channel i's spectrum:

    d_ij = |A (|f_i| - |f_j|)|^2,    p_ij = 0.99 (1/d_ij) / max_j (1/d_ij) for i != j, 0.99 for i = j
    gate_ij = 1 if 2 ln(p_ij / (1 - p_ij)) + noise > 0, else 0          noise = logistic, the difference of two Gumbels

so a pair is kept with probability p^2 / (p^2 + (1 - p)^2). Its gradient is that of the sigmoid of the same number, and
the maximum is a constant for it. Without noise the gate is the likelier of its two values.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.attention.shared.execution import full_precision
from rearview.core.errors import SettingsError
from rearview.models.contract import Past
from rearview.models.dlinear import Average, ChannelLinear

LEAST_NOISE = 1e-2
UNLIKELY = 1e-10
"""The least probability of a pair: below it a logit's gradient would overflow."""

Gates = Float[Tensor, "batch channel expert"]


class Router(nn.Module):
    """Which experts a window is sent to, how much of it each gets, and the penalty for leaving some idle."""

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
            load = _chance_of_use(clean, noisy, spread, top.values[..., self.used - 1 :])
        return gates, _unevenness(gates) + _unevenness(load)


class Experts(nn.Module):
    """DLinear's two maps, once an expert; each window gets the sum of its experts', by its gates."""

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
    """0 or 1 for every pair of channels: whether their spectra are alike, under a learned metric."""

    def __init__(self, lookback: int) -> None:
        super().__init__()
        frequencies = lookback // 2 + 1
        self.metric = nn.Parameter(torch.randn(frequencies, frequencies))

    def forward(self, x: Past, sample: bool) -> Float[Tensor, "batch 1 1 channel channel"]:
        # Distances are differences of large amplitudes, which bfloat16 does not hold apart.
        with full_precision(x.device):
            logit = 2 * torch.logit(self.alike(x.to(self.metric.dtype)), UNLIKELY)
            if sample:
                logit = logit + logistic_like(logit)
            soft = logit.sigmoid()
            hard = (logit > 0).to(soft.dtype)
            return (hard + (soft - soft.detach()))[:, None, None]

    def alike(self, x: Past) -> Float[Tensor, "batch channel channel"]:
        """p: 0.99 for a channel with itself and its nearest, less the further two are apart."""
        measured = amplitudes(x) @ self.metric.T
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


def _chance_of_use(clean: Tensor, noisy: Tensor, spread: Tensor, edge: Tensor) -> Gates:
    """How likely each expert is used under other noise of its own; `edge`: the last share in and the first one out."""
    last_in, first_out = edge[..., :1], edge[..., 1:]
    threshold = torch.where(noisy > first_out, first_out, last_in)
    return torch.special.ndtr((clean - threshold) / spread)


def _unevenness(parts: Gates) -> Float[Tensor, ""]:
    """The squared coefficient of variation of the experts' sums; 0 for a single expert."""
    total = parts.to(torch.promote_types(parts.dtype, torch.float32)).sum((0, 1))
    if len(total) == 1:
        return torch.zeros_like(total[0])
    return total.var() / (total.mean().square() + 1e-10)
