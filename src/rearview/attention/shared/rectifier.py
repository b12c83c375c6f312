"""Weights that are no softmax: rectified scores, with hidden pairs, a bias and a norm over the keys.

Shared by the mechanisms that put max(0, .) in the place of softmax's exponential and normaliser: toa, hyperglu.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from rearview.attention.contract import Heads, Mask
from rearview.attention.shared.fused import drop_seed, fits_long_kernel, fits_short_kernel, own_kernels_run

ScoreNorm = Literal["none", "l2", "mean"]


def visible_pairs(mask: Mask | None, bias: Tensor | None, earlier: Tensor | None) -> Tensor | None:
    """The pairs that a query may use, broadcastable to [batch, group, head, query, key]; None: all of them.

    Left out are padded keys, later tokens where `earlier` [query, key] is given, and pairs that the bias puts at -inf.
    """
    pairs = earlier
    if mask is not None:
        real = mask[:, :, None, None, :]
        pairs = real if pairs is None else pairs & real
    if bias is not None:
        kept = bias > -torch.inf
        pairs = kept if pairs is None else pairs & kept
    return pairs


def rectify(scores: Tensor, bias: Tensor | None, pairs: Tensor | None, norm: ScoreNorm) -> Tensor:
    """max(0, norm(scores + bias)) on the pairs that are shown, 0 on the others.

    `l2` divides a row of scores by its length, `mean` divides the weights by the number of keys that are shown.
    """
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    if pairs is not None:
        scores = torch.where(pairs, scores, 0.0)
    if norm == "l2":
        scores = functional.normalize(scores, dim=-1)
    weights = scores.relu()
    if norm != "mean":
        return weights
    if pairs is None:
        return weights / scores.shape[-1]
    return weights / pairs.broadcast_to(scores.shape).sum(-1, keepdim=True).clamp(min=1)


def weigh_by_kernel(
    q: Tensor, k: Tensor, v: Heads, mask: Mask | None, scale: float, causal: bool, kind: str, dropout: float
) -> Heads | None:
    """max(0, scores) v, times softplus of a second branch's scores where the kind is gated; None where no kernel fits.

    Queries and keys are [branch, batch, group, head, token, width]; a share `dropout` of the weights is dropped.
    """
    if not own_kernels_run(q, k, v):
        return None
    from rearview.attention.kernels.short import spacious, weigh_short
    from rearview.attention.kernels.tiles import pack

    heads = v.shape
    rows, real = (q.flatten(1, 2), k.flatten(1, 2), v.flatten(0, 1)), None if mask is None else mask.flatten(0, 1)
    if fits_short_kernel(q, v) and (kind == "relu" or spacious(q, v)):
        hidden = None
        if real is not None:
            hidden = torch.zeros_like(real, dtype=q.dtype).masked_fill(~real, -torch.inf)[:, None, None, :]
        q, k, v = map(pack, rows)
        return weigh_short(q, k, v, hidden, scale, causal, kind, drop_seed(q, dropout), dropout).view(heads)
    if fits_long_kernel(q, k, v, dropout):
        from rearview.attention.kernels.long import attend_long

        return attend_long(*rows, None, None, real, scale, causal, kind).view(heads)
    return None
