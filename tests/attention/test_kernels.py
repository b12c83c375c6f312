"""The GPU kernels are the formulas, outputs and gradients: on a CUDA device, or in Triton's interpreter on a CPU.

The interpreter is asked for with TRITON_INTERPRET=1 before anything is imported; it shows the arithmetic, not the
compiled code. What only a device can show (which kernel a layer takes, compiled layers) is skipped without one.
"""

import importlib.util
import os
from typing import Any

import pytest
import torch
from torch import Tensor
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

pytestmark = pytest.mark.skipif(
    not (CUDA or INTERPRETED), reason="neither a CUDA device nor Triton's interpreter (TRITON_INTERPRET=1) is here"
)
on_a_device = pytest.mark.skipif(not CUDA, reason="no CUDA device")


@pytest.fixture(autouse=True)
def _float32_products():
    """Products as exact as float32, so that nothing but the formulas is compared."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


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
    real = torch.rand(ROWS, tokens, device=DEVICE) > 0.3 if hiding else None
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


@on_a_device  # numpy, on which the interpreter runs, has no bfloat16
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


def built(spec: dict[str, Any], tokens: int) -> Any:
    """A layer on the CPU in float64 whose parameters have all left their initial values."""
    name, settings = attention.split(spec)
    torch.manual_seed(17)
    layer = attention.create(name, Site(groups=2, tokens=tokens, width=13, heads=2, head_width=8), **settings)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return layer.double().train()


def stepped(layer: Any, x: Tensor, mask: Tensor | None) -> list[Tensor]:
    """Output and gradients; what padded queries see is nobody's business."""
    x = x.requires_grad_()
    y = layer(x, mask=mask)
    y = y if mask is None else y * mask[..., None]
    cotangent = torch.linspace(-1, 1, y.numel(), dtype=y.dtype, device=y.device).view(y.shape)
    return [y, *torch.autograd.grad(y, [x, *layer.parameters()], cotangent)]


@on_a_device
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")  # torch's, at the first product of a fresh thread
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


@on_a_device
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")  # advice to a compiler's user, and not wanted here
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


@on_a_device
def test_gradients_of_the_operators_are_the_same_every_time():
    layer = built({"name": "toa", "kind": "softmax", "sor": False}, 42).to("cuda", torch.float32)
    x = torch.randn(64, 2, 42, 13, device="cuda")
    once, again = (stepped(layer, x.detach().clone(), None) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(once, again, strict=True))
