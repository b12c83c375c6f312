"""MICA's global path, fast: one memory M for all channels, in one product per head, and without a channel's own part.

M = sum_c w_c phi(K_c)^T [V_c 1] holds z in its last column. Weights come as logarithms; what is summed are weights over
the largest of them, which cancels between M and z, so that no set of weights overflows or vanishes as a whole.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from rearview.attention.mica.gates import ABSENT, LogWeights, Queries, Values

EPS = 1e-6
LEAST = 1e-12  # the least sum of weights that eps is scaled by: 0 / 0 stays 0 where all weights that are left underflow

Memory = Float[Tensor, "batch head key value"]


def attend_to_all(q: Queries, k: Queries, v: Values, logs: LogWeights | None) -> Values:
    """A_global with a memory of all channels; queries and keys come as features."""
    v = append_ones(v)
    if logs is None:
        return normalise(read(q, remember(k, v)))
    weights = (logs - logs.amax(1, keepdim=True).detach()).exp()
    found = read(q, remember(k * weights[..., None, None], v))
    return normalise(found, weights.sum(1, keepdim=True)[..., None, None])


def attend_to_others(q: Queries, k: Queries, v: Values, logs: LogWeights | None, by_scores: bool) -> Values:
    """A_global with a memory of all channels but one's own, without a memory per channel where `by_scores`.

    Of each head, the channel with the largest part of z is left out of the sum from the start, so that its complement
    is right to the last digit. For any other channel at least half of z, its entries summed, is left by subtraction.
    """
    v = append_ones(v)
    relative = logs is not None
    logs = (q.new_zeros(1, q.shape[1], 1) if logs is None else logs).expand(k.shape[0], -1, k.shape[2])
    index = (logs + k.sum((-1, -2)).log()).argmax(1, keepdim=True)
    heaviest = torch.zeros_like(logs, dtype=torch.bool).scatter(1, index, True)
    without = logs.masked_fill(heaviest, ABSENT)
    largest_left, largest = (part.amax(1, keepdim=True).detach() for part in (without, logs))

    left = (without - largest_left).exp() * ~heaviest
    rest = remember(k * left[..., None, None], v)
    chosen = index[..., None, None]
    # take_along_dim would do, but binds an exported layer to one size of batch.
    q_chosen, k_chosen, v_chosen = (part.gather(1, chosen.expand(-1, -1, -1, *part.shape[3:])) for part in (q, k, v))
    weight = (logs - largest).exp()
    of_rest, of_chosen = (largest_left - largest).exp(), weight.gather(1, index)
    memory = of_rest.mT[..., None] * rest + of_chosen.mT[..., None] * remember(k_chosen, v_chosen)

    own = (q @ k.mT) @ v if by_scores else q @ (k.mT @ v)
    spread = heaviest[..., None, None]
    found = torch.where(spread, read(q_chosen, rest), read(q, memory) - weight[..., None, None] * own)
    if not relative:
        return normalise(found)
    total = torch.where(heaviest, left.sum(1, keepdim=True), sum_of_others(weight))
    return normalise(found, total[..., None, None])


def append_ones(v: Values) -> Tensor:
    """The values and a column of ones, by which M holds z as well."""
    # Laid out head by head, as `remember` multiplies: the copy that padding makes is then the only one.
    return functional.pad(v.transpose(1, 2), (0, 1), value=1.0).transpose(1, 2)


def remember(k: Queries, v: Values) -> Memory:
    """sum over channels and tokens of phi(k)^T v: one product per head, not one per channel."""
    return k.transpose(1, 2).flatten(2, 3).mT @ v.transpose(1, 2).flatten(2, 3)


def read(q: Queries, memory: Memory) -> Values:
    """phi(Q) M for all channels at once; a broadcast product would copy M to each of them."""
    return (q.transpose(1, 2).flatten(2, 3) @ memory).unflatten(2, (q.shape[1], q.shape[3])).transpose(1, 2)


def normalise(found: Tensor, total: Tensor | None = None) -> Tensor:
    """phi(Q) M / (phi(Q) z + eps); weights that sum to `total` instead of 1 scale eps, and nothing else."""
    top, bottom = found[..., :-1], found[..., -1:]
    return top * (bottom + (EPS if total is None else EPS * total.clamp(min=LEAST))).reciprocal()


def sum_of_others(weight: Float[Tensor, "batch group head"]) -> Float[Tensor, "batch group head"]:
    """For each channel the weights of the other ones, without subtraction."""
    before = functional.pad(weight.cumsum(1)[:, :-1], (0, 0, 1, 0))
    after = functional.pad(weight.flip(1).cumsum(1)[:, :-1], (0, 0, 1, 0)).flip(1)
    return before + after


def weigh_tokens(q: Queries, k: Queries, logs: LogWeights | None, exclude_self: bool) -> Tensor:
    """The weight of every token of every channel in A_global [batch, group, head, query, group, key]."""
    channels = q.shape[1]
    relative = logs is not None
    logs = (q.new_zeros(1, channels, 1) if logs is None else logs).transpose(1, 2)[:, None]
    if exclude_self:
        itself = torch.eye(channels, dtype=torch.bool, device=q.device)[:, None, :]
        logs = logs.expand(-1, channels, -1, -1).masked_fill(itself, -torch.inf)
    weights = (logs - logs.amax(-1, keepdim=True)).exp()
    scores = torch.einsum("bghqd,bchkd->bghqck", q, k) * weights[:, :, :, None, :, None]
    total = weights.sum(-1)[..., None, None, None] if relative else 1.0
    return scores / (scores.sum((-1, -2), keepdim=True) + EPS * total)
