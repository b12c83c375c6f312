"""Adapters: what each does to a network's forecasts, that they train, nest, save and load, and what they refuse."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor
from torch.testing import assert_close

from rearview import models
from rearview.attention.mica import Layer as Mica
from rearview.core.errors import SettingsError
from rearview.models import adapters
from rearview.models.adapters import lift
from rearview.models.adapters.lagts import correlate
from rearview.models.adapters.lift import ComplexLinear, find_leaders, shift
from rearview.testing.small_models import BATCH, CHANNELS, LOOKBACK, STEPS, past_for, small

GOLDEN = Path(__file__).parents[1] / "golden"
TIGHT = {"rtol": 1e-9, "atol": 1e-9}
NAMES = adapters.names()
HOSTS = ["patchtst", "dlinear", "mlp", "moment"]


def series(windows: int = 23, seed: int = 7) -> Tensor:
    """Windows of which channel 1 is channel 0 three steps later, and channel 2 is both and more."""
    draw = torch.Generator().manual_seed(seed)
    long = torch.randn(windows, LOOKBACK + STEPS + 3, generator=draw, dtype=torch.float64).cumsum(-1)
    first, second = long[:, 3:], long[:, :-3]
    third = first - 2 * second + torch.randn(first.shape, generator=draw, dtype=torch.float64)
    return torch.stack([first, second, third], dim=1)


def test_every_adapter_of_the_folder_is_listed():
    assert {"channel_heads", "decorrelate", "lagts", "lift"} <= set(NAMES)
    assert all(len(adapters.summary(name).split()) > 5 for name in NAMES)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("adapter", NAMES)
def test_every_adapter_trains_around_networks_that_read_each_channel_by_itself(host, adapter):
    windows = series()
    past, future = windows[..., :LOOKBACK].float(), windows[..., LOOKBACK:].float()
    model = small(host, adapters=[adapter]).float().train()
    model.prepare(past)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(3):
        loss = (model(past) - future).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[2] < losses[1] < losses[0]


@pytest.mark.parametrize("adapter", NAMES)
def test_every_parameter_of_an_adapter_gets_a_gradient(adapter):
    model = small("patchtst", adapters=[adapter]).train()
    model(past_for(model)).sub(500).square().mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all()


@pytest.mark.parametrize("adapter", NAMES)
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
def test_an_adapter_in_half_precision_answers_in_it(adapter, half):
    model = small("patchtst", adapters=[adapter]).to(half)
    out = model(torch.randn(BATCH, CHANNELS, LOOKBACK, dtype=half))
    assert out.dtype == half
    assert out.isfinite().all()


@pytest.mark.parametrize("adapter", NAMES)
def test_an_adapter_is_copied_between_a_step_and_its_penalty(adapter):
    model = small("patchtst", adapters=[adapter])
    past = past_for(model)
    model.train()(past)
    other = copy.deepcopy(model)
    assert other.penalty() is None
    assert torch.equal(other.eval()(past), model.eval()(past))


@pytest.mark.parametrize(
    "chosen", [["decorrelate"], ["channel_heads"], ["lift"], ["lift", "decorrelate", "channel_heads"]]
)
def test_a_model_comes_back_from_its_parameters_and_buffers(chosen):
    model, other = small("patchtst", adapters=chosen), small("patchtst", seed=29, adapters=chosen)
    past = past_for(model)
    assert not torch.equal(model(past), other(past))
    other.load_state_dict(load(save(model.state_dict())))
    assert torch.equal(model(past), other(past))


@pytest.mark.parametrize("adapter", NAMES)
def test_claims_of_adapters_hold(adapter):
    model = small("patchtst", adapters=[adapter])
    past = past_for(model)
    assert model.claims.scale_free
    assert_close(model(7 * past - 5000), 7 * model(past) - 5000, rtol=1e-5, atol=1e-5)
    order = torch.tensor([2, 0, 1])
    assert not model.claims.equivariant_to_channels
    assert (model(past[:, order]) - model(past)[:, order]).abs().max() > 1e-3
    changed = past.clone()
    changed[:, 1] += 100 * torch.randn(BATCH, LOOKBACK, dtype=past.dtype)
    moved = (model(changed) - model(past)).abs().amax((0, 2)) > 1e-9
    assert moved[1]
    assert bool(moved[[0, 2]].any()) == model.claims.mixes_channels == (adapter != "channel_heads")


@pytest.mark.parametrize("adapter", NAMES)
@pytest.mark.parametrize("garbage", [1e6, float("nan")])
def test_padding_never_moves_an_adapters_forecast(adapter, garbage):
    model = small("patchtst", adapters=[adapter])
    past = past_for(model)
    mask = torch.arange(LOOKBACK) >= torch.tensor([[0], [29]])
    out = model(torch.where(mask[:, None], past, garbage), mask=mask)
    assert out.isfinite().all()
    assert_close(out, model(past, mask=mask), **TIGHT)
    whole = torch.ones(BATCH, LOOKBACK, dtype=torch.bool)
    assert_close(model(past, mask=whole), model(past), **TIGHT)


@pytest.mark.parametrize("adapter", NAMES)
def test_an_empty_batch_goes_through_an_adapter(adapter):
    model = small("patchtst", adapters=[adapter]).train()
    past = past_for(model, batch=0).requires_grad_()
    out = model(past)
    assert out.shape == (0, CHANNELS, STEPS)
    out.sum().backward()
    assert past.grad is not None


def test_weights_penalty_and_preparation_are_handed_on():
    model = small("patchtst", adapters=["lift"], attention="prime")
    past = past_for(model)
    inner = model.network
    for ours, theirs in zip(model.weights(past), inner.weights(past), strict=True):
        assert_close(ours, theirs)
    model = small("patchtst", adapters=["decorrelate"])
    turned = model.rotation.T @ (past - model.mean)
    for ours, theirs in zip(model.weights(past), model.network.weights(turned), strict=True):
        assert_close(ours, theirs)
    assert model.penalty() is None
    inner.penalty = lambda: torch.tensor(3.0)
    around = adapters.wrap(inner, "patchtst", ["lift"])
    assert around.penalty() == 3


def test_decorrelated_channels_do_not_go_together():
    past = series()[..., :LOOKBACK]
    seen = []
    model = models.create("dlinear", channels=CHANNELS, lookback=LOOKBACK, steps=STEPS, adapters=["decorrelate"])
    model = model.double()
    first = model.network.forward
    model.network.forward = lambda x, *rest, **named: seen.append(x) or first(x, *rest, **named)
    untouched = model(past)
    assert torch.equal(seen.pop(), past)
    model.prepare(past)
    assert_close(model.rotation.T @ model.rotation, torch.eye(CHANNELS, dtype=torch.float64), **TIGHT)
    assert not torch.equal(model(past), untouched)
    components = seen.pop().transpose(0, 1).flatten(1)
    covariance = torch.cov(components, correction=0)
    assert_close(covariance, covariance.diag().diag(), **TIGHT)
    assert (covariance.diag().diff() < 0).all()
    assert_close(components.mean(1), torch.zeros(CHANNELS, dtype=torch.float64), **TIGHT)


def test_a_rotation_and_its_inverse_leave_a_linear_copy_alone():
    plain = models.create("seasonal_naive", channels=CHANNELS, lookback=LOOKBACK, steps=STEPS, period=5).double()
    around = adapters.wrap(plain, "seasonal_naive", ["decorrelate"]).double()
    past = series()[..., :LOOKBACK]
    around.prepare(past)
    assert_close(around(past), plain(past), **TIGHT)


@pytest.mark.parametrize("host", HOSTS)
def test_channel_heads_start_as_the_shared_layer_and_belong_to_one_channel_each(host):
    plain = small(host)
    past = past_for(plain)
    torch.manual_seed(3)
    before = plain(past)
    count = sum(weight.numel() for weight in plain.parameters())
    around = adapters.wrap(plain, host, ["channel_heads"])
    assert_close(around(past), before, **TIGHT)
    heads = [layer for layer in around.modules() if type(layer).__name__ == "ChannelLinear"]
    assert len(heads) == (2 if host == "dlinear" else 1)
    per_channel = sum(layer.weight[0].numel() + layer.bias[0].numel() for layer in heads)
    assert sum(weight.numel() for weight in around.parameters()) == count + (CHANNELS - 1) * per_channel
    with torch.no_grad():
        heads[0].weight[1].zero_()
    moved = (around(past) - before).abs().amax((0, 2)) > 1e-9
    assert moved.tolist() == [False, True, False]


@pytest.mark.parametrize("case", ["even", "odd"])
def test_leaders_are_those_of_the_authors(case):
    with np.load(GOLDEN / "lead_lag.npz") as golden:
        sizes = json.loads(str(golden["config"]))["cases"][case]
        named = {key.split("/")[0]: torch.from_numpy(golden[key]) for key in golden if key.endswith(f"/{case}")}
        z = torch.from_numpy(golden[f"mid/{case}/z"])
    found = find_leaders(named["input_x"], sizes["K"])
    assert torch.equal(found.channels, named["output_lift_leader_ids"])
    assert torch.equal(found.lags, named["output_lift_shift"])
    assert_close(found.correlations.abs(), named["output_lift_r"].abs(), **TIGHT)
    moved = shift(z, named["input_y_hat"], found)
    assert_close(moved, named["output_lift_shifted_leader_seq"], **TIGHT)


def test_leaders_found_in_portions_are_the_same(monkeypatch):
    windows = torch.randn(2, 13, 29, dtype=torch.float64)
    whole = find_leaders(windows, 3)
    monkeypatch.setattr(lift, "_CELLS_AT_ONCE", 5 * 2 * 13 * 29)
    for ours, theirs in zip(find_leaders(windows, 3), whole, strict=True):
        assert_close(ours, theirs)


def test_a_planted_leader_is_found():
    found = find_leaders(series()[..., :LOOKBACK], 1)
    assert (found.channels[:, 1, 0] == 0).float().mean() > 0.5
    lags = found.lags[:, 1, 0][found.channels[:, 1, 0] == 0]
    assert lags.mode().values == 3


def followed(windows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Past and future of noise, and of the same noise five steps later."""
    draw = torch.Generator().manual_seed(seed)
    noise = torch.randn(windows, LOOKBACK + STEPS + 5, generator=draw)
    return torch.stack([noise[:, 5:], noise[:, :-5]], dim=1).split([LOOKBACK, STEPS], dim=-1)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("adapter", [{"name": "lift", "leaders": 1, "states": 2}, {"name": "lagts", "lags": 7}])
def test_adapters_of_leaders_start_as_the_network_itself_and_learn_from_the_leader(adapter, sign):
    flip = torch.tensor([[1.0], [sign]])
    past, future = (flip * part for part in followed(windows=151, seed=7))
    plain = models.create("seasonal_naive", channels=2, lookback=LOOKBACK, steps=STEPS)
    torch.manual_seed(5)
    model = adapters.wrap(plain, "seasonal_naive", [adapter])
    assert_close(model(past), plain(past), rtol=1e-4, atol=1e-4)
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-2)
    for _ in range(100):
        loss = (model(past) - future).square().mean() + (model.penalty() or 0)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    past, future = (flip * part for part in followed(windows=101, seed=11))
    errors = (model(past) - future).detach().square().mean(0)
    # Noise has a variance of 1 and no future of its own; five steps of the second channel have happened in the first.
    assert errors[1, :5].mean() < 0.5
    assert errors[0].mean() > 0.9
    assert errors[1, 5:].mean() > 0.9


def test_lagged_correlations_are_those_of_the_formula():
    windows = series()[..., :LOOKBACK]
    z = (windows - windows.mean(-1, keepdim=True)) / windows.std(-1, correction=0, keepdim=True)
    found = correlate(z, 4)
    for led, leader, lag in [(0, 0, 1), (1, 0, 3), (0, 1, 3), (2, 1, 4)]:
        expected = (z[:, led, lag:] * z[:, leader, : LOOKBACK - lag]).sum(-1) / LOOKBACK
        assert_close(found[:, led, leader, lag - 1], expected, **TIGHT)


def test_lagts_is_guided_to_the_lagged_correlations():
    past, _ = followed(windows=151, seed=7)
    model = models.create(
        "seasonal_naive", channels=2, lookback=LOOKBACK, steps=STEPS, adapters=[{"name": "lagts", "lags": 7}]
    ).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        model(past)
        loss = model.penalty()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    past, _ = followed(windows=101, seed=11)
    estimated = model.eval().estimate(past).mean(0)
    assert estimated[1, 0].argmax() == 4  # channel 0 leads channel 1 by 5 steps
    assert estimated[1, 0, 4] > 0.7
    assert estimated[0, 1].abs().max() < 0.2
    model(past)
    assert model.penalty() is None  # not in evaluation


@pytest.mark.parametrize("guidance", [0.0, 0.5])
def test_the_guidance_of_lagts_is_added_to_the_penalty_of_its_network(guidance):
    past = past_for(small("patchtst"))
    inner = small("patchtst")
    inner.penalty = lambda: torch.tensor(3.0)
    around = adapters.wrap(inner, "patchtst", [{"name": "lagts", "guidance": guidance}]).double().train()
    around(past)
    assert (around.penalty() > 3) == (guidance > 0)


def test_lifts_complex_map_multiplies_complex_numbers():
    torch.manual_seed(5)
    layer = ComplexLinear(7, 5).double()
    x = torch.randn(3, 7, dtype=torch.complex128)
    assert torch.equal(layer(x), torch.zeros(3, 5, dtype=torch.complex128))
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    bias = torch.complex(*layer.bias.chunk(2))
    assert_close(layer(x), x @ torch.complex(layer.real, layer.imaginary).T + bias, **TIGHT)


def made(host: str = "patchtst", **changes) -> models.Model:
    shape = {"channels": CHANNELS, "lookback": LOOKBACK, "steps": STEPS}
    return models.create(host, **{**shape, **changes})


def test_components_are_turned_back_as_exactly_under_autocast() -> None:
    """Around a network without products of its own, which would be rounded."""
    torch.manual_seed(3)
    model = models.create("seasonal_naive", channels=5, lookback=24, steps=6, adapters=["decorrelate"])
    model.prepare(100 + torch.randn(31, 5, 24))
    past = 100 + torch.randn(2, 5, 24)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(past)
    assert_close(rounded, model(past), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"adapters": ["decorelate"]}, "no adapter called 'decorelate'. Did you mean 'decorrelate'"),
        ({"adapters": [{"leaders": 2}]}, "needs a 'name'"),
        ({"adapters": [{"name": "lift", "leader": 2}]}, "lift has no setting 'leader'. Did you mean 'leaders'"),
        ({"adapters": [{"name": "lift", "leaders": 0}]}, "leaders is 0"),
        ({"adapters": [{"name": "lift", "temperature": 0.0}]}, "temperature is 0.0"),
        ({"adapters": ["decorrelate"], "channels": 1}, "there is 1 channel alone"),
        ({"adapters": ["channel_heads"], "channels": 1}, "there is 1 channel alone"),
        ({"adapters": ["lift"], "channels": 1}, "there is 1 channel alone"),
        ({"adapters": [{"name": "lagts", "lags": 0}]}, "lags is 0"),
        ({"adapters": [{"name": "lagts", "guidance": -1.0}]}, "guidance is -1.0"),
        ({"adapters": ["lagts"], "channels": 1}, "lagts looks for channels that lead others"),
        ({"adapters": ["lift"], "lookback": 2}, "a look-back of 2 has none"),
        ({"adapters": ["lift"], "asks": "window", "steps": None}, "lift refines forecasts, and window"),
        ({"adapters": ["decorrelate"], "asks": "classes", "classes": 3, "steps": None}, "classes are none"),
        ({"adapters": ["decorrelate"], "host": "itransformer"}, "itransformer mixes channels"),
        ({"adapters": ["channel_heads"], "attention": "mica"}, "patchtst mixes channels"),
        ({"adapters": ["channel_heads", "decorrelate"]}, "decorrelate around patchtst mixes channels"),
        ({"adapters": ["channel_heads"], "host": "seasonal_naive"}, "seasonal_naive has none that gives all 11 steps"),
        ({"adapters": ["channel_heads"], "host": "dlinear", "individual": True}, "dlinear has none"),
    ],
)  # fmt: skip
def test_adapters_refuse_what_does_not_fit_and_say_why(changes, words, unchecked):
    with pytest.raises(SettingsError) as refused:
        made(**changes)
    assert words in str(refused.value)


@pytest.mark.parametrize("alone", ["decorrelate", {"name": "decorrelate"}])
def test_one_adapter_needs_no_list(alone):
    assert str(made(adapters=alone)) == str(made(adapters=[alone]))
    assert str(made(adapters=alone)) != str(made())


def test_mica_is_what_makes_patchtst_mix():
    assert any(isinstance(part, Mica) for part in made(attention="mica", adapters=["lift"]).modules())


def test_lift_needs_forecasts_of_all_channels():
    model = made("caps_net", adapters=["lift"], targets=2)
    with pytest.raises(SettingsError, match="all 3 channels by one another, but the network forecasts 2"):
        model(torch.randn(BATCH, CHANNELS, LOOKBACK))
