"""Every network on the shelf keeps every promise of the contract, and the suite says how many it met."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import attention, models
from rearview.core.errors import SettingsError
from rearview.embed import Variates
from rearview.models.contract import Model
from rearview.testing import MODEL_PROMISES
from rearview.testing.model_promises import channel_mixing_claim_is_true, moved_by_an_order_of_channels
from rearview.testing.small_models import (
    AHEAD,
    BATCH,
    CHANNELS,
    LOOKBACK,
    MANY_CHANNELS,
    MARKS,
    SETTINGS,
    STEPS,
    losses,
    marks_for,
    past_for,
    small,
)

NAMES = models.names()
ATTENTIVE = [name for name in NAMES if models.claims(name).attention]
TRAINED = [name for name in NAMES if models.claims(name).trains]
MARKED = [name for name in NAMES if models.claims(name).uses_marks]
TOLERANCE = 1e-9

every = pytest.mark.parametrize("name", NAMES)


def same(ours: Tensor, theirs: Tensor, tolerance: float = TOLERANCE) -> None:
    assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def test_the_suite_meets_networks_of_every_kind() -> None:
    assert len(NAMES) >= 21
    assert len(ATTENTIVE) >= 16
    assert len(TRAINED) >= 20
    assert len(MARKED) >= 5
    assert len(MODEL_PROMISES) == 11


@every
@pytest.mark.parametrize("promise", MODEL_PROMISES, ids=lambda promise: promise.__name__)
def test_network(name: str, promise) -> None:
    promise(name)


@every
@pytest.mark.parametrize(
    ("channels", "lookback", "steps"),
    [(1, 37, 11), (23, 37, 11), (3, 5, 11), (3, 37, 101), (1, 3, 1)],
    ids=["one channel", "23 channels", "look-back shorter than a patch", "steps beyond the look-back", "least of all"],
)
def test_any_shape_goes_forward_and_backward(name: str, channels: int, lookback: int, steps: int) -> None:
    model = small(name, channels=channels, lookback=lookback, steps=steps).train()
    past = past_for(model).requires_grad_()
    out = model(past)
    assert out.shape == (BATCH, channels, steps)
    assert out.isfinite().all()
    out.sub(500).square().mean().backward()
    assert past.grad is not None
    assert past.grad.isfinite().all()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{parameter_name} is never reached"
        assert parameter.grad.isfinite().all()


@every
def test_a_thousand_channels_go_through(name: str) -> None:
    model = small(name, channels=1000, **MANY_CHANNELS.get(name, {}))
    with torch.no_grad():
        out = model(past_for(model, batch=1))
    assert out.shape == (1, 1000, STEPS)
    assert out.isfinite().all()


@every
def test_defaults_fit_an_ordinary_window(name: str) -> None:
    model = models.create(name, channels=7, lookback=96, steps=24)
    assert model(torch.randn(BATCH, 7, 96)).shape == (BATCH, 7, 24)


@pytest.mark.filterwarnings("ignore:toa tends to:rearview.core.errors.RearviewWarning")
@pytest.mark.parametrize("mechanism", attention.names())
@pytest.mark.parametrize("name", [name for name in ATTENTIVE if models.claims(name).equivariant_to_channels])
def test_a_networks_claim_to_take_channels_alike_goes_by_its_attention(name: str, mechanism: str) -> None:
    try:
        model = small(name, attention=mechanism)
    except SettingsError:
        return
    assert moved_by_an_order_of_channels(model) == (not model.claims.equivariant_to_channels)


@pytest.mark.parametrize(
    ("name", "given", "alike"),
    [
        ("itransformer", {"attention": "softmax"}, True),
        ("itransformer", {"attention": {"name": "softmax", "places": True}}, False),
        ("itransformer", {"attention": "toa"}, False),
        ("itransformer", {"attention": "linear"}, True),
        ("patchtst", {"attention": "fixed"}, True),
        ("patchtst", {"attention": "mica"}, True),
        ("patchtst", {"attention": {"name": "mica", "gate": "channelwise"}}, False),
        ("patchtst", {"affine": True}, False),
        ("prime_net", {}, True),
        ("gat", {}, True),
        ("gat", {"primed": True}, False),
        ("gat", {"edges": [(0, 1)]}, False),
        ("gat", {"edges": [(0, 1)], "attention": "softmax"}, False),
    ],
)
def test_channels_are_alike_where_nothing_belongs_to_one_of_them(name: str, given: dict[str, Any], alike: bool) -> None:
    model = small(name, **given)
    assert model.claims.equivariant_to_channels == alike
    assert moved_by_an_order_of_channels(model) == (not alike)
    assert models.claims(name).equivariant_to_channels


def test_attention_that_mixes_groups_mixes_channels() -> None:
    assert not models.claims("patchtst").mixes_channels
    channel_mixing_claim_is_true({"name": "patchtst", "attention": "mica"})


@every
def test_an_unknown_setting_is_refused_with_its_neighbour(name: str) -> None:
    first = dataclasses.fields(models.settings_of(name))[0].name
    with pytest.raises(SettingsError, match=rf"{name} has no setting '{first}x'\. Did you mean '{first}'"):
        small(name, **{f"{first}x": 1})


@every
def test_an_impossible_shape_is_refused(name: str) -> None:
    for wrong in ("channels", "lookback", "steps"):
        with pytest.raises(SettingsError, match=f"{wrong} is 0"):
            small(name, **{wrong: 0})
    with pytest.raises(SettingsError, match="marks is -1"):
        small(name, marks=-1)


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(ATTENTIVE)))
def test_attention_is_refused_where_there_is_none(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} has no attention to replace"):
        small(name, attention="softmax")
    assert small(name).weights(past_for(small(name))) == []


@pytest.mark.filterwarnings("ignore:toa tends to:rearview.core.errors.RearviewWarning")
@pytest.mark.parametrize("mechanism", attention.names())
@pytest.mark.parametrize("name", ATTENTIVE)
def test_every_attention_stands_in_every_network_or_says_why_not(name: str, mechanism: str) -> None:
    try:
        model = small(name, attention=mechanism)
    except SettingsError as error:
        refusal = str(error)
    else:
        past = past_for(model)
        assert model(past).shape == (BATCH, CHANNELS, STEPS)
        assert (model(past) - small(name, attention={"name": mechanism})(past)).abs().max() == 0
        return
    assert mechanism in refusal
    assert "use" in refusal


@pytest.mark.parametrize("name", ATTENTIVE)
def test_a_wrong_attention_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="Did you mean 'softmax'"):
        small(name, attention="sofmax")
    with pytest.raises(SettingsError, match="linear has no setting 'epz'"):
        small(name, attention={"name": "linear", "epz": 1.0})
    if name == "prime_net":  # its heads are as wide as tokens, whatever their number
        assert small(name, heads=5)(past_for(small(name))).shape == (BATCH, CHANNELS, STEPS)
        return
    with pytest.raises(SettingsError, match="can't be shared evenly by 5 heads"):
        small(name, heads=5)


@pytest.mark.parametrize("name", ATTENTIVE)
def test_weights_are_those_of_each_layer(name: str) -> None:
    model = small(name, attention="softmax")
    past = past_for(model)
    weights = model.weights(past)
    assert len(weights) == sum(isinstance(part, attention.Attention) for part in model.modules())
    assert len(weights) >= SETTINGS["depth"]
    for operator in weights:
        assert isinstance(operator, Tensor)
        batch, _, heads, queries, keys = operator.shape
        assert (batch, heads, queries) == (BATCH, SETTINGS["heads"], keys)
        same(operator.sum(-1), torch.ones_like(operator[..., 0]))
    assert not torch.equal(weights[0], weights[1])


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(MARKED)))
def test_marks_are_refused_where_there_is_no_place_for_them(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} .* no place for {MARKS} calendar features"):
        small(name, marks=MARKS)


@pytest.mark.parametrize("name", MARKED)
@pytest.mark.parametrize("future", [0, AHEAD])
def test_marks_are_used_where_claimed(name: str, future: int) -> None:
    model = small(name, marks=MARKS, future=future)
    past, before = past_for(model), marks_for(model, LOOKBACK)
    after = marks_for(model, future) if future else None
    out = model(past, before, after)
    assert out.shape == (BATCH, CHANNELS, STEPS)
    assert (model(past, before.flip(-1), after) - out).abs().max() > TOLERANCE
    if isinstance(getattr(model, "variates", None), Variates):
        assert model.weights(past, before, after)[0].shape[-1] == CHANNELS + MARKS
    if after is not None:
        assert (model(past, before, after + 1) - out).abs().max() > TOLERANCE


@pytest.mark.parametrize("name", MARKED)
def test_missing_and_misshapen_marks_are_refused(name: str) -> None:
    model = small(name, marks=MARKS, future=AHEAD)
    past, before, after = past_for(model), marks_for(model, LOOKBACK), marks_for(model, AHEAD)
    with pytest.raises(SettingsError, match=f"built for {MARKS} marks and got none"):
        model(past)
    with pytest.raises(SettingsError, match=f"built for {MARKS} marks and got {MARKS - 1}"):
        model(past, before[:, 1:], after[:, 1:])
    with pytest.raises(SettingsError, match=f"known {AHEAD} steps ahead; .* got none"):
        model(past, before)
    with pytest.raises(SettingsError, match=f"got {MARKS} x {AHEAD - 1}"):
        model(past, before, after[..., 1:])
    with pytest.raises(SettingsError, match=rf"of the {LOOKBACK} steps .* are \[{BATCH}, {MARKS}, {LOOKBACK - 1}\]"):
        model(past, before[..., 1:], future_marks=after)
    with pytest.raises(SettingsError, match=f"of the {LOOKBACK} steps"):
        model(past, past_marks=before[..., 1:], future_marks=after)


@pytest.mark.parametrize("name", TRAINED)
def test_one_training_step_lowers_the_loss(name: str) -> None:
    before, after = losses(small(name))
    assert after < before


@every
def test_dropout_acts_in_training_only(name: str) -> None:
    if "dropout" not in {field.name for field in dataclasses.fields(models.settings_of(name))}:
        return
    model = small(name, dropout=0.5)
    past = past_for(model)
    assert torch.equal(model(past), small(name)(past))
    model.train()
    assert not torch.equal(model(past), model(past))
    with pytest.raises(SettingsError, match=r"dropout is 1\.5"):
        small(name, dropout=1.5)


@every
def test_low_precision_stays_close(name: str) -> None:
    """A mantissa of 8 bits through a few layers: a few per cent of the spread of the output."""
    model = small(name)
    past = past_for(model)
    exact = model(past)
    low = model.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = low(past.float())
    assert (rough.double() - exact).abs().max() < 0.05 * exact.sub(exact.mean()).abs().max()


@every
@pytest.mark.usefixtures("unchecked")
def test_a_mask_of_other_axes_is_refused(name: str) -> None:
    model = small(name)
    past = past_for(model)
    for wrong in (torch.ones(past.shape, dtype=torch.bool), torch.ones(LOOKBACK, dtype=torch.bool), past[:, 0]):
        with pytest.raises(
            SettingsError, match=rf"boolean, \[batch, time\], here \[{BATCH}, {LOOKBACK}\].* this one is"
        ):
            model(past, mask=wrong)


@every
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
def test_a_network_in_half_precision_answers_in_it(name: str, half: torch.dtype, training: bool) -> None:
    model = small(name).to(half).train(training)
    past = torch.randn(BATCH, CHANNELS, LOOKBACK).to(half).requires_grad_()
    out = model(past)
    assert out.dtype == half
    assert out.isfinite().all()
    (gradient,) = torch.autograd.grad(out.float().mean(), past)
    assert gradient.dtype == half
    assert gradient.isfinite().all()


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize(
    "again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))], ids=["copy", "pickle"]
)
def test_a_network_is_copied_between_a_step_and_its_penalty(name: str, again: Callable[[Model], Model]) -> None:
    model = small(name)
    past = past_for(model)
    model.train()(past)
    other = again(model)
    assert other.penalty() is None
    assert torch.equal(other.eval()(past), model.eval()(past))


@every
def test_a_network_explains_itself(name: str) -> None:
    about = models.describe(name)
    assert about.summary == models.summary(name)
    assert len(about.summary.split()) > 3
    assert all(setting.meaning for setting in about.settings)
    assert str(about).startswith(f"{name}: {about.summary}")
