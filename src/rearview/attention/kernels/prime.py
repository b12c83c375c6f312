"""Prime attention with primers at hand: a key and a value for every pair, made in registers and never written down.

    S_ij = s sum_c q_ic k_jc F_ijc + M_ij,   P = softmax(S),   o_ic = sum_j P_ij v_jc F_ijc

The literal form holds k * F and v * F, [batch, head, query, key, width], several times over. Here a program takes some
queries of one head, reads each primer once, and keeps a running softmax. Rows of a batch share their primers and run
next to one another, so F comes from memory once and from the cache for the others.

Backward runs in three passes, so that every gradient is written by one program and no sum depends on who came first:
`_primer_gradient` forms P and the scores' gradient again, writes both down ([batch, head, query, key], a width smaller
than what the literal form holds) and adds up dF over the batch; `_query_gradient` and `_key_value_gradient` read them.

Dropout zeroes weights by a counter-based generator, so backward draws the same ones from the same seed.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rearview.attention.kernels import Wrap
from rearview.attention.kernels.operator import Operator
from rearview.attention.kernels.tiles import like, pack, single

WIDEST = 128
"""The widest heads that a program can hold."""


@triton.jit
def _rows(start, n, stride, c, count, width):
    """Rows n of [row, width], 0 outside the tensor."""
    inside = (n[:, None] < count) & (c[None, :] < width)
    return tl.load(start + n[:, None] * stride + c[None, :], mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _put(start, values, n, stride, c, count, width):
    inside = (n[:, None] < count) & (c[None, :] < width)
    tl.store(start + n[:, None] * stride + c[None, :], values.to(start.dtype.element_ty), mask=inside)


@triton.jit
def _primers(start, i, j, query_stride, key_stride, c, queries, keys, width):
    """F of queries i and keys j: [query, key, width]."""
    inside = (i[:, None, None] < queries) & (j[None, :, None] < keys) & (c[None, None, :] < width)
    at = i[:, None, None] * query_stride + j[None, :, None] * key_stride + c[None, None, :]
    return tl.load(start + at, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _scores(q, k, f, bias, i, j, bias_row, bias_column, queries, keys, BIASED: tl.constexpr):
    """S, -inf where there is no key."""
    s = tl.sum(q[:, None, :] * (k[None, :, :] * f), 2)
    if BIASED:
        inside = (i[:, None] < queries) & (j[None, :] < keys)
        s += tl.load(bias + i[:, None] * bias_row + j[None, :] * bias_column, mask=inside, other=0.0).to(tl.float32)
    return tl.where(j[None, :] < keys, s, float("-inf"))


@triton.jit
def _draw_dropout(seed, row, i, j, queries, keys, rate):
    """The factors that dropout multiplies the weights by."""
    rate = single(rate)
    drawn = tl.rand(tl.load(seed), (row * queries + i[:, None]) * keys + j[None, :])
    return tl.where(drawn < rate, 0.0, 1.0 / (1.0 - rate))


@triton.jit
def _forward(
    Q, K, V, F, M, SEED, OUT, TOTAL,
    qb, qh, qt, kb, kh, kt, vb, vh, vt, fb, fi, fj, fh, mb, mh, mi, mj, ob, oh, ot,
    heads, queries, keys, key_width, value_width, primer_width, scale, rate,
    BIASED: tl.constexpr, DROPS: tl.constexpr, WIDTH: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(0).to(tl.int64), tl.program_id(2).to(tl.int64)
    i, c = tl.program_id(1) * QUERIES + tl.arange(0, QUERIES), tl.arange(0, WIDTH)
    q = _rows(Q + b * qb + h * qh, i, qt, c, queries, key_width) * single(scale)
    top, total = tl.full([QUERIES], float("-inf"), tl.float32), tl.zeros([QUERIES], tl.float32)
    out = tl.zeros([QUERIES, WIDTH], tl.float32)
    for start in range(0, keys, KEYS):
        j = start + tl.arange(0, KEYS)
        k = _rows(K + b * kb + h * kh, j, kt, c, keys, key_width)
        v = _rows(V + b * vb + h * vh, j, vt, c, keys, value_width)
        f = _primers(F + b * fb + h * fh, i, j, fi, fj, c, queries, keys, primer_width)
        s = _scores(q, k, f, M + b * mb + h * mh, i, j, mi, mj, queries, keys, BIASED)
        higher = tl.maximum(top, tl.max(s, 1))
        # Nothing seen so far: any finite number keeps the exponents from inf - inf.
        level = tl.where(higher == float("-inf"), 0.0, higher)
        shrink, p = tl.exp(top - level), tl.exp(s - level[:, None])
        total = total * shrink + tl.sum(p, 1)
        if DROPS:
            p *= _draw_dropout(SEED, b * heads + h, i, j, queries, keys, rate)
        out = out * shrink[:, None] + tl.sum(p[:, :, None] * (v[None, :, :] * f), 1)
        top = higher
    _put(OUT + b * ob + h * oh, out / total[:, None], i, ot, c, queries, value_width)
    tl.store(TOTAL + (b * heads + h) * queries + i, top + tl.log(total), mask=i < queries)


@triton.jit
def _primer_gradient(
    Q, K, V, F, M, SEED, G, TOTAL, ALONG, P, DS, DF,
    qb, qh, qt, kb, kh, kt, vb, vh, vt, fb, fi, fj, fh, mb, mh, mi, mj, gb, gh, gt, db, di, dj, dh,
    heads, queries, keys, key_width, value_width, primer_width, scale, rate, rows,
    BIASED: tl.constexpr, DROPS: tl.constexpr, WIDTH: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(keys, KEYS)
    h, group, c = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64), tl.arange(0, WIDTH)
    i = tl.program_id(0) // blocks * QUERIES + tl.arange(0, QUERIES)
    j = tl.program_id(0) % blocks * KEYS + tl.arange(0, KEYS)
    f = _primers(F + group * fb + h * fh, i, j, fi, fj, c, queries, keys, primer_width)
    df = tl.zeros([QUERIES, KEYS, WIDTH], tl.float32)
    inside = (i[:, None] < queries) & (j[None, :] < keys)
    for b in range(group, group + rows):
        row = b * heads + h
        q = _rows(Q + b * qb + h * qh, i, qt, c, queries, key_width) * single(scale)
        k = _rows(K + b * kb + h * kh, j, kt, c, keys, key_width)
        v = _rows(V + b * vb + h * vh, j, vt, c, keys, value_width)
        g = _rows(G + b * gb + h * gh, i, gt, c, queries, value_width)
        total = tl.load(TOTAL + row * queries + i, mask=i < queries, other=0.0)
        along = tl.load(ALONG + row * queries + i, mask=i < queries, other=0.0)
        s = _scores(q, k, f, M + b * mb + h * mh, i, j, mi, mj, queries, keys, BIASED)
        p = tl.exp(s - total[:, None])
        dp = tl.sum(g[:, None, :] * (v[None, :, :] * f), 2)
        used = p
        if DROPS:
            kept = _draw_dropout(SEED, row, i, j, queries, keys, rate)
            used, dp = p * kept, dp * kept
        ds = p * (dp - along[:, None])
        df += ds[:, :, None] * (q[:, None, :] * k[None, :, :]) + used[:, :, None] * (g[:, None, :] * v[None, :, :])
        at = (row * queries + i[:, None]) * keys + j[None, :]
        tl.store(P + at, used, mask=inside)
        tl.store(DS + at, ds, mask=inside)
    written = inside[:, :, None] & (c[None, None, :] < primer_width)
    at = group * db + h * dh + i[:, None, None] * di + j[None, :, None] * dj + c[None, None, :]
    tl.store(DF + at, df.to(DF.dtype.element_ty), mask=written)


@triton.jit
def _query_gradient(
    K, F, DS, DQ,
    kb, kh, kt, fb, fi, fj, fh, qb, qh, qt, heads, queries, keys, key_width, primer_width, scale,
    WIDTH: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(0).to(tl.int64), tl.program_id(2).to(tl.int64)
    i, c = tl.program_id(1) * QUERIES + tl.arange(0, QUERIES), tl.arange(0, WIDTH)
    dq = tl.zeros([QUERIES, WIDTH], tl.float32)
    for start in range(0, keys, KEYS):
        j = start + tl.arange(0, KEYS)
        k = _rows(K + b * kb + h * kh, j, kt, c, keys, key_width)
        f = _primers(F + b * fb + h * fh, i, j, fi, fj, c, queries, keys, primer_width)
        inside = (i[:, None] < queries) & (j[None, :] < keys)
        at = ((b * heads + h) * queries + i[:, None]) * keys + j[None, :]
        ds = tl.load(DS + at, mask=inside, other=0.0)
        dq += tl.sum(ds[:, :, None] * (k[None, :, :] * f), 1)
    _put(DQ + b * qb + h * qh, dq * single(scale), i, qt, c, queries, key_width)


@triton.jit
def _key_value_gradient(
    Q, F, G, P, DS, DK, DV,
    qb, qh, qt, fb, fi, fj, fh, gb, gh, gt, kb, kh, kt, vb, vh, vt,
    heads, queries, keys, key_width, value_width, primer_width, scale,
    WIDTH: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(0).to(tl.int64), tl.program_id(2).to(tl.int64)
    j, c = tl.program_id(1) * KEYS + tl.arange(0, KEYS), tl.arange(0, WIDTH)
    dk, dv = tl.zeros([KEYS, WIDTH], tl.float32), tl.zeros([KEYS, WIDTH], tl.float32)
    for start in range(0, queries, QUERIES):
        i = start + tl.arange(0, QUERIES)
        q = _rows(Q + b * qb + h * qh, i, qt, c, queries, key_width)
        g = _rows(G + b * gb + h * gh, i, gt, c, queries, value_width)
        f = _primers(F + b * fb + h * fh, i, j, fi, fj, c, queries, keys, primer_width)
        inside = (i[:, None] < queries) & (j[None, :] < keys)
        at = ((b * heads + h) * queries + i[:, None]) * keys + j[None, :]
        ds, p = tl.load(DS + at, mask=inside, other=0.0), tl.load(P + at, mask=inside, other=0.0)
        dk += tl.sum(ds[:, :, None] * (q[:, None, :] * f), 0)
        dv += tl.sum(p[:, :, None] * (g[:, None, :] * f), 0)
    _put(DK + b * kb + h * kh, dk * single(scale), j, kt, c, keys, key_width)
    _put(DV + b * vb + h * vh, dv, j, vt, c, keys, value_width)


BLOCKS = {"forward": (1, 16, 1), "primer": (2, 16, 2), "query": (1, 16, 1), "key": (2, 16, 2)}
"""Queries and keys that a program of each kernel works on at a time, and its warps."""


def _block(kind: str, primer: Tensor) -> dict[str, int]:
    queries, keys, warps = BLOCKS[kind]
    width = triton.next_power_of_2(int(primer.shape[-1]))
    return {"WIDTH": width, "QUERIES": queries, "KEYS": keys, "num_warps": warps}


def _primer_strides(primer: Tensor) -> tuple[int, ...]:
    """Of batch, query, key and head; one primer for the whole batch has a stride of 0."""
    return (primer.stride(0) if len(primer) > 1 else 0, *primer.stride()[1:4])


def _bias_strides(bias: Tensor | None, q: Tensor, keys: int) -> tuple[int, ...]:
    return (0, 0, 0, 0) if bias is None else bias.expand(*q.shape[:3], keys).stride()


def _run_forward(
    wrap: Wrap, q: Tensor, k: Tensor, v: Tensor, primer: Tensor, bias: Tensor | None, seed: Tensor | None,
    scale: float, rate: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    batch, heads, queries, _ = q.shape
    out = like(q, v.shape[-1])
    total = torch.empty(batch, heads, queries, dtype=torch.float32, device=q.device)
    block = _block("forward", primer)
    wrap(_forward)[(batch, triton.cdiv(queries, block["QUERIES"]), heads)](
        q, k, v, primer, q if bias is None else bias, q if seed is None else seed, out, total,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *_primer_strides(primer),
        *_bias_strides(bias, q, k.shape[2]), *out.stride()[:3],
        heads, queries, k.shape[2], k.shape[3], v.shape[3], primer.shape[-1], scale, rate,
        BIASED=bias is not None, DROPS=seed is not None, **block,
    )  # fmt: skip
    return out, total


def _run_backward(
    wrap: Wrap, g: Tensor, q: Tensor, k: Tensor, v: Tensor, primer: Tensor, bias: Tensor | None,
    seed: Tensor | None, out: Tensor, total: Tensor, scale: float, rate: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of q, k, v, the primers and the scores."""
    batch, heads, queries, _ = q.shape
    keys, widths = k.shape[2], (k.shape[3], v.shape[3], primer.shape[-1])
    along = (g.float() * out.float()).sum(-1)
    weights = torch.empty(batch, heads, queries, keys, dtype=torch.float32, device=q.device)
    dscores, dprimer = torch.empty_like(weights), torch.empty_like(primer, memory_format=torch.contiguous_format)
    dq, dk, dv = like(q), like(k), like(v)
    of_primer, sizes = _primer_strides(primer), (heads, queries, keys)
    block = _block("primer", primer)
    blocks = triton.cdiv(queries, block["QUERIES"]) * triton.cdiv(keys, block["KEYS"])
    wrap(_primer_gradient)[(blocks, heads, len(primer))](
        q, k, v, primer, q if bias is None else bias, q if seed is None else seed, g, total, along,
        weights, dscores, dprimer,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *of_primer, *_bias_strides(bias, q, keys), *g.stride()[:3],
        *dprimer.stride()[:4], *sizes, *widths, scale, rate, batch // len(primer),
        BIASED=bias is not None, DROPS=seed is not None, **block,
    )  # fmt: skip
    block = _block("query", primer)
    wrap(_query_gradient)[(batch, triton.cdiv(queries, block["QUERIES"]), heads)](
        k, primer, dscores, dq, *k.stride()[:3], *of_primer, *dq.stride()[:3],
        *sizes, widths[0], widths[2], scale, **block,
    )  # fmt: skip
    block = _block("key", primer)
    wrap(_key_value_gradient)[(batch, triton.cdiv(keys, block["KEYS"]), heads)](
        q, primer, g, weights, dscores, dk, dv,
        *q.stride()[:3], *of_primer, *g.stride()[:3], *dk.stride()[:3], *dv.stride()[:3],
        *sizes, *widths, scale, **block,
    )  # fmt: skip
    return dq, dk, dv, dprimer, dscores


def attend_primed(
    q: Tensor, k: Tensor, v: Tensor, primer: Tensor, bias: Tensor | None, scale: float, seed: Tensor | None, rate: float
) -> Tensor:
    """P v F of q, k, v [batch, head, token, ..] and F [query, key, head, width], or with a leading batch axis.

    Weights are dropped at `rate` where there is a seed, a tensor of one integer.
    """
    primer = primer if primer.dim() == 5 else primer[None]
    return primed_attention(*map(pack, (q, k, v, primer)), bias, seed, scale, rate)


class _WithBias(Operator):
    """The bias has the scores' gradient, summed over what it is broadcast along."""

    def gradients(self, run: Callable[..., Any], ctx, pull: Tensor, needs: Sequence[bool]) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        *made, dscores = run(pull, *saved, *ctx.settings)
        bias = saved[4]
        dbias = None if bias is None or not needs[4] else dscores.sum_to_size(bias.shape).to(bias.dtype)
        return (*made, dbias, None, None, None)


primed_attention = _WithBias("primed_attention", _run_forward, _run_backward, tensors=6, keep=slice(None))
