"""The shelf of mechanisms: names, descriptions, refusals, and parts that third parties put on it."""

import math
import re
import subprocess
import sys
from dataclasses import dataclass, field, make_dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from strangers import FAULTS, Primed, RunningMean, claiming, module

from rearview import attention
from rearview.attention import softmax
from rearview.attention.contract import Projected
from rearview.core import registry
from rearview.core.errors import SettingsError
from rearview.core.settings import settings_table
from rearview.testing import ATTENTION_PROMISES, check_attention

STRANGERS = {"running_mean": RunningMean, "primed": Primed}
SITE = attention.Site(groups=3, tokens=7, width=10, heads=5)


@pytest.fixture(autouse=True)
def _own_shelf(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(attention._SHELF, "_added", {})


@pytest.mark.parametrize("promise", ATTENTION_PROMISES, ids=lambda promise: promise.__name__)
@pytest.mark.parametrize("name", STRANGERS)
def test_an_honest_stranger_passes(name: str, promise) -> None:
    attention.register(name, module(name, STRANGERS[name]))
    promise(name)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("size", ["groups", "tokens", "width", "heads", "layers", "head_width", "value_width"])
def test_a_size_of_a_place_that_is_no_whole_number_is_refused_by_name(size: str) -> None:
    sizes = {"groups": 3, "tokens": 7, "width": 10, "heads": 5}
    for given in (2.5, 5.0, "5", True, 0):
        with pytest.raises(
            SettingsError, match=rf"^Site\.{size} is {given!r}; it must be a whole number of at least 1\.$"
        ):
            attention.Site(**{**sizes, size: given})
    place = attention.Site(**{**sizes, size: np.int64(5)})
    assert type(getattr(place, size)) is int


@pytest.mark.usefixtures("unchecked")
def test_a_layer_is_made_of_a_name_and_a_place() -> None:
    with pytest.raises(SettingsError, match=r"made for a place in a network, such as attention\.Site\(.*not for 128"):
        attention.create("softmax", 128)
    with pytest.raises(SettingsError, match=r"name of the attention is \{'name': 'rbca'\}; give a text, .* by keyword"):
        attention.create({"name": "rbca"}, SITE)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ["softmax", "rbca", "prime"])
@pytest.mark.parametrize(
    ("what", "axes"),
    [
        ("bias", "batch, group, head, query, key], here [2, 3, 5, 7, 7]"),
        ("gate", "batch, group, head, query, key], here [2, 3, 5, 7, 7]"),
        ("ages", "batch, group, query, key], here [2, 3, 7, 7]"),
    ],
)
def test_what_does_not_fit_the_pairs_is_refused_by_name(name: str, what: str, axes: str) -> None:
    layer, x = attention.create(name, SITE), torch.randn(2, 3, 7, 10)
    for wrong in (torch.ones(4, 4), torch.ones(2, 1, 1, 1, 1, 1), torch.ones(11, 1, 7, 7)):
        for call in (layer, layer.weights):
            with pytest.raises(SettingsError) as refused:
                call(x, **{what: wrong})
            assert str(refused.value).startswith(f"What is given as {what} must fit [{axes}, with 1 or nothing")
            assert str(refused.value).endswith(f"this one is {list(wrong.shape)}.")


@pytest.mark.parametrize("promise", FAULTS)
def test_a_fault_is_caught(promise: str) -> None:
    attention.register("faulty", module("faulty", FAULTS[promise], softmax.Settings))
    by_name = {each.__name__: each for each in ATTENTION_PROMISES}
    with pytest.raises((AssertionError, RuntimeError)):
        by_name[promise]("faulty")


def test_every_broken_promise_is_named_at_once() -> None:
    state = torch.get_rng_state()
    check_attention({"name": "linear", "eps": 1e-3})
    assert torch.equal(torch.get_rng_state(), state)
    attention.register("faulty", module("faulty", claiming(causal=True, takes_bias=False), softmax.Settings))
    with pytest.raises(AssertionError, match=r"faulty breaks .* of 26 promises") as broken:
        check_attention("faulty")
    assert "causal_claim_is_true: causal is True in the layer's claims, and False of what it does" in str(broken.value)
    assert "bias_claim_is_true: takes_bias is False" in str(broken.value)
    assert isinstance(broken.value.__cause__, ExceptionGroup)


def test_the_promises_need_no_test_runner() -> None:
    program = "import sys, rearview.testing; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout.split()
    assert not {"pytest", "polars", "pandas", "hypothesis"} & set(loaded)


def test_the_folder_is_the_shelf() -> None:
    """Every module and package but those set aside and those with a leading underscore."""
    (folder,) = attention.__path__
    places = [Path(folder), *(Path(folder) / family for family in attention._SHELF.families)]
    found = (path.stem for place in places for path in place.iterdir())
    parts = {name for name in found if not name.startswith(("_", "."))}
    assert set(attention.names()) == parts - {*attention._SHELF.aside, *attention._SHELF.families}
    assert {"linear", "softmax"} <= parts


PART = '"""A part, {name}.\n\nMore."""\n{body}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> registry.Shelf:
    """A shelf of a module, a package, a family of two, and what stands beside them; importing `heavy` fails."""
    files = {
        "__init__": PART.format(name="the shelf", body=""),
        "small": PART.format(name="small", body="Layer = Settings = int"),
        "heavy": PART.format(name="heavy", body="raise RuntimeError('imported')"),
        "_hidden": "",
        "contract": "",
        "large/__init__": PART.format(name="large", body="from somewhere_else.large.layer import Layer, Settings"),
        "large/layer": "Layer = Settings = float",
        "related/__init__": '"""Related parts."""',
        "related/first": PART.format(name="first", body="Layer = Settings = str"),
        "related/second/__init__": PART.format(name="second", body="Layer = Settings = bytes"),
        "related/contract": "",
        "related/_base": "",
        "helpers/__init__": "",
        "helpers/one": "",
    }
    for name, text in files.items():
        path = tmp_path / "somewhere_else" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield registry.Shelf(
        "somewhere_else", "part", ("Settings", "Layer"), aside=("contract", "helpers"), families=("related",)
    )
    for name in [name for name in sys.modules if name.partition(".")[0] == "somewhere_else"]:
        del sys.modules[name]


def test_listing_and_summaries_import_no_part(folder: registry.Shelf) -> None:
    assert folder.names() == ["first", "heavy", "large", "second", "small"]
    assert [folder.summary(name) for name in folder.names()] == [f"A part, {name}." for name in folder.names()]
    loaded = {name for name in sys.modules if name.startswith("somewhere_else")}
    assert loaded <= {"somewhere_else", "somewhere_else.related"}


def test_a_part_is_a_module_a_package_or_one_of_a_family(folder: registry.Shelf) -> None:
    layers = {name: folder.module(name).Layer for name in ("first", "large", "second", "small")}
    assert layers == {"first": str, "large": float, "second": bytes, "small": int}
    assert folder.own()["second"] == "somewhere_else.related.second"
    for name in ("related", "helpers", "contract", "one", "layer"):
        with pytest.raises(SettingsError, match=f"no part called '{name}'"):
            folder.module(name)


def test_a_registered_mechanism_stands_beside_the_others() -> None:
    before = attention.names()
    attention.register("primed", module("primed", Primed))
    assert attention.names() == sorted([*before, "primed"])
    layer = attention.create("primed", SITE, share=0.25)
    assert layer(torch.zeros(2, 3, 7, 10)).shape == (2, 3, 7, 10)
    assert attention.summary("primed") == "A stranger called primed, for tests."
    about = attention.describe("primed")
    assert about.details == "And some details."
    (share,) = about.settings
    assert (share.name, share.kind, share.default) == ("share", "float", "0.5")
    assert share.meaning == "How much of the mixture comes from the group itself."


@pytest.mark.parametrize("name", ["softmax", "primed"])
def test_a_name_is_given_once(name: str) -> None:
    attention.register("primed", module("primed", Primed))
    with pytest.raises(SettingsError, match=f"attention called '{name}' already"):
        attention.register(name, module(name, Primed))


def test_an_incomplete_module_is_refused() -> None:
    bare = module("bare", Primed)
    del bare.Layer
    with pytest.raises(SettingsError, match=r"'bare' must define Settings and Layer; it lacks Layer\."):
        attention.register("bare", bare)
    assert "bare" not in attention.names()


class Unwritten(Projected):
    """What a beginner leaves out."""

    def __init__(self, site: attention.Site, settings: Any) -> None:
        super().__init__(site)


def test_a_layer_with_methods_to_write_is_refused_when_it_is_registered() -> None:
    with pytest.raises(
        SettingsError,
        match="The Layer of the attention 'half' must define mix and operator, which Projected leaves open",
    ):
        attention.register("half", module("half", Unwritten))
    with pytest.raises(SettingsError, match=r"must be a subclass of rearview\.attention\.Attention"):
        attention.register("half", module("half", torch.nn.Identity))
    assert "half" not in attention.names()


class Doubling(attention.Attention):
    """A mechanism with maps of its own, which overrides the public methods and not `attend` and `weigh`."""

    def __init__(self, site: attention.Site, settings: Any) -> None:
        super().__init__(site)
        self.claims = attention.Claims(takes_bias=False)

    def forward(self, x, *, mask=None, bias=None, ages=None, carry=None):
        return 2 * x if carry is None else (2 * x, carry)

    def weights(self, x, *, mask=None, bias=None, ages=None, carry=None):
        return 2 * torch.eye(x.shape[2]).expand(*x.shape[:2], 1, -1, -1)

    def values(self, x):
        return x[:, :, None]

    def project(self, heads):
        return heads[:, :, 0]


def test_a_layer_may_override_forward_and_weights_alone() -> None:
    attention.register("doubling", module("doubling", Doubling))
    layer, x = attention.create("doubling", SITE), torch.randn(2, 3, 7, 10)
    assert torch.equal(layer(x), 2 * x)
    assert torch.equal(layer.project(layer.weights(x) @ layer.values(x)), 2 * x)


def test_a_layer_that_defines_neither_form_is_refused() -> None:
    class Silent(Doubling):
        forward = attention.Attention.forward

    with pytest.raises(SettingsError, match="'silent' must define attend, or forward itself"):
        attention.register("silent", module("silent", Silent))


def test_a_layer_without_claims_is_reported_how_to_make_them() -> None:
    class Silent(Primed):
        def __init__(self, site: attention.Site, settings: Any) -> None:
            super().__init__(site, settings)
            del self.claims

    attention.register("silent", module("silent", Silent))
    with pytest.raises(SettingsError, match=r"'silent' says nothing of itself; give it claims, such as self\.claims ="):
        attention.create("silent", SITE)


def plug_in(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    monkeypatch.setattr(registry, "_find_plug_ins", lambda package: tuple(p for p in points if p.group == package))


def test_a_plug_in_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "somebody_primed", module("somebody_primed", Primed))
    plug_in(monkeypatch, EntryPoint("primed", "somebody_primed", "rearview.attention"))
    assert "primed" in attention.names()
    assert isinstance(attention.create("primed", SITE), Primed)
    assert attention.summary("primed") == "A stranger called somebody_primed, for tests."


def test_a_plug_in_without_a_layer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, EntryPoint("decoder", "json", "rearview.attention"))
    with pytest.raises(SettingsError, match="'decoder' must define Settings and Layer"):
        attention.create("decoder", SITE)


def test_a_plug_in_that_cannot_be_imported_is_named_and_the_others_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, EntryPoint("adrift", "somebody_adrift", "rearview.attention"))
    reason = (
        r"The plug-in somebody_adrift, .* 'adrift', can't be imported \(ModuleNotFoundError: .*\); mend or uninstall"
    )
    with pytest.raises(SettingsError, match=reason):
        attention.create("adrift", SITE)
    lines = {name: attention.summary(name) for name in attention.names()}
    assert re.match(reason, lines["adrift"])
    assert lines["softmax"].startswith("Softmax attention")
    with pytest.raises(SettingsError, match="no attention called 'adift'"):
        attention.summary("adift")


def test_a_plug_in_never_replaces_a_part_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, EntryPoint("softmax", "somebody.softmax", "rearview.attention"))
    with pytest.raises(SettingsError, match=r"rearview\.attention\.softmax, somebody\.softmax"):
        attention.create("softmax", SITE)


def test_what_is_unknown_is_refused_with_its_neighbour() -> None:
    with pytest.raises(SettingsError, match=r"no attention called 'sotfmax'\. Did you mean 'softmax'"):
        attention.create("sotfmax", SITE)
    with pytest.raises(SettingsError, match=r"linear has no setting 'epss'\. Did you mean 'eps'"):
        attention.create("linear", SITE, epss=1e-3)
    attention.register("plain", module("plain", Primed, make_dataclass("Settings", [])))
    with pytest.raises(SettingsError, match=r"plain has no setting 'alpha'\. It has none"):
        attention.create("plain", SITE, alpha=0.5)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("linear", {"eps": "small"}, r"^linear: eps is 'small'; it must be a number\.$"),
        ("linear", {"eps": math.nan}, r"eps is nan; it must be at least 0"),
        ("gat", {"slope": math.inf}, r"^gat: slope is inf; it must be a number\.$"),
        ("softmax", {"rotary": "no"}, r"^softmax: rotary is 'no'; it must be True or False\.$"),
        ("hyperglu", {"rank": 2.0}, r"^hyperglu: rank is 2\.0; it must be a whole number\.$"),
        ("hyperglu", {"score_width": True}, r"score_width is True; it must be a whole number or None\.$"),
        ("gat", {"features": "lead-lag"}, r"must be one of 'full', 'lead_lag', .*\. Did you mean 'lead_lag'\?$"),
        ("mica", {"channel_weights": {"a": 1.0}}, r"it must be a list, each a number or None\.$"),
        ("mica", {"local": 3}, r"An attention is a name, such as 'rbca', or a mapping .* not 3"),
        ("prime", {"bias": 1.5}, r"^prime: bias is 1\.5; it must be a word or a mapping or None\.$"),
        ("rbca", {"window": 2.5}, r"^rbca: window is 2\.5; it must be a whole number or 'auto' or None\.$"),
        ("gat", {"edges": "all"}, r"gat: edges is 'all'; give pairs"),
        ("gat", {"edges": [[0, 1.5]]}, r"gat: an edge names a token by a fraction"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_value_of_another_kind_is_refused_by_name(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        attention.create(name, SITE, **given)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("linear", {"eps": 1}),
        ("hyperglu", {"rank": np.int64(3), "score_scale": np.float32(0.5)}),
        ("caps", {"paths": ["clock"]}),
        ("mica", {"channel_weights": [1, 2.5, 0], "local": {"name": "rbca", "alpha": (0.5, 1, 0, 0.25, 2)}}),
        ("rbca", {"window": "auto", "order": 2}),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_value_that_stands_for_its_kind_is_taken(name: str, given: dict[str, Any]) -> None:
    assert attention.create(name, SITE, **given).settings


def test_an_attention_is_named_alone_or_with_settings() -> None:
    assert attention.split(None) == ("softmax", {})
    assert attention.split("linear") == ("linear", {})
    spec = {"name": "linear", "eps": 0.5}
    assert attention.split(spec) == ("linear", {"eps": 0.5})
    assert "name" in spec, "the caller's mapping is left as it was"
    with pytest.raises(SettingsError, match="needs a 'name'; got the keys eps"):
        attention.split({"eps": 0.5})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": 0}, "Site.groups is 0"),
        ({"tokens": 0}, "Site.tokens is 0"),
        ({"heads": 3}, "width 10 can't be shared evenly by 3 heads"),
        ({"head_width": 0}, "Site.head_width is 0"),
        ({"value_width": 0}, "Site.value_width is 0"),
        ({"dropout": 1.0}, "dropout is 1.0"),
    ],
)
def test_an_impossible_place_is_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        attention.Site(**{"groups": 3, "tokens": 7, "width": 10, "heads": 5, **changes})


def test_a_head_may_have_a_width_of_its_own() -> None:
    assert attention.Site(groups=3, tokens=7, width=10, heads=5).per_head == 2
    assert attention.Site(groups=3, tokens=7, width=11, heads=5, head_width=13).per_head == 13


def test_settings_are_described_by_the_text_beside_them() -> None:
    @dataclass(frozen=True)
    class Beside:
        """Settings inside a function, as a notebook might have them."""

        needed: int
        """A number that
        has no default."""
        edges: tuple[int, ...] = field(default_factory=lambda: (2, 3))
        """Made afresh."""
        bare: float = 0.5

    rows = [(row.name, row.kind, row.default, row.meaning) for row in settings_table(Beside)]
    assert rows == [
        ("needed", "int", "required", "A number that has no default."),
        ("edges", "[int, ...]", "(2, 3)", "Made afresh."),
        ("bare", "float", "0.5", ""),
    ]


def test_settings_without_a_text_are_listed_all_the_same() -> None:
    made = make_dataclass("Made", [("share", float, 0.5)])
    (row,) = settings_table(made)
    assert (row.name, row.default, row.meaning) == ("share", "0.5", "")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", attention.names())
def test_masks_and_biases_of_another_meaning_are_refused(name: str) -> None:
    """As numbers, a boolean mask of pairs would add 1 to the scores it allows and hide nothing."""
    layer = attention.create(name, attention.Site(groups=3, tokens=5, width=8, heads=2))
    x = torch.randn(2, 3, 5, 8)
    for mask in (torch.ones(2, 3, 5), torch.ones(2, 5, dtype=torch.bool), torch.ones(2, 3, 4, dtype=torch.bool)):
        for call in (layer, layer.weights):
            with pytest.raises(SettingsError, match=r"boolean, \[batch, group, token\], here \[2, 3, 5\]"):
                call(x, mask=mask)
    for call in (layer, layer.weights):
        with pytest.raises(SettingsError, match=r"this one is torch\.bool\. Of a mask that is True"):
            call(x, bias=torch.ones(5, 5, dtype=torch.bool))
