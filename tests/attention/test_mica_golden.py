"""MICA with the authors' parameters gives the authors' numbers: all gates and weights, both exclusions, the network."""

import json
from pathlib import Path
from typing import Any

import mica_authors
import numpy as np
import pytest
import torch
from mica_written_out import by_definition
from torch import Tensor

from rearview import attention, models
from rearview.attention import Site, mica
from rearview.attention.mica.memory import append_ones, remember

FOLDER = Path(__file__).parents[1] / "golden"
TOLERANCE = 1e-9
# The softmax over channels that the release forgets to renormalise: eps, 1e-6, weighs up to C - 1 times as much.
EPS_ALONE = 2e-7
LAYERS = [
    f"mica_{gate}_{weighting}"
    for gate in ("shared", "channelwise", "mlp", "mlp_query")
    for weighting in ("uniform", "static", "dynamic")
]


class Golden:
    """One file of numbers made with the authors' code, and our layer with their parameters."""

    def __init__(self, name: str) -> None:
        self.arrays: dict[str, np.ndarray] = dict(np.load(FOLDER / f"{name}.npz", allow_pickle=False))
        self.config: dict[str, Any] = json.loads(str(self.arrays.pop("config")))

    @property
    def stored(self) -> dict[str, np.ndarray]:
        return {name.removeprefix("param/"): array for name, array in self.arrays.items() if name.startswith("param/")}

    def rows(self, name: str) -> Tensor:
        """[batch * channel, ...] as [batch, channel, ...]."""
        return torch.from_numpy(self.arrays[name]).unflatten(0, (self.config["B"], self.config["C"]))

    def layer(self, exclude_self: bool = False) -> mica.Layer:
        config = self.config
        made = attention.create(
            "mica",
            Site(groups=config["C"], tokens=config["P"], width=config["hidden"], heads=config["n_heads"]),
            gate=config["gate"],
            weighting=config["weights"],
            exclude_self=exclude_self,
            key_width=config["d_k"],
            value_width=config["d_v"],
            mlp_width=config["mlp_hidden"],
            mlp_layers=config["mlp_layers"],
        )
        assert isinstance(made, mica.Layer)
        made = made.double().eval()
        used = mica_authors.load(mica_authors.layer(made.state_dict(), made.local.widths), self.stored)
        # Their map to dynamic weights has a bias, the same for all channels: it cancels in the softmax over channels.
        assert set(self.stored) - used <= {"sdp_attn.channel_attn.bias"}
        assert len(used) == len(made.state_dict()) + 4, "three maps of theirs are one of ours"
        return made

    def carry(self) -> tuple[Tensor, Tensor]:
        """Queries and keys whose scores are those that their earlier layer handed on."""
        scores = self.rows("input_prev")
        return scores * self.config["d_k"] ** 0.5, torch.eye(scores.shape[-1], dtype=scores.dtype).expand_as(scores)


def same(ours: Tensor, theirs: Tensor, tolerance: float = TOLERANCE) -> None:
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.fixture(params=LAYERS)
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(request.param)


@torch.no_grad()
def test_inclusion(golden: Golden) -> None:
    layer, x = golden.layer(), golden.rows("input")
    same(layer(x), golden.rows("output_noprev"))


@torch.no_grad()
def test_residual_scores_reach_the_local_path(golden: Golden) -> None:
    layer, x = golden.layer(), golden.rows("input")
    carried, handed_on = layer(x, carry=golden.carry())
    same(carried, golden.rows("output"))
    assert len(handed_on) == 2
    same(layer(x, bias=golden.rows("input_prev")), golden.rows("output"))
    found = layer.local.operator(*layer.local.heads(x)[:2], mica.layer.Inputs(x, carry=golden.carry()))
    same(found, golden.rows("mid/attn_weights"))


@torch.no_grad()
def test_memory_weights_and_both_paths(golden: Golden) -> None:
    layer, x = golden.layer(), golden.rows("input")
    q, k, v = layer.local.heads(x)
    _, phi_k, logs = layer._features(q, k, None)
    w = torch.ones(1, 1, 1, dtype=x.dtype) if logs is None else logs.softmax(1)
    same(w[..., None, None], torch.from_numpy(golden.arrays["mid/w"]))
    memory = remember(phi_k * w[..., None, None], append_ones(v))
    same(memory[:, None, :, :, :-1], torch.from_numpy(golden.arrays["mid/M"]))
    same(memory[:, None, :, :, -1:], torch.from_numpy(golden.arrays["mid/z"]))
    same(layer._across(q, k, v, None), torch.from_numpy(golden.arrays["mid/A_global"]))
    local, _ = layer.local.mix(q, k, v, mica.layer.Inputs(x, carry=golden.carry()))
    same(local, torch.from_numpy(golden.arrays["mid/A_local"]))


@torch.no_grad()
def test_exclusion_is_inclusion_without_the_channel(golden: Golden) -> None:
    found, _ = golden.layer(exclude_self=True)(golden.rows("input"), carry=golden.carry())
    same(found, golden.rows("output_exclusion_by_inclusion"))
    printed = golden.rows("output_exclusion")
    same(found, printed, TOLERANCE if golden.config["weights"] == "uniform" else EPS_ALONE)


@torch.no_grad()
def test_the_reference_is_exclusion_as_released(golden: Golden) -> None:
    layer, given = golden.layer(exclude_self=True), (golden.rows("input"), golden.rows("input_prev"))
    same(by_definition(layer, *given, renormalise=False), golden.rows("output_exclusion"))
    same(by_definition(layer, *given), golden.rows("output_exclusion_by_inclusion"))


@pytest.mark.parametrize(("name", "gate"), [("patchtst_mica", "mlp_query"), ("patchtst_mica_beta", "channelwise")])
@torch.no_grad()
def test_the_network_of_the_paper(name: str, gate: str) -> None:
    golden = Golden(name)
    config = golden.config
    model = models.create(
        "patchtst",
        channels=config["n_series"],
        lookback=config["input_size"],
        steps=config["h"],
        width=config["hidden_size"],
        heads=config["n_heads"],
        depth=config["n_layers"],
        feed_forward=config["linear_hidden_size"],
        dropout=config["dropout"],
        patch=config["patch_len"],
        stride=config["stride"],
        attention={
            "name": "mica",
            "gate": gate,
            "weighting": config["infini_channel_weight_type"],
            "key_width": config["d_k"],
            "mlp_width": config["mlpmixer_hidden_size"],
        },
    )
    model = model.double().eval()
    widths = [config["n_heads"] * config["d_k"]] * 3
    used = mica_authors.load(mica_authors.patchtst(model.state_dict(), widths, config["n_layers"]), golden.stored)
    assert set(golden.stored) == used
    assert len(used) == len(model.state_dict()) + 4 * config["n_layers"]
    past = torch.from_numpy(golden.arrays["input"]).transpose(1, 2)
    same(model(past).transpose(1, 2), torch.from_numpy(golden.arrays["output"]))
