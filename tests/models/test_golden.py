"""Our networks with the authors' parameters give the authors' numbers: outputs, attention, gradients, statistics."""

import json
from pathlib import Path
from typing import Any

import authors
import numpy as np
import pytest
import torch
from torch import Tensor

from rearview import models
from rearview.attention.contract import Inputs

FOLDER = Path(__file__).parents[1] / "golden"
TOLERANCE = 1e-9
SIZES = {
    "lookback": "seq_len",
    "steps": "pred_len",
    "width": "d_model",
    "heads": "n_heads",
    "depth": "e_layers",
    "feed_forward": "d_ff",
    "dropout": "dropout",
    "activation": "activation",
    "patch": "patch_len",
    "stride": "stride",
}
"""What the authors call our sizes."""
BLOCKS = ("width", "heads", "depth", "feed_forward", "dropout")


class Golden:
    """One file of numbers made with the authors' code."""

    def __init__(self, name: str) -> None:
        self.arrays: dict[str, np.ndarray] = dict(np.load(FOLDER / f"{name}.npz", allow_pickle=False))
        self.config: dict[str, Any] = json.loads(str(self.arrays.pop("config")))

    def sizes(self, *names: str) -> dict[str, Any]:
        """The authors' values of these settings of ours."""
        return {name: self.config[SIZES[name]] for name in names}

    def under(self, prefix: str) -> dict[str, np.ndarray]:
        """The arrays whose names begin so, without the beginning."""
        return {name.removeprefix(prefix): array for name, array in self.arrays.items() if name.startswith(prefix)}

    def tensor(self, name: str) -> Tensor:
        return torch.from_numpy(self.arrays[name])

    def windows(self, name: str) -> Tensor:
        """[batch, time, channel] as the [batch, channel, time] that our models take and give."""
        return self.tensor(name).transpose(1, 2).contiguous()


def same(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs.reshape(ours.shape), rtol=TOLERANCE, atol=TOLERANCE)


def patchtst(golden: Golden) -> models.Model:
    config = golden.config
    model = models.create(
        "patchtst",
        channels=config["enc_in"],
        attention="softmax",
        **golden.sizes(*BLOCKS, "lookback", "steps", "patch", "stride"),
    ).double()
    stored = golden.under("param/")
    written = authors.load(authors.patchtst(authors.data(model), config["e_layers"]), stored)
    written |= authors.load(authors.patchtst(authors.data(model), config["e_layers"], buffers=True), stored)
    scales = {name for name in stored if name.endswith("sdp_attn.scale")}
    assert set(stored) - written == scales
    assert len(written) == len(model.state_dict()) + 4 * config["e_layers"], "three maps of theirs are one of ours"
    for name in scales:
        assert stored[name] == pytest.approx((config["d_model"] // config["n_heads"]) ** -0.5)
    return model


def itransformer(golden: Golden, marks: bool) -> models.Model:
    config = golden.config
    model = models.create(
        "itransformer",
        channels=config["channels"],
        marks=config["marks"] if marks else 0,
        **golden.sizes(*BLOCKS, "lookback", "steps", "activation"),
        normalise="revin" if config["use_norm"] else "none",
    ).double()
    stored = golden.under("param/")
    assert authors.load(authors.itransformer(authors.data(model), config["e_layers"]), stored) == set(stored)
    return model


@pytest.mark.parametrize("name", ["patchtst_official", "powerformer_none"])
def test_patchtst_gives_the_authors_forecast_and_attention(name: str) -> None:
    golden = Golden(name)
    model = patchtst(golden).eval()
    past = golden.windows("input")
    same(model(past), golden.windows("output"))
    weights = model.weights(past)
    assert len(weights) == golden.config["e_layers"] == 3
    for layer, operator in enumerate(weights):
        assert isinstance(operator, Tensor)
        same(operator, golden.tensor(f"mid/attn_weights_{layer}"))


def test_patchtst_adds_up_the_scores_of_its_layers_as_the_authors_do() -> None:
    golden = Golden("patchtst_official")
    model = patchtst(golden).eval()
    normalised, _ = model.normalise(golden.windows("input"), None)
    tokens, carry = model.tokenise(normalised, None, None), ()
    for layer, block in enumerate(model.stack.blocks):
        tokens, carry = block(Inputs(tokens, carry=carry))
        queries, keys = carry
        scores = queries @ keys.transpose(-1, -2) * block.attend.site.per_head**-0.5
        same(scores, golden.tensor(f"mid/attn_scores_{layer}"))
        same(tokens, golden.tensor(f"mid/layer_out_{layer}"))


def test_patchtst_in_training_gives_the_authors_forecast_and_statistics() -> None:
    golden = Golden("patchtst_official_train")
    model = patchtst(golden).train()
    same(model(golden.windows("input")), golden.windows("output"))
    after = dict(authors.patchtst(authors.data(model), golden.config["e_layers"], buffers=True))
    expected = golden.under("output_buffer/")
    assert set(after) == set(expected)
    for name, statistic in after.items():
        same(statistic, torch.from_numpy(expected[name]))


@pytest.mark.parametrize("marks", [True, False], ids=["marks", "nomarks"])
@pytest.mark.parametrize("name", ["itransformer", "itransformer_nonorm"])
def test_itransformer_gives_the_authors_forecast_and_attention(name: str, marks: bool) -> None:
    golden = Golden(name)
    model = itransformer(golden, marks).eval()
    past, past_marks = golden.windows("input_x"), golden.windows("input_x_mark") if marks else None
    kind = "marks" if marks else "nomarks"
    same(model(past, past_marks), golden.windows(f"output_{kind}"))
    weights = model.weights(past, past_marks)
    assert len(weights) == golden.config["e_layers"]
    for layer, operator in enumerate(weights):
        assert isinstance(operator, Tensor)
        same(operator, golden.tensor(f"mid/{kind}/layer{layer}_attn"))


@pytest.mark.parametrize("name", ["itransformer", "itransformer_nonorm"])
def test_itransformer_has_the_authors_gradients(name: str) -> None:
    golden = Golden(name)
    model = itransformer(golden, marks=True)
    past = golden.windows("input_x").requires_grad_()
    (model(past, golden.windows("input_x_mark")) * golden.windows("input_cotangent")).sum().backward()
    ours = dict(authors.itransformer(authors.gradients(model), golden.config["e_layers"]))
    expected = golden.under("output_grad/")
    assert len(expected) == 4
    for parameter, gradient in expected.items():
        same(ours[parameter], torch.from_numpy(gradient))
    if "output_grad_x" in golden.arrays:
        same(past.grad, golden.windows("output_grad_x"))
    else:
        assert golden.config["use_norm"], "the authors' code has no input gradient where it normalises in place"


@pytest.mark.parametrize(
    ("variant", "kernel", "output"),
    [("shared", 9, "shared"), ("individual", 9, "individual"), ("shared", 25, "shared_kernel25")],
)
def test_dlinear_gives_the_authors_forecast(variant: str, kernel: int, output: str) -> None:
    golden = Golden("dlinear")
    config, individual = golden.config, variant == "individual"
    model = models.create(
        "dlinear",
        channels=config["enc_in"],
        lookback=config["seq_len"],
        steps=config["pred_len"],
        kernel=kernel,
        individual=individual,
    ).double()
    stored = golden.under(f"param_{variant}/")
    copies = config["enc_in"] if individual else 1
    assert authors.load(authors.dlinear(authors.data(model), copies, individual), stored) == set(stored)
    past = golden.windows("input_x")
    same(model.average(past), golden.windows("mid/trend_kernel25" if kernel == 25 else "mid/trend"))
    same(model(past), golden.windows(f"output_{output}"))
