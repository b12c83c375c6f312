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


def kept_by(seed: Tensor, rate: float, tokens: int, rows: int = ROWS) -> Tensor:
    """What the short kernel multiplies weights by: equal scores and values that are rows of the identity show it."""
    from rearview.attention.kernels.short import attend_short

    nothing = torch.zeros(rows, HEADS, tokens, KEY_WIDTH, device=DEVICE)
    one_hot = torch.eye(tokens, device=DEVICE).expand(rows, HEADS, tokens, tokens)
    return tokens * attend_short(nothing, nothing, one_hot, None, 1.0, seed=seed, rate=rate)


def seed_of(number: int) -> Tensor:
    return torch.tensor([number], device=DEVICE)


def short_parts(tokens: int, carried: int = 1) -> list[Tensor]:
    """Queries and keys of so many layers side by side, and values."""
    layers = [drawn("softmax", tokens) for _ in range(carried)]
    wide = [torch.cat([layer[part][0] for layer in layers], dim=-1) for part in range(2)]
    return [part.detach().requires_grad_() for part in (*wide, layers[0][2])]


@pytest.mark.parametrize("tokens", [1, 12, 42, pytest.param(100, marks=on_a_device)])
@pytest.mark.parametrize("rate", [None, 0.0, 0.3])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("causal", "carried"), [(False, 1), (True, 1), (False, 3)])
def test_a_short_axis_is_attended_and_dropped_as_written_out(tokens, rate, biased, causal, carried):
    """Carried queries and keys are wider than the values."""
    from rearview.attention.kernels.short import attend_short

    torch.manual_seed(19)
    leaves = short_parts(tokens, carried)
    bias = torch.randn(ROWS, 1, tokens, tokens, device=DEVICE) if biased else None
    hidden = ages(tokens) < 0 if causal else None
    dropping = {} if rate is None else {"seed": seed_of(7), "rate": rate}
    kept = kept_by(**dropping, tokens=tokens).double() if rate else 1.0

    def written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (weighed("softmax", q[None], k[None], 0.4, hidden, bias) * kept) @ v

    agree(attend_short(*leaves, bias, 0.4, causal, **dropping), leaves, written_out)


@pytest.mark.parametrize("tokens", [12, 42])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_on_a_short_axis_keeps_its_share_and_the_mean(tokens, rate):
    rows = 2000 // tokens**2 + 1
    kept = kept_by(seed_of(11), rate, tokens, rows)
    survivors = kept[kept > 0]
    torch.testing.assert_close(survivors, torch.full_like(survivors, 1 / (1 - rate)))
    # Five standard deviations of a mean of so many draws, over all cells and over each quarter of the keys' order.
    for cells in (kept, *(kept[..., start::4] for start in range(4))):
        assert (cells > 0).double().mean().item() == pytest.approx(
            1 - rate, abs=5 * (rate * (1 - rate) / cells.numel()) ** 0.5
        )


def test_every_seed_and_every_head_drops_other_weights():
    kept, again, other = (kept_by(seed_of(number), 0.5, 16) for number in (1, 1, 2))
    assert torch.equal(kept, again)
    heads = [*kept.flatten(0, 1), *other.flatten(0, 1)]
    shared = [((one > 0) == (two > 0)).double().mean().item() for n, one in enumerate(heads) for two in heads[:n]]
    assert max(shared) < 0.75
    assert min(shared) > 0.25


def test_a_dropping_layer_takes_the_short_kernel_and_a_new_seed_every_time(monkeypatch):
    from rearview.attention import _fused

    monkeypatch.setattr(_fused.kernels, "available", lambda device: True)
    monkeypatch.setattr(functional, "scaled_dot_product_attention", None)
    torch.manual_seed(23)
    parts = short_parts(42)
    calls = [_fused.attend(*parts, None, 0.4, dropout=rate) for rate in (0.5, 0.5, 0.0, 0.0)]
    assert not torch.equal(calls[0], calls[1])
    assert torch.equal(calls[2], calls[3])


def dropping(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    from rearview.attention import _fused

    return _fused.attend(q, k, v, None, 0.4, dropout=0.5)


def stepped_once(call: Any, parts: list[Tensor]) -> tuple[Tensor, Tensor]:
    """What a call gives, and the gradient of its sum with respect to the values."""
    y = call(*parts)
    return y.detach(), torch.autograd.grad(y.sum(), parts[2])[0]


def drop_alike_and_anew(steps: list[tuple[Tensor, Tensor]], v: Tensor) -> None:
    """Backward dropped what forward did (the sum is linear in the values), and every step dropped other weights."""
    for n, (y, gradient) in enumerate(steps):
        torch.testing.assert_close((gradient * v).sum(), y.sum(), rtol=1e-4, atol=1e-3)
        assert not any(torch.equal(y, before) or torch.equal(gradient, its) for before, its in steps[:n])


@on_a_device
def test_every_replay_of_a_captured_step_drops_other_weights():
    torch.manual_seed(29)
    parts = short_parts(42)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        stepped_once(dropping, parts)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = stepped_once(dropping, parts)
    steps = []
    for _ in range(3):
        graph.replay()
        steps.append((made[0].clone(), made[1].clone()))
    drop_alike_and_anew(steps, parts[2].detach())


@on_a_device
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")
@pytest.mark.slow
def test_a_compiled_step_drops_the_same_weights_in_backward_and_others_every_time(unchecked):
    torch.manual_seed(41)
    parts = short_parts(42)
    torch.compiler.reset()
    compiled = torch.compile(dropping, fullgraph=True)
    steps = [stepped_once(compiled, parts) for _ in range(3)]
    drop_alike_and_anew(steps, parts[2].detach())


@on_a_device
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")
@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
def test_a_compiled_dropping_kernel_is_the_eager_one(causal, unchecked):
    from rearview.attention.kernels.short import attend_short

    torch.manual_seed(31)
    leaves = short_parts(42)
    bias, seed, cotangent = torch.randn(1, HEADS, 42, 42, device=DEVICE), seed_of(5), torch.randn_like(leaves[2])
    torch.compiler.reset()
    found = []
    for call in (torch.compile(attend_short, fullgraph=True), attend_short):
        y = call(*leaves, bias, 0.4, causal, seed, 0.3)
        found.append([y, *torch.autograd.grad(y, leaves, cotangent)])
    for one, other in zip(*found, strict=True):
        assert (one - other).abs().max() <= EXACT * max(1.0, other.abs().max().item())


@on_a_device
@pytest.mark.parametrize(("tokens", "width"), [(128, 128), (128, 64), (64, 128), (42, 16)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("tf32", [False, True])
def test_the_largest_tiles_that_are_sent_there_fit(tokens, width, dtype, tf32):
    from rearview.attention import _fused
    from rearview.attention.kernels.short import attend_short

    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.manual_seed(37)
    leaves = [torch.randn(2, HEADS, tokens, width, device="cuda", dtype=dtype).requires_grad_() for _ in range(3)]
    if not _fused.short(leaves[0], leaves[2]):
        assert (tokens, width, dtype) == (128, 128, torch.float32)
        return
    ours = attend_short(*leaves, None, width**-0.5, False, seed_of(3), 0.2)
    kept = kept_by(seed_of(3), 0.2, tokens, 2).double().gt(0.5) / 0.8

    def written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (weighed("softmax", q[None], k[None], width**-0.5, None) * kept) @ v

    rough = dtype == torch.bfloat16 or tf32
    agree(ours, leaves, written_out, 2e-2 if rough else EXACT)


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
