"""What tests of kernels share: where they run, and the comparison with the same formula in float64."""

import importlib.util
import os
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

CUDA = torch.cuda.is_available()
INTERPRETED = importlib.util.find_spec("triton") is not None and os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if CUDA else "cpu"

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
