"""Prime attention's arithmetic: a key and a value for every pair, never held for all pairs at once.

k_j * F_ij has [batch, query, key, width] numbers. Dense primers therefore work on blocks of queries small enough for
the cache, and graphs on blocks of edges; with more than one block, each is computed again in the backward pass. On a
GPU a kernel of ours holds no pair at all (`kernels/prime.py`), and blocks are for the primers' own sake.
"""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rearview.attention.kernels import available
from rearview.attention.shared import execution
from rearview.attention.shared.execution import block_spans, recompute
from rearview.attention.shared.graph import softmax_by_query
from rearview.embed import dropout

Rows = Callable[[int, int], Tensor]
"""F of edges a to b: [edge, head, width]."""
FreeRows = Callable[[int, int, Tensor | None], Tensor]
"""F of queries a to b [query, key, head, width], or with a leading batch axis, given their free terms."""


PRIMERS_HELD = 1 << 24
"""Primers made at a time where a kernel applies them; what their making leaves for backward is some 6 times as much."""


def dense(
    q: Float[Tensor, "batch head query key_width"],
    k: Float[Tensor, "batch head key key_width"],
    v: Float[Tensor, "batch head key value_width"],
    primers: FreeRows,
    bias: Tensor | None,
    scale: float,
    rate: float = 0.0,
    free: Tensor | None = None,
    windows: int = 1,
) -> Float[Tensor, "batch head query value_width"]:
    """sum_j softmax_j(scale q_i . (k_j F_ij) + bias_ij) (v_j F_ij), in blocks of queries.

    `free` is what F's free terms are cut from, and `windows` how many F there are.
    """
    queries, (block, twice) = q.shape[2], _block(q, k, v, windows)
    if queries <= block:
        return attended(q, k, v, primers(0, queries, None), bias, scale, rate)
    # Cut once: a slice taken in each block would leave a gradient of full size behind every time.
    biases = None if bias is None else bias.split(block, dim=-2)
    frees = None if free is None else (*free.split(block), *[free[:0]] * (queries // block + 1))
    seeds = _seeds(queries // block + 1, q.device) if rate > 0 and kernel_fits(q, k, v) else None
    draws = rate > 0 and seeds is None
    call: Callable[..., Tensor] = partial(recompute, _primed_rows, random=draws) if twice else _primed_rows
    parts = []
    for n, rows in enumerate(q.split(block, dim=2)):
        at = n * block, n * block + rows.shape[2]
        given = (None if part is None else part[n] for part in (frees, biases, seeds))
        parts.append(call(rows, k, v, primers, at, *given, scale, rate))
    return torch.cat(parts, dim=2)


def attended(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    primer: Tensor,
    bias: Tensor | None,
    scale: float,
    rate: float = 0.0,
    seed: Tensor | None = None,
) -> Float[Tensor, "batch head query value_width"]:
    """The same with all primers at hand; a seed says which weights the kernel drops."""
    if kernel_fits(q, k, v):
        from rearview.attention.kernels.prime import attend_primed

        seed = _seeds(1, q.device)[0] if rate > 0 and seed is None else seed
        return attend_primed(q, k, v, primer, bias, scale, seed, rate)
    logits = _scores(q, k, primer, scale)
    weights = (logits if bias is None else logits + bias).softmax(-1)
    weights = dropout(weights, rate, rate > 0)
    # Products of a row and a matrix for every query are slower than their elements summed, here and in the scores.
    values = v[:, :, None] * _headed(primer)[..., : v.shape[-1]]
    return (weights[..., None] * values).sum(-2)


def kernel_fits(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether the kernel can run on these."""
    if not available(q.device) or min(*q.shape, *k.shape, *v.shape) == 0:
        return False
    from rearview.attention.kernels.prime import WIDEST

    known = all(part.dtype in (torch.float32, torch.bfloat16, torch.float16) for part in (q, k, v))
    return known and max(q.shape[-1], v.shape[-1]) <= WIDEST


def _block(q: Tensor, k: Tensor, v: Tensor, windows: int) -> tuple[int, bool]:
    """Queries worked on at a time, and whether so much is left for backward that blocks are computed twice."""
    batch, heads, queries, width = q.shape
    per_query = heads * k.shape[2] * max(width, v.shape[-1])
    if kernel_fits(q, k, v):
        return max(1, PRIMERS_HELD // (windows * per_query)), True
    if torch.compiler.is_compiling():
        # A compiler finds its own way through memory, in a graph that must not depend on the size of a batch.
        return queries, False
    block = max(1, execution.budget(q.device) // max(1, batch * per_query))
    return block, queries > 8 * block


def _seeds(count: int, device: torch.device) -> Tensor:
    return torch.randint(1 << 31, (count, 1), device=device)


def scores(q: Tensor, k: Tensor, primers: FreeRows, scale: float) -> Float[Tensor, "batch head query key"]:
    """The primed scores of all pairs, block by block."""
    each = q.shape[0] * q.shape[1] * k.shape[2] * q.shape[3]
    at = block_spans(q.shape[2], each, q.device)
    return torch.cat([_scores(q[:, :, a:b], k, primers(a, b, None), scale) for a, b in at], dim=2)


def _primed_rows(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    primers: FreeRows,
    at: tuple[int, int],
    free: Tensor | None,
    bias: Tensor | None,
    seed: Tensor | None,
    scale: float,
    rate: float,
) -> Tensor:
    return attended(q, k, v, primers(*at, free), bias, scale, rate, seed)


def _scores(q: Tensor, k: Tensor, primer: Tensor, scale: float) -> Tensor:
    keys = k[:, :, None] * _headed(primer)[..., : k.shape[-1]]
    return (keys * q[..., None, :]).sum(-1) * scale


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
    # In float32, where sums under autocast would end: a sum is of one type, and rounded once.
    wide = torch.promote_types(v.dtype, torch.float32)
    out = torch.zeros(*q.shape[:3], v.shape[-1], dtype=wide, device=v.device)
    for a, b in _spans(q, v, edges):
        part = recompute(_edge_values, v, weights[..., a:b], edges[1, a:b], primers, a, b)
        out = out.index_add(2, edges[0, a:b], part.to(wide))
    return out.to(v.dtype)


def edge_weights(
    q: Tensor, k: Tensor, edges: Tensor, primers: Rows, bias: Tensor | None, scale: float
) -> Float[Tensor, "batch head edge"]:
    """softmax over the edges of each query."""
    at = _spans(q, k, edges)
    logits = torch.cat([recompute(_edge_scores, q, k, edges[:, a:b], primers, a, b, scale) for a, b in at], dim=-1)
    if bias is not None:
        logits = logits + bias[..., edges[0], edges[1]]
    return softmax_by_query(logits, edges[0], q.shape[2])


def _spans(q: Tensor, other: Tensor, edges: Tensor) -> list[tuple[int, int]]:
    each = q.shape[0] * q.shape[1] * max(q.shape[-1], other.shape[-1])
    return block_spans(edges.shape[1], each, q.device)


def _edge_scores(q: Tensor, k: Tensor, edges: Tensor, primers: Rows, a: int, b: int, scale: float) -> Tensor:
    primer = primers(a, b).transpose(0, 1)[..., : k.shape[-1]]
    return (q[:, :, edges[0]] * k[:, :, edges[1]] * primer).sum(-1) * scale


def _edge_values(v: Tensor, weights: Tensor, keys: Tensor, primers: Rows, a: int, b: int) -> Tensor:
    return weights[..., None] * v[:, :, keys] * primers(a, b).transpose(0, 1)[..., : v.shape[-1]]
