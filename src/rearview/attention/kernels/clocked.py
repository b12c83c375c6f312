"""CAPS over a short axis in one kernel: turns, clocks, gates, weights and all three memories.

    S_t = exp(a_t) S_(t-1) + w_t k_t v_t^T for each path,   o_t = sum over paths of S_t^T q_t

with a and w as `caps` has them. By plain operations the gates and weights of three paths are dozens of passes over
tensors as large as the values; here a program makes them token by token beside the states. That is sequential, and
suits an axis of a hundred tokens and many rows; `caps` has a kernel for longer ones. Backward walks forth for the
states and back for their gradients, and keeps nothing from the forward pass. All sums are float32, TF32 or not.
"""

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from rearview.attention.kernels import Wrap, clocked_programs
from rearview.attention.kernels.operator import Operator
from rearview.attention.kernels.tiles import like, pack

LONGEST = 128
WIDEST = 32
NUMBERS = 256
"""Numbers of a path's states for each warp of a program."""


class _Sizes(NamedTuple):
    """Heads of a program, and how it runs."""

    heads: int
    width: int
    values: int
    warps: int

    @classmethod
    def of(cls, q: Tensor, v: Tensor) -> "_Sizes":
        width, values = (max(2, triton.next_power_of_2(int(part.shape[3]))) for part in (q, v))
        heads = max(1, min(NUMBERS // (width * values), triton.next_power_of_2(int(q.shape[1]))))
        return cls(heads, width, values, max(1, heads * width * values // NUMBERS))

    def options(self) -> dict[str, int]:
        """As arguments of a kernel."""
        return {"HEADS": self.heads, "WIDTH": self.width, "VALUES": self.values, "num_warps": self.warps}


def attend_clocked(
    q: Tensor, k: Tensor, v: Tensor, p: Tensor | None, g: Tensor | None, clock: Tensor, table: Tensor | None,
    clocked: bool,
) -> Tensor:  # fmt: skip
    """o of q, k, v, p, g [row, head, token, width], and the clock [row, head, token] before its softplus.

    Without p there is no riemann path, without g no prefix path, and a clock path where `clocked`. `table` [2, token,
    width] has the cosines and sines that queries and keys are turned by.
    """
    p, g = (None if part is None else pack(part) for part in (p, g))
    return clocked_attention(pack(q), pack(k), pack(v), p, g, clock, table, clocked)


def _common(
    q: Tensor, k: Tensor, v: Tensor, p: Tensor | None, g: Tensor | None, clock: Tensor, table: Tensor | None
) -> tuple[tuple[Tensor, ...], tuple[int, ...], tuple[int, ...]]:
    """Pointers, strides and counts that both kernels take; what is not there is never read."""
    p, g = q if p is None else p, q if g is None else g
    strides = [stride for part in (q, k, v, p, g) for stride in part.stride()[:3]]
    counts = q.shape[1], q.shape[2], q.shape[3], v.shape[3], 0 if table is None else table.stride(0)
    return (q, k, v, p, g, clock, q if table is None else table), (*strides, *clock.stride()), counts


def _paths(p: Tensor | None, g: Tensor | None, table: Tensor | None, clocked: bool) -> dict[str, bool]:
    return {"RIEMANN": p is not None, "PREFIX": g is not None, "CLOCKED": clocked, "TURNED": table is not None}


def _run_forward(
    wrap: Wrap, q: Tensor, k: Tensor, v: Tensor, p: Tensor | None, g: Tensor | None, clock: Tensor,
    table: Tensor | None, clocked: bool,
) -> Tensor:  # fmt: skip
    pointers, strides, counts = _common(q, k, v, p, g, clock, table)
    out, sizes = like(v), _Sizes.of(q, v)
    wrap(clocked_programs.forward)[(q.shape[0], triton.cdiv(q.shape[1], sizes.heads))](
        *pointers, out, *strides, *out.stride()[:3], *counts, **_paths(p, g, table, clocked), **sizes.options()
    )
    return out


def _run_backward(
    wrap: Wrap, pull: Tensor, q: Tensor, k: Tensor, v: Tensor, p: Tensor | None, g: Tensor | None, clock: Tensor,
    table: Tensor | None, clocked: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of q, k, v, p, g and the clock; an empty one for what is not there."""
    pointers, strides, counts = _common(q, k, v, p, g, clock, table)
    rows, heads, tokens, width = q.shape
    notes = torch.empty(rows, tokens, heads, 3 * width + 2, dtype=torch.float32, device=q.device)
    made = [torch.empty_like(part) if part is not None else notes.new_empty(0, 0, 0, 0) for part in (q, k, v, p, g)]
    dclock, sizes = torch.empty_like(clock), _Sizes.of(q, v)
    steps = [stride for part in made for stride in part.stride()[:3]]
    wrap(clocked_programs.backward)[(rows, triton.cdiv(heads, sizes.heads))](
        *pointers, pull, notes, *made, dclock, *strides, *pull.stride()[:3], *steps, *dclock.stride(), *counts,
        **_paths(p, g, table, clocked), **sizes.options(),
    )  # fmt: skip
    return made[0], made[1], made[2], made[3], made[4], dclock


clocked_attention = Operator("clocked_attention", _run_forward, _run_backward, tensors=7)
