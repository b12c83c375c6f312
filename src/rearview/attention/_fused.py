"""One place where attention runs fused: torch's kernel, or on a GPU our own for short axes, whichever fits."""

from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

Flat = Float[Tensor, "row head _ _"]


def attend(
    q: Flat, k: Flat, v: Flat, bias: Tensor | None, scale: float, *, causal: bool = False, dropout: float = 0.0
) -> Flat:
    """softmax(q k^T scale + bias) v; queries and keys may be wider or narrower than the values.

    `bias` is broadcastable to [row, head, query, key]; with `causal` later keys are hidden as well.
    """
    if _short_fits(q, k, v, bias, dropout):
        from rearview.attention.kernels.short import attend_short

        return attend_short(q, k, v, bias, scale, causal)
    width, spare = v.shape[-1], q.shape[-1] - v.shape[-1]
    if spare > 0:
        # The fused kernels want one head width; zeros in the values are cut off again, in q and k they change nothing.
        v = functional.pad(v, (0, spare))
    elif spare < 0:
        q, k = functional.pad(q, (0, -spare)), functional.pad(k, (0, -spare))
    if bias is not None:
        if causal:
            later = torch.full((q.shape[2], k.shape[2]), -torch.inf, dtype=q.dtype, device=q.device)
            bias = bias + later.triu_(1)
        bias = bias.to(q.dtype).expand(*q.shape[:3], k.shape[2])
    out = functional.scaled_dot_product_attention(
        q, k, v, attn_mask=bias, dropout_p=dropout, is_causal=causal and bias is None, scale=scale
    )
    return out[..., :width]


def _short_fits(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dropout: float) -> bool:
    """Whether the kernel for short axes can run here: it has no dropout and no gradient for a bias."""
    if q.device.type != "cuda" or dropout or not _has_triton():
        return False
    from rearview.attention.kernels.short import LONGEST, WIDEST

    known = q.dtype in (torch.float32, torch.bfloat16, torch.float16) and q.dtype == k.dtype == v.dtype
    small = q.shape[2] == k.shape[2] <= LONGEST and max(q.shape[3], v.shape[3]) <= WIDEST
    packed = all(part.stride(-1) == 1 for part in (q, k, v))
    learned = bias is not None and bias.requires_grad and torch.is_grad_enabled()
    return known and small and packed and not learned and min(q.shape) > 0


@cache
def _has_triton() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True
