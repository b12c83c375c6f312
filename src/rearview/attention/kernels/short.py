"""Attention over a short axis: one program holds all scores of one head in registers, forward and backward.

At 12 to 128 tokens the general fused kernels spend their time on tiling and launches, an order of magnitude above what
the bytes ask for. Here a program loads the queries, keys and values of one head once, forms the whole score matrix,
and writes the result once; the backward pass forms it again, so nothing but the inputs is kept and no sum needs a
second program. Inputs are read where they lie (views of one projection), so no copy is made either.

    S = Q K^T s + M,   P = softmax(S),   O = (P * D) V

Dropout's D is 0 or 1 / (1 - rate), and 1 throughout without dropout. A counter-based generator draws it, so backward
draws the same one from the same seed. The seed is read on the device: a CUDA graph that draws it anew at every replay
drops other weights every time.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.library import triton_op, wrap_triton

from rearview.attention.kernels import Wrap, plain
from rearview.attention.kernels._tiles import block, like, packed, precision, put, tile

LONGEST = 128
"""The longest axis; on smaller chips, half of it."""
WIDEST = 128
CRAMPED = 64
"""Above it in both tokens and width, backward's six tiles of float32 take 384 KiB of a chip's 227 of shared memory; on
smaller chips, above half of it."""


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
def _normal(s):
    """Rows of weights that sum to 1: the softmax of whole rows of scores."""
    p = tl.exp(s - tl.max(s, 1)[:, None])
    return p / tl.sum(p, 1)[:, None]


@triton.jit
def _kept(seed, rate, TOKENS: tl.constexpr):
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
    qb, qh, qt, kb, kh, kt, vb, vh, vt, mb, mh, mi, mj, ob, oh, ot,
    heads, tokens, scale, rate, key_width, value_width,
    BIASED: tl.constexpr, CAUSAL: tl.constexpr, DROPS: tl.constexpr,
    TOKENS: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(0).to(tl.int64) // heads, tl.program_id(0).to(tl.int64) % heads
    q = tile(Q + b * qb + h * qh, tokens, key_width, qt, TOKENS, KEY)
    k = tile(K + b * kb + h * kh, tokens, key_width, kt, TOKENS, KEY)
    v = tile(V + b * vb + h * vh, tokens, value_width, vt, TOKENS, VALUE)
    s = _scores(q, k, M + b * mb + h * mh, mi, mj, tokens, scale, BIASED, CAUSAL, TOKENS, PRECISION)
    p = _normal(s)
    if DROPS:
        p *= _kept(SEED, rate, TOKENS)
    o = tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
    put(OUT + b * ob + h * oh, o, tokens, value_width, ot, TOKENS, VALUE)


@triton.jit
def _backward(
    Q, K, V, M, SEED, G, DQ, DK, DV,
    qb, qh, qt, kb, kh, kt, vb, vh, vt, mb, mh, mi, mj, gb, gh, gt, dqb, dqh, dqt, dkb, dkh, dkt, dvb, dvh, dvt,
    heads, tokens, scale, rate, key_width, value_width,
    BIASED: tl.constexpr, CAUSAL: tl.constexpr, DROPS: tl.constexpr,
    TOKENS: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(0).to(tl.int64) // heads, tl.program_id(0).to(tl.int64) % heads
    q = tile(Q + b * qb + h * qh, tokens, key_width, qt, TOKENS, KEY)
    k = tile(K + b * kb + h * kh, tokens, key_width, kt, TOKENS, KEY)
    v = tile(V + b * vb + h * vh, tokens, value_width, vt, TOKENS, VALUE)
    g = tile(G + b * gb + h * gh, tokens, value_width, gt, TOKENS, VALUE)
    s = _scores(q, k, M + b * mb + h * mh, mi, mj, tokens, scale, BIASED, CAUSAL, TOKENS, PRECISION)
    p = _normal(s)
    used = p
    if DROPS:
        kept = _kept(SEED, rate, TOKENS)
        used = p * kept
    dv = tl.dot(tl.trans(used.to(g.dtype)), g, input_precision=PRECISION)
    put(DV + b * dvb + h * dvh, dv, tokens, value_width, dvt, TOKENS, VALUE)
    dp = tl.dot(g, tl.trans(v), input_precision=PRECISION)
    if DROPS:
        dp *= kept
    ds = p * (dp - tl.sum(p * dp, 1)[:, None])
    ds = (ds * scale).to(q.dtype)
    dq = tl.dot(ds, k, input_precision=PRECISION)
    put(DQ + b * dqb + h * dqh, dq, tokens, key_width, dqt, TOKENS, KEY)
    dk = tl.dot(tl.trans(ds), q, input_precision=PRECISION)
    put(DK + b * dkb + h * dkh, dk, tokens, key_width, dkt, TOKENS, KEY)


def _sizes(q: Tensor, v: Tensor) -> dict[str, Any]:
    tokens = block(q.shape[2])
    return {
        "TOKENS": tokens,
        "KEY": block(q.shape[3]),
        "VALUE": block(v.shape[3]),
        "PRECISION": precision(q.dtype),
        "num_warps": {16: 1, 32: 2, 64: 4}.get(tokens, 8),
    }


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
    """P V of q, k [batch, head, token, key_width] and v [batch, head, token, value_width]; no gradient for the bias.

    Weights are dropped at `rate` where there is a seed, a tensor of one integer.
    """
    if torch.compiler.is_compiling():
        return short_attention(q, k, v, bias, seed, scale, rate, causal)
    return _Eager.apply(q, k, v, bias, seed, scale, rate, causal)


class _Eager(torch.autograd.Function):
    """The same without the dispatcher, which costs more than the kernel at these sizes."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, seed: Tensor | None,
        scale: float, rate: float, causal: bool,
    ) -> Tensor:  # fmt: skip
        ctx.save_for_backward(q, k, v, bias, seed)
        ctx.scale, ctx.rate, ctx.causal = scale, rate, causal
        return _run_forward(q, k, v, bias, seed, scale, rate, causal, plain)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias, seed = ctx.saved_tensors
        made = _run_backward(packed(g), q, k, v, bias, seed, ctx.scale, ctx.rate, ctx.causal, plain)
        return (*made, None, None, None, None, None)


def _run_forward(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, seed: Tensor | None,
    scale: float, rate: float, causal: bool, wrap: Wrap,
) -> Tensor:  # fmt: skip
    out = like(v)
    m, strides = _bias_strides(bias, q)
    wrap(_forward)[(q.shape[0] * q.shape[1],)](
        q, k, v, m, q if seed is None else seed, out,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *strides, *out.stride()[:3],
        q.shape[1], q.shape[2], scale, rate, q.shape[3], v.shape[3],
        BIASED=bias is not None, CAUSAL=causal, DROPS=seed is not None, **_sizes(q, v),
    )  # fmt: skip
    return out


def _run_backward(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, seed: Tensor | None,
    scale: float, rate: float, causal: bool, wrap: Wrap,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    m, strides = _bias_strides(bias, q)
    wrap(_backward)[(q.shape[0] * q.shape[1],)](
        q, k, v, m, q if seed is None else seed, g, dq, dk, dv,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *strides, *g.stride()[:3],
        *dq.stride()[:3], *dk.stride()[:3], *dv.stride()[:3],
        q.shape[1], q.shape[2], scale, rate, q.shape[3], v.shape[3],
        BIASED=bias is not None, CAUSAL=causal, DROPS=seed is not None, **_sizes(q, v),
    )  # fmt: skip
    return dq, dk, dv


@triton_op("rearview::short_attention", mutates_args={})
def short_attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, seed: Tensor | None, scale: float, rate: float, causal: bool
) -> Tensor:
    """`attend_short` as an operator that torch.compile can see into."""
    return _run_forward(q, k, v, bias, seed, scale, rate, causal, wrap_triton)


@triton_op("rearview::short_attention_backward", mutates_args={})
def short_attention_backward(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, seed: Tensor | None,
    scale: float, rate: float, causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of q, k and v."""
    return _run_backward(g, q, k, v, bias, seed, scale, rate, causal, wrap_triton)


def _remember(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.scale, ctx.rate, ctx.causal = inputs
    ctx.save_for_backward(*tensors)


def _gradients(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
    made = short_attention_backward(packed(g), *ctx.saved_tensors, ctx.scale, ctx.rate, ctx.causal)
    return (*made, None, None, None, None, None)


short_attention.register_autograd(_gradients, setup_context=_remember)
