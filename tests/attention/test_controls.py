"""The controls, zero, identity, uniform, fixed and positional: what each gives, by its reference and by hand."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import attention
from rearview.attention.controls import fixed, identity, positional, uniform, zero
from rearview.core.errors import SettingsError
from rearview.testing.places import BATCH, EXACT, GROUPS, HEADS, TOKENS, place, tokens_for

CONTROLS = ("fixed", "identity", "positional", "uniform", "zero")
LENGTHS = (1, 2, 13, 65)


def same(ours: Tensor, theirs: Tensor) -> None:
    assert_close(ours, theirs, rtol=EXACT, atol=EXACT)


def applied(layer: attention.Attention, x: Tensor, form: Any) -> Tensor:
    """What a reference for the values of one head makes of every head, handed to the output map."""
    values = layer.values(x)
    heads = [
        [[form(values[b, g, h], h) for h in range(HEADS)] for g in range(values.shape[1])] for b in range(len(values))
    ]
    return layer.project(torch.stack([torch.stack([torch.stack(row) for row in group]) for group in heads]))


@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("causal", [False, True])
def test_uniform_is_the_mean_of_what_is_seen(tokens: int, causal: bool) -> None:
    layer = place("uniform", tokens=tokens, causal=causal)
    x = tokens_for(layer)
    same(layer(x), applied(layer, x, lambda v, head: uniform.reference(v, causal)))


@pytest.mark.parametrize("tokens", LENGTHS)
def test_identity_maps_each_token_by_itself(tokens: int) -> None:
    layer = place("identity", tokens=tokens)
    x = tokens_for(layer)
    same(layer(x), applied(layer, x, lambda v, head: identity.reference(v)))
    same(layer(x), layer.out(layer.qkv(x)))


def test_zero_gives_nothing_and_learns_nothing() -> None:
    layer = place("zero")
    x = tokens_for(layer).requires_grad_()
    y = layer(x)
    assert torch.equal(y, torch.stack([torch.stack([zero.reference(row) for row in group]) for group in x]))
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert not gradient.any()
    assert not list(layer.parameters())
    assert not layer(torch.full_like(x, torch.nan)).any()


@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("kind", ["softmax", "plain", "softplus"])
def test_fixed_applies_its_matrix(tokens: int, kind: str) -> None:
    layer = make_fixed(kind, tokens)
    x = tokens_for(layer).requires_grad_()
    expected = applied(layer, x, lambda v, head: fixed.reference(layer.matrix[head], v, kind))
    same(layer(x), expected)
    wanted = [x, *layer.parameters()]
    cotangent = torch.randn_like(x)
    for ours, theirs in zip(
        torch.autograd.grad(layer(x), wanted, cotangent), torch.autograd.grad(expected, wanted, cotangent), strict=True
    ):
        same(ours, theirs)


@pytest.mark.parametrize("kind", ["softmax", "plain", "softplus"])
def test_fixed_weighs_by_place_and_never_by_content(kind: str) -> None:
    layer = make_fixed(kind, TOKENS)
    weights = layer.weights(tokens_for(layer))
    assert weights.shape == (BATCH, GROUPS, HEADS, TOKENS, TOKENS)
    assert torch.equal(weights, layer.weights(tokens_for(layer, seed=91)))
    assert (weights[:, :, 0] - weights[:, :, 1]).abs().max() > EXACT


@pytest.mark.parametrize("kind", ["softmax", "plain"])
def test_fixed_starts_as_uniform(kind: str) -> None:
    site = attention.Site(groups=3, tokens=7, width=10, heads=5)
    layer, mean = attention.create("fixed", site, kind=kind), attention.create("uniform", site)
    x = torch.randn(2, 3, 7, 10)
    assert_close(layer.weights(x), mean.weights(x))


def test_softplus_fixed_starts_near_the_identity_and_stays_finite_far_below_zero() -> None:
    torch.manual_seed(3)
    layer = attention.create("fixed", place("softmax", tokens=65).site, kind="softplus")
    assert (layer.matrix.diagonal(dim1=1, dim2=2).mean() - layer.matrix.mean()).item() == pytest.approx(1, abs=0.3)
    with torch.no_grad():
        layer.matrix.fill_(-1000.0).diagonal(dim1=1, dim2=2).fill_(-500.0)
    x = tokens_for(layer)
    same(layer(x), layer.project(layer.values(x)))
    layer(x).sum().backward()
    assert layer.matrix.grad is not None
    assert layer.matrix.grad.isfinite().all()


@pytest.mark.parametrize("tokens", LENGTHS)
def test_positional_is_softmax_attention_between_places(tokens: int) -> None:
    layer = place("positional", tokens=tokens)
    x = tokens_for(layer).requires_grad_()
    maps = torch.cat([layer.places.compared.weight, layer.places.compared.bias[:, None]], dim=1)
    queries, keys = (part.unflatten(0, (HEADS, -1)) for part in maps.chunk(2))
    p = torch.cat([layer.places.vectors, torch.ones(tokens, 1, dtype=x.dtype)], dim=1)
    expected = applied(layer, x, lambda v, head: positional.reference(p, queries[head], keys[head], v))
    same(layer(x), expected)
    wanted = [x, *layer.parameters()]
    cotangent = torch.randn_like(x)
    ours, theirs = (torch.autograd.grad(y, wanted, cotangent) for y in (layer(x), expected))
    for one, other in zip(ours, theirs, strict=True):
        same(one, other)


def test_positional_weighs_by_place_and_never_by_content() -> None:
    layer = place("positional")
    weights = layer.weights(tokens_for(layer))
    assert weights.shape == (BATCH, GROUPS, HEADS, TOKENS, TOKENS)
    assert torch.equal(weights, layer.weights(tokens_for(layer, seed=91)))
    assert (weights[:, :, :, 0] - weights[:, :, :, 1]).abs().max() > EXACT
    shorter = layer.weights(tokens_for(layer, tokens=3))
    same(shorter[0, 0, 0, 1], (weights[0, 0, 0, 1, :3] / weights[0, 0, 0, 1, :3].sum()))


def test_positional_has_the_maps_of_softmax_and_a_vector_for_each_place() -> None:
    sizes = [sum(one.numel() for one in place(name).parameters()) for name in ("positional", "softmax")]
    site = place("positional").site
    assert sizes[0] - sizes[1] == site.tokens * site.width


@pytest.mark.parametrize("causal", [False, True])
def test_plain_fixed_hides_what_mask_bias_and_place_hide(causal: bool) -> None:
    layer = make_fixed("plain", TOKENS, causal=causal)
    x = tokens_for(layer)
    mask = torch.ones(BATCH, GROUPS, TOKENS, dtype=torch.bool)
    mask[:, :, 2] = False
    bias = torch.full((TOKENS, TOKENS), 0.25, dtype=x.dtype)
    bias[3, 1] = -torch.inf
    weights = layer.weights(x, mask=mask, bias=bias)
    expected = layer.matrix + 0.25
    expected = expected.tril() if causal else expected.clone()
    expected[:, :, 2] = expected[:, 3, 1] = 0
    same(weights, expected.expand_as(weights))
    same(layer.project(weights @ layer.values(x)), layer(x, mask=mask, bias=bias))


def test_uniform_weighs_by_bias_and_gate() -> None:
    layer = place("uniform", tokens=3)
    x = tokens_for(layer)
    bias = torch.tensor([0.0, 1.0, 2.0], dtype=x.dtype).log()
    same(layer.weights(x, bias=bias)[0, 0, 0, 0], torch.tensor([0, 1 / 3, 2 / 3], dtype=x.dtype))
    gate = torch.tensor([1.0, 0.0, 1.0], dtype=x.dtype)
    same(layer.weights(x, gate=gate)[0, 0, 0, 0], torch.tensor([0.5, 0, 0.5], dtype=x.dtype))
    assert not layer.weights(x, gate=0 * gate).any()


@pytest.mark.parametrize("name", ["fixed", "identity", "uniform"])
def test_controls_have_no_queries_and_keys(name: str) -> None:
    layer, softmax = place(name), place("softmax")
    maps = [sum(one.numel() for one in module.qkv.parameters()) for module in (layer, softmax)]
    assert maps[0] == maps[1] * layer.widths[2] / sum(softmax.widths)


@pytest.mark.parametrize("name", CONTROLS)
def test_mica_takes_no_control_for_its_local_part(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} has none to share; use softmax"):
        place_mica(name)


def make_fixed(kind: str, tokens: int, causal: bool = False) -> attention.Attention:
    layer = attention.create("fixed", place("softmax", tokens=tokens, causal=causal).site, kind=kind)
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return layer.double().eval()


def place_mica(local: str) -> attention.Attention:
    return attention.create("mica", attention.Site(groups=3, tokens=7, width=10, heads=5), local=local)
