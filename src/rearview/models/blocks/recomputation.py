"""Recompute work in the backward pass instead of keeping it, a few windows at a time.

Batch norm looks at all windows of a batch, so a batch can't be cut; but between two norms every window goes by itself.
There it is cut: what a part needs inside is held while that part is at work, and no longer. The norms stand outside,
run once, and remember their statistics once.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

T = TypeVar("T")
PER_WINDOW = 4
"""Axes from which on a tensor that a layer hands on, [batch, group, ...], has one entry for each window."""


def in_parts(work: Callable[..., T], windows: int, cut: Sequence[Tensor | None], beside: Sequence[Any] = ()) -> T:
    """work(*cut, *beside) for `windows` windows at a time, joined.

    All of `cut` have the windows first. Of `beside`, and of tuples in it, those with five axes or more have them first,
    unless they are the same for all, with 1 there; others are handed to every part.
    """
    first = cut[0]
    assert first is not None
    batch, parts = len(first), -(-len(first) // windows)
    columns = [[None] * parts if one is None else one.split(windows) for one in cut]
    columns += [_pieces(one, batch, windows, parts) for one in beside]
    run = partial(checkpoint, work, use_reentrant=False) if torch.is_grad_enabled() else work
    return _join([run(*given) for given in zip(*columns, strict=True)])


def _pieces(given: Any, batch: int, windows: int, parts: int) -> Sequence[Any]:
    if isinstance(given, tuple) and given:
        return list(zip(*(_pieces(one, batch, windows, parts) for one in given), strict=True))
    if isinstance(given, Tensor) and given.dim() > PER_WINDOW and len(given) != 1:
        assert len(given) == batch, f"what a layer is handed has {len(given)} entries for {batch} windows"
        return given.split(windows)
    return [given] * parts


def _join(parts: Sequence[Any]) -> Any:
    first = parts[0]
    if isinstance(first, tuple):
        return tuple(_join(column) for column in zip(*parts, strict=True))
    # What has no entry for each window (RBCA's fading) is the same in every part.
    return torch.cat(list(parts)) if isinstance(first, Tensor) and first.dim() >= PER_WINDOW else first
