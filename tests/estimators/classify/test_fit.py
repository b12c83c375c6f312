"""Fitting and predicting: padding has no say, statistics are those of training, and what is odd is said."""

from dataclasses import fields

import numpy as np
import pytest
import torch
from small_sets import SETTINGS, TRAINING, unequal, waves

from rearview import models
from rearview.core.errors import InputError, SettingsError
from rearview.data.cases.case_reader import as_cases
from rearview.data.cases.padding import pad_cases
from rearview.estimators.classify.fit import fit, predict
from rearview.estimators.classify.spec import ClassifySpec


def fitted(X, y, **asked):
    training = {**TRAINING, **asked.pop("training", {})}
    return fit(as_cases(X, y), ClassifySpec(settings=SETTINGS, training=training, **asked))


@pytest.fixture(scope="module")
def on_unequal():
    X, y = waves()
    return fitted(unequal(X), y)


def test_classes_are_distinguished(on_unequal):
    X, y = waves(45, seed=7)
    likely = predict(on_unequal, as_cases(unequal(X, seed=8))).probabilities
    np.testing.assert_allclose(likely.sum(axis=1), 1)
    assert (on_unequal.classes[likely.argmax(axis=1)] == y).mean() > 0.85


@pytest.mark.filterwarnings("ignore:toa tends to:rearview.core.errors.RearviewWarning")
@pytest.mark.parametrize("attention", ["softmax", {"name": "toa", "kind": "relu"}, {"name": "hyperglu", "rank": 3}])
@pytest.mark.parametrize("pool", ["mean", "none"])
def test_what_stands_in_the_padding_reaches_nothing(attention, pool):
    X, y = waves(12)
    request = ClassifySpec(
        attention=attention, settings={**SETTINGS, "pool": pool}, training={"epochs": 1}, validation=0
    )
    model = fit(as_cases(unequal(X), y), request)
    data = pad_cases(as_cases(unequal(X)), model.scaler, np.zeros(12, dtype=np.int64), model.lookback)
    assert not data.mask.all()
    spoiled = torch.where(data.mask[:, None], data.values, torch.full((), 1e6))
    with torch.no_grad():
        clean, dirty = (model.network(values, mask=data.mask) for values in (data.values, spoiled))
    torch.testing.assert_close(clean, dirty, rtol=0, atol=0)


def test_a_mean_over_patches_leaves_padding_out():
    """Two cases that differ in padding patches alone have equal logits when positions are taken out."""
    X, y = waves(12, steps=32)
    settings = {**SETTINGS, "pool": "mean", "patch": 4, "stride": 4}
    model = fit(
        as_cases(X, y), ClassifySpec(settings=settings, training={"epochs": 1}, validation=0, lookback=40)
    ).network
    for parameter in model.positions.parameters():
        parameter.data.zero_()
    short = torch.randn(1, 2, 32)
    values = [torch.nn.functional.pad(short, (front, 0)) for front in (8, 8)]
    masks = [torch.arange(40)[None] >= 8] * 2
    values[1][..., :8] = 3.0
    with torch.no_grad():
        one, two = (model(v, mask=m) for v, m in zip(values, masks, strict=True))
        whole = model(values[0])
    torch.testing.assert_close(one, two)
    assert not torch.allclose(one, whole, atol=1e-4)


def test_validation_cases_do_not_reach_the_statistics():
    X, y = waves(30)
    request = ClassifySpec(settings=SETTINGS, training={"epochs": 1})
    first = fit(as_cases(X, y), request)
    assert first.cases == {"train": 24, "validation": 6}
    from rearview.data.cases.case_set import hold_out

    codes = np.unique(y, return_inverse=True)[1]
    _, held = hold_out(codes, 0.2, request.seed)
    X = X.copy()
    X[held] += 100
    again = fit(as_cases(X, y), request)
    np.testing.assert_array_equal(first.scaler.mean, again.scaler.mean)


def test_two_runs_of_one_seed_are_equal_bit_for_bit():
    X, y = waves(30)
    runs = [fitted(X, y, training={"epochs": 3}) for _ in range(2)]
    for one, two in zip(*(run.network.state_dict().values() for run in runs), strict=True):
        assert torch.equal(one, two)


def test_a_longer_case_is_read_by_its_last_steps_and_a_sentence_says_so(on_unequal):
    X, _ = waves(6, steps=60, seed=3)
    said = predict(on_unequal, as_cases(X))
    cut = predict(on_unequal, as_cases(X[..., -40:]))
    np.testing.assert_allclose(said.probabilities, cut.probabilities, atol=1e-6)
    assert "6 of 6 cases of X are longer (up to 60 steps) than the 40" in said.notes[0]
    assert not cut.notes


def test_without_validation_every_epoch_is_run_on_every_case():
    X, y = waves(30)
    model = fitted(X, y, validation=0, training={"epochs": 4})
    assert model.cases == {"train": 30, "validation": 0}
    assert len(model.history.epochs) == 4
    assert model.plan.training["patience"].value is None


def test_tiny_classes_train_whole_and_are_reported():
    X, y = waves(30)
    y[:2] = "rare"
    model = fitted(X, y, training={"epochs": 1})
    told = {finding.what: finding for finding in model.findings}
    assert "Class rare has 2 cases or fewer" in told["tiny_classes"].message
    assert "Only 6 cases are held out" in told["few_validation_cases"].message


def test_gaps_and_lengths_are_reported():
    X, y = waves(30)
    X[3, 0, 5:7] = np.nan
    X[4, 1] = np.nan
    model = fitted(unequal(X), y, training={"epochs": 1})
    told = {finding.what: finding for finding in model.findings}
    assert "padded at the front" in told["unequal_lengths"].message
    assert "are filled (fill='linear')" in told["missing_values"].message
    assert told["empty_channel"].count == 1


def test_one_class_alone_is_refused():
    X, _ = waves(6)
    with pytest.raises(InputError, match="All 6 cases of X are of one class, 'a'"):
        fitted(X, ["a"] * 6)


def test_a_channel_that_training_never_observed_is_refused():
    X, y = waves(30)
    X[:, 1] = np.nan
    with pytest.raises(InputError, match="channel 2 has no value in any of the 24 cases to train on"):
        fitted(X, y)


def test_other_channels_are_refused(on_unequal):
    with pytest.raises(InputError, match="has 3 channels, but the classifier was trained on 2"):
        predict(on_unequal, as_cases(np.ones((2, 3, 40))))
    with pytest.raises(InputError, match=r"has 40 channels, .* on 2; channels come before time: np\.transpose\(X,"):
        predict(on_unequal, as_cases(np.ones((3, 40, 2))))
    with pytest.raises(InputError, match=r"^X has 1 channel, but .* on 2; bring the same in the same order\.$"):
        predict(on_unequal, as_cases(np.ones((3, 1, 40))))


def test_a_network_that_forecasts_alone_is_refused():
    X, y = waves(6)
    with pytest.raises(SettingsError, match="dlinear forecasts and can't classify"):
        fit(as_cases(X, y), ClassifySpec(model="dlinear"))


def test_a_setting_of_another_kind_is_refused():
    X, y = waves(6)
    with pytest.raises(SettingsError, match="patchtst: width is 'wide'; it must be a whole number"):
        fit(as_cases(X, y), ClassifySpec(settings={"width": "wide"}))


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"validation": 1.0}, "validation is 1.0"),
        ({"validation": True}, "validation is True"),
        ({"lookback": 0}, "lookback is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"fill": "spline"}, "no method 'spline'"),
        ({"training": {"seed": 3}}, "Give the seed as seed="),
    ],
)
def test_settings_out_of_range_are_refused(asked, sentence):
    with pytest.raises(SettingsError, match=sentence):
        ClassifySpec(**asked)


def classifying():
    return [name for name in models.names() if models.claims(name).classifies]


@pytest.mark.parametrize("name", classifying())
def test_every_network_that_classifies_does_and_leaves_padding_out(name):
    X, y = waves(12)
    known = {field.name for field in fields(models.settings_of(name))}
    settings = {key: value for key, value in SETTINGS.items() if key in known}
    model = fit(
        as_cases(unequal(X), y), ClassifySpec(model=name, settings=settings, training={"epochs": 1}, validation=0)
    )
    data = pad_cases(as_cases(unequal(X)), model.scaler, np.zeros(12, dtype=np.int64), model.lookback)
    spoiled = torch.where(data.mask[:, None], data.values, torch.full((), 1e3))
    with torch.no_grad():
        clean, dirty = (model.network(values, mask=data.mask) for values in (data.values, spoiled))
    assert clean.shape == (12, 3)
    torch.testing.assert_close(clean, dirty, rtol=0, atol=0)


def test_there_are_networks_to_classify_with():
    assert {"patchtst", "itransformer"} <= set(classifying())


def test_a_value_beyond_measure_gets_an_answer_and_a_warning(on_unequal):
    X, _ = waves(6, seed=3)
    X[2, 1, 5] = 1e30
    said = predict(on_unequal, as_cases(X))
    np.testing.assert_allclose(said.probabilities.sum(axis=1), 1)
    assert "1 of 6 cases of X has a value more than 1,000,000 standard deviations from the mean" in said.notes[0]
    rest = predict(on_unequal, as_cases(np.delete(X, 2, axis=0)))
    np.testing.assert_allclose(np.delete(said.probabilities, 2, axis=0), rest.probabilities, atol=1e-6)
    assert not rest.notes


def test_values_beside_which_all_others_look_alike_are_reported():
    X, y = waves(30)
    X[3, 1, 5] = -1e20
    told = {finding.what: finding.message for finding in fitted(X, y, training={"epochs": 1}).findings}
    assert "Channel 2 holds values (such as -1e+20) more than 1,000,000 times as far" in told["overshadowed_channel"]
    X[3, 1, 5] = 50.0
    assert "overshadowed_channel" not in {finding.what for finding in fitted(X, y, training={"epochs": 1}).findings}


def test_a_channel_without_values_is_reported_with_the_answer(on_unequal):
    X, _ = waves(6, seed=3)
    X[:, 1] = np.nan
    notes = predict(on_unequal, as_cases(X)).notes
    assert "6 of 6 cases of X have a channel without any value (channel 2)" in notes[0]
