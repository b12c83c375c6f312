"""Dropout whose mask is cheap on a CPU.

Drawing one Bernoulli number a cell is 40 % of a small Transformer's training step on a CPU. Eight cells drawn from one
64-bit number are ten times faster; the price is a rate in steps of 1/256 (0.2 becomes 51/256 = 0.1992), and the
survivors are divided by the share that is really kept, so the mean stays right. On other devices, and under a compiler
(which fuses its own mask), torch's dropout runs.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from rearview.core.errors import SettingsError

LEVELS = 256


class _ByteDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dropped: int) -> Tensor:
        words = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
        ctx.save_for_backward(words)
        ctx.dropped = dropped
        return _apply_mask(x, words, dropped)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (words,) = ctx.saved_tensors
        return _apply_mask(grad, words, ctx.dropped), None


def _apply_mask(x: Tensor, words: Tensor, dropped: int) -> Tensor:
    """`x` where its byte of `words` is kept, scaled up, and 0 elsewhere."""
    cells = words.view(torch.uint8)[: x.numel()].view(x.shape)
    # Straight into the numbers' own type, and on into the result: by way of a bool mask this takes eight times as long.
    kept = torch.ge(cells, dropped, out=torch.empty(x.shape, dtype=x.dtype))
    return kept.mul_(x).mul_(LEVELS / (LEVELS - dropped))


def dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    """Zero a share `rate` of the cells and scale up the rest, in training only."""
    if not training or rate == 0:
        return x
    if x.device.type != "cpu" or rate >= 1 or torch.compiler.is_compiling():
        return functional.dropout(x, rate, training=True)
    dropped = min(max(round(rate * LEVELS), 1), LEVELS - 1)
    return _ByteDropout.apply(x, dropped)  # type: ignore[no-untyped-call]


def channel_dropout(
    x: Float[Tensor, "batch channel time"], training: bool, printed: bool = False
) -> Float[Tensor, "batch channel time"]:
    """Whole channels zeroed, in training only; each window draws its own rate from U(0, 1).

    The rest is divided by the share of channels that is really kept, so the sum over channels keeps its size; a window
    that loses all of them is 0. With `printed` it is divided by the chance to be kept, as CAPS's text has it.
    """
    if not training:
        return x
    rate = torch.rand(x.shape[0], 1, 1, dtype=x.dtype, device=x.device)
    kept = (torch.rand(*x.shape[:2], 1, dtype=x.dtype, device=x.device) > rate).to(x.dtype)
    share = 1 - rate if printed else kept.mean(1, keepdim=True).clamp(min=1e-6)
    return x * (kept / share)


class Dropout(nn.Module):
    """`dropout` as a module with a fixed rate."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate <= 1:
            raise SettingsError(f"dropout is {rate}; it must lie between 0 and 1.")
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.rate, self.training)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"
