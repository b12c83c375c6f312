"""Layer normalisation of a sum: the end of a post-norm block's half in one pass over memory, each way.

    s = x + D (r + c)          y = (s - mean(s)) / sqrt(var(s) + eps) w + b

r is what attention or the feed-forward part returned, c the bias of its last product where that was left out there, and
D what dropout leaves (`_rows.draw_dropout`). Without r it is the plain norm of x. Nothing but s is kept for the way
back: mean and deviation of a row are made again while it is at hand. At widths of 16 to 128, general kernels spend most
of a norm's time on its way back, where the gradients of w and b are sums over very many short rows.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from rearview.models.kernels._rows import draw_dropout, partial_sums, tiles

WIDEST = 2048
"""The widest row that a program can hold."""


@triton.jit
def _standard(s, inside, eps, WIDTH: tl.constexpr):
    """Rows of mean 0 and variance 1, 0 outside of them, and what they were divided by, inverted."""
    # Rounded to the nearest: an error of the last digit is a large one where all numbers of a row are alike.
    mean = tl.div_rn(tl.sum(s, 1), WIDTH * 1.0)
    centred = tl.where(inside, s - mean[:, None], 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / WIDTH + eps)
    # Chosen again: a row beyond the last has a variance of 0, and an eps of 0 would make it NaN.
    return tl.where(inside, centred * scale[:, None], 0.0), scale[:, None]


@triton.jit(do_not_specialize=["rows"])
def _forward(
    X, R, C, W, B, SEED, S, Y, rows, rate, eps,
    ADDS: tl.constexpr, BIASED: tl.constexpr, DROPS: tl.constexpr,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    r, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    at = r[:, None] * WIDTH + column[None, :]
    inside = (r[:, None] < rows) & (column[None, :] < WIDTH)
    s = tl.load(X + at, mask=inside, other=0.0).to(tl.float32)
    if ADDS:
        added = tl.load(R + at, mask=inside, other=0.0).to(tl.float32)
        if BIASED:
            added += tl.load(C + column, mask=column < WIDTH, other=0.0).to(tl.float32)[None, :]
        if DROPS:
            added *= draw_dropout(SEED, rate, r, 0, COLUMNS // 4, COLUMNS)
        # Rounded as it is kept, so that both ways see the same numbers.
        s = (s + added).to(S.dtype.element_ty)
        tl.store(S + at, s, mask=inside)
        s = s.to(tl.float32)
    standard, _ = _standard(s, inside, eps, WIDTH)
    w = tl.load(W + column, mask=column < WIDTH, other=0.0).to(tl.float32)
    b = tl.load(B + column, mask=column < WIDTH, other=0.0).to(tl.float32)
    y = standard * w[None, :] + b[None, :]
    tl.store(Y + at, y.to(Y.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["rows"])
def _backward(
    G, S, W, SEED, DX, DR, SUMS, rows, rate, eps,
    APART: tl.constexpr, BIASED: tl.constexpr, DROPS: tl.constexpr,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, COLUMNS)
    w = tl.load(W + column, mask=column < WIDTH, other=0.0).to(tl.float32)[None, :]
    dw, db = tl.zeros((ROWS, COLUMNS), tl.float32), tl.zeros((ROWS, COLUMNS), tl.float32)
    dc = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        r = first + tl.arange(0, ROWS)
        at = r[:, None] * WIDTH + column[None, :]
        inside = (r[:, None] < rows) & (column[None, :] < WIDTH)
        g = tl.load(G + at, mask=inside, other=0.0).to(tl.float32)
        s = tl.load(S + at, mask=inside, other=0.0).to(tl.float32)
        standard, scale = _standard(s, inside, eps, WIDTH)
        dw += g * standard
        db += g
        weighed = g * w
        along = tl.sum(weighed * standard, 1)[:, None] / WIDTH
        ds = (weighed - tl.sum(weighed, 1)[:, None] / WIDTH - standard * along) * scale
        tl.store(DX + at, ds.to(DX.dtype.element_ty), mask=inside)
        if DROPS:
            ds *= draw_dropout(SEED, rate, r, 0, COLUMNS // 4, COLUMNS)
        if APART:
            tl.store(DR + at, ds.to(DR.dtype.element_ty), mask=inside)
        if BIASED:
            dc += tl.where(inside, ds, 0.0)
    SUMS += tl.program_id(0) * (3 if BIASED else 2) * WIDTH + column
    tl.store(SUMS, tl.sum(dw, 0), mask=column < WIDTH)
    tl.store(SUMS + WIDTH, tl.sum(db, 0), mask=column < WIDTH)
    if BIASED:
        tl.store(SUMS + 2 * WIDTH, tl.sum(dc, 0), mask=column < WIDTH)


def add_norm(
    x: Tensor, r: Tensor | None, c: Tensor | None, weight: Tensor, shift: Tensor, seed: Tensor | None,
    rate: float, eps: float, dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    """The norm of x, or of x + r + c with r + c dropped at `rate` where there is a seed, as `dtype`.

    x and r are equal in shape; c, weight and shift [width]; the seed is a tensor of one integer.
    """
    assert r is None or r.shape == x.shape
    return _AddNorm.apply(x, r, c, weight, shift, seed, rate, eps, dtype)


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, r: Tensor | None, c: Tensor | None, weight: Tensor, shift: Tensor, seed: Tensor | None,
        rate: float, eps: float, dtype: torch.dtype,
    ) -> Tensor:  # fmt: skip
        x = x.contiguous()
        r = None if r is None else r.contiguous()
        s = x if r is None else torch.empty_like(x, dtype=torch.promote_types(x.dtype, r.dtype))
        y = torch.empty_like(x, dtype=dtype)
        rows, width = x.numel() // x.shape[-1], x.shape[-1]
        below, sizes = tiles(rows, width, WIDEST)
        _forward[(below,)](
            x, x if r is None else r, weight if c is None else c, weight, shift, weight if seed is None else seed, s, y,
            rows, rate, eps, ADDS=r is not None, BIASED=c is not None, DROPS=seed is not None, **sizes,
        )  # fmt: skip
        ctx.save_for_backward(s, weight, shift, seed)
        ctx.types = x.dtype, None if r is None else r.dtype, None if c is None else c.dtype
        ctx.rate, ctx.eps = rate, eps
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        s, weight, shift, seed = ctx.saved_tensors
        of_x, of_r, of_c = ctx.types
        dx = torch.empty_like(s, dtype=of_x)
        # Without dropout both parts of the sum have the same gradient.
        apart = of_r is not None and (seed is not None or of_r != of_x)
        dr = torch.empty_like(s, dtype=of_r) if apart else dx
        rows, width = s.numel() // s.shape[-1], s.shape[-1]
        below, sizes = tiles(rows, width, WIDEST)
        sums = partial_sums(below, 1, 2 if of_c is None else 3, s)
        _backward[(len(sums),)](
            g.contiguous(), s, weight, weight if seed is None else seed, dx, dr, sums, rows, ctx.rate, ctx.eps,
            APART=apart, BIASED=of_c is not None, DROPS=seed is not None, **sizes,
        )  # fmt: skip
        dw, db, *dc = sums.sum(0)
        made = dx, None if of_r is None else dr, dc[0].to(of_c) if dc else None
        return (*made, dw.to(weight.dtype), db.to(shift.dtype), None, None, None, None)
