"""MICA's two paths and a beta gate: attention within each channel, and what a memory of all channels says.

    M = sum_c phi(K_c)^T V_c,   z = sum_c sum_p phi(K_c[p]),   A = phi(Q) M / (phi(Q) z + eps)
    L = (softmax(Q K^T s + B) * D) V,   O = w A + (1 - w) L

L is `short`'s. Beside it one kernel sums over the channels and another reads the memory and joins both; backward, dM
and dz are sums over channels as well, and one more kernel adds what comes by way of the memory to the gradients that L
has left. All of it in one program holds so many tiles that few programs run at a time: on an H200 such a backward pass
took three times as long as the short kernel's. Sums are in float32, parts of them are added in a fixed order.
"""

from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.library import triton_op, wrap_triton

from rearview.attention.kernels import Wrap, _memory, plain, short
from rearview.attention.kernels._tiles import packed, precision

ROWS = 64
"""Tokens of a tile, fewer where a head is wider than COLUMNS."""
COLUMNS = 32
"""Channels of a tile: of several heads, or of one that is wider."""
LEAST = 16
"""The fewest channels that tensor cores take."""
WIDEST = 64
"""The widest heads whose memories fit beside the tiles."""
PROGRAMS = 1056
"""Programs that share a sum over channels: eight for each multiprocessor of a large chip."""


def fits(q: Tensor, v: Tensor) -> bool:
    """Whether heads [..., width] are narrow enough."""
    return max(q.shape[-1], v.shape[-1]) <= WIDEST


def mix_with_memory(
    q: Tensor, k: Tensor, v: Tensor, share: Tensor, bias: Tensor | None, scale: float,
    seed: Tensor | None = None, rate: float = 0.0,
) -> Tensor:  # fmt: skip
    """O of q, k [batch, group, head, token, key_width] and v, with `share` w [group or 1, head] in float32.

    `bias` [head or 1, token, token] gets no gradient. Weights are dropped at `rate` where there is a seed.
    """
    if torch.compiler.is_compiling():
        return memory_attention(q, k, v, share, bias, seed, scale, rate)[0]
    return _Eager.apply(q, k, v, share, bias, seed, scale, rate)


class _Eager(torch.autograd.Function):
    """The same without the dispatcher."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        made = _run_forward(plain, *inputs)
        _remember(ctx, inputs, made)
        return made[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        made = _run_backward(plain, packed(g), *ctx.saved_tensors, *ctx.settings)
        return (*made, None, None, None, None)


def remembered(wrap: Wrap, k: Tensor, v: Tensor) -> Tensor:
    """M and z of keys and values [batch, group, head, token, width], as [batch, head, value_width + 1, key_width]."""
    grid, sizes = _summing(k, v)
    sums = _parts(grid, k, v)
    strides = *k.stride()[:4], *v.stride()[:4]
    wrap(_memory.remember)[grid](k, v, sums, *strides, len(k), *_counts(k, v), **sizes)
    return _total(sums)


def _sizes(q: Tensor, v: Tensor) -> dict[str, Any]:
    wider = triton.next_power_of_2(int(max(q.shape[4], v.shape[4])))
    heads = max(1, LEAST // wider, min(COLUMNS // wider, triton.next_power_of_2(int(q.shape[2]))))
    rows = min(ROWS, ROWS * COLUMNS // (heads * wider))
    return {"ROWS": rows, "HEADS": heads, "KEY": wider, "VALUE": wider, "EXACT": precision(torch.float32)}


def _counts(q: Tensor, v: Tensor) -> tuple[int, ...]:
    """Heads, rows, tokens, and both widths."""
    return q.shape[2], q.shape[1] * q.shape[3], q.shape[3], q.shape[4], v.shape[4]


def _rowwise(q: Tensor, v: Tensor) -> tuple[tuple[int, int], dict[str, Any]]:
    """The grid of a kernel that has a program for each tile of rows, and sizes of tiles."""
    sizes = _sizes(q, v)
    return (len(q) * -(-q.shape[2] // sizes["HEADS"]), -(-q.shape[1] * q.shape[3] // sizes["ROWS"])), sizes


def _summing(q: Tensor, v: Tensor) -> tuple[tuple[int, int], dict[str, Any]]:
    """The grid of a kernel that sums over rows, and sizes of tiles."""
    (across, tiles), sizes = _rowwise(q, v)
    return (across, max(1, min(PROGRAMS // across, tiles))), sizes


def _parts(grid: tuple[int, int], q: Tensor, v: Tensor) -> Tensor:
    shape = grid[1], q.shape[0], q.shape[2], v.shape[4] + 1, q.shape[4]
    return torch.empty(shape, dtype=torch.float32, device=q.device)


def _total(sums: Tensor) -> Tensor:
    return sums[0] if len(sums) == 1 else sums.sum(0)


def _shares(share: Tensor) -> tuple[int, int]:
    """Strides of the share, 0 where one number serves all channels."""
    return share.stride(0) if len(share) > 1 else 0, share.stride(1)


def _flat(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Batches and groups as rows of the short kernel, which has an axis of branches for queries and keys."""
    return q.flatten(0, 1)[None], k.flatten(0, 1)[None], v.flatten(0, 1)


def _run_forward(
    wrap: Wrap, q: Tensor, k: Tensor, v: Tensor, share: Tensor, bias: Tensor | None, seed: Tensor | None,
    scale: float, rate: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    rows = short.run_forward(wrap, *_flat(q, k, v), bias, seed, scale, rate, False, "softmax")
    local = rows.unflatten(0, (len(q), -1))
    memory, out = remembered(wrap, k, v), torch.empty_like(local)
    grid, sizes = _rowwise(q, v)
    strides = *q.stride()[:4], *local.stride()[:4], *_shares(share), *out.stride()[:4]
    wrap(_memory.join)[grid](q, local, memory, share, out, *strides, *_counts(q, v), **sizes)
    return out, local, memory


def _run_backward(
    wrap: Wrap, g: Tensor, q: Tensor, k: Tensor, v: Tensor, share: Tensor, bias: Tensor | None, seed: Tensor | None,
    local: Tensor, memory: Tensor, scale: float, rate: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    rest = (g * (1 - share[:, :, None, None])).to(g.dtype).flatten(0, 1)
    rows = short.run_backward(wrap, packed(rest), *_flat(q, k, v), bias, seed, scale, rate, False, "softmax")
    dq, dk, dv = rows[0][0], rows[1][0], rows[2]
    dq, dk, dv = (part.unflatten(0, (len(q), -1)) for part in (dq, dk, dv))

    batch, groups, heads, tokens, _ = q.shape
    grid, sizes = _summing(q, v)
    sums = _parts(grid, q, v)
    dshare = torch.empty(batch, groups, tokens, heads, dtype=torch.float32, device=q.device)
    strides = *q.stride()[:4], *g.stride()[:4], *local.stride()[:4], *_shares(share)
    wrap(_memory.pull_memory)[grid](q, g, local, memory, share, sums, dshare, *strides, batch, *_counts(q, v), **sizes)
    grid, sizes = _rowwise(q, v)
    strides = *q.stride()[:4], *k.stride()[:4], *v.stride()[:4], *g.stride()[:4], *_shares(share)
    wrap(_memory.pull)[grid](
        q, k, v, g, memory, _total(sums), share, dq, dk, dv,
        *strides, *dq.stride()[:4], *dk.stride()[:4], *dv.stride()[:4], *_counts(q, v), **sizes,
    )  # fmt: skip
    return dq, dk, dv, dshare.sum((0, 1, 2))[None] if len(share) == 1 else dshare.sum((0, 2))


@triton_op("rearview::memory_attention", mutates_args={})
def memory_attention(
    q: Tensor, k: Tensor, v: Tensor, share: Tensor, bias: Tensor | None, seed: Tensor | None, scale: float, rate: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`mix_with_memory` as an operator that torch.compile can see into, with the local path and the memory."""
    return _run_forward(wrap_triton, q, k, v, share, bias, seed, scale, rate)


@triton_op("rearview::memory_attention_backward", mutates_args={})
def memory_attention_backward(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, share: Tensor, bias: Tensor | None, seed: Tensor | None,
    local: Tensor, memory: Tensor, scale: float, rate: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of q, k, v and the share."""
    return _run_backward(wrap_triton, g, q, k, v, share, bias, seed, local, memory, scale, rate)


def _remember(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:6], *output[1:])
    ctx.settings = inputs[6:]


def _gradients(ctx: Any, g: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    made = memory_attention_backward(packed(g), *ctx.saved_tensors, *ctx.settings)
    return (*made, None, None, None, None)


memory_attention.register_autograd(_gradients, setup_context=_remember)
