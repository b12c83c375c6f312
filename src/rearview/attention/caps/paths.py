"""The three paths of CAPS as queries, keys and gates, the stable form and the authors', and what is made of them."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from rearview.attention.caps.recurrence import mix_chunks, score_pairs
from rearview.attention.linear import attend_chunks
from rearview.attention.shared.execution import cut

PathName = Literal["riemann", "prefix", "clock"]
PATHS: tuple[PathName, ...] = ("riemann", "prefix", "clock")
EPS = 1e-6
"""Added to the clock in equation (7); no clock stands still."""
LOW = -1e30
"""The logarithm of nothing, finite so that differences of two of them are 0 and not NaN."""
SCAN = 128
"""Tokens summed one after the other: a GPU has one thread for each such run."""


class Signals(NamedTuple):
    """The signals of a token beside query, key and value, for all heads, and which tokens are real."""

    delta: Tensor
    """The clock Delta [batch, group, head, token, 1]."""
    p: Tensor | None
    """The log-weights of the riemann path [batch, group, head, token, head_width], where there is such a path."""
    g: Tensor | None
    """The rate at which the prefix path fades [batch, group, head, token, head_width], where there is such a path."""
    real: Tensor | None
    """False on padding [batch, group, 1, token, 1]."""


class Path(NamedTuple):
    """One path: alpha[t,i] = sum_c q[t,c] k[i,c] exp( sum_(i<j<=t) log_gate[j,c] ); no gate is a gate of 1."""

    q: Tensor
    k: Tensor
    log_gate: Tensor | None


Form = Callable[[PathName, Tensor, Tensor, Signals], Path]
"""Makes a path of queries, keys and signals."""


def fill_padding(x: Tensor, signals: Signals, value: float) -> Tensor:
    """x with another value on padding."""
    return x if signals.real is None else x.masked_fill(~signals.real, value)


def stable_path(name: PathName, q: Tensor, k: Tensor, signals: Signals) -> Path:
    """A path as a recurrence whose gates and weights are at most 1; padding neither adds nor fades."""
    if name == "prefix":
        assert signals.g is not None
        decay = -functional.softplus(signals.g) * signals.delta
        return Path(q, k, fill_padding(decay.clamp(min=LOW), signals, 0.0))
    score = signals.delta.log()
    if name == "riemann":
        assert signals.p is not None
        score = signals.p + score
    log_gate, weight = average_gates(fill_padding(score, signals, LOW))
    return Path(q, weight * k, log_gate.expand_as(k))


def average_gates(score: Tensor) -> tuple[Tensor, Tensor]:
    """Log-gate and input weight of the recurrence that weighs i by exp(score_i) / sum_(j<=t) exp(score_j)."""
    so_far = log_cumulative_sum(score)
    before = functional.pad(so_far[..., :-1, :], (0, 0, 1, 0), value=LOW) - score
    return functional.logsigmoid(before), torch.sigmoid(-before)


def log_cumulative_sum(score: Tensor) -> Tensor:
    """ln sum_(j<=t) exp(score_j), by runs of tokens whose ends are summed the same way."""
    tokens = score.shape[-2]
    if tokens <= SCAN:
        return torch.logcumsumexp(score, dim=-2)
    runs = cut(score, -2, SCAN, value=LOW)
    within = torch.logcumsumexp(runs, dim=-2)
    before = functional.pad(log_cumulative_sum(within[..., -1, :])[..., :-1, :], (0, 0, 1, 0), value=LOW)
    return torch.logaddexp(within, before.unsqueeze(-2)).flatten(-3, -2)[..., :tokens, :]


def released_path(name: PathName, q: Tensor, k: Tensor, signals: Signals) -> Path:
    """A path as the authors compute it: equations (10), (13) and (15) with their clip and epsilons."""
    delta = fill_padding(signals.delta, signals, 0.0)
    if name == "clock":
        # The bound is that of a single clock: it holds where nothing but padding came before.
        return Path(q / delta.cumsum(-2).clamp(min=EPS), delta * k, None)
    if name == "prefix":
        assert signals.g is not None
        gamma = (-functional.softplus(signals.g) * delta).cumsum(-2).clamp(-50.0, 40.0).exp()
        return Path(q * gamma, k / (gamma + 1e-8), None)
    assert signals.p is not None
    score = fill_padding(signals.p + signals.delta.log(), signals, LOW)
    mass = (score - score.amax(-2, keepdim=True)).exp()
    return Path(q / (mass.cumsum(-2) + 1e-8), mass * k, None)


def concatenate_paths(paths: list[Path]) -> Path:
    """Equation (16): several paths as one with as many times the channels."""
    gates = [path.log_gate for path in paths if path.log_gate is not None]
    q, k = torch.cat([path.q for path in paths], dim=-1), torch.cat([path.k for path in paths], dim=-1)
    return Path(q, k, torch.cat(gates, dim=-1) if gates else None)


def apply_path(path: Path, v: Tensor) -> Tensor:
    """sum_(i<=t) alpha[t,i] v_i, at a cost linear in the number of tokens."""
    if path.log_gate is None:
        return attend_chunks(path.q, path.k, v)[0]
    return mix_chunks(path.q, path.k, v, path.log_gate)


def score_path(path: Path) -> Tensor:
    """alpha[t,i] of all pairs; without gates, of i > t as well."""
    if path.log_gate is None:
        return path.q @ path.k.transpose(-1, -2)
    return score_pairs(path.q, path.k, path.log_gate)
