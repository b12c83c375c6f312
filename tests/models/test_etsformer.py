"""ETSformer: smoothing and waves against their definitions, and a forecast of what it is made for."""

import math

import pytest
import torch
from torch.testing import assert_close

from rearview import models
from rearview.core.errors import SettingsError
from rearview.models.attention_free.etsformer import Smoothing, Waves
from rearview.testing.small_models import CHANNELS, past_for, small


@pytest.mark.parametrize("steps", [1, 2, 13, 65])
def test_smoothing_is_the_recursion(steps: int) -> None:
    torch.manual_seed(11)
    layer = Smoothing(3, 5, 0.0).double()
    values, grown = torch.randn(2, 2, steps, 3, 5, dtype=torch.float64)
    keep = torch.sigmoid(layer.rate)[:, None]
    plain, level = layer.start.expand(2, 3, 5), layer.start.expand(2, 3, 5)
    smoothed, levels = layer(values), layer(values, grown)
    for step in range(steps):
        plain = (1 - keep) * values[:, step] + keep * plain
        level = (1 - keep) * values[:, step] + keep * (level + grown[:, step])
        assert_close(smoothed[:, step], plain)
        assert_close(levels[:, step], level)


def test_the_strongest_waves_go_on_beyond_the_window() -> None:
    at = torch.arange(24 + 7, dtype=torch.float64)
    slow, fast = (amplitude * torch.cos(2 * math.pi * turns * at / 24 + 1) for turns, amplitude in ((2, 3.0), (5, 1.0)))
    z = (7 + slow + fast)[None, :24, None]
    one, two = Waves(24, 7, 1).double(), Waves(24, 7, 2).double()
    assert_close(one(z)[0, :, 0], slow, rtol=0, atol=1e-6)
    assert_close(two(z)[0, :, 0], slow + fast, rtol=0, atol=1e-6)


@pytest.mark.parametrize("lookback", [1, 2, 3])
def test_a_window_with_hardly_any_wave_has_no_season(lookback: int) -> None:
    waves = Waves(lookback, 5, 3)
    assert waves.count == (1 if lookback == 3 else 0)
    assert waves(torch.randn(2, lookback, 3)).shape == (2, lookback + 5, 3)
    assert (
        models.create("etsformer", channels=2, lookback=lookback, steps=5, width=8)(torch.ones(2, 2, lookback))
        .isfinite()
        .all()
    )


def test_a_forecast_is_level_growth_and_season() -> None:
    model = small("etsformer", depth=1)
    past = past_for(model)
    block = model.blocks[0]
    z = model.embed(past)[..., :-2].transpose(1, 2)
    _, level, growth, season = block(z, past.transpose(1, 2))
    assert_close(model(past), (level[:, -1:] + model.head(growth) + model.head(season)).transpose(1, 2))
    damped = torch.sigmoid(block.damping)
    last = block.grow(z - block.waves(z)[:, : -model.shape.steps])[:, -1].unflatten(-1, (len(damped), -1))
    assert_close(growth[:, 2], (last * (damped + damped**2 + damped**3)[:, None]).flatten(1))


def test_nothing_looks_ahead_in_growth_and_level() -> None:
    model = small("etsformer", frequencies=0)
    past = past_for(model)
    z = model.embed(past)[..., :-2].transpose(1, 2)
    later = z.clone()
    later[:, 20:] += 1
    block = model.blocks[0]
    assert_close(block.grow(later)[:, :21], block.grow(z)[:, :21])
    assert (block.grow(later)[:, 21:] - block.grow(z)[:, 21:]).abs().max() > 1e-3


def test_windows_are_disturbed_while_it_trains_and_by_the_seed_alone() -> None:
    model = small("etsformer", jitter=0.5)
    past = past_for(model)
    assert torch.equal(model(past), small("etsformer")(past))
    model.train()
    passes = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        passes.append(model(past))
    assert torch.equal(passes[0], passes[1])
    assert not torch.equal(passes[0], passes[2])


def test_impossible_settings_of_etsformer_are_refused() -> None:
    for settings, words in (
        ({"heads": 7}, "width 26 can't be shared evenly by 7 heads"),
        ({"frequencies": -1}, "frequencies is -1"),
        ({"jitter": -0.1}, r"jitter is -0\.1"),
        ({"depth": 0}, "depth is 0"),
    ):
        with pytest.raises(SettingsError, match=words):
            small("etsformer", **settings)
    assert small("etsformer", channels=CHANNELS).axes() == []
