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

from rearview.attention.kernels import Wrap, memory_programs, short
from rearview.attention.kernels.operator import Operator
from rearview.attention.kernels.tiles import precision, roomy

ROWS = 64
"""Tokens of a tile, fewer where a head is wider than COLUMNS."""
COLUMNS = 32
"""Channels of a tile: of several heads, or of one that is wider."""
LEAST = 16
"""The fewest channels that tensor cores take."""
WIDEST = 64
"""The widest heads whose memories fit beside the tiles; on smaller chips, half of it."""
PROGRAMS = 528
"""Programs that share a sum over channels: four for each multiprocessor of a large chip."""
STAGES = 2
"""Of their loops. With three, and twice as many programs, an H200 took half as long again for a memory's gradient."""


def fits(q: Tensor, v: Tensor) -> bool:
    """Whether heads [..., width] are narrow enough."""
    return max(q.shape[-1], v.shape[-1]) <= (WIDEST if roomy(q.device) else WIDEST // 2)


def mix_with_memory(
    q: Tensor, k: Tensor, v: Tensor, share: Tensor, bias: Tensor | None, scale: float,
    seed: Tensor | None = None, rate: float = 0.0,
) -> Tensor:  # fmt: skip
    """O of q, k [batch, group, head, token, key_width] and v, with `share` w [group or 1, head] in float32.

    `bias` [head or 1, token, token] gets no gradient. Weights are dropped at `rate` where there is a seed.
    """
    return memory_attention(q, k, v, share, bias, seed, scale, rate)


def sum_memory(wrap: Wrap, k: Tensor, v: Tensor) -> Tensor:
    """M and z of keys and values [batch, group, head, token, width], as [batch, head, value_width + 1, key_width]."""
    grid, sizes = _summing(k, v)
    sums = _parts(grid, k, v)
    wrap(memory_programs.remember)[grid](k, v, sums, *_strides(k, v), len(k), *_counts(k, v), **sizes)
    return _total(sums)


def _sizes(k: Tensor, *parts: Tensor) -> dict[str, Any]:
    """Sizes of tiles for keys and all other tensors that a kernel is given, values first."""
    width = triton.next_power_of_2(int(max(k.shape[4], parts[0].shape[4])))
    heads = max(1, LEAST // width, min(COLUMNS // width, triton.next_power_of_2(int(k.shape[2]))))
    rows = min(ROWS, ROWS * COLUMNS // (heads * width))
    dense = all(_dense(part, width) for part in (k, *parts))
    return {"ROWS": rows, "HEADS": heads, "WIDTH": width, "DENSE": dense, "EXACT": precision(torch.float32)}


def _dense(part: Tensor, width: int) -> bool:
    """Whether heads of this width lie side by side, and the tokens of all channels equally far apart."""
    _, group, head, token, _ = part.stride()
    together = part.shape[1] == 1 or group == part.shape[3] * token
    return part.shape[4] == width and (part.shape[2] == 1 or head == width) and together


def _counts(k: Tensor, v: Tensor) -> tuple[int, ...]:
    """Heads, rows, tokens, and both widths."""
    return k.shape[2], k.shape[1] * k.shape[3], k.shape[3], k.shape[4], v.shape[4]


def _strides(*parts: Tensor) -> tuple[int, ...]:
    """All but the last of each part, in which channels lie side by side."""
    return tuple(stride for part in parts for stride in part.stride()[:4])


def _rowwise(k: Tensor, *parts: Tensor) -> tuple[tuple[int, int], dict[str, Any]]:
    """The grid of a kernel that has a program for each tile of rows, and sizes of tiles."""
    sizes = _sizes(k, *parts)
    return (len(k) * -(-k.shape[2] // sizes["HEADS"]), -(-k.shape[1] * k.shape[3] // sizes["ROWS"])), sizes


def _summing(k: Tensor, *parts: Tensor) -> tuple[tuple[int, int], dict[str, Any]]:
    """The grid of a kernel that sums over rows, and sizes of tiles."""
    (across, tiles), sizes = _rowwise(k, *parts)
    return (across, max(1, min(PROGRAMS // across, tiles))), sizes | {"num_stages": STAGES}


def _parts(grid: tuple[int, int], k: Tensor, v: Tensor) -> Tensor:
    shape = grid[1], k.shape[0], k.shape[2], v.shape[4] + 1, k.shape[4]
    return torch.empty(shape, dtype=torch.float32, device=k.device)


def _total(sums: Tensor) -> Tensor:
    return sums[0] if len(sums) == 1 else sums.sum(0)


def _flat(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Batches and groups as rows of the short kernel, which has an axis of branches for queries and keys."""
    return q.flatten(0, 1)[None], k.flatten(0, 1)[None], v.flatten(0, 1)


def _run_forward(
    wrap: Wrap, q: Tensor, k: Tensor, v: Tensor, share: Tensor, bias: Tensor | None, seed: Tensor | None,
    scale: float, rate: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    rows = short.run_forward(wrap, *_flat(q, k, v), bias, seed, scale, rate, False, "softmax")
    local = rows.unflatten(0, (len(q), -1))
    memory, out = sum_memory(wrap, k, v), torch.empty_like(local)
    grid, sizes = _rowwise(q, v, local, out)
    strides = *_strides(q, local, out), *share.stride()
    wrap(memory_programs.join)[grid](
        q, local, memory, share, out, *strides, *_counts(q, v), ALIKE=len(share) == 1, **sizes
    )  # fmt: skip
    return out, local, memory


def _run_backward(
    wrap: Wrap, g: Tensor, q: Tensor, k: Tensor, v: Tensor, share: Tensor, bias: Tensor | None, seed: Tensor | None,
    local: Tensor, memory: Tensor, scale: float, rate: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    # L's gradients are those of g, times 1 - w: the last kernel sees to that, as it adds the memory's.
    rows = short.run_backward(wrap, g.flatten(0, 1), *_flat(q, k, v), bias, seed, scale, rate, False, "softmax")
    dq, dk, dv = (part.unflatten(0, (len(q), -1)) for part in (rows[0][0], rows[1][0], rows[2]))

    batch, groups, heads, tokens, _ = q.shape
    alike = len(share) == 1
    grid, sizes = _summing(q, v, g, local)
    sums = _parts(grid, q, v)
    shape = (grid[1], batch, heads, v.shape[4]) if alike else (batch, groups, tokens, heads)
    dshare = torch.empty(shape, dtype=torch.float32, device=q.device)
    strides = *_strides(q, g, local), *share.stride()
    wrap(memory_programs.pull_memory)[grid](
        q, g, local, memory, share, sums, dshare, *strides, batch, *_counts(q, v), ALIKE=alike, **sizes
    )  # fmt: skip
    grid, sizes = _rowwise(q, v, k, g, dq, dk, dv)
    strides = *_strides(q, k, v, g, dq, dk, dv), *share.stride()
    wrap(memory_programs.pull)[grid](
        q, k, v, g, memory, _total(sums), share, dq, dk, dv, *strides, *_counts(q, v), ALIKE=alike, **sizes
    )  # fmt: skip
    return dq, dk, dv, dshare.sum((0, 1, 3))[None] if alike else dshare.sum((0, 2))


memory_attention = Operator("memory_attention", _run_forward, _run_backward, tensors=6, keep=slice(1, None))
