"""The shelf of networks: parts that third parties put on it, and refusals."""

import importlib.metadata
import sys
from collections import Counter
from dataclasses import dataclass, make_dataclass
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from rearview import models
from rearview.core import registry
from rearview.core.errors import RearviewWarning, SettingsError
from rearview.models import pairs
from rearview.models.contract import Model, ModelClaims, Shape
from rearview.testing import check_model


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


def test_every_broken_promise_of_a_network_is_named_at_once(
    stranger: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    models.register("stranger", stranger)
    check_model({"name": "stranger", "times": 2.0})
    monkeypatch.setattr(Network, "claims", ModelClaims(attention=False, mixes_channels=True))
    with pytest.raises(AssertionError, match=r"stranger breaks 3 of 11 promises of a network:") as broken:
        check_model({"name": "stranger", "times": 2.0})
    said = str(broken.value)
    assert "- scale_claim_is_true: scale_free is True in the network's claims, and False of what it does" in said
    assert "- channel_mixing_claim_is_true: mixes_channels is True in the network's claims, and False" in said


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


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("patchtst", {"positions": "learnd"}, r"positions is 'learnd'; it must be one of .* Did you mean 'learned'\?$"),
        ("patchtst", {"affine": "false"}, r"^patchtst: affine is 'false'; it must be True or False\.$"),
        ("patchtst", {"head_width": 2.5}, r"head_width is 2\.5; it must be a whole number or None\.$"),
        ("patchtst", {"pool": "max"}, r"pool is 'max'; it must be one of 'none', 'mean'\."),
        ("patchtst", {"feed_forward": 0}, r"^patchtst: feed_forward is 0; it must be at least 1\.$"),
        ("timer_xl", {"heads": 0}, r"^timer_xl: heads is 0; it must be at least 1\.$"),
        ("moment", {"width": -8}, r"^moment: width is -8; it must be at least 1\.$"),
        ("mlp", {"depth": "2"}, r"^mlp: depth is '2'; it must be a whole number\.$"),
        ("patchtst", {"attention": 3}, r"An attention is a name, .* not 3"),
        ("patchtst", {"adapters": [3]}, r"An adapter is a name, .* not 3"),
        (
            "mlp",
            {"adapters": [{"name": "lift", "leaders": "two"}]},
            r"^lift: leaders is 'two'; it must be a whole number",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_setting_that_no_network_can_have_is_refused_by_name(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        models.create(name, channels=3, lookback=40, steps=5, **given)


@pytest.mark.parametrize(
    ("size", "least"), {"channels": 1, "lookback": 1, "steps": 1, "marks": 0, "future": 0, "classes": 0}.items()
)
@pytest.mark.usefixtures("unchecked")
def test_a_size_that_is_no_whole_number_is_refused_by_name(size: str, least: int) -> None:
    for given in (37.5, 37.0, "37", None, True, least - 1):
        with pytest.raises(SettingsError) as refused:
            Shape(**{"channels": 3, "lookback": 37, "steps": 5, size: given})
        assert str(refused.value) == f"{size} is {given!r}; it must be a whole number of at least {least}."


@pytest.mark.usefixtures("unchecked")
def test_sizes_reach_networks_as_pythons_own_numbers() -> None:
    model = models.create("patchtst", channels=np.int64(3), lookback=np.int32(37), steps=np.uint8(5))
    assert {type(size) for size in (model.shape.channels, model.shape.lookback, model.shape.steps)} == {int}
    assert model(torch.zeros(2, 3, 37)).shape == (2, 3, 5)
    for name in models.names():
        with pytest.raises(SettingsError, match=r"^lookback is 37\.5; it must be a whole number of at least 1\.$"):
            models.create(name, channels=3, lookback=37.5, steps=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["patchtst", "patchtst_tslib", "powerformer", "moment"])
def test_a_stride_that_would_leave_steps_out_is_shortened_and_reported(name: str) -> None:
    told = rf"^{name}: a stride of 9 would leave out steps between patches of 4, .*; give stride=4 or less\.$"
    with pytest.warns(RearviewWarning, match=told) as heard:
        model = models.create(name, channels=3, lookback=37, steps=5, patch=4, stride=9)
    assert len(heard) == 1
    same = models.create(name, channels=3, lookback=37, steps=5, patch=4, stride=4)
    assert model.patches.tokens == same.patches.tokens == 10
    past = torch.randn(2, 3, 37, requires_grad=True)
    (gradient,) = torch.autograd.grad(model.patches(past).square().sum(), past)
    assert (gradient != 0).all()


def test_plug_ins_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every network asks several times which parts there are, and each look reads all installed distributions."""
    looks = Counter[str]()

    def entry_points(group: str) -> tuple[()]:
        looks[group] += 1
        return ()

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    registry._find_plug_ins.cache_clear()
    for _ in range(3):
        models.create("patchtst", channels=3, lookback=7, steps=5, attention="softmax")
    registry._find_plug_ins.cache_clear()
    assert set(looks) >= {"rearview.attention", "rearview.models"}
    assert set(looks.values()) == {1}


def test_a_package_imports_names_when_they_are_first_used() -> None:
    find = registry.import_lazily("rearview.models", {"contract": ("Shape",)})
    assert find("Shape") is Shape
    with pytest.raises(AttributeError, match=r"module 'rearview\.models' has no attribute 'Shap'"):
        find("Shap")


def test_an_unknown_network_is_refused_with_its_neighbour() -> None:
    with pytest.raises(SettingsError, match=r"no model called 'patchst'\. Did you mean 'patchtst'"):
        models.create("patchst", channels=3, lookback=7, steps=5)


def test_a_network_that_is_half_made_is_refused_when_it_is_registered(stranger: ModuleType) -> None:
    class Unwritten(Model):
        claims = ModelClaims()

    stranger.Network = Unwritten  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match=r"'half' must define forward, which Model leaves open"):
        models.register("half", stranger)
    stranger.Network = torch.nn.Identity  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match=r"must be a subclass of rearview\.models\.Model"):
        models.register("half", stranger)


def test_a_network_without_claims_is_reported_how_to_make_them(stranger: ModuleType) -> None:
    class Silent(Model):
        def forward(self, past, past_marks=None, future_marks=None, *, mask=None):
            return past

    stranger.Network = Silent  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match=r"'silent' has no claims; .* claims = ModelClaims"):
        models.register("silent", stranger)


@pytest.mark.parametrize("name", ["patchtst", "dlinear", "itransformer"])
def test_windows_of_another_size_are_refused_in_a_sentence(name: str) -> None:
    model = models.create(name, channels=3, lookback=24, steps=5)
    assert model(torch.randn(2, 3, 24)).shape == (2, 3, 5)
    words = r"This network takes windows \[batch, channel, time\] of 3 channels and 24 steps and got "
    with pytest.raises(SettingsError, match=words + r"\[2, 24, 3\]; channels come before time: past\.transpose"):
        model(torch.randn(2, 24, 3))
    for shape in ((2, 3, 20), (2, 4, 24), (3, 24)):
        with pytest.raises(SettingsError, match=words + rf"\[{', '.join(map(str, shape))}\]\."):
            model(torch.randn(shape))


@pytest.mark.parametrize(
    ("past", "got"),
    [
        (torch.ones(2, 3, 24, dtype=torch.int64), r"torch\.int64"),
        (torch.ones(2, 3, 24, dtype=torch.bool), r"torch\.bool"),
        (torch.ones(2, 3, 24, dtype=torch.complex64), r"torch\.complex64"),
        (np.ones((2, 3, 24), dtype=np.float32), "ndarray"),
    ],
    ids=["whole", "bool", "complex", "array"],
)
@pytest.mark.usefixtures("unchecked")
def test_windows_that_are_not_of_floating_point_are_refused_in_a_sentence(past: Any, got: str) -> None:
    words = f"takes windows as a tensor of floating point and got {got}; torch.as_tensor.past..float.. makes one"
    for name in models.names():
        with pytest.raises(SettingsError, match=words):
            models.create(name, channels=3, lookback=24, steps=5)(past)


def test_plug_ins_that_fail_are_refused_pairs_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    class Faulty(Model):
        """Asks for blocks in the wrong order."""

        claims = ModelClaims()

        def __init__(self, shape: Shape, settings: object, attention: str) -> None:
            super().__init__(shape)
            raise TypeError("wrong order")

        def forward(self, past: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
            return past

    faulty = ModuleType("faulty", "A network that can't be built.")
    faulty.Settings, faulty.Network = make_dataclass("Settings", [], frozen=True), Faulty  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "faulty", faulty)
    points = (EntryPoint("faulty", "faulty", "rearview.models"), EntryPoint("adrift", "nowhere", "rearview.models"))
    monkeypatch.setattr(registry, "_find_plug_ins", lambda package: [p for p in points if p.group == package])
    monkeypatch.setattr(models, "names", lambda: ["adrift", "dlinear", "faulty"])
    reasons = {(pair.model, pair.attention): pair.reason for pair in pairs.matrix()}
    assert reasons["faulty", "softmax"] == "a plug-in failed when it was built (TypeError: wrong order)."
    assert "can't be imported (ModuleNotFoundError" in reasons["adrift", "softmax"]
    assert {model for model, _ in reasons} == {"adrift", "faulty"}
