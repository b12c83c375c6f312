"""The classifier as a person uses it: every kind of X, scores, parameters, a folder on disk."""

import json
import logging
import subprocess
import sys

import numpy as np
import pytest
from small_sets import SETTINGS, TRAINING, unequal, waves

import rearview as rv
from rearview import train
from rearview.core.errors import InputError, SettingsError
from rearview.estimators.classify.classifier import Classifier, NotFittedError


@pytest.fixture(scope="module")
def trained():
    X, y = waves()
    return Classifier(settings=SETTINGS, training=TRAINING).fit(unequal(X), y)


def test_it_learns_and_scores(trained):
    X, y = waves(45, seed=7)
    assert rv.Classifier is Classifier
    assert trained.classes_.tolist() == ["flat", "quick", "slow"]
    assert trained.score(X, y) > 0.85
    likely = trained.predict_proba(X)
    assert likely.shape == (45, 3)
    np.testing.assert_array_equal(trained.classes_[likely.argmax(axis=1)], trained.predict(X))
    assert trained.confusion(X, y).accuracy == trained.score(X, y)


def test_an_array_a_list_and_a_frame_get_the_same_answers(trained):
    pandas = pytest.importorskip("pandas")
    X, _ = waves(9, seed=5)
    rows = [
        {"id": case, "time": step, "one": X[case, 0, step], "two": X[case, 1, step]}
        for case in range(9)
        for step in range(40)
    ]
    frame = pandas.DataFrame(rows).sample(frac=1, random_state=0).sort_values("id", kind="stable")
    np.testing.assert_allclose(trained.predict_proba(X), trained.predict_proba(list(X)), atol=1e-6)
    np.testing.assert_allclose(trained.predict_proba(X), trained.predict_proba(frame), atol=1e-6)


def test_channels_of_a_frame_go_by_their_names(tmp_path):
    pandas = pytest.importorskip("pandas")

    def frame(X, y):
        steps = {"id": np.repeat(np.arange(len(X)), 40), "time": np.tile(np.arange(40), len(X))}
        return pandas.DataFrame({**steps, "one": X[:, 0].ravel(), "two": X[:, 1].ravel(), "kind": np.repeat(y, 40)})

    X, y = waves(30)
    X[:, 1] += 5
    whole = frame(X, y)
    classifier = Classifier(settings=SETTINGS, training={"epochs": 2}).fit(whole, "kind")
    likely = classifier.predict_proba(X)
    classifier.save(tmp_path)
    for model in (classifier, Classifier.load(tmp_path)):
        turned = whole[["kind", "two", "time", "one", "id"]]
        np.testing.assert_allclose(model.predict_proba(turned), likely, atol=1e-6)
        with pytest.raises(InputError, match="no column 'one', which the classifier was trained on"):
            model.predict(whole.rename(columns={"one": "other"}))
    again = classifier.fit(whole.rename(columns={"one": "other"}), "kind")
    assert again.fitted_.columns == ("other", "two")


def test_a_class_seen_only_in_the_test_is_an_error_and_is_reported(trained, caplog):
    X, y = waves(9, seed=5)
    known = trained.score(X, y)
    y = y.astype("U10")
    y[:3] = "unheard"
    with caplog.at_level(logging.WARNING, "rearview"):
        score = trained.score(X, y)
    assert score <= known
    assert "3 of 9 cases of X are of a class that training did not have ('unheard')" in caplog.text


@pytest.mark.parametrize("measure", ["score", "confusion"])
def test_classes_of_which_training_had_none_are_refused(measure):
    X, y = waves(24)
    numbers = np.unique(y, return_inverse=True)[1]
    classifier = Classifier(settings=SETTINGS, training={"epochs": 1}).fit(X, numbers)
    for given in (numbers.astype(str), numbers.astype(str).astype(object)):
        with pytest.raises(InputError, match=r"y holds '0', '1' and '2', and training had 0, 1 and 2; give y as it"):
            getattr(classifier, measure)(X, given)
    assert classifier.score(X, numbers.astype(float)) == classifier.score(X, numbers)


def test_one_class_seen_only_in_the_test_is_reported_in_its_number(trained, caplog):
    X, y = waves(9, seed=5)
    y = y.astype("U10")
    y[0] = "unheard"
    with caplog.at_level(logging.WARNING, "rearview"):
        trained.score(X, y)
    assert "1 of 9 cases of X is of a class that training did not have ('unheard'): it can't be predicted, and the" in (
        caplog.text
    )


def test_what_can_not_be_trained_is_refused_before_training(monkeypatch):
    monkeypatch.setattr(train, "fit", lambda *_, **__: pytest.fail("a training began"))
    X, y = waves(9)
    with pytest.raises(SettingsError, match="validation is 1"):
        Classifier(validation=1).fit(X, y)
    with pytest.raises(SettingsError, match="dlinear forecasts and can't classify"):
        Classifier("dlinear").fit(X, y)
    with pytest.raises(InputError, match="of one class"):
        Classifier().fit(X, ["same"] * 9)


def test_it_comes_back_from_disk_as_it_was(trained, tmp_path):
    X, _ = waves(9, seed=5)
    trained.save(tmp_path / "model")
    again = Classifier.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(again.predict_proba(X), trained.predict_proba(X))
    assert again.classes_.dtype == trained.classes_.dtype
    assert again.get_params()["settings"] == SETTINGS
    assert again.fitted_.history == trained.fitted_.history


@pytest.mark.parametrize("labels", [[3, 5, 9], [False, True, True], [1.0, 2.0, 4.0], ["ü", "b", "c"]])
def test_classes_of_every_kind_come_back_from_disk(tmp_path, labels):
    X, y = waves(12)
    y = np.array(labels)[np.unique(y, return_inverse=True)[1]]
    classifier = Classifier(settings=SETTINGS, training={"epochs": 1}, validation=0).fit(X, y)
    classifier.save(tmp_path)
    again = Classifier.load(tmp_path)
    assert again.classes_.tolist() == sorted(set(labels))
    assert again.predict(X).dtype == classifier.predict(X).dtype == y.dtype


def test_a_changed_folder_is_refused(trained, tmp_path):
    trained.save(tmp_path)
    path = tmp_path / "classifier.json"
    facts = json.loads(path.read_text())
    facts["classes"]["values"][0] = "other"
    path.write_text(json.dumps(facts))
    with pytest.raises(InputError, match="is damaged"):
        Classifier.load(tmp_path)
    with pytest.raises(InputError, match="holds no saved classifier"):
        Classifier.load(tmp_path / "elsewhere")


def test_nothing_can_be_asked_before_fitting():
    with pytest.raises(NotFittedError, match="has not been fitted"):
        Classifier().predict(np.ones((1, 1, 4)))
    assert issubclass(NotFittedError, SettingsError)


def test_parameters_can_be_read_and_changed():
    classifier = Classifier("itransformer", "toa", seed=3)
    assert classifier.get_params()["model"] == "itransformer"
    assert classifier.set_params(seed=4) is classifier
    assert classifier.get_params()["seed"] == 4
    with pytest.raises(SettingsError, match=r"Invalid parameter 'sed' .* Did you mean 'seed'"):
        classifier.set_params(sed=1)
    assert repr(classifier) == "Classifier(model='itransformer', attention='toa', seed=4)"


def test_labels_are_needed_where_something_is_learned_or_scored(trained):
    X, _ = waves(3)
    with pytest.raises(SettingsError, match="the target y is None"):
        Classifier().fit(X)
    with pytest.raises(SettingsError, match="score needs the true classes"):
        trained.score(X)


def test_weights_say_how_much_a_case_counts(trained):
    X, y = waves(9, seed=5)
    right = trained.predict(X) == y
    spoilt = np.where(np.arange(9) == 0, "unheard", y)
    assert trained.score(X, spoilt, np.arange(9) > 0) == pytest.approx(right[1:].mean())
    assert trained.score(X, spoilt, [1] + [0] * 8) == 0


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (np.zeros(9), "sample_weight is 0 for every case"),
        (np.ones(4), r"shape \(4,\), but X holds 9 cases"),
        ([1, -1, *[0] * 7], "below 0, NaN or infinity"),
        ([np.nan, *[1] * 8], "below 0, NaN or infinity"),
        (["much"] * 9, "does not hold numbers"),
    ],
)
def test_weights_by_which_no_mean_exists_are_refused(trained, weights, sentence):
    X, y = waves(9, seed=5)
    with pytest.raises(InputError, match=sentence):
        trained.score(X, y, weights)


def test_classes_of_mixed_type_are_refused_in_a_sentence():
    X, y = waves(6)
    mixed = y.astype(object)
    mixed[0] = 7
    with pytest.raises(InputError, match="have no order: they are of the type int and str"):
        Classifier(settings=SETTINGS, training={"epochs": 1}).fit(X, mixed)


def test_a_run_that_was_cut_off_is_taken_up_again(tmp_path):
    X, y = waves(30)
    path = tmp_path / "run.safetensors"
    asked = {"settings": SETTINGS, "training": {"epochs": 4}}
    whole = Classifier(**asked).fit(X, y)

    class Stop:
        """Ends the run after two epochs, as Ctrl-C does."""

        def begin(self, epochs, windows, done): ...
        def step(self, epoch, done, loss): ...
        def end(self): ...
        def epoch(self, epoch):
            if epoch.number == 2:
                raise KeyboardInterrupt

    cut = Classifier(**asked, progress=Stop()).fit(X, y, checkpoint=path)
    assert cut.fitted_.interrupted
    resumed = Classifier(**asked).fit(X, y, checkpoint=path, resume=True)
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))


def test_scikit_learn_is_not_needed_to_classify():
    program = (
        "import sys, numpy as np, rearview as rv;"
        "X = np.random.default_rng(0).standard_normal((6, 1, 12)); y = [0, 1] * 3;"
        "c = rv.Classifier(settings={'width': 8, 'heads': 2, 'depth': 1}, training={'epochs': 1}).fit(X, y);"
        "c.predict(X); print('sklearn' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("mark", [1e20, -9999.0, 1e300])
def test_a_value_that_stands_for_missing_is_masked_and_named(mark, tmp_path, caplog):
    X, y = waves(30)
    usual = Classifier(settings=SETTINGS, training=TRAINING).fit(X, y)
    X[3, 1, 5] = np.nan
    gap = Classifier(settings=SETTINGS, training=TRAINING).fit(X, y)
    X[3, 1, 5] = mark
    caplog.clear()
    marked = Classifier(settings=SETTINGS, training=TRAINING).fit(X, y)
    assert f"{mark:g} in 'channel 2' (1)" in caplog.text
    np.testing.assert_array_equal(marked.predict_proba(X), gap.predict_proba(X))
    marked.save(tmp_path)
    np.testing.assert_array_equal(Classifier.load(tmp_path).predict_proba(X), gap.predict_proba(X))
    if mark < 1e37:
        kept = usual.set_params(sentinels=None)
        assert (kept.predict_proba(X) != marked.predict_proba(X)).any()
        kept.save(tmp_path)
        assert Classifier.load(tmp_path).sentinels == []
    else:
        with pytest.raises(InputError, match="too large for float32"):
            usual.set_params(sentinels=None).predict(X)
