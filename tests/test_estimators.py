"""What the estimators share: settings to look at and copy, devices and progress refused before anything is read."""

import io
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rearview as rv
from rearview.core.errors import SettingsError

ESTIMATORS = [
    rv.Forecaster("dlinear", horizon=5, lookback=24, level=[80], training={"epochs": 1}, drop=["wind"]),
    rv.Detector("itransformer", lookback=24, settings={"width": 8, "heads": 2}, channels=["load"]),
]


def wave(rows: int = 160) -> pd.Series:
    """An hourly series by the hours of two weeks."""
    stamps = pd.date_range("2024-03-01", periods=rows, freq="h")
    return pd.Series(50 + 10 * np.sin(np.arange(rows) * 2 * np.pi / 24), index=stamps, name="load")


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_scikit_learn_can_clone_it(estimator: Any) -> None:
    base = pytest.importorskip("sklearn.base")
    copy = base.clone(estimator)
    assert copy is not estimator
    assert copy.get_params() == estimator.get_params()
    assert copy.spec == estimator.spec
    assert copy.reading == estimator.reading


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_its_repr_makes_it_again(estimator: Any) -> None:
    again = eval(repr(estimator), {"Forecaster": rv.Forecaster, "Detector": rv.Detector})
    assert again.get_params() == estimator.get_params()


def test_a_repr_tells_what_is_not_as_by_default() -> None:
    assert repr(rv.Forecaster("dlinear", horizon=7, drop=["x"])) == "Forecaster(model='dlinear', horizon=7, drop=['x'])"
    assert repr(rv.Detector()) == "Detector()"


def test_a_setting_is_changed_by_name_and_the_fit_forgotten() -> None:
    forecaster = rv.Forecaster("dlinear", horizon=5, lookback=24, training={"epochs": 1}).fit(wave())
    assert forecaster.set_params() is forecaster
    assert len(forecaster.predict()) == 5
    assert forecaster.set_params(horizon=3, freq="h") is forecaster
    assert forecaster.get_params()["horizon"] == forecaster.spec.horizon == 3
    assert forecaster.reading.to_json() == {"freq": "h"}
    with pytest.raises(SettingsError, match="has not been fitted"):
        forecaster.predict()


def test_a_setting_that_is_refused_changes_nothing() -> None:
    forecaster = rv.Forecaster("dlinear", horizon=5)
    with pytest.raises(SettingsError, match="horizon is 0"):
        forecaster.set_params(seed=3, horizon=0)
    with pytest.raises(SettingsError, match=r"Forecaster has no setting 'tim_col'\. Did you mean 'time_col'"):
        forecaster.set_params(seed=3, tim_col="when")
    assert (forecaster.spec.seed, forecaster.spec.horizon) == (0, 5)
    assert forecaster.get_params()["seed"] == 0


def test_a_pandas_series_is_a_frame_of_one_column() -> None:
    series = wave()
    asked = {"horizon": 5, "lookback": 24, "training": {"epochs": 1}}
    forecaster = rv.Forecaster("dlinear", **asked).fit(series)
    of_frame = rv.Forecaster("dlinear", **asked).fit(series.to_frame())
    pd.testing.assert_frame_equal(forecaster.predict(), of_frame.predict())
    pd.testing.assert_frame_equal(forecaster.predict(series[-60:]), of_frame.predict(series[-60:].to_frame()))
    nameless = rv.Forecaster("dlinear", **asked).fit(series.rename(None))
    assert "y-lo-80" in nameless.predict().columns


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("mps", "device is 'mps', which torch can't use here; use device='auto'"),
        ("meta", "device is 'meta', which torch can't use here"),
        ("cuda:1", "device is 'cuda:1', but torch sees "),
        ("gpu", "There is no device 'gpu'; use auto, cpu or cuda"),
    ],
)
@pytest.mark.parametrize("estimator", [rv.Forecaster, rv.Detector])
def test_a_device_that_is_not_there_is_quoted_before_anything_is_read(
    estimator: Any, device: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    if device == "mps" and torch.backends.mps.is_available():
        pytest.skip("this machine has it")
    with pytest.raises(SettingsError, match=words):
        estimator(device=device, **({"horizon": 5} if estimator is rv.Forecaster else {}))


def test_a_classifier_meets_its_device_before_the_cases() -> None:
    with pytest.raises(SettingsError, match="There is no device 'gpu'"):
        rv.Classifier(device="gpu").fit("no-such-file.csv", "label")


@pytest.mark.parametrize("count", [1, 2])
def test_a_cuda_device_beyond_those_that_torch_sees_is_refused(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    seen = "cuda:0 alone" if count == 1 else "cuda:0 to cuda:1"
    with pytest.raises(SettingsError, match=f"device is 'cuda:2', but torch sees {seen} here"):
        rv.Forecaster(horizon=5, device="cuda:2")


def test_progress_true_is_a_line_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    rv.Forecaster("dlinear", horizon=5, lookback=24, training={"epochs": 2}, progress=True).fit(wave())
    assert "epoch 1/2" in screen.getvalue()


@pytest.mark.parametrize("estimator", [rv.Forecaster, rv.Detector])
def test_what_can_not_follow_a_run_is_refused(estimator: Any) -> None:
    with pytest.raises(SettingsError, match="progress is 'bar'; it is True for a line on the terminal"):
        estimator(progress="bar", **({"horizon": 5} if estimator is rv.Forecaster else {}))
