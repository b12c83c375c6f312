"""Dynamic time warping: distances between many pairs of series at once, on a CPU or a GPU.

The distance of two series is the smallest sum of squared differences along a path through their steps that never goes
back and stays within a band around the diagonal. All pairs of a portion walk the table of costs together, one
anti-diagonal after another, so that every step is arithmetic on whole arrays.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from rearview.models.features.contract import portion

SPARSE = 16
"""A table of costs may be so many times as large as other results held at once: most of it is never touched."""


def warped_distances(
    ones: Float[Tensor, "one channel time"], others: Float[Tensor, "other channel time"], band: int
) -> Float[Tensor, "one other"]:
    """Distances of every one to every other; a path strays at most `band` steps from the diagonal."""
    pairs = portion(ones, ones.shape[-1] ** 2 // SPARSE)
    others_at_once = min(len(others), max(1, int(pairs**0.5)))
    ones_at_once = max(1, pairs // others_at_once)
    rows = [
        torch.cat([_walk(one, other, band) for other in others.split(others_at_once)], dim=1)
        for one in ones.split(ones_at_once)
    ]
    return torch.cat(rows)


def _walk(ones: Tensor, others: Tensor, band: int) -> Tensor:
    steps, many = ones.shape[-1], len(ones) * len(others)
    # |x - y|^2 as one product: (-2 x, |x|^2, 1) with (y, 1, |y|^2).
    left = torch.cat([-2 * ones, ones.square().sum(1, keepdim=True), torch.ones_like(ones[:, :1])], dim=1)
    right = torch.cat([others, torch.ones_like(others[:, :1]), others.square().sum(1, keepdim=True)], dim=1)
    left, right = left.permute(2, 0, 1).contiguous(), right.permute(2, 1, 0).contiguous()
    cost = ones.new_empty(steps, steps, len(ones), len(others))  # filled within the band alone
    for step in range(steps):
        near = slice(max(0, step - band), min(steps, step + band + 1))
        torch.matmul(left[step], right[near], out=cost[step, near])
    # Along an anti-diagonal the one's step grows and the other's falls: a view with strides of its own.
    along = cost.as_strided((2 * steps - 1, steps, many), (many, (steps - 1) * many, 1))
    before, last = (ones.new_full((steps + 1, many), torch.inf) for _ in range(2))
    for diagonal in range(2 * steps - 1):
        low = max(0, diagonal - steps + 1, -(-(diagonal - band) // 2))
        high = min(diagonal, steps - 1, (diagonal + band) // 2) + 1
        best = torch.minimum(last[low + 1 : high + 1], last[low:high])
        torch.minimum(best, before[low:high], out=best)
        if diagonal == 0:
            best.zero_()
        best += along[diagonal, low:high]
        # Two diagonals ago becomes this one; the cells beside it must not hold what stood there.
        before[low], before[high + 1 :] = torch.inf, torch.inf
        before[low + 1 : high + 1] = best
        before, last = last, before
    return last[steps].view(len(ones), len(others)).clamp(min=0)
