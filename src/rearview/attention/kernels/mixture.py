"""Tokens plus a learned mixture of them: (I + M) X over a short axis, with one matrix M for all rows of a head.

    Y = X + M X          dX = dY + M^T dY          dM = sum over rows of dY X^T

The rows of a head lie side by side as the columns of one matrix, read where they are, so that a tile holds many rows at
once and M is read once a program. Turning the axes for a library's matrix product would move every number twice more.
Each program adds up its part of dM, and one sum over the programs ends it, in a fixed order.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rearview.attention.kernels import Wrap
from rearview.attention.kernels.operator import Operator
from rearview.attention.kernels.tiles import block, pack, precision, roomy

LONGEST = 128
"""Beyond so many tokens M and the sum of its gradient no longer fit beside the tiles; on smaller chips, beyond half."""
PROGRAMS = 1056
"""Programs at a time: eight for each multiprocessor of a large chip."""
NUMBERS = 4096
"""Numbers of X in a tile."""


@triton.jit
def _matrix(M, tokens, row, column, TOKENS: tl.constexpr):
    i, j = tl.arange(0, TOKENS)[:, None], tl.arange(0, TOKENS)[None, :]
    return tl.load(M + i * row + j * column, mask=(i < tokens) & (j < tokens), other=0.0)


@triton.jit
def _places(first, columns, tokens, row, token, WIDTH: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr):
    """The places of a tile's numbers [TOKENS, COLUMNS], and True on those that are there."""
    c = first + tl.arange(0, COLUMNS)
    t = tl.arange(0, TOKENS)
    at = (c // WIDTH).to(tl.int64) * row + c % WIDTH
    return t[:, None] * token + at[None, :], (t[:, None] < tokens) & (c[None, :] < columns)


@triton.jit
def _forward(
    X, M, OUT, xs, xb, xh, xt, ms, mh, mi, mj, os, ob, oh, ot, rows, heads, tokens,
    WIDTH: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    s, h = tl.program_id(0).to(tl.int64) // heads, tl.program_id(0).to(tl.int64) % heads
    X, OUT = X + s * xs + h * xh, OUT + s * os + h * oh
    m = _matrix(M + s * ms + h * mh, tokens, mi, mj, TOKENS)
    for first in range(tl.program_id(1) * COLUMNS, rows * WIDTH, tl.num_programs(1) * COLUMNS):
        at, inside = _places(first, rows * WIDTH, tokens, xb, xt, WIDTH, TOKENS, COLUMNS)
        x = tl.load(X + at, mask=inside, other=0.0)
        out = x + tl.dot(m, x, input_precision=PRECISION)
        at, inside = _places(first, rows * WIDTH, tokens, ob, ot, WIDTH, TOKENS, COLUMNS)
        tl.store(OUT + at, out.to(OUT.dtype.element_ty), mask=inside)


@triton.jit
def _backward(
    X, M, G, DX, SUMS, xs, xb, xh, xt, ms, mh, mi, mj, gs, gb, gh, gt, ds, db, dh, dt, rows, heads, tokens,
    WIDTH: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    s, h = tl.program_id(0).to(tl.int64) // heads, tl.program_id(0).to(tl.int64) % heads
    X, G, DX = X + s * xs + h * xh, G + s * gs + h * gh, DX + s * ds + h * dh
    m = _matrix(M + s * ms + h * mh, tokens, mj, mi, TOKENS)
    total = tl.zeros((TOKENS, TOKENS), tl.float32)
    for first in range(tl.program_id(1) * COLUMNS, rows * WIDTH, tl.num_programs(1) * COLUMNS):
        at, inside = _places(first, rows * WIDTH, tokens, xb, xt, WIDTH, TOKENS, COLUMNS)
        x = tl.load(X + at, mask=inside, other=0.0)
        at, inside = _places(first, rows * WIDTH, tokens, gb, gt, WIDTH, TOKENS, COLUMNS)
        g = tl.load(G + at, mask=inside, other=0.0)
        total = tl.dot(g, tl.trans(x), total, input_precision=PRECISION)
        dx = g + tl.dot(m, g, input_precision=PRECISION)
        at, inside = _places(first, rows * WIDTH, tokens, db, dt, WIDTH, TOKENS, COLUMNS)
        tl.store(DX + at, dx.to(DX.dtype.element_ty), mask=inside)
    i, j = tl.arange(0, TOKENS)[:, None], tl.arange(0, TOKENS)[None, :]
    SUMS += (tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)).to(tl.int64) * tokens * tokens
    tl.store(SUMS + i * tokens + j, total, mask=(i < tokens) & (j < tokens))


def fits(part: Tensor) -> bool:
    """Whether tokens [..., token, width] are few enough."""
    return part.shape[-2] <= (LONGEST if roomy(part.device) else LONGEST // 2)


def add_mixture(offset: Tensor, part: Tensor) -> Tensor:
    """part + offset part, of offset [branch, head, token, token] and part [branch, row, head, token, width]."""
    return mixture(offset, pack(part))


def _launch(part: Tensor) -> tuple[tuple[int, int], tuple[int, int, int], dict[str, Any]]:
    """The grid (branches and heads, programs for each), the counts, and the sizes of tiles."""
    branches, rows, heads, tokens, width = part.shape
    side = block(tokens)
    columns = NUMBERS // side
    programs = min(-(-PROGRAMS // (branches * heads)), -(-rows * width // columns))
    sizes = {"WIDTH": width, "TOKENS": side, "COLUMNS": columns, "PRECISION": precision(part.dtype)}
    return (branches * heads, programs), (rows, heads, tokens), {**sizes, "num_warps": 8 if side > 64 else 4}


def _run_forward(wrap: Wrap, offset: Tensor, part: Tensor) -> Tensor:
    out = torch.empty_like(part)
    grid, counts, sizes = _launch(part)
    wrap(_forward)[grid](part, offset, out, *part.stride()[:4], *offset.stride(), *out.stride()[:4], *counts, **sizes)
    return out


def _run_backward(wrap: Wrap, g: Tensor, offset: Tensor, part: Tensor) -> tuple[Tensor, Tensor]:
    made = torch.empty_like(part)
    grid, counts, sizes = _launch(part)
    sums = torch.empty(grid[1], *offset.shape, dtype=torch.float32, device=part.device)
    wrap(_backward)[grid](
        part, offset, g, made, sums,
        *part.stride()[:4], *offset.stride(), *g.stride()[:4], *made.stride()[:4], *counts, **sizes,
    )  # fmt: skip
    return sums.sum(0).to(offset.dtype), made


mixture = Operator("mixture", _run_forward, _run_backward, tensors=2)
