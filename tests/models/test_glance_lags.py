"""Lags of glance: found where a past repeats itself, and read as a loop would read them."""

import math

import pytest
import torch
from tests.models.test_glance import small

from rearview.core.errors import SettingsError
from rearview.models.patch_hosts import _lags
from rearview.models.patch_hosts._lags import find_lags, look_back, measure_differences
from rearview.models.patch_hosts.glance import Network, Settings, standardise

LENGTH = 61


def some_past() -> tuple[torch.Tensor, torch.Tensor]:
    """Two series of three channels with missing values, 0 where they are missing."""
    random = torch.Generator().manual_seed(5)
    z = torch.randn(2, 3, LENGTH, generator=random)
    observed = torch.rand(2, 3, LENGTH, generator=random) > 0.2
    return z * observed, observed


def test_differences_are_those_of_a_loop_over_pairs() -> None:
    z, observed = some_past()
    found = measure_differences(z, observed)
    assert found[..., 0].isinf().all()
    for lag in range(1, LENGTH):
        pairs = observed[..., lag:] & observed[..., :-lag]
        enough = pairs.sum(-1) >= (_lags.LEAST_SHARE * observed.sum(-1)).clamp(min=_lags.LEAST_PAIRS)
        mean = ((z[..., lag:] - z[..., :-lag]).square() * pairs).sum(-1) / pairs.sum(-1).clamp(min=1) + _lags.TIE
        wanted = torch.where(enough, mean * (1 + _lags.DOUBT / pairs.sum(-1).clamp(min=1)), torch.inf)
        torch.testing.assert_close(found[..., lag], wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("period", [5, 12, 24])
def test_the_first_lag_is_the_season_and_not_a_multiple_of_it(period: int) -> None:
    step = torch.arange(240)
    past = torch.cos(2 * math.pi * step / period) + torch.sin(4 * math.pi * step / period)
    observed = torch.ones(1, 1, 240, dtype=torch.bool)
    observed[..., 30:50] = False
    z, _, _ = standardise(past[None, None], observed)
    assert find_lags(z, observed, 1)[0].item() == period


@pytest.mark.parametrize("seed", range(4))
def test_a_week_and_days_of_it_are_two_lags(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    step = torch.arange(24 * 7 * 6)
    weekday = torch.randn(7, generator=random)[step // 24 % 7]
    past = torch.cos(2 * math.pi * step / 24) + weekday + 0.2 * torch.randn(len(step), generator=random)
    observed = torch.ones(1, 1, len(step), dtype=torch.bool)
    z, _, _ = standardise(past[None, None], observed)
    week, day = (lag.item() for lag in find_lags(z, observed, 2))
    assert week == 168
    assert abs(day - 24 * round(day / 24)) <= 1 <= day / 20 <= 5


def test_the_season_of_a_smooth_series_is_its_lag_and_a_line_has_none() -> None:
    step = torch.arange(300.0)
    past = torch.stack([torch.cos(2 * math.pi * step / 96), step, step.square()])[None]
    observed = torch.ones_like(past, dtype=torch.bool)
    z, _, _ = standardise(past, observed)
    assert find_lags(z, observed, 1)[0].flatten().tolist() == [96, 1, 1]


@pytest.mark.parametrize("lag", [1, 7, 60])
def test_what_stood_a_lag_before_is_that_of_a_loop(lag: int) -> None:
    z, observed = some_past()
    ahead = 19
    values, seen = look_back(z, observed, torch.full((2, 3, 1), lag), ahead)
    for step in range(LENGTH + ahead):
        source = step - lag
        while source >= LENGTH:
            source -= lag
        if source < 0:
            assert not seen[..., step].any()
            assert not values[..., step].any()
        else:
            assert torch.equal(values[..., step], z[..., source] * observed[..., source])
            assert torch.equal(seen[..., step], observed[..., source])


def test_a_constant_or_empty_past_has_lags_too() -> None:
    z = torch.zeros(1, 1, 40)
    for observed in (torch.ones(1, 1, 40, dtype=torch.bool), torch.zeros(1, 1, 40, dtype=torch.bool)):
        assert all(1 <= lag.item() < 40 for lag in find_lags(z, observed, 3))


def with_lags(lookback: int = 37, steps: int = 11) -> Network:
    return small(lookback, steps, lags=2, patches=(4,))


@pytest.mark.parametrize(("factor", "shift"), [(1.0, 1e4), (1e-6, 0.0), (1e9, -1e12)])
def test_with_lags_a_forecast_has_the_scale_and_shift_of_its_past(factor: float, shift: float) -> None:
    network, past = with_lags().double(), torch.randn(2, 3, 37, dtype=torch.float64)
    with torch.no_grad():
        plain, moved = network(past), network(factor * past + shift)
    torch.testing.assert_close((moved - shift) / factor, plain, atol=1e-4, rtol=1e-4)


def test_with_lags_padding_in_front_and_missing_values_change_nothing() -> None:
    network, past = with_lags(), torch.randn(2, 3, 24)
    padded = torch.cat([torch.full((2, 3, 12), 9.0), past], -1)
    observed = (torch.arange(36) >= 12).expand(2, 3, -1)
    with torch.no_grad():
        short, long = network.forecast(past, None, 11), network.forecast(padded, observed, 11)
    torch.testing.assert_close(short, long, atol=1e-5, rtol=1e-5)


def test_lags_change_the_forecast_and_are_refused_below_zero() -> None:
    past = torch.randn(2, 3, 37)
    network = with_lags()
    with torch.no_grad():
        before = network(past)
        for grain in network.grains:
            grain.widen.weight[:, 2 * 4 :].zero_()  # type: ignore[union-attr, index, operator]
        assert not torch.equal(before, network(past))
    with pytest.raises(SettingsError, match="lags is -1"):
        Settings(lags=-1)
