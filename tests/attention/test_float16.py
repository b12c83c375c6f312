"""Every mechanism in float16: where its output lies within that type's range, what lies between must not leave it."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from rearview import attention
from rearview.attention.contract import Attention
from rearview.core.errors import SettingsError
from rearview.testing.places import place, tokens_for

NAMES = attention.names()
HALF = torch.finfo(torch.float16)
LEAVE = {"caps", "hyperglu", "linear_rope", "toa"}
"""Nothing divides their products of queries, keys and values: tokens of 100 make outputs beyond 65,504."""
SETTINGS = [
    *((name, {}) for name in NAMES),
    *(("toa", {"kind": kind, "score_norm": norm}) for kind in ("relu", "gated") for norm in ("none", "l2", "mean")),
    ("toa", {"kind": "softmax"}),
    ("caps", {"normaliser": "softmax"}),
    ("softmax", {"places": True}),
    ("mica", {"local": "linear"}),
]


def drawn(name: str, settings: dict[str, Any]) -> Iterator[Attention]:
    """The layer in float16 in each place that it takes."""
    for causal in (False, True):
        try:
            layer = place({"name": name, **settings}, causal=causal)
        except SettingsError:
            continue
        yield layer.half()


def error_of_rounding(layer: Attention, x: Tensor, exact: Tensor) -> float:
    """How far the output moves where tokens and parameters are rounded to float16 once more."""
    moved = []
    for _ in range(5):
        other = copy.deepcopy(layer)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.mul_(1 + HALF.eps * torch.randn_like(parameter).sign())
        tokens = x * (1 + HALF.eps * torch.randn_like(x).sign())
        moved.append(float((other(tokens) - exact).abs().max()))
    return max(moved)


@torch.no_grad()
@pytest.mark.parametrize("scale", [1, 10, 100])
@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_float16_reaches_as_far_as_the_output(name: str, settings: dict[str, Any], scale: int) -> None:
    """Allowed is twice the error of rounding tokens and parameters once more, plus one rounding of the output."""
    for layer in drawn(name, settings):
        x = (scale * tokens_for(layer)).half()
        wide = copy.deepcopy(layer).float()
        exact = wide(x.float())
        leaves = bool(exact.abs().max() > HALF.max)
        assert not leaves or (name in LEAVE and scale > 1)
        assert leaves or settings or name not in LEAVE or scale < 100
        if leaves:
            continue
        found = layer(x)
        assert found.dtype == torch.float16
        assert found.isfinite().all()
        assert (found - exact).abs().max() <= 2 * error_of_rounding(
            wide, x.float(), exact
        ) + HALF.eps * exact.abs().max()
        weights = layer.weights(x)
        assert all(part.isfinite().all() for part in (weights.values() if isinstance(weights, dict) else [weights]))


@pytest.mark.parametrize("scale", [1, 10, 100])
@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_autocast_to_float16_reaches_as_far(name: str, settings: dict[str, Any], scale: int) -> None:
    for layer in drawn(name, settings):
        layer.float()
        x = (scale * tokens_for(layer)).float().requires_grad_()
        if layer(x).abs().max() > HALF.max:
            continue
        with torch.autocast("cpu", dtype=torch.float16):
            found = layer(x)
            weights = layer.weights(x)
        assert found.isfinite().all()
        assert all(part.isfinite().all() for part in (weights.values() if isinstance(weights, dict) else [weights]))
        if scale == 1:
            found.float().sum().backward()
            assert x.grad is not None
            assert x.grad.isfinite().all()
