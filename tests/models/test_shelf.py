"""The shelf of networks: parts that third parties put on it, and refusals."""

from dataclasses import dataclass
from types import ModuleType

import pytest
import torch

from rearview import models
from rearview.errors import SettingsError
from rearview.models.contract import Model, ModelClaims, Shape


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a stranger."""

    times: float = 1.0
    """What the last value is multiplied by."""


class Network(Model):
    """The last value, several times over."""

    claims = ModelClaims(attention=False, trains=False, scale_free=False)

    def __init__(self, shape: Shape, settings: Settings) -> None:
        super().__init__(shape)
        self.times = settings.times

    def forward(self, past, past_marks=None, future_marks=None, *, mask=None):
        return self.times * past[..., -1:].expand(-1, -1, self.shape.steps)


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module for the shelf; what the test registers is gone after it."""
    monkeypatch.setattr(models._SHELF, "_added", {})
    module = ModuleType("stranger", "A network from outside, for tests.\n\nAnd some details.")
    module.Settings, module.Network = Settings, Network  # type: ignore[attr-defined]
    return module


def test_a_registered_network_stands_beside_the_others(stranger: ModuleType) -> None:
    before = models.names()
    models.register("stranger", stranger)
    assert models.names() == sorted([*before, "stranger"])
    model = models.create("stranger", channels=3, lookback=7, steps=5, times=2.0)
    past = torch.randn(2, 3, 7)
    assert torch.equal(model(past), 2 * past[..., -1:].expand(2, 3, 5))
    assert not models.claims("stranger").trains
    about = models.describe("stranger")
    assert (about.summary, about.details) == ("A network from outside, for tests.", "And some details.")
    assert about.settings[0].meaning == "What the last value is multiplied by."
    with pytest.raises(SettingsError, match=r"stranger has no setting 'time'\. Did you mean 'times'"):
        models.create("stranger", channels=3, lookback=7, steps=5, time=2.0)


@pytest.mark.parametrize("name", ["patchtst", "stranger"])
def test_a_name_is_given_once(stranger: ModuleType, name: str) -> None:
    models.register("stranger", stranger)
    with pytest.raises(SettingsError, match=f"model called '{name}' already"):
        models.register(name, stranger)


def test_an_incomplete_module_is_refused(stranger: ModuleType) -> None:
    del stranger.Network
    with pytest.raises(SettingsError, match=r"'stranger' must define Settings and Network; it lacks Network\."):
        models.register("stranger", stranger)


def test_an_unknown_network_is_refused_with_its_neighbour() -> None:
    with pytest.raises(SettingsError, match=r"no model called 'patchst'\. Did you mean 'patchtst'"):
        models.create("patchst", channels=3, lookback=7, steps=5)
