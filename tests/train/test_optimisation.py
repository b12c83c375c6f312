"""The optimiser: who is decayed, how the rate is set, how its state travels."""

import pytest
import torch
from torch import Tensor
from toys import INPUTS, network

from rearview.train import Settings, optimisation
from rearview.train.optimisation import Rate


def names(members: list[Tensor], model: torch.nn.Module) -> list[str]:
    return [name for name, parameter in model.named_parameters() if any(parameter is member for member in members)]


def test_decay_spares_vectors_on_request() -> None:
    model = network()
    everything = optimisation.build(model, Settings(weight_decay=0.1)).param_groups
    assert [(len(group["params"]), group["weight_decay"]) for group in everything] == [(5, 0.1)]
    matrices, vectors = optimisation.build(model, Settings(weight_decay=0.1, decay_all=False)).param_groups
    assert names(matrices["params"], model) == ["0.weight", "4.weight"]
    assert names(vectors["params"], model) == ["1.weight", "1.bias", "4.bias"]
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.1, 0.0)


def test_decay_spares_the_head_on_request() -> None:
    model = torch.nn.ModuleDict({"stack": network(), "head": torch.nn.Linear(3, 5), "headless": torch.nn.Linear(3, 5)})
    decayed, spared = optimisation.build(model, Settings(weight_decay=0.1, decay_head=False)).param_groups
    assert names(spared["params"], model) == ["head.weight", "head.bias"]
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.1, 0.0)
    assert len(decayed["params"]) == 7


def test_frozen_parameters_stay_out() -> None:
    model = network()
    model[0].requires_grad_(False)
    groups = optimisation.build(model, Settings()).param_groups
    assert names(groups[0]["params"], model) == ["1.weight", "1.bias", "4.weight", "4.bias"]


@pytest.mark.parametrize(("name", "kind"), [("adamw", torch.optim.AdamW), ("adam", torch.optim.Adam)])
def test_the_optimiser_is_torchs_fused_one(name: str, kind: type) -> None:
    optimiser = optimisation.build(network(), Settings(optimiser=name, betas=(0.8, 0.95)))
    assert type(optimiser) is kind
    assert optimiser.param_groups[0]["fused"] is True
    assert optimiser.param_groups[0]["betas"] == (0.8, 0.95)


def test_the_rate_changes_and_the_moments_stay() -> None:
    model = network()
    optimiser = optimisation.build(model, Settings())
    model(torch.ones(3, INPUTS)).sum().backward()
    optimiser.step()
    before = {name: value.clone() for name, value in optimisation.moments(model, optimiser).items()}
    optimisation.set_rate(optimiser, Rate(0.25, 0.95))
    assert [(group["lr"], group["betas"]) for group in optimiser.param_groups] == [(0.25, (0.95, 0.999))]
    after = optimisation.moments(model, optimiser)
    assert len(before) == 15
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_moments_go_to_another_optimiser_under_their_names() -> None:
    model = network()
    old = optimisation.build(model, Settings())
    model(torch.ones(3, INPUTS)).sum().backward()
    old.step()
    new = optimisation.build(model, Settings(decay_all=False))
    optimisation.restore_moments(
        model, new, {name: value.clone() for name, value in optimisation.moments(model, old).items()}
    )
    for name, value in optimisation.moments(model, old).items():
        assert torch.equal(optimisation.moments(model, new)[name], value)
    assert [group["weight_decay"] for group in new.param_groups] == [0.0, 0.0]
