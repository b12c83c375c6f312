"""Windows of rows as points: cut from the rows of a series, and errors of their cells averaged per row."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rearview.models.features.contract import portion

STEP = 4
"""Rows from one window to the next; windows of fewer rows are the half or a quarter as far apart, so that none is left
out between them."""


def first_rows(rows: int, window: int) -> Int[Tensor, " window"]:
    """The first row of each window: one each `STEP` rows at most, and one at the very end."""
    last = max(rows - window, 0)
    firsts = torch.arange(0, last + 1, next(step for step in (STEP, STEP // 2, 1) if step <= max(window, 1)))
    return firsts if firsts[-1] == last else torch.cat([firsts, torch.tensor([last])])


def pad(values: Float[Tensor, "row channel"], window: int) -> Float[Tensor, "row channel"]:
    """A series that is shorter than a window begins with more of its first row."""
    return torch.cat([values[:1].expand(max(window - len(values), 0), -1), values])


def cut_windows(
    values: Float[Tensor, "row channel"], window: int, firsts: Int[Tensor, " window"], *, centred: bool = False
) -> Float[Tensor, "window cell"]:
    """The windows that begin at some rows, as points whose cells are rows times channels.

    `centred`: each channel of a window has its mean taken out.
    """
    windows = values[_rows(firsts, window).to(values.device)]
    return (windows - windows.mean(1, keepdim=True) if centred else windows).flatten(1)


def average_errors(
    values: Float[Tensor, "row channel"], window: int, judge: Callable[[Tensor], Tensor], *, centred: bool = False
) -> Float[Tensor, "row channel"]:
    """The mean error of each cell over all windows that hold it; `judge` gives the errors of windows.

    Windows are processed in portions: all of them together would take many times the memory of the rows.
    """
    total, number = torch.zeros_like(values), values.new_zeros(len(values), 1)
    for firsts in first_rows(len(values), window).split(portion(values, 4 * window * values.shape[1])):
        errors = judge(cut_windows(values, window, firsts, centred=centred)).view(-1, values.shape[1])
        at = _rows(firsts, window).flatten().to(values.device)
        total.index_add_(0, at, errors)
        number.index_add_(0, at, number.new_ones(len(at), 1))
    return total / number


def _rows(firsts: Int[Tensor, " window"], window: int) -> Int[Tensor, "window row"]:
    return firsts[:, None] + torch.arange(window)
