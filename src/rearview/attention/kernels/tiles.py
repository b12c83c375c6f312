"""Parts of every kernel here: tiles in and out, rooms for results, sizes of blocks, the precision of products."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from rearview.attention.shared.execution import tf32_allowed

KNOWN = (torch.float32, torch.bfloat16, torch.float16)
"""The types that the kernels take."""
ROOMY = (9, 10)
"""Generations whose chips have the 227 KiB of shared memory that the largest tiles are made for: H100 to B200."""


@triton.jit
def tile(start, rows, columns, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """[ROWS, COLUMNS] numbers, 0 outside the tensor."""
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    return tl.load(start + r[:, None] * stride + c[None, :], mask=inside, other=0.0)


@triton.jit
def put(start, values, rows, columns, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Write the part of a tile that lies inside the tensor."""
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    tl.store(start + r[:, None] * stride + c[None, :], values.to(start.dtype.element_ty), mask=inside)


@triton.jit
def single(number):
    """A number in float32: a compiler hands it over in float64, and all that it touches would follow it there."""
    return tl.full([], number, tl.float32)


def roomy(device: torch.device) -> bool:
    """Whether the largest tiles fit on this device; the interpreter on a CPU knows no limit."""
    return device.type != "cuda" or torch.cuda.get_device_properties(device).major in ROOMY


def block(size: int) -> int:
    """The side of a tile that holds `size`: a power of 2 that tensor cores take."""
    # A tile is as large as it was compiled for: a compiler that keeps sizes open has to settle this one.
    return max(16, triton.next_power_of_2(int(size)))


def precision(dtype: torch.dtype) -> str:
    """The precision of float32 products: as torch's own do, so in TF32 only where the caller allows it."""
    exact = dtype == torch.float32 and not tf32_allowed()
    # Three products on tensor cores are as exact as float32 arithmetic, at a fraction of its time.
    return "tf32x3" if exact else "tf32"


def like(part: Tensor, width: int | None = None) -> Tensor:
    """Room for a result [batch, head, token, width or the part's own], laid out token by token as projections are."""
    batch, heads, tokens, own = part.shape
    return part.new_empty(batch, tokens, heads, own if width is None else width).transpose(1, 2)


def pack(part: Tensor) -> Tensor:
    """The tensor as it lies where the numbers of a token lie side by side, else a copy in which they do."""
    return part if part.stride(-1) == 1 else part.contiguous()
