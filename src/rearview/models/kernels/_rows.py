"""Common parts of the kernels here: tiles of whole rows, what dropout leaves of them, and sums over all rows.

A tensor is seen as rows of its last axis. Sums over rows (the gradient of a bias) are made in two steps, with one
partial sum of each program and then the sum of these, so that they come out the same every time.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS = 528
"""Programs at a time that add up what they meet: four for each multiprocessor of a large chip."""
NUMBERS = 2048
"""Numbers of a tile, 16 for each thread."""


@triton.jit
def draw_dropout(seed, rate, r, first, groups, COLUMNS: tl.constexpr):
    """The factors of dropout on rows r, in COLUMNS columns from `first` on; a row has `groups` times four of them.

    It depends on the seed and on where a number stands, so that the way back draws the same.
    """
    group = first // 4 + tl.arange(0, COLUMNS // 4)
    # The generator makes four numbers at a time: all four are used, for four columns side by side.
    a, b, c, d = tl.rand4x(tl.load(seed), r[:, None] * groups + group[None, :])
    drawn = tl.reshape(tl.join(tl.join(a, b), tl.join(c, d)), [r.shape[0], COLUMNS])
    return tl.where(drawn < rate, 0.0, 1.0 / (1.0 - rate))


def tiles(rows: int, width: int, widest: int) -> tuple[int, dict[str, Any]]:
    """The number of tiles below one another, and their sizes; they are as wide as a row, `widest` at most."""
    columns = min(max(16, 1 << (width - 1).bit_length()), widest)
    height = max(1, NUMBERS // columns)
    return -(-rows // height), {"WIDTH": width, "ROWS": height, "COLUMNS": columns, "num_warps": 4}


def partial_sums(below: int, across: int, kinds: int, part: Tensor) -> Tensor:
    """Room for sums of so many kinds over all rows, one for each program; at most one for each tile."""
    programs = min(below, max(1, PROGRAMS // across))
    return torch.empty(programs, kinds, part.shape[-1], dtype=torch.float32, device=part.device)
