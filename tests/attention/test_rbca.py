"""Recency-biased causal attention: the paper's equations, numbers by hand, propositions, extremes and refusals."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch._dynamo.testing
from torch import Tensor
from torch.testing import assert_close

from rearview import attention, models
from rearview.attention import rbca
from rearview.attention.contract import Site
from rearview.attention.rbca.biased_attention import expand_ages
from rearview.attention.rbca.biases import spread_rates
from rearview.core.errors import SettingsError

BATCH, GROUPS, HEADS, WIDTH, HEAD_WIDTH = 2, 3, 5, 13, 7
EXACT = {"rtol": 1e-10, "atol": 1e-11}
VARIANTS: dict[str, dict[str, Any]] = {
    "power_law": {"alpha": 0.5},
    "power_law_learned": {"bias": "power_law", "alpha": 0.75, "learnable": True},
    "power_law_floor": {"bias": "power_law", "alpha": 0.75, "learnable": True, "floor": 0.1},
    "similarity": {"bias": "similarity_power_law", "alpha": 0.5},
    "similarity_learned": {"bias": "similarity_power_law", "alpha": 0.6, "learnable": True},
    "exponential": {"bias": "exponential", "alpha": 0.3},
    "exponential_heads": {"bias": "exponential", "per_head": True},
    "learned_heads": {"bias": "exponential", "alpha": None, "learnable": True},
    "given_heads": {"bias": "power_law", "alpha": [0.0, 0.1, 0.5, 1.0, 2.0]},
    "butterworth_1": {"bias": "butterworth", "scale": 7.5, "order": 1},
    "butterworth_2": {"bias": "butterworth", "per_head": True, "order": 2},
    "step": {"bias": "step", "scale": 3},
    "causal": {"bias": "causal"},
    "window": {"bias": "power_law", "alpha": 0.25, "window": 11},
}
GOLDEN = {  # the table of values by hand: ages 0, 1, 2, 5, 10, 41
    ("power_law", "alpha", 0.5, 1): (0, -0.3466, -0.5493, -0.8959, -1.1989, -1.8688),
    ("power_law", "alpha", 1.0, 1): (0, -0.6931, -1.0986, -1.7918, -2.3979, -3.7377),
    ("similarity_power_law", "alpha", 0.1, 1): (0, -1, -1.0718, -1.1746, -1.2589, -1.4497),
    ("similarity_power_law", "alpha", 2.0, 1): (0, -1, -4, -25, -100, -1681),
    ("butterworth", "scale", 5, 1): (0, -0.011, -0.047, -0.570, -math.inf, -math.inf),
    ("butterworth", "scale", 5, 2): (0, -0.000, -0.001, -0.159, -math.inf, -math.inf),
    ("exponential", "alpha", 0.25, 1): (0, -0.25, -0.5, -1.25, -2.5, -10.25),
    ("step", "scale", 5, 1): (0, 0, 0, 0, -math.inf, -math.inf),
}


def site(tokens: int, **changes: Any) -> Site:
    return replace(Site(groups=GROUPS, tokens=tokens, width=WIDTH, heads=HEADS, head_width=HEAD_WIDTH), **changes)


def layer_of(tokens: int, dtype: torch.dtype = torch.float64, **settings: Any) -> rbca.Layer:
    torch.manual_seed(19)
    layer = attention.create("rbca", site(tokens), **settings).to(dtype)
    assert isinstance(layer, rbca.Layer)
    return layer


def tokens_like(layer: rbca.Layer, tokens: int, batch: int = BATCH) -> Tensor:
    draw = torch.Generator().manual_seed(23)
    x = torch.randn(batch, GROUPS, tokens, WIDTH, generator=draw, dtype=torch.float64)
    return x.to(layer.qkv.weight.dtype)


def referred(layer: rbca.Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The reference, head by head."""
    rates = list(layer.decay.rates or [0.0]) if layer.decay.alpha is None else list(layer.decay.alpha)
    rates = rates * HEADS if len(rates) == 1 else rates
    rows = []
    for b in range(q.shape[0]):
        for g in range(q.shape[1]):
            settings = layer.settings
            rows += [rbca.reference(q[b, g, h], k[b, g, h], v[b, g, h], settings, rates[h]) for h in range(HEADS)]
    return torch.stack(rows).view(*v.shape)


def compared(layer: rbca.Layer, x: Tensor) -> None:
    """Outputs and the gradients of the tokens and of every parameter, fast form against reference."""
    x = x.clone().requires_grad_()
    pull = torch.randn_like(x)
    wanted = [x, *layer.parameters()]
    fast = layer(x)
    slow = layer.project(referred(layer, *layer.heads(x)))
    assert_close(fast, slow, **EXACT)
    ours = torch.autograd.grad((fast * pull).sum(), wanted)
    theirs = torch.autograd.grad((slow * pull).sum(), wanted)
    for mine, other in zip(ours, theirs, strict=True):
        assert_close(mine, other, **EXACT)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("tokens", [1, 2, 13])
def test_fast_form_is_the_reference(variant: str, tokens: int) -> None:
    layer = layer_of(tokens, **VARIANTS[variant])
    compared(layer, tokens_like(layer, tokens))


@pytest.mark.parametrize("variant", ["power_law", "similarity_learned", "learned_heads", "butterworth_1"])
@pytest.mark.parametrize("tokens", [42, 65])
def test_fast_form_is_the_reference_on_longer_sequences(variant: str, tokens: int) -> None:
    layer = layer_of(tokens, **VARIANTS[variant])
    compared(layer, tokens_like(layer, tokens, batch=1)[:, :1])


@pytest.mark.parametrize("variant", ["power_law_learned", "window"])
def test_fast_form_is_the_reference_on_the_longest_sequence(variant: str) -> None:
    """193 tokens: the backward pass by blocks for a learned alpha, the band of keys for a window."""
    torch.manual_seed(19)
    where = Site(groups=1, tokens=193, width=4, heads=HEADS, head_width=2)
    layer = attention.create("rbca", where, **VARIANTS[variant]).double()
    compared(layer, torch.randn(1, 1, 193, 4, dtype=torch.float64))


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_are_those_of_the_function(variant: str) -> None:
    torch.manual_seed(29)
    heads = HEADS if "heads" in variant else 1
    where = Site(groups=2, tokens=3, width=2, heads=heads, head_width=1)
    layer = attention.create("rbca", where, **VARIANTS[variant]).double()
    named = dict(layer.named_parameters())
    x = torch.randn(1, 2, 3, 2, dtype=torch.float64, requires_grad=True)

    def run(tokens: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(layer, dict(zip(named, values, strict=True)), (tokens,))

    assert torch.autograd.gradcheck(run, (x, *named.values()))


@pytest.mark.parametrize(("bias", "name", "rate", "order"), GOLDEN)
def test_masks_by_hand(bias: Any, name: str, rate: float, order: Any) -> None:
    settings = rbca.Settings(bias=bias, order=order, **{name: rate})
    mask = rbca.Decay(site(42), settings)(42, torch.zeros(1))
    assert mask.dtype == torch.float32
    expected = torch.tensor(GOLDEN[bias, name, rate, order], dtype=torch.float32)
    seen = mask[0, -1].flip(0)[[0, 1, 2, 5, 10, 41]]
    assert_close(seen, expected, rtol=1e-6, atol=5.001e-4 if bias == "butterworth" else 5.1e-5)
    assert mask[0].triu(1).sum() == -math.inf
    assert torch.equal(mask[0].triu(1).isinf(), torch.ones(42, 42).triu(1).bool())


def test_weights_by_hand() -> None:
    """Equal scores, ages 1 and 0, alpha 1: weights 1/3 and 2/3."""
    zero, v = torch.zeros(2, 1, dtype=torch.float64), torch.tensor([[3.0], [6.0]], dtype=torch.float64)
    assert rbca.reference(zero, zero, v, rbca.Settings(alpha=1.0))[-1].item() == pytest.approx(5.0)


def test_filters_end_where_they_should() -> None:
    ends = {2: 3, 5: 7, 10: 15, 15: 23, 20: 31}
    for scale, end in ends.items():
        mask = rbca.Decay(site(42), rbca.Settings(bias="butterworth", scale=scale))(42, torch.zeros(1))
        assert mask[0, -1].flip(0).isfinite().sum() == end + 1


def test_one_alpha_per_head_is_that_of_the_study() -> None:
    assert spread_rates("exponential", 0.5, 4) == pytest.approx((0.25, 0.0625, 0.015625, 0.00390625))
    assert spread_rates("power_law", 0.5, 4) == pytest.approx((0.25, 0.5, 0.75, 1.0))
    assert spread_rates("similarity_power_law", 0.5, 4) == pytest.approx((0.1, 0.5, 1.0, 2.0))
    assert spread_rates("butterworth", 10, 4) == pytest.approx((5, 10, 15, 20))
    slopes = layer_of(3, bias="exponential", alpha=None).decay.rates
    assert slopes == pytest.approx([2 ** (-8 * k / HEADS) for k in range(1, HEADS + 1)])
    assert slopes == layer_of(3, bias="exponential", per_head=True).decay.rates
    assert layer_of(3, per_head=True, alpha=1.0).decay.rates == pytest.approx([2 * k / HEADS for k in range(1, 6)])


def silent(layer: rbca.Layer) -> rbca.Layer:
    """The layer with equal scores everywhere."""
    with torch.no_grad():
        layer.qkv.weight[: 2 * HEADS * HEAD_WIDTH] = 0
        layer.qkv.bias[: 2 * HEADS * HEAD_WIDTH] = 0
    return layer


def test_equal_scores_follow_the_power_law() -> None:
    """Equation (7): weights (1 + age)^-alpha, a straight line of slope -alpha on logarithmic axes."""
    layer = silent(layer_of(17, alpha=0.75))
    weights = layer.weights(tokens_like(layer, 17))
    age = torch.arange(16, -1, -1, dtype=torch.float64)
    assert_close(weights[0, 0, 0, -1], (1 + age) ** -0.75 / ((1 + age) ** -0.75).sum(), **EXACT)
    line, log_age = weights[0, 0, 0, -1].log(), (1 + age).log()
    slope = ((line - line.mean()) * (log_age - log_age.mean())).sum() / (log_age - log_age.mean()).square().sum()
    assert slope.item() == pytest.approx(-0.75)
    assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]), **EXACT)
    assert (weights.triu(1) == 0).all()


@pytest.mark.parametrize("residual_mask", ["accumulate", "once"])
@pytest.mark.parametrize("learnable", [False, True])
def test_masks_of_a_stack_add_up_or_do_not(residual_mask: str, learnable: bool) -> None:
    """With equal scores, layer l has weights (1 + age)^(-l alpha) when masks accumulate."""
    alpha, carry, age = 0.5, (), torch.arange(10, -1, -1, dtype=torch.float64)
    for number in (1, 2, 3):
        layer = silent(layer_of(11, alpha=alpha, residual_mask=residual_mask, learnable=learnable))
        x = tokens_like(layer, 11)
        weights = layer.weights(x, carry=carry)
        y, carry = layer(x, carry=carry)
        assert_close(layer.project(weights @ layer.values(x)), y, **EXACT)
        power = (1 + age) ** (-alpha * (number if residual_mask == "accumulate" else 1))
        assert_close(weights[0, 0, 0, -1], power / power.sum(), **EXACT)
        assert len(carry) == (3 if residual_mask == "accumulate" else 2)
        assert carry[0].shape[-1] == number * HEAD_WIDTH


def test_carried_scores_are_the_sum_of_scores() -> None:
    layers = [layer_of(13, bias="similarity_power_law", alpha=a, learnable=True) for a in (0.5, 1.5)]
    x = tokens_like(layers[0], 13)
    y, carry = layers[0](x, carry=())
    z, _ = layers[1](y, carry=carry)
    total = torch.zeros(())
    for layer, given in zip(layers, (x, y), strict=True):
        q, k, v = layer.heads(given)
        total = total + q @ k.transpose(-1, -2) / math.sqrt(HEAD_WIDTH) + layer.decay(13, q)
    assert_close(z, layers[1].project(total.softmax(-1) @ v), **EXACT)
    first, second = (layer.decay.alpha for layer in layers)
    ours = torch.autograd.grad(z.square().sum(), [first, second], retain_graph=True)
    theirs = torch.autograd.grad(layers[1].project(total.softmax(-1) @ v).square().sum(), [first, second])
    assert_close(ours, theirs, **EXACT)


@pytest.mark.parametrize("settings", [{"bias": "causal"}, {"alpha": 0.0}, {"bias": "exponential", "alpha": 0}])
def test_without_decay_it_is_causal_softmax(settings: dict[str, Any]) -> None:
    layer = layer_of(11, **settings)
    plain = attention.create("softmax", site(11, causal=True)).double()
    plain.load_state_dict(layer.state_dict())
    x = tokens_like(layer, 11)
    assert_close(layer(x), plain(x), **EXACT)


@pytest.mark.parametrize("variant", VARIANTS)
def test_future_never_moves_the_past(variant: str) -> None:
    layer = layer_of(11, **VARIANTS[variant])
    x = tokens_like(layer, 11)
    later = x.clone()
    later[:, :, 4:] += 1
    assert torch.equal(layer(x)[:, :, :4], layer(later)[:, :, :4])
    assert not torch.equal(layer(x)[:, :, 4:], layer(later)[:, :, 4:])


@pytest.mark.parametrize("variant", VARIANTS)
def test_operator_reproduces_the_output(variant: str) -> None:
    layer = layer_of(23, **VARIANTS[variant])
    x = tokens_like(layer, 17)
    mask = torch.rand(BATCH, GROUPS, 17, generator=torch.Generator().manual_seed(31)) < 0.7
    for given in ({}, {"mask": mask}, {"bias": torch.randn(HEADS, 17, 17, dtype=torch.float64), "mask": mask}):
        assert_close(layer.project(layer.weights(x, **given) @ layer.values(x)), layer(x, **given), **EXACT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("variant", VARIANTS)
def test_extremes_stay_finite(variant: str, dtype: torch.dtype) -> None:
    layer = layer_of(11, dtype, **VARIANTS[variant])
    mask = torch.ones(BATCH, GROUPS, 11, dtype=torch.bool)
    mask[0, 0], mask[1, 1, :7] = False, False
    for x in (1e6 * tokens_like(layer, 11), 1e-6 * tokens_like(layer, 11), torch.ones(BATCH, GROUPS, 11, WIDTH)):
        x = x.to(dtype).requires_grad_()
        y = layer(x, mask=mask)
        assert y.isfinite().all()
        for gradient in torch.autograd.grad(y.float().square().mean(), [x, *layer.parameters()]):
            assert gradient.isfinite().all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_works_in_patchtst_and_every_parameter_learns(variant: str) -> None:
    torch.manual_seed(37)
    spec = {"name": "rbca", **VARIANTS[variant]}
    small = {"width": 15, "heads": HEADS, "depth": 2, "feed_forward": 11, "patch": 7, "stride": 3}
    model = models.create("patchtst", channels=3, lookback=41, steps=5, attention=spec, **small)
    y = model(torch.randn(2, 3, 41))
    assert y.shape == (2, 3, 5)
    y.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    with torch.autocast("cpu", torch.bfloat16):
        assert model(torch.randn(2, 3, 41)).isfinite().all()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"bias": "powerlaw"}, r"'powerlaw'; it must be one of .* Did you mean 'power_law'"),
    ({"alpha": -0.5}, "alpha is -0.5; it must be at least 0"),
    ({"alpha": "much"}, "alpha is 'much'; it must be a number"),
    ({"alpha": math.nan}, "alpha is nan; it must be a number"),
    ({"alpha": [0.5, 0.25]}, "2 values of alpha for 5 heads"),
    ({"bias": "step", "scale": 0}, "scale is 0.0; it must be above 0"),
    ({"bias": "step", "scale": [1, 2]}, "2 values of scale for 5 heads"),
    ({"order": 3}, "order is 3; it must be one of 1, 2"),
    ({"residual_mask": "twice"}, "'twice'; it must be one of 'accumulate', 'once'"),
    ({"window": 0}, "window is 0; .* from 1 on"),
    ({"window": True}, "window is True"),
    ({"window": "all"}, "window is 'all'"),
    ({"bias": "step", "learnable": True}, "step bias has no alpha to learn; use power_law"),
    ({"floor": 0.0}, "bounds a learned alpha, but alpha is fixed"),
    ({"bias": "similarity_power_law", "learnable": True, "floor": -1}, "similarity_power_law needs one of at least 0"),
    ({"learnable": True, "floor": 0.75}, "alpha starts at 0.5, below its floor 0.75"),
    ({"learnable": True, "floor": 0.3, "per_head": True}, "alpha starts at 0.2, below its floor 0.3"),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("settings", "sentence"), REFUSED)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        attention.create("rbca", site(11), **settings)


def test_tokens_without_age_are_refused() -> None:
    sentence = "rbca fades keys by age, but iTransformer's tokens are channels and have none; use prime or toa"
    with pytest.raises(SettingsError, match=sentence):
        models.create("itransformer", channels=3, lookback=41, steps=5, attention="rbca")
    with pytest.raises(SettingsError, match=r"names 3 tokens of 11"):
        rbca.Decay(site(11, times=(0, 1, 2)), rbca.Settings())


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("variant", ["power_law_floor", "butterworth_2", "window"])
def test_exported_layer_is_the_same_layer(variant: str) -> None:
    layer = layer_of(131, torch.float32, **VARIANTS[variant]).eval()
    x = tokens_like(layer, 131)
    program = torch.export.export(layer, (x,))
    assert_close(program.module()(x), layer(x))


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("variant", "backend"), [("power_law", "aot_eager"), ("power_law_floor", "inductor"), ("window", "inductor")]
)
def test_compiled_layer_is_the_same_layer(variant: str, backend: str) -> None:
    """Of the plain power law the graph is traced and differentiated only: its floor builds the same operations."""
    layer = layer_of(131, torch.float32, **VARIANTS[variant])
    x = tokens_like(layer, 131).requires_grad_()
    wanted = [x, *layer.parameters()]
    y = torch.compile(layer, fullgraph=True, backend=backend)(x)
    assert_close(y, layer(x))
    ours = torch.autograd.grad(y.square().sum(), wanted)
    assert_close(ours, torch.autograd.grad(layer(x).square().sum(), wanted), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_a_compiled_mask_is_the_plain_one_at_any_size_and_compiled_once():
    sizes = [(5, 5), (7, 11), (13, 13), (3, 17)]
    made = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(expand_ages, dynamic=True, backend=made, fullgraph=True)
    for rows, columns in sizes:
        profile = torch.randn(2, columns, dtype=torch.float64, requires_grad=True)
        plain, fast = expand_ages(profile, rows, columns), compiled(profile, rows, columns)
        assert_close(fast, plain, rtol=0, atol=0)
        seen = plain.detach().isfinite()
        weight = torch.randn(plain.shape, dtype=torch.float64)
        one, other = (
            torch.autograd.grad((mask.where(seen, torch.zeros(())) * weight).sum(), profile)[0]
            for mask in (plain, fast)
        )
        assert_close(other, one)
    assert made.frame_count == 1, "a size was taken for a constant"
