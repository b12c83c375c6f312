"""Differential attention: two fused maps are the definition, with the released layer's sizes and starting values."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import attention, models
from rearview.attention import differential
from rearview.attention.contract import Attention, Site
from rearview.core.errors import SettingsError
from rearview.testing.places import EXACT, SITE, operated, place, ragged_mask, scores_bias, tokens_for

LENGTHS = [1, 2, 13, 42, 65, 193]


def literal(layer: Attention, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """The layer by its reference, head by head."""
    assert isinstance(layer, differential.Layer)
    q, k, v = layer.heads(x)
    hidden = torch.full((x.shape[2], x.shape[2]), -torch.inf, dtype=x.dtype).triu(1)
    bias = (hidden if layer.site.causal else torch.zeros_like(hidden)) + (0 if bias is None else bias)
    bias = bias.expand(*v.shape[:3], -1, -1)
    out = torch.zeros_like(v)
    for at in map(tuple, torch.cartesian_prod(*map(torch.arange, v.shape[:3])).tolist()):
        Q, K = (part[at].view(x.shape[2], 2, -1).movedim(1, 0) for part in (q, k))
        out[at] = differential.reference(Q, K, v[at], layer.strength, layer.gain, layer.lambda_init, bias[at])
    return layer.out(out.transpose(2, 3).flatten(3))


def with_gradients(layer: Attention, x: Tensor, y: Tensor) -> list[Tensor]:
    cotangent = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    return [y, *torch.autograd.grad(y, [x, *layer.parameters()], cotangent)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tokens", LENGTHS)
def test_two_fused_maps_are_the_definition(tokens, causal):
    site = {"groups": 2, "tokens": tokens, "width": 5, "heads": 3, "head_width": 7, "value_width": 11}
    layer = place("differential", causal=causal, **site)
    x = tokens_for(layer, batch=1).requires_grad_()
    ours, theirs = (with_gradients(layer, x, y) for y in (layer(x), literal(layer, x)))
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, rtol=EXACT, atol=EXACT * max(1.0, other.abs().max().item()))


def test_biases_and_padding_reach_both_maps():
    layer = place("differential")
    x, bias, mask = tokens_for(layer), scores_bias(layer), ragged_mask(layer)
    assert_close(layer(x, bias=bias), literal(layer, x, bias), rtol=EXACT, atol=EXACT)
    hidden = torch.zeros(mask.shape, dtype=x.dtype).masked_fill(~mask, -torch.inf)[:, :, None, None]
    padded = layer(x, bias=bias, mask=mask)
    assert_close(padded[mask], literal(layer, x, bias + hidden)[mask], rtol=EXACT, atol=EXACT)


def test_carried_scores_of_both_maps_are_added():
    first, second = place("differential", layers=2), place("differential", seed=43, layer=1, layers=2)
    x, z = tokens_for(first), tokens_for(first, seed=41)
    _, carry = first(z, carry=())
    y, further = second(x, carry=carry)
    q, k, v = second.heads(x)
    q0, k0, _ = first.heads(z)
    split = (*q.shape[:-1], 2, -1)
    scores = sum(torch.einsum("bghnsd,bghmsd->sbghnm", *(p.view(split) for p in pair)) for pair in ((q, k), (q0, k0)))
    maps = (scores / math.sqrt(6)).softmax(-1)
    mixed = (maps[0] - second.strength * maps[1]) @ v
    mixed = mixed * (mixed.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    assert_close(y, second.project(mixed), rtol=EXACT, atol=EXACT)
    assert further[0].shape[-1] == 2 * carry[0].shape[-1] == 12


def test_lambda_starts_as_the_paper_has_it():
    """0.2, 0.355..., 0.470... in the first layers, towards 0.8; the learned part starts near exp(0) - exp(0)."""
    found = []
    for layer in range(3):
        torch.manual_seed(1)
        built = attention.create("differential", replace(SITE, layer=layer, layers=3))
        found.append(built.lambda_init)
        assert built.strength.item() == pytest.approx(built.lambda_init, abs=0.3)
        with torch.no_grad():
            built.vectors.zero_()
        assert built.strength.item() == pytest.approx(built.lambda_init)
    assert found == pytest.approx([0.2, 0.8 - 0.6 * math.exp(-0.3), 0.8 - 0.6 * math.exp(-0.6)])
    assert found[1:] == pytest.approx([0.35550907, 0.47071302])


def test_by_hand():
    """Equal logits in both maps, lambda 1/2, values 3 and 5: o = (1 - 1/2) 4 = 2, and a lone value has length |o|."""
    zero = torch.zeros(2, 2, 1, dtype=torch.float64)
    V = torch.tensor([[3.0], [5.0]], dtype=torch.float64)
    strength, gain = torch.tensor(0.5, dtype=torch.float64), torch.tensor([7.0], dtype=torch.float64)
    expected = (1 - 0.2) * 7.0 * 2.0 / math.sqrt(2.0**2 + 1e-5)
    assert differential.reference(zero, zero, V, strength, gain, 0.2).flatten().tolist() == pytest.approx(
        [expected] * 2
    )


def test_weights_can_be_negative_and_heads_are_normalised():
    layer = place("differential")
    with torch.no_grad():
        layer.vectors.zero_()
    x = 3 * tokens_for(layer)
    weights = layer.weights(x)
    assert weights.min() < 0
    length = (weights @ layer.values(x)).square().mean(-1)
    assert length.max() <= 1
    assert length.median() > 0.99
    # A row of the difference sums to 1 - lambda; what RMSNorm leaves of that is one positive number a query.
    assert (weights.sum(-1) / (1 - 0.2)).min() > 0
    assert_close(operated(layer, weights, x), layer(x), rtol=EXACT, atol=EXACT)


def test_it_is_as_large_as_softmax_attention_up_to_lambda_and_gain():
    site = Site(groups=1, tokens=7, width=24, heads=3)
    size, plain = (
        sum(parameter.numel() for parameter in attention.create(name, site).parameters())
        for name in ("differential", "softmax")
    )
    assert size - plain == 4 * 4 + 8


@pytest.mark.parametrize("host", ["patchtst", "itransformer"])
def test_networks_train_with_it(host):
    torch.manual_seed(3)
    small = {"channels": 3, "lookback": 47, "steps": 5, "width": 14, "heads": 7, "depth": 2, "feed_forward": 11}
    network = models.create(host, attention="differential", **small)
    past = torch.randn(2, 3, 47)
    network(past).square().sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())
    starts = [block.attend.lambda_init for block in network.stack.blocks]
    assert starts == pytest.approx([0.2, 0.35550907])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equal_tokens_and_a_lambda_of_one_stay_finite(dtype):
    """Both maps are even and cancel: what RMSNorm divides by is its epsilon."""
    layer = attention.create("differential", SITE, lambda_init=0.999).to(dtype)
    with torch.no_grad():
        layer.vectors.zero_()
    x = torch.ones(2, 3, SITE.tokens, SITE.width, dtype=dtype, requires_grad=True)
    y = layer(x)
    assert y.isfinite().all()
    assert all(found.isfinite().all() for found in torch.autograd.grad(y.sum(), [x, *layer.parameters()]))


def test_autocast_changes_little():
    layer = place("differential", dtype=torch.float32)
    x = tokens_for(layer)
    exact = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = layer(x)
    assert low.dtype == torch.bfloat16
    assert (low - exact).abs().max() < 0.1 * exact.abs().max()


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_compiled_and_exported_are_eager():
    layer = place("differential")
    x, mask = tokens_for(layer), ragged_mask(layer)
    torch.compiler.reset()
    assert_close(torch.compile(layer, fullgraph=True)(x, mask=mask), layer(x, mask=mask), rtol=1e-9, atol=1e-9)
    program = torch.export.export(layer, (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})
    more = tokens_for(layer, batch=11)
    assert_close(program.module()(more), layer(more), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("start", [-0.1, 1.0])
def test_a_lambda_that_leaves_nothing_is_refused(start):
    with pytest.raises(SettingsError, match=r"lambda_init is .*; it must lie in \[0, 1\)"):
        attention.create("differential", SITE, lambda_init=start)
