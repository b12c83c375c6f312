"""RBCA and Powerformer give the authors' numbers: masks, gradients of alpha, and whole networks layer by layer."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import models
from rearview.attention import rbca
from rearview.attention.contract import Inputs, Site
from rearview.attention.rbca.biased_attention import expand_ages

FOLDER = Path(__file__).parents[1] / "golden"
EXACT = {"rtol": 1e-9, "atol": 1e-9}
TOKENS = 42
MASKS = {  # the authors' name of a mask, with ours
    "powerLaw": ("power_law", "alpha", {}),
    "simPowerLaw": ("similarity_power_law", "alpha", {}),
    "butter1": ("butterworth", "scale", {"order": 1}),
    "butter2": ("butterworth", "scale", {"order": 2}),
    "step": ("step", "scale", {}),
}


def golden(name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    arrays = dict(np.load(FOLDER / f"{name}.npz", allow_pickle=False))
    config = json.loads(str(arrays.pop("config")))
    return {key: torch.from_numpy(array) for key, array in arrays.items()}, config


def mask_settings(theirs: str, rate: float, **further: Any) -> rbca.Settings:
    bias, rate_name, settings = MASKS[theirs]
    return rbca.Settings(bias=bias, **{rate_name: rate}, **settings, **further)


def mask_decay(settings: rbca.Settings) -> rbca.Decay:
    return rbca.Decay(Site(groups=1, tokens=TOKENS, width=6, heads=2), settings)


def masks() -> list[tuple[str, float]]:
    _, config = golden("rbca_masks")
    return [(kind, rate) for kind, rates in config["grid"].items() for rate in rates if kind in MASKS]


@pytest.mark.parametrize(("kind", "rate"), masks())
def test_masks_are_the_authors(kind: str, rate: float) -> None:
    stored, _ = golden("rbca_masks")
    released = stored[f"output/{kind}_{rate}"]
    decay = mask_decay(mask_settings(kind, rate))
    ours = decay(TOKENS, torch.zeros(1, dtype=torch.float64))
    assert ours.shape == (1, TOKENS, TOKENS)
    assert torch.equal(ours[0].isinf(), released.isinf())
    exact = stored.get(f"output_f64/{kind}_{rate}", released)
    # Masks that the release has in float32 alone are compared exactly: they hold 0 and -inf only.
    assert_close(ours[0], exact.double(), **EXACT)
    assert_close(decay(TOKENS, torch.zeros(1))[0], released.float(), rtol=1e-6, atol=1e-6)


def test_every_stored_mask_is_compared() -> None:
    stored, _ = golden("rbca_masks")
    assert {f"output/{kind}_{rate}" for kind, rate in masks()} | {"output/causal_0", "output/none_0"} == {
        key for key in stored if key.startswith("output/")
    }


def test_the_causal_mask_is_the_authors() -> None:
    stored, _ = golden("rbca_masks")
    ours = mask_decay(rbca.Settings(bias="causal"))(TOKENS, torch.zeros(1))[0]
    assert torch.equal(ours, stored["output/causal_0"])
    assert (stored["output/none_0"] == 0).all(), "no mask at all is softmax, not rbca"


@pytest.mark.parametrize("name", ["powerLaw_0.5", "powerLaw_1.0", "simPowerLaw_0.5", "simPowerLaw_2.0"])
@pytest.mark.parametrize("floor", [None, 0.0])
def test_gradients_of_alpha_are_the_authors(name: str, floor: float | None) -> None:
    stored, _ = golden("rbca_masks")
    kind, _, start = name.partition("_")
    sign = -1.0 if kind == "powerLaw" else 1.0  # the release stores -alpha for the power law
    settings = mask_settings(kind, float(start), learnable=True, floor=floor)
    decay = mask_decay(settings).double()
    assert sign * decay.alpha.item() == stored[f"grad_param/{name}"]
    mask = decay(TOKENS, torch.zeros(1, dtype=torch.float64))[0]
    (mask.masked_fill(mask.isinf(), 0) * stored["input_weight"]).sum().backward()
    assert_close(sign * decay.alpha.grad.squeeze(), stored[f"grad/{name}"], rtol=1e-9, atol=0)


NETWORKS = {
    "powerformer_none": "softmax",
    "powerformer_powerlaw": {"name": "rbca", "bias": "power_law", "alpha": 0.5},
    "powerformer_simpowerlaw": {"name": "rbca", "bias": "similarity_power_law", "alpha": 0.5},
    "powerformer_butter2": {"name": "rbca", "bias": "butterworth", "order": 2, "scale": 5},
    "powerformer_powerlaw_learned": {"name": "rbca", "bias": "power_law", "alpha": 0.5, "learnable": True},
}
OURS = {
    "model.backbone.W_P": "patches.project",
    "self_attn.to_out.0": "attend.out",
    "norm_attn.1": "norm_attended",
    "ff.0": "feed_forward.0",
    "ff.3": "feed_forward.3",
    "norm_ffn.1": "norm_fed",
    "model.backbone.encoder.layers": "stack.blocks",
}


def views(model: models.Model) -> Iterator[tuple[str, Tensor]]:
    """Under each of the authors' names a view of our tensor."""
    for ours, tensor in model.state_dict().items():
        name = ours
        for theirs, part in OURS.items():
            name = name.replace(part, theirs)
        if ours == "positions.table":
            yield "model.backbone.W_pos", tensor
        elif ours == "head.weight":  # they flatten width-major, we patch-major
            yield "model.head.linear.weight", tensor.view(len(tensor), model.patches.tokens, -1).transpose(1, 2)
        elif ours == "head.bias":
            yield "model.head.linear.bias", tensor
        elif ".attend.qkv." in ours:
            yield from zip(
                (name.replace("attend.qkv", f"self_attn.W_{x}") for x in "QKV"), tensor.chunk(3), strict=True
            )
        elif ours.endswith("decay.alpha"):
            yield name.replace("attend.decay.alpha", "self_attn.sdp_attn.mask_scale"), tensor
        else:
            yield name, tensor


def powerformer(stored: dict[str, Tensor], config: dict[str, Any], attention: Any) -> models.Model:
    model = models.create(
        "patchtst",
        channels=config["enc_in"],
        lookback=config["seq_len"],
        steps=config["pred_len"],
        attention=attention,
        width=config["d_model"],
        heads=config["n_heads"],
        depth=config["e_layers"],
        feed_forward=config["d_ff"],
        dropout=config["dropout"],
        patch=config["patch_len"],
        stride=config["stride"],
    ).double()
    theirs = {name.removeprefix("param/"): value for name, value in stored.items() if name.startswith("param/")}
    for name, view in views(model):
        value = theirs.pop(name)
        view.copy_((-value if name.endswith("mask_scale") else value).reshape(view.shape))
    # What is left is fixed by the settings: the scale of the scores, and alpha where it is not learned.
    assert {name.rpartition(".")[2] for name in theirs} <= {"scale", "mask_scale"}
    return model.eval()


@pytest.mark.parametrize("name", NETWORKS)
def test_powerformer_gives_the_authors_forecast_and_every_layers_attention(name: str) -> None:
    stored, config = golden(name)
    model = powerformer(stored, config, NETWORKS[name])
    past = stored["input"].transpose(1, 2).contiguous()
    assert_close(model(past), stored["output"].transpose(1, 2), **EXACT)
    weights = model.weights(past)
    assert len(weights) == config["e_layers"] == 3
    for layer, operator in enumerate(weights):
        assert_close(operator.flatten(0, 1), stored[f"mid/attn_weights_{layer}"], **EXACT)


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "powerformer_none"])
def test_powerformer_adds_up_scores_and_masks_as_the_authors_do(name: str) -> None:
    stored, config = golden(name)
    model = powerformer(stored, config, NETWORKS[name])
    normalised, _ = model.normalise(stored["input"].transpose(1, 2).contiguous(), None)
    tokens, carry = model.tokenise(normalised, None, None), ()
    total = torch.zeros(11, 11, dtype=torch.float64)
    met = 0
    for layer, block in enumerate(model.stack.blocks):
        tokens, carry = block(Inputs(tokens, carry=carry))
        queries, keys, profile = carry
        total = total + stored[f"mid/decay_mask_{layer}"]
        mask = expand_ages(profile, 11, 11)
        assert_close(mask[0], total, **EXACT)
        assert_close(tokens.flatten(0, 1), stored[f"mid/layer_out_{layer}"], **EXACT)
        if f"mid/attn_scores_{layer}" in stored:
            scores = queries @ keys.transpose(-1, -2) * block.attend.site.per_head**-0.5 + mask
            assert_close(scores.flatten(0, 1), stored[f"mid/attn_scores_{layer}"], **EXACT)
            met += 1
    assert met == (3 if name == "powerformer_powerlaw" else 0)


def test_the_closed_butterworth_form_is_near_the_released_one() -> None:
    stored, config = golden("rbca_masks")
    for order in (1, 2):
        for scale in config["grid"][f"butter{order}"]:
            released = stored[f"output/butter{order}_{scale}"][-1].flip(0)
            end = int(scale * np.pi * 511 / 1024)
            ages = torch.arange(end + 1, dtype=torch.float64)
            closed = -2.5 * ((ages / scale).tan() / np.tan(0.4 * np.pi)).pow(2 * order).log1p()
            assert (closed - released[: end + 1]).abs().max() < (1e-3 if scale <= 10 else 0.02)
            assert released[end + 1 :].isinf().all()
