"""Windows of trend, season and shocks are equation 6, part by part."""

import pytest
import torch

from rearview.core.errors import SettingsError
from rearview.data.synthetic.components import PARTS, PERIOD, RHO, Recipe, draw_windows

LOOKBACK, STEPS, COUNT = 37, 13, 29


def made(*parts: str, noise: float = 0.0) -> torch.Tensor:
    recipe = Recipe(LOOKBACK, STEPS, parts or PARTS, noise)
    return draw_windows(COUNT, recipe, generator=torch.Generator().manual_seed(11)).double()[:, 0]


def test_the_trend_component_is_a_line():
    assert made("trend").diff(n=2).abs().max() < 1e-5


def test_the_season_component_repeats():
    season = made("season")
    assert torch.allclose(season[:, int(PERIOD) :], season[:, : -int(PERIOD)], atol=1e-4)


def test_shocks_fade_and_none_falls_into_the_future():
    ahead = made("shocks")[:, LOOKBACK - 1 :]
    assert torch.allclose(ahead[:, 1:], RHO * ahead[:, :-1], atol=1e-5)
    impulses = made("shocks")[:, 1:LOOKBACK] - RHO * made("shocks")[:, : LOOKBACK - 1]
    assert 0.02 < (impulses.abs() > 1e-3).double().mean() < 0.2


def test_components_add_up_to_their_sum():
    total = sum(made(part) for part in PARTS)
    assert torch.allclose(made(), total, atol=1e-5)


def test_noise_is_added_to_the_components():
    assert (made(noise=0.5) - made()).std().item() == pytest.approx(0.5, rel=0.1)


def test_a_recipe_without_known_parts_or_steps_is_refused():
    with pytest.raises(SettingsError, match="at least one of trend, season, shocks"):
        Recipe(8, 2, ("trnd",))
    with pytest.raises(SettingsError, match="both are at least 1"):
        Recipe(8, 0)
