"""The ways work is carried out: precision of products, blocks, what is computed twice, and hooks on modules."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules import module as any_module
from torch.utils.checkpoint import checkpoint

Given = ParamSpec("Given")
Result = TypeVar("Result")
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


def widen(x: Tensor) -> Tensor:
    """x in float32 where it is in float16, whose numbers end at 65,504; in its own type elsewhere."""
    return x.float() if x.dtype == torch.float16 else x


def in_float32(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """A function that is given float32 in place of float16, under autocast too; what it returns stays that wide.

    For what grows as a product of queries and keys: of tokens near 100 it leaves the range of float16.
    """

    @wraps(function)
    def widened(*arguments: Given.args, **named: Given.kwargs) -> Result:
        halves = [x for x in arguments if isinstance(x, Tensor) and x.dtype == torch.float16]
        if not halves:
            return function(*arguments, **named)
        wide = (widen(x) if isinstance(x, Tensor) else x for x in arguments)
        with full_precision(halves[0].device):
            return function(*wide, **named)  # type: ignore[arg-type]

    return widened


def through_float32(function: Callable[Given, Tensor]) -> Callable[Given, Tensor]:
    """The same for a function whose result fits into float16, and is handed back in it."""
    wide = in_float32(function)

    @wraps(function)
    def narrowed(*arguments: Given.args, **named: Given.kwargs) -> Tensor:
        half = any(isinstance(x, Tensor) and x.dtype == torch.float16 for x in arguments)
        result = wide(*arguments, **named)
        return result.half() if half else result

    return narrowed


def map_wide(linear: nn.Linear, x: Tensor) -> Tensor:
    """linear(x), where x in float32 on its way into float16 is narrowed after the map instead of before."""
    if x.dtype != torch.float32 or torch.float16 not in (linear.weight.dtype, autocast_type(x.device)):
        return linear(x)
    bias = None if linear.bias is None else linear.bias.float()
    with full_precision(x.device):
        return functional.linear(x, linear.weight.float(), bias).to(torch.float16)


def autocast_type(device: torch.device) -> torch.dtype | None:
    """The type that autocast brings products to; None where it is off."""
    kind = device.type
    return torch.get_autocast_dtype(kind) if kind in AUTOCAST and torch.is_autocast_enabled(kind) else None


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


def cut(x: Tensor, dim: int, size: int, value: float = 0.0) -> Tensor:
    """x cut along an axis, counted from the end, into pieces of `size`, the last one filled up with `value`."""
    count = x.shape[dim]
    # Of a length that changes, a compiler cancels this against the division, and a remainder only after minutes.
    padding = (count + size - 1) // size * size - count
    # It takes what is filled up for contiguous, too, which it is not where nothing is missing.
    x = x.contiguous() if torch.compiler.is_compiling() else x
    return functional.pad(x, (*[0] * (-2 * dim - 1), padding), value=value).unflatten(dim, (-1, size))


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
