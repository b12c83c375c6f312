"""Prime attention's arithmetic: a key and a value for every pair, never held for all pairs at once.

k_j * F_ij has [batch, query, key, width] numbers. Dense primers therefore work on blocks of queries small enough for
the cache, and graphs on blocks of edges; with more than one block, each is computed again in the backward pass.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rearview.embed import dropout

Rows = Callable[[int, int], Tensor]
"""F of queries a to b: [query, key, head, width], or with a leading batch axis."""


def budget(device: torch.device) -> int:
    """Numbers of k_j * F_ij held at a time: what fits a CPU's cache, or keeps a GPU busy."""
    return 1 << 20 if device.type == "cpu" else 1 << 25


def dense(
    q: Float[Tensor, "batch head query key_width"],
    k: Float[Tensor, "batch head key key_width"],
    v: Float[Tensor, "batch head key value_width"],
    primers: Rows,
    bias: Tensor | None,
    scale: float,
    rate: float = 0.0,
) -> Float[Tensor, "batch head query value_width"]:
    """sum_j softmax_j(scale q_i . (k_j F_ij) + bias_ij) (v_j F_ij), in blocks of queries."""
    batch, heads, queries, width = q.shape
    wide = max(width, v.shape[-1])
    block = max(1, budget(q.device) // (batch * heads * k.shape[2] * wide))
    if queries <= 4 * block:
        return _rows(q, k, v, primers(0, queries), bias, scale, rate)
    parts = []
    for a in range(0, queries, block):
        b = min(a + block, queries)
        part = None if bias is None else bias[..., a:b, :]
        parts.append(_again(_primed_rows, q[:, :, a:b], k, v, primers, a, b, part, scale, rate))
    return torch.cat(parts, dim=2)


def scores(q: Tensor, k: Tensor, primers: Rows, scale: float) -> Float[Tensor, "batch head query key"]:
    """The primed scores of all pairs, block by block."""
    block = max(1, budget(q.device) // (q.shape[0] * q.shape[1] * k.shape[2] * q.shape[3]))
    starts = range(0, q.shape[2], block)
    ends = [min(a + block, q.shape[2]) for a in starts]
    parts = [_scores(q[:, :, a:b], k, primers(a, b), scale) for a, b in zip(starts, ends, strict=True)]
    return torch.cat(parts, dim=2)


def _primed_rows(
    q: Tensor, k: Tensor, v: Tensor, primers: Rows, a: int, b: int, bias: Tensor | None, scale: float, rate: float
) -> Tensor:
    return _rows(q, k, v, primers(a, b), bias, scale, rate)


def _rows(q: Tensor, k: Tensor, v: Tensor, primer: Tensor, bias: Tensor | None, scale: float, rate: float) -> Tensor:
    logits = _scores(q, k, primer, scale)
    weights = (logits if bias is None else logits + bias).softmax(-1)
    weights = dropout(weights, rate, rate > 0)
    values = v[:, :, None] * _headed(primer)[..., : v.shape[-1]]
    return (weights[..., None, :] @ values)[..., 0, :]


def _scores(q: Tensor, k: Tensor, primer: Tensor, scale: float) -> Tensor:
    keys = k[:, :, None] * _headed(primer)[..., : k.shape[-1]]
    return (keys @ q[..., None])[..., 0] * scale


def _headed(primer: Tensor) -> Tensor:
    """[.., query, key, head, width] -> [.., head, query, key, width]."""
    return primer.movedim(-2, -4)


def on_edges(
    q: Float[Tensor, "batch head query key_width"],
    k: Float[Tensor, "batch head key key_width"],
    v: Float[Tensor, "batch head key value_width"],
    edges: Int[Tensor, "2 edge"],
    primers: Rows,
    bias: Tensor | None,
    scale: float,
    rate: float = 0.0,
) -> Float[Tensor, "batch head query value_width"]:
    """The same with the sum over j running along edges (i, j) only: cost and memory grow with the edges."""
    weights = dropout(edge_weights(q, k, edges, primers, bias, scale), rate, rate > 0)
    out = torch.zeros(*q.shape[:3], v.shape[-1], dtype=v.dtype, device=v.device)
    for a, b in _spans(q, v, edges):
        out = out.index_add(2, edges[0, a:b], _again(_edge_values, v, weights[..., a:b], edges[1, a:b], primers, a, b))
    return out


def edge_weights(
    q: Tensor, k: Tensor, edges: Tensor, primers: Rows, bias: Tensor | None, scale: float
) -> Float[Tensor, "batch head edge"]:
    """softmax over the edges of each query."""
    spans = _spans(q, k, edges)
    logits = torch.cat([_again(_edge_scores, q, k, edges[:, a:b], primers, a, b, scale) for a, b in spans], dim=-1)
    if bias is not None:
        logits = logits + bias[..., edges[0], edges[1]]
    query = edges[0].expand_as(logits)
    top = torch.full(q.shape[:3], -torch.inf, dtype=logits.dtype, device=logits.device)
    top = top.scatter_reduce(2, query, logits.detach(), "amax")
    mass = torch.exp(logits - top.gather(2, query))
    total = torch.zeros_like(top).scatter_add(2, query, mass)
    return mass / total.gather(2, query)


def _spans(q: Tensor, other: Tensor, edges: Tensor) -> list[tuple[int, int]]:
    wide = max(q.shape[-1], other.shape[-1])
    block = max(1, budget(q.device) // (q.shape[0] * q.shape[1] * wide))
    count = edges.shape[1]
    return [(a, min(a + block, count)) for a in range(0, count, block)]


def _edge_scores(q: Tensor, k: Tensor, edges: Tensor, primers: Rows, a: int, b: int, scale: float) -> Tensor:
    primer = primers(a, b).transpose(0, 1)[..., : k.shape[-1]]
    return (q[:, :, edges[0]] * k[:, :, edges[1]] * primer).sum(-1) * scale


def _edge_values(v: Tensor, weights: Tensor, keys: Tensor, primers: Rows, a: int, b: int) -> Tensor:
    return weights[..., None] * v[:, :, keys] * primers(a, b).transpose(0, 1)[..., : v.shape[-1]]


def _again(function: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """Call now, and call again in the backward pass instead of keeping what lies between."""
    if not torch.is_grad_enabled():
        return function(*arguments)
    return checkpoint(function, *arguments, use_reentrant=False)
