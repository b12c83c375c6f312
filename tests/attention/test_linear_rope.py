"""CAPS's baseline: the sum over the past against its definition, numbers by hand, where it does not fit."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import attention, models
from rearview.attention import Site, linear_rope
from rearview.attention.shared.rotary import Rotary
from rearview.core.errors import SettingsError
from rearview.testing.places import EXACT, cost, operated

BATCH, GROUPS, HEADS, HEAD_WIDTH, VALUE_WIDTH, WIDTH = 1, 2, 3, 5, 7, 11


def layer_of(tokens: int, **settings) -> linear_rope.Layer:
    torch.manual_seed(tokens)
    site = Site(GROUPS, tokens, WIDTH, HEADS, head_width=HEAD_WIDTH, value_width=VALUE_WIDTH)
    made = attention.create("linear_rope", site, **settings)
    assert isinstance(made, linear_rope.Layer)
    return made.double()


def tokens_of(tokens: int) -> Tensor:
    draw = torch.Generator().manual_seed(5)
    return torch.randn(BATCH, GROUPS, tokens, WIDTH, generator=draw, dtype=torch.float64)


def by_reference(layer: linear_rope.Layer, x: Tensor) -> Tensor:
    q, k, v = layer.heads(x)
    q, k = layer.rotary(q, k)
    rows = zip(q.flatten(0, 2), k.flatten(0, 2), v.flatten(0, 2), strict=True)
    return layer.project(torch.stack([linear_rope.reference(*row) for row in rows]).view(v.shape))


@pytest.mark.parametrize("tokens", [1, 2, 13, 42, 65, 193])
@pytest.mark.parametrize("rotation", ["fixed", "learned"])
def test_fast_form_is_the_reference_with_gradients(tokens: int, rotation: str) -> None:
    layer = layer_of(tokens, rotation=rotation)
    x = tokens_of(tokens).requires_grad_()
    wanted = [x, *layer.parameters()]
    fast, slow = layer(x), by_reference(layer, x)
    assert_close(fast, slow, rtol=EXACT, atol=EXACT)
    assert_close(operated(layer, layer.weights(x), x), slow, rtol=EXACT, atol=EXACT)
    ours, theirs = (torch.autograd.grad(y.square().sum(), wanted) for y in (fast, slow))
    assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_numbers_by_hand() -> None:
    """One channel turns nothing: queries 1, 2, keys 3, 5, values 7, 11."""
    q, k, v = (torch.tensor(x)[:, None] for x in ([1.0, 2.0], [3.0, 5.0], [7.0, 11.0]))
    assert linear_rope.reference(q, k, v).flatten().tolist() == [1 * 3 * 7, 2 * 3 * 7 + 2 * 5 * 11]


def test_scores_are_those_of_turned_queries_and_keys() -> None:
    layer = layer_of(13)
    x = tokens_of(13)
    q, k, _ = layer.heads(x)
    q, k = Rotary(layer.site).double()(q, k)
    assert_close(layer.weights(x), (q @ k.transpose(-1, -2)).tril(), rtol=EXACT, atol=EXACT)


def test_cost_is_linear_in_tokens() -> None:
    once, twice, thrice = (cost(layer_of(512 * n)) for n in (1, 2, 3))
    assert ((thrice - 2 * twice + once) / thrice < 0.01).all()


def test_maps_start_as_those_of_caps() -> None:
    torch.manual_seed(0)
    layer = attention.create("linear_rope", Site(groups=1, tokens=3, width=97, heads=1, layer=1, layers=2))
    assert layer.qkv.bias is None
    assert layer.out.bias is None
    assert layer.qkv.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert layer.out.weight.std().item() == pytest.approx(0.01, rel=0.05)


def test_it_stands_in_a_network() -> None:
    torch.manual_seed(0)
    model = models.create(
        "patchtst", channels=3, lookback=53, steps=5, attention="linear_rope", width=14, heads=2, depth=2, dropout=0.0
    )
    model(torch.randn(2, 3, 53)).square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused() -> None:
    unordered = Site(groups=1, tokens=7, width=10, heads=5, time_ordered=False, host="iTransformer")
    with pytest.raises(SettingsError, match="linear_rope sums over earlier tokens, but iTransformer's tokens"):
        attention.create("linear_rope", unordered)
    crowded = Site(groups=1, tokens=4, width=10, heads=5, times=(0, 1, 0, 1), host="Timer-XL")
    with pytest.raises(SettingsError, match="several of Timer-XL's tokens share a moment; use rbca"):
        attention.create("linear_rope", crowded)
    with pytest.raises(SettingsError, match="rotation is 'none'; it must be one of 'fixed', 'learned', 'released'"):
        layer_of(3, rotation="none")
    with pytest.raises(SettingsError, match="no scores to add a bias to; use softmax with rotary=True"):
        layer_of(3)(tokens_of(3), bias=torch.zeros(3, 3))
