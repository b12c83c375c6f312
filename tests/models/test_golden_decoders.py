"""The Transformer, Timer-XL and Crossformer with the authors' parameters give the authors' numbers."""

from typing import Any

import authors
import authors_decoders
import pytest
import torch
from test_golden import BLOCKS, Golden, same
from torch import Tensor

from rearview import models
from rearview.attention.contract import Inputs

FLOAT32 = 1e-6
"""What a table that is stored in float32 may be off."""


def sized(golden: Golden, name: str, **given: Any) -> models.Model:
    return models.create(name, **{**golden.sizes(*BLOCKS), **given}).double().eval()


def take_table(module: torch.nn.Module, stored: Tensor) -> None:
    """Put the authors' sines and cosines in place of ours, which were rounded to float32 when they were built."""
    table = module.get_buffer("positions.table")
    torch.testing.assert_close(table, stored[0, : len(table)], rtol=0, atol=FLOAT32)
    table.copy_(stored[0, : len(table)])


def transformer(golden: Golden, asked: dict[str, Any] | None = None, attention: Any = None) -> models.Model:
    config, forecasts = golden.config, asked is None
    model = sized(
        golden,
        "transformer",
        channels=config["enc_in"],
        lookback=config["seq_len"],
        decoder_depth=config["d_layers"],
        activation=config["activation"],
        label=config["label_len"],
        attention=attention,
        **(asked or {"steps": config["pred_len"], "marks": 4, "future": config["pred_len"]}),
    )
    stored, find = golden.under("param/"), authors.data(model)
    written = authors.load(authors_decoders.transformer_encoder(find, config["e_layers"], forecasts), stored)
    take_table(model.embed, golden.tensor("param/enc_embedding.position_embedding.pe"))
    if not forecasts:
        return model
    written |= authors.load(authors_decoders.transformer_decoder(find, config["d_layers"]), stored)
    take_table(model.embed_start, golden.tensor("param/dec_embedding.position_embedding.pe"))
    rest = set(stored) - written
    assert {name.rsplit(".", 1)[1] for name in rest} <= {"pe", "mask_scale"}
    assert all(stored[name] == -config["attn_decay_scale"] for name in rest if name.endswith("mask_scale"))
    return model


def test_the_transformer_gives_the_librarys_forecast_and_attention() -> None:
    golden = Golden("transformer_tslib")
    model = transformer(golden)
    label = golden.config["label_len"]
    past, marks = golden.windows("input_x"), golden.windows("input_x_mark")
    ahead = golden.windows("input_batch_y_mark")
    assert torch.equal(ahead[..., :label], marks[..., -label:])
    decoded: list[Tensor] = []
    model.decoder.register_forward_hook(lambda decoder, given, out: decoded.append(out))
    same(model(past, marks, ahead[..., label:]), golden.windows("output"))
    given = model.read(past, marks, ahead[..., label:], None)
    same(given.tokens, golden.tensor("mid/enc_embedding"))
    same(model.stack(given.tokens), golden.tensor("mid/encoder_out"))
    same(model.head(decoded[0]), golden.tensor("mid/decoder_full_out"))
    weights = model.weights(past, marks, ahead[..., label:])
    assert len(weights) == 3 + 2
    for layer in range(3):
        same(weights[layer], golden.tensor(f"mid/attn/encoder.attn_layers.{layer}.attention"))
    for layer in range(2):
        same(weights[3 + layer], golden.tensor(f"mid/attn/decoder.layers.{layer}.self_attention"))


def test_the_transformer_gives_the_librarys_window() -> None:
    golden = Golden("transformer_tslib")
    model = transformer(golden, {"asks": "window"})
    head = {f"head.{kind}": golden.tensor(f"param_anomaly_detection/projection.{kind}") for kind in ("weight", "bias")}
    model.load_state_dict(head, strict=False)
    same(model(golden.windows("input_x")), golden.windows("output_anomaly_detection"))


def test_the_transformer_gives_the_librarys_classes_but_hides_padding_from_attention() -> None:
    golden = Golden("transformer_tslib")
    model = transformer(golden, {"asks": "classes", "classes": golden.config["num_class"]})
    for kind in ("weight", "bias"):
        model.get_parameter(f"head.project.{kind}").data.copy_(golden.tensor(f"param_classification/projection.{kind}"))
    past, mask = golden.windows("input_x"), golden.tensor("input_padding_mask") > 0
    expected = golden.tensor("output_classification")
    tokens = model.stack(model.read(past, None, None, None).tokens)
    same(model.head(tokens, mask[:, None]), expected)
    ours = model(past, mask=mask)
    same(ours[0], expected[0])
    assert mask[0].all()
    assert not mask[1].all()
    assert (ours[1] - expected[1]).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["transformer_rbca", "transformer_rbca_none"])
def test_the_transformer_with_recency_bias_gives_the_authors_forecast(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = Golden(name)
    biased = {"name": "rbca", "bias": "power_law", "alpha": golden.config["attn_decay_scale"]}
    model = transformer(golden, attention=biased if golden.config["attn_decay_type"] else "softmax")
    past, marks = golden.windows("input"), golden.windows("input_mark_enc")
    # Their decoder was given other marks of the observed steps than their encoder, which no window has.
    ahead = golden.windows("input_mark_dec")
    monkeypatch.setattr(model, "_marks_ahead", lambda past_marks, future_marks: ahead)
    after = ahead[..., golden.config["label_len"] :]
    same(model(past, marks, after), golden.windows("output"))
    weights = model.weights(past, marks, after)
    assert len(weights) == 2 + 1
    for layer in range(2):
        same(weights[layer], golden.tensor(f"mid/enc_weights_{layer}"))
    same(weights[2], golden.tensor("mid/dec_self_weights"))


def timer_xl(golden: Golden, head: str = "param/", **given: Any) -> models.Model:
    config = golden.config
    sizes = {
        "channels": config["channels"],
        "lookback": config["seq_len"],
        "steps": config["output_token_len"],
        "activation": config["activation"],
        "patch": config["input_token_len"],
        "output_patch": config["output_token_len"],
    }
    model = sized(golden, "timer_xl", **{**sizes, **given})
    stored = {**golden.under("param/"), **golden.under(head)}
    written = authors.load(authors_decoders.timer_xl(authors.data(model), config["e_layers"]), stored)
    assert {name.rsplit(".", 1)[1] for name in set(stored) - written} == {"theta", "cos", "sin"}
    return model


def forecasts_of_every_token(model: models.Model, past: Tensor) -> Tensor:
    """Their network hands out a forecast for each token, of which ours is the last."""
    given = model.read(past, None, None, None)
    tokens = model.stack(given.tokens, bias=given.bias)[:, 0].unflatten(1, (model.shape.channels, -1))
    return given.denormalise(model.head(tokens).flatten(2))


@pytest.mark.parametrize(
    ("output", "given"),
    [("multi", {}), ("covariate", {"target": 2}), ("nonorm", {"normalise": "none"}), ("one_token", {"lookback": 6})],
)
def test_timer_xl_gives_the_authors_forecasts(output: str, given: dict[str, Any]) -> None:
    golden = Golden("timer_xl")
    model = timer_xl(golden, **given)
    past = golden.windows("input_x_one_token" if output == "one_token" else "input_x")
    expected = golden.windows(f"output_{output}")
    same(forecasts_of_every_token(model, past), expected)
    same(model(past), expected[..., -golden.config["output_token_len"] :])
    layers = [f"mid/{output}/layer{layer}_attn" for layer in range(2)]
    if output != "nonorm":
        for operator, name in zip(model.weights(past), layers, strict=True):
            same(operator, golden.tensor(name))


def test_timer_xl_turns_hides_and_biases_as_the_authors_do() -> None:
    golden = Golden("timer_xl")
    model = timer_xl(golden)
    given = model.read(golden.windows("input_x"), None, None, None)
    same(given.tokens, golden.tensor("mid/multi/embedding"))
    tokens = given.tokens
    for layer, block in enumerate(model.stack.blocks):
        assert torch.equal(block.attend.later, golden.tensor("mid/mask_multi")[0, 0])
        q, k, _ = block.attend.heads(tokens)
        same(q, golden.tensor(f"mid/multi/layer{layer}_rotated/q"))
        same(k, golden.tensor(f"mid/multi/layer{layer}_rotated/k"))
        scaled = golden.tensor(f"mid/multi/layer{layer}_bias")[0] * block.attend.site.per_head**-0.5
        same(given.bias[layer], scaled)
        tokens, _ = block(Inputs(tokens, bias=given.bias[layer]))
        same(tokens, golden.tensor(f"mid/multi/layer{layer}_out"))
    assert torch.equal(timer_xl(golden, target=2).hidden, golden.tensor("mid/mask_covariate")[0, 0])


def test_timer_xl_rolls_out_as_the_authors_do() -> None:
    golden = Golden("timer_xl")
    rolled = golden.config["rollout"]
    model = timer_xl(golden, "param_rollout/", steps=rolled["test_pred_len"], output_patch=rolled["output_token_len"])
    same(model(golden.windows("input_x")), golden.windows("output_rollout_H15"))


def test_crossformer_gives_the_librarys_forecast_and_attention() -> None:
    golden = Golden("crossformer")
    config = golden.config
    model = sized(
        golden,
        "crossformer",
        channels=config["enc_in"],
        lookback=config["seq_len"],
        steps=config["pred_len"],
        patch=config["seg_len"],
        merge=config["win_size"],
        routers=config["factor"],
    )
    stored = golden.under("param/")
    written = authors.load(authors_decoders.crossformer(authors.data(model), config["e_layers"]), stored)
    assert set(stored) - written == {"enc_value_embedding.position_embedding.pe"}
    take_table(model, golden.tensor("param/enc_value_embedding.position_embedding.pe"))
    past = golden.windows("input_x")
    same(model(past), golden.windows("output"))
    given = model.read(past, None, None, None)
    same(given.tokens, golden.tensor("mid/pre_norm_out"))
    scales = model._scales(given)
    same(scales[1][0], golden.tensor("mid/enc_block0_out"))
    same(model.merges[0](scales[1][0]), golden.tensor("mid/enc_block1_merged"))
    same(scales[2][0], golden.tensor("mid/enc_block1_out"))
    same(model.decode(scales), golden.windows("mid/decoder_full_out"))
    weights = model.weights(past)
    assert len(weights) == 2 + 3
    same(weights[1], golden.tensor("mid/attn/encoder.encode_blocks.1.encode_layers.0.time_attention"))
    same(weights[2], golden.tensor("mid/attn/decoder.decode_layers.0.self_attention.time_attention"))
