"""The default classifier: what its members learn, how they are weighed, and what stays of them on disk."""

import json
import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_sets import SETTINGS, unequal, waves

from rearview.core.errors import InputError, SettingsError
from rearview.core.model_folder import CLASSIFIER
from rearview.data.cases.case_reader import as_cases
from rearview.estimators.classify.classifier import Classifier
from rearview.estimators.classify.fit import Fitted
from rearview.estimators.classify.portfolio import blocks, portfolio
from rearview.estimators.classify.portfolio.portfolio import Portfolio
from rearview.estimators.classify.spec import ClassifySpec


@pytest.fixture(autouse=True)
def few_features(monkeypatch):
    """Fewer features and no network, so that a fit takes a moment."""
    small = blocks.FeatureCounts(biases=84 * 2, groups=8, shapelets=128)
    monkeypatch.setattr(portfolio, "LARGE", small)
    monkeypatch.setattr(portfolio, "SMALL", small)
    monkeypatch.setattr(portfolio, "MOST_NETWORK_SERIES", 0)


@pytest.fixture
def trained():
    X, y = waves()
    return Classifier().fit(unequal(X), y)


def test_the_default_is_a_portfolio_that_tells_classes_apart(trained):
    X, y = waves(45, seed=7)
    assert isinstance(trained.fitted_, Portfolio)
    assert trained.score(X, y) > 0.95
    likely = trained.predict_proba(unequal(X, seed=8))
    np.testing.assert_allclose(likely.sum(axis=1), 1)


def test_the_leaderboard_has_every_member_and_the_vote(trained):
    board = trained.leaderboard()
    names = board["name"].to_list()
    assert names[-1] == "vote"
    assert set(names) == set(portfolio.MEANING) - {"patchtst"} | {"vote"}
    losses = board["log_loss"].to_list()[:-1]
    assert losses == sorted(losses)
    assert (np.array(board["weight"]) >= 0).all()
    assert set(trained.fitted_.members) == {
        name for name, weight in zip(names[:-1], board["weight"].to_list()[:-1], strict=True) if weight > 0
    }


def test_a_network_named_is_that_network_alone():
    X, y = waves(12)
    for asked in ({"model": "patchtst", "training": {"epochs": 1}}, {"training": {"epochs": 1}}, {"attention": "toa"}):
        spec = Classifier(**{"settings": SETTINGS, **asked}).spec
        assert spec.model == "patchtst"
    one = Classifier("patchtst", settings=SETTINGS, training={"epochs": 1}).fit(X, y)
    assert isinstance(one.fitted_, Fitted)
    with pytest.raises(SettingsError, match="patchtst is one network; model='auto' has a leaderboard"):
        one.leaderboard()


def test_it_comes_back_from_disk_as_it_was(trained, tmp_path):
    X, _ = waves(9, seed=5)
    trained.save(tmp_path / "model")
    again = Classifier.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(again.predict_proba(X), trained.predict_proba(X))
    assert again.leaderboard().equals(trained.leaderboard())
    assert again.model == "auto"
    assert {path.suffix for path in (tmp_path / "model").iterdir()} == {".json", ".safetensors"}


def test_a_portfolio_saved_without_offsets_loads_as_it_was(trained, tmp_path):
    X, _ = waves(9, seed=5)
    fitted = trained.fitted_
    plain = replace(fitted.vote, offsets=torch.zeros_like(fitted.vote.offsets))
    trained.adopt(replace(fitted, vote=plain))
    before = trained.predict_proba(X)
    save = CLASSIFIER.save
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            type(CLASSIFIER), "save", lambda _, folder, facts, tensors: save(folder, facts, without_offsets(tensors))
        )
        trained.save(tmp_path)
    np.testing.assert_array_equal(Classifier.load(tmp_path, device="cpu").predict_proba(X), before)


def without_offsets(tensors):
    assert "vote.offsets" in tensors
    return {name: tensor for name, tensor in tensors.items() if name != "vote.offsets"}


def test_networks_among_the_members_come_back_from_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(portfolio, "MOST_NETWORK_SERIES", np.inf)
    monkeypatch.setattr(portfolio, "NETWORK_TRAINING", {"epochs": 2})
    monkeypatch.setattr(portfolio, "LEAST_WEIGHT", 0.0)
    X, y = waves(18)
    trained = Classifier().fit(X, y)
    assert len(trained.fitted_.members["patchtst"].fitted) == portfolio.NETWORK_FOLDS
    assert len(trained.fitted_.histories) == portfolio.NETWORK_FOLDS
    trained.save(tmp_path)
    np.testing.assert_array_equal(Classifier.load(tmp_path).predict_proba(X), trained.predict_proba(X))


def test_networks_that_are_interrupted_are_left_out_and_the_rest_stays(monkeypatch):
    monkeypatch.setattr(portfolio, "MOST_NETWORK_SERIES", np.inf)

    class Stop:
        """Ends the first network after an epoch, as Ctrl-C does."""

        def begin(self, epochs, windows, done): ...
        def step(self, epoch, done, loss): ...
        def end(self): ...
        def epoch(self, epoch):
            raise KeyboardInterrupt

    X, y = waves(18)
    trained = Classifier(progress=Stop()).fit(X, y)
    assert trained.fitted_.interrupted
    assert "patchtst" not in trained.leaderboard()["name"].to_list()
    assert trained.score(X, y) > 0.9


def test_a_seed_gives_the_same_answers_and_another_seed_others():
    X, y = waves(30)
    one, again, other = (Classifier(seed=seed).fit(X, y).predict_proba(X) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


def test_members_answer_for_cases_that_their_fits_did_not_see():
    """Labels without any pattern: an honest member is right about as often as chance has it."""
    X, _ = waves(60)
    y = np.random.default_rng(0).integers(3, size=60)
    board = Classifier().fit(X, y).leaderboard()
    assert max(board["accuracy"].to_list()) < 0.6
    assert min(board["log_loss"].to_list()) > 0.8


def test_probabilities_of_what_can_not_be_told_are_no_surer_than_they_should_be():
    X, _ = waves(60)
    y = np.random.default_rng(0).integers(3, size=60)
    likely = Classifier().fit(X, y).predict_proba(waves(60, seed=9)[0])
    assert likely.max(axis=1).mean() < 0.7


def test_many_cases_come_in_portions(monkeypatch):
    monkeypatch.setattr(portfolio, "MOST_EXACT", 40)
    X, y = waves(150)
    trained = Classifier().fit(X, y)
    assert set(trained.leaderboard()["name"]) == {"convolutions and shapelets", "quantiles", "vote"}
    assert trained.fitted_.cases == {"train": 150, "validation": 15}
    assert trained.score(*waves(45, seed=7)) > 0.9


@pytest.mark.parametrize(
    ("cases", "channels", "steps", "classes"), [(12, 1, 40, 2), (12, 4, 3, 3), (60, 100, 12, 2), (100, 1, 30, 50)]
)
def test_sets_of_every_shape_are_fitted(cases, channels, steps, classes):
    random = np.random.default_rng(0)
    y = np.arange(cases) % classes
    X = random.standard_normal((cases, channels, steps)) + y[:, None, None]
    trained = Classifier().fit(X, y)
    assert trained.predict_proba(X[:2]).shape == (2, classes)
    assert trained.score(X, y) > 0.5


def test_missing_values_rare_classes_and_single_cases_are_fitted():
    X, y = waves(40)
    X[3, 1] = np.nan
    X[5, 0, 4:9] = np.nan
    rare = np.where(np.arange(40) == 0, "alone", np.where(np.arange(40) % 8, y, "few"))
    trained = Classifier().fit(X, rare)
    assert "alone" in trained.classes_.tolist()
    assert np.isfinite(trained.predict_proba(X)).all()


def test_a_class_of_one_in_fifty_is_found():
    X, y = waves(1_500)
    some = np.concatenate([np.flatnonzero(y == "slow"), np.flatnonzero(y == "quick")[:10]])
    X = X + np.random.default_rng(3).standard_normal(X.shape)
    trained = Classifier().fit(X[some], y[some])
    T, u = waves(150, seed=7)
    told = trained.predict(T + np.random.default_rng(4).standard_normal(T.shape))
    assert min((told[u == label] == label).mean() for label in ("quick", "slow")) > 0.5


def test_what_can_not_be_told_apart_is_refused():
    X, y = waves(9)
    with pytest.raises(InputError, match="of one class"):
        portfolio.prepare(as_cases(X, ["same"] * 9), ClassifySpec())
    with pytest.raises(InputError, match="has 1 channel, but"):
        Classifier().fit(X, y).predict(X[:, :1])


def test_a_longer_case_is_told(trained, caplog):
    with caplog.at_level(logging.WARNING, "rearview"):
        trained.predict(waves(3, steps=50)[0])
    assert "only their last 40 steps count" in caplog.text


def test_the_manifest_is_plain_json(trained, tmp_path):
    trained.save(tmp_path)
    facts = json.loads((tmp_path / "classifier.json").read_text())
    assert facts["format"] == 2
    assert facts["request"]["model"] == "auto"
    assert [member["name"] for member in facts["portfolio"]["members"]] == list(trained.fitted_.members)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_what_a_cpu_gives():
    X, y = waves(30)
    likely = [Classifier(device=device).fit(X, y).predict_proba(X) for device in ("cpu", "cuda")]
    np.testing.assert_allclose(likely[0], likely[1], atol=0.05)
