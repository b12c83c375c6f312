"""Feature transforms against the numbers of aeon's, and what holds of them for any series."""

from pathlib import Path

import numpy as np
import pytest
import torch

from rearview.models.features import contract
from rearview.models.features.hydra import Hydra
from rearview.models.features.quantiles import IntervalQuantiles
from rearview.models.features.rocket import MiniRocket, MultiRocket
from rearview.models.features.shapelets import Shapelets

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "features_aeon.npz")
DRAWN = np.load(Path(__file__).parents[2] / "golden" / "features_aeon_drawn.npz")


def stored(kind, prefix):
    names = [name for name in GOLDEN.files if name.startswith(f"{prefix}_")]
    return kind.from_tensors({name.removeprefix(f"{prefix}_"): torch.from_numpy(GOLDEN[name]) for name in names})


@pytest.mark.parametrize("channels", ["uni", "multi"])
@pytest.mark.parametrize(("kind", "name"), [(MiniRocket, "mini"), (MultiRocket, "multi"), (Hydra, "hydra")])
def test_features_are_those_of_aeon(channels, kind, name):
    transform = stored(kind, f"{channels}_{name}")
    ours = transform(torch.from_numpy(GOLDEN[f"{channels}_values"])).numpy()
    np.testing.assert_allclose(ours, GOLDEN[f"{channels}_{name}"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("steps", [10, 29, 64, 151])
@pytest.mark.parametrize(
    ("kind", "name", "biases"), [(MiniRocket, "mini", "biases"), (MultiRocket, "multi", "multi_biases")]
)
def test_kernels_are_drawn_as_aeon_draws_them(steps, kind, name, biases):
    """From one case of one channel nothing is left to chance: dilations, biases and features are aeon's."""
    aeon = {key.removeprefix(f"{steps}_"): DRAWN[key] for key in DRAWN.files if key.startswith(f"{steps}_")}
    kernels = kind.draw(torch.from_numpy(aeon["case"]), 84 * 7, np.random.default_rng(0))
    np.testing.assert_array_equal(kernels.dilations, aeon["dilations"])
    np.testing.assert_array_equal(kernels.counts, aeon["counts"])
    np.testing.assert_allclose(kernels.biases, aeon[biases], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(kernels(torch.from_numpy(aeon["values"])), aeon[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("steps", [10, 29, 64, 151])
def test_hydra_has_the_dilations_and_features_of_aeon(steps):
    weights = torch.from_numpy(DRAWN[f"{steps}_hydra_weights"])
    assert Hydra.draw(1, steps, 6, np.random.default_rng(0)).weights.shape == weights.shape
    hydra = Hydra(weights, torch.zeros(*weights.shape[:3], 1, dtype=torch.int64))
    ours = hydra(torch.from_numpy(DRAWN[f"{steps}_values"]))
    np.testing.assert_allclose(ours, DRAWN[f"{steps}_hydra"], rtol=1e-4, atol=1e-5)


def series(cases=7, channels=3, steps=29, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((cases, channels, steps)).astype(np.float32))


def drawn(values):
    """Every transform, drawn from the cases."""
    random = np.random.default_rng(0)
    codes = np.arange(len(values)) % 2
    return [
        MiniRocket.draw(values, 84 * 5, random),
        MultiRocket.draw(values, 84 * 5, random),
        Hydra.draw(values.shape[1], values.shape[2], 4, random),
        Shapelets.draw(values, codes, 128, random),
        IntervalQuantiles(),
    ]


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize(("channels", "steps"), [(1, 10), (3, 29), (13, 64)])
def test_features_of_a_case_do_not_depend_on_its_company(monkeypatch, place, channels, steps):
    values = series(channels=channels, steps=steps)
    transform = drawn(values)[place]
    together = transform(values)
    monkeypatch.setattr(contract, "AT_ONCE", {"cpu": 1})
    np.testing.assert_allclose(transform(values[2:3]), together[2:3], atol=2e-4)
    assert together.isfinite().all()
    assert len(together) == len(values)


def test_transforms_come_back_from_their_tensors():
    values = series()
    for transform in drawn(values):
        again = type(transform).from_tensors(transform.tensors())
        np.testing.assert_array_equal(again(values), transform(values))


def test_a_shapelet_is_at_no_distance_from_its_own_case_at_its_place():
    values = series(steps=60)
    shapelets = Shapelets.draw(values, np.arange(7) % 2, 256, np.random.default_rng(1))
    features = shapelets(values).unflatten(1, (-1, 3, 64))
    sources = shapelets.sources().unflatten(0, (-1, 3, 64))[:, 0]
    nearest = features[:, :, 0].gather(0, sources[None])[0]
    assert nearest.max() < 0.02  # distances are differences of products in float32
    others = features[:, :, 0].clone().scatter(0, sources[None], torch.inf).amin(0)
    assert (others > nearest).all()


def test_shapelets_without_level_and_spread_find_a_scaled_case():
    values = series(steps=60)
    shapelets = Shapelets.draw(values, np.arange(7) % 2, 640, np.random.default_rng(1))
    plain, scaled = (shapelets(some).unflatten(1, (-1, 3, 64)) for some in (values, 5 * values + 2))
    flat = shapelets.normalised
    np.testing.assert_allclose(plain[:, flat, 0], scaled[:, flat, 0], atol=0.02)
    assert (plain[:, ~flat, 0] - scaled[:, ~flat, 0]).abs().max() > 1


def test_the_first_interval_is_the_whole_series():
    values = series(channels=1, steps=9)
    quantiles = IntervalQuantiles()(values)[:, :3]
    ordered = values[:, 0].sort(dim=1).values
    np.testing.assert_allclose(quantiles[:, 0], ordered[:, 0])
    np.testing.assert_allclose(quantiles[:, 2], ordered[:, -1])
    np.testing.assert_allclose(quantiles[:, 1], ordered[:, 4] - values[:, 0].mean(1), atol=1e-6)
