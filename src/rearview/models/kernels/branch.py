"""Bias, activation and dropout, and a residual sum, in one pass over memory each way.

    y = D f(h + c)     or     y = x + D f(h + c)

h is a product whose bias c was left out, f an activation or nothing, and D what dropout leaves (`_rows.draw_dropout`).
The way back makes D and f again from h, and the gradient of c, a sum over all rows of dh, while dh is at hand.
"""

import math
from typing import Any, Literal

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from rearview.models.kernels._rows import draw_dropout, partial_sums, tiles

Function = Literal["none", "relu", "gelu", "gelu_tanh"]
WIDEST = 1024
"""Wider rows are cut into tiles side by side."""
_HALF_ROOT = tl.constexpr(math.sqrt(0.5))
_DENSITY = tl.constexpr(1 / math.sqrt(2 * math.pi))
_TWICE = tl.constexpr(2 * math.sqrt(2 / math.pi))
_CUBIC = tl.constexpr(0.044715)


@triton.jit
def _half_tanh(h):
    """(1 + tanh(u)) / 2, the logistic function of 2 u, where u = sqrt(2 / pi) (h + 0.044715 h^3)."""
    return 1.0 / (1.0 + tl.exp(-(h + h * h * h * _CUBIC) * _TWICE))


@triton.jit
def _activate(h, FUNCTION: tl.constexpr):
    """f(h)."""
    y = h
    if FUNCTION == "relu":
        y = tl.where(h <= 0, 0.0, h)
    elif FUNCTION == "gelu":
        y = 0.5 * h * (1.0 + tl.erf(h * _HALF_ROOT))
    elif FUNCTION == "gelu_tanh":
        y = h * _half_tanh(h)
    return y


@triton.jit
def _slope(h, FUNCTION: tl.constexpr):
    """f'(h)."""
    if FUNCTION == "relu":
        slope = tl.where(h <= 0, 0.0, 1.0)
    elif FUNCTION == "gelu":
        slope = 0.5 * (1.0 + tl.erf(h * _HALF_ROOT)) + h * _DENSITY * tl.exp(-0.5 * h * h)
    else:
        half = _half_tanh(h)
        slope = half + h * half * (1.0 - half) * (1.0 + h * h * 3.0 * _CUBIC) * _TWICE
    return slope


@triton.jit(do_not_specialize=["rows"])
def _forward(
    X, H, C, SEED, Y, rows, rate, groups,
    ADDS: tl.constexpr, BIASED: tl.constexpr, DROPS: tl.constexpr, FUNCTION: tl.constexpr,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    r, left = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1) * COLUMNS
    column = left + tl.arange(0, COLUMNS)
    at = r[:, None] * WIDTH + column[None, :]
    inside = (r[:, None] < rows) & (column[None, :] < WIDTH)
    h = tl.load(H + at, mask=inside, other=0.0).to(tl.float32)
    if BIASED:
        h += tl.load(C + column, mask=column < WIDTH, other=0.0).to(tl.float32)[None, :]
    y = _activate(h, FUNCTION)
    if DROPS:
        y *= draw_dropout(SEED, rate, r, left, groups, COLUMNS)
    if ADDS:
        y += tl.load(X + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(Y + at, y.to(Y.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["rows"])
def _backward(
    G, H, C, SEED, DH, SUMS, rows, rate, groups,
    BIASED: tl.constexpr, DROPS: tl.constexpr, FUNCTION: tl.constexpr,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    left = tl.program_id(1) * COLUMNS
    column = left + tl.arange(0, COLUMNS)
    dc = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        r = first + tl.arange(0, ROWS)
        at = r[:, None] * WIDTH + column[None, :]
        inside = (r[:, None] < rows) & (column[None, :] < WIDTH)
        dh = tl.load(G + at, mask=inside, other=0.0).to(tl.float32)
        if FUNCTION != "none":
            h = tl.load(H + at, mask=inside, other=0.0).to(tl.float32)
            if BIASED:
                h += tl.load(C + column, mask=column < WIDTH, other=0.0).to(tl.float32)[None, :]
            dh *= _slope(h, FUNCTION)
        if DROPS:
            dh *= draw_dropout(SEED, rate, r, left, groups, COLUMNS)
        tl.store(DH + at, dh.to(DH.dtype.element_ty), mask=inside)
        dc += dh
    if BIASED:
        tl.store(SUMS + tl.program_id(0) * WIDTH + column, tl.sum(dc, 0), mask=column < WIDTH)


def activate(h: Tensor, c: Tensor | None, function: Function, seed: Tensor | None, rate: float) -> Tensor:
    """f(h + c) of h [..., width] and c [width], dropped at `rate` where there is a seed, a tensor of one integer."""
    return _Branch.apply(None, h, c, seed, rate, function)


def add(x: Tensor, h: Tensor, c: Tensor | None, seed: Tensor | None, rate: float) -> Tensor:
    """x + h + c of x and h [..., width] and c [width], h + c dropped at `rate` where there is a seed."""
    assert x.shape == h.shape
    return _Branch.apply(x, h, c, seed, rate, "none")


class _Branch(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor | None, h: Tensor, c: Tensor | None, seed: Tensor | None, rate: float, function: Function
    ) -> Tensor:
        h = h.contiguous()
        x = None if x is None else x.contiguous()
        y = torch.empty_like(h, dtype=h.dtype if x is None else torch.promote_types(x.dtype, h.dtype))
        rows, across, below, sizes = _launch(h)
        _forward[(below, across)](
            h if x is None else x, h, h if c is None else c, h if seed is None else seed, y,
            rows, rate, across * sizes["COLUMNS"] // 4,
            ADDS=x is not None, BIASED=c is not None, DROPS=seed is not None, FUNCTION=function, **sizes,
        )  # fmt: skip
        ctx.save_for_backward(None if function == "none" else h, c, seed)
        ctx.of_x, ctx.of_h = None if x is None else x.dtype, h.dtype
        ctx.rate, ctx.function = rate, function
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        h, c, seed = ctx.saved_tensors
        g = g.contiguous()
        dh = torch.empty_like(g, dtype=ctx.of_h)
        rows, across, below, sizes = _launch(g)
        sums = partial_sums(below, across, 1, g)
        _backward[(len(sums), across)](
            g, g if h is None else h, g if c is None else c, g if seed is None else seed, dh, sums,
            rows, ctx.rate, across * sizes["COLUMNS"] // 4,
            BIASED=c is not None, DROPS=seed is not None, FUNCTION=ctx.function, **sizes,
        )  # fmt: skip
        dx = None if ctx.of_x is None else g.to(ctx.of_x)
        dc = None if c is None else sums.sum(0)[0].to(c.dtype)
        return dx, dh, dc, None, None, None


def _launch(part: Tensor) -> tuple[int, int, int, dict[str, Any]]:
    """Rows, tiles side by side, tiles below one another, and their sizes."""
    rows = part.numel() // part.shape[-1]
    below, sizes = tiles(rows, part.shape[-1], WIDEST)
    return rows, -(-part.shape[-1] // sizes["COLUMNS"]), below, sizes
