"""Attention over a long axis on a GPU: blocks of scores that are formed, used and formed again, never kept.

    S = Q K^T s + f(i - j),   W = softmax(S), relu(S), or softplus(R) relu(S),   O = W V

Torch's fused attention has no relu, reads a bias as a number for every pair, looks at every key, and in float32 runs
far below what tensor cores give. Here a bias of age alone is one vector, keys older than `back` are not visited, so
that time and memory are linear in the number of tokens, and float32 products run in TF32 where the caller allows it.
Kept for the backward pass are the inputs, the output and one number a row. The gradient of f is a sum of dS along
diagonals: one tile for each diagonal of blocks, then a sum in a fixed order.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from rearview.attention.kernels import Wrap, long_programs
from rearview.attention.kernels.operator import Operator
from rearview.attention.kernels.tiles import block, like, pack, precision, roomy

WIDEST = 128
LOG2E = 1.4426950408889634


class Tiles(NamedTuple):
    """Queries and keys of a tile, and how a program runs."""

    queries: int
    keys: int
    warps: int
    stages: int

    def options(self) -> dict[str, int]:
        """As arguments of a kernel."""
        return {"QUERIES": self.queries, "KEYS": self.keys, "num_warps": self.warps, "num_stages": self.stages}


FORWARD, QUERIES, KEYS = Tiles(128, 32, 4, 3), Tiles(128, 32, 4, 2), Tiles(32, 128, 4, 2)
"""The three passes at widths up to 64; the fastest of a dozen each on an H200 in TF32."""
AGES = Tiles(64, 64, 4, 1)
"""The gradient of f, whose tiles are square."""
SMALL = Tiles(32, 32, 4, 2)
"""All of them where less fits: at greater widths, with two scores in exact float32, on smaller chips."""


def attend_long(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    fading: Tensor | None,
    back: int | None,
    real: Tensor | None,
    scale: float,
    causal: bool,
    kind: str,
) -> Tensor:
    """W V [row, head, token, width] of queries and keys [branch, row, head, token, width].

    `fading` [head, age] is f from age 0 on and hides later keys, `back` the greatest age that is seen; `real`
    [row, token] is False on padding. Only the gated kind has two branches, only the softmax kind takes a fading.
    """
    furthest = v.shape[2] - 1 if back is None else min(back, v.shape[2] - 1)
    beside = (None if part is None else pack(part) for part in (fading, real))
    inputs = pack(q), pack(k), pack(v), *beside
    return long_attention(*inputs, furthest, scale, causal or fading is not None, kind)


def _common(
    q: Tensor, k: Tensor, v: Tensor, fading: Tensor | None, real: Tensor | None, scale: float, kind: str
) -> tuple[tuple[Any, ...], tuple[int, ...], float]:
    """Pointers, strides and the scale that every kernel begins on."""
    if kind == "softmax":
        scale = scale * LOG2E
        fading = None if fading is None else fading.to(torch.float32) * LOG2E
    pointers = q, k, v, q if fading is None else fading, q if real is None else real.view(torch.uint8)
    lines = 0 if fading is None else fading.stride(0), 0 if real is None else real.stride(0)
    return pointers, (*q.stride()[:4], *k.stride()[:4], *v.stride()[:3], *lines), scale


def _options(
    q: Tensor, v: Tensor, fading: Tensor | None, real: Tensor | None, causal: bool, kind: str, tiles: Tiles
) -> dict[str, Any]:
    widths = {"KEY": block(q.shape[4]), "VALUE": block(v.shape[3])}
    exact = precision(q.dtype)
    tight = max(widths.values()) > 64 or (kind == "gated" and exact == "tf32x3") or not roomy(q.device)
    flags = {"KIND": kind, "CAUSAL": causal, "AGED": fading is not None, "PADDED": real is not None}
    return {**widths, **flags, "PRECISION": exact, **(SMALL if tight else tiles).options()}


def _run_forward(
    wrap: Wrap, q: Tensor, k: Tensor, v: Tensor, fading: Tensor | None, real: Tensor | None,
    back: int, scale: float, causal: bool, kind: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    rows, heads, tokens, width = v.shape
    out = like(v)
    norm = torch.empty(v.shape[:3] if kind == "softmax" else (0,), dtype=torch.float32, device=v.device)
    options = _options(q, v, fading, real, causal, kind, FORWARD)
    pointers, strides, scale = _common(q, k, v, fading, real, scale, kind)
    wrap(long_programs.forward)[(rows * heads * -(-tokens // options["QUERIES"]),)](
        *pointers, out, norm, *strides, *out.stride()[:3], heads, tokens, back, scale, q.shape[4], width, **options
    )
    return out, norm


def _run_backward(
    wrap: Wrap, g: Tensor, q: Tensor, k: Tensor, v: Tensor, fading: Tensor | None,
    real: Tensor | None, out: Tensor, norm: Tensor, back: int, slope: float, causal: bool, kind: str, ages: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    rows, heads, tokens, width = v.shape
    dq, dk, dv, pull = (torch.empty_like(part) for part in (q, k, v, norm))
    pointers, strides, scale = _common(q, k, v, fading, real, slope, kind)
    numbers = heads, tokens, back, scale, slope, q.shape[4], width
    options = _options(q, v, fading, real, causal, kind, QUERIES)
    wrap(long_programs.pull_queries)[(rows * heads * -(-tokens // options["QUERIES"]),)](
        *pointers, out, norm, g, dq, pull,
        *strides, *out.stride()[:3], *g.stride()[:3], *dq.stride()[:4], *numbers, **options,
    )  # fmt: skip
    options = _options(q, v, fading, real, causal, kind, KEYS)
    wrap(long_programs.pull_keys)[(rows * heads * -(-tokens // options["KEYS"]),)](
        *pointers, norm, pull, g, dk, dv,
        *strides, *g.stride()[:3], *dk.stride()[:4], *dv.stride()[:3], *numbers, **options,
    )  # fmt: skip
    if not ages:
        return dq, dk, dv, torch.empty(0, device=v.device)
    options = _options(q, v, fading, real, causal, kind, AGES)
    side = options["QUERIES"]
    diagonals = min(-(-back // side) + 1, -(-tokens // side))
    sums = torch.empty(rows, heads, diagonals, side, side, dtype=torch.float32, device=v.device)
    shared = {name: options[name] for name in ("PADDED", "PRECISION", "KEY", "VALUE", "num_warps", "num_stages")}
    wrap(long_programs.pull_ages)[(rows * heads * diagonals,)](
        *pointers, norm, pull, g, sums, *strides, *g.stride()[:3],
        heads, tokens, back, scale, q.shape[4], width, diagonals, SIDE=side, **shared,
    )  # fmt: skip
    return dq, dk, dv, _by_age(sums.sum(0), tokens)


def _by_age(sums: Tensor, tokens: int) -> Tensor:
    """[head, age] from tiles [head, diagonal, i, j]: the sum of a tile over each of its own diagonals, i - j."""
    heads, diagonals, side, _ = sums.shape
    # Rows that are one number longer than they were start one later each: what was a diagonal is then a column.
    wide = functional.pad(sums.flip(-1), (0, side)).flatten(-2)[..., : side * (2 * side - 1)]
    columns = wide.view(heads, diagonals, side, 2 * side - 1).sum(-2)  # at c: i - j = c - (side - 1)
    line = functional.pad(columns, (0, 1))
    ages = torch.zeros(heads, (diagonals + 1) * side, dtype=sums.dtype, device=sums.device)
    ages[:, : diagonals * side] += line[..., :side].flatten(1)
    ages[:, side:] += line[..., side:].flatten(1)
    ages = ages[:, side - 1 :]
    return functional.pad(ages, (0, max(tokens - ages.shape[1], 0)))[:, :tokens].contiguous()


class _WithFading(Operator):
    """Where a fading is given, it has a gradient only where one is asked for."""

    def gradients(self, run: Callable[..., Any], ctx, pull: Tensor, needs: Sequence[bool]) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        fading, wanted = saved[3], saved[3] is not None and needs[3]
        *made, ages = run(pull, *saved, *ctx.settings, wanted)
        return (*made, ages.to(fading.dtype) if wanted else None, *[None] * 5)


long_attention = _WithFading("long_attention", _run_forward, _run_backward, tensors=5, keep=slice(None))
