"""Scores of classes, held against scikit-learn's."""

import numpy as np
import pytest

from rearview.tasks.confusion import Confusion, commonest_accuracy

metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn, which the dev extra installs")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("classes", [2, 5, 13])
def test_scores_are_scikit_learns(seed, classes):
    random = np.random.default_rng(seed)
    truth = random.integers(0, classes, 40)
    said = np.where(random.random(40) < 0.6, truth, random.integers(0, classes, 40))
    known = np.arange(classes)
    found = Confusion.of(truth, said, known)
    np.testing.assert_array_equal(found.counts, metrics.confusion_matrix(truth, said, labels=known))
    assert found.accuracy == pytest.approx(metrics.accuracy_score(truth, said))
    assert found.macro_f1 == pytest.approx(metrics.f1_score(truth, said, average="macro", zero_division=0))
    wanted = metrics.precision_recall_fscore_support(truth, said, labels=known, zero_division=0)
    ours = [(one.precision, one.recall, one.f1, one.cases) for one in found.by_class()]
    np.testing.assert_allclose(np.array(ours).T, wanted)


def test_the_commonest_class_of_training_is_judged_by_the_mean_of_those_that_tie():
    truth = np.array(["a", "b", "b", "c", "c", "c"])
    assert commonest_accuracy(np.array(["a", "b", "a", "c"]), truth) == pytest.approx(1 / 6)
    assert commonest_accuracy(np.array(["a", "b", "b", "a"]), truth) == pytest.approx(1.5 / 6)
    assert commonest_accuracy(np.array(["z"]), truth) == 0


def test_a_class_that_only_the_truth_has_counts_as_error():
    truth, said = np.array(["a", "b", "z", "z"]), np.array(["a", "b", "a", "b"])
    found = Confusion.of(truth, said, np.array(["a", "b"]))
    assert found.labels == ("a", "b", "z")
    assert found.accuracy == 0.5
    assert found.by_class()[2].recall == 0
    assert found.macro_f1 == pytest.approx(metrics.f1_score(truth, said, average="macro", zero_division=0))


def test_a_class_that_never_occurs_does_not_count_in_the_mean():
    found = Confusion.of(np.array([0, 1]), np.array([0, 1]), np.arange(3))
    assert found.macro_f1 == 1.0
