"""How far back RBCA looks: windows and their cost, real ages, times of a site, and an alpha that is learned."""

import itertools
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import attention
from rearview.attention import rbca
from rearview.attention.contract import Site
from rearview.attention.rbca import biased_attention
from rearview.attention.rbca.biases import BIASES, DROPPED, LOGIT_RANGE, butterworth, find_window
from rearview.testing.places import cost

BATCH, GROUPS, HEADS, WIDTH, HEAD_WIDTH = 2, 3, 5, 13, 7
EXACT = {"rtol": 1e-10, "atol": 1e-11}
SITE = Site(groups=GROUPS, tokens=157, width=WIDTH, heads=HEADS, head_width=HEAD_WIDTH)


def layer_of(site: Site = SITE, **settings: Any) -> rbca.Layer:
    torch.manual_seed(41)
    layer = attention.create("rbca", site, **settings).double()
    assert isinstance(layer, rbca.Layer)
    return layer


def tokens_of(tokens: int, seed: int = 43) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, GROUPS, tokens, WIDTH, generator=draw, dtype=torch.float64)


def plainly(layer: rbca.Layer, x: Tensor, **given: Any) -> Tensor:
    """The output by way of the whole operator."""
    return layer.project(layer.weights(x, **given) @ layer.values(x))


WINDOWED: list[dict[str, Any]] = [
    {"bias": "power_law", "window": 3},
    {"bias": "causal", "window": 70},
    {"bias": "step", "scale": 5, "window": "auto"},
    {"bias": "butterworth", "scale": 10, "order": 2, "window": "auto"},
    {"bias": "exponential", "alpha": 2.0, "window": "auto"},
    {"bias": "exponential", "alpha": [1.0, 1.5, 2.0, 2.5, 3.0], "window": "auto"},
    {"bias": "similarity_power_law", "alpha": 1.0, "window": "auto"},
    {"bias": "exponential", "alpha": 2.0, "learnable": True, "floor": 1.0, "window": "auto"},
]


@pytest.mark.parametrize("settings", WINDOWED)
def test_the_band_is_the_whole_operator(settings: dict[str, Any]) -> None:
    """Outputs and gradients, at lengths on both sides of a chunk's edge, with padding and with carried scores."""
    layer = layer_of(**settings)
    for tokens in (129, 157):
        x = tokens_of(tokens).requires_grad_()
        mask = torch.rand(BATCH, GROUPS, tokens, generator=torch.Generator().manual_seed(47)) < 0.7
        mask[0, 0] = False
        _, carry = layer(tokens_of(tokens, seed=53), carry=())
        for given in ({}, {"mask": mask}, {"carry": carry}):
            y = layer(x, **given)
            y = y[0] if "carry" in given else y
            assert_close(y, plainly(layer, x, **given), **EXACT)
            ours = torch.autograd.grad(y.square().sum(), [x, *layer.parameters()], retain_graph=True)
            theirs = torch.autograd.grad(
                plainly(layer, x, **given).square().sum(), [x, *layer.parameters()], retain_graph=True
            )
            assert_close(ours, theirs, **EXACT)


@pytest.mark.parametrize("settings", WINDOWED)
def test_windowed_cost_is_linear(settings: dict[str, Any]) -> None:
    layers = [layer_of(replace(SITE, tokens=tokens), **settings).eval() for tokens in (280, 560, 840)]
    assert all(layer.claims.linear_in_tokens for layer in layers)
    once, twice, thrice = (cost(layer) for layer in layers)
    # Chunks are whole, so a length pays for at most one chunk more than its share.
    assert ((thrice - 2 * twice + once).abs() / thrice < 0.1).all()
    whole = cost(layer_of(replace(SITE, tokens=840)).eval())
    assert (thrice < 0.7 * whole).all()


def test_without_a_window_cost_is_not_linear() -> None:
    layer = layer_of()
    assert not layer.claims.linear_in_tokens
    assert layer.decay.window.back is None


@pytest.mark.parametrize(
    ("bias", "rate"),
    [("exponential", 0.0039), ("exponential", 0.5), ("exponential", 3.0)]
    + [("similarity_power_law", alpha) for alpha in (0.5, 0.75, 1.0, 2.0)],
)
def test_the_window_is_the_shortest_that_drops_no_more_than_allowed(bias: str, rate: float) -> None:
    back = find_window(bias, (rate,)).back
    assert back is not None
    ages = torch.arange(1 << 17, dtype=torch.float64)
    weights = (BIASES[bias](ages, rate) + LOGIT_RANGE).exp()
    assert weights[back + 1 :].sum() <= DROPPED
    assert weights[back:].sum() > DROPPED


def test_windows_of_filters_are_exact() -> None:
    assert find_window("step", (5.0,)).back == 5
    assert [find_window("butterworth", (float(s),)).back for s in (2, 5, 10, 15, 20)] == [3, 7, 15, 23, 31]
    assert find_window("butterworth", (2.0, 20.0)).back == 31
    assert butterworth(torch.tensor([31.0, 32.0]), 20.0, 1).isfinite().tolist() == [True, False]


def test_a_window_drops_no_more_than_it_says() -> None:
    """The worst row that the logit range allows: the query's own key lowest, all others 20 above."""
    whole = layer_of(replace(SITE, tokens=2048), bias="similarity_power_law", alpha=0.5)
    layer = layer_of(replace(SITE, tokens=2048), bias="similarity_power_law", alpha=0.5, window="auto")
    back = layer.decay.window.back
    assert back is not None
    assert 1000 < back < 2047
    scores = torch.full((2048,), LOGIT_RANGE, dtype=torch.float64)
    scores[0] = 0
    dropped = (scores + whole.decay.profile(2048, scores)[0]).softmax(0)[back + 1 :].sum()
    assert 0 < dropped <= DROPPED
    assert layer.decay.profile(2048, scores)[0, back + 1 :].isinf().all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"bias": "power_law"}, "heavy .*98,015"),
        ({"bias": "similarity_power_law", "alpha": 0.25}, "below alpha 0.5"),
        ({"bias": "exponential", "alpha": 0.0}, "does not decay"),
        ({"bias": "causal"}, "without a decay"),
        ({"bias": "exponential", "alpha": 0.5, "learnable": True}, "learned alpha"),
    ],
)
def test_what_needs_every_key_keeps_it_and_says_why(settings: dict[str, Any], words: str) -> None:
    layer = layer_of(window="auto", **settings)
    assert layer.decay.window.back is None
    assert not layer.claims.linear_in_tokens
    assert "every key is kept" in repr(layer)
    assert re.search(words, layer.decay.window.why)
    assert_close(layer(tokens_of(11)), layer_of(**settings)(tokens_of(11)), rtol=0, atol=0)


def test_the_power_laws_tail_is_as_heavy_as_the_reason_says() -> None:
    weights = np.arange(1, 100_001, dtype=np.float64) ** -0.5
    assert int(np.searchsorted(weights.cumsum(), 0.99 * weights.sum())) + 1 == pytest.approx(98_015, abs=10)


def test_ages_of_regular_steps_are_token_distance() -> None:
    for settings in (
        {},
        {"bias": "butterworth", "per_head": True},
        {"bias": "similarity_power_law", "learnable": True},
    ):
        layer = layer_of(**settings)
        x, steps = tokens_of(11), torch.arange(11)
        ages = steps[:, None] - steps
        for given in (ages, ages.double(), ages.double().expand(BATCH, GROUPS, 11, 11)):
            assert_close(layer(x, ages=given), layer(x), **EXACT)
            assert_close(plainly(layer, x, ages=given), layer(x), **EXACT)


def test_real_ages_are_the_references_times() -> None:
    layer = layer_of(bias="power_law", alpha=0.75)
    x = tokens_of(11)
    times = torch.rand(BATCH, GROUPS, 11, generator=torch.Generator().manual_seed(59), dtype=torch.float64).cumsum(-1)
    ages = times[..., :, None] - times[..., None, :]
    q, k, v = layer.heads(x)
    expected = torch.stack(
        [
            rbca.reference(q[b, g, h], k[b, g, h], v[b, g, h], layer.settings, times=times[b, g])
            for b in range(BATCH)
            for g in range(GROUPS)
            for h in range(HEADS)
        ]
    ).view_as(v)
    assert_close(layer(x, ages=ages), layer.project(expected), **EXACT)
    bias = layer.decay(11, x, ages)
    assert bias.shape == (BATCH, GROUPS, 1, 11, 11)
    assert_close(bias.diagonal(dim1=-2, dim2=-1), torch.zeros(BATCH, GROUPS, 1, 11, dtype=torch.float64))


def test_ages_never_uncover_the_future_and_stay_finite() -> None:
    """Gaps without a sign, ages of padding that are no numbers, and a gap longer than a filter."""
    layer = layer_of(bias="step", scale=2, window="auto")
    learned = layer_of(bias="similarity_power_law", learnable=True)
    steps = torch.arange(11.0, dtype=torch.float64)
    unsigned = (steps[:, None] - steps).abs()
    broken = unsigned.clone()
    broken[:, 3], broken[3] = math.nan, 1e30
    for ages in (unsigned, broken, unsigned + 100):
        for each in (layer, learned):
            x = tokens_of(11).requires_grad_()
            y = each(x, ages=ages)
            later = x.detach().clone()
            later[:, :, 4:] += 1
            assert torch.equal(each(later, ages=ages)[:, :, :4], y[:, :, :4])
            for gradient in torch.autograd.grad(y.square().sum(), [x, *each.parameters()]):
                assert gradient.isfinite().all()


def test_an_automatic_window_is_not_applied_to_real_ages() -> None:
    """Ten tokens a step: what the window drops by token distance is still near in time."""
    layer = layer_of(bias="step", scale=2, window="auto")
    steps = torch.arange(31.0, dtype=torch.float64) / 10
    weights = layer.weights(tokens_of(31), ages=steps[:, None] - steps)
    assert (weights[..., -1, 11:] > 0).all()
    fixed = layer_of(bias="step", scale=2, window=4).weights(tokens_of(31), ages=steps[:, None] - steps)
    assert (fixed[..., -1, :26] == 0).all()
    assert (fixed[..., -1, 26:] > 0).all()


@pytest.mark.parametrize("settings", [{}, {"window": 1}, {"bias": "exponential", "per_head": True, "window": "auto"}])
def test_times_of_a_site_are_the_distance(settings: dict[str, Any]) -> None:
    """Three channels of four patches, channel by channel: the present of all channels is seen, their future is not."""
    times = (0, 1, 2, 3) * 3
    layer = layer_of(replace(SITE, tokens=12, times=times), **settings)
    bias = layer.decay(12, torch.zeros(1, dtype=torch.float64))
    by_age = layer.decay.profile(4, torch.zeros(1, dtype=torch.float64))
    furthest = 1 if settings.get("window") == 1 else 3
    for i in range(12):
        for j in range(12):
            age = times[i] - times[j]
            if age < 0 or age > furthest:
                assert (bias[:, i, j] == -math.inf).all()
            else:
                assert_close(bias[:, i, j], by_age[:, age])
    assert not layer.claims.linear_in_tokens
    x = tokens_of(12)
    assert_close(plainly(layer, x), layer(x), **EXACT)
    later = x.clone()
    later[:, :, [3, 7, 11]] += 1
    present = [index for index in range(12) if times[index] < 3]
    assert torch.equal(layer(later)[:, :, present], layer(x)[:, :, present])


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("heads", [1, HEADS])
def test_the_bias_gradient_by_blocks_is_that_of_the_plain_form(monkeypatch: Any, rows: int, heads: int) -> None:
    """Blocks that split rows, queries, both or nothing; head widths that differ between keys and values."""
    monkeypatch.setattr(biased_attention, "SHORT", 0)
    torch.manual_seed(61)
    q, k = (torch.randn(4, HEADS, tokens, 7, dtype=torch.float64, requires_grad=True) for tokens in (11, 17))
    v = torch.randn(4, HEADS, 17, 3, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(rows, heads, 11, 17, dtype=torch.float64).masked_fill(
        torch.ones(11, 17).triu(7).bool(), -math.inf
    )
    bias.requires_grad_()
    wanted, pull = (q, k, v, bias), torch.randn(4, HEADS, 11, 3, dtype=torch.float64)
    plain = (q @ k.transpose(-1, -2) * 0.3 + bias).softmax(-1) @ v
    theirs = torch.autograd.grad(plain, wanted, pull)
    blocks = (1, 17 * HEADS * 3, 2 * 11 * 17 * HEADS, 1 << 20)
    for block, ordered in itertools.product(blocks, (False, True)):
        monkeypatch.setattr(biased_attention, "BLOCK", block)
        ours = biased_attention.attend_biased(q, k, v, bias, 0.3, ordered)
        assert type(ours.grad_fn).__name__ == "_AttendBackward"
        assert_close(ours, plain, **EXACT)
        assert_close(torch.autograd.grad(ours, wanted, pull), theirs, **EXACT)


def test_learning_alpha_keeps_no_weights() -> None:
    """What a training step saves for its backward pass grows with the tokens, not with their square."""

    def saved(tokens: int) -> int:
        layer = layer_of(replace(SITE, tokens=tokens), learnable=True)
        held: dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            layer(tokens_of(tokens))
        mask = tokens * tokens * 8
        return sum(held.values()) - mask

    once, twice = saved(256), saved(512)
    assert twice < 2.5 * once


@pytest.mark.parametrize("bias", ["power_law", "similarity_power_law", "exponential"])
def test_alpha_stops_at_its_floor_and_can_leave_it(bias: Any) -> None:
    decay = rbca.Decay(SITE, rbca.Settings(bias=bias, alpha=0.5, learnable=True, floor=0.25)).double()
    assert decay.alpha is not None
    like = torch.zeros(1, dtype=torch.float64)
    with torch.no_grad():
        decay.alpha.fill_(-3.0)
    fixed = rbca.Decay(SITE, rbca.Settings(bias=bias, alpha=0.25))
    assert_close(decay(11, like), fixed(11, like))
    (down,) = torch.autograd.grad(-decay.profile(11, like).sum(), decay.alpha)
    (up,) = torch.autograd.grad(decay.profile(11, like).sum(), decay.alpha)
    assert down == 0, "a step that would go further below is not taken"
    assert up < 0, "a step that leads up again is"


def test_alpha_without_a_floor_may_change_sign() -> None:
    """As the paper observed (S8.1): the power law then grows with age. The similarity power law can't follow."""
    like = torch.zeros(1, dtype=torch.float64)
    decay = rbca.Decay(SITE, rbca.Settings(learnable=True)).double()
    similarity = rbca.Decay(SITE, rbca.Settings(bias="similarity_power_law", learnable=True)).double()
    for module in (decay, similarity):
        assert module.alpha is not None
        with torch.no_grad():
            module.alpha.fill_(-0.5)
    assert_close(decay.profile(11, like)[0], 0.5 * torch.arange(1, 12, dtype=torch.float64).log())
    flat = torch.full((11,), -1.0, dtype=torch.float64)
    flat[0] = 0
    assert_close(similarity.profile(11, like)[0], flat)


def test_a_steep_learned_exponent_has_a_gradient() -> None:
    decay = rbca.Decay(replace(SITE, tokens=4096), rbca.Settings("similarity_power_law", alpha=40.0, learnable=True))
    assert decay.alpha is not None
    profile = decay.profile(4096, torch.zeros(1))
    assert profile.isfinite().all()
    profile.exp().sum().backward()
    assert decay.alpha.grad is not None
    assert decay.alpha.grad.isfinite().all()


def test_training_moves_alpha() -> None:
    """Targets that only the past explains pull alpha down; an optimiser finds that out."""
    layer = layer_of(replace(SITE, tokens=23), alpha=1.0, learnable=True, per_head=True)
    assert layer.decay.alpha is not None
    before = layer.decay.alpha.detach().clone()
    optimiser = torch.optim.Adam([layer.decay.alpha], lr=0.05)
    x = tokens_of(23)
    target = layer_of(replace(SITE, tokens=23), alpha=0.0)(x).detach()
    losses = []
    for _ in range(10):
        optimiser.zero_grad()
        loss = (layer(x) - target).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert (layer.decay.alpha < before).all()
    assert losses[-1] < losses[0]
