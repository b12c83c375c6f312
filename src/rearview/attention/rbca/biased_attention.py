"""Fused attention under a bias: a gradient for the bias that stays fused, and a band of keys at linear cost.

Four pieces that any mechanism with a causal mask can use:

- `expand_ages`: a bias that depends on age alone, from its values at ages 0, 1, 2 ... (as many as keys, not pairs);
- `attend_biased`: softmax(Q K^T s + M) V on torch's fused kernel. On a CPU that kernel takes no bias that needs a
  gradient and torch turns to its explicit form, which keeps every weight for the backward pass. Here the forward pass
  stays fused and the backward pass makes the weights again, a block at a time, so that memory does not grow with the
  square:

      P = softmax(Q K^T s + M)     dP = dO V^T     dS = P o (dP - rowsum(dO o O))
      dQ = s dS K     dK = s dS^T Q     dV = P^T dO     dM = dS, summed over what M is broadcast along

- `attend_band`: attention to the last few keys only, in chunks, so that cost grows with the number of tokens;
- `attend_by_age`: attention under a bias of age alone, in the form that suits: all pairs, a band, or on a GPU a kernel
  that reads the bias as a vector.
"""

from itertools import product
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from rearview.attention.contract import hide_padding
from rearview.attention.shared import fused

BLOCK = 1 << 18
"""Scores held at a time in the backward pass: 1 MiB of float32, which a cache keeps."""
SHORT = 128
"""Below so many keys torch's explicit form is the faster one (by a fifth at 42 keys), and what it keeps is small."""
CHUNK = 64
"""The fewest queries of a chunk: smaller ones spend more on calls than they save in pairs."""

Flat = Float[Tensor, "row head _ _"]


def expand_ages(profile: Float[Tensor, "head age"], rows: int, columns: int) -> Float[Tensor, "head {rows} {columns}"]:
    """M[i, j] = profile[age] for the last `rows` queries of `columns` keys, -inf at ages outside of the profile."""
    ages = min(profile.shape[-1], columns)
    line = functional.pad(profile[:, :ages].flip(-1), (columns - ages, rows - 1), value=-torch.inf)
    if not torch.compiler.is_compiling():
        return line.unfold(-1, columns, 1).flip(-2)
    # A compiler takes the size of an unfolded window for a constant. Copies of the line, one cell longer than a row,
    # shift by one from row to row.
    length = rows + columns - 1
    copies = functional.pad(line, (0, 1))[:, None].expand(-1, rows, -1).flatten(1)
    return copies[:, : rows * length].unflatten(1, (rows, length))[:, :, rows - 1 :]


def attend_biased(q: Flat, k: Flat, v: Flat, bias: Tensor, scale: float, ordered: bool = False) -> Flat:
    """softmax(q k^T scale + bias) v; `bias` is broadcastable to [row, head, query, key] and may need a gradient.

    `ordered` says that the bias hides every key after a query's own, where the last query's is the last key; the
    backward pass then leaves those pairs out.
    """
    bias = bias.to(q.dtype)
    if bias.requires_grad and torch.is_grad_enabled() and bias.device.type == "cpu" and k.shape[2] >= SHORT:
        return _Attend.apply(q, k, v, bias, scale, ordered)  # type: ignore[no-untyped-call]
    return fused.attend(q, k, v, bias, scale)


def attend_by_age(
    q: Flat,
    k: Flat,
    v: Flat,
    profile: Float[Tensor, "_ age"],
    back: int | None,
    real: Bool[Tensor, "row token"] | None,
    scale: float,
    flat: bool = False,
) -> Flat:
    """Attention with profile[age] added to the scores of keys up to age `back`, or all; `real` is False on padding.

    `flat` says that the profile is 0 at all ages: then the order alone hides keys, and no bias is read.
    """
    if flat and back is None and real is None:
        return fused.attend(q, k, v, None, scale, causal=True)
    tokens = v.shape[2]
    if fused.fits_long_kernel(q, k, v) and (fused.needs_gradient(profile) or not fused.fits_short_kernel(q, v)):
        from rearview.attention.kernels.long import attend_long

        fading = profile.expand(q.shape[1], -1)
        return attend_long(q[None], k[None], v, fading, back, real, scale, True, "softmax")
    # Two chunks are as dear as the whole.
    if back is not None and tokens > 2 * chunk_of(back):
        return attend_band(q, k, v, profile, back, real, scale)
    bias = expand_ages(profile, tokens, tokens)[None]
    return attend_biased(q, k, v, bias if real is None else hide_padding(bias, real), scale, ordered=True)


def attend_band(
    q: Flat,
    k: Flat,
    v: Flat,
    profile: Float[Tensor, "_ age"],
    back: int,
    real: Bool[Tensor, "row token"] | None,
    scale: float,
) -> Flat:
    """Attention to keys of ages 0 to `back`; `real` is False on padding.

    Queries go in chunks of at least `back`, each with the keys of its own and of the `back` tokens before. The first
    chunk has nothing before it and runs by itself, so no key outside of the sequence needs hiding; at the end, zeros
    fill up the last chunk, where they lie in the future of every real query.
    """
    chunk = chunk_of(back)
    rows, heads, tokens, width = v.shape
    chunks = -(-tokens // chunk) - 1
    spare = (chunks + 1) * chunk - tokens
    band = expand_ages(profile[:, : back + 1], chunk, back + chunk)
    first = band[None, :, :, back:]
    if real is not None:
        first = hide_padding(first, real[:, :chunk])
    start = attend_biased(q[:, :, :chunk], k[:, :, :chunk], v[:, :, :chunk], first, scale, ordered=True)

    later = functional.pad(q[:, :, chunk:], (0, 0, 0, spare)).unflatten(2, (chunks, chunk))
    seen = [
        functional.pad(part[:, :, chunk - back :], (0, 0, 0, spare)).unfold(2, back + chunk, chunk).transpose(-1, -2)
        for part in (k, v)
    ]
    bias = band[None]
    if real is not None:
        bias = hide_padding(
            bias, functional.pad(real[:, chunk - back :], (0, spare)).unfold(1, back + chunk, chunk).flatten(0, 1)
        )
    by_chunk = [part.transpose(1, 2).flatten(0, 1) for part in (later, *seen)]
    rest = attend_biased(by_chunk[0], by_chunk[1], by_chunk[2], bias, scale, ordered=True)
    rest = rest.view(rows, chunks, heads, chunk, width).transpose(1, 2).flatten(2, 3)
    return torch.cat([start, rest[:, :, : tokens - chunk]], dim=2)


def chunk_of(back: int) -> int:
    """The number of queries that `attend_band` takes at a time."""
    return max(back, CHUNK)


class _Attend(torch.autograd.Function):
    """Fused forward; backward by blocks."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, scale: float, ordered: bool) -> Tensor:
        out = fused.attend(q, k, v, bias, scale)
        ctx.save_for_backward(q, k, v, bias, out)
        ctx.scale, ctx.ordered = scale, ordered
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None, None]:
        q, k, v, bias, out = ctx.saved_tensors
        wide = torch.promote_types(q.dtype, torch.float32)
        dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        dbias = torch.zeros(bias.shape, dtype=wide, device=bias.device)
        pull = (grad.to(wide) * out.to(wide)).sum(-1, keepdim=True)
        over = tuple(axis for axis in (0, 1) if bias.shape[axis] == 1)
        # Slices of rows and of queries whose scores fill about one block.
        heads, queries, keys = q.shape[1], q.shape[2], k.shape[2]
        together = max(1, BLOCK // (heads * queries * keys))
        size = queries if heads * queries * keys <= BLOCK else max(1, BLOCK // (heads * keys))
        for row, query in product(range(0, len(q), together), range(0, queries, size)):
            rows, part = slice(row, row + together), slice(query, min(query + size, queries))
            mine = rows if bias.shape[0] > 1 else slice(None)
            seen = slice(0, part.stop + k.shape[2] - q.shape[2] if ctx.ordered else None)
            some, seen_keys, values, pulled = q[rows, :, part], k[rows, :, seen], v[rows, :, seen], grad[rows, :, part]
            scores = (some @ seen_keys.transpose(-1, -2)).to(wide).mul_(ctx.scale).add_(bias[mine, :, part, seen])
            weights = scores.softmax(-1)
            dv[rows, :, seen] += weights.to(v.dtype).transpose(-1, -2) @ pulled
            dscores = (pulled @ values.transpose(-1, -2)).to(wide).sub_(pull[rows, :, part]).mul_(weights)
            dbias[mine, :, part, seen] += dscores.sum(over, keepdim=True) if over else dscores
            dscores = dscores.mul_(ctx.scale).to(q.dtype)
            dq[rows, :, part] = dscores @ seen_keys
            dk[rows, :, seen] += dscores.transpose(-1, -2) @ some
        return dq, dk, dv, dbias.to(bias.dtype), None, None
