"""Work that is done twice so that it need not be kept: now, and again in the backward pass."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def again(function: Callable[..., Tensor], *arguments: Any, random: bool = False) -> Tensor:
    """Call now, and call again in the backward pass instead of keeping what lies between.

    `random` says that the function draws numbers, which then are drawn alike both times.
    """
    if not torch.is_grad_enabled():
        return function(*arguments)
    return checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=random)
