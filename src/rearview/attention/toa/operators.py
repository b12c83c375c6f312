"""TOA's learned operators S = I + M: how they are applied to keys and values, and regularised in training."""

import torch
from jaxtyping import Float
from torch import Tensor

from rearview.attention.shared.fused import own_kernels_run


def drop_entries(offset: Tensor, rate: Tensor | float) -> Tensor:
    """M~ = M * B / (1 - p): each entry dropped with probability p, the others scaled up (section 3.4)."""
    kept = torch.rand_like(offset) >= rate
    return offset * kept / (1 - rate)


def apply_operator(
    offset: Float[Tensor, "*branch head token token"], part: Float[Tensor, "*branch batch group head token d"]
) -> Float[Tensor, "*branch batch group head token d"]:
    """(I + offset) part, as part + offset part: one product a head, whatever the number of batches and groups.

    Over fewer tokens than a head has channels the products are so small that turning the axes would cost more than it
    saves, and there is one for each batch and group.
    """
    tokens, width = part.shape[-2:]
    if own_kernels_run(part, part, offset):
        from rearview.attention.kernels.mixture import add_mixture, fits

        if fits(part):
            rows = part.view(-1, *part.shape[-5:]).flatten(1, 2)
            return add_mixture(offset.view(-1, *offset.shape[-3:]), rows).view(part.shape)
    if tokens <= width:
        each = part.reshape(-1, tokens, width)
        offsets = offset[..., None, None, :, :, :].expand(*part.shape[:-1], tokens).reshape(-1, tokens, tokens)
        return torch.baddbmm(each, offsets, each).view(part.shape)
    columns = part.movedim((-5, -4), (-3, -2))
    flat = columns.flatten(-3).flatten(0, -3)
    out = torch.baddbmm(flat, offset.flatten(0, -3), flat).view(columns.shape).movedim((-3, -2), (-5, -4))
    # A CPU's kernels walk from token to token and want them side by side; on a GPU the copy is one more pass.
    return out.contiguous() if out.device.type == "cpu" else out
