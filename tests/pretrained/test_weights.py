"""Weights that come with the package: found, checked, loaded, refused where they are damaged or missing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rearview.core.errors import InputError, SettingsError
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
