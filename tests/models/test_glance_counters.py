"""Series that only ever rise: which they are, how additions are added up, and that forecasts follow the additions."""

import numpy as np
import pytest
import torch

from rearview.models.contract import Shape
from rearview.models.patch_hosts._counters import COMMON, LEAST, add_up, find_additions, find_counters
from rearview.models.patch_hosts.glance import QUANTILES, Network, Settings, find_limits

NORMAL = torch.distributions.Normal(torch.zeros((), dtype=torch.float64), 1.0)
LEVELS = torch.tensor(QUANTILES, dtype=torch.float64)


def small() -> Network:
    torch.manual_seed(5)
    settings = Settings(
        width=16, heads=2, depth=1, feed_forward=24, patches=(2, 4), context=(64, 64), ahead=(7, 7),
    )  # fmt: skip
    return Network(Shape(3, 96, 11), settings).double().eval()


def meters(rows: int = 97) -> torch.Tensor:
    """[2, 3, rows] of float64: the second channel of each is a counter."""
    torch.manual_seed(3)
    past = torch.randn(2, 3, rows, dtype=torch.float64)
    past[:, 1] = past[:, 1].abs().cumsum(-1) + 5000
    return past


def test_a_counter_has_many_additions_and_never_falls() -> None:
    rising = torch.arange(LEAST + 1.0)
    fallen, rare, staircase = rising.clone(), torch.zeros(LEAST + 1), torch.arange(LEAST + 1.0) // 2
    fallen[37] = 30.0
    rare[::13] = 1.0
    cases = [rising, fallen, rare.cumsum(0), staircase, -rising, rising[1:], torch.ones(LEAST + 1)]
    found = [find_counters(one[None, None], None).item() for one in cases]
    assert found == [True, False, False, True, False, False, False]
    observed = torch.ones(1, 1, LEAST + 1, dtype=torch.bool)
    observed[..., 37] = False  # two additions are not known: too few are left
    assert not find_counters(fallen[None, None], observed).item()
    longer = torch.cat([fallen, torch.tensor([70.0, 71])])
    assert find_counters(longer[None, None], torch.cat([observed, observed[..., :2]], -1)).item()


def test_additions_beside_a_gap_are_not_known() -> None:
    past = torch.tensor([[[3.0, 5, 0, 9, 10]]])
    additions, known = find_additions(past, torch.tensor([[[True, True, False, True, True]]]))
    assert additions.tolist() == [[[0, 2, 0, 0, 1]]]
    assert known.tolist() == [[[False, True, False, False, True]]]


def test_one_addition_is_as_it_is_forecast() -> None:
    quantiles = (LEVELS**2 * 30).expand(2, 3, 1, -1)
    torch.testing.assert_close(add_up(quantiles, QUANTILES), quantiles)


def test_additions_of_equal_width_add_up_by_what_they_have_in_common() -> None:
    """n steps of mean 20 and deviation s: mean 20 n, and a variance of s^2 (n + c (n^2 - n))."""
    steps = torch.arange(1, 12, dtype=torch.float64)[:, None]
    for common in (0.0, COMMON, 1.0):
        made = add_up((20 + 3 * NORMAL.icdf(LEVELS)).expand(11, -1), QUANTILES, common)
        spread = 3 * (steps + common * (steps**2 - steps)).sqrt()
        torch.testing.assert_close(made, 20 * steps + spread * NORMAL.icdf(LEVELS))


def test_additions_that_walk_add_up_as_integrated_walks_do() -> None:
    """Of a walk whose steps have variance 9, cov(i, j) = 9 min(i, j): sums have 9 n (n + 1) (2n + 1) / 6."""
    steps = torch.arange(1, 14, dtype=torch.float64)[:, None]
    made = add_up(500 + 3 * steps.sqrt() * NORMAL.icdf(LEVELS), QUANTILES, 0.0)
    spread = 3 * (steps * (steps + 1) * (2 * steps + 1) / 6).sqrt()
    torch.testing.assert_close(made, 500 * steps + spread * NORMAL.icdf(LEVELS))


def test_widths_that_come_and_go_do_not_last() -> None:
    deviations = torch.tensor([0.0, 2, 5, 3]).double().repeat(4)[:, None]
    made = add_up(500 + deviations * NORMAL.icdf(LEVELS), QUANTILES, 0.0)
    steps = torch.arange(1, 17, dtype=torch.float64)[:, None]
    # After the last night widths only grow, as errors that last do.
    wanted = 500 * steps + deviations.square().cumsum(0).sqrt() * NORMAL.icdf(LEVELS)
    torch.testing.assert_close(made[:14], wanted[:14])


def test_skewed_additions_add_up_as_a_simulation_has_it() -> None:
    rng = np.random.default_rng(0)
    drawn = rng.exponential(7.0, (200_000, 13))
    single = torch.tensor(np.quantile(drawn[:, 0], QUANTILES)).expand(13, -1)
    wanted = np.quantile(drawn.sum(1), QUANTILES)
    # The mean of an exponential is read from 13 quantiles, whose last stands for all beyond: 2 % too low.
    np.testing.assert_allclose(add_up(single, QUANTILES, 0.0)[-1].numpy(), wanted, rtol=0.06)


def test_sums_neither_fall_nor_cross() -> None:
    wild = torch.randn(2, 3, 17, len(QUANTILES)).sort(-1).values
    made = add_up(wild, QUANTILES)
    assert (made >= 0).all()
    assert (made.diff(dim=-2) >= 0).all()
    assert (made.diff(dim=-1) >= 0).all()


@pytest.mark.parametrize("steps", [11, 61])
def test_a_counter_goes_on_from_its_newest_reading_by_what_is_added(steps: int) -> None:
    network, past = small(), meters()
    with torch.no_grad():
        made = network.forecast(past, None, steps)
        known = torch.ones(2, 1, 97, dtype=torch.bool)
        known[..., 0] = False
        additions = torch.cat([past[:, 1:2, :1] * 0, past[:, 1:2].diff(dim=-1)], -1)
        added = network.forecast(additions, known, steps)
        others = network.forecast(past[:, ::2], None, steps)
        moved = network.forecast(3 * past + 1e6, None, steps)
    torch.testing.assert_close(made[:, 1:2], past[:, 1:2, -1:, None] + add_up(added, QUANTILES))
    torch.testing.assert_close(made[:, ::2], others)
    torch.testing.assert_close((moved - 1e6) / 3, made, rtol=1e-6, atol=1e-6)
    assert (made[:, 1].diff(dim=-1) >= 0).all()
    assert find_limits(past, None).floor[:, 1].tolist() == past[:, 1, -1].tolist()


def test_a_counter_whose_newest_readings_are_missing_goes_on_from_the_last_that_is_there() -> None:
    network, past = small(), meters()
    observed = torch.ones_like(past, dtype=torch.bool)
    observed[..., -3:] = False
    garbled = past.clone()
    garbled[..., -3:] = 9e9
    with torch.no_grad():
        made, same = (network.forecast(one, observed, 11) for one in (past, garbled))
    torch.testing.assert_close(made, same, rtol=0, atol=0)
    assert (made[:, 1] >= past[:, 1, -4, None, None]).all()


def test_a_meter_that_was_replaced_before_what_is_read_goes_on_from_its_own_reading() -> None:
    network, past = small(), meters(network_room := 4 * 64)
    earlier = torch.full((2, 3, 7), 9e5, dtype=torch.float64)
    assert network.room == network_room
    with torch.no_grad():
        replaced, alone = (network.forecast(one, None, 11) for one in (torch.cat([earlier, past], -1), past))
    torch.testing.assert_close(replaced, alone, rtol=0, atol=0)


def test_training_reads_readings_as_they_are() -> None:
    network, past = small(), meters()
    read, _, counters = network.take_additions(past, None)
    assert counters is not None
    assert counters.tolist() == [[False, True, False]] * 2
    assert not torch.equal(read, past)
    assert network.train().take_additions(past, None)[2] is None
