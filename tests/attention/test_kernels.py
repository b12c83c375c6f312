"""The GPU kernels are the formulas, outputs and gradients: on a CUDA device, or in Triton's interpreter on a CPU.

The interpreter is asked for with TRITON_INTERPRET=1 before anything is imported; it shows the arithmetic, not the
compiled code. What only a device can show (which kernel a layer takes, compiled layers) is skipped without one.
"""

from typing import Any

import pytest
import torch
from kernel_parts import (
    DEVICE,
    EXACT,
    HEADS,
    KEY_WIDTH,
    KINDS,
    ROWS,
    ages,
    agree,
    built,
    drawn,
    needs_a_device,
    needs_kernels,
    weighed,
)
from torch import Tensor

pytestmark = [needs_kernels, pytest.mark.usefixtures("float32_products")]


@pytest.mark.parametrize("tokens", [1, 12, 42, 70])
@pytest.mark.parametrize("branches", [1, 2])
def test_a_mixture_is_added_to_every_row_of_its_head(tokens, branches, monkeypatch):
    from rearview.attention.kernels import mixture

    monkeypatch.setattr(mixture, "NUMBERS", 16 * 64 if tokens < 64 else 16 * 128)
    monkeypatch.setattr(mixture, "PROGRAMS", 2 * branches * HEADS)  # fewer than tiles, so that a program takes several
    torch.manual_seed(3)
    part = torch.randn(11, tokens, HEADS, branches, KEY_WIDTH, device=DEVICE).permute(3, 0, 2, 1, 4)
    offset = 0.3 * torch.randn(branches, HEADS, tokens, tokens, device=DEVICE).transpose(-1, -2)
    leaves = [offset.requires_grad_(), part.requires_grad_()]
    agree(mixture.add_mixture(*leaves), leaves, lambda offset, part: part + offset[:, None] @ part)


@pytest.mark.parametrize("tokens", [1, 65, 150])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hiding", [False, True])
def test_blocks_are_the_whole(kind, tokens, hiding):
    from rearview.attention.kernels.long import attend_long

    torch.manual_seed(5)
    leaves = drawn(kind, tokens)
    # Token by token, as no mask of ours lies but a caller's may.
    real = (torch.rand(tokens, ROWS, device=DEVICE) > 0.3).T if hiding else None
    hidden = None
    if real is not None:
        own = ages(tokens) == 0 if kind == "softmax" else False
        hidden = (ages(tokens) < 0) | ~(real[:, None, None, :] | own)
    ours = attend_long(*leaves, None, None, real, 0.4, hiding, kind)
    agree(ours, leaves, lambda q, k, v: weighed(kind, q, k, 0.4, hidden) @ v)


@pytest.mark.parametrize("tokens", [1, 65, 200])
@pytest.mark.parametrize("back", [None, 0, 37, 70])
@pytest.mark.parametrize("padded", [False, True])
def test_a_bias_of_age_alone_gets_its_gradient_from_every_pair_of_that_age(tokens, back, padded):
    from rearview.attention.kernels.long import attend_long

    torch.manual_seed(7)
    real = torch.rand(ROWS, tokens, device=DEVICE) > 0.3 if padded else None
    fading = torch.randn(HEADS, tokens, device=DEVICE)
    leaves = [*drawn("softmax", tokens), fading.requires_grad_()]
    age = ages(tokens)
    hidden = (age < 0) | (age > (tokens if back is None else back))
    if real is not None:
        hidden = hidden | ~(real[:, None, None, :] | (age == 0))
    ours = attend_long(*leaves[:3], fading, back, real, 0.4, True, "softmax")
    agree(ours, leaves, lambda q, k, v, f: weighed("softmax", q, k, 0.4, hidden, f[:, age.clamp(min=0)]) @ v)


@needs_a_device  # numpy, on which the interpreter runs, has no bfloat16
@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_errs_no_more_than_plain_operations_do(kind):
    from rearview.attention.kernels.long import attend_long

    torch.manual_seed(11)
    leaves = drawn(kind, 150, torch.bfloat16)
    exact = weighed(kind, *(leaf.double() for leaf in leaves[:2]), 0.4, None) @ leaves[2].double()
    plain = weighed(kind, *leaves[:2], 0.4, None) @ leaves[2]
    allowed = 2 * (plain.double() - exact).abs().max() + torch.finfo(torch.bfloat16).eps * exact.abs().max()
    ours = attend_long(*leaves, None, None, None, 0.4, False, kind)
    assert (ours.double() - exact).abs().max() <= allowed


def test_a_head_that_is_wider_than_a_tile_of_64_takes_smaller_blocks():
    from rearview.attention.kernels.long import attend_long

    torch.manual_seed(13)
    leaves = [torch.randn(1, 1, 1, 70, 80, device=DEVICE).requires_grad_() for _ in range(2)]
    leaves.append(torch.randn(1, 1, 70, 96, device=DEVICE).requires_grad_())
    ours = attend_long(*leaves, None, None, None, 0.1, True, "softmax")
    agree(ours, leaves, lambda q, k, v: weighed("softmax", q, k, 0.1, ages(70) < 0) @ v)


SPECS: list[dict[str, Any]] = [
    *({"name": "toa", "kind": kind, "sor": False, "causal": causal} for kind in KINDS for causal in (False, True)),
    {"name": "toa", "kind": "softmax", "sor": False, "bias": "rbca"},
    {"name": "toa", "kind": "relu", "sor": False, "score_norm": "mean"},
    {"name": "rbca"},
    {"name": "rbca", "learnable": True, "per_head": True},
    {"name": "rbca", "bias": "similarity_power_law", "alpha": 2, "window": "auto"},
    {"name": "rbca", "bias": "butterworth", "window": "auto"},
    {"name": "rbca", "bias": "exponential", "window": 7, "learnable": True},
    {"name": "softmax"},
]


def stepped(layer: Any, x: Tensor, mask: Tensor | None) -> list[Tensor]:
    """Output and gradients; what padded queries see is nobody's business."""
    x = x.requires_grad_()
    y = layer(x, mask=mask)
    y = y if mask is None else y * mask[..., None]
    cotangent = torch.linspace(-1, 1, y.numel(), dtype=y.dtype, device=y.device).view(y.shape)
    return [y, *torch.autograd.grad(y, [x, *layer.parameters()], cotangent)]


@needs_a_device
@pytest.mark.parametrize("tokens", [12, 42, 100, 193])
@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("padded", [False, True])
def test_a_layer_on_the_device_is_the_layer_on_the_cpu(spec, tokens, padded):
    layer = built(spec, tokens)
    x = torch.randn(3, 2, tokens, 13, dtype=torch.float64)
    mask = (torch.arange(tokens) < tokens - 3).expand(3, 2, tokens) if padded else None
    wanted = stepped(layer, x, mask)
    there = None if mask is None else mask.to("cuda")
    got = stepped(layer.to("cuda", torch.float32), x.detach().to("cuda", torch.float32), there)
    for one, other in zip(got, wanted, strict=True):
        gap = (one.cpu().double() - other).abs().max().item()
        assert gap <= 10 * EXACT * max(1.0, other.abs().max().item())


@needs_a_device
@pytest.mark.slow
@pytest.mark.parametrize("tokens", [42, 193])
@pytest.mark.parametrize("spec", SPECS[:4] + SPECS[8:10], ids=str)
def test_a_compiled_layer_is_the_eager_one(spec, tokens, unchecked):
    layer = built(spec, tokens).to("cuda", torch.float32)
    x = torch.randn(3, 2, tokens, 13, device="cuda")
    eager = stepped(layer, x, None)
    compiled = stepped(torch.compile(layer), x.detach().clone(), None)
    for one, other in zip(compiled, eager, strict=True):
        assert (one - other).abs().max() <= EXACT * max(1.0, other.abs().max().item())


@needs_a_device
def test_a_layer_compiled_for_any_size_is_the_eager_one(unchecked):
    layer = built({"name": "softmax"}, 42).to("cuda", torch.float32)
    compiled = torch.compile(layer, dynamic=True)
    for rows, tokens in ((3, 42), (5, 42), (4, 19)):
        x = torch.randn(rows, 2, tokens, 13, device="cuda")
        for one, other in zip(stepped(compiled, x.detach().clone(), None), stepped(layer, x, None), strict=True):
            assert (one - other).abs().max() <= EXACT * max(1.0, other.abs().max().item())


@needs_a_device
def test_gradients_of_the_operators_are_the_same_every_time():
    layer = built({"name": "toa", "kind": "softmax", "sor": False}, 42).to("cuda", torch.float32)
    x = torch.randn(64, 2, 42, 13, device="cuda")
    once, again = (stepped(layer, x.detach().clone(), None) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(once, again, strict=True))
