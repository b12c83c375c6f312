"""TimeMixer++: scales, periods from training windows, images, and their mixtures."""

import math

import pytest
import torch
from torch.testing import assert_close

from rearview import models
from rearview.core.errors import SettingsError
from rearview.models.step_hosts import timemixer_pp
from rearview.testing.small_models import BATCH, CHANNELS, LOOKBACK, STEPS, past_for, small


def waves(periods: tuple[int, ...], steps: int) -> torch.Tensor:
    at = torch.arange(steps, dtype=torch.float64)
    wave = sum(torch.sin(2 * math.pi * at / period) for period in periods)
    noise = torch.randn(13, CHANNELS, steps, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return wave + 0.01 * noise


def test_periods_are_the_strongest_of_the_training_windows() -> None:
    model = models.create("timemixer_pp", channels=CHANNELS, lookback=96, steps=STEPS, periods=2).double()
    assert model.lengths == [96, 48, 24, 12]
    assert model.periods == [96, 48]
    model.prepare(waves((24, 32), 96))
    assert model.frequencies.tolist() == [3, 4]
    assert model.periods == [32, 24]
    other = models.create("timemixer_pp", channels=CHANNELS, lookback=96, steps=STEPS, periods=2).double()
    other.load_state_dict(model.state_dict())
    assert other.periods == [32, 24]


@pytest.mark.parametrize(
    ("lookback", "lengths", "periods"),
    [
        (1, [1], [1]),
        (3, [3], [3]),
        (5, [5, 2], [5]),
        (37, [37, 18, 9, 4], [37, 19]),
        (96, [96, 48, 24, 12], [96, 48, 32]),
    ],
)
def test_a_short_window_has_fewer_scales_and_periods(lookback: int, lengths: list[int], periods: list[int]) -> None:
    model = models.create("timemixer_pp", channels=2, lookback=lookback, steps=5)
    assert model.lengths == lengths
    assert model.periods == periods
    assert model(torch.randn(BATCH, 2, lookback)).shape == (BATCH, 2, 5)


def test_an_image_has_a_column_for_each_period() -> None:
    block = small("timemixer_pp").blocks[0]
    with torch.no_grad():
        block.spread.weight.zero_()
        block.spread.bias.zero_()
        block.spread.weight[:, :, 1, 1] = torch.eye(26)
    scale = torch.randn(BATCH, 17, 26, dtype=torch.float64)
    image = block.fold(scale, 5)
    assert image.shape == (BATCH, 4, 5, 26)
    assert torch.equal(image[:, 2, 3], scale[:, 13])
    assert not image[:, 3, 2:].any()


def test_seasons_are_attended_within_columns_and_trends_across() -> None:
    """A change of one place moves the seasons of its column and the trends of its row, and nothing else."""
    block = small("timemixer_pp").blocks[0]
    image = torch.randn(BATCH, 2, 5, 26, dtype=torch.float64)
    changed = image.clone()
    changed[:, 1, 2] += 1
    season = timemixer_pp._split(block.within, [changed])[0] - timemixer_pp._split(block.within, [image])[0]
    moved = season.abs().amax((0, 3)) > 1e-9
    assert moved[1].all()
    assert not moved[0].any()
    across = [timemixer_pp._split(block.across, [one.transpose(1, 2)])[0].transpose(1, 2) for one in (changed, image)]
    moved = (across[0] - across[1]).abs().amax((0, 3)) > 1e-9
    assert moved[:, 2].all()
    assert not moved[:, [0, 1, 3, 4]].any()


def test_images_of_other_sizes_do_not_move_one_another() -> None:
    block = small("timemixer_pp").blocks[0]
    images = [torch.randn(BATCH, columns, rows, 26, dtype=torch.float64) for columns, rows in ((2, 19), (5, 7), (1, 3))]
    together = timemixer_pp._split(block.within, images)
    for image, mixed in zip(images, together, strict=True):
        assert_close(mixed, timemixer_pp._split(block.within, [image])[0], rtol=1e-9, atol=1e-9)


def test_seasons_flow_to_coarser_scales_and_trends_to_finer_ones() -> None:
    block = small("timemixer_pp").blocks[0]
    sizes = [(4, 5), (2, 5), (1, 5), (1, 5)]
    seasons, trends = ([torch.randn(BATCH, *size, 26, dtype=torch.float64) for size in sizes] for _ in range(2))
    before = block.mix_scales(seasons, trends)
    for which, reached in ((seasons, [1, 2, 3]), (trends, [0, 1])):
        at = 1
        kept, which[at] = which[at], which[at] + 1
        moved = [(a - b).abs().max() > 1e-9 for a, b in zip(block.mix_scales(seasons, trends), before, strict=True)]
        which[at] = kept
        assert [m for m, one in enumerate(moved) if one] == reached


def test_periods_count_by_their_amplitude() -> None:
    block = small("timemixer_pp").blocks[0]
    at = torch.arange(12, dtype=torch.float64)
    coarsest = (0.5 * torch.cos(2 * math.pi * 2 * at / 12) + 0.2 * torch.cos(2 * math.pi * 3 * at / 12))[
        None, :, None
    ].repeat(1, 1, 26)
    shares = block.weigh_periods(coarsest, torch.tensor([2, 3, 4]))
    assert_close(shares[0], torch.tensor([3.0, 1.2, 0.0], dtype=torch.float64).softmax(0))


def test_mica_is_refused_since_columns_are_no_channels() -> None:
    with pytest.raises(SettingsError, match=r"mica mixes groups, but in TimeMixer\+\+ .* use softmax, rbca"):
        small("timemixer_pp", attention="mica")
    for name in ("depth", "periods"):
        with pytest.raises(SettingsError, match=f"{name} is 0"):
            small("timemixer_pp", **{name: 0})


def test_layers_of_timemixer_pp_are_labelled_by_where_they_look() -> None:
    model = small("timemixer_pp")
    stages = [axes.stage for axes in model.axes()]
    assert stages == ["channels", "within", "across", "within", "across"]
    assert [len(axes.tokens) for axes in model.axes()[:3]] == [CHANNELS, 37, 2]
    assert LOOKBACK == 37
    assert len(model.weights(past_for(model))) == 5
