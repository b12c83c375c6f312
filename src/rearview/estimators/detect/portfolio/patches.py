"""Windows of rows as points: cut out of the rows of a series, and errors of their cells laid back on the rows."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

STEP = 4
"""Rows from one window to the next."""


def first_rows(rows: int, window: int) -> Int[Tensor, " window"]:
    """The first row of each window: one each `STEP` rows, and one at the very end."""
    last = rows - window
    firsts = torch.arange(0, last + 1, STEP)
    return firsts if firsts[-1] == last else torch.cat([firsts, torch.tensor([last])])


def cut(values: Float[Tensor, "row channel"], window: int, *, centred: bool = False) -> Float[Tensor, "window cell"]:
    """Windows as points whose cells are rows times channels; a shorter series is padded with its first row.

    `centred`: each channel of a window has its mean taken out.
    """
    if len(values) < window:
        values = torch.cat([values[:1].expand(window - len(values), -1), values])
    rows = first_rows(len(values), window).to(values.device)[:, None] + torch.arange(window, device=values.device)
    windows = values[rows]
    return (windows - windows.mean(1, keepdim=True) if centred else windows).flatten(1)


def lay(errors: Float[Tensor, "window cell"], rows: int, window: int) -> Float[Tensor, "row channel"]:
    """The mean error of each cell over all windows that hold it; what `cut` padded is left out."""
    whole = max(rows, window)
    errors = errors.unflatten(1, (window, -1))
    at = (first_rows(whole, window)[:, None] + torch.arange(window)).flatten().to(errors.device)
    total = errors.new_zeros(whole, errors.shape[-1]).index_add_(0, at, errors.flatten(0, 1))
    return (total / torch.bincount(at, minlength=whole)[:, None])[whole - rows :]
