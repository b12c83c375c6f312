"""CAPS's network: how it starts, how many parameters it has, what may move what, and what it is asked for."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import models
from rearview.core.errors import SettingsError
from rearview.models.step_hosts.caps_net import nearest
from rearview.testing.small_models import BATCH, CHANNELS, LOOKBACK, MARKS, STEPS, marks_for, past_for, small

MUST = ["softmax", "rbca", "caps", "toa", "prime", "linear_rope"]


def count(**changes: Any) -> int:
    model = models.create("caps_net", **{"channels": 7, "lookback": 96, "steps": 96, **changes})
    return sum(parameter.numel() for parameter in model.parameters())


def test_widths_follow_the_authors_rule() -> None:
    """Channels of the papers' data sets with 4 calendar features: ETT, Weather, Solar, Electricity, PEMS08, Traffic."""
    widths = {7: 16, 21: 16, 137: 64, 321: 64, 170: 64, 862: 128}
    assert {channels: nearest(channels + 4) for channels in widths} == widths
    assert nearest(1) == 8


def test_parameters_are_those_that_the_sizes_give() -> None:
    width, part, layers = 32, 16, 3
    attention = 6 * width * width + 4 * width
    block = attention + 8 * width * width + 2 * width
    tables = (7 + 96 + 96) * width
    expected = layers * block + 96 * 96 + (7 + 4) * part + 7 * part + tables
    assert count(marks=4, future=96) == expected == 59_456


def test_growth_with_the_horizon_is_table_4s_and_a_table_of_positions() -> None:
    """CAPS's table 4 prints 527, 537, 550 and 587 thousand: lookback x steps more each, and no positions.

    The rest of its 527 thousand fits neither the released widths (59 thousand) nor the text's 64 a part.
    """
    printed = {96: 527, 192: 537, 336: 550, 720: 587}
    for steps, thousands in printed.items():
        grown = count(steps=steps, marks=4, future=steps) - count(marks=4, future=96)
        positions = 32 * (steps - 96) if steps > 96 else 0
        assert grown - positions == 96 * (steps - 96)
        assert (grown - positions) / 1000 == pytest.approx(thousands - 527, abs=1)
    wide = count(marks=4, future=96, width=128)
    assert wide - 192 * 128 == pytest.approx(700_000, rel=0.01)


@pytest.mark.parametrize("attention", ["caps", "softmax", "prime"])
def test_maps_start_as_the_paper_says_whatever_the_attention(attention: str) -> None:
    torch.manual_seed(0)
    model = models.create("caps_net", channels=7, lookback=96, steps=24, width=256, attention=attention)
    narrow = 0.02 / math.sqrt(6)
    for block in model.stack.blocks:
        for weight, spread in (
            (block.attend.qkv.weight, 0.02),
            (block.attend.out.weight, narrow),
            (block.feed_forward[0].weight, 0.02),
            (block.feed_forward[3].weight, narrow),
        ):
            assert weight.std().item() == pytest.approx(spread, rel=0.05)
    assert model.dual.context.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert model.dual.values.std().item() == pytest.approx(0.02, rel=0.1)
    assert not model.dual.positions.any()
    assert not model.dual.channels.any()
    assert not [name for name, _ in model.named_parameters() if name.endswith("bias") and "primer" not in name]


@pytest.mark.parametrize("attention", MUST)
def test_a_later_step_never_moves_an_earlier_token(attention: str) -> None:
    model = small("caps_net", attention=attention)
    tokens = torch.randn(BATCH, CHANNELS, LOOKBACK + STEPS, 26, dtype=torch.float64)
    changed = tokens.clone()
    changed[:, :, LOOKBACK:] += 1
    moved = (model.stack(changed) - model.stack(tokens)).abs().amax((0, 1, 3)) > 1e-9
    assert not moved[:LOOKBACK].any()
    assert moved[LOOKBACK:].all()
    assert len(model.weights(past_for(model))) == 2


def test_without_a_mechanism_attention_is_caps() -> None:
    past = past_for(small("caps_net"))
    assert torch.equal(small("caps_net")(past), small("caps_net", attention="caps")(past))
    assert set(small("caps_net").weights(past)[0]) == {"riemann", "prefix", "clock"}


def test_released_numerics_need_a_network_that_may_look_ahead() -> None:
    released = {"name": "caps", "numerics": "released"}
    with pytest.raises(SettingsError, match="CAPS's network's tokens may not look ahead"):
        small("caps_net", attention=released)
    model = small("caps_net", attention=released, causal=False)
    assert model(past_for(model)).isfinite().all()


def test_a_window_is_the_level_and_what_lies_around_it() -> None:
    """Last-value normalisation: a shift of a channel shifts its forecast and nothing else."""
    model = small("caps_net")
    past = past_for(model)
    shift = torch.tensor([3.0, -70.0, 1000.0], dtype=past.dtype)[:, None]
    assert_close(model(past + shift), model(past) + shift, rtol=1e-9, atol=1e-9)


def test_chance_drops_channels_in_training_only() -> None:
    model = small("caps_net", channel_dropout=True)
    past = past_for(model)
    assert torch.equal(model(past), small("caps_net")(past))
    torch.manual_seed(0)
    assert not torch.equal(model.train()(past), model(past))


def test_channels_that_are_no_target_give_context_only() -> None:
    model = small("caps_net", targets=2, marks=MARKS, future=STEPS)
    past, before, after = past_for(model), marks_for(model, LOOKBACK), marks_for(model, STEPS)
    out = model(past, before, after)
    assert out.shape == (BATCH, 2, STEPS)
    changed = past.clone()
    changed[:, 0, :-1] += 50
    assert ((model(changed, before, after) - out).abs().amax((0, 2)) > 1e-9).all()
    shifted = past.clone()
    shifted[:, 0] += 50
    assert_close(model(shifted, before, after), out)


def test_caps_net_classifies_and_reconstructs_no_window() -> None:
    model = small("caps_net", asks="classes", classes=5, steps=None)
    assert model.dual.tokens == LOOKBACK
    logits = model(past_for(model))
    assert logits.shape == (BATCH, 5)
    logits.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    with pytest.raises(SettingsError, match="caps_net forecasts and can't give a window back"):
        small("caps_net", asks="window", steps=None)


def test_a_token_needs_room_for_both_parts() -> None:
    for width, value in ((26, 26), (1, None), (26, 30)):
        with pytest.raises(SettingsError, match="a token needs room for both its parts"):
            small("caps_net", width=width, value_width=value, heads=1)
    model = small("caps_net", value_width=3)
    assert (model.dual.context.weight.shape[0], model.dual.values.shape[1]) == (23, 3)


def test_mica_is_refused_because_it_looks_ahead() -> None:
    with pytest.raises(SettingsError, match=r"mica.*in CAPS's network .*, or give the network causal=False\.$"):
        small("caps_net", attention="mica")
    model = small("caps_net", attention="mica", causal=False)
    assert model(past_for(model)).isfinite().all()


def loss(model: models.Model, past: Tensor, future: Tensor) -> Tensor:
    return (model(past) - future).square().mean()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("attention", MUST)
def test_caps_net_learns_with_every_attention(attention: str) -> None:
    torch.manual_seed(0)
    settings = {"width": 16, "heads": 2, "depth": 1, "channel_dropout": False}
    model = models.create("caps_net", channels=2, lookback=12, steps=4, attention=attention, **settings)
    past = torch.sin(torch.arange(16) / 2 + torch.rand(64, 2, 1) * 6)
    past, future = past[..., :12], past[..., 12:]
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-2)
    before = loss(model, past, future).item()
    for _ in range(30):
        optimiser.zero_grad()
        torch.autograd.backward(loss(model, past, future))
        optimiser.step()
    assert loss(model, past, future).item() < 0.5 * before
