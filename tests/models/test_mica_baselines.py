"""What MICA is compared with, in its release's forms: the joint perceptron, square TSMixer, independent components."""

import pytest
import torch
from torch.testing import assert_close

from rearview import models
from rearview.models.adapters.decorrelate import find_independent

BATCH, CHANNELS, LOOKBACK, STEPS = 3, 5, 17, 7


@pytest.mark.parametrize(
    ("name", "settings", "channels", "lookback", "millions"),
    [
        ("mlp_joint", {"width": 256, "depth": 4}, 7, 96, 0.456),
        ("mlp_joint", {"width": 256, "depth": 4}, 600, 96, 22.345),
        ("tsmixer", {"square": True, "width": 256, "depth": 4, "normalise": "revin"}, 7, 96, 0.068),
        ("tsmixer", {"square": True, "width": 256, "depth": 4, "normalise": "revin"}, 600, 96, 2.196),
    ],
)
def test_sizes_are_those_that_the_paper_prints(name, settings, channels, lookback, millions) -> None:
    with torch.device("meta"):
        model = models.create(name, channels=channels, lookback=lookback, steps=48, **settings)
    assert round(sum(one.numel() for one in model.parameters()) / 1e6, 3) == millions


def test_the_joint_perceptron_is_its_formula() -> None:
    torch.manual_seed(3)
    model = models.create("mlp_joint", channels=CHANNELS, lookback=LOOKBACK, steps=STEPS, width=11, depth=2)
    model = model.double().eval()
    past = torch.randn(BATCH, CHANNELS, LOOKBACK, dtype=torch.float64).cumsum(-1)
    mean, spread = past.mean(-1, keepdim=True), (past.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
    x = ((past - mean) / spread).flatten(1)
    first, second = model.layers[0], model.layers[3]
    out = model.head(second(first(x).relu()).relu()).view(BATCH, CHANNELS, STEPS)
    assert_close(model(past), out * spread + mean)


def test_square_tsmixer_is_its_formula() -> None:
    torch.manual_seed(5)
    given = {"square": True, "width": 13, "depth": 1, "normalise": "none", "dropout": 0.0}
    model = models.create("tsmixer", channels=CHANNELS, lookback=LOOKBACK, steps=STEPS, **given).double()
    past = torch.randn(BATCH, CHANNELS, LOOKBACK, dtype=torch.float64)
    (block,) = model.blocks

    def normed(x, norm):
        cells = x.flatten(1)
        centred = (cells - cells.mean(0)) / (cells.var(0, correction=0) + 1e-3).sqrt()
        return (centred * norm.weight + norm.bias).view(x.shape)

    x = past + block.along[0](normed(past, block.norm_along)).relu()
    across = normed(x, block.norm_across).transpose(1, 2)
    x = x + block.across[3](block.across[0](across).relu()).transpose(1, 2)
    assert_close(model.train()(past), model.head(x))


def mixed(steps: int = 4000) -> tuple[torch.Tensor, torch.Tensor]:
    """Sources that are not Gaussian, and channels that mix them."""
    draw = torch.Generator().manual_seed(7)
    uniform = torch.rand(2, steps, generator=draw, dtype=torch.float64) - 0.5
    heavy = torch.randn(2, steps, generator=draw, dtype=torch.float64) ** 3
    sources = torch.cat([uniform, heavy])
    sources = (sources - sources.mean(1, keepdim=True)) / sources.std(1, keepdim=True)
    return sources, torch.randn(4, 4, generator=draw, dtype=torch.float64) @ sources


def test_independent_components_are_the_sources() -> None:
    sources, channels = mixed()
    centred = channels - channels.mean(1, keepdim=True)
    _, vectors = torch.linalg.eigh(centred @ centred.T / centred.shape[1])
    found = find_independent(centred, vectors) @ centred
    alike = torch.corrcoef(torch.cat([found, sources]))[:4, 4:].abs()
    assert alike.amax(1).min() > 0.98
    assert torch.equal(alike.argmax(1).sort().values, torch.arange(4))
    assert_close(found @ found.T / found.shape[1], torch.eye(4, dtype=torch.float64), rtol=0, atol=1e-6)


def test_a_network_on_independent_components_gives_channels_back() -> None:
    _, channels = mixed(1700)
    windows = channels.unfold(1, LOOKBACK, LOOKBACK).transpose(0, 1)
    torch.manual_seed(3)
    given = {"channels": 4, "lookback": LOOKBACK, "steps": STEPS}
    model = models.create("dlinear", **given, adapters={"name": "decorrelate", "method": "ica"}).double().eval()
    model.prepare(windows)
    assert_close(model.rotation @ model.unmix, torch.eye(4, dtype=torch.float64), rtol=0, atol=1e-6)
    inner = model.network(model.unmix @ (windows - model.mean))
    assert_close(model(windows), model.rotation @ inner + model.mean)
    plain = models.create("dlinear", **given, adapters="decorrelate").double().eval()
    plain.prepare(windows)
    assert "unmix" not in plain.state_dict()
    assert (model(windows) - plain(windows)).abs().max() > 1e-6


def test_a_constant_channel_has_a_way_back() -> None:
    _, channels = mixed(1700)
    channels = torch.cat([channels, torch.ones_like(channels[:1])])
    windows = channels.unfold(1, LOOKBACK, LOOKBACK).transpose(0, 1)
    adapters = {"name": "decorrelate", "method": "ica"}
    model = models.create("dlinear", channels=5, lookback=LOOKBACK, steps=STEPS, adapters=adapters).double().eval()
    model.prepare(windows)
    assert model(windows).isfinite().all()
