"""What tests of kernels share: where they run, and the comparison with the same formula in float64."""

import importlib.util
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from rearview import attention
from rearview.attention.contract import Site

CUDA = torch.cuda.is_available()
INTERPRETED = importlib.util.find_spec("triton") is not None and os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if CUDA else "cpu"
ROWS, HEADS, KEY_WIDTH, VALUE_WIDTH = 3, 2, 7, 11
KINDS = ["softmax", "relu", "gated"]
EXACT = 2e-5
"""Of the largest number: float32, sums of up to 200 products of numbers near 1."""

needs_kernels = pytest.mark.skipif(
    not (CUDA or INTERPRETED), reason="neither a CUDA device nor Triton's interpreter (TRITON_INTERPRET=1) is here"
)
needs_a_device = pytest.mark.skipif(not CUDA, reason="no CUDA device")


def with_gradients(function: Callable[..., Tensor], parts: list[Tensor]) -> list[Tensor]:
    """The output and the gradient of every part, under one cotangent."""
    leaves = [part.detach().clone().requires_grad_() for part in parts]
    y = function(*leaves)
    cotangent = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).view(y.shape).to(y)
    return [y.detach(), *torch.autograd.grad(y, leaves, cotangent)]


def errors(
    ours: Callable[..., Tensor], theirs: Callable[..., Tensor], parts: list[Tensor], dtype: torch.dtype = torch.float32
) -> list[float]:
    """How far output and gradients are from theirs in float64, as shares of each tensor's largest number."""
    found = with_gradients(ours, [part.to(DEVICE, dtype) for part in parts])
    exact = with_gradients(theirs, [part.to(DEVICE, dtype).double() for part in parts])
    pairs = zip(found, exact, strict=True)
    return [((one.double() - other).abs().max() / other.abs().max().clamp(min=1e-30)).item() for one, other in pairs]


def compiled_errors(layer: nn.Module, x: Tensor) -> list[float]:
    """How far the compiled layer's output and gradients are from the layer's own."""
    torch.compiler.reset()
    found = []
    for call in (torch.compile(layer, fullgraph=True), layer):
        y = call(x)
        found.append([y, *torch.autograd.grad(y.square().sum(), list(layer.parameters()))])
    pairs = zip(*found, strict=True)
    return [((one - other).abs().max() / other.abs().max().clamp(min=1e-30)).item() for one, other in pairs]


def weighed(kind: str, q: Tensor, k: Tensor, scale: float, hidden: Tensor | None, bias: Tensor | None = None) -> Tensor:
    """Weights of queries and keys [branch, row, head, token, width]."""
    scores = q @ k.transpose(-1, -2) * scale
    first = scores[0] if bias is None else scores[0] + bias
    if hidden is not None:
        first = first.masked_fill(hidden, -torch.inf)
    if kind == "softmax":
        return first.softmax(-1)
    return first.relu() if kind == "relu" else first.relu() * functional.softplus(scores[1])


def drawn(kind: str, tokens: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Queries and keys [branch, row, head, token, width] as they come from a projection, and values."""
    branches = 2 if kind == "gated" else 1
    q, k = (torch.randn(ROWS, tokens, HEADS, branches, KEY_WIDTH).permute(3, 0, 2, 1, 4) for _ in range(2))
    parts = [q, k, torch.randn(ROWS, tokens, HEADS, VALUE_WIDTH).transpose(1, 2)]
    return [part.to(DEVICE, dtype).requires_grad_() for part in parts]


def agree(ours: Tensor, leaves: list[Tensor], theirs: Any, allowed: float = EXACT) -> None:
    """Output and gradients of ours against those of `theirs` on the same numbers in float64."""
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    wanted = theirs(*exact)
    cotangent = torch.randn_like(ours)
    got = [ours, *torch.autograd.grad(ours, leaves, cotangent)]
    wanted = [wanted, *torch.autograd.grad(wanted, exact, cotangent.double())]
    for one, other in zip(got, wanted, strict=True):
        gap = (one.double() - other).abs().max().item()
        assert gap <= allowed * max(1.0, other.abs().max().item())


def ages(tokens: int) -> Tensor:
    at = torch.arange(tokens, device=DEVICE)
    return at[:, None] - at


def built(spec: dict[str, Any], tokens: int) -> Any:
    """A layer on the CPU in float64 whose parameters have all left their initial values."""
    name, settings = attention.split(spec)
    torch.manual_seed(17)
    layer = attention.create(name, Site(groups=2, tokens=tokens, width=13, heads=2, head_width=8), **settings)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return layer.double().train()
