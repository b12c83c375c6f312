"""MICA's two paths and an MLP gate in one kernel, where no gradient is wanted.

    H = relu([A; L; Q] W_in^T + b_in),   H = relu(H W_mid^T + b_mid) where there is a middle,   O = H W_out^T + b_out

with A and L as `memory` has them; with residual scores, L's queries and keys are wider by those of earlier layers than
those that the memory and the MLP are asked with. What the MLP reads and what it holds inside are many times its result,
and are never written. One program takes the tokens of as many channels of one head as fill a tile, so that the matrices
are read once for all of them; scores between channels are hidden.
"""

from functools import partial
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from rearview.attention.kernels import Wrap, plain
from rearview.attention.kernels.memory import EPS, features, sum_memory
from rearview.attention.kernels.operator import register
from rearview.attention.kernels.short import normal
from rearview.attention.kernels.tiles import block, precision, roomy, single, tile

ROWS = 64
"""Tokens of a tile; double where a channel has more."""
WARPS = 4
"""Of a program with so many rows."""
WIDEST = 64
"""The widest heads, and INNER the widest MLP, whose matrices fit beside the tiles on a large chip; on others none."""
INNER = 128
SCORED = 128
"""The widest queries and keys with those of earlier layers beside them."""


class Maps(NamedTuple):
    """The linear maps of an MLP gate, weights as torch has them: [out, in]."""

    first: Tensor
    first_bias: Tensor
    middle: Tensor | None
    middle_bias: Tensor | None
    last: Tensor
    last_bias: Tensor


@triton.jit
def _lines(start, first, end, tokens, group, token, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Rows `first` to `end` of the tokens of all channels, as [ROWS, COLUMNS] numbers, 0 outside."""
    r, c = first + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    at = (r // tokens).to(tl.int64) * group + r % tokens * token
    return tl.load(start + at[:, None] + c[None, :], mask=(r[:, None] < end) & (c[None, :] < columns), other=0.0)


@triton.jit
def _line(start, count, SIZE: tl.constexpr):
    c = tl.arange(0, SIZE)
    return tl.load(start + c, mask=c < count, other=0.0).to(tl.float32)[None, :]


@triton.jit
def _map(x, total, W, outputs, inputs, stride, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr, PRECISION: tl.constexpr):
    """total + x W^T, in the type that x comes in."""
    w = tile(W, outputs, inputs, stride, OUTPUTS, INPUTS).to(x.dtype)
    return tl.dot(x, tl.trans(w), total, input_precision=PRECISION)


@triton.jit
def _forward(
    Q, SQ, SK, V, M, MEMORY, FIRST, FIRST_BIAS, MIDDLE, MIDDLE_BIAS, LAST, LAST_BIAS, OUT,
    qb, qg, qh, qt, sqb, sqg, sqh, sqt, skb, skg, skh, skt, vb, vg, vh, vt, mh, mi, mj, ob, og, oh, ot,
    first_row, middle_row, last_row, groups, heads, tokens, together, tiles, scale,
    key_width, score_width, value_width, inner,
    BIASED: tl.constexpr, CARRIED: tl.constexpr, ASKS: tl.constexpr, DEEP: tl.constexpr, ROWS: tl.constexpr,
    KEY: tl.constexpr, SCORE: tl.constexpr, VALUE: tl.constexpr, INNER: tl.constexpr,
    PRECISION: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64)
    b, h, n = at // tiles // heads, at // tiles % heads, (at % tiles).to(tl.int32)
    start = n * together * tokens
    end = tl.minimum(start + together * tokens, groups * tokens)
    q = _lines(Q + b * qb + h * qh, start, end, tokens, qg, qt, key_width, ROWS, KEY)
    sk = _lines(SK + b * skb + h * skh, start, end, tokens, skg, skt, score_width, ROWS, SCORE)
    v = _lines(V + b * vb + h * vh, start, end, tokens, vg, vt, value_width, ROWS, VALUE)

    sq = q
    if CARRIED:
        sq = _lines(SQ + b * sqb + h * sqh, start, end, tokens, sqg, sqt, score_width, ROWS, SCORE)
    s = tl.dot(sq, tl.trans(sk), input_precision=PRECISION) * single(scale)
    i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, ROWS)[None, :]
    if BIASED:
        s += tl.load(M + h * mh + i % tokens * mi + j % tokens * mj).to(tl.float32)
    # A row that is not there sees itself: none may be empty.
    s = tl.where((i // tokens == j // tokens) & (j < end - start) | (i == j), s, float("-inf"))
    local = tl.dot(normal(s).to(v.dtype), v, input_precision=PRECISION)
    MEMORY += (b * heads + h) * (value_width + 1) * key_width
    m, phi = tile(MEMORY, value_width, key_width, key_width, VALUE, KEY), features(q)
    under = tl.sum(phi * _line(MEMORY + value_width * key_width, key_width, KEY), 1) + EPS
    a = tl.dot(phi, tl.trans(m), input_precision=EXACT) / under[:, None]

    x = tl.zeros((ROWS, INNER), tl.float32) + _line(FIRST_BIAS, inner, INNER)
    x = _map(a.to(q.dtype), x, FIRST, inner, value_width, first_row, INNER, VALUE, PRECISION)
    x = _map(local.to(q.dtype), x, FIRST + value_width, inner, value_width, first_row, INNER, VALUE, PRECISION)
    if ASKS:
        x = _map(q, x, FIRST + 2 * value_width, inner, key_width, first_row, INNER, KEY, PRECISION)
    x = tl.maximum(x, 0.0).to(q.dtype)
    if DEEP:
        y = tl.zeros((ROWS, INNER), tl.float32) + _line(MIDDLE_BIAS, inner, INNER)
        x = tl.maximum(_map(x, y, MIDDLE, inner, inner, middle_row, INNER, INNER, PRECISION), 0.0).to(q.dtype)
    y = tl.zeros((ROWS, VALUE), tl.float32) + _line(LAST_BIAS, value_width, VALUE)
    y = _map(x, y, LAST, value_width, inner, last_row, VALUE, INNER, PRECISION)

    r, c = start + tl.arange(0, ROWS), tl.arange(0, VALUE)
    places = (r // tokens).to(tl.int64) * og + r % tokens * ot
    inside = (r[:, None] < end) & (c[None, :] < value_width)
    tl.store(OUT + b * ob + h * oh + places[:, None] + c[None, :], y.to(OUT.dtype.element_ty), mask=inside)


def fits(q: Tensor, v: Tensor, scored: Tensor, inner: int) -> bool:
    """Whether heads [..., width], queries with what is carried, and an MLP of this width inside are narrow enough."""
    narrow = max(q.shape[-1], v.shape[-1]) <= WIDEST and scored.shape[-1] <= SCORED
    return roomy(q.device) and narrow and inner <= INNER


def mix_by_perceptron(
    q: Tensor, k: Tensor, v: Tensor, scored: tuple[Tensor, Tensor] | None, bias: Tensor | None, maps: Maps,
    asks: bool, scale: float,
) -> Tensor:  # fmt: skip
    """O of q, k [batch, group, head, token, key_width] and v, without a gradient; `bias` [head or 1, token, token].

    `scored`: queries and keys of the scores where they are wider; where the MLP `asks`, it is given the query too.
    """
    wide_q, wide_k = (None, None) if scored is None else scored
    run = memory_perceptron if torch.compiler.is_compiling() else partial(_run, plain)
    return run(q, k, v, wide_q, wide_k, bias, *maps, asks, scale)


def _run(
    wrap: Wrap, q: Tensor, k: Tensor, v: Tensor, scored_q: Tensor | None, scored_k: Tensor | None,
    bias: Tensor | None, first: Tensor, first_bias: Tensor, middle: Tensor | None, middle_bias: Tensor | None,
    last: Tensor, last_bias: Tensor, asks: bool, scale: float,
) -> Tensor:  # fmt: skip
    batch, groups, heads, tokens, key_width = q.shape
    out = torch.empty(batch, groups, tokens, heads, v.shape[4], dtype=v.dtype, device=v.device).transpose(2, 3)
    wide = q if bias is None else bias.expand(heads, tokens, tokens)
    rows = ROWS if tokens <= ROWS else block(tokens)
    together = rows // tokens
    tiles = -(-groups // together)
    sq, sk = q if scored_q is None else scored_q, k if scored_k is None else scored_k
    wrap(_forward)[(batch * heads * tiles,)](
        q, sq, sk, v, wide, sum_memory(wrap, k, v), first, first_bias, q if middle is None else middle,
        q if middle_bias is None else middle_bias, last, last_bias, out,
        *q.stride()[:4], *sq.stride()[:4], *sk.stride()[:4], *v.stride()[:4], *wide.stride()[:3], *out.stride()[:4],
        first.stride(0), 0 if middle is None else middle.stride(0), last.stride(0),
        groups, heads, tokens, together, tiles, scale, key_width, sk.shape[4], v.shape[4], len(first),
        BIASED=bias is not None, CARRIED=scored_q is not None, ASKS=asks, DEEP=middle is not None, ROWS=rows,
        KEY=block(key_width), SCORE=block(sk.shape[4]), VALUE=block(v.shape[4]), INNER=block(len(first)),
        PRECISION=precision(q.dtype), EXACT=precision(torch.float32), num_warps=WARPS * rows // ROWS,
    )  # fmt: skip
    return out


memory_perceptron = register("memory_perceptron", _run)
