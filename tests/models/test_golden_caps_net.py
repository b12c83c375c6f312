"""CAPS's network with the authors' parameters gives the authors' forecast; where ours differs, by how much."""

from typing import Any

import authors
import authors_caps
import pytest
import torch
from test_golden import Golden, same
from torch import Tensor

from rearview import models

RELEASED = {"name": "caps", "numerics": "released", "rotation": "released"}
STABLE = {"name": "caps", "rotation": "released"}
LINEAR = {"name": "linear_rope", "rotation": "released"}
FLOAT32 = 1e-5


def caps_net(golden: Golden, attention: dict[str, Any]) -> models.Model:
    config = golden.config
    model = models.create(
        "caps_net",
        channels=config["C"],
        lookback=config["L"],
        steps=config["H"],
        marks=config["time_emb_dim"],
        future=config["H"] if config["time_emb_dim"] else 0,
        attention=attention,
        width=config["D"],
        value_width=config["d_emb"],
        heads=config["n_head"],
        depth=config["e_layers"],
        targets=config["number_of_targets"],
        causal=False,
    ).double()
    stored = golden.under("param/")
    signals = attention["name"] == "caps"
    views = authors_caps.caps_network(authors.data(model), config["e_layers"], signals)
    written = authors.load(views, stored)
    assert set(stored) - written == {name for name in stored if name.endswith("rope.inv_freq")}
    parts = 2 + 2 * signals
    assert len(written) == len(model.state_dict()) + parts * config["e_layers"], "maps side by side are one of ours"
    return model.eval()


def windows(golden: Golden) -> tuple[Tensor, ...]:
    """Past, and where there are marks those of the past and of the steps ahead (theirs repeat a part of the past)."""
    if not golden.config["time_emb_dim"]:
        return (golden.windows("input"),)
    ahead = golden.windows("input_mark_dec")[..., -golden.config["H"] :]
    return golden.windows("input"), golden.windows("input_mark_enc"), ahead


@pytest.mark.parametrize(
    ("name", "attention"),
    [
        ("caps_network", RELEASED),
        ("caps_network_nomarks", RELEASED),
        ("caps_network_targets2_linattn", LINEAR),
    ],
)
def test_caps_net_gives_the_authors_tokens_and_forecast(name: str, attention: dict[str, Any]) -> None:
    golden = Golden(name)
    model = caps_net(golden, attention)
    past, *marks = windows(golden)
    tokens = model.read(past, *(marks or (None, None)), None).tokens
    same(tokens, golden.tensor("mid/h0"))
    ours = model(past, *marks)
    same(ours, golden.windows("output_f64"))
    torch.testing.assert_close(ours, golden.windows("output"), rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize("name", ["caps_network", "caps_network_nomarks"])
def test_stable_numerics_are_another_model_than_the_released_ones(name: str) -> None:
    golden = Golden(name)
    past, *marks = windows(golden)
    ours = caps_net(golden, STABLE)(past, *marks)
    same(ours, golden.tensor("extra/output_stable").transpose(1, 2))
    assert (ours - golden.windows("output_f64")).abs().max() > 0.1
