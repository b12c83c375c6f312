"""HyperGLU attention: low-rank mixers folded into keys and values are the definition, over positions and over ages."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import attention, models
from rearview.attention import hyperglu
from rearview.attention.contract import Attention
from rearview.core.errors import SettingsError
from rearview.testing.places import EXACT, SITE, operated, place, ragged_mask, scores_bias, tokens_for

LENGTHS = [1, 2, 13, 42, 65, 193]


def literal(layer: Attention, x: Tensor, keep: Tensor | None = None) -> Tensor:
    """The layer by its reference, head by head; `keep` picks the tokens that are there at all."""
    assert isinstance(layer, hyperglu.Layer)
    keep = torch.arange(x.shape[2]) if keep is None else keep
    q, k, v = layer.heads(x)
    s = layer.rank_gate(x).sigmoid().view(*x.shape[:3], 3, layer.site.heads, -1)
    out = torch.zeros_like(v)
    for b, g, h in torch.cartesian_prod(*map(torch.arange, v.shape[:3])).tolist():
        Q, K = (part[b, g, h, keep].view(len(keep), 2, -1).movedim(1, 0) for part in (q, k))
        p, A, B = (part[:, h, keep] for part in (layer.diagonal, layer.spread, layer.gather))
        gates = s[b, g, keep][:, :, h].movedim(1, 0)
        out[b, g, h, keep] = hyperglu.reference(Q, K, v[b, g, h, keep], p, A, B, gates, layer.site.causal)
    return layer.project(out)


def with_gradients(layer: Attention, x: Tensor, y: Tensor) -> list[Tensor]:
    cotangent = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    return [y, *torch.autograd.grad(y, [x, *layer.parameters()], cotangent)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tokens", LENGTHS)
def test_the_folded_form_is_the_definition(tokens, causal):
    site = {"groups": 1, "tokens": tokens, "width": 5, "heads": 2, "head_width": 7, "value_width": 11}
    layer = place("hyperglu", causal=causal, **site)
    x = tokens_for(layer, batch=1).requires_grad_()
    ours, theirs = (with_gradients(layer, x, y) for y in (layer(x), literal(layer, x)))
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, rtol=1e-10, atol=EXACT * max(1.0, other.abs().max().item()))


def test_padding_leaves_the_real_tokens_alone():
    layer = place("hyperglu")
    x = tokens_for(layer)
    real = torch.tensor([0, 1, 3, 6])
    mask = torch.zeros(SITE.tokens, dtype=torch.bool).index_fill(0, real, True).expand(x.shape[:3])
    assert_close(layer(x, mask=mask)[mask], literal(layer, x, keep=real)[mask], rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("causal", [False, True])
def test_a_bias_of_minus_infinity_hides_a_key(causal):
    layer = place("hyperglu", causal=causal)
    x = tokens_for(layer)
    bias = scores_bias(layer)
    bias[..., 4] = -torch.inf
    y = layer(x, bias=bias)
    assert y.isfinite().all()
    assert_close(operated(layer, layer.weights(x, bias=bias), x), y, rtol=EXACT, atol=EXACT)
    other = x.clone().requires_grad_()
    (found,) = torch.autograd.grad(layer(other, bias=bias).sum(), [other])
    assert found.isfinite().all()


def test_ages_number_the_past_backwards():
    rows = torch.arange(9.0).view(3, 3)
    assert hyperglu.index_by_age(rows).tolist() == [[0, 0, 0], [4, 3, 0], [8, 7, 6]]
    assert torch.equal(hyperglu.index_by_age(hyperglu.index_by_age(rows)), rows.tril())


def test_by_hand():
    """One token, everything 1, R = 1 + p + A s B = 1 + 1 + 2 * 0.5 * 3 = 5 for each of the three mixers."""
    one = torch.ones(2, 1, 1, dtype=torch.float64)
    p, A, B, s = (torch.full((3, 1, 1), value, dtype=torch.float64) for value in (1.0, 2.0, 3.0, 0.5))
    V = torch.tensor([[7.0]], dtype=torch.float64)
    out = hyperglu.reference(one, one, V, p[..., 0], A, B, s)
    assert out.item() == pytest.approx(math.log1p(math.exp(5.0)) * 5.0 * 7.0)


def test_at_the_start_every_mixer_is_near_the_identity():
    torch.manual_seed(2)
    layer = attention.create("hyperglu", SITE)
    assert not layer.diagonal.any()
    assert (layer.spread[0, 0] @ layer.gather[0, 0].T).abs().max() < 0.02
    assert layer.spread.shape == (3, SITE.heads, SITE.tokens, 16)


def test_settings_set_rank_width_and_scale():
    layer = attention.create("hyperglu", SITE, rank=2, score_width=3, score_scale=0.1)
    assert layer.gather.shape[-1] == 2
    assert layer.widths == [SITE.heads * 6, SITE.heads * 6, SITE.heads * SITE.per_value]
    assert layer.scale == 0.1
    assert layer(tokens_for(layer)).isfinite().all()


@pytest.mark.parametrize("host", ["patchtst", "itransformer"])
def test_networks_train_with_it(host):
    torch.manual_seed(3)
    small = {"channels": 3, "lookback": 47, "steps": 5, "width": 14, "heads": 7, "depth": 2, "feed_forward": 11}
    network = models.create(host, attention={"name": "hyperglu", "rank": 3}, **small)
    past = torch.randn(2, 3, 47)
    network(past).square().sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())
    assert len(network.eval().weights(past)) == 2


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_extremes_stay_finite(dtype, causal):
    layer = place("hyperglu", dtype=dtype, causal=causal, dropout=0.2).train()
    tokens, mask = tokens_for(layer), ragged_mask(layer)
    mask[0, 0] = False
    for x in (1e6 * tokens, 1e-6 * tokens, torch.ones_like(tokens), torch.zeros_like(tokens)):
        x = x.detach().requires_grad_()
        y = layer(x, mask=mask)
        assert y.isfinite().all()
        loss = (y / y.detach().abs().max().clamp(min=1)).square().mean()
        assert all(found.isfinite().all() for found in torch.autograd.grad(loss, [x, *layer.parameters()]))


def test_autocast_changes_little():
    layer = place("hyperglu", dtype=torch.float32)
    x = tokens_for(layer)
    exact = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = layer(x)
    assert low.dtype == torch.bfloat16
    assert (low - exact).abs().max() < 0.1 * exact.abs().max()


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("causal", "backend"), [(False, "aot_eager"), (True, "inductor")])
def test_compiled_and_exported_are_eager(causal, backend):
    layer = place("hyperglu", causal=causal)
    x, mask = tokens_for(layer), ragged_mask(layer)
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    assert_close(compiled(x, mask=mask), layer(x, mask=mask), rtol=1e-9, atol=1e-9)
    program = torch.export.export(layer, (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})
    more = tokens_for(layer, batch=11)
    assert_close(program.module()(more), layer(more), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("settings", [{"rank": 0}, {"score_width": 0}, {"score_scale": -1.0}], ids=str)
def test_settings_that_mean_nothing_are_refused(settings):
    (name,) = settings
    with pytest.raises(SettingsError, match=f"hyperglu's {name} is {settings[name]}; it must be"):
        attention.create("hyperglu", SITE, **settings)


def test_ages_need_one_token_a_time():
    site = replace(SITE, causal=True, times=(0, 1, 2, 0, 1, 2, 3), host="Timer-XL")
    with pytest.raises(SettingsError, match="hyperglu numbers the past by age, but several of Timer-XL's tokens"):
        attention.create("hyperglu", site)
