"""A gate of 0 or 1 between each two tokens: what each mechanism that takes one makes of it, and who refuses."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import attention
from rearview.attention.contract import Attention, Site
from rearview.core.errors import SettingsError
from rearview.testing.places import BATCH, EXACT, GROUPS, HEADS, TOKENS, operated, place, tokens_for

TAKERS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in attention.names() if place(name).claims.takes_gate and place(name).claims.mixes_tokens),
    ("toa", {"kind": "softmax"}),
    ("toa", {"kind": "relu"}),
    ("fixed", {"kind": "plain"}),
]
every = pytest.mark.parametrize(
    ("name", "settings"), TAKERS, ids=[" ".join([name, *settings.values()]) for name, settings in TAKERS]
)


def taker(name: str, settings: dict[str, Any], **changes: Any) -> Attention:
    """A layer whose every parameter has left its initial value."""
    torch.manual_seed(3)
    site = Site(groups=GROUPS, tokens=TOKENS, width=20, heads=HEADS, time_ordered=False, lookback=11, **changes)
    layer = attention.create(name, site, **settings)
    layer.prepare(torch.randn(7, TOKENS, 11))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return layer.double().eval()


def drawn(heads: int = 1) -> Tensor:
    shape = (BATCH, GROUPS, heads, TOKENS, TOKENS)
    return (torch.rand(shape, generator=torch.Generator().manual_seed(5)) < 0.5).double()


def same(ours: Tensor, theirs: Tensor) -> None:
    assert_close(ours, theirs, rtol=EXACT, atol=EXACT)


def test_the_shelf_says_who_takes_a_gate() -> None:
    takers = {name for name, _ in TAKERS}
    assert takers >= {"softmax", "differential", "toa", "prime"}
    assert not takers & {"caps", "gat", "hyperglu", "linear", "linear_rope", "mica", "rbca"}


@every
def test_a_gate_of_ones_changes_nothing(name: str, settings: dict[str, Any]) -> None:
    layer = taker(name, settings)
    x = tokens_for(layer)
    same(layer(x, gate=torch.ones(1, 1, 1, TOKENS, TOKENS, dtype=x.dtype)), layer(x))


@every
def test_the_operator_under_a_gate_reproduces_the_output(name: str, settings: dict[str, Any]) -> None:
    layer = taker(name, settings)
    x = tokens_for(layer)
    bias = torch.randn(HEADS, TOKENS, TOKENS, dtype=x.dtype)
    for gate in (drawn(), drawn(HEADS), drawn()[:, :1]):
        for given in ({}, {"bias": bias}):
            y = layer(x, gate=gate, **given)
            same(operated(layer, layer.weights(x, gate=gate, **given), x), y)
            assert (y - layer(x, **given)).abs().max() > EXACT


@every
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
def test_a_gate_leaves_half_precision_as_it_is(name: str, settings: dict[str, Any], half: torch.dtype) -> None:
    layer = taker(name, settings).to(half)
    x, gate = tokens_for(layer), drawn().to(half)
    assert layer(x, gate=gate).dtype == half
    assert layer.weights(x, gate=gate).dtype == half


@every
def test_a_gate_learns(name: str, settings: dict[str, Any]) -> None:
    layer = taker(name, settings)
    x = tokens_for(layer)
    gate = drawn().requires_grad_()
    layer(x, gate=gate).square().sum().backward()
    assert gate.grad is not None
    assert gate.grad.isfinite().all()
    assert gate.grad.abs().max() > 0


@pytest.mark.parametrize("name", ["identity", "zero"])
def test_a_gate_changes_nothing_where_tokens_do_not_mix(name: str) -> None:
    layer = taker(name, {})
    x = tokens_for(layer)
    same(layer(x, gate=drawn()), layer(x))


def test_softmax_scores_are_multiplied_and_then_hidden() -> None:
    layer = taker("softmax", {})
    x, gate = tokens_for(layer), drawn()
    q, k, _ = layer.heads(x)
    raw = q @ k.transpose(-1, -2)
    expected = ((raw * gate + (gate == 0).double() * -math.log(1e10)) / math.sqrt(q.shape[-1])).softmax(-1)
    same(layer.weights(x, gate=gate), expected)


def test_both_maps_of_differential_attention_are_gated() -> None:
    layer = taker("differential", {})
    x, gate = tokens_for(layer), drawn()
    q, k, v = layer.heads(x)
    width = q.shape[-1] // 2
    maps = []
    for half in (slice(0, width), slice(width, None)):
        scores = q[..., half] @ k[..., half].transpose(-1, -2) * width**-0.5
        maps.append((scores * gate - (gate == 0).double() * (math.log(1e10) * width**-0.5)).softmax(-1))
    weights = maps[0] - layer.strength * maps[1]
    norm = ((weights @ v).square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    same(layer.weights(x, gate=gate), weights * norm)


def test_a_hidden_pair_keeps_some_weight() -> None:
    """Next to a score of 0: exp(-ln(10^10) / sqrt(width of a head))."""
    for width, left in ((64, 0.056), (512, 0.36)):
        site = Site(groups=1, tokens=2, width=width, heads=1)
        layer = attention.create("softmax", site)
        torch.nn.init.zeros_(layer.qkv.weight)
        torch.nn.init.zeros_(layer.qkv.bias)
        weights = layer.weights(torch.randn(1, 1, 2, width), gate=torch.eye(2)[None, None, None])[0, 0, 0]
        assert (weights[0, 1] / weights[0, 0]).item() == pytest.approx(left, abs=0.005)


def test_toa_is_gated_after_the_first_and_before_the_second_operator() -> None:
    for kind in ("softmax", "relu"):
        layer = taker("toa", {"kind": kind})
        x, gate = tokens_for(layer), drawn()
        q, k, _ = layer.heads(x)
        scale = q.shape[-1] ** -0.5
        before, after = (torch.eye(TOKENS, dtype=x.dtype) + part for part in layer.offsets(TOKENS, x, False))
        scores = q @ k.transpose(-1, -2) * scale @ before[0]
        if kind == "softmax":
            weights = (scores * gate - (gate == 0).double() * math.log(1e10) * scale).softmax(-1)
        else:
            weights = scores.relu() * gate
        same(layer.weights(x, gate=gate), weights @ after)


def test_prime_gates_primed_scores() -> None:
    layer = taker("prime", {})
    x, gate = tokens_for(layer), drawn()
    q, k, _ = layer.heads(x)
    scale = q.shape[-1] ** -0.5
    scores = torch.einsum("bghqe,bghke,qkhe->bghqk", q, k, layer.primers()) * scale
    same(layer.weights(x, gate=gate), (scores * gate - (gate == 0).double() * math.log(1e10) * scale).softmax(-1))


@every
def test_dropout_falls_on_gated_weights(name: str, settings: dict[str, Any]) -> None:
    layer = taker(name, settings, dropout=0.5)
    x, gate = tokens_for(layer), drawn()
    still = layer(x, gate=gate)
    assert (layer.train()(x, gate=gate) - still).abs().max() > EXACT
    same(layer.eval()(x, gate=gate), still)


def test_mechanisms_without_pairs_refuse_a_gate() -> None:
    layer = place("linear")
    gate = torch.ones(1, 1, 1, TOKENS, TOKENS, dtype=torch.float64)
    for call in (layer, layer.weights):
        with pytest.raises(SettingsError, match="a gate could act on; use softmax, toa or prime"):
            call(tokens_for(layer), gate=gate)


def test_prime_along_a_graph_takes_no_gate() -> None:
    assert not taker("prime", {"primer": "graph", "edges": [(0, 1), (2, 3)]}).claims.takes_gate
