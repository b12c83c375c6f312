"""What a detector says of rows, labels and settings that it can't use."""

import numpy as np
import pandas as pd
import pytest
from sensors import broken, detector, ordinary

from rearview.core.errors import InputError, SettingsError
from rearview.estimators.detect.detector import Detector


@pytest.fixture(scope="module")
def fitted() -> Detector:
    return detector(label_col="label").fit(ordinary())


def test_a_setting_of_another_kind_is_refused() -> None:
    with pytest.raises(SettingsError, match="itransformer: width is 'wide'; it must be a whole number"):
        detector(settings={"width": "wide"}).fit(ordinary())


def empty_channel() -> pd.DataFrame:
    return ordinary().assign(heat=np.nan)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (lambda: ordinary(20), "a window takes 24 rows, but the longest has 20"),
        (empty_channel, "channel 'heat' has no value in any row"),
        (lambda: ordinary()[["date"]], "no column"),
    ],
)
def test_rows_that_can_not_be_learned_from_are_refused(frame, words: str) -> None:
    with pytest.raises(InputError, match=words):
        detector().fit(frame())


def test_new_rows_that_do_not_fit_are_refused(fitted: Detector) -> None:
    with pytest.raises(InputError, match="has no column of numbers 'heat'"):
        fitted.score(broken().drop(columns="heat"))
    with pytest.raises(InputError, match=r"row 0, column 'heat' holds text \('warm'\) .*; the model was trained on"):
        fitted.score(broken().assign(heat="warm"))
    with pytest.raises(InputError, match="column 'heat', which the detector looks at, holds text"):
        detector(channels=["heat"]).fit(ordinary().assign(heat="warm"))
    minutes = broken()
    minutes["date"] = pd.date_range("2024-01-01", periods=len(minutes), freq="min")
    with pytest.raises(InputError, match="trained on steps of h"):
        fitted.score(minutes)
    with pytest.raises(SettingsError, match="has not been fitted"):
        detector().score(broken())


def test_labels_that_do_not_match_are_refused(fitted: Detector) -> None:
    frame = broken()
    with pytest.raises(InputError, match="7 labels for 200 rows"):
        fitted.evaluate(frame, np.zeros(7))
    with pytest.raises(InputError, match="holds 3 at"):
        fitted.evaluate(frame.assign(label=3))
    with pytest.raises(InputError, match="The labels hold 2"):
        fitted.evaluate(frame, np.full(200, 2.0))
    with pytest.raises(InputError, match="has no column of numbers 'label' to take labels from"):
        fitted.evaluate(frame.drop(columns="label"))
    with pytest.raises(InputError, match=r"has no column of numbers 'lable'.*Did you mean 'label'\? It has .*'heat'"):
        fitted.evaluate(frame, labels="lable")
    with pytest.raises(InputError, match="column 'verdict', which is to hold the labels, holds text; a label is 1"):
        fitted.evaluate(frame.assign(verdict="fine"), labels="verdict")
    with pytest.raises(InputError, match=r"no column of numbers 'zz' to take labels from\. It has"):
        fitted.evaluate(fitted.read(frame)[0], labels="zz")
    unlabelled = Detector()
    unlabelled._fitted = fitted.fitted
    with pytest.raises(InputError, match="has no labels: name their column"):
        unlabelled.evaluate(frame.drop(columns="label"))
