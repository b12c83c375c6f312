"""CAPS and its baseline with the authors' parameters give the authors' numbers, and where ours differ, by how much."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import attention
from rearview.attention import Site, caps
from rearview.attention.caps.paths import PATHS
from rearview.attention.contract import Attention, Inputs

FOLDER = Path(__file__).parents[1] / "golden"
TOLERANCE = 1e-9
CAPS = {
    "qkv.weight": ("W_q.weight", "W_k.weight", "W_v.weight"),
    "signals.weight": ("p_proj.weight", "gate_proj.weight", "clock.weight"),
    "out.weight": ("c_proj.weight",),
}
BASELINE = {name: theirs for name, theirs in CAPS.items() if name != "signals.weight"}


class Golden:
    """One file of numbers made with the authors' code."""

    def __init__(self, name: str) -> None:
        self.arrays: dict[str, np.ndarray] = dict(np.load(FOLDER / f"caps_attention_{name}.npz", allow_pickle=False))
        self.config: dict[str, Any] = json.loads(str(self.arrays.pop("config")))

    def __getitem__(self, name: str) -> Tensor:
        return torch.from_numpy(self.arrays[name])

    @property
    def tokens(self) -> Tensor:
        return self["input"][:, None]

    def heads(self, name: str) -> Tensor:
        """An intermediate [batch, token, head, width] as [batch, 1, head, token, width]."""
        return self[name].transpose(1, 2)[:, None]

    def layer(self, mechanism: str, names: dict[str, tuple[str, ...]], **settings: Any) -> Attention:
        config = self.config
        site = Site(groups=1, tokens=config["T"], width=config["d_model"], heads=config["n_head"])
        made = attention.create(mechanism, site, rotation="released", **settings).double().eval()
        state = {ours: torch.cat([self[f"param/{part}"] for part in theirs]) for ours, theirs in names.items()}
        made.load_state_dict(state, strict=True)
        used = {part for theirs in names.values() for part in theirs}
        held = {name.removeprefix("param/") for name in self.arrays if name.startswith("param/")}
        assert held - used == {"rope.inv_freq"}, "every parameter of theirs has its place in ours"
        return made

    def caps(self, **settings: Any) -> caps.Layer:
        made = self.layer("caps", CAPS, **settings)
        assert isinstance(made, caps.Layer)
        return made


def off(ours: Tensor, theirs: Tensor) -> float:
    return (ours - theirs).abs().max().item()


@pytest.mark.parametrize("name", ["linear", "linear_mild", "linear_long"])
def test_released_numerics_are_the_authors(name: str) -> None:
    golden = Golden(name)
    y = golden.caps(numerics="released")(golden.tokens)
    assert off(y[:, 0], golden["output"]) < TOLERANCE


def test_released_softmax_is_the_authors() -> None:
    golden = Golden("softmax")
    y = golden.caps(numerics="released", normaliser="softmax")(golden.tokens)
    assert off(y[:, 0], golden["output"]) < TOLERANCE


def test_baseline_is_the_authors() -> None:
    golden = Golden("linattn")
    layer = golden.layer("linear_rope", BASELINE)
    assert off(layer(golden.tokens)[:, 0], golden["output"]) < TOLERANCE
    q, k, _ = layer.heads(golden.tokens)
    q, k = layer.rotary(q, k)
    assert off(q, golden.heads("mid/q_rot")) < TOLERANCE
    assert off(k, golden.heads("mid/k_rot")) < TOLERANCE


@pytest.mark.parametrize("name", ["linear", "softmax"])
def test_queries_and_keys_of_each_path_are_the_authors(name: str) -> None:
    golden = Golden(name)
    layer = golden.caps(numerics="released", normaliser="softmax" if name == "softmax" else "linear")
    q, k, v = layer.heads(golden.tokens)
    given = Inputs(golden.tokens)
    found = layer._signals(given)
    q, k = layer._turn(q, k, given, found)
    assert off(q, golden.heads("mid/q_rot")) < TOLERANCE
    assert off(k, golden.heads("mid/k_rot")) < TOLERANCE
    assert off(v, golden.heads("mid/v")) < TOLERANCE
    for number, path in enumerate(PATHS, start=1):
        made = layer.form(path, q, k, found)
        assert made.log_gate is None
        # Released keys of the prefix path reach 1e8: the tolerance is of the number, not of 1.
        for ours, theirs in ((made.q, f"mid/q{number}"), (made.k, f"mid/k{number}")):
            assert_close(ours, golden.heads(theirs), rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("name", ["linear", "linear_mild", "linear_long"])
def test_stable_numerics_are_the_formula(name: str) -> None:
    golden = Golden(name)
    assert off(golden.caps()(golden.tokens)[:, 0], golden["extra/output_stable"]) < TOLERANCE


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("linear_mild", 1e-8, 2e-6), ("linear", 2.0, 2.5), ("linear_long", 18.0, 20.0)],
)
def test_how_far_the_two_numerics_are_apart(name: str, least: float, most: float) -> None:
    golden = Golden(name)
    apart = off(golden.caps()(golden.tokens), golden.caps(numerics="released")(golden.tokens))
    assert least < apart < most


def test_the_released_prefix_path_dies_and_the_stable_one_does_not() -> None:
    golden = Golden("linear_long")
    theirs = golden.heads("mid/path2_diag_weight")
    for numerics, expected in (("released", theirs), ("stable", torch.ones_like(theirs))):
        layer = golden.caps(numerics=numerics)
        found = layer._signals(Inputs(golden.tokens))
        ones = torch.ones_like(theirs)
        path = layer.form("prefix", ones, ones, found)
        assert off(path.q * path.k, expected) < TOLERANCE
    assert theirs[..., 95:, :].median() < 1e-12
