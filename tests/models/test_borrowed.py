"""Networks of other packages: found by name, described without the package, and true to the contract where it is there.

Tests marked `baselines` need the packages and run in an environment of their own; what they ask is what every network
of the shelf is asked.
"""

import importlib.util
import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor
from torch.testing import assert_close

from rearview import models
from rearview.core.errors import SettingsError
from rearview.models import baselines

BATCH, CHANNELS, LOOKBACK, STEPS, MARKS = 2, 3, 35, 11, 5
NEURAL = ["autoformer", "fedformer", "informer", "softs", "timemixer", "timesnet", "timexer"]
SMALL = {
    "autoformer": {"width": 16, "heads": 2},
    "fedformer": {"width": 16, "modes": 7},
    "informer": {"width": 16, "heads": 2},
    "softs": {"width": 16, "core": 13, "feed_forward": 19},
    "timemixer": {"width": 16, "feed_forward": 19, "depth": 2, "coarser": 5},
    "timesnet": {"width": 8, "feed_forward": 8, "depth": 1, "kernels": 2},
    "timexer": {"width": 16, "heads": 2, "feed_forward": 19, "patch": 7},
}
"""35 is odd, and seven steps of 5 or five of 7."""
SAMPLED = "informer"
"""Draws keys by chance in use too."""

here = all(importlib.util.find_spec(package) for package in ("neuralforecast", "statsforecast", "chronos"))
real = pytest.mark.skipif(not here, reason="the packages of rearview[baselines] are not installed")


def small(name: str, seed: int = 23, **changes) -> models.Model:
    torch.manual_seed(seed)
    shape = {"channels": CHANNELS, "lookback": LOOKBACK, "steps": STEPS}
    return models.create(name, **{**shape, **SMALL.get(name, {}), **changes}).eval()


def past_for(batch: int = BATCH, channels: int = CHANNELS) -> Tensor:
    return 5 + torch.randn(batch, channels, LOOKBACK, generator=torch.Generator().manual_seed(31))


def test_borrowed_networks_are_not_among_our_names():
    assert {*NEURAL, "autoets", "chronos2"} <= set(models.external_names())
    assert not set(models.external_names()) & set(models.names())


@pytest.mark.parametrize("name", models.external_names())
def test_borrowed_networks_are_described_without_their_package(name):
    about = models.describe(name)
    assert about.summary == models.summary(name)
    assert all(setting.meaning for setting in about.settings)
    assert not models.claims(name).attention
    assert models.claims(name).trains == (name in NEURAL)


@pytest.mark.parametrize("name", [*NEURAL, "autoets", "chronos2"])
def test_a_missing_package_is_named_with_what_to_do(name, monkeypatch):
    monkeypatch.setattr(baselines, "find_spec", lambda _: None)
    package = {"autoets": "statsforecast", "chronos2": "chronos-forecasting"}.get(name, "neuralforecast")
    words = rf"{name} is a network of {package}, which is not installed: pip install .*\[baselines\]'\."
    with pytest.raises(SettingsError, match=words):
        small(name)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("timesnet", {"top_k": 3}, "timesnet has no setting 'top_k'"),
        ("timesnet", {"attention": "softmax"}, "timesnet has no attention to replace"),
        ("timesnet", {"asks": "window", "steps": None}, "timesnet forecasts and can't give a window back"),
        ("softs", {"marks": 5}, "softs has no place for them in neuralforecast's form"),
        ("autoformer", {"marks": 5}, "they are known for 0"),
        ("autoformer", {"label_share": 1.0}, "label_share is 1.0"),
        ("timemixer", {"scales": 2}, "35 steps are no multiple of 25"),
        ("timemixer", {"scales": 0}, "scales is 0"),
        ("timexer", {"patch": 16}, "leaves the 3 newest out"),
        ("autoets", {"period": 36}, "the look-back of 35 steps"),
        ("autoets", {"form": "ZZ"}, "form is 'ZZ'"),
    ],
)
def test_borrowed_networks_refuse_settings_that_do_not_fit(name, changes, words):
    with pytest.raises(SettingsError) as refused:
        small(name, **changes)
    assert words in str(refused.value)


@real
@pytest.mark.baselines
@pytest.mark.parametrize("name", NEURAL)
def test_a_few_updates_lower_a_borrowed_networks_loss(name):
    model = small(name, dropout=0.0).train()
    past = past_for(13)
    future = past[..., -STEPS:].flip(-1)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(8):
        loss = (model(past) - future).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert model(past).shape == (13, CHANNELS, STEPS)
    assert losses[-1] < 0.9 * losses[0]


@real
@pytest.mark.baselines
@pytest.mark.parametrize("name", NEURAL)
def test_borrowed_weights_follow_our_seed_and_nothing_else_is_touched(name, unchecked):
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002 - what neuralforecast seeds
    expected = random.Random(3).random(), np.random.RandomState(3).rand()
    first, after = small(name), torch.rand(())
    assert (random.random(), np.random.rand()) == expected  # noqa: NPY002
    assert "PL_GLOBAL_SEED" not in os.environ
    again, after_again = small(name), torch.rand(())
    assert after == after_again
    for ours, theirs in zip(first.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)
    other = small(name, seed=29)
    pairs = zip(first.parameters(), other.parameters(), strict=True)
    assert not all(torch.equal(ours, theirs) for ours, theirs in pairs)


@real
@pytest.mark.baselines
@pytest.mark.parametrize("name", NEURAL)
def test_a_network_comes_back_from_its_parameters_and_buffers(name):
    model, other = small(name), small(name, seed=29)
    other.load_state_dict(load(save(model.state_dict())))
    past = past_for()
    torch.manual_seed(5)
    ours = model(past)
    torch.manual_seed(5)
    assert torch.equal(ours, other(past))


@real
@pytest.mark.baselines
@pytest.mark.parametrize("name", [name for name in NEURAL if name != SAMPLED])
def test_claims_of_borrowed_networks_hold(name):
    dtype = torch.float32 if name == "fedformer" else torch.float64  # its complex maps stay as they are
    model = small(name)
    if dtype == torch.float64:
        model.double()
    past = past_for().to(dtype)
    scaled = (model(7 * past - 500) - (7 * model(past) - 500)).abs().max() < 1e-3
    assert bool(scaled) == model.claims.scale_free
    order = torch.tensor([2, 0, 1])
    permuted = (model(past[:, order]) - model(past)[:, order]).abs().max() < 1e-5
    assert bool(permuted) == model.claims.equivariant_to_channels
    changed = past.clone()
    changed[:, 1] += torch.randn(BATCH, LOOKBACK)
    moved = (model(changed) - model(past)).abs().amax((0, 2)) > (1e-5 if name == "fedformer" else 1e-9)
    assert moved[1]
    assert bool(moved[[0, 2]].any()) == model.claims.mixes_channels
    mask = torch.arange(LOOKBACK) >= torch.tensor([[0], [29]])
    hidden = model(torch.where(mask[:, None], past, torch.nan), mask=mask)
    assert_close(hidden, model(past, mask=mask))


@real
@pytest.mark.baselines
@pytest.mark.parametrize("name", ["autoformer", "fedformer", "timesnet"])
def test_borrowed_networks_read_marks_where_claimed(name):
    ahead = models.claims(name).reads_ahead
    model = small(name, marks=MARKS, future=STEPS)
    past, before, after = past_for(), torch.randn(BATCH, MARKS, LOOKBACK), torch.randn(BATCH, MARKS, STEPS)
    plain = model(past, before, after)
    assert plain.shape == (BATCH, CHANNELS, STEPS)
    assert not torch.allclose(plain, model(past, before + 1, after))
    assert torch.allclose(plain, model(past, before, after + 1)) != ahead
    # Steps asked for twice over, as two quantiles are: each moment's marks stand at both.
    double = small(name, marks=MARKS, future=STEPS, steps=2 * STEPS)
    assert double(past, before, after).shape == (BATCH, CHANNELS, 2 * STEPS)


@real
@pytest.mark.baselines
def test_our_form_is_neuralforecasts_own():
    """One channel through our windows is that channel through neuralforecast's."""
    model = small("timesnet", normalise="none")
    past = past_for()
    theirs = model.network({"insample_y": past[:, 1, :, None], "futr_exog": None})
    assert_close(model(past)[:, 1], theirs[..., 0])
    model = small("softs", normalise="none")
    assert_close(model(past), model.network({"insample_y": past.transpose(1, 2)}).transpose(1, 2))


@real
@pytest.mark.baselines
def test_autoets_forecasts_each_window_by_itself():
    from statsforecast.models import AutoETS

    model = small("autoets", period=5)
    past = past_for().cumsum(-1)
    mask = torch.arange(LOOKBACK) >= torch.tensor([[0], [9]])
    found = model(past, mask=mask)
    assert found.shape == (BATCH, CHANNELS, STEPS)
    series = past[1, 2, 9:].double().numpy()
    expected = AutoETS(season_length=5).forecast(series, STEPS)["mean"]
    assert_close(found[1, 2], torch.from_numpy(expected).float())
    assert model.remark() == ""
    short = model(past, mask=torch.arange(LOOKBACK) >= torch.tensor([[33], [9]]))
    assert_close(short[0], past[0, :, -1:].expand(-1, STEPS))
    told = f"repeated the last value of {CHANNELS} of {BATCH * CHANNELS} series of windows"
    assert told in model.remark()
    assert model.remark() == ""  # told once
    still = model(torch.full((1, CHANNELS, LOOKBACK), 4.0))
    assert_close(still, torch.full((1, CHANNELS, STEPS), 4.0))


@pytest.fixture
def weights(tmp_path) -> Path:
    """A Chronos-2 of two small blocks with the weights it was born with."""
    from chronos.chronos2.config import Chronos2CoreConfig
    from chronos.chronos2.model import Chronos2Model

    asked = {
        "context_length": 64, "output_patch_size": 8, "input_patch_size": 8, "input_patch_stride": 8,
        "quantiles": [number / 10 for number in range(1, 10)], "use_reg_token": True, "use_arcsinh": True,
        "max_output_patches": 4,
    }  # fmt: skip
    torch.manual_seed(3)
    config = Chronos2CoreConfig(
        d_model=16, d_kv=8, d_ff=19, num_layers=2, num_heads=2, chronos_config=asked, architectures=["Chronos2Model"]
    )
    Chronos2Model(config).save_pretrained(tmp_path)
    return tmp_path


@real
@pytest.mark.baselines
def test_chronos2_forecasts_with_weights_on_disk(weights):
    model = small("chronos2", weights=str(weights))
    past = past_for()
    found = model(past)
    assert found.shape == (BATCH, CHANNELS, STEPS)
    assert found.isfinite().all()
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert_close(model(past[:1]), found[:1], rtol=1e-4, atol=1e-4)
    apart = small("chronos2", weights=str(weights), together=False)(past)
    alone = small("chronos2", weights=str(weights), channels=1)(past[:, 1:2])
    assert_close(apart[:, 1:2], alone, rtol=1e-4, atol=1e-4)
    mask = torch.arange(LOOKBACK) >= torch.tensor([[0], [9]])
    assert_close(model(torch.where(mask[:, None], past, 1e6), mask=mask), model(past, mask=mask))


@real
@pytest.mark.baselines
def test_chronos2_says_what_it_lacks(tmp_path):
    with pytest.raises(SettingsError, match="chronos2 needs its published weights on disk"):
        small("chronos2")
    with pytest.raises(SettingsError, match=r"There are no weights of chronos2 in .*config\.json"):
        small("chronos2", weights=str(tmp_path))
