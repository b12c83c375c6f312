"""What is each host's own: the pairs that must work, other questions than steps, formulas, settings, refusals."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from rearview import models
from rearview.core.errors import SettingsError
from rearview.testing.small_models import BATCH, CHANNELS, LOOKBACK, past_for, small

PATCHED = ["patchtst", "patchtst_tslib", "powerformer", "moment"]
INVERTED = ["itransformer", "itransformer_t5"]
PLAIN = ["mlp", "tsmixer"]
CLASSES = 5
FIVE = ["caps", "mica", "toa", "rbca", "prime"]
PAIRS = [(name, mechanism) for name in PATCHED for mechanism in ("softmax", *FIVE)] + [
    (name, mechanism) for name in INVERTED for mechanism in ("softmax", "toa", "prime")
]


def padding() -> Tensor:
    return torch.arange(LOOKBACK) >= torch.tensor([[0], [23]])


@pytest.mark.filterwarnings("ignore:toa tends to:rearview.core.errors.RearviewWarning")
@pytest.mark.parametrize(("name", "mechanism"), PAIRS)
def test_pairs_that_must_work_give_weights_for_every_layer(name: str, mechanism: str) -> None:
    model = small(name, attention=mechanism).train()
    past = past_for(model)
    out = model(past, mask=padding())
    out.sub(500).square().mean().backward()
    assert out.isfinite().all()
    assert all(parameter.grad is not None for parameter in model.parameters())
    weights = model.eval().weights(past, mask=padding())
    assert len(weights) == len(model.stack.blocks)
    for operator in weights:
        parts = operator.values() if isinstance(operator, dict) else [operator]
        assert all(part.isfinite().all() for part in parts)


@pytest.mark.parametrize("name", INVERTED)
@pytest.mark.parametrize("mechanism", ["rbca", "caps", "mica"])
def test_tokens_without_order_refuse_what_needs_it(name: str, mechanism: str) -> None:
    host = {"itransformer": "iTransformer", "itransformer_t5": "iTransformer-T5"}[name]
    with pytest.raises(SettingsError, match=rf"{mechanism} .*{host}'s tokens .* use "):
        small(name, attention=mechanism)


@pytest.mark.parametrize("name", [*PATCHED, *INVERTED, *PLAIN])
def test_a_window_comes_back_as_long_as_it_was(name: str) -> None:
    model = small(name, asks="window", steps=None)
    past = past_for(model)
    assert model(past).shape == past.shape
    assert_close(model(past.masked_fill(~padding()[:, None], 1e9), mask=padding()), model(past, mask=padding()))


@pytest.mark.parametrize("name", [*PATCHED, *INVERTED, *PLAIN])
def test_padding_moves_no_class(name: str) -> None:
    model = small(name, asks="classes", classes=CLASSES, steps=None)
    past, mask = past_for(model), padding()
    logits = model(past, mask=mask)
    assert logits.shape == (BATCH, CLASSES)
    assert_close(model(past.masked_fill(~mask[:, None], float("nan")), mask=mask), logits)
    assert (model(past + torch.randn_like(past), mask=mask) - logits).abs().max() > 1e-6


@pytest.mark.parametrize("name", [*PATCHED[1:], *INVERTED, *PLAIN])
def test_one_step_of_training_tells_classes_better_apart(name: str) -> None:
    model = small(name, asks="classes", classes=2, steps=None).train()
    past, truth = past_for(model), torch.tensor([0, 1])
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
    before = functional.cross_entropy(model(past), truth)
    before.backward()
    optimiser.step()
    assert functional.cross_entropy(model(past), truth) < before


def test_an_mlp_is_its_formula() -> None:
    model = small("mlp")
    past = past_for(model)
    mean, std = past.mean(-1, keepdim=True), (past.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
    x = (past - mean) / std
    for block in model.blocks:
        first, _, _, second = block.layers
        x = x + functional.gelu(x @ first.weight.T + first.bias) @ second.weight.T + second.bias
    assert_close(model(past), (x @ model.head.weight.T + model.head.bias) * std + mean)


def test_a_normalised_tsmixer_has_no_scale() -> None:
    model = small("tsmixer", normalise="revin")
    past = past_for(model)
    assert_close(model(7 * past + 11), 7 * model(past) + 11, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("wrong", [{"depth": 0}, {"width": 0}])
def test_a_perceptron_of_nothing_is_refused(name: str, wrong: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match=rf"{next(iter(wrong))} is 0; it must be at least 1"):
        small(name, **wrong)


@pytest.mark.parametrize("name", ["patchtst", "itransformer", "itransformer_t5", "moment"])
def test_heads_can_have_a_width_of_their_own(name: str) -> None:
    model = small(name, head_width=7)
    assert model.stack.blocks[0].attend.qkv.out_features == 3 * 13 * 7
    assert model(past_for(model)).isfinite().all()


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "standardised"])
def test_patchtst_has_three_kinds_of_positions(positions: str) -> None:
    model = small("patchtst", positions=positions)
    assert ("positions.table" in model.state_dict()) == (positions == "learned")
    shifted = past_for(model).roll(6, dims=-1)
    assert (model(shifted) - model(past_for(model))).abs().max() > 1e-6


def test_tsmixer_says_why_marks_have_no_place() -> None:
    with pytest.raises(SettingsError, match="tsmixer mixes the channels of a window and has no place for 3 calendar"):
        models.create("tsmixer", channels=CHANNELS, lookback=LOOKBACK, steps=5, marks=3)


@pytest.mark.parametrize("settings", [{"gated": True}, {"gated": False}])
def test_a_gated_feed_forward_part_multiplies_two_maps(settings: dict[str, Any]) -> None:
    model = small("itransformer_t5", **settings)
    feed = model.stack.blocks[0].feed_forward
    x = torch.randn(BATCH, 1, CHANNELS, 26, dtype=torch.float64)
    if settings["gated"]:
        hidden = functional.gelu(x @ feed[0].gate.weight.T, approximate="tanh") * (x @ feed[0].value.weight.T)
    else:
        hidden = functional.relu(x @ feed[0].weight.T)
    assert_close(feed(x), hidden @ feed[-2].weight.T)
