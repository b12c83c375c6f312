"""Prime attention's kernel is the formula, outputs and gradients, with every kind of primer, bias and dropout."""

import pytest
import torch
from kernel_parts import DEVICE, compiled_errors, errors, needs_a_device, needs_kernels
from torch import Tensor

from rearview import attention
from rearview.attention import kernels, prime

BATCH, HEADS, SCALE = 3, 2, 0.37
pytestmark = needs_kernels


def drawn(queries: int, keys: int, width: int, values: int, windows: int | None = None) -> list[Tensor]:
    """Queries, keys and values as they lie behind a projection, and primers."""
    draw = torch.Generator().manual_seed(queries)
    shapes = ((queries, width), (keys, width), (keys, values))
    parts = [torch.randn(BATCH, n, HEADS, wide, generator=draw).transpose(1, 2) for n, wide in shapes]
    leading = () if windows is None else (windows,)
    shape = (*leading, queries, keys, HEADS, max(width, values))
    return [*parts, 1 + 0.3 * torch.randn(shape, generator=draw)]


def kernel(q: Tensor, k: Tensor, v: Tensor, primer: Tensor, bias: Tensor | None = None) -> Tensor:
    from rearview.attention.kernels.prime import attend_primed

    return attend_primed(q, k, v, primer, bias, SCALE, None, 0.0)


def formula(q: Tensor, k: Tensor, v: Tensor, primer: Tensor, bias: Tensor | None = None) -> Tensor:
    return prime.layer.attend_pairs(q, k, v, primer, bias, SCALE)


@pytest.mark.parametrize("windows", [None, BATCH])
@pytest.mark.parametrize(("queries", "keys", "width", "values"), [(13, 13, 5, 5), (21, 21, 16, 16), (5, 19, 4, 7)])
def test_the_kernel_is_the_formula(queries: int, keys: int, width: int, values: int, windows: int | None) -> None:
    assert max(errors(kernel, formula, drawn(queries, keys, width, values, windows))) <= 2e-6


@pytest.mark.parametrize("rows", [1, BATCH])
def test_a_bias_is_added_and_learned(rows: int) -> None:
    """Hidden keys included: the first block of keys of a causal row may hold nothing to see."""
    tokens = 21
    bias = torch.randn(rows, HEADS, tokens, tokens, generator=torch.Generator().manual_seed(2))
    hidden = torch.ones(tokens, tokens, dtype=torch.bool).tril(-1)
    parts = [*drawn(tokens, tokens, 5, 3), bias.masked_fill(hidden, -torch.inf)]
    assert max(errors(kernel, formula, parts)) <= 2e-6


def test_half_precision_is_as_exact_as_its_inputs() -> None:
    assert max(errors(kernel, formula, drawn(13, 13, 8, 8), torch.bfloat16)) <= 2 * torch.finfo(torch.bfloat16).eps


def test_dropout_drops_the_same_weights_in_backward() -> None:
    from rearview.attention.kernels.prime import attend_primed

    tokens, rate = 19, 0.3
    q, k, v, primer = (part.to(DEVICE) for part in drawn(tokens, tokens, 5, 5))
    seed = torch.tensor([7], device=DEVICE)

    def dropping(*parts: Tensor) -> Tensor:
        return attend_primed(*parts, None, SCALE, seed, rate)

    # Equal scores and values that are rows of the identity show what is kept.
    one_hot = torch.eye(tokens, device=DEVICE).expand(BATCH, HEADS, tokens, tokens)
    ones = torch.ones(tokens, tokens, HEADS, tokens, device=DEVICE)
    kept = tokens * dropping(0 * q, 0 * k, one_hot, ones)
    assert 0.6 < (kept > 0).double().mean().item() < 0.8
    torch.testing.assert_close(kept[kept > 0], torch.full_like(kept[kept > 0], 1 / (1 - rate)))

    def written_out(q: Tensor, k: Tensor, v: Tensor, primer: Tensor) -> Tensor:
        scores = SCALE * torch.einsum("bhic,bhjc,ijhc->bhij", q, k, primer)
        return torch.einsum("bhij,bhjc,ijhc->bhic", scores.softmax(-1) * kept.double(), v, primer)

    assert max(errors(dropping, written_out, [q, k, v, primer])) <= 2e-6


def layer_of(tokens: int, **changes: float) -> prime.Layer:
    torch.manual_seed(3)
    site = attention.Site(groups=2, tokens=tokens, width=10, heads=HEADS, time_ordered=False, **changes)
    layer = attention.create("prime", site)
    assert isinstance(layer, prime.Layer)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return layer.to(DEVICE)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_blocks_of_queries_are_the_whole(dropout: float, monkeypatch) -> None:
    monkeypatch.setattr(kernels, "available", lambda device: True)
    layer = layer_of(13, dropout=dropout)
    x = torch.randn(BATCH, 2, 13, 10, device=DEVICE)
    found = []
    for held in (1 << 24, 4 * 13 * 10):
        monkeypatch.setattr(prime.layer, "PRIMERS_HELD", held)
        torch.manual_seed(5)
        y = layer(x)
        found.append([y, *torch.autograd.grad(y.square().sum(), list(layer.parameters()))])
    assert all(part.isfinite().all() for part in found[1])
    if not dropout:
        for one, other in zip(*found, strict=True):
            assert (one - other).abs().max() <= 1e-5 * other.abs().max()


def test_blocks_drop_the_same_weights_when_they_are_computed_again(monkeypatch) -> None:
    """One step along a gradient of dropped weights changes the loss as the gradient says."""
    monkeypatch.setattr(kernels, "available", lambda device: True)
    monkeypatch.setattr(prime.layer, "PRIMERS_HELD", 4 * 13 * 10)
    layer = layer_of(13, dropout=0.4)
    x = torch.randn(BATCH, 2, 13, 10, device=DEVICE)
    parameters = list(layer.parameters())

    def loss() -> Tensor:
        torch.manual_seed(5)
        return layer(x).square().mean()

    gradients = torch.autograd.grad(loss(), parameters)
    expected = sum(gradient.square().sum() for gradient in gradients)
    step = 1e-2
    with torch.no_grad():
        ends = []
        for sign in (1, -1):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.add_(sign * step * gradient)
            ends.append(loss())
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.sub_(sign * step * gradient)
    assert ((ends[0] - ends[1]) / (2 * step)).item() == pytest.approx(expected.item(), rel=0.02)


@needs_a_device
@pytest.mark.parametrize(("tokens", "width"), [(137, 16), (65, 128)])
def test_sizes_that_occur_are_right(tokens: int, width: int) -> None:
    assert max(errors(kernel, formula, drawn(tokens, tokens, width, width))) <= 5e-6


@needs_a_device
@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_compiled_is_eager_on_a_device() -> None:
    layer, x = layer_of(42), torch.randn(BATCH, 2, 42, 10, device=DEVICE)
    assert max(compiled_errors(layer, x)) <= 1e-4
