"""The ways work is carried out: precision of products, blocks, what is computed twice, and hooks on modules."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn.modules import module as any_module
from torch.utils.checkpoint import checkpoint

AUTOCAST = ("cpu", "cuda", "mps", "xpu")
"""Kinds of device that have autocast."""


def tf32_allowed() -> bool:
    """Whether torch's own products of float32 matrices run in TF32 on a GPU."""
    matmul = torch.backends.cuda.matmul
    # From 2.9 on torch has a second switch, and once that is used it refuses to read the first; a compiler can follow
    # the first alone, and reads it itself.
    if torch.compiler.is_compiling() or not hasattr(matmul, "fp32_precision"):
        return bool(matmul.allow_tf32)
    return bool(matmul.fp32_precision == "tf32")


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Products as exact as their operands, under autocast too."""
    # Asking torch whether a device has autocast would break a compiled graph in two.
    return torch.autocast(device.type, enabled=False) if device.type in AUTOCAST else nullcontext()


def recompute(function: Callable[..., Tensor], *arguments: object, random: bool = False) -> Tensor:
    """Call a function now, and again in the backward pass instead of keeping what lies between.

    `random` says that the function draws numbers, which then are drawn alike both times.
    """
    if not torch.is_grad_enabled():
        return function(*arguments)
    return checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=random)


def budget(device: torch.device) -> int:
    """Numbers to hold at a time where work goes in blocks: what fits a CPU's cache, or keeps a GPU busy."""
    return 1 << 19 if device.type == "cpu" else 1 << 25


def block_spans(count: int, each: int, device: torch.device) -> list[tuple[int, int]]:
    """Start and end of blocks of `count` things of `each` numbers that fit the budget."""
    if torch.compiler.is_compiling():
        # A compiler would unroll the blocks, and an exported layer is to take a batch of any size.
        return [(0, count)]
    block = max(1, budget(device) // max(1, each))
    return [(a, min(a + block, count)) for a in range(0, count, block)]


def has_hooks(module: nn.Module) -> bool:
    """Whether a hook waits for this module's call, or for any module's; such a module must be called by itself."""
    own = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    of_all = (
        any_module._global_forward_hooks,
        any_module._global_forward_pre_hooks,
        any_module._global_backward_hooks,
        any_module._global_backward_pre_hooks,
    )
    return any(own) or any(of_all)
