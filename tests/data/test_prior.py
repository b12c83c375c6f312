"""The synthetic prior: seeded, finite, and each ingredient what its name says."""

import math

import pytest
import torch

from rearview.core.errors import SettingsError
from rearview.data.synthetic import prior
from rearview.data.synthetic.prior import events, noise, processes, records, seasons, trends
from rearview.data.synthetic.prior.draws import filter_by

COUNT, LENGTH = 97, 211


def draw(count: int = COUNT, length: int = LENGTH, seed: int = 0) -> prior.Draw:
    return prior.Draw(count, length, torch.Generator().manual_seed(seed))


def test_a_seed_gives_the_same_series_and_another_seed_others() -> None:
    first, again, other = (prior.draw(COUNT, LENGTH, torch.Generator().manual_seed(seed)) for seed in (3, 3, 4))
    assert torch.equal(first.values, again.values)
    assert torch.equal(first.observed, again.observed)
    assert not torch.equal(first.values, other.values)


@pytest.mark.parametrize("length", [8, 31, 700])
def test_series_are_finite_and_nearly_all_of_them_vary(length: int) -> None:
    sample = prior.draw(500, length, torch.Generator().manual_seed(1))
    assert sample.values.shape == sample.observed.shape == (500, length)
    assert sample.values.isfinite().all()
    assert (sample.values.std(1) > 1e-6).float().mean() > 0.9
    assert 0.9 < sample.observed.float().mean() < 1


@pytest.mark.parametrize(("count", "length"), [(0, 100), (5, 7)])
def test_a_sample_without_series_or_steps_is_refused(count: int, length: int) -> None:
    with pytest.raises(SettingsError, match=f"{count} series of {length} steps"):
        prior.draw(count, length, torch.Generator())


def test_a_season_repeats_after_its_period() -> None:
    periods = torch.full((COUNT, 1), 12.0)
    season = seasons.make_season(draw(), periods)
    centred = season - season.mean(1, keepdim=True)
    repeated = (centred[:, 12:] * centred[:, :-12]).mean(1)
    shifted = (centred[:, 5:] * centred[:, :-5]).mean(1)
    assert repeated.median() > 0.8
    assert repeated.median() > shifted.median() + 0.5
    assert not seasons.make_season(draw(), torch.zeros(COUNT, 1)).any()


def test_a_week_has_seven_levels() -> None:
    week = seasons.make_week(draw(), torch.full((COUNT, 1), 3.0))
    assert all(len(row.unique()) <= 7 for row in week)
    assert torch.equal(week[:, :-21], week[:, 21:])


def test_calendars_come_with_their_nested_periods() -> None:
    periods = seasons.draw_periods(draw(4000))
    hourly = periods.short[:, 0] == 24
    assert 0.1 < hourly.float().mean() < 0.3
    assert (periods.middle[hourly] == 168).float().mean() > 0.95


@pytest.mark.parametrize("make", [trends.break_line, trends.grow, trends.saturate])
def test_trends_are_smoother_than_noise(make) -> None:
    trend = make(draw())
    assert (trend.diff(dim=1).std(1) < 0.5 * trend.std(1) + 1e-6).float().mean() > 0.95


def test_a_random_walk_spreads_with_the_root_of_time() -> None:
    steps = draw(4000, 64).noise()
    walk = filter_by(torch.ones(4000, 64), steps)
    torch.testing.assert_close(walk, steps.cumsum(1), atol=1e-3, rtol=1e-3)
    assert walk[:, 63].std() / walk[:, 15].std() == pytest.approx(2, rel=0.1)


def test_a_seasonal_walk_remembers_its_own_season() -> None:
    walk = processes.make_seasonal_walk(draw(), torch.full((COUNT, 1), 7.0))
    at = lambda lag: (walk[:, lag:] * walk[:, : LENGTH - lag]).mean(1).median()  # noqa: E731
    assert at(7) > at(3) + 0.3


def test_products_and_sums_of_processes_are_standardised() -> None:
    for make in (processes.make_gaussian_process, processes.make_cycle, processes.make_components):
        path = make(draw())
        assert path.mean(1).abs().max() < 1e-3
        assert path.std(1).median() == pytest.approx(1, abs=1e-2)


def test_heavy_tails_are_heavier_than_normal_ones() -> None:
    shocks = noise.make_innovations(draw(3000))
    kurtosis = (shocks / shocks.std(1, keepdim=True)).pow(4).mean(1)
    assert (kurtosis > 4.5).float().mean() > 0.15
    assert (kurtosis < 4).float().mean() > 0.4


def test_shocks_fade_or_stay() -> None:
    shocks = events.make_shocks(draw(2000))
    assert (shocks[:, 0].abs() < 1e-6).float().mean() > 0.9
    assert (shocks[:, -1].abs() > 0.1).float().mean() > 0.2


def test_a_regime_takes_over_at_the_level_reached() -> None:
    before, after = torch.zeros(COUNT, LENGTH), torch.ones(COUNT, LENGTH).cumsum(1)
    joined = events.change_regime(draw(), before, after)
    assert (joined[:, -1] > 0).all()
    assert not joined[:, : LENGTH // 10].any()
    assert joined.diff(dim=1).abs().max() == 1


def test_days_off_have_a_course_of_their_own() -> None:
    week = seasons.make_work_week(draw(500, 24 * 28), torch.full((500, 1), 24.0)).view(500, 28, 24)
    weekly = (week[:, 7:] - week[:, :-7]).abs().mean((1, 2))
    daily = (week[:, 1:] - week[:, :-1]).abs().mean((1, 2))
    assert weekly.median() < 0.5 * daily.median()


def test_what_a_season_opens_is_zero_for_a_part_of_each_period() -> None:
    periods = torch.full((500, 1), 24.0)
    periods[:50] = 0
    weather = draw(500, 24 * 9).noise()
    power = seasons.open_by_season(draw(500, 24 * 9), periods, weather)
    assert torch.equal(power[:50], weather[:50])
    closed = (power[50:] == 0).view(450, 9, 24)
    assert torch.equal(closed[:, 1:], closed[:, :-1])
    assert (power[50:] >= 0).all()
    assert ((closed.float().mean((1, 2)) > 0.1) & (closed.float().mean((1, 2)) < 0.9)).float().mean() > 0.9


def test_pulses_rise_at_once_and_fade() -> None:
    steps = processes.make_pulses(draw(500)).diff(dim=1)
    assert (steps.amax(1) > -2 * steps.amin(1)).float().mean() > 0.8


@pytest.mark.parametrize("count", [1, 7, 255, 256, 1000])
def test_shares_of_the_series_do_not_overlap_and_are_met_on_average(count: int) -> None:
    rounds = [draw(count, seed=seed).split(0.5, 0.1) for seed in range(400)]
    for half, tenth in rounds:
        assert len(torch.cat([half, tenth]).unique()) == len(half) + len(tenth) <= count
    assert sum(len(half) for half, _ in rounds) / 400 == pytest.approx(0.5 * count, rel=0.15)
    assert sum(len(tenth) for _, tenth in rounds) / 400 == pytest.approx(0.1 * count, rel=0.3)


def test_counts_are_whole_numbers_with_the_mean_of_their_rate() -> None:
    counts = records.count_events(draw(500, 400), torch.full((500, 400), 3.0))
    assert torch.equal(counts, counts.round())
    assert counts.mean() == pytest.approx(3, rel=0.05)


def test_demand_is_mostly_zero_and_never_negative() -> None:
    demand = records.demand(draw(500, 400), draw(500, 400).noise())
    assert (demand >= 0).all()
    assert 0.5 < (demand == 0).float().mean() < 0.95


def test_steps_are_averaged_by_neighbours() -> None:
    fine = torch.arange(12.0).view(2, 6)
    assert records.average_steps(fine, 3).tolist() == [[1, 4], [7, 10]]


def test_some_series_have_gaps_and_most_have_none() -> None:
    observed = records.lose_values(draw(3000))
    assert 0.03 < (~observed).any(1).float().mean() < 0.3


def test_coupled_channels_follow_their_drivers() -> None:
    panels = prior.draw_coupled(40, 5, 300, torch.Generator().manual_seed(2))
    assert panels.values.shape == (40, 5, 300)
    assert panels.values.isfinite().all()
    lone = prior.draw(200, 300, torch.Generator().manual_seed(2)).values.view(40, 5, 300)

    def likeness(values: torch.Tensor) -> float:
        """The strongest correlation of two channels at any lag, on average over pairs."""
        z = (values - values.mean(-1, keepdim=True)) / (values.std(-1, keepdim=True) + 1e-6)
        spectrum = torch.fft.rfft(z, 600)
        across = torch.fft.irfft(spectrum[:, :, None] * spectrum[:, None].conj(), 600) / 300
        strongest = across.abs().amax(-1)
        return strongest.triu(1).sum().item() / (40 * 10)

    assert likeness(panels.values) > likeness(lone) + 0.05


def test_log_uniform_numbers_are_even_on_the_logarithmic_scale() -> None:
    drawn = draw(20_000).log_uniform(1, 100).log()
    assert drawn.mean() == pytest.approx(math.log(10), abs=0.05)
    assert 0 <= drawn.min() < drawn.max() <= math.log(100) + 1e-5
