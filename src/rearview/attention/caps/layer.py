"""CAPS as a layer: settings, the reference form in the paper's symbols, and the form that runs."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.attention.caps.maps import Bare, need_one_time_axis, start
from rearview.attention.caps.paths import (
    EPS,
    PATHS,
    Form,
    PathName,
    Signals,
    apply_path,
    concatenate_paths,
    fill_padding,
    released_path,
    score_path,
    stable_path,
)
from rearview.attention.caps.recurrence import kernel_fits
from rearview.attention.contract import Claims, Heads, Inputs, Mixture, Site, Tokens, Weights, causal_bias, pad_bias
from rearview.attention.linear import Values
from rearview.attention.shared.execution import full_precision, recompute, widen
from rearview.attention.shared.fused import own_kernels_run
from rearview.attention.shared.rotary import Layout, Rotary, frequencies
from rearview.core.errors import SettingsError

LONG = 1024
"""From so many tokens on, everything between queries and output is computed again in backward."""
HELD = 1 << 21
"""Numbers of a query tensor worked on at a time from there on: what backward needs is some 30 times as many."""
HELD_BY_KERNEL = 1 << 23
"""The same where a kernel runs, which keeps less and wants more at a time."""
KEPT_BY_KERNEL = 1 << 21
"""Numbers of a value tensor up to which a long sequence is computed once, where a kernel runs."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of CAPS."""

    paths: tuple[PathName, ...] = PATHS
    """The kinds of memory that are summed: any of riemann, prefix, clock."""
    normaliser: Literal["linear", "softmax"] = "linear"
    """linear: the sum as it is, at linear cost; softmax: over all earlier tokens, at quadratic cost."""
    rotation: Layout | Literal["none"] = "fixed"
    """fixed: a rotation by base 10000; learned: its frequencies are parameters; released: the authors' layout, which
    is no rotation; none."""
    numerics: Literal["stable", "released"] = "stable"
    """stable: the paper's formula at any length; released: the authors' clipped form, for comparison only."""

    def __post_init__(self) -> None:
        # A list, or one name, comes from a configuration file; a frozen setting is a tuple.
        given: object = self.paths
        object.__setattr__(self, "paths", (given,) if isinstance(given, str) else tuple(self.paths))
        if not self.paths or len(set(self.paths)) < len(self.paths):
            raise SettingsError(f"paths is {self.paths}; it must name at least one path, and each of them once.")


def path_weights(
    p: Float[Tensor, "token d"], g: Float[Tensor, "token d"], delta: Float[Tensor, " token"]
) -> dict[PathName, Float[Tensor, "token token d"]]:
    """The weights G, A and B of equations (11), (14) and (15) for i <= t, and zeros after."""
    G, A, B = (p.new_zeros(len(p), len(p), p.shape[-1]) for _ in PATHS)
    p_tilde = p + torch.log(delta)[:, None]
    g_tilde = -functional.softplus(g) * delta[:, None]
    for t in range(len(p)):
        past = slice(t + 1)
        mass = torch.exp(p_tilde[past] - p_tilde[past].amax(0))
        G[t, past] = mass / mass.sum(0)
        A[t, past] = torch.stack([torch.exp(g_tilde[i + 1 : t + 1].sum(0)) for i in range(t + 1)])
        B[t, past] = (delta[past] / delta[past].sum())[:, None]
    return {"riemann": G, "prefix": A, "clock": B}


def rotation_matrix(t: int, omega: Float[Tensor, " pair"], width: int) -> Float[Tensor, "{width} {width}"]:
    """R_t of equation (8); a last channel without partner is left alone."""
    R = torch.eye(width, dtype=omega.dtype)
    for pair, w in enumerate(omega):
        a, b = 2 * pair, 2 * pair + 1
        R[a, a], R[a, b] = torch.cos(t * w), -torch.sin(t * w)
        R[b, a], R[b, b] = torch.sin(t * w), torch.cos(t * w)
    return R


def reference(
    q: Float[Tensor, "token d"],
    k: Float[Tensor, "token d"],
    v: Float[Tensor, "token e"],
    p: Float[Tensor, "token d"],
    g: Float[Tensor, "token d"],
    delta: Float[Tensor, " token"],
    omega: Float[Tensor, " pair"] | None = None,
    paths: tuple[PathName, ...] = PATHS,
    normaliser: Literal["linear", "softmax"] = "linear",
) -> Float[Tensor, "token e"]:
    """Equations (8) to (17), pair by pair; `omega` defaults to the frequencies of base 10000."""
    omega = frequencies(q.shape[-1]).to(q.dtype) if omega is None else omega
    R = [rotation_matrix(t, omega, q.shape[-1]) for t in range(len(q))]
    q_hat, k_hat = (torch.stack([R[t] @ x[t] for t in range(len(x))]) for x in (q, k))
    Lambda = torch.stack([weights for path, weights in path_weights(p, g, delta).items() if path in paths]).sum(0)
    out = []
    for t in range(len(q)):
        alpha = (Lambda[t, : t + 1] * k_hat[: t + 1]) @ q_hat[t]
        if normaliser == "softmax":
            alpha = torch.softmax(alpha / q.shape[-1] ** 0.5, dim=0)
        out.append(alpha @ v[: t + 1])
    return torch.stack(out)


def fast(
    q: Heads, k: Heads, v: Values, signals: Signals, paths: tuple[PathName, ...] = PATHS, form: Form = stable_path
) -> Values:
    """Equation (17) with phi the identity, at linear cost; q and k are turned already.

    Short sequences take all paths side by side, and so do small ones where a kernel runs. Others go row by row and
    path by path, and keep nothing for the gradient but what is given here.
    """
    kernel = kernel_fits(v)
    if v.shape[-2] < LONG or (kernel and v.numel() <= KEPT_BY_KERNEL):
        return apply_path(concatenate_paths([form(path, q, k, signals) for path in paths]), v)
    rows = [
        None if part is None else part.expand(*v.shape[:3], -1, -1).flatten(0, 2)[:, None, None]
        for part in (q, k, v, *signals)
    ]
    # A compiler would unroll the pieces, and finds its own way through memory.
    pieces = [rows]
    if not torch.compiler.is_compiling():
        size = max(1, (HELD_BY_KERNEL if kernel else HELD) // q[0, 0, 0].numel())
        begins = range(0, v[..., 0, 0].numel(), size)
        pieces = [[None if part is None else part[begin : begin + size] for part in rows] for begin in begins]
    out = [torch.stack([recompute(_mix_path, form, path, *piece) for path in paths]).sum(0) for piece in pieces]
    return torch.cat(out).view(v.shape)


# Outside of `fast`: a compiler can't follow a closure that is computed again in the backward pass.
def _mix_path(form: Form, path: PathName, q: Tensor, k: Tensor, v: Tensor, *signals: Any) -> Tensor:
    return apply_path(form(path, q, k, Signals(*signals)), v)


class Layer(Bare):
    """Multi-head CAPS."""

    def __init__(self, site: Site, settings: Settings) -> None:
        need_one_time_axis("caps", site)
        softmax, as_released = settings.normaliser == "softmax", settings.numerics == "released"
        causal = not as_released or not (softmax or "riemann" in settings.paths)
        if site.causal and not causal:
            raise SettingsError(
                "caps with numerics='released' lets later tokens in, as the authors' code does, "
                f"but {site.host}'s tokens may not look ahead; use numerics='stable'."
            )
        super().__init__(site)
        self.settings = settings
        self.form = released_path if as_released else stable_path
        inner = site.heads * site.per_head
        self.signal_widths = [inner * ("riemann" in settings.paths), inner * ("prefix" in settings.paths), site.heads]
        self.signals = nn.Linear(site.width, sum(self.signal_widths), bias=False)
        start(self.signals)
        self.rotary = None if settings.rotation == "none" else Rotary(site, settings.rotation)
        self.claims = Claims(causal=causal, needs_time_order=True, linear_in_tokens=not softmax, takes_bias=softmax)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> Mixture:
        whole = self._by_one_kernel(q, k, v, inputs)
        if whole is not None:
            return whole, inputs.carry
        found = self._signals(inputs)
        # Sums of exponentials, and what is divided by them, need the digits of float32 whatever the layer runs in.
        with full_precision(v.device):
            q, k = self._turn(q, k, inputs, found)
            if self.settings.normaliser == "softmax":
                weights = functional.dropout(self._softmax(q, k, inputs, found), self.site.dropout, self.training)
                out = weights @ _wide(v)
            else:
                out = fast(q, k, _wide(v), found, self.settings.paths, self.form)
        # Sums that no normaliser divides stay wide up to the output map, whose numbers are small.
        return out if v.dtype == torch.float16 else out.to(v.dtype), inputs.carry

    def operator(self, q: Tensor, k: Tensor, inputs: Inputs) -> Weights:
        found = self._signals(inputs)
        with full_precision(q.device):
            dtype = q.dtype
            q, k = self._turn(q, k, inputs, found)
            if self.settings.normaliser == "softmax":
                return self._softmax(q, k, inputs, found).to(dtype)
            return {path: score_path(self.form(path, q, k, found)).tril().to(dtype) for path in self.settings.paths}

    def _raw(self, x: Tokens) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """p, g and the clock before its softplus [batch, group, head, token, width], None without their paths."""
        parts = self.signals(x).split(self.signal_widths, dim=-1)
        p, g, clock = (
            part.unflatten(-1, (self.site.heads, -1)).transpose(2, 3) if size else None
            for part, size in zip(parts, self.signal_widths, strict=True)
        )
        assert clock is not None
        return p, g, clock

    def _signals(self, inputs: Inputs) -> Signals:
        p, g, clock = self._raw(inputs.x)
        real = None if inputs.mask is None else inputs.mask[:, :, None, :, None]
        p, g = (None if part is None else _wide(part) for part in (p, g))
        return Signals(functional.softplus(_wide(clock)) + EPS, p, g, real)

    def _by_one_kernel(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> Heads | None:
        """All of it by one kernel, which knows no padding, no other times and no turns that learn; None elsewhere."""
        plain = self.settings.normaliser == "linear" and self.settings.numerics == "stable"
        turns = self.rotary is None or self.rotary.table is not None
        alone = inputs.mask is None and inputs.bias is None and inputs.ages is None
        if not (plain and turns and alone and own_kernels_run(q, k, v)):
            return None
        from rearview.attention.kernels.clocked import LONGEST, WIDEST, attend_clocked

        if q.shape[-2] > LONGEST or max(q.shape[-1], v.shape[-1]) > WIDEST:
            return None
        paths = self.settings.paths
        p, g, clock = self._raw(inputs.x)
        # A path may be silenced after the layer was made, with its map still there.
        p, g = (
            None if part is None or path not in paths else widen(part).flatten(0, 1)
            for part, path in ((p, "riemann"), (g, "prefix"))
        )
        table = None if self.rotary is None or self.rotary.table is None else self.rotary.table[:, : q.shape[-2]]
        q, k, v, clock = (widen(part) for part in (q, k, v, clock))
        rows = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
        return attend_clocked(*rows, p, g, clock.flatten(0, 1).squeeze(-1), table, "clock" in paths).view(v.shape)

    def _turn(self, q: Tensor, k: Tensor, inputs: Inputs, found: Signals) -> tuple[Tensor, Tensor]:
        if inputs.bias is not None and not self.claims.takes_bias:
            raise SettingsError(
                "caps with normaliser='linear' has no scores to add a bias to; use normaliser='softmax', or rbca."
            )
        q, k = _wide(q), _wide(k)
        if self.rotary is not None:
            q, k = self.rotary(q, k, inputs.ages)
        return q, fill_padding(k, found, 0.0)

    def _softmax(
        self, q: Tensor, k: Tensor, inputs: Inputs, found: Signals
    ) -> Float[Tensor, "batch group head query key"]:
        path = concatenate_paths([self.form(path, q, k, found) for path in self.settings.paths])
        both_ways = self.settings.numerics == "released"
        width = path.q.shape[-1] if both_ways else self.site.per_head
        alpha = score_path(path) * width**-0.5
        if inputs.bias is not None:
            alpha = alpha + inputs.bias
        if inputs.mask is not None:
            alpha = alpha + pad_bias(inputs.mask, alpha.dtype)
        if not both_ways:
            alpha = alpha + causal_bias(alpha.shape[-1], alpha)
        return alpha.softmax(-1)


def _wide(x: Tensor) -> Tensor:
    """x in float32, or float64 where it is."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
