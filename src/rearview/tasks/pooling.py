"""Losses as a sum over the observed cells and their number, so that batches pool without a bias."""

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn

Pooled = tuple[Float[Tensor, ""], Num[Tensor, ""]]


def sum_observed(cells: Tensor, observed: Tensor | None) -> Pooled:
    """The sum and the number of cells where `observed`, which broadcasts over them, is True (None: everywhere)."""
    if observed is None:
        return cells.sum(), cells.new_full((), cells.numel())
    return (cells * observed).sum(), observed.sum().to(torch.float32) * (cells.numel() // observed.numel())


def add_penalty(model: nn.Module, total: Float[Tensor, ""], number: Num[Tensor, ""]) -> Pooled:
    """A sum of losses with what the model itself wants small in the pass just made, such as DUET's idle experts.

    The penalty joins the mean as it is. In evaluation there is none, so weights are never selected by it.
    """
    ask = getattr(model, "penalty", None)
    asked = ask() if callable(ask) else None
    return (total, number) if asked is None else (total + asked * number, number)
