"""Weights that come with the package: found, checked, loaded, refused where they are damaged or missing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import rearview as rv
from rearview.core.errors import InputError, SettingsError
from rearview.core.settings import settings_from
from rearview.models.contract import Shape
from rearview.models.patch_hosts.glance import Network, Settings
from rearview.pretrained import weights


def test_weights_load_as_they_were_written(glance_weights: Path) -> None:
    card = weights.read_card()
    network = weights.load(card, channels=3, lookback=40, steps=5)
    assert not network.training
    assert (network.shape.channels, network.shape.lookback, network.shape.steps) == (3, 40, 5)
    assert sum(one.numel() for one in network.parameters()) == card.parameters
    again = weights.write(glance_weights, network.state_dict(), replace(card, version="2"))
    assert (again.sha256, again.version) == (card.sha256, "2")
    assert json.loads((glance_weights / "glance.json").read_text())["version"] == "2"


def test_loading_leaves_the_callers_random_state_alone(glance_weights: Path) -> None:
    torch.manual_seed(3)
    wanted = torch.rand(1)
    torch.manual_seed(3)
    weights.load(weights.read_card())
    assert torch.equal(torch.rand(1), wanted)


def test_a_build_without_weights_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "FOLDER", tmp_path)
    assert not weights.available()
    with pytest.raises(SettingsError, match="has no weights of glance"):
        weights.read_card()


def write_small(folder: Path) -> weights.Card:
    """A second size beside the first, with fewer blocks and random weights."""
    card = weights.read_card()
    settings = {**card.settings, "depth": 1}
    torch.manual_seed(11)
    network = Network(Shape(channels=1, lookback=64, steps=8), settings_from(Settings, "glance", settings))
    return weights.write(
        folder, network.state_dict(), replace(card, name="glance_small", settings=settings, version="small")
    )


def test_a_second_size_is_asked_for_by_its_name(glance_weights: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    assert weights.names() == ("glance",)
    card = write_small(glance_weights)
    assert weights.names() == ("glance", "glance_small")
    assert weights.read_card("glance_small") == card
    assert weights.load(card).settings.depth == 1
    assert weights.load(weights.read_card()).settings.depth == 2
    dates = pandas.date_range("2024-01-01", periods=60)
    frame = pandas.DataFrame({"date": dates, "y": [float(7 * n % 11) for n in range(60)]})
    made = {}
    for name in weights.names():
        forecaster = rv.Forecaster(model=name, horizon=5, device="cpu").fit(frame)
        assert forecaster.fitted.name == name
        made[name] = forecaster.predict()
        forecaster.save(tmp_path / name)
        pandas.testing.assert_frame_equal(rv.Forecaster.load(tmp_path / name).predict(), made[name])
    assert not made["glance"].equals(made["glance_small"])


def test_a_size_that_is_not_there_or_another_ones_card_is_refused(glance_weights: Path) -> None:
    with pytest.raises(SettingsError, match="no weights of glance_small"):
        weights.read_card("glance_small")
    write_small(glance_weights)
    (glance_weights / "glance_small.json").write_bytes((glance_weights / "glance.json").read_bytes())
    with pytest.raises(InputError, match="it is the card of glance"):
        weights.read_card("glance_small")


def test_a_damaged_file_is_refused(glance_weights: Path) -> None:
    path = glance_weights / "glance.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    weights._read_weights.cache_clear()
    with pytest.raises(InputError, match="checksum differs"):
        weights.load(weights.read_card())


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 1}', '{"rate": 1}', "x" * (weights.MOST_CARD + 1)])
def test_a_damaged_card_is_refused(glance_weights: Path, text: str) -> None:
    (glance_weights / "glance.json").write_text(text)
    with pytest.raises(InputError, match="damaged"):
        weights.read_card()


def test_a_card_of_another_network_is_refused(glance_weights: Path) -> None:
    card = weights.read_card()
    with pytest.raises(InputError, match="does not fit its weights"):
        weights.load(replace(card, settings={**card.settings, "depth": 3}))


def test_weights_that_are_no_numbers_are_refused(glance_weights: Path) -> None:
    card = weights.read_card()
    spoilt = {name: tensor.clone() for name, tensor in weights.load(card).state_dict().items()}
    spoilt["empty"][0] = torch.nan
    with pytest.raises(InputError, match="empty is not all finite"):
        weights.load(weights.write(glance_weights, spoilt, card))


def test_weights_too_large_for_a_package_are_refused(glance_weights: Path) -> None:
    with pytest.raises(SettingsError, match="more than the"):
        weights.write(glance_weights, {"a": torch.zeros(weights.MOST_BYTES)}, weights.read_card())
