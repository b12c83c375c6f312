"""Glance: equivariance, quantiles in order, masks, grains, roll-outs."""

import pytest
import torch

from rearview import models
from rearview.core.errors import SettingsError
from rearview.models.contract import Shape
from rearview.models.patch_hosts._paths import pool_quantiles
from rearview.models.patch_hosts.glance import Grain, Network, Settings, find_limits, find_smooth
from rearview.pretrained import training

SMALL = {"width": 16, "heads": 2, "depth": 2, "feed_forward": 24, "patches": (16,), "context": (12,), "ahead": (5,)}


def small(lookback: int = 37, steps: int = 11, **settings: object) -> Network:
    torch.manual_seed(0)
    if "patches" in settings:
        grains = len(settings["patches"])  # type: ignore[arg-type]
        settings = {"context": (12,) * grains, "ahead": (5,) * grains, **settings}
    network = models.create("glance", channels=3, lookback=lookback, steps=steps, **{**SMALL, **settings})  # type: ignore[arg-type]
    assert isinstance(network, Network)
    return network.eval()


@pytest.mark.parametrize(("factor", "shift"), [(1.0, 1e4), (1e-6, 0.0), (1e9, -1e12), (3e-3, 7.0)])
def test_scale_and_shift_of_the_past_are_those_of_the_forecast(factor: float, shift: float) -> None:
    network, past = small().double(), torch.randn(2, 3, 37, dtype=torch.float64)
    with torch.no_grad():
        plain, moved = network(past), network(factor * past + shift)
    torch.testing.assert_close((moved - shift) / factor, plain, atol=1e-4, rtol=1e-4)


def test_quantiles_never_cross_within_and_beyond_one_pass() -> None:
    network = small(patches=(2, 4))
    with torch.no_grad():
        quantiles = network.forecast(torch.randn(2, 3, 37), None, 53)
    assert quantiles.shape == (2, 3, 53, 13)
    assert (quantiles.diff(dim=-1) >= 0).all()


class Walk(Network):
    """A random walk: the last value, and a spread that grows with the root of the steps."""

    def look(self, past: torch.Tensor, observed: torch.Tensor, steps: int, grain: Grain) -> torch.Tensor:
        z = torch.distributions.Normal(0.0, 1.0).icdf(torch.tensor(self.settings.quantiles))
        spread = torch.arange(1, steps + 1).sqrt()[:, None] * z
        return past[..., -1:, None] + spread


def test_a_roll_out_of_a_random_walk_widens_as_the_walk_does() -> None:
    network = Walk(Shape(channels=1, lookback=37, steps=45), Settings(**{**SMALL, "patches": (4,)}))  # type: ignore[arg-type]
    quantiles = network.forecast(torch.randn(2, 1, 37), None, 100)
    width = quantiles[..., 10] - quantiles[..., 2]
    wanted = 2 * 1.2816 * torch.arange(1, 101).sqrt()
    torch.testing.assert_close(width / wanted, torch.ones_like(width), atol=0.06, rtol=0)


def test_pooled_quantiles_of_equal_paths_are_those_of_each() -> None:
    levels = (0.1, 0.3, 0.5, 0.7, 0.9)
    own = torch.tensor([-3.0, -1.0, 0.0, 2.0, 7.0])
    torch.testing.assert_close(pool_quantiles(own.expand(4, 5, 5), levels), own.expand(4, 5))


def test_channels_stay_apart_unless_the_attention_mixes_them() -> None:
    past = torch.randn(2, 3, 37)
    other = past.clone()
    other[:, 0] = torch.randn(2, 37)
    with torch.no_grad():
        alone, mixed = small(), small(attention={"name": "mica"})
        assert torch.equal(alone(past)[:, 1:], alone(other)[:, 1:])
        assert not torch.equal(mixed(past)[:, 1:], mixed(other)[:, 1:])


def test_values_before_the_series_began_change_nothing() -> None:
    network, past = small(), torch.randn(2, 3, 37)
    mask = torch.arange(37) >= 12
    other = past.clone()
    other[..., :12] = 1e3 * torch.randn(2, 3, 12)
    with torch.no_grad():
        assert torch.equal(network(past, mask=mask.expand(2, -1)), network(other, mask=mask.expand(2, -1)))


def test_padding_in_front_changes_nothing() -> None:
    network, past = small(patches=(4,)), torch.randn(2, 3, 24)
    padded = torch.cat([torch.zeros(2, 3, 12), past], -1)
    observed = (torch.arange(36) >= 12).expand(2, 3, -1)
    with torch.no_grad():
        short, long = network.forecast(past, None, 11), network.forecast(padded, observed, 11)
    torch.testing.assert_close(short, long, atol=1e-5, rtol=1e-5)


def test_missing_values_inside_the_past_are_not_read() -> None:
    network, past = small(), torch.randn(2, 3, 37)
    observed = torch.ones(2, 3, 37, dtype=torch.bool)
    observed[:, 1, 20:24] = False
    other = past.clone()
    other[:, 1, 20:24] = torch.nan
    with torch.no_grad():
        first, second = network.forecast(past, observed, 11), network.forecast(other, observed, 11)
    assert torch.equal(first, second)
    assert first.isfinite().all()


def test_a_constant_series_is_forecast_as_it_is() -> None:
    network = small()
    with torch.no_grad():
        quantiles = network.forecast(torch.full((1, 3, 37), 5e6), None, 11)
    torch.testing.assert_close(quantiles, torch.full_like(quantiles, 5e6))


def test_short_series_are_read_at_the_finest_grain() -> None:
    network = small(patches=(2, 4, 8))
    assert network.choose_grain(24, 10).patch == 2
    assert network.choose_grain(25, 10).patch == 4
    assert network.choose_grain(24, 11).patch == 4
    assert network.choose_grain(500, 500).patch == 8


def test_a_long_horizon_of_a_short_past_begins_at_the_finer_grain() -> None:
    network, past = small(patches=(2, 8)), torch.randn(2, 3, 20)
    fine, coarse = network._grains
    with torch.no_grad():
        both = network.forecast(past, None, 31)
        near = network.look(past, None, 10, fine).sort(-1).values
        far = network.look(past, None, 31, coarse).sort(-1).values
    torch.testing.assert_close(both[:, :, :5], near[:, :, :5])
    torch.testing.assert_close(both[:, :, 10:], far[:, :, 10:])
    torch.testing.assert_close(both[:, :, 7], (near[:, :, 7] + far[:, :, 7]) / 2)
    assert (both.diff(dim=-1) >= 0).all()
    assert network.find_finer(20, 10) is None
    assert network.find_finer(25, 31) is None


def smooth_past(length: int) -> torch.Tensor:
    """A slow wave, the same with rare leaps alone, and noise."""
    wave = torch.sin(torch.linspace(0, 6, length)) * 100
    leaps = (wave / 50).round() * 50
    noise = torch.randn(length, generator=torch.Generator().manual_seed(3))
    return torch.stack([wave, leaps, noise])


@pytest.mark.parametrize("steps", [11, 40])
def test_a_long_smooth_series_begins_at_the_finest_grain_of_its_newest_part(steps: int) -> None:
    network = small(lookback=600, steps=steps, patches=(2, 64))
    past = smooth_past(600)[None]
    fine, coarse = network.grains
    assert isinstance(fine, Grain)
    assert isinstance(coarse, Grain)
    with torch.no_grad():
        found = network.forecast(past, None, steps)
        near = network.look(past[..., -fine.room :], None, min(steps, fine.reach), fine).sort(-1).values
        far = network.look(past, None, steps, coarse).sort(-1).values
    first = fine.reach // 2
    torch.testing.assert_close(found[:, 0, :first], near[:, 0, :first])
    torch.testing.assert_close(found[:, 0, fine.reach :], far[:, 0, fine.reach :])
    torch.testing.assert_close(found[:, 1:], far[:, 1:])


def test_a_smooth_series_is_forecast_as_by_itself() -> None:
    network = small(lookback=600, patches=(2, 64))
    past = torch.stack([smooth_past(600), smooth_past(600).flip(0)])
    observed = torch.ones_like(past, dtype=torch.bool)
    observed[0, 0, 500:510] = observed[1, :, :40] = False
    with torch.no_grad():
        together = network.forecast(past, observed, 11)
        apart = [network.forecast(past[i : i + 1], observed[i : i + 1], 11) for i in range(2)]
    torch.testing.assert_close(together, torch.cat(apart))
    assert find_smooth(past, observed, 24).tolist() == [[True, False, False], [False, False, True]]


def resting(*rises: float) -> torch.Tensor:
    """-2 with single steps above it."""
    return torch.tensor([step for rise in rises for step in (-2.0, -2.0, rise)])


def test_a_floor_is_a_lowest_value_that_a_series_comes_back_to() -> None:
    often = torch.cat([resting(3, 1, 4, 1, 5), torch.tensor([-2.0])])
    plateau = torch.cat([torch.full((8,), -2.0), torch.arange(8.0)])
    rare = torch.cat([resting(3, 1, 4), torch.tensor([-2.0]), torch.arange(400.0)])
    distinct = torch.arange(16.0).sin()
    found = [find_limits(one[None, None], None).floor.item() for one in (often, plateau, rare, distinct)]
    assert found == [-2.0, -torch.inf, -torch.inf, -torch.inf]
    observed = torch.ones(1, 1, 16, dtype=torch.bool)
    lower = often.clone()
    lower[5], observed[..., 5] = -9.0, False
    assert find_limits(lower[None, None], observed).floor.item() == -2.0
    assert find_limits(lower[None, None], None).floor.item() == -torch.inf
    assert find_limits(often[None, None], torch.zeros_like(observed)).floor.item() == -torch.inf


def test_a_ceiling_is_a_highest_value_that_a_series_has_come_to_from_early_on() -> None:
    often = torch.cat([-resting(3, 1, 4, 1, 5), torch.tensor([2.0])])
    late = torch.cat([torch.arange(-17.0, 0.0), often])
    staircase = torch.tensor([step for top in range(7) for step in (top, top - 1.0, top, top - 1.0, top)])
    found = [find_limits(one[None, None], None) for one in (often, late, staircase, torch.arange(16.0).sin())]
    assert [one.ceiling.item() for one in found] == [2.0, torch.inf, torch.inf, torch.inf]
    assert [one.floor.item() for one in found] == [-torch.inf] * 4
    late_gap = torch.cat([torch.zeros(1, 1, 17), torch.ones(1, 1, 16)], -1).bool()  # half of what was observed
    assert find_limits(late[None, None], late_gap).ceiling.item() == 2.0
    counts = torch.tensor([0.0, 2, 1, 1, 0, 2, 1, 1, 0, 1, 2, 1])  # 2 half as often as 1: 3 may be half as often as 2
    assert find_limits(counts[None, None], None).ceiling.item() == torch.inf
    assert find_limits(torch.cat([counts, counts])[None, None], None).ceiling.item() == 2.0
    both = find_limits(torch.tensor([0.0, 1, 0, 1, 1, 0, 1, 0, 0, 1])[None, None], None)
    assert (both.floor.item(), both.ceiling.item()) == (0.0, 1.0)


@pytest.mark.parametrize("steps", [11, 130])
def test_no_quantile_lies_above_a_ceiling(steps: int) -> None:
    network = small(patches=(2, 4))
    past = -resting(3, 1, 4, 1, 5, 9, 2, 6).expand(1, 3, -1).clone()
    past[:, 2] += 0.1 * torch.randn(24)
    with torch.no_grad():
        quantiles = network.forecast(past, None, steps)
        free = network.train().forecast(past, None, min(steps, 11))
    assert quantiles[:, :2].max() == 2.0
    assert quantiles[:, 2].max() > past[:, 2].max()
    assert free[:, :2].max() > 2.0
    assert (quantiles.diff(dim=-1) >= 0).all()


@pytest.mark.parametrize("steps", [11, 130])
def test_no_quantile_lies_below_a_floor(steps: int) -> None:
    network = small(patches=(2, 4))
    past = resting(3, 1, 4, 1, 5, 9, 2, 6).expand(1, 3, -1).clone()
    past[:, 2] += 0.1 * torch.randn(24)
    with torch.no_grad():
        quantiles = network.forecast(past, None, steps)
        moved = network.forecast(5 * past + 7, None, steps)
        free = network.train().forecast(past, None, min(steps, 11))
    assert quantiles[:, :2].min() == -2.0
    assert quantiles[:, 2].min() < past[:, 2].min()
    assert free[:, :2].min() < -2.0
    assert (quantiles.diff(dim=-1) >= 0).all()
    torch.testing.assert_close((moved - 7) / 5, quantiles, atol=1e-4, rtol=1e-4)


def test_a_past_longer_than_the_context_is_cut_to_its_newest_steps() -> None:
    network, past = small(patches=(2,)), torch.randn(2, 3, 60)
    with torch.no_grad():
        torch.testing.assert_close(network.forecast(past, None, 7), network.forecast(past[..., -24:], None, 7))


def test_quantiles_can_be_asked_for_as_steps() -> None:
    network = small(steps=11 * 13, answer="quantiles")
    past = torch.randn(2, 3, 37)
    with torch.no_grad():
        flat = network(past)
        torch.testing.assert_close(flat.view(2, 3, 11, 13), network.forecast(past, None, 11))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"patches": ()}, "patches is"),
        ({"patches": (8, 4)}, "the finest first"),
        ({"context": (0, 3)}, "context is .0, 3."),
        ({"ahead": (3, 4)}, "for each of .16,."),
        ({"quantiles": (0.1, 0.9)}, "0.5 among them"),
        ({"quantiles": (0.5, 0.1)}, "rising numbers"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        Settings(**given)  # type: ignore[arg-type]


def test_what_it_cannot_answer_is_refused() -> None:
    with pytest.raises(SettingsError, match="glance forecasts"):
        models.create("glance", channels=3, lookback=37, asks="window")
    with pytest.raises(SettingsError, match="multiple of 13"):
        small(steps=11, answer="quantiles")


TOGETHER = {"name": "mica", "gate": "added", "exclude_self": True}


def opened(network: Network) -> Network:
    """The same network after its gates have left their start."""
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if ".attend.gate." in name:
                weight.add_(0.3 * torch.randn(weight.shape))
    return network


def test_a_closed_gate_or_one_channel_is_the_network_whose_channels_stay_apart() -> None:
    past = torch.randn(2, 3, 37)
    alone, together = small(), small(attention=TOGETHER)
    training.adopt_weights(together, alone.state_dict())
    with torch.no_grad():
        assert torch.equal(together(past), alone(past))
        opened(together)
        assert not torch.equal(together(past), alone(past))
        one = past[:, :1]
        assert torch.equal(together.forecast(one, None, 11), alone.forecast(one, None, 11))


def test_permuted_channels_are_forecast_alike() -> None:
    network, past, order = opened(small(attention=TOGETHER)), torch.randn(2, 3, 37), torch.tensor([2, 0, 1])
    with torch.no_grad():
        torch.testing.assert_close(network(past[:, order]), network(past)[:, order], atol=1e-5, rtol=1e-5)


def test_a_channel_without_a_value_is_not_there() -> None:
    network, past = opened(small(attention=TOGETHER)), torch.randn(2, 3, 37)
    observed = torch.ones(2, 3, 37, dtype=torch.bool)
    observed[:, 1] = False
    with torch.no_grad():
        padded = network.forecast(past, observed, 11)[:, [0, 2]]
        torch.testing.assert_close(padded, network.forecast(past[:, [0, 2]], None, 11), atol=1e-5, rtol=1e-5)


def test_weights_of_another_network_are_no_start() -> None:
    with pytest.raises(SettingsError, match="another network"):
        training.adopt_weights(small(attention=TOGETHER), small(depth=3).state_dict())
    with pytest.raises(SettingsError, match="another network"):
        training.adopt_weights(small(), small(attention=TOGETHER).state_dict())
