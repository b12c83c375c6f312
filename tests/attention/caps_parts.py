"""What the tests of CAPS share: a head's tensors, the reference over all rows, and every setting of the layer."""

import itertools
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from rearview import attention
from rearview.attention import Site, caps
from rearview.attention.caps.paths import EPS, Signals
from rearview.attention.contract import Inputs

BATCH, GROUPS, HEADS, HEAD_WIDTH, VALUE_WIDTH, WIDTH = 2, 3, 5, 7, 11, 13
SUBSETS = [paths for n in (1, 2, 3) for paths in itertools.combinations(caps.PATHS, n)]
SETTINGS: list[dict[str, Any]] = [
    *({"paths": paths} for paths in SUBSETS),
    {"rotation": "learned"},
    {"rotation": "none"},
    {"normaliser": "softmax"},
    {"normaliser": "softmax", "paths": ("prefix", "clock")},
    {"numerics": "released"},
    {"numerics": "released", "paths": ("riemann", "clock")},
    {"numerics": "released", "normaliser": "softmax"},
]


def layer_of(tokens: int = 17, seed: int = 3, site: dict[str, Any] | None = None, **settings: Any) -> caps.Layer:
    """A layer whose every parameter has left its initial value."""
    torch.manual_seed(seed)
    place = {"head_width": HEAD_WIDTH, "value_width": VALUE_WIDTH, **(site or {})}
    made = attention.create("caps", Site(GROUPS, tokens, WIDTH, HEADS, **place), **settings).double()
    assert isinstance(made, caps.Layer)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return made.eval()


def tokens_of(tokens: int = 17, seed: int = 5) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, GROUPS, tokens, WIDTH, generator=draw, dtype=torch.float64)


def head(tokens: int, batch: int = 1, heads: int = 2, width: int = 5, values: int = 3, seed: int = 7) -> list[Tensor]:
    """q, k, v, p, g and the clock before its softplus, [batch, 1, head, token, ...], all needing a gradient."""
    draw = torch.Generator().manual_seed(seed)
    widths = (width, width, values, width, width, 1)
    shapes = [(batch, 1, heads, tokens, n) for n in widths]
    return [torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_() for shape in shapes]


def signals(p: Tensor, g: Tensor, clock: Tensor, real: Tensor | None = None) -> Signals:
    return Signals(functional.softplus(clock) + EPS, p, g, real)


def ones(tokens: int, width: int = 1) -> Tensor:
    """Queries or keys whose product is 1: a score is then a sum of weights."""
    return torch.ones(1, 1, 1, tokens, width, dtype=torch.float64)


def by_reference(layer: caps.Layer, x: Tensor) -> Tensor:
    """The layer's output by the paper's equations, row by row and head by head."""
    settings = layer.settings
    q, k, v = layer.heads(x)
    found = layer._signals(Inputs(x))
    blank = torch.zeros_like(q)
    p, g = (blank if part is None else part for part in (found.p, found.g))
    rows = []
    for b, c, h in itertools.product(*(range(size) for size in v.shape[:3])):
        at = (b, c, h)
        omega = None
        if layer.rotary is None:
            omega = q.new_zeros(q.shape[-1] // 2)
        elif layer.rotary.frequencies is not None:
            omega = layer.rotary.frequencies[h]
        parts = (q[at], k[at], v[at], p[at], g[at], found.delta[at][:, 0], omega)
        rows.append(caps.reference(*parts, settings.paths, settings.normaliser))
    return layer.project(torch.stack(rows).view(v.shape))


def mix_sequentially(q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor) -> Tensor:
    """The recurrence as `recurrence` states it, token by token."""
    state = torch.zeros(*k.shape[:-2], k.shape[-1], v.shape[-1], dtype=v.dtype, device=v.device)
    out = []
    for t in range(q.shape[-2]):
        state = log_gate[..., t, :, None].exp() * state + k[..., t, :, None] * v[..., t, None, :]
        out.append((q[..., t, None, :] @ state).squeeze(-2))
    return torch.stack(out, dim=-2)
