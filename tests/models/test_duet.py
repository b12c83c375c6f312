"""DUET: experts that share windows out, gates between channels, chance, the penalty on its way into training."""

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import models
from rearview.core.errors import SettingsError
from rearview.models.channel_hosts.duet import ChannelGate, Experts, Router, _unevenness, amplitudes, logistic_like
from rearview.tasks.objectives import Forecast
from rearview.testing.small_models import BATCH, CHANNELS, LOOKBACK, STEPS, past_for, small

MECHANISMS = [
    "softmax",
    "differential",
    *({"name": "toa", "kind": kind} for kind in ("softmax", "relu", "gated")),
    "prime",
]


def batch_for(model: models.Model) -> Any:
    return SimpleNamespace(
        past=past_for(model),
        past_marks=None,
        future_marks=None,
        mask=None,
        observed=None,
        future=500 + 100 * torch.randn(BATCH, CHANNELS, STEPS, dtype=torch.float64),
    )


def test_a_window_gets_the_sum_of_its_experts_by_its_gates() -> None:
    torch.manual_seed(0)
    experts = Experts(LOOKBACK, 11, 4, kernel=5).double()
    with torch.no_grad():
        for parameter in experts.parameters():
            parameter.add_(torch.randn_like(parameter))
    x, gates = torch.randn(2, 3, LOOKBACK).double(), torch.rand(2, 3, 4).double()
    trend = experts.average(x)
    each = [
        (x - trend) @ experts.rest.weight[e].T
        + experts.rest.bias[e]
        + trend @ experts.trend.weight[e].T
        + experts.trend.bias[e]
        for e in range(4)
    ]
    expected = sum(gates[..., e, None] * each[e] for e in range(4))
    assert_close(experts(x, gates), expected, rtol=1e-12, atol=1e-12)


def test_a_router_uses_as_many_experts_as_it_is_reported() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 3, LOOKBACK)
    for used in (1, 2, 4):
        gates, penalty = Router(LOOKBACK, 7, 4, used, noisy=True)(x)
        assert ((gates > 0).sum(-1) == used).all()
        assert_close(gates.sum(-1), torch.ones(5, 3), rtol=1e-4, atol=1e-4)
        assert penalty > 0
    for used in (0, 5):
        with pytest.raises(SettingsError, match=f"used is {used}; of 4 experts"):
            Router(LOOKBACK, 7, 4, used, noisy=True)


def test_a_router_alone_with_one_expert_has_nothing_to_balance() -> None:
    gates, penalty = Router(LOOKBACK, 7, 1, 1, noisy=True)(torch.randn(5, 3, LOOKBACK))
    assert_close(gates, torch.ones(5, 3, 1), rtol=1e-4, atol=1e-4)
    assert penalty == 0


def test_unevenness_by_hand() -> None:
    """Sums 2 and 4: mean 3, variance 2 (n - 1), so 2 / 9; equal sums have none."""
    parts = torch.tensor([[[1.0, 3.0], [1.0, 1.0]]])
    assert _unevenness(parts).item() == pytest.approx(2 / 9)
    assert _unevenness(torch.ones(2, 3, 4)).item() == 0


def test_a_pair_is_kept_as_often_as_its_probability_says() -> None:
    torch.manual_seed(0)
    gate = ChannelGate(LOOKBACK)
    x = torch.randn(1, 5, LOOKBACK)
    p = gate.alike(x)[0]
    drawn = gate(x.expand(4000, -1, -1), sample=True)[:, 0, 0].mean(0)
    assert_close(drawn, p**2 / (p**2 + (1 - p) ** 2), rtol=0, atol=0.04)
    assert_close(p.diagonal(), torch.full((5,), 0.99))
    assert_close(p.fill_diagonal_(0).amax(-1), torch.full((5,), 0.99))
    noise = logistic_like(torch.empty(100_000))
    assert noise.mean().item() == pytest.approx(0, abs=0.02)
    assert noise.var().item() == pytest.approx(torch.pi**2 / 3, rel=0.03)


def test_amplitudes_are_those_of_the_spectrum() -> None:
    for length in (1, 2, 37, 96):
        x = torch.randn(2, 3, length, dtype=torch.float64, requires_grad=True)
        ours, theirs = amplitudes(x), torch.fft.rfft(x).abs()
        assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
        pull = torch.randn_like(theirs)
        assert_close(*(torch.autograd.grad(found, x, pull)[0] for found in (ours, theirs)), rtol=1e-8, atol=1e-8)
    still = torch.zeros(1, 1, 8, requires_grad=True)
    amplitudes(still).sum().backward()
    assert not still.grad.any()


def test_equal_channels_are_kept_together_and_have_finite_gradients() -> None:
    gate = ChannelGate(LOOKBACK)
    x = torch.randn(2, 3, LOOKBACK)
    x[:, 1] = x[:, 0]
    found = gate(x, sample=False)[:, 0, 0]
    assert (found[:, 0, 1] == 1).all()
    assert (found[:, 0, 2] == 0).all()
    found.sum().backward()
    assert gate.metric.grad.isfinite().all()


@pytest.mark.parametrize("attention", MECHANISMS, ids=str)
def test_the_gate_reaches_every_mechanism(attention: Any) -> None:
    model = small("duet", attention=attention, channels=7)
    past = past_for(model)
    given = model.read(past, None, None, None)
    assert given.gate.shape == (BATCH, 1, 1, 7, 7)
    assert 0 < given.gate.mean() < 1
    open_gate = torch.ones_like(given.gate)
    assert (model.stack(given.tokens, gate=open_gate) - model.stack(given.tokens, gate=given.gate)).abs().max() > 1e-6
    weights = model.weights(past)
    assert len(weights) == 2
    if attention == "softmax":
        same = model.stack.blocks[0].attend.weights(given.tokens, gate=given.gate)
        assert torch.equal(weights[0], same)
    model.train()(past).sum().backward()
    assert model.gate.metric.grad.abs().max() > 0


def test_mechanisms_that_no_gate_can_act_on_are_refused() -> None:
    for name in ("linear", "gat", "hyperglu"):
        with pytest.raises(SettingsError, match=f"duet keeps unlike channels apart .* {name} takes none; use softmax"):
            small("duet", attention=name)


def test_duet_draws_its_gate_when_sample_says_so() -> None:
    never, training, always = (small("duet", sample=when, channels=11) for when in ("never", "training", "always"))
    past = past_for(never)
    assert torch.equal(never(past), training(past))
    assert not torch.equal(always(past), always(past))
    assert torch.equal(never.train()(past), never(past))
    assert not torch.equal(training.train()(past), training(past))
    noisy = small("duet", noisy=True)
    past = past_for(noisy)
    assert torch.equal(noisy(past), noisy(past))
    assert not torch.equal(noisy.train()(past), noisy(past))


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_value_of_sample_is_refused() -> None:
    with pytest.raises(SettingsError, match="sample is 'sometimes'; it can be one of training, always, never"):
        small("duet", sample="sometimes")


def test_the_penalty_joins_the_mean_loss_in_training() -> None:
    model = small("duet").train()
    batch, task = batch_for(model), Forecast(STEPS)
    total, number = task.loss(model, batch)
    plain = (model(batch.past).float() - batch.future).square().mean()
    penalty = model.penalty()
    assert penalty is not None
    assert penalty > 0
    assert (total / number - plain).item() == pytest.approx(penalty.item(), rel=1e-3)
    torch.autograd.backward(penalty)
    assert model.router.score[0].weight.grad.abs().max() > 0
    assert model.head.weight.grad is None


def test_the_penalty_is_weighed_by_its_setting() -> None:
    once, twice = small("duet").train(), small("duet", balance=2.0).train()
    for model in (once, twice):
        model(past_for(model))
    assert_close(2 * once.penalty(), twice.penalty())


def test_the_penalty_is_handed_over_once_and_never_in_evaluation() -> None:
    model = small("duet").train()
    past = past_for(model)
    model(past)
    assert model.penalty() is not None
    assert model.penalty() is None
    copy.deepcopy(model)
    model(past)
    model.eval()(past)
    assert model.penalty() is None
    batch, task = batch_for(model), Forecast(STEPS)
    total, number = task.loss(model, batch)
    assert (total / number).item() == pytest.approx((model(past) - batch.future).square().mean().item(), rel=1e-5)


def test_other_models_have_no_penalty() -> None:
    for name in ("patchtst", "dlinear"):
        model = small(name).train()
        model(past_for(model))
        assert model.penalty() is None


def test_one_channel_has_no_gate() -> None:
    model = small("duet", channels=1)
    assert model.gate is None
    assert model.weights(past_for(model))[0].shape[-1] == 1


def test_duet_reconstructs_windows_and_classifies() -> None:
    model = small("duet", asks="window", steps=None)
    assert model(past_for(model)).shape == (BATCH, CHANNELS, LOOKBACK)
    model = small("duet", asks="classes", classes=5, steps=None)
    assert model(past_for(model)).shape == (BATCH, 5)


def test_without_an_affine_map_channels_can_change_places() -> None:
    model = small("duet", affine=False)
    past, order = past_for(model), torch.tensor([2, 0, 1])
    moved: Tensor = model(past[:, order]) - model(past)[:, order]
    assert moved.abs().max() < 1e-9
