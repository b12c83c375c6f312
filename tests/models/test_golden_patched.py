"""TSLib's PatchTST and TSMixer, Powerformer, and MICA's PatchTST and MOMENT give their authors' numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import authors
import authors_patched
import numpy as np
import pytest
import torch
from test_golden import BLOCKS, Golden, same
from torch import Tensor

from rearview import models
from rearview.attention.contract import Inputs
from rearview.models.patch_hosts.powerformer import Network as Powerformer

RELEASED = 1e-5
"""What a float32 inside the released code costs."""


@contextmanager
def float64() -> Iterator[None]:
    """What is built inside is float64 from the start, fixed tables too; cast later, these keep float32's digits."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def sized(golden: Golden, name: str, **given: Any) -> models.Model:
    """A network with the sizes that the library's configurations name."""
    sizes = golden.sizes(*BLOCKS, "lookback", "patch", "stride")
    with float64():
        return models.create(name, channels=golden.config["enc_in"], **sizes, **given)


def patchtst_tslib(golden: Golden, **asked: Any) -> models.Model:
    model = sized(golden, "patchtst_tslib", activation=golden.config["activation"], **asked)
    stored = golden.under("param/")
    written = authors.load(authors_patched.patchtst_tslib(authors.data(model), golden.config["e_layers"]), stored)
    table = stored["patch_embedding.position_embedding.pe"][0, : model.patches.tokens]
    same(model.positions.table, torch.from_numpy(table))
    assert set(stored) - written == {
        "patch_embedding.position_embedding.pe",
        "head.linear.weight",
        "head.linear.bias",
    }
    if asked.get("asks") == "classes":
        head, prefix = (
            authors_patched.class_head(authors.data(model), model.shape.channels, model.patches.tokens),
            "classification/",
        )
    else:
        head = authors_patched.flat_head(authors.data(model), model.patches.tokens)
        prefix = "anomaly_detection/" if asked.get("asks") == "window" else ""
    assert len(authors.load(head, golden.under(f"param_{prefix}" if prefix else "param/"))) == 2
    return model


def test_tslib_patchtst_gives_the_library_s_forecast_and_attention() -> None:
    golden = Golden("patchtst_tslib")
    model = patchtst_tslib(golden, steps=golden.config["pred_len"]).eval()
    past = golden.windows("input_x")
    given = model.read(past, None, None, None)
    same(model.patches._pieces(given.windows), golden.tensor("mid/patches"))
    same(given.tokens, golden.tensor("mid/patch_embedding"))
    tokens = given.tokens
    for layer, block in enumerate(model.stack.blocks):
        tokens, _ = block(Inputs(tokens))
        same(tokens, golden.tensor(f"mid/enc_layer{layer}_out"))
    same(model.stack(given.tokens), golden.tensor("mid/encoder_out"))
    for layer, operator in enumerate(model.weights(past)):
        assert isinstance(operator, Tensor)
        same(operator, golden.tensor(f"mid/attn/encoder.attn_layers.{layer}.attention"))
    same(model(past), golden.windows("output"))


def test_tslib_patchtst_in_training_gives_the_library_s_forecast_and_statistics() -> None:
    golden = Golden("patchtst_tslib")
    model = patchtst_tslib(golden, steps=golden.config["pred_len"]).train()
    same(model(golden.windows("input_x")), golden.windows("output_trainmode"))
    after = golden.under("mid/after_trainmode/")
    assert set(after) == {f"encoder.norm.1.{kind}" for kind in authors.BUFFERS}
    ours = dict(authors_patched.patchtst_tslib(authors.data(model), golden.config["e_layers"]))
    for name, statistic in after.items():
        same(ours[name], torch.from_numpy(np.asarray(statistic)))


def test_tslib_patchtst_gives_the_window_back_and_tells_classes_as_the_library_does() -> None:
    golden = Golden("patchtst_tslib")
    past = golden.windows("input_x")
    same(patchtst_tslib(golden, asks="window").eval()(past), golden.windows("output_anomaly_detection"))
    classifier = patchtst_tslib(golden, asks="classes", classes=golden.config["num_class"]).eval()
    same(classifier(past), golden.tensor("output_classification"))


def test_tslib_patchtst_drops_out_where_the_library_does() -> None:
    model = models.create("patchtst_tslib", channels=3, lookback=37, steps=5, dropout=0.3)
    block = model.stack.blocks[0]
    assert [block.drop_attended.rate, model.drop.rate, block.attend.site.dropout] == [0.3, 0.3, 0.3]
    model.train()
    model.stack.eval()
    model.head.weight.data.zero_()
    model.head.bias.data.fill_(1)
    past = torch.ones(64, 3, 37)
    model.normalise.kind = "none"
    # The head is followed by a dropout of its own: of the constant that it gives, three tenths are gone.
    assert (model(past) == 0).double().mean().item() == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("attention", [None, Powerformer.own_attention])
def test_powerformer_gives_the_authors_forecast_and_attention(attention: dict[str, Any] | None) -> None:
    golden = Golden("powerformer_powerlaw")
    config = golden.config
    model = sized(golden, "powerformer", steps=config["pred_len"], attention=attention).eval()
    stored = golden.under("param/")
    for buffers in (False, True):
        authors.load(authors.patchtst(authors.data(model), config["e_layers"], buffers=buffers), stored)
    past = golden.windows("input")
    same(model(past), golden.windows("output"))
    for layer, operator in enumerate(model.weights(past)):
        same(operator, golden.tensor(f"mid/attn_weights_{layer}"))


def test_powerformer_takes_another_attention() -> None:
    past = torch.randn(2, 3, 37, dtype=torch.float64)

    def built(name: str, attention: Any) -> Tensor:
        torch.manual_seed(5)
        sizes = {"width": 12, "heads": 2, "depth": 2, "feed_forward": 17}
        return models.create(name, channels=3, lookback=37, steps=5, attention=attention, **sizes).double().eval()(past)

    step = {"name": "rbca", "bias": "step", "scale": 2}
    assert torch.equal(built("powerformer", step), built("patchtst", step))
    assert torch.equal(built("powerformer", None), built("patchtst", "rbca"))
    assert not torch.equal(built("powerformer", None), built("powerformer", step))
    assert torch.equal(built("powerformer", "softmax"), built("patchtst", None))


def mica(golden: Golden) -> dict[str, Any]:
    """The attention of a network of the MICA paper."""
    config = golden.config
    return {
        "name": "mica",
        "gate": "mlp_query" if config["infini_mixer_type"] == "mlp_query" else "shared",
        "weighting": config["infini_channel_weight_type"],
        "mlp_width": config["mlpmixer_hidden_size"],
        "mlp_layers": config["mlpmixer_n_layers"],
        "mlp_dropout": config["mlpmixer_dropout"],
    }


def of_the_paper(golden: Golden, name: str, **given: Any) -> models.Model:
    """A network with the sizes that MICA's configurations name."""
    config = golden.config
    shape = {"channels": config["n_series"], "lookback": config["input_size"], "steps": config["h"]}
    sizes = {
        "width": config["hidden_size"],
        "heads": config["n_heads"],
        "head_width": config["d_k"],
        "depth": config["n_layers"],
        "feed_forward": config["linear_hidden_size"],
        "dropout": config["dropout"],
        "patch": config["patch_len"],
        "stride": config["stride"],
    }
    with float64():
        model = models.create(name, attention=mica(golden), **shape, **sizes, **given)
    same(model.positions.table, golden.tensor("param/W_pos.W_pos"))
    return model.eval()


def moment(golden: Golden) -> models.Model:
    model, depth = of_the_paper(golden, "moment"), golden.config["n_layers"]
    stored = golden.under("param/")
    shared_beta = golden.config["infini_mixer_type"] == "betas"
    written = authors.load(authors_patched.moment(authors.data(model), depth, shared_beta), stored)
    # The bias of their map to dynamic weights is the same for all channels and cancels in the softmax over them.
    assert {name for name in set(stored) - written if not name.endswith("channel_attn.bias")} == {"W_pos.W_pos"}
    assert len(written) == len(model.state_dict()) + 2 * depth, "three maps of theirs are one of ours"
    return model


@pytest.mark.parametrize("name", ["moment_mica", "moment_mica_beta"])
@torch.no_grad()
def test_moment_with_mica_gives_the_authors_forecast(name: str) -> None:
    golden = Golden(name)
    model, past = moment(golden), golden.windows("input")
    same(model(past), golden.windows("output_f64"))
    torch.testing.assert_close(model(past), golden.windows("output"), rtol=RELEASED, atol=RELEASED)
    given = model.read(past, None, None, None)
    same(given.bias, golden.tensor("mid/position_bias"))
    tokens = given.tokens
    for layer, block in enumerate(model.stack.blocks):
        same(block.attend(block.norm_attended(tokens), bias=given.bias), golden.tensor(f"mid/attn_out_{layer}"))
        tokens, _ = block(Inputs(tokens, bias=given.bias))
        same(tokens, golden.tensor(f"mid/layer_out_{layer}"))


def test_patchtst_has_the_settings_of_the_mica_paper() -> None:
    """Its numbers are tried with the attention's; here, that positions and head width need nothing from outside."""
    golden = Golden("patchtst_mica")
    model = of_the_paper(golden, "patchtst", positions="standardised")
    assert not list(model.positions.parameters())
    site = model.stack.blocks[0].attend.site
    assert site.per_head == golden.config["d_k"] != site.width // site.heads


def test_tsmixer_gives_the_library_s_forecast() -> None:
    golden = Golden("tsmixer_tslib")
    config = golden.config
    sizes = golden.sizes("lookback", "steps", "width", "depth", "dropout")
    model = models.create("tsmixer", channels=config["enc_in"], **sizes).double()
    stored = golden.under("param/")
    written = authors.load(authors_patched.tsmixer(authors.data(model), config["e_layers"]), stored)
    assert written == set(stored)
    assert len(written) == len(model.state_dict())
    past = golden.windows("input_x")
    x = past
    for index, block in enumerate(model.blocks):
        same(block.along(x), golden.tensor(f"mid/block{index}_temporal"))
        same(block.across((x + block.along(x)).transpose(1, 2)), golden.tensor(f"mid/block{index}_channel"))
        x = block(x)
        same(x, golden.windows(f"mid/block{index}_out"))
    same(model(past), golden.windows("output"))
