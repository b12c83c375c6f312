"""Paths of a roll-out: how steps hang together is read from the past, where they end is spread evenly."""

from statistics import NormalDist

import pytest
import torch

from rearview.models.contract import Shape
from rearview.models.patch_hosts import _paths
from rearview.models.patch_hosts.glance import QUANTILES, Network, Settings

SCORES = torch.tensor([NormalDist().inv_cdf(level) for level in QUANTILES], dtype=torch.float64)
STEPS = 769


def draw_noise(length: int = 2048) -> torch.Tensor:
    return torch.randn(1, 1, length, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def spread(deviation: torch.Tensor) -> torch.Tensor:
    """Normal quantiles around 0, [1, 1, step, quantile]."""
    return (deviation[:, None] * SCORES)[None, None]


def share(past: torch.Tensor, quantiles: torch.Tensor, observed: torch.Tensor | None = None) -> torch.Tensor:
    variances = _paths.measure_variances(past, observed, quantiles[..., QUANTILES.index(0.5)])
    return _paths.share_variance(variances, quantiles, QUANTILES)


def test_noise_forgets_at_once_and_a_walk_slowly() -> None:
    noise, steps = draw_noise(), torch.arange(1.0, STEPS + 1, dtype=torch.float64)
    of_noise = share(noise, spread(torch.ones(STEPS, dtype=torch.float64)))
    of_walk = share(noise.cumsum(-1), spread(steps.sqrt()))
    for shares in (of_noise, of_walk):
        torch.testing.assert_close(shares.sum(2), torch.ones_like(shares.sum(2)))
        assert (shares >= 0).all()
    assert of_noise[0, 0, 0].min() > 0.85
    assert of_walk[0, 0, :3, -1].sum() < 0.1


def test_a_season_that_the_median_knows_is_no_variance() -> None:
    season = 3 * torch.sin(torch.arange(2048 + STEPS, dtype=torch.float64) * torch.pi / 16)
    past, known, unknown = draw_noise() + season[:2048], season[None, None, 2048:], torch.zeros(1, 1, STEPS)
    assert _paths.measure_variances(past, None, known).sum().item() == pytest.approx(1, abs=0.2)
    assert _paths.measure_variances(past, None, unknown).sum() > 3


def test_values_that_were_not_observed_say_nothing() -> None:
    noise, quantiles = draw_noise(97), spread(torch.ones(STEPS, dtype=torch.float64))
    observed = torch.rand(1, 1, 97, generator=torch.Generator().manual_seed(6)) > 0.3
    shares = [share(torch.where(observed, noise, other), quantiles, observed) for other in (0.0, torch.nan)]
    assert torch.equal(*shares)
    nothing = share(noise, quantiles, torch.zeros_like(observed))
    assert (nothing[0, 0, -1] == 1).all()


@pytest.mark.parametrize("walks", [False, True])
def test_a_path_is_as_rough_as_the_past_and_ends_at_its_score(walks: bool) -> None:
    past = draw_noise().cumsum(-1) if walks else draw_noise()
    steps = torch.arange(1.0, STEPS + 1, dtype=torch.float64)
    quantiles = spread(steps.sqrt() if walks else torch.ones_like(steps))
    shares = share(past, quantiles)
    scores = _paths.spread_ends(quantiles[:, :, -1:].expand(-1, -1, _paths.COUNT, -1), QUANTILES, 0)
    paths = torch.cat(
        [_paths.draw_path(quantiles, shares, QUANTILES, 0, path, scores[..., path]) for path in range(_paths.COUNT)]
    )
    ends = _paths.spread_scores(0) * (STEPS**0.5 if walks else 1.0)
    torch.testing.assert_close(paths[:, 0, -1], ends)
    rough = [float(_paths.measure_change(one, None, 1).mean()) for one in (paths, past)]
    assert rough[0] == pytest.approx(rough[1], rel=0.15)


def test_last_scores_add_up_over_passes_as_independent_ones_do() -> None:
    total = torch.zeros(_paths.COUNT, dtype=torch.float64)
    for index in range(9):
        scores = _paths.spread_scores(index)
        torch.testing.assert_close(scores.sort().values, _paths.spread_scores(0))
        total += scores
        torch.testing.assert_close(total.sort().values / (index + 1) ** 0.5, _paths.spread_scores(0), atol=0.3, rtol=0)


def test_paths_of_a_later_pass_end_where_their_mixture_does() -> None:
    """Paths that began elsewhere and are of different widths, the outer ones wider, as those of a walk."""
    starts = _paths.spread_scores(0)
    last = (starts[:, None] + (0.5 + starts.abs())[:, None] * SCORES)[None, None]
    scores = _paths.spread_ends(last, QUANTILES, 1)
    ends = _paths.read_scores(last, scores, QUANTILES)[0, 0].sort().values
    mixture = _paths.pool_quantiles(last, QUANTILES)[0, 0]
    wanted = _paths.read_scores(mixture.expand(_paths.COUNT, -1), starts, QUANTILES)
    torch.testing.assert_close(ends, wanted, atol=0.15, rtol=0)
    assert (scores[0, 0].argsort() != torch.arange(_paths.COUNT)).any()  # paths cross
    alike = torch.ones_like(last)
    assert _paths.spread_ends(alike, QUANTILES, 1).isfinite().all()


def test_scores_are_found_where_they_are_read() -> None:
    curve = SCORES.expm1()[None]
    inner = torch.linspace(-1.9, 1.9, 31, dtype=torch.float64)
    values = _paths.read_scores(curve.expand(31, -1), inner, QUANTILES)
    torch.testing.assert_close(_paths.find_scores(curve.expand(31, -1), values, QUANTILES), inner)


def test_what_is_drawn_is_correlated_with_nothing_given() -> None:
    drawn, scores = _paths.draw_processes(2, 31), _paths.spread_scores(2)
    torch.testing.assert_close(drawn.mean(0), torch.zeros_like(drawn[0]))
    torch.testing.assert_close(torch.einsum("p,pks->ks", scores, drawn), torch.zeros_like(drawn[0]))


@pytest.mark.parametrize("kind", ["noise", "constant", "gaps"])
def test_a_roll_out_begins_with_one_pass_and_depends_on_nothing_else(kind: str) -> None:
    torch.manual_seed(0)
    settings = Settings(width=16, heads=2, depth=1, feed_forward=24, patches=(4,), context=(12,), ahead=(5,))
    network = Network(Shape(channels=2, lookback=37, steps=20), settings).eval()
    past = draw_noise(3 * 2 * 37).reshape(3, 2, 37)
    observed = torch.ones_like(past, dtype=torch.bool)
    if kind == "constant":
        past[1] = 1e12
    if kind == "gaps":
        observed[1, 0, 2:] = observed[2, 1] = False
    with torch.no_grad():
        together, one_pass = network.forecast(past, observed, 67), network.forecast(past, observed, 20)
        alone = network.forecast(past[1:2], observed[1:2], 67)
    assert torch.equal(together[:, :, :20], one_pass)
    assert together.isfinite().all()
    torch.testing.assert_close(together[1:2], alone, atol=1e-5, rtol=1e-5)
    if kind == "constant":
        assert (alone == 1e12).all()
