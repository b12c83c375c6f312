"""Saved portfolios whose parts contradict each other: one sentence that names the part."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load, save

from rearview import Classifier, Detector, Forecaster
from rearview.core.errors import InputError, SettingsError
from rearview.core.model_folder import checksum

Change = Callable[[dict[str, Any], dict[str, torch.Tensor]], object]


def edit(folder: Path, change: Change) -> None:
    """Change the facts and tensors of a saved model, checksums included."""
    [manifest], [weights] = folder.glob("*.json"), folder.glob("weights-*")
    facts, tensors = json.loads(manifest.read_text()), load(weights.read_bytes())
    change(facts, tensors)
    content = save(tensors)
    weights.write_bytes(content)
    facts = {**facts, "sha256": hashlib.sha256(content).hexdigest()}
    del facts["checksum"]
    manifest.write_text(json.dumps({**facts, "checksum": checksum(facts)}))


def frame() -> pd.DataFrame:
    steps = np.arange(60)
    promo = steps % 5 == 0
    dates = pd.date_range("2024-01-01", periods=60, freq="D")
    return pd.DataFrame({"date": dates, "y": np.sin(steps) + 2.0 * promo, "promo": promo.astype(float)})


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    Forecaster(horizon=3, known=["promo"], device="cpu").fit(frame(), quick=True).save(folder / "forecaster")
    small = {"settings": {"width": 8, "heads": 1, "depth": 1}, "training": {"epochs": 1}}
    Detector(lookback=8, device="cpu", **small).fit(frame()).save(folder / "detector")  # type: ignore[arg-type]
    Detector(lookback=8, device="cpu").fit(frame()).save(folder / "detectors")
    cases = np.random.default_rng(0).normal(size=(6, 2, 12))
    Classifier("patchtst", device="cpu", **small).fit(cases, ["a", "b"] * 3).save(folder / "classifier")  # type: ignore[arg-type]
    return folder


def set_tensor(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    """A change of the first tensor whose name ends so."""

    def apply(_: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        whole = next(key for key in sorted(tensors) if key.endswith(name))
        tensors[whole] = change(tensors[whole]).contiguous()

    return apply


CHANGES: dict[str, tuple[str, Change, str]] = {
    "a horizon": ("forecaster", lambda facts, _: facts["request"].update(horizon=6), "forecasts 6 steps of 1 columns"),
    "an axis": ("forecaster", set_tensor("coefficients", lambda one: one[None]), "coefficients is of shape"),
    "a kind": ("forecaster", set_tensor("factor", lambda one: one.double()), "factor is of type float64"),
    "known inputs": (
        "forecaster",
        lambda facts, _: next(one for one in facts["members"] if one["kind"] == "effects").update(known=2),
        "2 of them known",
    ),
    "a divisor": ("detector", set_tensor("usual", torch.zeros_like), "usual is not above 0 everywhere"),
    "a deviation": ("classifier", set_tensor("std", lambda one: torch.stack([one] * 3)), "std is of shape"),
    "no deviation": ("classifier", set_tensor("std", torch.zeros_like), "std is not above 0 everywhere"),
    "groups": ("detectors", set_tensor("portfolio.groups", lambda one: one + 1), "are of 2 groups, and"),
    "a window": ("detectors", lambda facts, _: facts["portfolio"].update(window=10**9), "nothing in it is that large"),
    "a longer window": ("detectors", lambda facts, _: facts["portfolio"].update(window=9), "does not fit this version"),
    "stamps": ("forecaster", set_tensor("tail.stamps", lambda one: one.double()), "tail.stamps is of type float64"),
}  # fmt: skip


LOADERS: dict[str, Callable[[Path], object]] = {
    "classifier": Classifier.load,
    "detector": Detector.load,
    "detectors": Detector.load,
    "forecaster": Forecaster.load,
}


@pytest.mark.parametrize("name", CHANGES)
def test_parts_that_contradict_each_other_are_refused(name: str, fitted: Path, tmp_path: Path) -> None:
    kind, change, sentence = CHANGES[name]
    shutil.copytree(fitted / kind, tmp_path / kind)
    edit(tmp_path / kind, change)
    with pytest.raises(InputError, match=sentence) as refused:
        LOADERS[kind](tmp_path / kind)
    assert "save the model again" in str(refused.value)


def test_a_fill_value_among_inputs_ahead_is_refused(fitted: Path) -> None:
    forecaster = Forecaster.load(fitted / "forecaster")
    ahead = pd.DataFrame({"date": pd.date_range("2024-03-01", periods=3), "promo": [0.0, 1.0, 0.0]})
    assert np.isfinite(forecaster.predict(future=ahead).select_dtypes("number")).all(axis=None)
    for mark in (-9999.0, 1e20):
        with pytest.raises(InputError, match=r"'promo' is .* at 2024-03-02, which stands for missing"):
            forecaster.predict(future=ahead.assign(promo=[0.0, mark, 0.0]))


def test_new_rows_far_from_those_of_training_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    rows = frame()[["date", "y"]]
    forecaster = Forecaster("glance", horizon=3, device="cpu").fit(rows)
    forecaster.predict(rows)
    assert "those of training" not in caplog.text
    rows.loc[59, "y"] = 1e9
    forecaster.predict(rows)
    assert "standard deviations from those of training" in caplog.text


def test_values_are_kept_where_none_stands_for_missing() -> None:
    rows = frame()[["date", "y"]]
    rows.loc[20, "y"] = 1e20
    kept = Forecaster("seasonal_naive", horizon=3, sentinels=None, device="cpu").fit(rows)
    assert [finding.what for finding in kept.findings if finding.what == "sentinels"] == []


@pytest.mark.parametrize("marks", [["none"], {"auto": 1}])
def test_marks_of_missing_values_that_are_no_numbers_are_refused(marks: Any) -> None:
    with pytest.raises(SettingsError, match="it can be auto, marks, or several numbers"):
        Forecaster("seasonal_naive", horizon=3, sentinels=marks, device="cpu").fit(frame()[["date", "y"]])
    with pytest.raises(SettingsError, match="it can be auto, marks, or several numbers"):
        Classifier(sentinels=marks, device="cpu").fit(np.ones((4, 1, 8)), ["a", "b"] * 2)


def test_a_forecast_that_is_not_finite_is_refused_whoever_makes_it() -> None:
    rows = frame()[["date", "y"]].assign(y=[1.0, 2.0] * 27 + [1.0] + [1e35 * step for step in range(1, 6)])
    model = Forecaster("ridge", horizon=3, transform="log1p", sentinels=None, device="cpu").fit(rows)
    with pytest.raises(InputError, match="'y' is not a finite number"):
        model.predict(level=[80])
