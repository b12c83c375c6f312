"""One place where attention runs fused: torch's kernel, or on a GPU one of our own, whichever fits."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from rearview.attention import kernels
from rearview.attention.shared.execution import tf32_allowed
from rearview.embed.dropout import dropout as drop

REACH = 1 << 31
"""Numbers from the first token of a head to its last that kernels can count: they do so in 32 bits."""
Flat = Float[Tensor, "row head _ _"]
FEW = 32
"""Up to so many keys plain operations beat torch's fused kernel on a CPU (by a factor of 2 at 16 and 24), and what they
keep for the backward pass is small."""


def attend(
    q: Flat, k: Flat, v: Flat, bias: Tensor | None, scale: float, *, causal: bool = False, dropout: float = 0.0
) -> Flat:
    """softmax(q k^T scale + bias) v; queries and keys may be wider or narrower than the values.

    `bias` is broadcastable to [row, head, query, key]; with `causal` later keys are hidden as well. A share
    `dropout` of the weights is zeroed and the rest scaled up.
    """
    packed = all(part.stride(-1) == 1 for part in (q, k, v))
    # The kernel for short axes has no gradient for a bias.
    if own_kernels_run(q, k, v) and fits_short_kernel(q, v) and not needs_gradient(bias) and packed:
        from rearview.attention.kernels.short import attend_short

        return attend_short(q, k, v, bias, scale, causal, drop_seed(q, dropout), dropout)
    # Our kernel beats torch's in TF32, which that one does not use; half precision is where torch's is at home.
    if bias is None and fits_long_kernel(q, k, v, dropout) and q.dtype == torch.float32 and tf32_allowed():
        from rearview.attention.kernels.long import attend_long

        return attend_long(q[None], k[None], v, None, None, None, scale, causal, "softmax")
    if q.device.type == "cpu" and k.shape[2] <= FEW and torch.finfo(q.dtype).bits >= 32:
        return _plain(q, k, v, bias, scale, causal, dropout)
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
        # Left to torch where rows or heads share it: to align keys it copies what it is given.
        bias = bias.to(q.dtype)[(None,) * (4 - bias.dim())]
        bias = bias.expand(*bias.shape[:2], q.shape[2], k.shape[2])
    out = functional.scaled_dot_product_attention(
        q, k, v, attn_mask=bias, dropout_p=dropout, is_causal=causal and bias is None, scale=scale
    )
    return out[..., :width]


def _plain(q: Flat, k: Flat, v: Flat, bias: Tensor | None, scale: float, causal: bool, dropout: float) -> Flat:
    """The same by plain operations."""
    # Side by side, so that products run one way wherever the keys lay and results are equal bit for bit.
    scores = q @ k.contiguous().transpose(-1, -2) * scale
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    if causal:
        later = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).triu_(1)
        scores = scores.masked_fill(later, -torch.inf)
    return drop(scores.softmax(-1), dropout, training=True) @ v


def flatten_bias(bias: Tensor, batch: int, group: int) -> Float[Tensor, "row _ token token"]:
    """A bias broadcastable to [batch, group, head, token, token] as [row, ...], one row where all have the same."""
    bias = bias[(None,) * (5 - bias.dim())]
    return bias[0] if bias.shape[:2] == (1, 1) else bias.expand(batch, group, -1, -1, -1).flatten(0, 1)


def own_kernels_run(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether kernels of our own can take these: on a GPU, of a type and size they know, as many keys as queries."""
    if not kernels.available(q.device):
        return False
    from rearview.attention.kernels.tiles import KNOWN

    if q.dtype not in KNOWN or not q.dtype == k.dtype == v.dtype:
        return False
    reached = all(part.shape[-2] * part.stride(-2) < REACH for part in (q, k, v))
    return reached and q.shape[-2] == k.shape[-2] and min(*q.shape, *v.shape) > 0


def fits_long_kernel(q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0) -> bool:
    """Whether the kernel for long axes can run here: it drops no weights."""
    if dropout or not own_kernels_run(q, k, v):
        return False
    from rearview.attention.kernels.long import WIDEST

    return max(q.shape[-1], v.shape[-1]) <= WIDEST


def drop_seed(q: Tensor, dropout: float) -> Tensor | None:
    """A fresh seed for a kernel that drops weights; None where it drops none."""
    # Drawn on the device, where a captured training step draws another one every time it is replayed.
    return torch.randint(1 << 31, (1,), device=q.device) if dropout else None


def needs_gradient(bias: Tensor | None) -> bool:
    """Whether a bias needs a gradient here."""
    return bias is not None and bias.requires_grad and torch.is_grad_enabled()


def fits_short_kernel(q: Tensor, v: Tensor) -> bool:
    """Whether axis and heads are small enough for the kernel that holds all scores of a head."""
    if not kernels.short_available():
        return False
    from rearview.attention.kernels.short import CRAMPED, LONGEST, WIDEST
    from rearview.attention.kernels.tiles import roomy

    tokens, width = q.shape[-2], max(q.shape[-1], v.shape[-1])
    share = 1 if roomy(q.device) else 2
    cramped = q.dtype == torch.float32 and min(tokens, width) > CRAMPED // share
    return tokens <= LONGEST // share and width <= WIDEST and not cramped
