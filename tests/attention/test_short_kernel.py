"""Attention over a short axis by a kernel, of any kind, dropping weights or not; `test_kernels` says where it runs."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from kernel_parts import (
    DEVICE,
    EXACT,
    HEADS,
    KEY_WIDTH,
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
from torch.nn import functional

pytestmark = [needs_kernels, pytest.mark.usefixtures("float32_products")]


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


@pytest.mark.parametrize("tokens", [1, 12, 42, pytest.param(100, marks=needs_a_device)])
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


@pytest.mark.parametrize("tokens", [1, 12, 42])
@pytest.mark.parametrize("kind", ["relu", "gated"])
@pytest.mark.parametrize(("rate", "hiding"), [(0.0, False), (0.3, False), (0.3, True)])
def test_a_short_axis_is_rectified_and_dropped_as_written_out(tokens, kind, rate, hiding):
    """A bias joins the first scores alone, and hides padding with -inf."""
    from rearview.attention.kernels.short import weigh_short

    torch.manual_seed(43)
    leaves, bias, hidden = drawn(kind, tokens), torch.randn(ROWS, 1, tokens, tokens, device=DEVICE), None
    if hiding:
        hidden = (ages(tokens) < 0) | (torch.rand(ROWS, 1, 1, tokens, device=DEVICE) > 0.7)
        bias = bias.masked_fill(hidden, -torch.inf)
    dropping = {"seed": seed_of(7), "rate": rate} if rate else {}
    kept = kept_by(**dropping, tokens=tokens).double() if rate else 1.0

    def written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (weighed(kind, q, k, 0.4, hidden, bias) * kept) @ v

    agree(weigh_short(*leaves, bias, 0.4, hiding, kind, **dropping), leaves, written_out)


@pytest.mark.parametrize("kind", ["relu", "gated"])
@pytest.mark.parametrize("padded", [False, True])
def test_a_rectifying_layer_takes_the_short_kernel_dropping_or_not(kind, padded, monkeypatch):
    from rearview.attention import kernels
    from rearview.attention.kernels import short

    calls, called = [], short.weigh_short
    monkeypatch.setattr(kernels, "available", lambda device: True)
    monkeypatch.setattr(short, "weigh_short", lambda *given: (calls.append(given[-1]), called(*given))[1])
    layer, x = built({"name": "toa", "kind": kind, "sor": False}, 12), torch.randn(3, 2, 12, 13, device=DEVICE)
    mask = (torch.arange(12, device=DEVICE) < 9).expand(3, 2, 12) if padded else None
    exact = layer.to(DEVICE)(x.double(), mask=mask)
    found = layer.float()(x, mask=mask)
    assert calls == [0.0]
    assert (found.double() - exact).abs().max() <= EXACT * exact.abs().max()
    layer.site = replace(layer.site, dropout=0.5)
    assert not torch.equal(layer(x, mask=mask), layer(x, mask=mask))
    assert calls == [0.0, 0.5, 0.5]


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
    from rearview.attention.shared import fused

    monkeypatch.setattr(fused.kernels, "available", lambda device: True)
    monkeypatch.setattr(functional, "scaled_dot_product_attention", None)
    torch.manual_seed(23)
    parts = short_parts(42)
    calls = [fused.attend(*parts, None, 0.4, dropout=rate) for rate in (0.5, 0.5, 0.0, 0.0)]
    assert not torch.equal(calls[0], calls[1])
    assert torch.equal(calls[2], calls[3])


def dropping(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    from rearview.attention.shared import fused

    return fused.attend(q, k, v, None, 0.4, dropout=0.5)


def stepped_once(call: Any, parts: list[Tensor]) -> tuple[Tensor, Tensor]:
    """What a call gives, and the gradient of its sum with respect to the values."""
    y = call(*parts)
    return y.detach(), torch.autograd.grad(y.sum(), parts[2])[0]


def drop_alike_and_anew(steps: list[tuple[Tensor, Tensor]], v: Tensor) -> None:
    """Backward dropped what forward did (the sum is linear in the values), and every step dropped other weights."""
    for n, (y, gradient) in enumerate(steps):
        torch.testing.assert_close((gradient * v).sum(), y.sum(), rtol=1e-4, atol=1e-3)
        assert not any(torch.equal(y, before) or torch.equal(gradient, its) for before, its in steps[:n])


@needs_a_device
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


@needs_a_device
@pytest.mark.slow
def test_a_compiled_step_drops_the_same_weights_in_backward_and_others_every_time(unchecked):
    torch.manual_seed(41)
    parts = short_parts(42)
    torch.compiler.reset()
    compiled = torch.compile(dropping, fullgraph=True)
    steps = [stepped_once(compiled, parts) for _ in range(3)]
    drop_alike_and_anew(steps, parts[2].detach())


@needs_a_device
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


@needs_a_device
@pytest.mark.parametrize(("tokens", "width"), [(128, 128), (128, 64), (64, 128), (64, 32), (42, 16)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("tf32", [False, True])
def test_the_largest_tiles_that_are_sent_there_fit(tokens, width, dtype, tf32):
    from rearview.attention.kernels.short import attend_short, spacious, weigh_short
    from rearview.attention.shared import fused

    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.manual_seed(37)
    leaves = [torch.randn(2, HEADS, tokens, width, device="cuda", dtype=dtype).requires_grad_() for _ in range(3)]
    if not fused.fits_short_kernel(leaves[0], leaves[2]):
        assert (tokens, width, dtype) == (128, 128, torch.float32)
        return
    if spacious(leaves[0], leaves[2]):
        both = [torch.randn(2, *leaves[0].shape, device="cuda", dtype=dtype).requires_grad_() for _ in range(2)]
        y = weigh_short(*both, leaves[2], None, 0.1, False, "gated", seed_of(3), 0.2)
        assert all(grad.isfinite().all() for grad in torch.autograd.grad(y.sum(), both))
    ours = attend_short(*leaves, None, width**-0.5, False, seed_of(3), 0.2)
    kept = kept_by(seed_of(3), 0.2, tokens, 2).double().gt(0.5) / 0.8

    def written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (weighed("softmax", q[None], k[None], width**-0.5, None) * kept) @ v

    rough = dtype == torch.bfloat16 or tf32
    agree(ours, leaves, written_out, 2e-2 if rough else EXACT)
