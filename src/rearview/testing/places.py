"""Layers in standard places, tokens for them, and what promises are measured by: influence, cost, the operator applied.

Every axis has its own prime, so that no transposed axis can pass.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from rearview import attention
from rearview.attention import Spec
from rearview.attention.contract import Attention, Site, Weights
from rearview.core.errors import SettingsError

BATCH, GROUPS, HEADS, TOKENS, HEAD_WIDTH, WIDTH, VALUE_WIDTH, LOOKBACK = 2, 3, 5, 7, 11, 13, 17, 53
SITE = Site(
    groups=GROUPS,
    tokens=TOKENS,
    width=WIDTH,
    heads=HEADS,
    head_width=HEAD_WIDTH,
    value_width=VALUE_WIDTH,
    lookback=LOOKBACK,
)
EXACT = 1e-11  # float64, a few thousand operations on numbers near 1


def place(spec: Spec, dtype: torch.dtype = torch.float64, seed: int = 17, **changes: Any) -> Attention:
    """A layer in evaluation mode whose every parameter has left its initial value, so that none hides at zero."""
    torch.manual_seed(seed)
    site = replace(SITE, **changes)
    name, settings = attention.split(spec)
    layer = attention.create(name, site, **settings)
    channels = site.groups if site.time_ordered else site.tokens
    layer.prepare(torch.randn(19, channels, LOOKBACK))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return layer.to(dtype).eval()


def place_causal(spec: Spec, **changes: Any) -> Attention | None:
    """A layer in a causal place, or None where the mechanism refuses such places."""
    try:
        return place(spec, causal=True, **changes)
    except SettingsError:
        return None


def both(spec: Spec) -> list[Attention]:
    """The layer in a place that is not causal and, unless it refuses, in one that is."""
    return [layer for layer in (place(spec), place_causal(spec)) if layer is not None]


def tokens_for(layer: Attention, batch: int = BATCH, tokens: int | None = None, seed: int = 29) -> Tensor:
    site = layer.site
    draw = torch.Generator().manual_seed(seed)
    shape = (batch, site.groups, tokens or site.tokens, site.width)
    return torch.randn(shape, generator=draw, dtype=torch.float64).to(dtype_of(layer))


def dtype_of(layer: Attention) -> torch.dtype:
    """The type of a layer's numbers; one without any takes every type."""
    return next((parameter.dtype for parameter in layer.parameters()), torch.float64)


def ragged_mask(layer: Attention, batch: int = BATCH) -> Tensor:
    """Padding that differs from row to row; each has some of both kinds."""
    draw = torch.Generator().manual_seed(31)
    mask = torch.rand(batch, layer.site.groups, layer.site.tokens, generator=draw) < 0.6
    mask[:, :, 2], mask[:, :, -2] = False, True
    return mask


def scores_bias(layer: Attention, batch: int = BATCH) -> Tensor:
    site = layer.site
    draw = torch.Generator().manual_seed(37)
    return torch.randn(batch, site.groups, site.heads, site.tokens, site.tokens, generator=draw, dtype=torch.float64)


def influence(run: Callable[..., Tensor], x: Tensor, axis: int, **given: Any) -> Tensor:
    """[output, input] along an axis: how far the output moves when one input does, with whatever else is given."""
    still = run(x, **given)
    moved = []
    for index in range(x.shape[axis]):
        changed = x.clone()
        changed.select(axis, index).add_(torch.randn_like(changed.select(axis, index)))
        moved.append((run(changed, **given) - still).abs().transpose(0, axis).flatten(1).amax(1))
    return torch.stack(moved, dim=1)


def apart(moves: Tensor) -> bool:
    """Whether nothing moves anything but itself."""
    return bool((moves - moves.diag().diag() <= EXACT).all())


def operated(layer: Attention, weights: Weights, x: Tensor) -> Tensor:
    """What the effective operator makes of the values.

    Its parts add up, unless the layer puts them together itself, by `combine(**parts, x=x)`. A part is [batch, group,
    head, query, key], or across groups [batch, group, head, query, group, key]. A layer with `primers()`, [query, key,
    head, value_width], has values of its own for every pair.
    """
    parts = weights if isinstance(weights, dict) else {"all": weights}
    mixed = {name: _applied(layer, part, layer.values(x)) for name, part in parts.items()}
    combine = getattr(layer, "combine", None)
    return layer.project(reduce(torch.add, mixed.values()) if combine is None else combine(**mixed, x=x))


def _applied(layer: Attention, part: Tensor, values: Tensor) -> Tensor:
    if part.dim() == 6:
        return torch.einsum("bghqck,bchke->bghqe", part, values)
    primers = getattr(layer, "primers", None)
    if primers is not None:
        tokens = values.shape[3]
        return torch.einsum("bghqk,qkhe,bghke->bghqe", part, primers()[:tokens, :tokens], values)
    return part @ values


class Elements(TorchDispatchMode):
    """Counts the numbers that all operations write."""

    total = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        self.total += sum(leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, Tensor))
        return out


def cost(layer: Attention) -> Tensor:
    """Multiplications of all matrix products, and numbers written by all operations, in one forward pass."""
    x = tokens_for(layer, batch=1)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as products, Elements() as held:  # type: ignore[no-untyped-call]
        layer(x)
    return torch.tensor([products.get_total_flops(), held.total], dtype=torch.float64)
