"""Linear attention whose memory fades channel by channel, without a number that can overflow.

    S_t = diag(exp(a_t)) S_(t-1) + k_t v_t^T,   o_t = S_t^T q_t,   a_t <= 0
    o_t = sum_(i<=t) s[t,i] v_i,   s[t,i] = sum_c q[t,c] k[i,c] exp( sum_(i<j<=t) a[j,c] )

Dividing keys by the product of gates up to them (exp(a_1 + .. + a_i)) would make this plain linear attention, but that
product underflows after some fifty tokens. Here every exponent is a sum of gates between two tokens: <= 0, and never a
difference of two large sums, so no digit is lost next to a gate of -1e6 either.

Within a chunk, blocks are joined two by two, from single tokens up. For t in the right block and i in the left one the
exponent splits at the border between them, sum_(i<j<=border) + sum_(border<j<=t), one part for the key and one for the
query: scores are plain products, and no [token, token, channel] weights are ever held. Between chunks runs the state
S, itself by groups of chunks and groups of groups, so cost is linear in the number of tokens and nothing is sequential.
On a GPU the same runs as a kernel of ours (`kernels/caps.py`).
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from rearview.attention.kernels import available
from rearview.attention.shared.execution import cut

CHUNK = 16
GROUP = 16

Channels = Float[Tensor, "*batch token channel"]
Values = Float[Tensor, "*batch token value"]
States = Float[Tensor, "*batch token channel value"]


def mix_chunks(q: Channels, k: Channels, v: Values, log_gate: Channels) -> Values:
    """o, by chunks."""
    if kernel_fits(v):
        from rearview.attention.kernels import caps

        return caps.mix(q, k, v, log_gate)
    tokens = q.shape[-2]
    q, k, v, log_gate = (cut(part, -2, CHUNK) for part in (q, k, v, log_gate))
    scores, since, until = score_chunks(q, k, log_gate)
    out = scores @ v
    if tokens > CHUNK:
        added = (k * until.exp()).transpose(-1, -2) @ v
        out = out + (q * since.exp()) @ _before(scan_states(since[..., -1, :], added))
    return out.flatten(-3, -2)[..., :tokens, :]


def kernel_fits(v: Tensor) -> bool:
    """Whether the kernel can run where these values are."""
    if v.dtype != torch.float32 or not available(v.device) or v.numel() == 0:
        return False
    from rearview.attention.kernels.caps import WIDEST

    return v.shape[-1] <= WIDEST


def score_pairs(q: Channels, k: Channels, log_gate: Channels) -> Float[Tensor, "*batch token token"]:
    """s[t,i] for all pairs of tokens, 0 for i > t."""
    tokens = q.shape[-2]
    padding = (1 << (tokens - 1).bit_length()) - tokens
    q, k, log_gate = (functional.pad(part, (0, 0, 0, padding)) for part in (q, k, log_gate))
    return score_chunks(q, k, log_gate)[0][..., :tokens, :tokens]


def score_chunks(
    q: Channels, k: Channels, log_gate: Channels
) -> tuple[Float[Tensor, "*batch token token"], Channels, Channels]:
    """Scores s[t,i] of 2^m tokens; gates summed from the start to each token, and from after each to the end."""
    scores = (q * k).sum(-1)[..., None, None]
    since, until = log_gate, torch.zeros_like(log_gate)
    size = 1
    while size < q.shape[-2]:
        left_since, right_since = _halves(since, size)
        left_until, right_until = _halves(until, size)
        left_keys = _halves(k, size)[0] * left_until.exp()
        right_queries = _halves(q, size)[1] * right_since.exp()
        across = right_queries @ left_keys.transpose(-1, -2)
        left, right = _cut(scores, -3, 2).unbind(-3)
        scores = torch.cat([functional.pad(left, (0, size)), torch.cat([across, right], dim=-1)], dim=-2)
        since = _join(left_since, right_since + left_since[..., -1:, :])
        until = _join(left_until + right_since[..., -1:, :], right_until)
        size *= 2
    return scores.squeeze(-3), since, until


def scan_states(log_gate: Channels, added: States) -> States:
    """S_n = diag(exp(a_n)) S_(n-1) + added_n, for every n: by groups, whose ends make the same recurrence again."""
    count = log_gate.shape[-2]
    if count <= GROUP:
        return _states_of_a_group(log_gate, added)
    log_gate, added = cut(log_gate, -2, GROUP), cut(added, -3, GROUP)
    within = _states_of_a_group(log_gate, added)
    since = log_gate.cumsum(-2)
    ends = scan_states(since[..., -1, :], within[..., -1, :, :])
    carried = since.exp().unsqueeze(-1) * _before(ends).unsqueeze(-3)
    return (within + carried).flatten(-4, -3)[..., :count, :, :]


def _states_of_a_group(log_gate: Channels, added: States) -> States:
    # Few enough to weigh every pair: [n, m, channel] weights exp(sum_(m<j<=n) a_j), each sum by itself.
    count = log_gate.shape[-2]
    later = torch.ones(count, count, dtype=torch.bool, device=log_gate.device).tril(-1)[..., None]
    between = log_gate.unsqueeze(-2).masked_fill(~later, 0).cumsum(-3)
    weights = between.exp().masked_fill(later.transpose(0, 1), 0)
    return torch.einsum("...nmc,...mcv->...ncv", weights, added)


def _before(states: States) -> States:
    return functional.pad(states[..., :-1, :, :], (0, 0, 0, 0, 1, 0))


def _halves(x: Tensor, size: int) -> tuple[Tensor, ...]:
    return _cut(_cut(x, -2, size), -3, 2).unbind(-3)


def _cut(x: Tensor, dim: int, size: int) -> Tensor:
    return torch.unflatten(x, dim, (x.shape[dim] // size, size))


def _join(left: Tensor, right: Tensor) -> Tensor:
    return torch.stack([left, right], dim=-3).flatten(-4, -2)
