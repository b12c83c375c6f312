"""Attention over a short axis: one program holds all scores of one head in registers, forward and backward.

At 12 to 128 tokens the general fused kernels spend their time on tiling and launches, an order of magnitude above what
the bytes ask for. Here a program loads the queries, keys and values of one head once, forms the whole score matrix,
and writes the result once; the backward pass forms it again, so nothing but the inputs is kept and no sum needs a
second program. Inputs are read where they lie (views of one projection), so no copy is made either.

    S = Q K^T s + M,   P = softmax(S), relu(S), or softplus(R) relu(S),   O = (P * D) V

R are the scores of a second branch of queries and keys, without M. Dropout's D is 0 or 1 / (1 - rate), and 1 throughout
without dropout. A counter-based generator draws it, so backward draws the same one from the same seed. The seed is read
on the device: a CUDA graph that draws it anew at every replay drops other weights every time.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rearview.attention.kernels import Wrap
from rearview.attention.kernels.long import pull_gated, weigh_gated
from rearview.attention.kernels.operator import Operator
from rearview.attention.kernels.tiles import block, like, precision, put, roomy, single, tile

LONGEST = 128
"""The longest axis; on smaller chips, half of it."""
WIDEST = 128
CRAMPED = 64
"""Above it in both tokens and width, backward's six tiles of float32 take 384 KiB of a chip's 227 of shared memory; on
smaller chips, above half of it."""
AREA = 2048
"""Tokens times width of a tile, up to which backward passes of twice as many tiles fit too; on smaller chips, half."""
WARPS = {16: 1, 32: 2, 64: 4}
"""Of a program, by the tokens of its tile; eight above."""


@triton.jit
def _scores(
    q, k, bias, bias_row, bias_column, tokens, scale,
    BIASED: tl.constexpr, CAUSAL: tl.constexpr, TOKENS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """S = Q K^T s + M, -inf where there is no key."""
    s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    i, j = tl.arange(0, TOKENS)[:, None], tl.arange(0, TOKENS)[None, :]
    if BIASED:
        inside = (i < tokens) & (j < tokens)
        s += tl.load(bias + i * bias_row + j * bias_column, mask=inside, other=0.0).to(tl.float32)
    seen = (j < tokens) & (i >= j) if CAUSAL else j < tokens
    return tl.where(seen, s, float("-inf"))


@triton.jit
def normal(s):
    """Rows of weights that sum to 1: the softmax of whole rows of scores."""
    p = tl.exp(s - tl.max(s, 1)[:, None])
    return p / tl.sum(p, 1)[:, None]


@triton.jit
def _weights(s, r, KIND: tl.constexpr):
    """P, from scores that are -inf on hidden pairs."""
    if KIND == "softmax":
        p = normal(s)
    elif KIND == "relu":
        p = tl.maximum(s, 0.0)
    else:
        p = weigh_gated(s, r)
    return p


@triton.jit
def _draw_dropout(seed, rate, TOKENS: tl.constexpr):
    """D of this program's head: what dropout multiplies the weights by."""
    row = tl.program_id(0).to(tl.int64)
    i, group = tl.arange(0, TOKENS)[:, None], tl.arange(0, TOKENS // 4)[None, :]
    # The generator makes four numbers at a time, in many instructions: all four are used, for four keys side by side.
    a, b, c, d = tl.rand4x(tl.load(seed), (row * TOKENS + i) * (TOKENS // 4) + group)
    drawn = tl.reshape(tl.join(tl.join(a, b), tl.join(c, d)), [TOKENS, TOKENS])
    return tl.where(drawn < rate, 0.0, 1.0 / (1.0 - rate))


@triton.jit
def _forward(
    Q, K, V, M, SEED, OUT,
    qs, qb, qh, qt, ks, kb, kh, kt, vb, vh, vt, mb, mh, mi, mj, ob, oh, ot,
    heads, tokens, scale, rate, key_width, value_width,
    KIND: tl.constexpr, BIASED: tl.constexpr, CAUSAL: tl.constexpr, DROPS: tl.constexpr,
    TOKENS: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(0).to(tl.int64) // heads, tl.program_id(0).to(tl.int64) % heads
    Q, K, scale, rate = Q + b * qb + h * qh, K + b * kb + h * kh, single(scale), single(rate)
    q = tile(Q, tokens, key_width, qt, TOKENS, KEY)
    k = tile(K, tokens, key_width, kt, TOKENS, KEY)
    v = tile(V + b * vb + h * vh, tokens, value_width, vt, TOKENS, VALUE)
    s = _scores(q, k, M + b * mb + h * mh, mi, mj, tokens, scale, BIASED, CAUSAL, TOKENS, PRECISION)
    r = s
    if KIND == "gated":
        q = tile(Q + qs, tokens, key_width, qt, TOKENS, KEY)
        k = tile(K + ks, tokens, key_width, kt, TOKENS, KEY)
        r = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    p = _weights(s, r, KIND)
    if DROPS:
        p *= _draw_dropout(SEED, rate, TOKENS)
    o = tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
    put(OUT + b * ob + h * oh, o, tokens, value_width, ot, TOKENS, VALUE)


@triton.jit
def _backward(
    Q, K, V, M, SEED, G, DQ, DK, DV,
    qs, qb, qh, qt, ks, kb, kh, kt, vb, vh, vt, mb, mh, mi, mj, gb, gh, gt,
    dqs, dqb, dqh, dqt, dks, dkb, dkh, dkt, dvb, dvh, dvt,
    heads, tokens, scale, rate, key_width, value_width,
    KIND: tl.constexpr, BIASED: tl.constexpr, CAUSAL: tl.constexpr, DROPS: tl.constexpr,
    TOKENS: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(0).to(tl.int64) // heads, tl.program_id(0).to(tl.int64) % heads
    Q, K, DQ, DK = Q + b * qb + h * qh, K + b * kb + h * kh, DQ + b * dqb + h * dqh, DK + b * dkb + h * dkh
    scale, rate = single(scale), single(rate)
    q = tile(Q, tokens, key_width, qt, TOKENS, KEY)
    k = tile(K, tokens, key_width, kt, TOKENS, KEY)
    v = tile(V + b * vb + h * vh, tokens, value_width, vt, TOKENS, VALUE)
    g = tile(G + b * gb + h * gh, tokens, value_width, gt, TOKENS, VALUE)
    s = _scores(q, k, M + b * mb + h * mh, mi, mj, tokens, scale, BIASED, CAUSAL, TOKENS, PRECISION)
    r = s
    if KIND == "gated":
        q_gate = tile(Q + qs, tokens, key_width, qt, TOKENS, KEY)
        k_gate = tile(K + ks, tokens, key_width, kt, TOKENS, KEY)
        r = tl.dot(q_gate, tl.trans(k_gate), input_precision=PRECISION) * scale
    p = _weights(s, r, KIND)
    used = p
    if DROPS:
        kept = _draw_dropout(SEED, rate, TOKENS)
        used = p * kept
    dv = tl.dot(tl.trans(used.to(g.dtype)), g, input_precision=PRECISION)
    put(DV + b * dvb + h * dvh, dv, tokens, value_width, dvt, TOKENS, VALUE)
    dp = tl.dot(g, tl.trans(v), input_precision=PRECISION)
    if DROPS:
        dp *= kept
    if KIND == "softmax":
        ds = p * (dp - tl.sum(p * dp, 1)[:, None])
    elif KIND == "relu":
        ds = tl.where(s > 0, dp, 0.0)
    else:
        ds, dr = pull_gated(s, r, dp)
        _pull_scores(dr * scale, q_gate, k_gate, DQ + dqs, DK + dks, tokens, key_width, dqt, dkt, PRECISION)
    _pull_scores(ds * scale, q, k, DQ, DK, tokens, key_width, dqt, dkt, PRECISION)


@triton.jit
def _pull_scores(ds, q, k, DQ, DK, tokens, key_width, dqt, dkt, PRECISION: tl.constexpr):
    """Write the gradients of queries and keys, from that of their products."""
    ds = ds.to(q.dtype)
    dq = tl.dot(ds, k, input_precision=PRECISION)
    put(DQ, dq, tokens, key_width, dqt, q.shape[0], q.shape[1])
    dk = tl.dot(tl.trans(ds), q, input_precision=PRECISION)
    put(DK, dk, tokens, key_width, dkt, q.shape[0], q.shape[1])


def spacious(q: Tensor, v: Tensor) -> bool:
    """Whether twice as many tiles as a softmax's backward pass has would fit."""
    area = block(q.shape[-2]) * block(max(q.shape[-1], v.shape[-1]))
    return area <= (AREA if roomy(q.device) else AREA // 2)


def _sizes(q: Tensor, v: Tensor) -> dict[str, Any]:
    tokens = block(q.shape[3])
    sizes = {"TOKENS": tokens, "KEY": block(q.shape[4]), "VALUE": block(v.shape[3])}
    return {**sizes, "PRECISION": precision(q.dtype), "num_warps": WARPS.get(tokens, 8)}


def _bias_strides(bias: Tensor | None, part: Tensor) -> tuple[Tensor, tuple[int, int, int, int]]:
    """The bias as it lies, broadcast by strides of 0."""
    if bias is None:
        return part, (0, 0, 0, 0)
    wide = bias.expand(*part.shape[:3], part.shape[2])
    return wide, (wide.stride(0), wide.stride(1), wide.stride(2), wide.stride(3))


def attend_short(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float, causal: bool = False,
    seed: Tensor | None = None, rate: float = 0.0,
) -> Tensor:  # fmt: skip
    """O by softmax, of q, k [row, head, token, key_width] and v [row, head, token, value_width].

    The bias gets no gradient. Weights are dropped at `rate` where there is a seed, a tensor of one integer.
    """
    return weigh_short(q[None], k[None], v, bias, scale, causal, "softmax", seed, rate)


def weigh_short(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float, causal: bool, kind: str,
    seed: Tensor | None = None, rate: float = 0.0,
) -> Tensor:  # fmt: skip
    """The same for any kind of weights; q and k have an axis of branches in front, two for the gated kind."""
    return short_attention(q, k, v, bias, seed, scale, rate, causal, kind)


def run_forward(
    wrap: Wrap, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, seed: Tensor | None,
    scale: float, rate: float, causal: bool, kind: str,
) -> Tensor:  # fmt: skip
    out = like(v)
    m, strides = _bias_strides(bias, v)
    wrap(_forward)[(v.shape[0] * v.shape[1],)](
        q, k, v, m, q if seed is None else seed, out,
        *q.stride()[:4], *k.stride()[:4], *v.stride()[:3], *strides, *out.stride()[:3],
        v.shape[1], v.shape[2], scale, rate, q.shape[4], v.shape[3],
        KIND=kind, BIASED=bias is not None, CAUSAL=causal, DROPS=seed is not None, **_sizes(q, v),
    )  # fmt: skip
    return out


def run_backward(
    wrap: Wrap, g: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, seed: Tensor | None,
    scale: float, rate: float, causal: bool, kind: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    m, strides = _bias_strides(bias, v)
    wrap(_backward)[(v.shape[0] * v.shape[1],)](
        q, k, v, m, q if seed is None else seed, g, dq, dk, dv,
        *q.stride()[:4], *k.stride()[:4], *v.stride()[:3], *strides, *g.stride()[:3],
        *dq.stride()[:4], *dk.stride()[:4], *dv.stride()[:3],
        v.shape[1], v.shape[2], scale, rate, q.shape[4], v.shape[3],
        KIND=kind, BIASED=bias is not None, CAUSAL=causal, DROPS=seed is not None, **_sizes(q, v),
    )  # fmt: skip
    return dq, dk, dv


short_attention = Operator("short_attention", run_forward, run_backward, tensors=5)
