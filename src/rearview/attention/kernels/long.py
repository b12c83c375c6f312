"""Attention over a long axis on a GPU: blocks of scores that are formed, used and formed again, never kept.

    S = Q K^T s + f(i - j),   W = softmax(S), relu(S), or softplus(R) relu(S),   O = W V

Torch's fused attention has no relu, reads a bias as a number for every pair, looks at every key, and in float32 runs
far below what tensor cores give. Here a bias of age alone is one vector, keys older than `back` are not visited, so
that time and memory are linear in the number of tokens, and float32 products run in TF32 where the caller allows it.
Kept for the backward pass are the inputs, the output and one number a row. The gradient of f is a sum of dS along
diagonals: one tile for each diagonal of blocks, then a sum in a fixed order.

A program holds one block of queries (or of keys) of one head and walks along the other axis, so that no score outlives
the block it belongs to. Scores are in units of ln 2 for the softmax kind, whose exponentials are then powers of 2.
Hidden pairs are -inf: too young or too old, beyond the end, or padding.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from rearview.attention.kernels import Wrap
from rearview.attention.kernels.operator import Operator
from rearview.attention.kernels.tiles import block, like, pack, precision, put, roomy, single, tile

WIDEST = 128
LOG2E = 1.4426950408889634


@triton.jit
def _place(blocks, heads):
    """Row, head and block of this program; the last blocks, which see the most keys, come first."""
    at = tl.program_id(0).to(tl.int64)
    return at // blocks // heads, at // blocks % heads, (blocks - 1 - at % blocks).to(tl.int32)


@triton.jit
def _bias_scores(
    s, i, j, fading, real, tokens, back,
    KIND: tl.constexpr, CAUSAL: tl.constexpr, AGED: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Scores of queries i and keys j with what is added by age, -inf on hidden pairs."""
    if AGED:
        age = i - j
        s += tl.load(fading + age, mask=(age >= 0) & (age <= back), other=float("-inf"))
    elif CAUSAL:
        s = tl.where(i >= j, s, float("-inf"))
    s = tl.where(j < tokens, s, float("-inf"))
    if PADDED:
        kept = tl.load(real + j, mask=j < tokens, other=0) != 0
        if KIND == "softmax":
            kept = kept | (i == j)  # no row may be empty
        s = tl.where(kept, s, float("-inf"))
    return s


@triton.jit
def _softplus(x):
    """ln(1 + exp(x)), without overflow."""
    return tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def weigh_gated(s, r):
    """Weights of the gated kind, softplus(r) relu(s)."""
    return tl.maximum(s, 0.0) * _softplus(r)


@triton.jit
def pull_gated(s, r, dp):
    """Gradients of s and r from that of the gated weights."""
    return tl.where(s > 0, dp * _softplus(r), 0.0), dp * tl.maximum(s, 0.0) * tl.sigmoid(r)


@triton.jit
def _keys_of(m, tokens, back, QUERIES: tl.constexpr, KEYS: tl.constexpr, CAUSAL: tl.constexpr, AGED: tl.constexpr):
    """The first key that block m of queries sees, on a border of blocks, and the end of its keys."""
    first, end = 0, tokens
    if CAUSAL:
        end = tl.minimum(tokens, (m + 1) * QUERIES)
    if AGED:
        first = tl.maximum(m * QUERIES - back, 0) // KEYS * KEYS
    return first, end


@triton.jit
def forward(
    Q, K, V, FADING, REAL, OUT, NORM,
    qs, qb, qh, qt, ks, kb, kh, kt, vb, vh, vt, fh, rb, ob, oh, ot,
    heads, tokens, back, scale, key_width, value_width,
    KIND: tl.constexpr, CAUSAL: tl.constexpr, AGED: tl.constexpr, PADDED: tl.constexpr, PRECISION: tl.constexpr,
    KEY: tl.constexpr, VALUE: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """O of one block of queries; for the softmax kind also the logarithm of each row's sum, to base 2."""
    scale = single(scale)
    b, h, m = _place(tl.cdiv(tokens, QUERIES), heads)
    K, V, FADING, REAL = K + b * kb + h * kh, V + b * vb + h * vh, FADING + h * fh, REAL + b * rb
    at = m * QUERIES
    Q += b * qb + h * qh + at * qt
    q = tile(Q, tokens - at, key_width, qt, QUERIES, KEY)
    if KIND == "gated":
        q_gate = tile(Q + qs, tokens - at, key_width, qt, QUERIES, KEY)
    i = at + tl.arange(0, QUERIES)
    out = tl.zeros((QUERIES, VALUE), tl.float32)
    top = tl.full((QUERIES,), float("-inf"), tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    first, end = _keys_of(m, tokens, back, QUERIES, KEYS, CAUSAL, AGED)
    for n in range(first, end, KEYS):
        j = n + tl.arange(0, KEYS)
        k = tile(K + n * kt, tokens - n, key_width, kt, KEYS, KEY)
        v = tile(V + n * vt, tokens - n, value_width, vt, KEYS, VALUE)
        s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        s = _bias_scores(s, i[:, None], j[None, :], FADING, REAL, tokens, back, KIND, CAUSAL, AGED, PADDED)
        if KIND == "softmax":
            higher = tl.maximum(top, tl.max(s, 1))
            base = tl.where(higher == float("-inf"), 0.0, higher)  # nothing seen yet
            w = tl.exp2(s - base[:, None])
            fade = tl.exp2(top - base)
            out *= fade[:, None]
            total = total * fade + tl.sum(w, 1)
            top = higher
        elif KIND == "relu":
            w = tl.maximum(s, 0.0)
        else:
            k = tile(K + ks + n * kt, tokens - n, key_width, kt, KEYS, KEY)
            w = weigh_gated(s, tl.dot(q_gate, tl.trans(k), input_precision=PRECISION) * scale)
        out = tl.dot(w.to(v.dtype), v, out, input_precision=PRECISION)
    if KIND == "softmax":
        total = tl.where(total == 0, 1.0, total)  # beyond the end, where nothing is seen
        out = out / total[:, None]
        tl.store(NORM + (b * heads + h) * tokens + i, top + tl.log2(total), mask=i < tokens)
    put(OUT + b * ob + h * oh + at * ot, out, tokens - at, value_width, ot, QUERIES, VALUE)


@triton.jit
def pull_queries(
    Q, K, V, FADING, REAL, OUT, NORM, G, DQ, PULL,
    qs, qb, qh, qt, ks, kb, kh, kt, vb, vh, vt, fh, rb, ob, oh, ot, gb, gh, gt, dqs, dqb, dqh, dqt,
    heads, tokens, back, scale, slope, key_width, value_width,
    KIND: tl.constexpr, CAUSAL: tl.constexpr, AGED: tl.constexpr, PADDED: tl.constexpr, PRECISION: tl.constexpr,
    KEY: tl.constexpr, VALUE: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """The gradient of one block of queries, and rowsum(dO o O), which the other gradients need too."""
    scale, slope = single(scale), single(slope)
    b, h, m = _place(tl.cdiv(tokens, QUERIES), heads)
    K, V, FADING, REAL = K + b * kb + h * kh, V + b * vb + h * vh, FADING + h * fh, REAL + b * rb
    at = m * QUERIES
    Q += b * qb + h * qh + at * qt
    DQ += b * dqb + h * dqh + at * dqt
    q = tile(Q, tokens - at, key_width, qt, QUERIES, KEY)
    g = tile(G + b * gb + h * gh + at * gt, tokens - at, value_width, gt, QUERIES, VALUE)
    i = at + tl.arange(0, QUERIES)
    dq = tl.zeros((QUERIES, KEY), tl.float32)
    if KIND == "softmax":
        row = (b * heads + h) * tokens + i
        norm = tl.load(NORM + row, mask=i < tokens, other=float("inf"))
        o = tile(OUT + b * ob + h * oh + at * ot, tokens - at, value_width, ot, QUERIES, VALUE)
        pull = tl.sum(o.to(tl.float32) * g.to(tl.float32), 1)
        tl.store(PULL + row, pull, mask=i < tokens)
    if KIND == "gated":
        q_gate = tile(Q + qs, tokens - at, key_width, qt, QUERIES, KEY)
        dq_gate = tl.zeros((QUERIES, KEY), tl.float32)
    first, end = _keys_of(m, tokens, back, QUERIES, KEYS, CAUSAL, AGED)
    for n in range(first, end, KEYS):
        j = n + tl.arange(0, KEYS)
        k = tile(K + n * kt, tokens - n, key_width, kt, KEYS, KEY)
        v = tile(V + n * vt, tokens - n, value_width, vt, KEYS, VALUE)
        s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        s = _bias_scores(s, i[:, None], j[None, :], FADING, REAL, tokens, back, KIND, CAUSAL, AGED, PADDED)
        dw = tl.dot(g, tl.trans(v), input_precision=PRECISION)
        if KIND == "softmax":
            ds = tl.exp2(s - norm[:, None]) * (dw - pull[:, None])
        elif KIND == "relu":
            ds = tl.where(s > 0, dw, 0.0)
        else:
            k_gate = tile(K + ks + n * kt, tokens - n, key_width, kt, KEYS, KEY)
            r = tl.dot(q_gate, tl.trans(k_gate), input_precision=PRECISION) * scale
            ds, dr = pull_gated(s, r, dw)
            dq_gate = tl.dot(dr.to(k.dtype), k_gate, dq_gate, input_precision=PRECISION)
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision=PRECISION)
    put(DQ, dq * slope, tokens - at, key_width, dqt, QUERIES, KEY)
    if KIND == "gated":
        put(DQ + dqs, dq_gate * slope, tokens - at, key_width, dqt, QUERIES, KEY)


@triton.jit
def pull_keys(
    Q, K, V, FADING, REAL, NORM, PULL, G, DK, DV,
    qs, qb, qh, qt, ks, kb, kh, kt, vb, vh, vt, fh, rb, gb, gh, gt, dks, dkb, dkh, dkt, dvb, dvh, dvt,
    heads, tokens, back, scale, slope, key_width, value_width,
    KIND: tl.constexpr, CAUSAL: tl.constexpr, AGED: tl.constexpr, PADDED: tl.constexpr, PRECISION: tl.constexpr,
    KEY: tl.constexpr, VALUE: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """The gradients of one block of keys and values; every tile has its keys in rows and its queries in columns."""
    scale, slope = single(scale), single(slope)
    b, h, n = _place(tl.cdiv(tokens, KEYS), heads)
    if CAUSAL:
        n = tl.cdiv(tokens, KEYS) - 1 - n  # here the first blocks are seen by the most queries
    Q, G, FADING, REAL = Q + b * qb + h * qh, G + b * gb + h * gh, FADING + h * fh, REAL + b * rb
    at = n * KEYS
    K += b * kb + h * kh + at * kt
    DK += b * dkb + h * dkh + at * dkt
    k = tile(K, tokens - at, key_width, kt, KEYS, KEY)
    v = tile(V + b * vb + h * vh + at * vt, tokens - at, value_width, vt, KEYS, VALUE)
    j = at + tl.arange(0, KEYS)
    dk = tl.zeros((KEYS, KEY), tl.float32)
    dv = tl.zeros((KEYS, VALUE), tl.float32)
    if KIND == "gated":
        k_gate = tile(K + ks, tokens - at, key_width, kt, KEYS, KEY)
        dk_gate = tl.zeros((KEYS, KEY), tl.float32)
    first, end = 0, tokens
    if CAUSAL:
        first = at // QUERIES * QUERIES
    if AGED:
        end = tl.minimum(tokens, at + KEYS + back)
    for m in range(first, end, QUERIES):
        i = m + tl.arange(0, QUERIES)
        q = tile(Q + m * qt, tokens - m, key_width, qt, QUERIES, KEY)
        g = tile(G + m * gt, tokens - m, value_width, gt, QUERIES, VALUE)
        s = tl.dot(k, tl.trans(q), input_precision=PRECISION) * scale
        s = _bias_scores(s, i[None, :], j[:, None], FADING, REAL, tokens, back, KIND, CAUSAL, AGED, PADDED)
        dw = tl.dot(v, tl.trans(g), input_precision=PRECISION)
        if KIND == "softmax":
            row = (b * heads + h) * tokens + i
            norm = tl.load(NORM + row, mask=i < tokens, other=float("inf"))
            pull = tl.load(PULL + row, mask=i < tokens, other=0.0)
            w = tl.exp2(s - norm[None, :])
            ds = w * (dw - pull[None, :])
        elif KIND == "relu":
            w = tl.maximum(s, 0.0)
            ds = tl.where(s > 0, dw, 0.0)
        else:
            q_gate = tile(Q + qs + m * qt, tokens - m, key_width, qt, QUERIES, KEY)
            r = tl.dot(k_gate, tl.trans(q_gate), input_precision=PRECISION) * scale
            w = weigh_gated(s, r)
            ds, dr = pull_gated(s, r, dw)
            dk_gate = tl.dot(dr.to(q.dtype), q_gate, dk_gate, input_precision=PRECISION)
        dv = tl.dot(w.to(g.dtype), g, dv, input_precision=PRECISION)
        dk = tl.dot(ds.to(q.dtype), q, dk, input_precision=PRECISION)
    put(DV + b * dvb + h * dvh + at * dvt, dv, tokens - at, value_width, dvt, KEYS, VALUE)
    put(DK, dk * slope, tokens - at, key_width, dkt, KEYS, KEY)
    if KIND == "gated":
        put(DK + dks, dk_gate * slope, tokens - at, key_width, dkt, KEYS, KEY)


@triton.jit
def pull_ages(
    Q, K, V, FADING, REAL, NORM, PULL, G, SUMS,
    qs, qb, qh, qt, ks, kb, kh, kt, vb, vh, vt, fh, rb, gb, gh, gt,
    heads, tokens, back, scale, key_width, value_width, diagonals,
    PADDED: tl.constexpr, PRECISION: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, SIDE: tl.constexpr,
):  # fmt: skip
    """The scores' gradient of one row and head, summed along one diagonal of blocks.

    All blocks of a diagonal have the same ages in the same places, so one tile collects them.
    """
    scale = single(scale)
    at = tl.program_id(0).to(tl.int64)
    b, h, diagonal = at // diagonals // heads, at // diagonals % heads, (at % diagonals).to(tl.int32)
    Q, G, K, V = Q + b * qb + h * qh, G + b * gb + h * gh, K + b * kb + h * kh, V + b * vb + h * vh
    FADING, REAL = FADING + h * fh, REAL + b * rb
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for m in range(diagonal * SIDE, tokens, SIDE):
        n = m - diagonal * SIDE
        i, j = m + tl.arange(0, SIDE), n + tl.arange(0, SIDE)
        q = tile(Q + m * qt, tokens - m, key_width, qt, SIDE, KEY)
        g = tile(G + m * gt, tokens - m, value_width, gt, SIDE, VALUE)
        k = tile(K + n * kt, tokens - n, key_width, kt, SIDE, KEY)
        v = tile(V + n * vt, tokens - n, value_width, vt, SIDE, VALUE)
        row = (b * heads + h) * tokens + i
        norm = tl.load(NORM + row, mask=i < tokens, other=float("inf"))
        pull = tl.load(PULL + row, mask=i < tokens, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        s = _bias_scores(s, i[:, None], j[None, :], FADING, REAL, tokens, back, "softmax", True, True, PADDED)
        dw = tl.dot(g, tl.trans(v), input_precision=PRECISION)
        total += tl.exp2(s - norm[:, None]) * (dw - pull[:, None])
    put(SUMS + at * SIDE * SIDE, total, SIDE, SIDE, SIDE, SIDE, SIDE)


class Tiles(NamedTuple):
    """Queries and keys of a tile, and how a program runs."""

    queries: int
    keys: int
    warps: int
    stages: int

    def options(self) -> dict[str, int]:
        """As arguments of a kernel."""
        return {"QUERIES": self.queries, "KEYS": self.keys, "num_warps": self.warps, "num_stages": self.stages}


FORWARD, QUERIES, KEYS = Tiles(128, 32, 4, 3), Tiles(128, 32, 4, 2), Tiles(32, 128, 4, 2)
"""The three passes at widths up to 64; the fastest of a dozen each on an H200 in TF32."""
AGES = Tiles(64, 64, 4, 1)
"""The gradient of f, whose tiles are square."""
SMALL = Tiles(32, 32, 4, 2)
"""All of them where less fits: at greater widths, with two scores in exact float32, on smaller chips."""


def attend_long(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    fading: Tensor | None,
    back: int | None,
    real: Tensor | None,
    scale: float,
    causal: bool,
    kind: str,
) -> Tensor:
    """W V [row, head, token, width] of queries and keys [branch, row, head, token, width].

    `fading` [head, age] is f from age 0 on and hides later keys, `back` the greatest age that is seen; `real`
    [row, token] is False on padding. Only the gated kind has two branches, only the softmax kind takes a fading.
    """
    furthest = v.shape[2] - 1 if back is None else min(back, v.shape[2] - 1)
    beside = (None if part is None else pack(part) for part in (fading, real))
    inputs = pack(q), pack(k), pack(v), *beside
    return long_attention(*inputs, furthest, scale, causal or fading is not None, kind)


def _common(
    q: Tensor, k: Tensor, v: Tensor, fading: Tensor | None, real: Tensor | None, scale: float, kind: str
) -> tuple[tuple[Any, ...], tuple[int, ...], float]:
    """Pointers, strides and the scale that every kernel begins on."""
    if kind == "softmax":
        scale = scale * LOG2E
        fading = None if fading is None else fading.to(torch.float32) * LOG2E
    pointers = q, k, v, q if fading is None else fading, q if real is None else real.view(torch.uint8)
    lines = 0 if fading is None else fading.stride(0), 0 if real is None else real.stride(0)
    return pointers, (*q.stride()[:4], *k.stride()[:4], *v.stride()[:3], *lines), scale


def _options(
    q: Tensor, v: Tensor, fading: Tensor | None, real: Tensor | None, causal: bool, kind: str, tiles: Tiles
) -> dict[str, Any]:
    widths = {"KEY": block(q.shape[4]), "VALUE": block(v.shape[3])}
    exact = precision(q.dtype)
    tight = max(widths.values()) > 64 or (kind == "gated" and exact == "tf32x3") or not roomy(q.device)
    flags = {"KIND": kind, "CAUSAL": causal, "AGED": fading is not None, "PADDED": real is not None}
    return {**widths, **flags, "PRECISION": exact, **(SMALL if tight else tiles).options()}


def _run_forward(
    wrap: Wrap, q: Tensor, k: Tensor, v: Tensor, fading: Tensor | None, real: Tensor | None,
    back: int, scale: float, causal: bool, kind: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    rows, heads, tokens, width = v.shape
    out = like(v)
    norm = torch.empty(v.shape[:3] if kind == "softmax" else (0,), dtype=torch.float32, device=v.device)
    options = _options(q, v, fading, real, causal, kind, FORWARD)
    pointers, strides, scale = _common(q, k, v, fading, real, scale, kind)
    wrap(forward)[(rows * heads * -(-tokens // options["QUERIES"]),)](
        *pointers, out, norm, *strides, *out.stride()[:3], heads, tokens, back, scale, q.shape[4], width, **options
    )
    return out, norm


def _run_backward(
    wrap: Wrap, g: Tensor, q: Tensor, k: Tensor, v: Tensor, fading: Tensor | None,
    real: Tensor | None, out: Tensor, norm: Tensor, back: int, slope: float, causal: bool, kind: str, ages: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    rows, heads, tokens, width = v.shape
    dq, dk, dv, pull = (torch.empty_like(part) for part in (q, k, v, norm))
    pointers, strides, scale = _common(q, k, v, fading, real, slope, kind)
    numbers = heads, tokens, back, scale, slope, q.shape[4], width
    options = _options(q, v, fading, real, causal, kind, QUERIES)
    wrap(pull_queries)[(rows * heads * -(-tokens // options["QUERIES"]),)](
        *pointers, out, norm, g, dq, pull,
        *strides, *out.stride()[:3], *g.stride()[:3], *dq.stride()[:4], *numbers, **options,
    )  # fmt: skip
    options = _options(q, v, fading, real, causal, kind, KEYS)
    wrap(pull_keys)[(rows * heads * -(-tokens // options["KEYS"]),)](
        *pointers, norm, pull, g, dk, dv,
        *strides, *g.stride()[:3], *dk.stride()[:4], *dv.stride()[:3], *numbers, **options,
    )  # fmt: skip
    if not ages:
        return dq, dk, dv, torch.empty(0, device=v.device)
    options = _options(q, v, fading, real, causal, kind, AGES)
    side = options["QUERIES"]
    diagonals = min(-(-back // side) + 1, -(-tokens // side))
    sums = torch.empty(rows, heads, diagonals, side, side, dtype=torch.float32, device=v.device)
    shared = {name: options[name] for name in ("PADDED", "PRECISION", "KEY", "VALUE", "num_warps", "num_stages")}
    wrap(pull_ages)[(rows * heads * diagonals,)](
        *pointers, norm, pull, g, sums, *strides, *g.stride()[:3],
        heads, tokens, back, scale, q.shape[4], width, diagonals, SIDE=side, **shared,
    )  # fmt: skip
    return dq, dk, dv, _by_age(sums.sum(0), tokens)


def _by_age(sums: Tensor, tokens: int) -> Tensor:
    """[head, age] from tiles [head, diagonal, i, j]: the sum of a tile over each of its own diagonals, i - j."""
    heads, diagonals, side, _ = sums.shape
    # Rows that are one number longer than they were start one later each: what was a diagonal is then a column.
    wide = functional.pad(sums.flip(-1), (0, side)).flatten(-2)[..., : side * (2 * side - 1)]
    columns = wide.view(heads, diagonals, side, 2 * side - 1).sum(-2)  # at c: i - j = c - (side - 1)
    line = functional.pad(columns, (0, 1))
    ages = torch.zeros(heads, (diagonals + 1) * side, dtype=sums.dtype, device=sums.device)
    ages[:, : diagonals * side] += line[..., :side].flatten(1)
    ages[:, side:] += line[..., side:].flatten(1)
    ages = ages[:, side - 1 :]
    return functional.pad(ages, (0, max(tokens - ages.shape[1], 0)))[:, :tokens].contiguous()


class _WithFading(Operator):
    """An operator whose fading has a gradient only where one is asked for."""

    def gradients(self, run: Callable[..., Any], ctx, pull: Tensor, needs: Sequence[bool]) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        fading, wanted = saved[3], saved[3] is not None and needs[3]
        *made, ages = run(pull, *saved, *ctx.settings, wanted)
        return (*made, ages.to(fading.dtype) if wanted else None, *[None] * 5)


long_attention = _WithFading("long_attention", _run_forward, _run_backward, tensors=5, keep=slice(None))
